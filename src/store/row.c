/*
 * row.c
 *		Rows of tasks: reading and writing them below the executor.
 *
 * A call begins with a fresh snapshot (under READ COMMITTED), reads a row by
 * its id, decides, and writes without having locked the row on disk: the
 * write fails, saying so, when somebody else has changed it meanwhile, and
 * the caller takes a new snapshot and decides again.  So one change is one
 * WAL record.  Above READ COMMITTED such a failure is 40001.
 *
 * Archived rows are read and taken away by SQL; adding one, or one of the
 * history, goes to the leaf directly.  A call with many set has new rows of
 * all of them inserted together, by store/multi_insert.c, at the latest when it ends.
 *
 * What the executor would do, and who does it here:
 * - Snapshot: tq_call_begin and tq_call_snapshot push one; a write takes the
 *   command number of its moment, and tq_call_end makes it visible.
 * - Rechecking a row that has changed (EvalPlanQual): nobody; the write is
 *   refused, and the caller looks again with a new snapshot.
 * - Locks: the table's is RowExclusiveLock from the call's beginning, and
 *   each index that gets an entry is opened with the same; both to the
 *   transaction's end.
 * - Index entries: store/index_entry.c for new rows; ExecInsertIndexTuples where a
 *   reference is tested, and after an update in those indexes, if any, that
 *   the server says.  A row that the claim changes stays heap-only, since no
 *   index has what it changes, unless somebody has added one.
 * - Uniqueness: by the indexes, as always; a reference by speculative
 *   insertion, as ON CONFLICT has it.
 * - Not null, checks, foreign keys, generated columns, triggers, row
 *   security: there are none on these tables, whose rows are this
 *   extension's own.
 * - Partition routing: tq_row_insert_archive and tq_row_insert_history name
 *   the leaf.
 * The server's functions for tables (table_tuple_insert, table_multi_insert,
 * table_tuple_update, table_tuple_delete) see to the rest, as they do for the
 * executor: WAL with the replica identity, toast, visibility map, free space,
 * predicate locks and conflicts of SERIALIZABLE, statistics of rows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "nodes/makefuncs.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "engine/key.h"
#include "shared/claim_ring.h"
#include "store/index_entry.h"
#include "store/multi_insert.h"
#include "store/pkey_lookup.h"
#include "store/row.h"
#include "store/row_image.h"
#include "store/tuple_lock.h"

static void table_begin(TqTable *table, Oid relid, MemoryContext context);
static void table_end(TqTable *table);
static TupleTableSlot *store(TqTable *table, HeapTuple tuple, bool owned);
static void  use_leaf(TqCall *call, TqTable *table, Oid *opened, Oid leaf);
static void  insert_later(TqTable *table, TqTask *task);
static void  insert_now(TqTable *table, TupleTableSlot *slot);
static bool  written(TM_Result result, bool wait);
static bool  insert_unique(TqTable *table, TupleTableSlot *slot, int64 *holder,
						   TqState *holder_state);
static List *reference_indexes(ResultRelInfo *target);
static void  holder_of(TqTable *table, ItemPointer tid, int64 *holder,
					   TqState *holder_state);
static bool  read_archived(TqStmt *stmt, int64 task_id, int64 version,
						   int expected, TqTask *task);

#define ALL_COLUMNS                                                           \
	"task_id, lane_id, available_at, run_at, created_at, token, version,"     \
	" claimed_at, lease_until, worker_id, attempt, state, priority,"          \
	" queue_id, max_attempts, submitted_by, run_as, reason, descent, flags,"  \
	" large, deadline, wake_at, cancel_requested_at, suspended_at,"           \
	" workflow_id, step_id, reference, key, correlation_id, tags, options,"   \
	" payload, data, headers, result, checkpoint, errors, message, bucket,"   \
	" finished_at, expires_at, recreated_as"

/* By leaf: a deletion from all of them costs many times as much. */
#define TAKE_FROM(leaf)                                                       \
	{                                                                         \
		"DELETE FROM taskq.archive_" leaf                                     \
		" WHERE task_id = $1 AND version = $2 RETURNING " ALL_COLUMNS,        \
			2, {INT8OID, INT8OID}, NULL                                       \
	}

