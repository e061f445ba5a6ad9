/*
 * expire.c
 *		Removes instances whose retention has expired.
 *
 * Everything that belongs to an instance is removed: its steps, including
 * those that still wait for a failed step, its compensations, edges, timers
 * and signals, and at last its row.  Because that may take many transactions,
 * the instance is first marked by an expires_at of -infinity.  From then on
 * other calls do not see it (tq_flow_read), and its steps do not change.  A
 * call that changes a step of an ended instance locks the instance's row
 * (tq_flow_keep), so that the instance is not marked in the meantime; calls
 * that come after the mark wait for it.
 *
 * An instance is not marked while one of its steps is live, for example
 * because it was running when the instance was cancelled, or is dead and holds
 * its key.
 *
 * The duty never waits: it skips locked rows until its next run.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/spi.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/state.h"
#include "flow/run/expire.h"
#include "shared/leaf_change.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "xact/metric_note.h"

/* Flag 8 is TQ_FLAG_IN_LINE. */
static TqStmt stmt_mark = {
	"UPDATE taskq.workflow w SET expires_at = '-infinity', identity = NULL"
	" WHERE w.workflow_id = ANY (ARRAY("
	"   SELECT e.workflow_id FROM taskq.workflow e"
	"    WHERE e.expires_at <= $1 AND e.expires_at > '-infinity'"
	"      AND NOT EXISTS (SELECT FROM taskq.task t"
	"                       WHERE t.workflow_id = e.workflow_id"
	"                         AND (t.state <> " TQ_SQL_STATE_BLOCKED
	"                              OR t.flags & 8 <> 0))"
	"      AND NOT EXISTS (SELECT FROM taskq.archive_keep k"
	"                       WHERE k.workflow_id = e.workflow_id"
	"                         AND " TQ_HOLDS_KEY(
		"k") ")"
			 "    ORDER BY e.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))",
	{TIMESTAMPTZOID, INT4OID}};

#define MARKED                                                                \
	"WITH over AS MATERIALIZED (SELECT w.workflow_id FROM taskq.workflow w"   \
	"   WHERE w.expires_at = '-infinity' LIMIT $1)"

static TqStmt stmt_waiting = {
	MARKED "SELECT t.task_id FROM over o JOIN taskq.task t USING (workflow_id)"
		   " WHERE t.state = " TQ_SQL_STATE_BLOCKED
		   " LIMIT $1 FOR UPDATE OF t SKIP LOCKED",
	{INT4OID}};

static TqStmt stmt_timers = {
	"DELETE FROM taskq.timer WHERE task_id = ANY ($1)", {INT8ARRAYOID}};

static TqStmt stmt_finished = {
	MARKED ", chosen AS MATERIALIZED (SELECT k.task_id FROM over o"
		   "   JOIN taskq.archive_keep k USING (workflow_id) LIMIT $1"
		   "   FOR UPDATE OF k SKIP LOCKED),"
		   " gone AS (DELETE FROM taskq.archive_keep k USING chosen c"
		   "   WHERE k.task_id = c.task_id"
		   "   RETURNING k.task_id, k.large, k.queue_id),"
		   " parts AS (DELETE FROM taskq.large l USING gone g"
		   "   WHERE g.large <> 0 AND l.task_id = g.task_id),"
		   " timers AS (DELETE FROM taskq.timer r USING gone g"
		   "   WHERE r.task_id = g.task_id)"
		   "SELECT count(*), queue_id FROM gone GROUP BY queue_id",
	{INT4OID}};

static TqStmt stmt_edges = {
	MARKED ", chosen AS MATERIALIZED (SELECT e.workflow_id, e.child, e.parent"
		   "   FROM over o JOIN taskq.edge e USING (workflow_id) LIMIT $1"
		   "   FOR UPDATE OF e SKIP LOCKED),"
		   " gone AS (DELETE FROM taskq.edge e USING chosen c"
		   "   WHERE e.workflow_id = c.workflow_id AND e.child = c.child"
		   "     AND e.parent = c.parent RETURNING 1)"
		   "SELECT count(*) FROM gone",
	{INT4OID}};

