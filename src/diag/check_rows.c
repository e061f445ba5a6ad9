/*
 * check_rows.c
 *		taskq_check(): comparisons that SQL cannot make.
 *
 * The code that uses options also reads them here, and likewise computes
 * numbers of lanes and looks up moves.  Indexes of taskq.task are scanned in
 * full.  Each statement uses a single snapshot.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "nodes/primnodes.h"
#include "utils/jsonb.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/spi.h"
#include "base/try.h"
#include "cache/lane.h"
#include "cache/options.h"
#include "cache/queue.h"
#include "diag/check_report.h"
#include "diag/check_rows.h"
#include "engine/state.h"
#include "store/task.h"

static TqStmt stmt_queue_options = {
	"SELECT queue_id::bigint, options FROM taskq.queue"};

static TqStmt stmt_task_options = {
	"SELECT task_id, options FROM taskq.task WHERE options IS NOT NULL"
	" UNION ALL "
	"SELECT task_id, options FROM taskq.archive WHERE options IS NOT NULL"};

static TqStmt stmt_lanes = {"SELECT lane_id, queue_id, tags FROM taskq.lane"};

static TqStmt stmt_moves = {
	"SELECT from_state::integer, to_state::integer, min(task_id)"
	"  FROM taskq.transition"
	" WHERE from_state BETWEEN " TQ_SQL_STATE_FIRST " AND " TQ_SQL_STATE_LAST
	"   AND to_state BETWEEN " TQ_SQL_STATE_FIRST " AND " TQ_SQL_STATE_LAST
	"   AND from_state <> to_state"
	" GROUP BY from_state, to_state"};

/* How many rows there are, and the sum of their numbers to identify them. */
typedef struct Found
{
	uint64 rows;
	uint64 sum;
} Found;

/* The options of a queue or task, as read from its row. */
typedef struct OptionsRow
{
	Jsonb *options;
	bool   of_task;
} OptionsRow;

static void check_documents(ReturnSetInfo *result, TqStmt *stmt, bool of_task);
static bool is_readable(Jsonb *doc, bool of_task);
static void read_options(void *arg);
static void walk_table(Relation rel, Snapshot snapshot, Found *found);
static void walk_index(Relation rel, Relation index, Snapshot snapshot,
					   Found *found);
static int  index_condition(Relation index);

/* All stored options can be read. */
void
tq_check_options(ReturnSetInfo *result)
{
	check_documents(result, &stmt_queue_options, false);
	check_documents(result, &stmt_task_options, true);
}

static void
check_documents(ReturnSetInfo *result, TqStmt *stmt, bool of_task)
{
	TqSpi  spi;
	uint64 rows;

	tq_spi_enter(&spi);
	rows = tq_spi_look(stmt, NULL, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		bool  isnull;
		Datum value = tq_spi_get(i, 2, &isnull);

		CHECK_FOR_INTERRUPTS();
		if (!isnull && !is_readable(DatumGetJsonbP(value), of_task))
			tq_check_report(result, "options cannot be read",
							"%s " INT64_FORMAT, of_task ? "task" : "queue",
							tq_spi_int8(i, 1, 0));
	}
	tq_spi_leave(&spi);
}

static bool
is_readable(Jsonb *doc, bool of_task)
{
	OptionsRow row = {doc, of_task};

	return tq_try(read_options, &row) == NULL;
}

static void
read_options(void *arg)
{
	static int64      some_list[1] = {0};
	const OptionsRow *row = arg;
	TqOptions         options;

	tq_options_default(&options);
	/* "retry": "list" of a task may refer to its queue's list */
	options.backoff.list = some_list;
	options.backoff.list_length = 1;
	if (row->of_task)
		tq_options_read_task(&options, row->options);
	else
		tq_options_read(&options, row->options);
}

/* The number of a lane is that of its set of tags. */
void
tq_check_lanes(ReturnSetInfo *result)
{
	TqSpi  spi;
	uint64 rows;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_lanes, NULL, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		int64  lane_id = tq_spi_int8(i, 1, 0);
		int32  queue_id = tq_spi_int4(i, 2, 0);
		bool   isnull;
		TqTags tags = {0};

		if (!tq_arg_tags_stored(tq_spi_get(i, 3, &isnull), &tags) ||
			tq_lane_id(queue_id, &tags) != lane_id)
			tq_check_report(result, "number of lane does not match its tags",
							"lane " INT64_FORMAT ", queue %d", lane_id,
							queue_id);
	}
	tq_spi_leave(&spi);
}