static TqStmt stmt_take_archived[TQ_LEAVES + 1] = {
	TAKE_FROM("00"),  TAKE_FROM("01"), TAKE_FROM("02"), TAKE_FROM("03"),
	TAKE_FROM("04"),  TAKE_FROM("05"), TAKE_FROM("06"), TAKE_FROM("07"),
	TAKE_FROM("08"),  TAKE_FROM("09"), TAKE_FROM("10"), TAKE_FROM("11"),
	TAKE_FROM("12"),  TAKE_FROM("13"), TAKE_FROM("14"), TAKE_FROM("15"),
	TAKE_FROM("keep")};

static TqStmt stmt_find_archived = {"SELECT " ALL_COLUMNS
									" FROM taskq.archive WHERE task_id = $1",
									1,
									{INT8OID},
									NULL};

/* Taken in this session for calls. */
static uint64 snapshots = 0;

/*
 * Begin an SQL call that changes tasks.
 */
void
tq_call_begin(TqCall *call, const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	memset(call, 0, sizeof(*call));
	call->context = CurrentMemoryContext;
	table_begin(&call->task, tq_catalog()->task, call->context);
	tq_queue_refresh();
	CommandCounterIncrement();
	call->moment = tq_range_moment();
	call->ring_moment = tq_ring_moment();
	tq_call_push();
}

/* Begin an SQL call that only looks, also on a standby. */
void
tq_call_begin_look(TqCall *call)
{
	memset(call, 0, sizeof(*call));
	call->context = CurrentMemoryContext;
	call->task.context = CurrentMemoryContext;
	call->task.rel =
		tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	tq_queue_refresh();
	CommandCounterIncrement();
	tq_call_push();
}

/* See what has been committed, as the level of isolation says. */
void
tq_call_push(void)
{
	snapshots++;
	PushActiveSnapshot(GetTransactionSnapshot());
}

/* See what has been committed meanwhile, and what this call did. */
void
tq_call_snapshot(void)
{
	CHECK_FOR_INTERRUPTS();
	PopActiveSnapshot();
	CommandCounterIncrement();
	tq_call_push();
}

/* The same for a call that may learn what is dead. */
void
tq_call_renew(TqCall *call)
{
	TqRangeMoment moment = tq_range_moment();
	uint64        ring_moment = tq_ring_moment();

	tq_call_snapshot();
	call->moment = moment;
	call->ring_moment = ring_moment;
}

/*
 * See what has been committed by now, whatever the level of isolation, and
 * what this call did, until tq_call_pop.
 */
void
tq_call_push_latest(void)
{
	CommandCounterIncrement();
	snapshots++;
	PushActiveSnapshot(GetLatestSnapshot());
}

void
tq_call_pop(void)
{
	snapshots++;
	PopActiveSnapshot();
}

/* How many there were: has a new one been taken since? */
uint64
tq_call_snapshots(void)
{
	return snapshots;
}

/* See to what follows in workflows from what the call has done. */
void
tq_call_advance(TqCall *call)
{
	if (call->steps == NIL)
		return;
	tq_row_flush(call);
	call->many = false;
	/* who makes a queue for a dead letter has done nothing in instances yet */
	if (call->at_end != NULL)
		call->at_end(call);
	call->advance(call);
}

void
tq_call_end(TqCall *call)
{
	tq_call_advance(call);
	tq_row_flush(call);
	call->many = false;
	call->lines_later = false;
	if (call->unsettled != NULL)
		call->settle(call);
	if (call->at_end != NULL)
		call->at_end(call);
	tq_key_end(call);
	table_end(&call->history);
	table_end(&call->leaf);
	table_end(&call->task);
	PopActiveSnapshot();
	CommandCounterIncrement();
}

/* Insert the rows that the call has put off. */
void
tq_row_flush(TqCall *call)
{
	tq_batch_flush(&call->task);
	tq_batch_flush(&call->leaf);
	tq_batch_flush(&call->history);
}

/*
 * Read a live task; false when there is none that this call can see.
 */
bool
tq_row_find(TqCall *call, int64 task_id, TqTask *task)
{
	TqTable  *table = &call->task;
	HeapTuple tuple;
	bool      should_free;

	if (!tq_lookup_find(table, task_id))
		return false;
	tuple = ExecFetchSlotHeapTuple(table->slot, false, &should_free);
	tq_row_read(tuple, RelationGetDescr(table->rel), task);
	task->tid = table->slot->tts_tid;
	ExecClearTuple(table->slot);
	return true;
}

