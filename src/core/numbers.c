/*
 * numbers.c
 *		How many tasks a queue has, for the view of queues.
 *
 * Live tasks are counted in shared memory (shared/counter.c).  Where that is
 * not there, or on a standby, rows are counted.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/spi.h"
#include "core/dispatch.h"
#include "core/limit.h"
#include "core/role.h"
#include "shared/registry.h"

PG_FUNCTION_INFO_V1(taskq_queue_numbers);

static TqStmt stmt_live = {"SELECT count(*) FILTER (WHERE state = 1),"
						   "       count(*) FILTER (WHERE state = 2),"
						   "       count(*) FILTER (WHERE state = 3),"
						   "       count(*) FILTER (WHERE state = 4)"
						   "  FROM taskq.task WHERE queue_id = $1",
						   1,
						   {INT4OID},
						   NULL};

static TqStmt stmt_not_due = {
	"SELECT count(*) FROM taskq.task"
	" WHERE wake_at > $2 AND queue_id = $1 AND state = 1",
	2,
	{INT4OID, TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_workers = {
	"SELECT count(DISTINCT worker_id) FROM taskq.task"
	" WHERE queue_id = $1 AND state = 3 AND worker_id <> 0",
	1,
	{INT4OID},
	NULL};

static void  count_live(int32 queue_id, int64 *live);
static int64 count_not_due(int32 queue_id);
static int64 count_workers(int32 queue_id);
static int   compare_workers(const void *a, const void *b);

/*
 * (pending, ready, blocked, running, suspended, oldest_ready_age,
 * active_workers) of a queue that current_user may read, else nulls.
 */
Datum
taskq_queue_numbers(PG_FUNCTION_ARGS)
{
	TupleDesc   desc;
	Datum       values[7] = {0};
	bool        nulls[7];
	TqQueue    *queue = NULL;
	int64       live[TQ_LIVE_STATES];
	TqCall      call = {{0}};
	TimestampTz oldest;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	memset(nulls, true, sizeof(nulls));
	tq_queue_refresh();
	if (!PG_ARGISNULL(0))
		queue = tq_queue_by_id(PG_GETARG_INT32(0));
	if (queue != NULL && (has_privs_of_role(GetUserId(), ROLE_PG_MONITOR) ||
						  (tq_role_rights(queue) & TQ_RIGHT_READ) != 0))
	{
		memset(nulls, false, sizeof(nulls));
		count_live(queue->queue_id, live);
		values[0] = Int64GetDatum(live[0]);
		values[1] =
			Int64GetDatum(Max(live[0] - count_not_due(queue->queue_id), 0));
		values[2] = Int64GetDatum(live[1]);
		values[3] = Int64GetDatum(live[2]);
		values[4] = Int64GetDatum(live[3]);
		call.task.rel =
			tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
		nulls[5] = !tq_dispatch_oldest(&call, queue, &oldest);
		table_close(call.task.rel, AccessShareLock);
		if (!nulls[5])
			values[5] = DirectFunctionCall2(
				timestamp_mi, TimestampTzGetDatum(tq_clock_dispatch()),
				TimestampTzGetDatum(oldest));
		values[6] = Int64GetDatum(count_workers(queue->queue_id));
	}
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

static void
count_live(int32 queue_id, int64 *live)
{
	Datum arg = Int32GetDatum(queue_id);
	TqSpi spi;

	if (tq_limit_live(queue_id, live))
		return;
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_live, &arg, NULL, 1);
	for (int i = 0; i < TQ_LIVE_STATES; i++)
		live[i] = tq_spi_int8(0, i + 1, 0);
	tq_spi_leave(&spi);
}

/* Pending tasks whose time has not come. */
static int64
count_not_due(int32 queue_id)
{
	Datum args[2];
	int64 count;
	TqSpi spi;

	args[0] = Int32GetDatum(queue_id);
	args[1] = TimestampTzGetDatum(tq_clock_dispatch());
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_not_due, args, NULL, 1);
	count = tq_spi_int8(0, 1, 0);
	tq_spi_leave(&spi);
	return count;
}

/* Workers that hold a task of the queue. */
static int64
count_workers(int32 queue_id)
{
	Datum      arg = Int32GetDatum(queue_id);
	int64      workers = 0;
	TqRunning *running;
	int        count;
	int        kept = 0;
	TqSpi      spi;

	if (!tq_registry_complete())
	{
		tq_spi_enter(&spi);
		tq_spi_look(&stmt_workers, &arg, NULL, 1);
		workers = tq_spi_int8(0, 1, 0);
		tq_spi_leave(&spi);
		return workers;
	}
	count = tq_registry_count() + 64; /* some more may come meanwhile */
	running = palloc_extended(sizeof(TqRunning) * count, MCXT_ALLOC_HUGE);
	count = tq_registry_list(running, count);
	for (int i = 0; i < count; i++)
	{
		if (running[i].queue_id == queue_id && running[i].worker_id != 0)
			running[kept++] = running[i];
	}
	qsort(running, kept, sizeof(TqRunning), compare_workers);
	for (int i = 0; i < kept; i++)
	{
		if (i == 0 || running[i].worker_id != running[i - 1].worker_id)
			workers++;
	}
	pfree(running);
	return workers;
}

static int
compare_workers(const void *a, const void *b)
{
	int32 x = ((const TqRunning *) a)->worker_id;
	int32 y = ((const TqRunning *) b)->worker_id;

	return x < y ? -1 : x > y;
}
