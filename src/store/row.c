/*
 * row.c
 *		Reading and writing rows of tasks below the executor.
 *
 * A call begins with a new snapshot (under READ COMMITTED), reads a row by its
 * id, decides, and writes without having locked the row on disk.  If another
 * transaction has changed the row in the meantime, the write fails and reports
 * that; the caller takes a new snapshot and decides again.  So one change is
 * one WAL record.  Above READ COMMITTED such a failure is 40001.
 *
 * Archived rows are read and removed by SQL (archive.c); a row of the archive
 * or of the history is added to its leaf directly.  If "many" is set in a
 * call, its new rows are inserted together by store/multi_insert.c, at the
 * latest when the call ends.
 *
 * What the executor would do, and which code does it:
 * - Snapshot: tq_call_begin and tq_snapshot_renew push one; a write uses the
 *   current command id, and tq_call_end makes it visible.
 * - Rechecking a changed row (EvalPlanQual): not done; the write is refused,
 *   and the caller decides again with a new snapshot.
 * - Locks: the table has RowExclusiveLock from the call's beginning, and so
 *   has each index that gets an entry; both are held until the transaction
 *   ends.
 * - Index entries: store/index_entry.c for new rows; ExecInsertIndexTuples if
 *   a reference is checked, and after an update in those indexes, if any, that
 *   the server requires.  A row changed by a claim stays heap-only, since no
 *   index contains the columns that it changes, unless a user has added one.
 * - Uniqueness: by the indexes, as always; a reference by speculative
 *   insertion, like ON CONFLICT.
 * - Not null, checks, foreign keys, generated columns, triggers, rules, row
 *   security: these tables, whose rows belong to the extension, have none.
 *   taskq_health() reports those that a user has added (diag/health_server.c);
 *   a table with other columns is refused when it is opened.
 * - Partition routing: tq_row_insert_archive and tq_row_insert_history specify
 *   the leaf.
 * The server's functions for tables (table_tuple_insert, table_multi_insert,
 * table_tuple_update, table_tuple_delete) do the rest, as they do for the
 * executor: WAL with the replica identity, toast, visibility map, free space,
 * predicate locks and conflicts of SERIALIZABLE, statistics of rows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/debug.h"
#include "base/error.h"
#include "shared/leaf_change.h"
#include "store/index_entry.h"
#include "store/multi_insert.h"
#include "store/pkey_lookup.h"
#include "store/row.h"
#include "store/row_image.h"
#include "store/snapshot.h"
#include "store/table_open.h"
#include "store/tuple_lock.h"

static TupleTableSlot *store(TqTable *table, HeapTuple tuple, bool owned);
static bool  use_leaf(TqCall *call, TqTable *table, Oid *opened, Oid leaf,
					  int columns);
static void  insert_later(TqTable *table, TqTask *task);
static void  insert_now(TqTable *table, TupleTableSlot *slot);
static bool  written(TM_Result result, bool wait);
static bool  insert_unique(TqTable *table, TupleTableSlot *slot, int64 *holder,
						   TqState *holder_state);
static List *reference_indexes(ResultRelInfo *target);
static void  holder_of(TqTable *table, ItemPointer tid, int64 *holder,
					   TqState *holder_state);

/* Insert the rows that the call has collected. */
void
tq_row_flush(TqCall *call)
{
	tq_multi_insert_flush(&call->task);
	tq_multi_insert_flush(&call->leaf);
	tq_multi_insert_flush(&call->history);
}

/*
 * Read a live task.  Returns false if this call does not see it.
 */
bool
tq_row_find(TqCall *call, int64 task_id, TqTask *task)
{
	TqTable  *table = &call->task;
	HeapTuple tuple;
	bool      should_free;

	if (!tq_pkey_lookup_find(table, task_id))
		return false;
	tuple = ExecFetchSlotHeapTuple(table->slot, false, &should_free);
	tq_row_read(tuple, RelationGetDescr(table->rel), task);
	task->tid = table->slot->tts_tid;
	ExecClearTuple(table->slot);
	return true;
}

/*
 * The same for a task that a latest snapshot has shown, and that the call must
 * not overlook.  Returns false if it is no longer live.  Raises 40001 if it
 * was made after the transaction's own snapshot was taken.
 */
