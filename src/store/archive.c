/*
 * archive.c
 *		Rows of finished tasks, found and taken out by SQL.
 *
 * A finished task is seldom needed again, and is in one of seventeen leaves,
 * so the executor reads it.  (tq_row_insert_archive adds one below the
 * executor.) tq_archive_take deletes the row in the version that was read, and
 * waits for a transaction that does the same.  If it returns true, the caller
 * owns the task, and passes it to tq_state_enter, which puts it into
 * taskq.task or another leaf, or to tq_state_forget.
 *
 * A call that needs the lock of the task's key, or of its instance, acquires
 * that lock first.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/catalog.h"
#include "base/debug.h"
#include "base/spi.h"
#include "shared/leaf_change.h"
#include "store/archive.h"
#include "store/row.h"
#include "store/snapshot.h"

static bool read_archived(TqStmt *stmt, int64 task_id, int64 version,
						  int expected, TqTask *task);

#define ALL_COLUMNS                                                           \
	"task_id, lane_id, available_at, token, version, claimed_at,"             \
	" lease_until, worker_id, claimed_by, attempt, state, priority,"          \
	" queue_id, max_attempts, submitted_by, reason, flags, payload, data,"    \
	" headers, result, checkpoint, errors, message, run_at, created_at,"      \
	" run_as, descent, large, deadline, wake_at, cancel_requested_at,"        \
	" suspended_at, workflow_id, step_id, reference, key, correlation_id,"    \
	" tags, options, bucket, finished_at, expires_at, recreated_as"

/*
 * One statement for each leaf: deleting from all of them costs many times as
 * much.
 */
#define TAKE_FROM(leaf)                                                       \
	{                                                                         \
		"DELETE FROM taskq.archive_" leaf                                     \
		" WHERE task_id = $1 AND version = $2 RETURNING " ALL_COLUMNS,        \
		{                                                                     \
			INT8OID, INT8OID                                                  \
		}                                                                     \
	}

static TqStmt stmt_take_archived[TQ_LEAVES + 1] = {
	TAKE_FROM("00"),  TAKE_FROM("01"), TAKE_FROM("02"), TAKE_FROM("03"),
	TAKE_FROM("04"),  TAKE_FROM("05"), TAKE_FROM("06"), TAKE_FROM("07"),
	TAKE_FROM("08"),  TAKE_FROM("09"), TAKE_FROM("10"), TAKE_FROM("11"),
	TAKE_FROM("12"),  TAKE_FROM("13"), TAKE_FROM("14"), TAKE_FROM("15"),
	TAKE_FROM("keep")};

static TqStmt stmt_find_archived = {
	"SELECT " ALL_COLUMNS " FROM taskq.archive WHERE task_id = $1", {INT8OID}};

/*
 * Take a finished task that was just read out of the archive, and wait for a
 * transaction that does the same.  Returns false if the row has been moved or
 * changed since it was read.
 */
bool
tq_archive_take(TqTask *task)
{
	int leaf = DatumGetInt16(task->value[TQ_COL_BUCKET]);

	Assert(task->archived && leaf >= 0 && leaf <= TQ_LEAF_KEEP);
	if (!read_archived(&stmt_take_archived[leaf], task->f.task_id,
					   task->f.version, SPI_OK_DELETE_RETURNING, task))
		return false;
	tq_leaf_change_note(leaf);
	return true;
}

bool
tq_archive_find(int64 task_id, TqTask *task)
{
	return read_archived(&stmt_find_archived, task_id, 0, SPI_OK_SELECT, task);
}

/*
 * Find a live or finished task.  A task that becomes live between the two
 * lookups is missed by both, so there is a second try.
 */
bool
tq_archive_find_any(TqCall *call, int64 task_id, TqTask *task)
{
	if (tq_row_find(call, task_id, task))
		return true;
	TQ_DEBUG_POINT("row_not_live");
	if (tq_archive_find(task_id, task))
		return true;
	tq_snapshot_renew();
	return tq_row_find(call, task_id, task) || tq_archive_find(task_id, task);
}

static bool
read_archived(TqStmt *stmt, int64 task_id, int64 version, int expected,
			  TqTask *task)
{
	Datum args[2] = {Int64GetDatum(task_id), Int64GetDatum(version)};
	TqSpi spi;
	bool  found;

	tq_spi_enter(&spi);
	found = tq_spi_run(stmt, args, NULL, expected, 0) > 0;
	if (found)
	{
		MemoryContext mine = MemoryContextSwitchTo(spi.caller);

		tq_row_read(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, task);
		MemoryContextSwitchTo(mine);
		task->archived = true;
	}
	tq_spi_leave(&spi);
	return found;
}
