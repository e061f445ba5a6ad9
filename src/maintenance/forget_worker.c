/*
 * forget_worker.c
 *		Removal of unreferenced rows of workers.
 *
 * Tasks and changes of states reference their worker by number.  A
 * registration that ended longer ago than taskq.retention, and a label that
 * has not been used for two hours, are removed when none of these references
 * them:
 *
 * - a live task: only running tasks have a worker.
 * - a task in archive_keep: there is an index on the worker.
 * - a task in a rotating leaf, or a change of a state: there is no index, as
 *	 it would slow every finish.  But all references to a worker in these
 *	 leaves date from before its end, or within two hours of the time in its
 *	 label, and the leaves are emptied in the order of time.  So they do not
 *	 reference a worker whose last use was two hours before their oldest row.
 * - a task or a change that is not visible yet: its transaction began before
 *	 the worker's end, or found the label in use.  So the last use must be two
 *	 hours before the oldest transaction began.
 *
 * The row of a label has the hour in which it last claimed (engine/worker.c);
 * this file updates it for labels that hold tasks.
 *
 * Rows are processed in the order of their numbers, in batches, each of which
 * continues where the last one ended.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "engine/worker.h"
#include "maintenance/forget_worker.h"
#include "maintenance/orphan.h"

/* The oldest row of a rotating leaf, and the oldest prepared transaction. */
static TqStmt stmt_oldest = {
	"SELECT least((SELECT min(finished_at) FROM taskq.archive"
	"               WHERE bucket < 16),"
	"             (SELECT min(at) FROM taskq.transition),"
	"             (SELECT min(p.prepared) FROM pg_prepared_xacts p"
	"                JOIN pg_database d ON d.datname = p.database"
	"               WHERE d.oid = $1))",
	{OIDOID}};

#define USE_LABELS                                                            \
	"UPDATE taskq.worker SET registered_at = $1"                              \
	" WHERE worker_id IN (SELECT w.worker_id FROM taskq.worker w"             \
	"                      WHERE w.state = " TQ_SQL_WORKER_LABEL              \
	"                        AND w.registered_at < $2"                        \
	"                        AND w.worker_id = ANY ("

static TqStmt stmt_use_labels = {
	USE_LABELS "$3) FOR UPDATE SKIP LOCKED)",
	{TIMESTAMPTZOID, TIMESTAMPTZOID, INT4ARRAYOID}};

/* If the running-task table may be incomplete. */
static TqStmt stmt_use_labels_of_all = {
	USE_LABELS "ARRAY(SELECT t.worker_id FROM taskq.task t"
			   "       WHERE t.state = " TQ_SQL_STATE_RUNNING "))"
			   " FOR UPDATE SKIP LOCKED)",
	{TIMESTAMPTZOID, TIMESTAMPTZOID}};

/* A transaction that has locked a label uses it. */
static TqStmt stmt_forget = {
	"WITH old AS MATERIALIZED (SELECT w.worker_id FROM taskq.worker w"
	"   WHERE w.worker_id > $1 AND w.state <> " TQ_SQL_WORKER_ACTIVE
	"     AND CASE WHEN w.state = " TQ_SQL_WORKER_LABEL
	"              THEN w.registered_at < $2"
	"              ELSE w.ended_at < $2 AND w.ended_at < $3 END"
	"   ORDER BY w.worker_id LIMIT $4),"
	" kept_by_none AS MATERIALIZED (SELECT o.worker_id FROM old o"
	"   WHERE NOT EXISTS (SELECT FROM taskq.archive_keep k"
	"                      WHERE k.worker_id = o.worker_id"
	"                        AND k.worker_id <> 0)),"
	" held_by_none AS MATERIALIZED (SELECT n.worker_id FROM kept_by_none n"
	"   WHERE NOT EXISTS (SELECT FROM taskq.task t"
	"                      WHERE t.worker_id = n.worker_id)),"
	" locked AS MATERIALIZED (SELECT w.worker_id FROM taskq.worker w"
	"   WHERE w.worker_id = ANY (ARRAY(SELECT n.worker_id"
	"                                    FROM held_by_none n))"
	"     AND coalesce(w.ended_at, w.registered_at) < $2"
	"     FOR UPDATE SKIP LOCKED),"
	" gone AS (DELETE FROM taskq.worker w USING locked l"
	"   WHERE w.worker_id = l.worker_id RETURNING w.worker_id, w.queues),"
	" looked (last, count) AS (SELECT max(worker_id), count(*) FROM old)"
	"SELECT l.last, l.count, g.worker_id IS NOT NULL, g.queues"
	"  FROM looked l LEFT JOIN gone g ON true",
	{INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT4OID}};