/*
 * A task from a row of taskq.task, or of the archive with its additional
 * columns.  The task keeps a copy of its own.
 */
void
tq_row_read(HeapTuple tuple, TupleDesc desc, TqTask *task)
{
	HeapTuple copy = heap_copytuple(tuple);

	memset(task, 0, sizeof(*task));
	tq_image_read(copy, desc, task);
	task->tid = copy->t_self;
	if (desc->natts == TQ_TASK_COLUMNS)
		task->image = copy;
	tq_task_place(task);
	task->queue_before = task->f.queue_id;
	task->key_before = task->isnull[TQ_COL_KEY] ? (Datum) 0
												: task->value[TQ_COL_KEY];
}

/*
 * Write a live task over the row that was read; false when somebody else
 * has changed that row.  Without wait also false while somebody is changing
 * it.
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

	if (!wait && tq_busy_was(task))
		return false;
	if (!tq_busy_reserve(table->rel, &tid, wait, &locked))
		return false;
	if (task->image != NULL)
	{
		memcpy(GETSTRUCT(task->image), &task->f, TQ_FIXED_SIZE);
		slot = store(table, task->image, false);
	}
	else
		slot = store(table, tq_image_form(task, RelationGetDescr(table->rel)),
					 true);
	done = written(table_tuple_update(table->rel, &tid, slot,
									  GetCurrentCommandId(true),
									  GetActiveSnapshot(), InvalidSnapshot,
									  wait || !TQ_WRITE_CAN_REFUSE, &failure,
									  &mode, &indexes),
				   wait);
	tq_busy_let_go(table->rel, &tid, locked);
	if (done)
	{
		task->tid = slot->tts_tid;
		if (indexes != TQ_INDEX_UPDATE_NONE)
			tq_entries_update(table, slot, indexes);
	}
	ExecClearTuple(slot);
	return done;
}

/*
 * Keep the row of a task that was just read, or what has become of it
 * meanwhile, from being changed by others, or let them only do the same;
 * waits for who is changing it, and reads it again.  False when it is gone.
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

/* Remove the row that was read; false as with tq_row_update. */
bool
tq_row_delete(TqCall *call, TqTask *task, bool wait)
{
	Relation       rel = call->task.rel;
	TM_FailureData failure;
	bool           done;
	bool           locked;

	if (!tq_busy_reserve(rel, &task->tid, wait, &locked))
		return false;
	done = written(
		table_tuple_delete(rel, &task->tid, GetCurrentCommandId(true),
						   GetActiveSnapshot(), InvalidSnapshot,
						   wait || !TQ_WRITE_CAN_REFUSE, &failure, false),
		wait);
	tq_busy_let_go(rel, &task->tid, locked);
	return done;
}

/*
 * Add a live task.  With unique_reference the task's reference is tested
 * first, waiting for whoever is adding or removing the same one; if a live
 * task has it, nothing is added, false is returned, and that task's id and
 * state are told.
 */
bool
tq_row_insert(TqCall *call, TqTask *task, bool unique_reference, int64 *holder,
			  TqState *holder_state)
{
	TqTable        *table = &call->task;
	TupleTableSlot *slot;
	bool            added = true;

	task->image = NULL;
	if (call->many && !unique_reference)
	{
		insert_later(table, task);
		return true;
	}
	slot =
		store(table, tq_image_form(task, RelationGetDescr(table->rel)), true);
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
	TqTable *table = &call->leaf;
	Oid leaf = tq_catalog()->leaf[DatumGetInt16(task->value[TQ_COL_BUCKET])];
	TupleTableSlot *slot;

	use_leaf(call, table, &call->leaf_oid, leaf);
	if (call->many)
	{
		insert_later(table, task);
		return;
	}
	slot =
		store(table, tq_image_form(task, RelationGetDescr(table->rel)), true);
	insert_now(table, slot);
	ExecClearTuple(slot);
}

