/*
 * pkey_lookup.c
 *		Finding rows of taskq.task by their ids.
 *
 * One descent of the primary key costs more than all else that there is to
 * reading a row.  A call that will ask for ids that stand close together, in
 * rising order, reads their entries of the index in one walk
 * (tq_pkey_lookup_prefetch); the rows themselves are fetched when they are
 * asked for.
 *
 * Entries that were read ahead hold for the snapshot that was active then,
 * and are not used with a newer one.  Nothing of the index stays pinned
 * meanwhile, so vacuum may take such an entry and its row away, and another
 * row may come to that place: our snapshot sees neither, since a row that it
 * does see is not taken away, and one that came later it does not see.  The
 * server's own scans let go of their pins for the same reason.
 *
 * Where the row of a running task is, its entry in shared/running.c tells, so
 * who ends the task needs no descent.  That is a hint: the row may have been
 * written again, or moved with the whole table, and another one may be where
 * it was.  So it counts only if our snapshot sees the task's own row there,
 * which is then the only one that it sees.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/relscan.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/array.h"
#include "base/catalog.h"
#include "shared/running.h"
#include "store/pkey_lookup.h"
#include "store/snapshot.h"
#include "store/task.h"

typedef struct Entry
{
	int64           task_id;
	ItemPointerData tid;
} Entry;

/* All of it lives as long as the call. */
struct TqPkeyLookup
{
	Relation      index;
	IndexScanDesc scan;     /* for one id */
	IndexScanDesc walk;     /* for many; NULL: none yet */
	uint64        snapshot; /* for which the following was read */
	int64         first;    /* first to last are in entries; none if > */
	int64         last;
	Entry        *entries; /* in the order of ids */
	int           count;
	int           room;
	int           next; /* all before it have smaller ids than last asked */
};

static TqPkeyLookup *lookup_of(TqTable *table);
static void   begin_walk(TqCall *call, TqPkeyLookup *lookup, int64 first,
						 int64 last);
static Entry *next_entry(TqPkeyLookup *lookup);
static bool   is_ahead(const TqPkeyLookup *lookup, int64 task_id);
static bool   find_running(TqTable *table, int64 task_id);
static void   make_slot(TqTable *table);
static bool   find_ahead(TqTable *table, TqPkeyLookup *lookup, int64 task_id);

/*
 * The call will look for tasks from first to last, in rising order, and for
 * so many that all entries between are worth reading.
 */
void
tq_pkey_lookup_prefetch(TqCall *call, int64 first, int64 last)
{
	TqPkeyLookup *lookup = lookup_of(&call->task);
	MemoryContext mine = MemoryContextSwitchTo(call->task.context);

	begin_walk(call, lookup, first, last);
	lookup->count = lookup->next = 0;
	while (index_getnext_tid(lookup->walk, ForwardScanDirection) != NULL)
	{
		Entry *entry = next_entry(lookup);
		bool   isnull;

		entry->task_id = DatumGetInt64(index_getattr(
			lookup->walk->xs_itup, 1, lookup->walk->xs_itupdesc, &isnull));
		entry->tid = lookup->walk->xs_heaptid;
	}
	lookup->snapshot = tq_snapshot_count();
	lookup->first = first;
	lookup->last = last;
	MemoryContextSwitchTo(mine);
}

/*
 * Put the row of the task into the table's slot; false when there is none
 * that the active snapshot sees.
 */
bool
tq_pkey_lookup_find(TqTable *table, int64 task_id)
{
	TqPkeyLookup *lookup;
	MemoryContext mine;
	bool          found;

	if (!is_ahead(table->lookup, task_id) && find_running(table, task_id))
		return true;
	lookup = lookup_of(table);
	mine = MemoryContextSwitchTo(table->context);
	if (is_ahead(lookup, task_id))
		found = find_ahead(table, lookup, task_id);
	else
	{
		ScanKeyData key;

		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ,
					Int64GetDatum(task_id));
		lookup->scan->xs_snapshot = GetActiveSnapshot();
		index_rescan(lookup->scan, &key, 1, NULL, 0);
		found = index_getnext_slot(lookup->scan, ForwardScanDirection,
								   table->slot);
	}
	MemoryContextSwitchTo(mine);
	return found;
}

