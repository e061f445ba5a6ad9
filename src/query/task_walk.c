/*
 * task_walk.c
 *		Walks through ranges of the indexes of tasks.
 *
 * A walk adds the matching rows of a range to the page of a search.  If the
 * range is ordered by id, the walk ends after the number of rows that each
 * walk may read, and restricts the round of the search to the ids that it has
 * reached: the round is complete up to there (query/task_search.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"

#include "base/clock.h"
#include "query/task_walk.h"
#include "store/row.h"

static int  add_bounds(const TqSearch *search, TqRange *range);
static void look_at(TqSearch *search, int table, TupleTableSlot *slot,
					HeapTuple tuple);

/* The next column of the range equals a value. */
void
tq_task_walk_equals(TqRange *range, RegProcedure equal, Datum value)
{
	ScanKeyInit(&range->keys[range->nkeys], range->nkeys + 1,
				BTEqualStrategyNumber, equal, value);
	range->nkeys++;
}

/*
 * Add the matching rows of a range to the page.  Returns false if the range is
 * not ordered by id and has more rows than such a walk may read.
 */
bool
tq_task_walk(TqSearch *search, int table, TqRange *range)
{
	TqTaskPage     *find = search->find;
	Relation        index = tq_task_page_index(find, table, range->which);
	TupleTableSlot *slot = find->table[table].slot;
	ScanDirection direction = search->filter->backward ? BackwardScanDirection
													   : ForwardScanDirection;
	int           nkeys = add_bounds(search, range);
	bool          ordered = range->id_column != 0;
	int64         count = 0;
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
		count++;
		if (!ordered && count > search->crowd)
		{
			done = false;
			break;
		}
		if (task_id >= search->first && task_id <= search->last &&
			tq_id_heap_wants(&search->page, task_id))
			look_at(search, table, slot, tuple);
		else if (ordered)
			break;
		if (!ordered)
		{
			search->unordered++;
			continue;
		}
		search->examined++;
		search->in_place +=
			tq_task_filter_is_in_place(search->filter, row) ? 1 : 0;
		if (count >= search->limit || tq_task_walk_is_late(search))
		{
			tq_task_walk_narrow(search, task_id);
			break;
		}
	}
	ExecClearTuple(slot);
	index_endscan(scan);
	return done;
}

/* The first id of the round in a table.  Returns false if there is none. */
bool
tq_task_walk_peek(TqSearch *search, int table, int64 *task_id)
{
	TqTaskPage   *find = search->find;
	TqRange       range = {TQ_BY_ID};
	IndexScanDesc scan;
	bool          found;
	bool          isnull;
	int           nkeys;

	range.id_column = 1;
	nkeys = add_bounds(search, &range);
	scan = tq_compat_index_beginscan(find->table[table].rel,
									 tq_task_page_index(find, table, TQ_BY_ID),
									 find->snapshot, nkeys);
	scan->xs_want_itup = true;
	index_rescan(scan, range.keys, nkeys, NULL, 0);
	found = index_getnext_tid(scan, search->filter->backward
										? BackwardScanDirection
										: ForwardScanDirection) != NULL;
	if (found)
		*task_id = DatumGetInt64(
			index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull));
	index_endscan(scan);
	return found;
}

/* Collect the ids of a range, from the given column, without reading rows. */
void
tq_task_walk_collect(TqSearch *search, int table, TqRange *range,
					 int id_column, TqIdHeap *candidates)
{
	TqTaskPage   *find = search->find;
	IndexScanDesc scan;
	TqFound       found = {0};

	scan = tq_compat_index_beginscan(
		find->table[table].rel, tq_task_page_index(find, table, range->which),
		find->snapshot, range->nkeys);
	scan->xs_want_itup = true;
	index_rescan(scan, range->keys, range->nkeys, NULL, 0);
	while (index_getnext_tid(scan, ForwardScanDirection) != NULL)
	{
		bool isnull;

		CHECK_FOR_INTERRUPTS();
		found.task_id = DatumGetInt64(index_getattr(
			scan->xs_itup, id_column, scan->xs_itupdesc, &isnull));
		if (found.task_id >= search->first && found.task_id <= search->last)
			tq_id_heap_add(candidates, &found);
	}
	index_endscan(scan);
}

/* This round goes no further than the id. */
void
tq_task_walk_narrow(TqSearch *search, int64 reached)
{
	if (search->filter->backward)
		search->first = Max(search->first, reached);
	else
		search->last = Min(search->last, reached);
}

/* Has the search taken as long as it may? */
bool
tq_task_walk_is_late(const TqSearch *search)
{
	return search->until != 0 && tq_clock_monotonic() >= search->until;
}

/* Add the bounds of ids to a range. */
static int
add_bounds(const TqSearch *search, TqRange *range)
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

/* Add the row to the page if it matches. */
static void
look_at(TqSearch *search, int table, TupleTableSlot *slot, HeapTuple tuple)
{
	TqTaskPage        *find = search->find;
	const TqTaskFixed *row = (const TqTaskFixed *) GETSTRUCT(tuple);
	TqFound            found;
	bool               sure;

	if (!tq_task_filter_may_fit(search->filter, row, &sure))
		return;
	if (!sure)
	{
		MemoryContext mine = MemoryContextSwitchTo(find->scratch);
		TqTask        task;
		bool          fits;

		tq_row_read(tuple, slot->tts_tupleDescriptor, &task);
		task.archived = table != TQ_FOUND_LIVE;
		fits = tq_task_filter_fits_task(search->filter, &task);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(find->scratch);
		if (!fits)
			return;
	}
	found.task_id = row->task_id;
	found.table = table;
	found.tid = slot->tts_tid;
	tq_id_heap_add(&search->page, &found);
}
