/*
 * bound_worker.c
 *		Workers bound to a connection.
 *
 * A row of taskq.worker names the session to which its worker is bound
 * (shared/session_end.c).  When the session has ended, the worker is declared
 * dead, and its tasks are reclaimed like those of any dead worker
 * (maintenance/orphan.c).
 *
 * The duty reads the rows of bound workers that are alive, then checks which
 * of their sessions have ended, in this order, since a registration creates
 * its session entry before its row becomes visible.  Then it ends each row
 * that is unchanged; a worker that has been bound or registered again in the
 * meantime is unaffected.  A row that an open transaction is changing is
 * skipped and checked again after a pause, so that one transaction cannot
 * delay the reclaim of other workers' tasks.
 *
 * A prepared transaction outlives its session, and would bind a worker to a
 * session that has ended, so PREPARE TRANSACTION is refused (xact/xact.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/spi.h"
#include "engine/worker.h"
#include "maintenance/bound_worker.h"
#include "shared/session_end.h"
#include "xact/xact.h"

#define RETRY_FIRST (50 * INT64CONST(1000)) /* us, after a locked row */
#define RETRY_LAST USECS_PER_SEC

typedef struct Bound
{
	int32 worker_id;
	int64 instance;
	int64 session;
} Bound;

static TqStmt stmt_bound = {
	"SELECT worker_id, bound_instance, bound_session FROM taskq.worker"
	" WHERE state = " TQ_SQL_WORKER_ACTIVE " AND bound_session IS NOT NULL"
	" ORDER BY worker_id"};

static TqStmt stmt_end = {
	"UPDATE taskq.worker SET state = " TQ_SQL_WORKER_DEAD ", ended_at = $4"
	" WHERE worker_id = (SELECT w.worker_id FROM taskq.worker w"
	"                     WHERE w.worker_id = $1"
	"                       AND w.state = " TQ_SQL_WORKER_ACTIVE
	"                       AND w.bound_instance = $2"
	"                       AND w.bound_session = $3"
	"                       FOR UPDATE SKIP LOCKED)"
	" RETURNING queues",
	{INT4OID, INT8OID, INT8OID, TIMESTAMPTZOID}};

/* In the background worker: sessions that had ended before the last check. */
static uint64 ends_seen = 0;

/* The next check in any case (dispatch clock), and the pause after it. */
static TimestampTz look_at = 0;

static int64 retry_pause = RETRY_FIRST;

static uint64 read_gone(Bound **gone);
static bool   end_bound(const Bound *bound);

/*
 * Declare at most limit workers dead whose session has ended; returns their
 * number.
 */
int64
tq_bound_worker_end_gone(int limit)
{
	uint64 ends = tq_session_end_count();
	Bound *gone;
	uint64 count;
	uint64 looked_at = 0;
	int64  acted = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	count = read_gone(&gone);
	TQ_DEBUG_POINT("bound_looked");
	for (; looked_at < count && acted < limit; looked_at++)
	{
		if (end_bound(&gone[looked_at]))
			acted++;
	}
	PopActiveSnapshot();
	pfree(gone);

	ends_seen = ends;
	if (acted > 0)
		retry_pause = RETRY_FIRST;
	if (looked_at < count)
		look_at = tq_clock_dispatch();
	else if (acted < count)
	{
		look_at = tq_clock_dispatch() + retry_pause;
		retry_pause = Min(retry_pause * 2, RETRY_LAST);
	}
	else
		look_at = DT_NOEND;
	return acted;
}

/* Has a session ended since the last check, or is the next check due? */
bool
tq_bound_worker_is_due(void)
{
	return tq_session_end_count() != ends_seen ||
		   look_at <= tq_clock_dispatch();
}

/* When the next check is due, if no session ends before that. */
TimestampTz
tq_bound_worker_next(void)
{
	return look_at;
}

/* The last run failed: repeat it after a pause. */
void
tq_bound_worker_failed(void)
{
	look_at = tq_clock_dispatch() + RETRY_LAST;
}

/*
 * The live workers whose sessions have ended, in the caller's memory context.
 */
static uint64
read_gone(Bound **gone)
{
	uint64 rows;
	uint64 count = 0;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_bound, NULL, NULL, 0);
	*gone = MemoryContextAllocHuge(spi.caller, sizeof(Bound) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		Bound *bound = &(*gone)[count];

		bound->worker_id = tq_spi_int4(i, 1, 0);
		bound->instance = tq_spi_int8(i, 2, 0);
		bound->session = tq_spi_int8(i, 3, 0);
		if (tq_session_end_has_ended(bound->instance, bound->session))
			count++;
	}
	tq_spi_leave(&spi);
	return count;
}

/* Returns false if the row has changed, or is being changed. */
static bool
end_bound(const Bound *bound)
{
	Datum args[4];
	Datum queues;

	args[0] = Int32GetDatum(bound->worker_id);
	args[1] = Int64GetDatum(bound->instance);
	args[2] = Int64GetDatum(bound->session);
	args[3] = TimestampTzGetDatum(tq_clock_wall());
	if (!tq_worker_end_row(&stmt_end, args, &queues))
		return false;
	tq_xact_note(TQ_NOTE_WORKER_GONE, bound->worker_id);
	tq_worker_count(queues, TQ_METRIC_WORKERS_DIED);
	tq_catalog_announce_worker();
	return true;
}