void
tq_pkey_lookup_end(TqTable *table)
{
	if (table->lookup == NULL)
		return;
	if (table->lookup->walk != NULL)
		index_endscan(table->lookup->walk);
	index_endscan(table->lookup->scan);
	index_close(table->lookup->index, NoLock);
	table->lookup = NULL;
}

/* Was its entry read ahead, if it has one? */
static bool
is_ahead(const TqPkeyLookup *lookup, int64 task_id)
{
	return lookup != NULL && lookup->snapshot == tq_snapshot_count() &&
		   task_id >= lookup->first && task_id <= lookup->last;
}

/* The row of a running task, where its entry says that it is. */
static bool
find_running(TqTable *table, int64 task_id)
{
	TqRunning running;
	bool      isnull;

	if (!tq_running_find(task_id, &running) ||
		!ItemPointerIsValid(&running.tid) ||
		ItemPointerGetBlockNumber(&running.tid) >=
			RelationGetNumberOfBlocks(table->rel))
		return false;
	make_slot(table);
	if (!table_tuple_fetch_row_version(table->rel, &running.tid,
									   GetActiveSnapshot(), table->slot))
		return false;
	if (DatumGetInt64(slot_getattr(table->slot, TQ_COL_TASK_ID, &isnull)) ==
		task_id)
		return true;
	ExecClearTuple(table->slot);
	return false;
}

static void
make_slot(TqTable *table)
{
	MemoryContext caller;

	if (table->slot != NULL)
		return;
	caller = MemoryContextSwitchTo(table->context);
	table->slot = table_slot_create(table->rel, NULL);
	MemoryContextSwitchTo(caller);
}

static TqPkeyLookup *
lookup_of(TqTable *table)
{
	MemoryContext mine;
	TqPkeyLookup *lookup;

	if (table->lookup != NULL)
		return table->lookup;
	mine = MemoryContextSwitchTo(table->context);
	lookup = palloc0(sizeof(TqPkeyLookup));
	lookup->index =
		tq_catalog_open_index(tq_catalog()->task_pkey, AccessShareLock);
	lookup->scan = tq_compat_index_beginscan(table->rel, lookup->index,
											 GetActiveSnapshot(), 1);
	make_slot(table);
	table->lookup = lookup;
	MemoryContextSwitchTo(mine);
	return lookup;
}

/* Walk over the entries from first to last, reading the index alone. */
static void
begin_walk(TqCall *call, TqPkeyLookup *lookup, int64 first, int64 last)
{
	ScanKeyData keys[2];

	if (lookup->walk == NULL)
		lookup->walk = tq_compat_index_beginscan(call->task.rel, lookup->index,
												 GetActiveSnapshot(), 2);
	ScanKeyInit(&keys[0], 1, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(first));
	ScanKeyInit(&keys[1], 1, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(last));
	lookup->walk->xs_snapshot = GetActiveSnapshot();
	lookup->walk->xs_want_itup = true;
	index_rescan(lookup->walk, keys, 2, NULL, 0);
}

/* Room for one more. */
static Entry *
next_entry(TqPkeyLookup *lookup)
{
	TQ_ARRAY_RESERVE(lookup->entries, lookup->count, lookup->room,
					 CurrentMemoryContext);
	return &lookup->entries[lookup->count++];
}

/* A task may have several entries, when its row has moved. */
static bool
find_ahead(TqTable *table, TqPkeyLookup *lookup, int64 task_id)
{
	lookup->walk->xs_snapshot = GetActiveSnapshot();
	if (lookup->next > 0 &&
		lookup->entries[lookup->next - 1].task_id >= task_id)
		lookup->next = 0;
	while (lookup->next < lookup->count &&
		   lookup->entries[lookup->next].task_id < task_id)
		lookup->next++;
	for (int i = lookup->next; i < lookup->count; i++)
	{
		if (lookup->entries[i].task_id != task_id)
			break;
		lookup->walk->xs_heaptid = lookup->entries[i].tid;
		lookup->walk->xs_heap_continue = false;
		if (index_fetch_heap(lookup->walk, table->slot))
			return true;
	}
	return false;
}