bool
tq_row_find_shown(TqCall *call, int64 task_id, TqTask *task)
{
	bool shown;

	if (tq_row_find(call, task_id, task))
		return true;
	if (!IsolationUsesXactSnapshot())
		return false;
	tq_snapshot_push_latest();
	shown = tq_row_find(call, task_id, task);
	tq_snapshot_pop();
	if (shown)
		tq_error_serialization();
	return false;
}

/*
 * Build a task from a row of taskq.task, or of the archive with its additional
 * columns.  The task keeps its own copy of the row.
 */
void
tq_row_read(HeapTuple tuple, TupleDesc desc, TqTask *task)
{
	HeapTuple copy = heap_copytuple(tuple);

	memset(task, 0, sizeof(*task));
	tq_row_image_read(copy, desc, task);
	task->tid = copy->t_self;
	if (desc->natts == TQ_TASK_COLUMNS)
		task->image = copy;
	tq_task_note_position(task);
	task->queue_before = task->f.queue_id;
	task->key_before = task->isnull[TQ_COL_KEY] ? (Datum) 0
												: task->value[TQ_COL_KEY];
}

/*
 * Update the row of a live task that was read.  Returns false if another
 * transaction has changed the row, and, without wait, also if another
 * transaction is changing it.
 */
bool
tq_row_update(TqCall *call, TqTask *task, bool wait)
{
	TqTable        *table = &call->task;
	ItemPointerData tid = task->tid;
	TupleTableSlot *slot;
	TM_FailureData  failure;
	LockTupleMode   mode;
	TqIndexUpdate   indexes;
	bool            done;
	bool            locked;

	if (!wait && tq_tuple_lock_was_taken(task))
		return false;
	tq_row_image_put_implied(task);
	if (!tq_tuple_lock_acquire(table->rel, &tid, wait, &locked))
		return false;
	if (task->image != NULL)
	{
		memcpy(GETSTRUCT(task->image), &task->f, TQ_FIXED_SIZE);
		slot = store(table, task->image, false);
	}
	else
		slot = store(table,
					 tq_row_image_form(task, RelationGetDescr(table->rel)),
					 true);
	done = written(table_tuple_update(table->rel, &tid, slot,
									  GetCurrentCommandId(true),
									  GetActiveSnapshot(), InvalidSnapshot,
									  wait || !TQ_WRITE_CAN_REFUSE, &failure,
									  &mode, &indexes),
				   wait);
	tq_tuple_lock_release(table->rel, &tid, locked);
	if (done)
	{
		task->tid = slot->tts_tid;
		if (indexes != TQ_INDEX_UPDATE_NONE)
			tq_index_entry_update(table, slot, indexes);
	}
	ExecClearTuple(slot);
	return done;
}

/*
 * Lock the row of a task that was just read, or its newer version, against
 * changes by other transactions; if shared, they can lock it in the same way.
 * Waits for a transaction that is changing it, and reads it again.  Returns
 * false if the row no longer exists.
 */
bool
tq_row_lock(TqCall *call, TqTask *task, bool shared)
{
	Relation        rel = call->task.rel;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ItemPointerData tid = task->tid;
	TM_FailureData  failure;
	TM_Result       result;
	bool            should_free;

	result = table_tuple_lock(
		rel, &tid, GetActiveSnapshot(), slot, GetCurrentCommandId(true),
		shared ? LockTupleShare : LockTupleExclusive, LockWaitBlock,
		IsolationUsesXactSnapshot() ? 0 : TUPLE_LOCK_FLAG_FIND_LAST_VERSION,
		&failure);
	if (result == TM_Ok)
	{
		tq_row_read(ExecFetchSlotHeapTuple(slot, false, &should_free),
					RelationGetDescr(rel), task);
		task->tid = slot->tts_tid;
	}
	ExecDropSingleTupleTableSlot(slot);
	if (result == TM_Ok)
		return true;
	if (result != TM_Deleted || IsolationUsesXactSnapshot())
		tq_error_serialization();
	return false;
}

/*
 * Delete the row that was read.  Returns false in the same cases as
 * tq_row_update.
 */