/* Add a row, with these values of its columns, to a leaf of the history. */
void
tq_row_insert_history(TqCall *call, int leaf, Datum *values, bool *nulls)
{
	TqTable        *table = &call->history;
	TupleTableSlot *slot;
	HeapTuple       tuple;
	MemoryContext   mine;

	use_leaf(call, table, &call->history_oid, tq_catalog()->transition[leaf]);
	mine = MemoryContextSwitchTo(call->many ? tq_batch_context(table)
											: CurrentMemoryContext);
	tuple = heap_form_tuple(RelationGetDescr(table->rel), values, nulls);
	MemoryContextSwitchTo(mine);
	if (call->many)
	{
		tq_batch_add(table, tuple);
		return;
	}
	slot = store(table, tuple, true);
	insert_now(table, slot);
	ExecClearTuple(slot);
}

/* The table of a call, *opened, is to be this leaf. */
static void
use_leaf(TqCall *call, TqTable *table, Oid *opened, Oid leaf)
{
	if (*opened == leaf)
		return;
	table_end(table);
	table_begin(table, leaf, call->context);
	*opened = leaf;
}

/*
 * Take a finished task, just read, out of the archive, waiting for whoever
 * is doing the same; false when it is not where it was read any more, or not
 * as it was read.
 */
bool
tq_row_take_archived(TqTask *task)
{
	int leaf = DatumGetInt16(task->value[TQ_COL_BUCKET]);

	Assert(task->archived && leaf >= 0 && leaf <= TQ_LEAF_KEEP);
	return read_archived(&stmt_take_archived[leaf], task->f.task_id,
						 task->f.version, SPI_OK_DELETE_RETURNING, task);
}

bool
tq_row_find_archived(int64 task_id, TqTask *task)
{
	return read_archived(&stmt_find_archived, task_id, 0, SPI_OK_SELECT, task);
}

/*
 * Live or finished.  One that comes back between both looks is nowhere, so
 * there is a second try.
 */
bool
tq_row_find_any(TqCall *call, int64 task_id, TqTask *task)
{
	if (tq_row_find(call, task_id, task))
		return true;
	TQ_DEBUG_POINT("row_not_live");
	if (tq_row_find_archived(task_id, task))
		return true;
	tq_call_snapshot();
	return tq_row_find(call, task_id, task) ||
		   tq_row_find_archived(task_id, task);
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

static void
table_begin(TqTable *table, Oid relid, MemoryContext context)
{
	table->context = context;
	table->rel = tq_catalog_open_table(relid, RowExclusiveLock);
}

/* Locks stay until the transaction ends. */
static void
table_end(TqTable *table)
{
	if (table->rel == NULL)
		return;
	tq_batch_end(table);
	if (table->slot != NULL)
		ExecDropSingleTupleTableSlot(table->slot);
	if (table->writer != NULL)
		ExecDropSingleTupleTableSlot(table->writer);
	tq_lookup_end(table);
	tq_entries_end(table);
	table_close(table->rel, NoLock);
	memset(table, 0, sizeof(*table));
}

/* A row in a slot, to be written; owned: freed with it. */
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

/* The row is inserted by tq_row_flush, or when enough have come together. */
static void
insert_later(TqTable *table, TqTask *task)
{
	MemoryContext mine = MemoryContextSwitchTo(tq_batch_context(table));
	HeapTuple     tuple = tq_image_form(task, RelationGetDescr(table->rel));

	MemoryContextSwitchTo(mine);
	tq_batch_add(table, tuple);
}

static void
insert_now(TqTable *table, TupleTableSlot *slot)
{
	table_tuple_insert(table->rel, slot, GetCurrentCommandId(true), 0, NULL);
	tq_entries_insert(table, &slot, 1);
}

/*
 * Did the write succeed?  If not, has the row changed in a way that the
 * caller should look again?
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
 * Insertion that tests the reference, in the way of INSERT ... ON CONFLICT:
 * look, insert speculatively, look again through the index, and take the
 * row back if another session was faster.
 */
static bool
insert_unique(TqTable *table, TupleTableSlot *slot, int64 *holder,
			  TqState *holder_state)
{
	List         *arbiter;
	TransactionId xid = GetCurrentTransactionId();

	tq_entries_prepare(table);
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
 * The indexes that hold references apart: while REINDEX CONCURRENTLY works
 * there are two.
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

/* Which task has the reference? */
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
