/*
 * task_page.c
 *		Finding tasks for readers: pages of them, by id.
 *
 * A page consists of the first tasks, by ascending or descending id, that
 * match a filter, from taskq.task and all leaves of the archive, with a single
 * snapshot: a task that finishes concurrently is on it once.  The next page
 * continues behind the last id.
 *
 * The index is chosen here and not by the planner, so that the choice does not
 * depend on statistics: each table is read through the index that fits the
 * filter best, in id order, as far as the page needs.  Two filters have no
 * index of their own: by queue and by state among live tasks (indexed columns
 * there cost every submit, and a claim changes the state); and by several
 * queues in the archive.  For these the walk by id continues for BUDGET rows
 * that do not match; after that, candidates come from another source: lanes of
 * the dispatch index, of which no rows are read, the table of running tasks,
 * or a range of the archive's index for each queue.
 *
 * Locks on tables are held until the end of the transaction, as by any query.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/debug.h"
#include "base/spi.h"
#include "base/types.h"
#include "cache/queue.h"
#include "engine/lane_priority.h"
#include "query/id_heap.h"
#include "query/task_filter.h"
#include "query/task_page.h"
#include "shared/running.h"
#include "store/row.h"

#define BUDGET 1000  /* rows that do not match, before trying another way */
#define RANGE_COST 4 /* rows that could be read instead of a range */
#define FEW_QUEUES 4 /* that are searched one by one immediately */
#define MIN_CANDIDATES 1000

typedef enum Which
{
	BY_ID,
	BY_STATE, /* (queue_id, state, task_id), of leaves */
	BY_STATE_ALONE,
	BY_REFERENCE,
	BY_KEY,
	BY_CORRELATION,
	BY_RECREATED,
	BY_POSITION, /* the dispatch index, of taskq.task */
	INDEXES
} Which;

/* Suffixes of their names: of taskq.task, of leaves. */
static const char *const index_names[INDEXES][2] = {
	[BY_ID] = {"pkey", "pkey"},
	[BY_STATE] = {NULL, "queue_id_state_task_id_idx"},
	[BY_STATE_ALONE] = {NULL, "state_task_id_idx"},
	[BY_REFERENCE] = {"reference_idx", "queue_id_reference_idx"},
	[BY_KEY] = {"key_idx", "queue_id_key_task_id_idx"},
	[BY_CORRELATION] = {"correlation_idx", "correlation_id_idx"},
	[BY_RECREATED] = {NULL, "recreated_as_idx"},
	[BY_POSITION] = {"dispatch_idx", NULL}};

typedef struct Table
{
	Relation        rel;
	Relation        index[INDEXES]; /* opened on first use */
	TupleTableSlot *slot;
} Table;

struct TqTaskPage
{
	MemoryContext context; /* lives as long as this */
	Snapshot      snapshot;
	Table         table[TQ_FOUND_TABLES];
	int32        *every_queue; /* read on first use */
	int           every_count;
};

/* One search for a page. */
typedef struct Search
{
	TqTaskPage         *find;
	const TqTaskFilter *filter;
	TqIdHeap            page;
	int64               first; /* bounds of the current walk */
	int64               last;
} Search;

/* A range of an index. */
typedef struct Range
{
	Which       which;
	ScanKeyData keys[5];
	int         nkeys;
	int         id_column; /* index column that follows equal ones; 0: none */
} Range;

static TqStmt stmt_queues = {
	"SELECT queue_id FROM taskq.queue WHERE queue_id <> 0 ORDER BY queue_id"};

