/*
 * key_insertion.c
 *		The effect of a submit on earlier tasks of its key.
 *
 *	supersede	pending and blocked tasks become redundant
 *	replace		suspended tasks too, and finished ones that are done, dead or
 *				filtered
 *	delete		all but running ones are removed, from the archive too
 *
 * The caller holds the key's lock, and has not drawn the id of the new task
 * yet, so every task of the key found here is an earlier one.  In a queue that
 * orders tasks by their keys no other session can be creating a task of the
 * key.  In other queues an append takes no lock: the call waits for an append
 * in progress, since it may have been first; an append that begins now counts
 * as later.
 *
 * The call waits for sessions that are claiming or finishing tasks of the key,
 * and checks these tasks again; a task that is then running stays.  The same
 * applies to a transaction that is taking or releasing the reference of the
 * new task: if a task that stays has the reference, nothing is moved.
 *
 * The tasks are taken from the end of the key queue, so that no task is
 * released because the task before it was removed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "catalog/pg_collation_d.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

#include "base/array.h"
#include "base/catalog.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/spi.h"
#include "engine/key.h"
#include "engine/state.h"
#include "engine/step.h"
#include "keyed/key_insertion.h"
#include "shared/leaf_change.h"
#include "store/archive.h"
#include "store/row.h"
#include "store/snapshot.h"

#define IN(state) (1 << (state))
#define WAITING (IN(TQ_STATE_PENDING) | IN(TQ_STATE_BLOCKED))

/* Affected states of live tasks, and of finished ones. */
static const struct
{
	int live;
	int finished;
} touched[] = {[TQ_INSERTION_APPEND] = {0, 0},
			   [TQ_INSERTION_SUPERSEDE] = {WAITING, 0},
			   [TQ_INSERTION_REPLACE] = {WAITING | IN(TQ_STATE_SUSPENDED),
										 IN(TQ_STATE_DONE) |
											 IN(TQ_STATE_DEAD) |
											 IN(TQ_STATE_FILTERED)},
			   [TQ_INSERTION_DELETE] = {WAITING | IN(TQ_STATE_SUSPENDED), ~0}};

typedef struct TaskIds
{
	int64 *ids;
	int    count;
	int    room;
} TaskIds;

typedef struct OpenScan
{
	Relation        index;
	TupleTableSlot *slot;
	SnapshotData    dirty;
	IndexScanDesc   scan;
} OpenScan;

static TqStmt stmt_replaced = {"SELECT task_id FROM taskq.archive"
							   " WHERE queue_id = $1 AND key = $2"
							   "   AND state IN (" TQ_SQL_STATE_DONE ","
							   "     " TQ_SQL_STATE_DEAD
							   ", " TQ_SQL_STATE_FILTERED ")"
							   "   AND workflow_id IS NULL"
							   " ORDER BY task_id",
							   {INT4OID, TEXTOID}};

static TqStmt stmt_finished = {
	"SELECT count(*) FROM taskq.archive WHERE queue_id = $1 AND key = $2"
	"   AND workflow_id IS NULL",
	{INT4OID, TEXTOID}};

static TqStmt stmt_delete = {
	"WITH gone AS (DELETE FROM taskq.archive"
	"               WHERE queue_id = $1 AND key = $2 AND workflow_id IS NULL"
	"           RETURNING task_id, large, bucket),"
	" parts AS (DELETE FROM taskq.large l USING gone g"
	"            WHERE g.large <> 0 AND l.task_id = g.task_id)"
	"SELECT bit_or(1 << bucket) FROM gone",
	{INT4OID, TEXTOID}};

static bool inserting(TqCall *call, TqQueue *queue, Datum key,
					  TqInsertion insertion, Datum reference, bool keeps_out,
					  int64 *holder, TqState *holder_state);

static TransactionId find_live(TqCall *call, const TqQueue *queue, Datum key,
							   bool lifo, TaskIds *found);
static TransactionId find_holder(TqCall *call, const TqQueue *queue,
								 Datum reference, TqInsertion insertion,
								 const TaskIds *found, int64 *holder,
								 TqState *holder_state, int64 *replaced);
static void          begin_scan(TqCall *call, const TqQueue *queue, Oid index,
								Datum value, OpenScan *scan);
static const TqTaskFixed *next_row(OpenScan *scan, ScanDirection direction,
								   TransactionId *other);
static void               end_scan(OpenScan *scan);
static bool               is_among(const TaskIds *found, int64 task_id);
static void               add_id(TaskIds *found, int64 task_id);
static void touch_live(TqCall *call, TqQueue *queue, int64 task_id,
					   TqInsertion insertion);
static void require_all_seen(const TqQueue *queue, Datum key);
static void replace_finished(TqCall *call, TqQueue *queue, Datum key,
							 Datum reference, int64 *replaced);