bool
tq_row_delete(TqCall *call, TqTask *task, bool wait)
{
	Relation       rel = call->task.rel;
	TM_FailureData failure;
	bool           done;
	bool           locked;

	if (!tq_tuple_lock_acquire(rel, &task->tid, wait, &locked))
		return false;
	done = written(
		table_tuple_delete(rel, &task->tid, GetCurrentCommandId(true),
						   GetActiveSnapshot(), InvalidSnapshot,
						   wait || !TQ_WRITE_CAN_REFUSE, &failure, false),
		wait);
	tq_tuple_lock_release(rel, &task->tid, locked);
	return done;
}

/*
 * Add a live task.  With unique_reference the task's reference is checked
 * first, and the call waits for transactions that are adding or removing the
 * same reference.  If a live task has the reference, no row is added; the call
 * returns false and sets *holder and *holder_state.
 */
bool
tq_row_insert(TqCall *call, TqTask *task, bool unique_reference, int64 *holder,
			  TqState *holder_state)
{
	TqTable        *table = &call->task;
	TupleTableSlot *slot;
	bool            added = true;

	tq_row_image_put_implied(task);
	task->image = NULL;
	if (call->many && !unique_reference)
	{
		insert_later(table, task);
		return true;
	}
	slot = store(table, tq_row_image_form(task, RelationGetDescr(table->rel)),
				 true);
	if (unique_reference)
		added = insert_unique(table, slot, holder, holder_state);
	else
		insert_now(table, slot);
	task->tid = slot->tts_tid;
	ExecClearTuple(slot);
	return added;
}

/* Add a finished task to the leaf that its bucket names. */
void
tq_row_insert_archive(TqCall *call, TqTask *task)
{
	TqTable        *table = &call->leaf;
	int             bucket = DatumGetInt16(task->value[TQ_COL_BUCKET]);
	TupleTableSlot *slot;

	tq_row_image_put_implied(task);
	if (use_leaf(call, table, &call->leaf_oid, tq_catalog()->leaf[bucket],
				 TQ_ARCHIVE_COLUMNS))
		tq_leaf_change_note(bucket);
	if (call->many)
	{
		insert_later(table, task);
		return;
	}
	slot = store(table, tq_row_image_form(task, RelationGetDescr(table->rel)),
				 true);
	insert_now(table, slot);
	ExecClearTuple(slot);
}

/* Add a row with these column values to a leaf of the history. */
void
tq_row_insert_history(TqCall *call, int leaf, Datum *values, bool *nulls)
{
	TqTable        *table = &call->history;
	TupleTableSlot *slot;
	HeapTuple       tuple;
	MemoryContext   mine;

	(void) use_leaf(call, table, &call->history_oid,
					tq_catalog()->transition[leaf], TQ_HISTORY_COLUMNS);
	mine = MemoryContextSwitchTo(call->many ? tq_multi_insert_context(table)
											: CurrentMemoryContext);
	tuple = heap_form_tuple(RelationGetDescr(table->rel), values, nulls);
	MemoryContextSwitchTo(mine);
	if (call->many)
	{
		tq_multi_insert_add(table, tuple);
		return;
	}
	slot = store(table, tuple, true);
	insert_now(table, slot);
	ExecClearTuple(slot);
}

/*
 * Make this leaf the table of the call, *opened.  Returns false if it already
 * was.
 */
static bool
use_leaf(TqCall *call, TqTable *table, Oid *opened, Oid leaf, int columns)
{
	if (*opened == leaf)
		return false;
	tq_table_end(table);
	tq_table_begin(table, leaf, columns, call->context);
	*opened = leaf;
	return true;
}

/* Put a row to be written into a slot; if owned, it is freed with it. */
static TupleTableSlot *
store(TqTable *table, HeapTuple tuple, bool owned)
{
	if (table->writer == NULL)
	{
		MemoryContext mine = MemoryContextSwitchTo(table->context);

		table->writer = MakeSingleTupleTableSlot(RelationGetDescr(table->rel),
												 &TTSOpsHeapTuple);
		MemoryContextSwitchTo(mine);
	}
	ExecStoreHeapTuple(tuple, table->writer, owned);
	return table->writer;
}