/* Every change of state in the history is a legal move. */
void
tq_check_history(ReturnSetInfo *result)
{
	TqSpi  spi;
	uint64 rows;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_moves, NULL, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		TqState from = (TqState) tq_spi_int4(i, 1, 0);
		TqState to = (TqState) tq_spi_int4(i, 2, 0);

		if (from != to && !tq_state_is_legal(from, to))
			tq_check_report(result, "change of state is not a legal move",
							"task " INT64_FORMAT ", from %s to %s",
							tq_spi_int8(i, 3, 0), tq_state_name(from),
							tq_state_name(to));
	}
	tq_spi_leave(&spi);
}

/*
 * A scan of taskq.task and scans of each of its indexes find the same rows
 * with one snapshot.
 */
void
tq_check_indexes(ReturnSetInfo *result)
{
	Relation  rel = tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	List     *indexes = RelationGetIndexList(rel);
	Snapshot  snapshot = RegisterSnapshot(GetLatestSnapshot());
	Found     rows[TQ_TASK_COLUMNS + 1] = {{0}};
	ListCell *cell;

	walk_table(rel, snapshot, rows);
	foreach (cell, indexes)
	{
		Relation index =
			tq_catalog_open_index(lfirst_oid(cell), AccessShareLock);
		int   column = index_condition(index);
		Found found = {0};

		if (index->rd_index->indisvalid && column >= 0)
		{
			walk_index(rel, index, snapshot, &found);
			if (found.rows != rows[column].rows ||
				found.sum != rows[column].sum)
				tq_check_report(result, "index and table have different rows",
								"taskq.%s: " UINT64_FORMAT
								" by the index, " UINT64_FORMAT
								" by the table",
								RelationGetRelationName(index), found.rows,
								rows[column].rows);
		}
		index_close(index, AccessShareLock);
	}
	UnregisterSnapshot(snapshot);
	table_close(rel, AccessShareLock);
}

/* found[0] counts all rows, found[column] those in which it is not null. */
static void
walk_table(Relation rel, Snapshot snapshot, Found *found)
{
	TableScanDesc scan =
		table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	TupleDesc desc = RelationGetDescr(rel);
	HeapTuple tuple;

	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		uint64 task_id = (uint64) ((TqTaskFixed *) GETSTRUCT(tuple))->task_id;

		CHECK_FOR_INTERRUPTS();
		found[0].rows++;
		found[0].sum += task_id;
		for (int i = 1; i <= TQ_TASK_COLUMNS; i++)
		{
			if (heap_attisnull(tuple, i, desc))
				continue;
			found[i].rows++;
			found[i].sum += task_id;
		}
	}
	table_endscan(scan);
}

static void
walk_index(Relation rel, Relation index, Snapshot snapshot, Found *found)
{
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	IndexScanDesc   scan = tq_compat_index_beginscan(rel, index, snapshot, 0);

	index_rescan(scan, NULL, 0, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool  isnull;
		Datum task_id = slot_getattr(slot, TQ_COL_TASK_ID, &isnull);

		CHECK_FOR_INTERRUPTS();
		found->rows++;
		found->sum += (uint64) DatumGetInt64(task_id);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
}

/*
 * Return the column that must not be null for a row to be in the index; 0 if
 * the index has all rows, -1 for any other condition.
 */
static int
index_condition(Relation index)
{
	List     *conditions = RelationGetIndexPredicate(index);
	NullTest *test;

	if (conditions == NIL)
		return 0;
	test = (NullTest *) linitial(conditions);
	if (list_length(conditions) != 1 || !IsA(test, NullTest) ||
		test->nulltesttype != IS_NOT_NULL || !IsA(test->arg, Var) ||
		((Var *) test->arg)->varattno < 1 ||
		((Var *) test->arg)->varattno > TQ_TASK_COLUMNS)
		return -1;
	return ((Var *) test->arg)->varattno;
}