static bool has_reference(const TqTask *task, Datum reference);
static void delete_finished(TqCall *call, TqQueue *queue, Datum key);

void
tq_key_insertion_init(void)
{
	tq_state_hooks.inserting = inserting;
}

/*
 * If it returns true, *holder is the newest task with the reference that was
 * replaced, or 0.
 *
 * All waits come before all moves: a session that has moved a task, and so
 * released a reference, and then waits for another reference, could wait for a
 * session that waits for it.
 */
static bool
inserting(TqCall *call, TqQueue *queue, Datum key, TqInsertion insertion,
		  Datum reference, bool keeps_out, int64 *holder,
		  TqState *holder_state)
{
	TqKeyRule     rule;
	TaskIds       found = {0};
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one;
	int64         replaced = 0;

	(void) tq_key_rule(queue, &rule);
	tq_row_flush(call);
	for (;;)
	{
		TransactionId other = find_live(call, queue, key, rule.lifo, &found);

		*holder = replaced = 0;
		if (!TransactionIdIsValid(other) && reference != (Datum) 0)
			other = find_holder(call, queue, reference,
								keeps_out ? TQ_INSERTION_APPEND : insertion,
								&found, holder, holder_state, &replaced);
		if (!TransactionIdIsValid(other))
			break;
		XactLockTableWait(other, NULL, NULL, XLTW_None);
		CHECK_FOR_INTERRUPTS();
	}
	if (*holder != 0)
		return false;
	one = AllocSetContextCreate(caller, "taskq insertion",
								ALLOCSET_DEFAULT_SIZES);
	tq_snapshot_push_latest();
	for (int i = found.count - 1; i >= 0; i--)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		touch_live(call, queue, found.ids[i], insertion);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	if (touched[insertion].finished != 0 && IsolationUsesXactSnapshot())
		require_all_seen(queue, key);
	if (insertion == TQ_INSERTION_REPLACE)
		replace_finished(call, queue, key, reference, &replaced);
	if (insertion == TQ_INSERTION_DELETE)
		delete_finished(call, queue, key);
	tq_snapshot_pop();
	MemoryContextDelete(one);
	*holder = replaced;
	return true;
}

/*
 * Find the live tasks of the key, in the order of its queue, or the
 * transaction that is creating or moving such a task.
 */
static TransactionId
find_live(TqCall *call, const TqQueue *queue, Datum key, bool lifo,
		  TaskIds *found)
{
	TransactionId      other = InvalidTransactionId;
	const TqTaskFixed *row;
	OpenScan           scan;

	found->count = 0;
	begin_scan(call, queue, tq_catalog()->task_key, key, &scan);
	while ((row = next_row(&scan,
						   lifo ? BackwardScanDirection : ForwardScanDirection,
						   &other)) != NULL)
		add_id(found, row->task_id);
	end_scan(&scan);
	return other;
}

/*
 * The task that has the reference: *holder if it stays with this insertion,
 * *replaced if it is replaced; or the transaction that is giving the reference
 * to a task, or taking it away.
 */
static TransactionId
find_holder(TqCall *call, const TqQueue *queue, Datum reference,
			TqInsertion insertion, const TaskIds *found, int64 *holder,
			TqState *holder_state, int64 *replaced)
{
	TransactionId      other = InvalidTransactionId;
	const TqTaskFixed *row;
	OpenScan           scan;

	begin_scan(call, queue, tq_catalog()->task_reference, reference, &scan);
	while ((row = next_row(&scan, ForwardScanDirection, &other)) != NULL)
	{
		if ((touched[insertion].live & IN(row->state)) != 0 &&
			is_among(found, row->task_id))
		{
			*replaced = row->task_id;
			continue;
		}
		if (IsolationUsesXactSnapshot() &&
			!table_tuple_satisfies_snapshot(call->task.rel, scan.slot,
											GetActiveSnapshot()))
			tq_error_serialization();
		*holder = row->task_id;
		*holder_state = (TqState) row->state;
	}
	end_scan(&scan);
	return other;
}

/* The current rows, including those of open transactions. */
static void
begin_scan(TqCall *call, const TqQueue *queue, Oid index, Datum value,
		   OpenScan *scan)
{
	ScanKeyData keys[2];

	CommandCounterIncrement();
	InitDirtySnapshot(scan->dirty);
	scan->index = tq_catalog_open_index(index, AccessShareLock);
	scan->slot = table_slot_create(call->task.rel, NULL);
	scan->scan = tq_compat_index_beginscan(call->task.rel, scan->index,
										   &scan->dirty, 2);
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(queue->queue_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ, value);
	index_rescan(scan->scan, keys, 2, NULL, 0);
}