/* The next batch begins after this number. */
static int32 forget_after = 0;

static void        use_labels(TimestampTz now);
static Datum       holders(void);
static TimestampTz oldest_of_interest(TimestampTz now);

int64
tq_forget_worker_batch(int limit)
{
	TimestampTz now = tq_clock_wall();
	TqSpi       spi;
	Datum       args[4];
	uint64      rows;
	Datum      *queues;
	int64       looked;
	int64       removed = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	tq_spi_enter(&spi);
	use_labels(now);
	args[0] = Int32GetDatum(forget_after);
	args[1] = TimestampTzGetDatum(oldest_of_interest(now) - TQ_LABEL_KEPT);
	args[2] =
		TimestampTzGetDatum(now - (int64) tq_guc_retention * USECS_PER_SEC);
	args[3] = Int32GetDatum(limit);
	rows = tq_spi_run(&stmt_forget, args, NULL, SPI_OK_SELECT, 0);
	queues = MemoryContextAlloc(spi.caller, sizeof(Datum) * rows);
	looked = tq_spi_int8(0, 2, 0);
	forget_after = looked < limit ? 0 : tq_spi_int4(0, 1, 0);
	for (uint64 i = 0; i < rows && tq_spi_bool(i, 3); i++)
		queues[removed++] = tq_spi_array(&spi, i, 4);
	tq_spi_leave(&spi);
	for (int64 i = 0; i < removed; i++)
		tq_worker_count(queues[i], TQ_METRIC_WORKERS_CLEANED);
	if (removed > 0)
		tq_catalog_announce_worker();
	PopActiveSnapshot();
	return removed;
}

/* Did the last batch end before the last row? */
bool
tq_forget_worker_more(void)
{
	return forget_after != 0;
}

/* Labels that hold tasks are in use: update their rows. */
static void
use_labels(TimestampTz now)
{
	Datum args[3];

	args[0] = TimestampTzGetDatum(now);
	args[1] = TimestampTzGetDatum(now - USECS_PER_HOUR);
	if (!tq_running_complete())
	{
		tq_spi_run(&stmt_use_labels_of_all, args, NULL, SPI_OK_UPDATE, 0);
		return;
	}
	args[2] = holders();
	tq_spi_run(&stmt_use_labels, args, NULL, SPI_OK_UPDATE, 0);
}

/* The workers of the running-task table, as integer[]. */
static Datum
holders(void)
{
	int        count;
	TqRunning *all = tq_running_all(&count);
	int32     *workers;
	Datum     *numbers;

	count = tq_orphan_holders(all, count, &workers);
	numbers = palloc_extended(sizeof(Datum) * (count + 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
		numbers[i] = Int32GetDatum(workers[i]);
	pfree(workers);
	pfree(all);
	return PointerGetDatum(construct_array(numbers, count, INT4OID,
										   sizeof(int32), true, TYPALIGN_INT));
}

static TimestampTz
oldest_of_interest(TimestampTz now)
{
	TimestampTz oldest = tq_compat_oldest_transaction(MyDatabaseId, now);
	Datum       arg = ObjectIdGetDatum(MyDatabaseId);
	TimestampTz other;

	tq_spi_look(&stmt_oldest, &arg, NULL, 1);
	other = tq_spi_time(0, 1, oldest);
	return Min(oldest, other);
}