/*
 * Collect the row; it is inserted by tq_row_flush, or when there are enough.
 */
static void
insert_later(TqTable *table, TqTask *task)
{
	MemoryContext mine = MemoryContextSwitchTo(tq_multi_insert_context(table));
	HeapTuple tuple = tq_row_image_form(task, RelationGetDescr(table->rel));

	MemoryContextSwitchTo(mine);
	tq_multi_insert_add(table, tuple);
}

static void
insert_now(TqTable *table, TupleTableSlot *slot)
{
	table_tuple_insert(table->rel, slot, GetCurrentCommandId(true), 0, NULL);
	tq_index_entry_insert(table, &slot, 1);
}

/*
 * Did the write succeed?  If not, has the row changed in such a way that the
 * caller must decide again?
 */
static bool
written(TM_Result result, bool wait)
{
	switch (result)
	{
		case TM_Ok:
			return true;
		case TM_Updated:
		case TM_Deleted:
			if (wait && IsolationUsesXactSnapshot())
				tq_error_serialization();
			return false;
		case TM_BeingModified:
		case TM_WouldBlock:
			return false;
		case TM_SelfModified:
		case TM_Invisible:
			break;
	}
	elog(ERROR, "unexpected result %d of writing a task", (int) result);
	return false;
}

/*
 * Insert with a check of the reference, like INSERT ... ON CONFLICT: check,
 * insert speculatively, check again through the index, and remove the row if
 * another session was faster.
 */
static bool
insert_unique(TqTable *table, TupleTableSlot *slot, int64 *holder,
			  TqState *holder_state)
{
	List         *arbiter;
	TransactionId xid = GetCurrentTransactionId();

	tq_index_entry_prepare(table);
	arbiter = reference_indexes(table->target);
	for (;;)
	{
		ItemPointerData conflict;
		uint32          token;
		bool            lost = false;

		CHECK_FOR_INTERRUPTS();
		if (!tq_compat_check_index(table->target, slot, table->estate,
								   &conflict, arbiter))
		{
			holder_of(table, &conflict, holder, holder_state);
			return false;
		}
		TQ_DEBUG_POINT("reference_looked");
		token = SpeculativeInsertionLockAcquire(xid);
		table_tuple_insert_speculative(
			table->rel, slot, GetCurrentCommandId(true), 0, NULL, token);
		tq_compat_insert_index(table->target, slot, table->estate, false, true,
							   &lost, arbiter);
		table_tuple_complete_speculative(table->rel, slot, token, !lost);
		SpeculativeInsertionLockRelease(xid);
		if (!lost)
		{
			ResetPerTupleExprContext(table->estate);
			return true;
		}
	}
}

/*
 * The unique indexes on references: two while REINDEX CONCURRENTLY is running.
 */
static List *
reference_indexes(ResultRelInfo *target)
{
	List *result = NIL;

	for (int i = 0; i < target->ri_NumIndices; i++)
	{
		Relation      rel = target->ri_IndexRelationDescs[i];
		Form_pg_index form = rel->rd_index;

		if (form->indisunique && form->indnkeyatts == 2 &&
			form->indkey.values[0] == TQ_COL_QUEUE_ID &&
			form->indkey.values[1] == TQ_COL_REFERENCE)
			result = lappend_oid(result, RelationGetRelid(rel));
	}
	return result;
}

/* The task that has the reference. */
static void
holder_of(TqTable *table, ItemPointer tid, int64 *holder,
		  TqState *holder_state)
{
	TupleTableSlot *slot = table_slot_create(table->rel, NULL);
	bool            isnull;

	if (!table_tuple_fetch_row_version(table->rel, tid, SnapshotAny, slot))
		elog(ERROR, "could not fetch the task that has the reference");
	if (IsolationUsesXactSnapshot() &&
		!table_tuple_satisfies_snapshot(table->rel, slot, GetActiveSnapshot()))
		tq_error_serialization();
	*holder = DatumGetInt64(slot_getattr(slot, TQ_COL_TASK_ID, &isnull));
	*holder_state =
		(TqState) DatumGetInt16(slot_getattr(slot, TQ_COL_STATE, &isnull));
	ExecDropSingleTupleTableSlot(slot);
}
