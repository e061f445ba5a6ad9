/*
 * pkey_lookup.c
 *		Lookup of rows of taskq.task by id.
 *
 * A descent of the primary key is the most expensive part of reading a row.  A
 * call that will look up ids that are close together, in ascending order,
 * reads their index entries in one scan (tq_pkey_lookup_prefetch); the rows
 * themselves are fetched when they are looked up.
 *
 * Prefetched entries are valid for the snapshot that was active then, and are
 * not used with a newer one.  No index page stays pinned in the meantime, so
 * vacuum may remove such an entry and its row, and another row may be put in
 * the same place.  This is harmless, since a row that the snapshot sees is not
 * removed, and the snapshot does not see a later row.  The server's own scans
 * release their pins for the same reason.
 *
 * The entry of a running task in shared/running.c has the location of its row,
 * so finishing the task needs no descent.  The location is a hint: the row may
 * have been updated, or moved with the whole table, and another one may be in
 * its place.  So the location is used only if the snapshot sees the task's own
 * row there; this is then the only version of the row that the snapshot sees.
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

/* Allocated for the lifetime of the call. */
struct TqPkeyLookup
{
	Relation      index;
	IndexScanDesc scan;     /* for one id */
	IndexScanDesc walk;     /* for many; NULL: not started */
	uint64        snapshot; /* for which the fields below were read */
	int64         first;    /* first to last are in entries; none if > */
	int64         last;
	Entry        *entries; /* in the order of ids */
	int           count;
	int           room;
	int           next; /* all entries before it are below the last lookup */
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
 * The call will look up tasks from first to last, in ascending order, and
 * enough of them to make it worth reading all entries between.
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
 * Put the row of the task into the table's slot.  Returns false if the active
 * snapshot sees no row.
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

/* Was its entry prefetched, if it has one? */
static bool
is_ahead(const TqPkeyLookup *lookup, int64 task_id)
{
	return lookup != NULL && lookup->snapshot == tq_snapshot_count() &&
		   task_id >= lookup->first && task_id <= lookup->last;
}

/* Find the row of a running task at the location in its entry. */
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

/* Begin an index-only scan of the entries from first to last. */
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

/* Make room for one more entry. */
static Entry *
next_entry(TqPkeyLookup *lookup)
{
	TQ_ARRAY_RESERVE(lookup->entries, lookup->count, lookup->room,
					 CurrentMemoryContext);
	return &lookup->entries[lookup->count++];
}

/* A task may have several entries if its row has moved. */
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