static Table   *open_table(TqTaskPage *find, int table);
static Relation open_index(TqTaskPage *find, int table, Which which);
static void     queues_of(Search *search, int32 **queues, int *count);
static void     search_table(Search *search, int table);
static void     search_live(Search *search);
static void     search_leaf(Search *search, int leaf);
static void     search_queues(Search *search, int leaf);
static void     search_words(Search *search, int table);
static void     search_candidates(Search *search);
static void     range_equals(Range *range, RegProcedure equal, Datum value);
static int      add_bounds(const Search *search, Range *range);
static bool     walk(Search *search, int table, Range *range, int64 budget);
static void     narrow(Search *search, int64 reached);
static bool     registry_will_do(const Search *search);
static void     collect_running(Search *search, TqIdHeap *candidates);
static void     collect_lanes(Search *search, TqIdHeap *candidates);
static void     collect_lane(Search *search, TqIdHeap *candidates, int64 lane);
static bool     next_priority(Search *search, int64 lane, int16 *priority,
							  bool below);
static void collect_range(Search *search, TqIdHeap *candidates, Range *range);

/* Begin to read with the snapshot. */
TqTaskPage *
tq_task_page_begin(Snapshot snapshot)
{
	TqTaskPage *find = palloc0(sizeof(TqTaskPage));

	find->context = CurrentMemoryContext;
	find->snapshot = snapshot;
	return find;
}

void
tq_task_page_end(TqTaskPage *find)
{
	for (int t = 0; t < TQ_FOUND_TABLES; t++)
	{
		Table *table = &find->table[t];

		if (table->rel == NULL)
			continue;
		for (int i = 0; i < INDEXES; i++)
		{
			if (table->index[i] != NULL)
				index_close(table->index[i], NoLock);
		}
		ExecDropSingleTupleTableSlot(table->slot);
		table_close(table->rel, NoLock);
	}
	pfree(find);
}

Snapshot
tq_task_page_snapshot(const TqTaskPage *find)
{
	return find->snapshot;
}

/*
 * Find the first max tasks that match the filter; return their number, which
 * is less than max only if there are no more.
 */
int
tq_task_page_find(TqTaskPage *find, const TqTaskFilter *filter, int max,
				  TqFound **found)
{
	Search search = {0};

	search.find = find;
	search.filter = filter;
	tq_id_heap_init(&search.page, max, filter->backward);
	for (int i = 0; i < TQ_FOUND_TABLES; i++)
	{
		/*
		 * first the table where the first ids in this direction are likely to
		 * be
		 */
		int table = filter->backward ? TQ_FOUND_LIVE - i : i;

		if (filter->state != TQ_STATE_NONE &&
			TQ_STATE_IS_LIVE(filter->state) != (table == TQ_FOUND_LIVE))
			continue;
		if (filter->first > filter->last)
			break;
		search.first = filter->first;
		search.last = filter->last;
		search_table(&search, table);
		TQ_DEBUG_POINT("find_table");
	}
	tq_id_heap_sort(&search.page);
	*found = search.page.rows;
	return search.page.count;
}

/*
 * Count the finished tasks of a queue and a state, up to max.  Reads rows only
 * of pages that are not all-visible.
 */