static TqStmt stmt_instances = {
	MARKED ", bare AS MATERIALIZED (SELECT w.workflow_id FROM over o"
		   "   JOIN taskq.workflow w USING (workflow_id)"
		   "  WHERE NOT EXISTS (SELECT FROM taskq.task t"
		   "                     WHERE t.workflow_id = w.workflow_id)"
		   "    AND NOT EXISTS (SELECT FROM taskq.archive_keep k"
		   "                     WHERE k.workflow_id = w.workflow_id)"
		   "    AND NOT EXISTS (SELECT FROM taskq.edge e"
		   "                     WHERE e.workflow_id = w.workflow_id)"
		   "  FOR UPDATE OF w SKIP LOCKED),"
		   " gone AS (DELETE FROM taskq.workflow w USING bare b"
		   "   WHERE w.workflow_id = b.workflow_id RETURNING w.workflow_id),"
		   " signals AS (DELETE FROM taskq.signal s USING gone g"
		   "   WHERE s.workflow_id = g.workflow_id),"
		   " undefined AS (DELETE FROM taskq.template t"
		   "   WHERE t.undefined_at IS NOT NULL"
		   "     AND NOT EXISTS (SELECT FROM taskq.workflow w"
		   "                      WHERE w.template_id = t.template_id))"
		   "SELECT count(*) FROM gone",
	{INT4OID}};

static int64 mark(int limit);
static int64 remove_marked(TqCall *call, int limit);
static int64 remove_waiting(TqCall *call, int limit);
static bool  remove_step(TqCall *call, int64 task_id);
static void  remove_timers(const int64 *ids, uint64 count);
static int64 remove_rows(TqStmt *stmt, int64 limit);

/* The duty: first remove marked instances, then mark more. */
int64
tq_expire_run(int limit)
{
	TqCall call;
	int64  removed;

	/*
	 * the lock excludes a concurrent change of key_policy that makes dead
	 * tasks hold their keys
	 */
	if (!ConditionalLockRelationOid(tq_catalog()->queue_change,
									RowExclusiveLock))
		return 0;
	tq_call_begin(&call, "taskq duties");
	removed = remove_marked(&call, limit);
	if (removed < limit && mark(limit - (int) removed) > 0)
		removed += remove_marked(&call, limit - (int) removed);
	tq_call_end(&call);
	return removed;
}

/* Mark expired instances.  Returns their number. */
static int64
mark(int limit)
{
	Datum args[2] = {TimestampTzGetDatum(tq_clock_wall()),
					 Int32GetDatum(limit)};

	tq_snapshot_renew();
	return (int64) tq_spi_execute(&stmt_mark, args, NULL, SPI_OK_UPDATE);
}

/* Remove the steps, edges and rows of marked instances, at most limit rows. */
static int64
remove_marked(TqCall *call, int limit)
{
	TqStmt *stmts[] = {&stmt_finished, &stmt_edges, &stmt_instances};
	int64   removed;

	tq_snapshot_renew();
	removed = remove_waiting(call, limit);
	for (int i = 0; i < lengthof(stmts) && removed < limit; i++)
	{
		tq_snapshot_renew();
		removed += remove_rows(stmts[i], limit - removed);
	}
	return removed;
}

/* Remove steps that wait for others. */
static int64
remove_waiting(TqCall *call, int limit)
{
	Datum  arg = Int32GetDatum(limit);
	uint64 removed = 0;
	int64 *ids;
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_run(&stmt_waiting, &arg, NULL, SPI_OK_SELECT, 0);
	ids = tq_spi_ids(&spi, rows, 1);
	tq_spi_leave(&spi);
	for (uint64 i = 0; i < rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		tq_snapshot_renew();
		if (remove_step(call, ids[i]))
			ids[removed++] = ids[i];
	}
	remove_timers(ids, removed);
	pfree(ids);
	return (int64) removed;
}

/*
 * Remove a step whose row is locked.  Returns false if another transaction has
 * locked its key.
 */
static bool
remove_step(TqCall *call, int64 task_id)
{
	TqTask   task;
	TqQueue *queue;

	return tq_row_find(call, task_id, &task) &&
		   task.f.state == TQ_STATE_BLOCKED &&
		   (queue = tq_queue_by_id(task.f.queue_id)) != NULL &&
		   tq_key_try_task(call, queue, &task) &&
		   tq_state_remove(call, queue, &task);
}

/* Remove timers left over from earlier waits of these steps. */
static void
remove_timers(const int64 *ids, uint64 count)
{
	Datum arg = tq_spi_int8_array(ids, (int) count);

	if (count == 0)
		return;
	tq_spi_execute(&stmt_timers, &arg, NULL, SPI_OK_DELETE);
}

/* Returns the number of rows. */
static int64
remove_rows(TqStmt *stmt, int64 limit)
{
	Datum  arg = Int32GetDatum((int32) limit);
	int64  removed = 0;
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_run(stmt, &arg, NULL, SPI_OK_SELECT, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		int64 count = tq_spi_int8(i, 1, 0);

		if (stmt == &stmt_finished)
			tq_metric_note_count(tq_spi_int4(i, 2, 0), TQ_METRIC_CLEANED,
								 count);
		removed += count;
	}
	tq_spi_leave(&spi);
	if (stmt == &stmt_finished && removed > 0)
		tq_leaf_change_note(TQ_LEAF_KEEP);
	return removed;
}
