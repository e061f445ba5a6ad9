/*
 * task_page.c
 *		Reading tasks with one snapshot: pages of them, single ones.
 *
 * taskq.task and all leaves of the archive are read with a single snapshot: a
 * task that finishes concurrently is found once.  query/task_search.c finds
 * the tasks of a page.
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
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/debug.h"
#include "base/spi.h"
#include "query/task_page.h"
#include "store/row.h"

/* Suffixes of their names: of taskq.task, of leaves. */
static const char *const index_names[TQ_TASK_INDEXES][2] = {
	[TQ_BY_ID] = {"pkey", "pkey"},
	[TQ_BY_STATE] = {NULL, "queue_id_state_task_id_idx"},
	[TQ_BY_STATE_ALONE] = {NULL, "state_task_id_idx"},
	[TQ_BY_REFERENCE] = {"reference_idx", "queue_id_reference_idx"},
	[TQ_BY_KEY] = {"key_idx", "queue_id_key_task_id_idx"},
	[TQ_BY_CORRELATION] = {"correlation_idx", "correlation_id_idx"},
	[TQ_BY_WORKFLOW] = {"workflow_idx", "workflow_id_step_id_idx"},
	[TQ_BY_WORKER] = {NULL, "worker_id_task_id_idx"},
	[TQ_BY_FINISHED] = {NULL, "finished_at_idx"},
	[TQ_BY_RECREATED] = {NULL, "recreated_as_idx"},
	[TQ_BY_WAKE] = {"wake_idx", NULL},
	[TQ_BY_POSITION] = {"dispatch_idx", NULL}};

static TqStmt stmt_queues = {
	"SELECT queue_id FROM taskq.queue WHERE queue_id <> 0 ORDER BY queue_id"};

static void read_slot(TupleTableSlot *slot, int table, TqTask *task);

/* Begin to read with the snapshot. */
TqTaskPage *
tq_task_page_begin(Snapshot snapshot)
{
	TqTaskPage *find = palloc0(sizeof(TqTaskPage));

	find->context = CurrentMemoryContext;
	find->scratch = AllocSetContextCreate(find->context, "taskq searched row",
										  ALLOCSET_DEFAULT_SIZES);
	find->snapshot = snapshot;
	return find;
}

void
tq_task_page_end(TqTaskPage *find)
{
	for (int t = 0; t < TQ_FOUND_TABLES; t++)
	{
		TqTaskTable *table = &find->table[t];

		if (table->rel == NULL)
			continue;
		for (int i = 0; i < TQ_TASK_INDEXES; i++)
		{
			if (table->index[i] != NULL)
				index_close(table->index[i], NoLock);
		}
		ExecDropSingleTupleTableSlot(table->slot);
		table_close(table->rel, NoLock);
	}
	MemoryContextDelete(find->scratch);
	pfree(find);
}

Snapshot
tq_task_page_snapshot(const TqTaskPage *find)
{
	return find->snapshot;
}

TqTaskTable *
tq_task_page_table(TqTaskPage *find, int t)
{
	TqTaskTable *table = &find->table[t];

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
Relation
tq_task_page_index(TqTaskPage *find, int t, TqTaskIndex which)
{
	TqTaskTable *table = tq_task_page_table(find, t);

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

/* Return the queues of a filter, one by one. */
void
tq_task_page_queues(TqTaskPage *find, const TqTaskFilter *filter,
					int32 **queues, int *count)
{
	if (!filter->all_queues)
	{
		*queues = filter->queues;
		*count = filter->queue_count;
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
		TqTaskTable  *table = tq_task_page_table(find, leaf);
		ScanKeyData   keys[2];
		IndexScanDesc scan;
		ItemPointer   tid;

		if (RelationGetNumberOfBlocks(table->rel) == 0)
			continue;
		ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ,
					Int32GetDatum(queue_id));
		ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT2EQ,
					Int16GetDatum(state));
		scan = tq_compat_index_beginscan(
			table->rel, tq_task_page_index(find, leaf, TQ_BY_STATE),
			find->snapshot, 2);
		scan->xs_want_itup = true;
		index_rescan(scan, keys, 2, NULL, 0);
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
	bool found = false;

	for (int t = 0; t < TQ_FOUND_TABLES && !found; t++)
	{
		TqTaskTable  *table = tq_task_page_table(find, t);
		ScanKeyData   key;
		IndexScanDesc scan;

		if (RelationGetNumberOfBlocks(table->rel) != 0)
		{
			ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ,
						Int64GetDatum(task_id));
			scan = tq_compat_index_beginscan(
				table->rel, tq_task_page_index(find, t, TQ_BY_ID),
				find->snapshot, 1);
			index_rescan(scan, &key, 1, NULL, 0);
			found =
				index_getnext_slot(scan, ForwardScanDirection, table->slot);
			if (found)
				read_slot(table->slot, t, task);
			ExecClearTuple(table->slot);
			index_endscan(scan);
		}
		TQ_DEBUG_POINT("find_table");
	}
	return found;
}

/* Read a task that was found, in the current memory context. */
void
tq_task_page_read(TqTaskPage *find, const TqFound *found, TqTask *task)
{
	TqTaskTable *table = &find->table[found->table];

	if (!table_tuple_fetch_row_version(table->rel, (ItemPointer) &found->tid,
									   find->snapshot, table->slot))
		elog(ERROR, "task " INT64_FORMAT " is not where it was found",
			 found->task_id);
	read_slot(table->slot, found->table, task);
	ExecClearTuple(table->slot);
}

static void
read_slot(TupleTableSlot *slot, int table, TqTask *task)
{
	bool      should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);

	tq_row_read(tuple, slot->tts_tupleDescriptor, task);
	task->archived = table != TQ_FOUND_LIVE;
}
