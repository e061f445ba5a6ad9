/*
 * check_hidden.c
 *		taskq_check(): do claims skip a task that they could take?
 *
 * Claims skip dead ranges, and do not search priorities that a lane is not
 * known to have (shared/dead_range.h).  A pending task that is due can only be
 * in such a place while a transaction changes it, or while a transaction that
 * has ended is about to publish its changes.  Therefore each such task is
 * checked again after all ended transactions have published their changes.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/array.h"

#include "base/clock.h"
#include "base/code.h"
#include "base/spi.h"
#include "diag/check_hidden.h"
#include "diag/check_report.h"
#include "engine/call.h"
#include "shared/counter.h"
#include "shared/dead_range.h"
#include "store/row.h"
#include "store/tuple_lock.h"

#define TRIES 5
#define PAUSE 50 /* ms */

static TqStmt stmt_lanes = {
	"SELECT DISTINCT lane_id FROM taskq.lane ORDER BY lane_id"};

/* Report at most a hundred tasks of a lane. */
static TqStmt stmt_of_priorities = {
	"SELECT task_id FROM taskq.task"
	" WHERE lane_id = $1 AND priority <> ALL ($2) AND available_at <= $3"
	"   AND state = " TQ_SQL_STATE_PENDING " LIMIT 100",
	{INT8OID, INT2ARRAYOID, TIMESTAMPTZOID}};

static TqStmt stmt_of_range = {
	"SELECT task_id FROM taskq.task"
	" WHERE lane_id = $1 AND priority = $2 AND available_at <= $7"
	"   AND (available_at, task_id) >= ($3, $4)"
	"   AND (available_at, task_id) <= ($5, $6)"
	"   AND state = " TQ_SQL_STATE_PENDING " LIMIT 100",
	{INT8OID, INT2OID, TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID, INT8OID,
	 TIMESTAMPTZOID}};

/* Used to skip tasks that this transaction has written and will publish. */
static TqStmt stmt_writer = {
	"SELECT xmin::text::bigint FROM taskq.task WHERE task_id = $1", {INT8OID}};

static void check_priorities(ReturnSetInfo *result, int64 lane_id);
static void check_range(ReturnSetInfo *result, const TqRangeEntry *entry,
						const TqDeadRange *range);
static void check_tasks(ReturnSetInfo *result, TqStmt *stmt,
						const Datum *args);
static bool is_hidden(int64 task_id);
static bool is_own(int64 task_id);

void
tq_check_hidden(ReturnSetInfo *result)
{
	TqRangeCursor cursor = {0};
	TqRangeEntry  entry;
	int64        *lanes;
	uint64        count = tq_spi_list(&stmt_lanes, NULL, &lanes);

	for (uint64 i = 0; i < count; i++)
		check_priorities(result, lanes[i]);
	while (tq_dead_range_next_to_audit(&cursor, &entry))
	{
		for (int i = 0; i < entry.count; i++)
			check_range(result, &entry, &entry.ranges[i]);
	}
}

static void
check_priorities(ReturnSetInfo *result, int64 lane_id)
{
	int16 priorities[TQ_RANGE_PRIORITIES];
	Datum known[TQ_RANGE_PRIORITIES];
	Datum args[3];
	int   count;

	if (!tq_dead_range_priorities(lane_id, priorities, &count))
		return;
	for (int i = 0; i < count; i++)
		known[i] = Int16GetDatum(priorities[i]);
	args[0] = Int64GetDatum(lane_id);
	args[1] = count == 0
				  ? PointerGetDatum(construct_empty_array(INT2OID))
				  : PointerGetDatum(construct_array(known, count, INT2OID,
													sizeof(int16), true,
													TYPALIGN_SHORT));
	args[2] = TimestampTzGetDatum(tq_clock_dispatch());
	check_tasks(result, &stmt_of_priorities, args);
}

static void
check_range(ReturnSetInfo *result, const TqRangeEntry *entry,
			const TqDeadRange *range)
{
	Datum args[7];

	args[0] = Int64GetDatum(entry->lane_id);
	args[1] = Int16GetDatum(entry->priority);
	args[2] = TimestampTzGetDatum(range->lo.at);
	args[3] = Int64GetDatum(range->lo.task_id);
	args[4] = TimestampTzGetDatum(range->hi.at);
	args[5] = Int64GetDatum(range->hi.task_id);
	args[6] = TimestampTzGetDatum(tq_clock_dispatch());
	check_tasks(result, &stmt_of_range, args);
}

static void
check_tasks(ReturnSetInfo *result, TqStmt *stmt, const Datum *args)
{
	int64 *ids;
	uint64 count;

	CHECK_FOR_INTERRUPTS();
	count = tq_spi_list(stmt, args, &ids);
	for (uint64 i = 0; i < count; i++)
	{
		bool hidden = true;

		for (int attempt = 0; attempt < TRIES && hidden; attempt++)
		{
			tq_counter_wait_for_ended();
			if (attempt > 0)
				tq_clock_pause(PAUSE);
			hidden = is_hidden(ids[i]);
		}
		if (hidden)
			tq_check_report(result, "claims skip a pending task",
							"task " INT64_FORMAT, ids[i]);
	}
}

/* Could the task be claimed if shared memory were ignored? */
static bool
is_hidden(int64 task_id)
{
	TqCall call;
	TqTask task;
	bool   hidden = false;

	if (is_own(task_id))
		return false;
	tq_call_begin_look(&call);
	if (tq_row_find(&call, task_id, &task) &&
		task.f.state == TQ_STATE_PENDING &&
		task.f.available_at <= tq_clock_dispatch() &&
		!tq_tuple_lock_is_lost(&call, &task.tid))
		hidden = tq_dead_range_hides(
			task.f.lane_id, task.f.priority,
			(TqPosition){task.f.available_at, task.f.task_id});
	tq_call_end(&call);
	return hidden;
}

static bool
is_own(int64 task_id)
{
	Datum arg = Int64GetDatum(task_id);
	bool  own;
	TqSpi spi;

	tq_spi_enter(&spi);
	own = tq_spi_look(&stmt_writer, &arg, NULL, 1) > 0 &&
		  TransactionIdIsCurrentTransactionId(
			  (TransactionId) tq_spi_int8(0, 1, 0));
	tq_spi_leave(&spi);
	return own;
}