int64
tq_task_page_count(TqTaskPage *find, int32 queue_id, TqState state, int64 max)
{
	Buffer map = InvalidBuffer;
	int64  count = 0;

	for (int leaf = 0; leaf <= TQ_LEAF_KEEP && count < max; leaf++)
	{
		Table        *table = open_table(find, leaf);
		Range         range;
		IndexScanDesc scan;
		ItemPointer   tid;

		if (RelationGetNumberOfBlocks(table->rel) == 0)
			continue;
		range = (Range){BY_STATE};
		range_equals(&range, F_INT4EQ, Int32GetDatum(queue_id));
		range_equals(&range, F_INT2EQ, Int16GetDatum(state));
		scan = tq_compat_index_beginscan(table->rel,
										 open_index(find, leaf, BY_STATE),
										 find->snapshot, range.nkeys);
		scan->xs_want_itup = true;
		index_rescan(scan, range.keys, range.nkeys, NULL, 0);
		while (count < max &&
			   (tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
		{
			if (VM_ALL_VISIBLE(table->rel, ItemPointerGetBlockNumber(tid),
							   &map) ||
				index_fetch_heap(scan, table->slot))
				count++;
		}
		ExecClearTuple(table->slot);
		index_endscan(scan);
		if (BufferIsValid(map))
			ReleaseBuffer(map);
		map = InvalidBuffer;
	}
	return count;
}

/* Find a task, live or finished, and read it. */
bool
tq_task_page_find_one(TqTaskPage *find, int64 task_id, TqTask *task)
{
	TqTaskFilter filter;
	TqFound     *found;

	tq_task_filter_init(&filter);
	filter.ids = &task_id;
	filter.id_count = 1;
	if (tq_task_page_find(find, &filter, 1, &found) == 0)
		return false;
	tq_task_page_read(find, found, task);
	return true;
}

/* Read a task that was found, in the current memory context. */
void
tq_task_page_read(TqTaskPage *find, const TqFound *found, TqTask *task)
{
	Table    *table = &find->table[found->table];
	bool      should_free;
	HeapTuple tuple;

	if (!table_tuple_fetch_row_version(table->rel, (ItemPointer) &found->tid,
									   find->snapshot, table->slot))
		elog(ERROR, "task " INT64_FORMAT " is not where it was found",
			 found->task_id);
	tuple = ExecFetchSlotHeapTuple(table->slot, false, &should_free);
	tq_row_read(tuple, RelationGetDescr(table->rel), task);
	task->archived = found->table != TQ_FOUND_LIVE;
	ExecClearTuple(table->slot);
}

static Table *
open_table(TqTaskPage *find, int t)
{
	Table *table = &find->table[t];

	if (table->rel == NULL)
	{
		const TqCatalog *catalog = tq_catalog();
		MemoryContext    mine = MemoryContextSwitchTo(find->context);

		table->rel = tq_catalog_open_table(
			t == TQ_FOUND_LIVE ? catalog->task : catalog->leaf[t],
			AccessShareLock);
		table->slot = table_slot_create(table->rel, NULL);
		MemoryContextSwitchTo(mine);
	}
	return table;
}

/* By name: REINDEX CONCURRENTLY creates new indexes with the same names. */
static Relation
open_index(TqTaskPage *find, int t, Which which)
{
	Table *table = open_table(find, t);

	if (table->index[which] == NULL)
	{
		char          name[NAMEDATALEN];
		MemoryContext mine = MemoryContextSwitchTo(find->context);

		snprintf(name, sizeof(name), "%s_%s",
				 RelationGetRelationName(table->rel),
				 index_names[which][t != TQ_FOUND_LIVE]);
		table->index[which] = tq_catalog_open_index(
			get_relname_relid(name, tq_catalog()->schema), AccessShareLock);
		MemoryContextSwitchTo(mine);
	}
	return table->index[which];
}

/* Return the queues of the search, one by one. */
static void
queues_of(Search *search, int32 **queues, int *count)
{
	TqTaskPage *find = search->find;

	if (!search->filter->all_queues)
	{
		*queues = search->filter->queues;
		*count = search->filter->queue_count;
		return;
	}
	if (find->every_queue == NULL)
	{
		TqSpi  spi;
		uint64 rows;

		PushActiveSnapshot(find->snapshot);
		tq_spi_enter(&spi);
		rows = tq_spi_read(&stmt_queues, NULL, NULL, 0);
		find->every_queue =
			MemoryContextAlloc(find->context, sizeof(int32) * (rows + 1));
		for (uint64 i = 0; i < rows; i++)
			find->every_queue[i] = tq_spi_int4(i, 1, 0);
		find->every_count = (int) rows;
		tq_spi_leave(&spi);
		PopActiveSnapshot();
	}
	*queues = find->every_queue;
	*count = find->every_count;
}

static void
search_table(Search *search, int table)
{
	const TqTaskFilter *filter = search->filter;

	if (RelationGetNumberOfBlocks(open_table(search->find, table)->rel) == 0)
		return;
	if (filter->ids != NULL)
	{
		for (int i = 0; i < filter->id_count; i++)
		{
			Range range = {BY_ID};

			range_equals(&range, F_INT8EQ, Int64GetDatum(filter->ids[i]));
			(void) walk(search, table, &range, PG_INT64_MAX);
		}
	}
	else if (filter->recreated_as != 0)
	{
		Range range;

		if (table == TQ_FOUND_LIVE)
			return;
		range = (Range){BY_RECREATED};
		range_equals(&range, F_INT8EQ, Int64GetDatum(filter->recreated_as));
		(void) walk(search, table, &range, PG_INT64_MAX);
	}
	else if (filter->reference != NULL || filter->key != NULL ||
			 filter->correlation_id != NULL)
		search_words(search, table);
	else if (table == TQ_FOUND_LIVE)
		search_live(search);
	else
		search_leaf(search, table);
}

/* Search by reference, else by key, else by correlation id. */
static void
search_words(Search *search, int table)
{
	const TqTaskFilter *filter = search->filter;
	Range               range;
	int32              *queues;
	int                 count;

	if (filter->reference == NULL && filter->key == NULL)
	{
		range = (Range){BY_CORRELATION};
		range_equals(&range, F_TEXTEQ,
					 CStringGetTextDatum(filter->correlation_id));
		(void) walk(search, table, &range, PG_INT64_MAX);
		return;
	}
	queues_of(search, &queues, &count);
	for (int i = 0; i < count; i++)
	{
		bool by_reference = filter->reference != NULL;

		range = (Range){by_reference ? BY_REFERENCE : BY_KEY};
		range_equals(&range, F_INT4EQ, Int32GetDatum(queues[i]));
		range_equals(&range, F_TEXTEQ,
					 CStringGetTextDatum(by_reference ? filter->reference
													  : filter->key));
		range.id_column = by_reference ? 0 : 3;
		(void) walk(search, table, &range, PG_INT64_MAX);
	}
}

static void
search_leaf(Search *search, int leaf)
{
	const TqTaskFilter *filter = search->filter;
	bool                by_state = filter->state != TQ_STATE_NONE &&
					filter->state != TQ_STATE_DONE;
	bool sure = filter->all_queues &&
				(by_state || filter->state == TQ_STATE_NONE);
	int64 ranges = (int64) filter->queue_count *
				   (filter->state != TQ_STATE_NONE
						? 1
						: TQ_STATE_LAST - TQ_STATE_DONE + 1);
	int64 budget = Max(BUDGET, RANGE_COST * ranges);
	Range range;

	if (filter->all_queues || filter->queue_count > FEW_QUEUES)
	{
		range = (Range){by_state ? BY_STATE_ALONE : BY_ID};
		if (by_state)
			range_equals(&range, F_INT2EQ, Int16GetDatum(filter->state));
		range.id_column = range.nkeys + 1;
		if (walk(search, leaf, &range, sure ? PG_INT64_MAX : budget))
			return;
	}
	search_queues(search, leaf);
}

/* Search each state of each queue: these index ranges are ordered by id. */
static void
search_queues(Search *search, int leaf)
{
	int    state = search->filter->state;
	int32 *queues;
	int    count;

	queues_of(search, &queues, &count);
	for (int i = 0; i < count; i++)
	{
		for (int s = state != TQ_STATE_NONE ? state : TQ_STATE_DONE;
			 s <= (state != TQ_STATE_NONE ? state : TQ_STATE_LAST); s++)
		{
			Range range = {BY_STATE};

			range_equals(&range, F_INT4EQ, Int32GetDatum(queues[i]));
			range_equals(&range, F_INT2EQ, Int16GetDatum(s));
			range.id_column = 3;
			(void) walk(search, leaf, &range, PG_INT64_MAX);
		}
	}
}

static void
search_live(Search *search)
{
	const TqTaskFilter *filter = search->filter;
	bool  sure = filter->all_queues && (filter->state == TQ_STATE_NONE ||
                                       filter->state == TQ_STATE_PENDING);
	Range range = {BY_ID};

	range.id_column = 1;
	if (walk(search, TQ_FOUND_LIVE, &range, sure ? PG_INT64_MAX : BUDGET))
		return;
	if (filter->state == TQ_STATE_RUNNING && filter->all_queues &&
		!registry_will_do(search))
	{
		range.nkeys = 0;
		(void) walk(search, TQ_FOUND_LIVE, &range, PG_INT64_MAX);
	}
	else
		search_candidates(search);
}

/*
 * Collect the first ids of tasks that may match, and check each task; continue
 * behind them while the page is not full.
 */
static void
search_candidates(Search *search)
{
	bool in_memory = search->filter->state == TQ_STATE_RUNNING &&
					 registry_will_do(search);
	TqIdHeap candidates;

	do
	{
		tq_id_heap_init(&candidates, Max(search->page.max * 2, MIN_CANDIDATES),
						search->filter->backward);
		if (in_memory)
			collect_running(search, &candidates);
		else
			collect_lanes(search, &candidates);
		tq_id_heap_sort(&candidates);
		for (int i = 0; i < candidates.count; i++)
		{
			int64 task_id = candidates.rows[i].task_id;
			Range range;

			/* a task may occur twice, with positions of two versions */
			if (i > 0 && task_id == candidates.rows[i - 1].task_id)
				continue;
			if (!tq_id_heap_wants(&search->page, task_id))
				return;
			range = (Range){BY_ID};
			range_equals(&range, F_INT8EQ, Int64GetDatum(task_id));
			(void) walk(search, TQ_FOUND_LIVE, &range, PG_INT64_MAX);
		}
		if (candidates.count > 0)
			narrow(search, candidates.rows[candidates.count - 1].task_id);
		pfree(candidates.rows);
	} while (candidates.dropped);
}

/* The next column of the range equals a value. */
static void
range_equals(Range *range, RegProcedure equal, Datum value)
{
	ScanKeyInit(&range->keys[range->nkeys], range->nkeys + 1,
				BTEqualStrategyNumber, equal, value);
	range->nkeys++;
}

/* Add the bounds of ids to a range. */
static int
add_bounds(const Search *search, Range *range)
{
	int nkeys = range->nkeys;

	if (range->id_column == 0)
		return nkeys;
	ScanKeyInit(&range->keys[nkeys++], range->id_column,
				BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(search->first));
	ScanKeyInit(&range->keys[nkeys++], range->id_column,
				BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(search->last));
	return nkeys;
}

/*
 * Add the matching rows of a range to the page.  Returns false if more rows
 * than budget did not match; the search is then narrowed to the ids behind
 * them.
 */
static bool
walk(Search *search, int table, Range *range, int64 budget)
{
	TqTaskPage     *find = search->find;
	Relation        index = open_index(find, table, range->which);
	TupleTableSlot *slot = find->table[table].slot;
	ScanDirection direction = search->filter->backward ? BackwardScanDirection
													   : ForwardScanDirection;
	int           nkeys = add_bounds(search, range);
	bool          done = true;
	IndexScanDesc scan;

	scan = tq_compat_index_beginscan(find->table[table].rel, index,
									 find->snapshot, nkeys);
	index_rescan(scan, range->keys, nkeys, NULL, 0);
	while (index_getnext_slot(scan, direction, slot))
	{
		bool         should_free;
		HeapTuple    tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
		TqTaskFixed *row = (TqTaskFixed *) GETSTRUCT(tuple);
		int64        task_id = row->task_id;

		CHECK_FOR_INTERRUPTS();
		if (!tq_id_heap_wants(&search->page, task_id))
		{
			if (range->id_column != 0)
				break;
		}
		else if (task_id >= search->first && task_id <= search->last &&
				 tq_task_filter_fits(search->filter, slot, row))
		{
			TqFound found;

			found.task_id = task_id;
			found.table = table;
			found.tid = slot->tts_tid;
			tq_id_heap_add(&search->page, &found);
		}
		else if (--budget < 0)
		{
			narrow(search, task_id);
			done = false;
			break;
		}
	}
	ExecClearTuple(slot);
	index_endscan(scan);
	return done;
}

/* All tasks up to this id have been seen. */
static void
narrow(Search *search, int64 reached)
{
	if (search->filter->backward)
		search->last = reached - 1;
	else
		search->first = reached + 1;
}

/*
 * Are the running tasks of the snapshot the same as in shared/running.c?  It
 * has all committed claims, but not claims of this transaction.  (A task that
 * has ended since the snapshot was taken is missing from it.)
 */
static bool
registry_will_do(const Search *search)
{
	return !IsolationUsesXactSnapshot() &&
		   !TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		   tq_running_complete();
}

static void
collect_running(Search *search, TqIdHeap *candidates)
{
	int        count;
	TqRunning *running = tq_running_all(&count);
	TqFound    found = {0};

	for (int i = 0; i < count; i++)
	{
		found.task_id = running[i].task_id;
		if (found.task_id >= search->first && found.task_id <= search->last)
			tq_id_heap_add(candidates, &found);
	}
	pfree(running);
}

/* Collect candidates from the lanes of the queues, without reading rows. */
static void
collect_lanes(Search *search, TqIdHeap *candidates)
{
	int32 *queues;
	int    count;

	queues_of(search, &queues, &count);
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_by_id(queues[i]);

		for (int l = 0; queue != NULL && l < queue->lane_count; l++)
		{
			if (l == 0 ||
				queue->lanes[l].lane_id != queue->lanes[l - 1].lane_id)
				collect_lane(search, candidates, queue->lanes[l].lane_id);
		}
	}
}

static void
collect_lane(Search *search, TqIdHeap *candidates, int64 lane)
{
	int   state = search->filter->state;
	int16 priority = 0;
	Range range;

	if (state != TQ_STATE_BLOCKED && state != TQ_STATE_SUSPENDED)
	{
		range = (Range){BY_POSITION};
		range_equals(&range, F_INT8EQ, Int64GetDatum(lane));
		collect_range(search, candidates, &range);
		return;
	}
	/* these tasks come after all other tasks of their priority */
	for (bool found = next_priority(search, lane, &priority, false); found;
		 found = next_priority(search, lane, &priority, true))
	{
		range = (Range){BY_POSITION};
		range_equals(&range, F_INT8EQ, Int64GetDatum(lane));
		range_equals(&range, F_INT2EQ, Int16GetDatum(priority));
		ScanKeyInit(&range.keys[range.nkeys++], 3, BTEqualStrategyNumber,
					F_TIMESTAMPTZ_EQ, TimestampTzGetDatum(DT_NOEND));
		collect_range(search, candidates, &range);
	}
}

static bool
next_priority(Search *search, int64 lane, int16 *priority, bool below)
{
	TqTaskPage *find = search->find;

	return tq_lane_priority_read(find->table[TQ_FOUND_LIVE].rel,
								 open_index(find, TQ_FOUND_LIVE, BY_POSITION),
								 find->snapshot, lane, below, priority);
}

static void
collect_range(Search *search, TqIdHeap *candidates, Range *range)
{
	TqTaskPage   *find = search->find;
	Relation      index = open_index(find, TQ_FOUND_LIVE, BY_POSITION);
	IndexScanDesc scan;
	TqFound       found = {0};

	scan = tq_compat_index_beginscan(find->table[TQ_FOUND_LIVE].rel, index,
									 find->snapshot, range->nkeys);
	scan->xs_want_itup = true;
	index_rescan(scan, range->keys, range->nkeys, NULL, 0);
	while (index_getnext_tid(scan, ForwardScanDirection) != NULL)
	{
		bool isnull;

		CHECK_FOR_INTERRUPTS();
		found.task_id = DatumGetInt64(
			index_getattr(scan->xs_itup, 4, scan->xs_itupdesc, &isnull));
		if (found.task_id >= search->first && found.task_id <= search->last)
			tq_id_heap_add(candidates, &found);
	}
	index_endscan(scan);
}