/* NULL if there are no more, or *other is changing the next one. */
static const TqTaskFixed *
next_row(OpenScan *scan, ScanDirection direction, TransactionId *other)
{
	bool should_free;

	CHECK_FOR_INTERRUPTS();
	if (!index_getnext_slot(scan->scan, direction, scan->slot))
		return NULL;
	if (TransactionIdIsValid(scan->dirty.xmin))
		*other = scan->dirty.xmin;
	else if (TransactionIdIsValid(scan->dirty.xmax))
		*other = scan->dirty.xmax;
	if (TransactionIdIsValid(*other))
		return NULL;
	return (const TqTaskFixed *) GETSTRUCT(
		ExecFetchSlotHeapTuple(scan->slot, false, &should_free));
}

static void
end_scan(OpenScan *scan)
{
	index_endscan(scan->scan);
	ExecDropSingleTupleTableSlot(scan->slot);
	index_close(scan->index, NoLock);
}

static bool
is_among(const TaskIds *found, int64 task_id)
{
	for (int i = 0; i < found->count; i++)
	{
		if (found->ids[i] == task_id)
			return true;
	}
	return false;
}

static void
add_id(TaskIds *found, int64 task_id)
{
	TQ_ARRAY_RESERVE(found->ids, found->count, found->room,
					 CurrentMemoryContext);
	found->ids[found->count++] = task_id;
}

/* Remove the task, unless it no longer exists or is running by now. */
static void
touch_live(TqCall *call, TqQueue *queue, int64 task_id, TqInsertion insertion)
{
	for (;;)
	{
		TqTask task;
		TqMove move = {0};
		bool   done;

		if (!tq_row_find(call, task_id, &task) ||
			(touched[insertion].live & IN(task.f.state)) == 0 ||
			tq_step_is(&task))
			return;
		TQ_DEBUG_POINT("insertion_found");
		move.to = TQ_STATE_REDUNDANT;
		move.wanted = "supersede";
		done = insertion == TQ_INSERTION_DELETE
				   ? tq_state_remove(call, queue, &task)
				   : tq_state_enter(call, queue, &task, &move);
		tq_snapshot_pop();
		tq_snapshot_push_latest();
		if (done)
			return;
	}
}

/* Raise 40001 if a task of the key has ended after the snapshot was taken. */
static void
require_all_seen(const TqQueue *queue, Datum key)
{
	Datum args[2] = {Int32GetDatum(queue->queue_id), key};
	int64 seen;
	TqSpi spi;

	tq_spi_enter(&spi);
	(void) tq_spi_run(&stmt_finished, args, NULL, SPI_OK_SELECT, 0);
	seen = tq_spi_int8(0, 1, 0);
	(void) tq_spi_look(&stmt_finished, args, NULL, 0);
	if (seen != tq_spi_int8(0, 1, 0))
		tq_error_serialization();
	tq_spi_leave(&spi);
}

/* *replaced becomes the newest task with the reference, if it is newer. */
static void
replace_finished(TqCall *call, TqQueue *queue, Datum key, Datum reference,
				 int64 *replaced)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(caller, "taskq insertion",
											  ALLOCSET_DEFAULT_SIZES);
	Datum         args[2] = {Int32GetDatum(queue->queue_id), key};
	int64        *ids;
	uint64        rows;

	tq_row_flush(call);
	rows = tq_spi_list(&stmt_replaced, args, &ids);
	for (uint64 i = 0; i < rows; i++)
	{
		TqTask task;

		MemoryContextSwitchTo(one);
		/*
		 * another session may be moving it, where that takes no lock of the
		 * key
		 */
		while (tq_archive_find(ids[i], &task) &&
			   (touched[TQ_INSERTION_REPLACE].finished & IN(task.f.state)) !=
				   0)
		{
			TqMove move = {0};

			CHECK_FOR_INTERRUPTS();
			move.to = TQ_STATE_REDUNDANT;
			move.wanted = "replace";
			if (has_reference(&task, reference))
				*replaced = Max(*replaced, ids[i]);
			if (tq_archive_take(&task) &&
				tq_state_enter(call, queue, &task, &move))
				break;
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
	pfree(ids);
}

static bool
has_reference(const TqTask *task, Datum reference)
{
	return reference != (Datum) 0 && !task->isnull[TQ_COL_REFERENCE] &&
		   DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID,
												task->value[TQ_COL_REFERENCE],
												reference));
}

static void
delete_finished(TqCall *call, TqQueue *queue, Datum key)
{
	Datum args[2] = {Int32GetDatum(queue->queue_id), key};
	TqSpi spi;

	tq_row_flush(call);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_delete, args, NULL, SPI_OK_SELECT, 0);
	tq_leaf_change_note_all(tq_spi_int4(0, 1, 0));
	tq_spi_leave(&spi);
}
