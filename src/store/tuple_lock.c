/*
 * tuple_lock.c
 *		Locks and changes of a task's row by other transactions.
 *
 * Claims and duties do not wait for rows.  The server's own update can refuse
 * without waiting, except in a server with assertions.  There, the in-memory
 * lock of the row, which all writers acquire, excludes other writers between a
 * check of the row and the write (tq_tuple_lock_acquire).
 *
 * The other functions check the row on its page, or the copy that was read, so
 * that a row that other transactions are changing is not visited again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/rel.h"

#include "base/debug.h"
#include "store/tuple_lock.h"

static bool      is_ours(Relation rel, ItemPointer tid);
static bool      is_in_multixact(MultiXactId multixact, bool locked_only);
static bool      is_busy(Relation rel, ItemPointer tid);
static TM_Result row_fate(Relation rel, ItemPointer tid, bool *written);

/*
 * Was another transaction, still in progress, writing or locking the row when
 * it was read?  Then there is no need to visit it and lock its page, as all
 * other sessions do that want the same row.
 */
bool
tq_tuple_lock_was_taken(const TqTask *task)
{
	HeapTupleHeader header;
	TransactionId   xmax;

	if (task->image == NULL)
		return false;
	header = task->image->t_data;
	if (header->t_infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI))
		return false;
	xmax = HeapTupleHeaderGetRawXmax(header);
	return !TransactionIdIsCurrentTransactionId(xmax) &&
		   TransactionIdIsInProgress(xmax);
}

/*
 * Begin to write a row.  Returns false, without a lock, if another transaction
 * is changing or locking it and wait is false.
 *
 * The server's own write detects that, except in a server with assertions
 * (TQ_WRITE_CAN_REFUSE).  There, a caller that must not wait checks first, and
 * the lock of the row keeps others from beginning between that check and the
 * write.  It exists only in memory and is released after the write; the row
 * itself then shows which transaction is changing it.  A row that this
 * transaction has locked before shows that already, and a session that waits
 * for it holds the in-memory lock.
 */
bool
tq_tuple_lock_acquire(Relation rel, ItemPointer tid, bool wait, bool *locked)
{
	*locked = false;
	if (TQ_WRITE_CAN_REFUSE || (wait && is_ours(rel, tid)))
		return true;
	if (wait)
		LockTuple(rel, tid, ExclusiveLock);
	else if (!tq_compat_try_lock_tuple(rel, tid, ExclusiveLock))
		return false;
	*locked = wait || !is_busy(rel, tid);
	if (!*locked)
		UnlockTuple(rel, tid, ExclusiveLock);
	return *locked;
}

/*
 * Has this transaction, or one of its savepoints, locked or written the row?
 */
static bool
is_ours(Relation rel, ItemPointer tid)
{
	Buffer        buffer = ReadBuffer(rel, ItemPointerGetBlockNumber(tid));
	ItemId        item;
	TransactionId xmax = InvalidTransactionId;
	bool          is_multi = false;
	bool          locked_only = false;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	item =
		PageGetItemId(BufferGetPage(buffer), ItemPointerGetOffsetNumber(tid));
	if (ItemIdIsNormal(item))
	{
		HeapTupleHeader header =
			(HeapTupleHeader) PageGetItem(BufferGetPage(buffer), item);

		if ((header->t_infomask & HEAP_XMAX_INVALID) == 0)
			xmax = HeapTupleHeaderGetRawXmax(header);
		is_multi = (header->t_infomask & HEAP_XMAX_IS_MULTI) != 0;
		locked_only = HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask);
	}
	UnlockReleaseBuffer(buffer);
	if (!TransactionIdIsValid(xmax))
		return false;
	return is_multi ? is_in_multixact(xmax, locked_only)
					: TransactionIdIsCurrentTransactionId(xmax);
}

/* Lock the row so that no other transaction can lock it. */
static bool
is_in_multixact(MultiXactId multixact, bool locked_only)
{
	MultiXactMember *members;
	int count = GetMultiXactIdMembers(multixact, &members, false, locked_only);
	bool any = false;

	for (int i = 0; i < count; i++)
		any = any || (members[i].status >= MultiXactStatusForNoKeyUpdate &&
					  TransactionIdIsCurrentTransactionId(members[i].xid));
	if (count > 0)
		pfree(members);
	return any;
}

/* Has this transaction locked the row that was read?  For assertions. */
bool
tq_tuple_lock_is_held(TqCall *call, TqTask *task)
{
	return is_ours(call->task.rel, &task->tid);
}

void
tq_tuple_lock_release(Relation rel, ItemPointer tid, bool locked)
{
	if (locked)
		UnlockTuple(rel, tid, ExclusiveLock);
}

/* Is another transaction changing a live task that was read? */
bool
tq_tuple_lock_is_taken(TqCall *call, TqTask *task)
{
	return is_busy(call->task.rel, &task->tid);
}

/*
 * Is the row, which was pending, no longer claimable, or not until a
 * transaction in progress that is writing it has ended?  A transaction that
 * writes a row publishes its position at its end; one that only locks it does
 * not, and one that is about to write it is not known yet.
 */
bool
tq_tuple_lock_is_lost(TqCall *call, ItemPointer tid)
{
	bool      written;
	TM_Result fate = row_fate(call->task.rel, tid, &written);

	return fate == TM_Updated || fate == TM_Deleted ||
		   (fate == TM_BeingModified && written);
}

/*
 * Was another transaction, still in progress, writing the row when it was
 * read?  *writer is the last such transaction since the moment passed with a
 * recorded range; it is not checked again: if it has ended since, it publishes
 * what became claimable after that moment.
 */
bool
tq_tuple_lock_is_writing(TupleTableSlot *slot, TransactionId *writer)
{
	bool            should_free;
	HeapTupleHeader header =
		ExecFetchSlotHeapTuple(slot, false, &should_free)->t_data;
	TransactionId xmax;

	if ((header->t_infomask & (HEAP_XMAX_INVALID | HEAP_XMAX_IS_MULTI)) ||
		HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
		return false;
	xmax = HeapTupleHeaderGetRawXmax(header);
	if (TransactionIdIsValid(*writer) && xmax == *writer)
		return true;
	if (TransactionIdIsCurrentTransactionId(xmax) ||
		!TransactionIdIsInProgress(xmax))
		return false;
	*writer = xmax;
	return true;
}

/*
 * Which transaction has updated or deleted a version that a transaction in
 * progress, the same one, has written?  Invalid if the version is the newest.
 * A dirty snapshot does not say so.
 */
TransactionId
tq_tuple_lock_past(TupleTableSlot *slot)
{
	bool            should_free;
	HeapTupleHeader header =
		ExecFetchSlotHeapTuple(slot, false, &should_free)->t_data;
	TransactionId xmax;

	if ((header->t_infomask & HEAP_XMAX_INVALID) != 0 ||
		HEAP_XMAX_IS_LOCKED_ONLY(header->t_infomask))
		return InvalidTransactionId;
	xmax = HeapTupleHeaderGetUpdateXid(header);
	return TransactionIdDidAbort(xmax) ? InvalidTransactionId : xmax;
}

/* Is a transaction in progress changing or locking the row? */
static bool
is_busy(Relation rel, ItemPointer tid)
{
	bool written;

	return row_fate(rel, tid, &written) == TM_BeingModified;
}

/*
 * The result that an attempt to write the row would have, and, if it is being
 * modified, whether it is written and not just locked.  A row that no longer
 * exists counts as locked.
 */
static TM_Result
row_fate(Relation rel, ItemPointer tid, bool *written)
{
	Buffer        buffer = ReadBuffer(rel, ItemPointerGetBlockNumber(tid));
	Page          page;
	ItemId        item;
	HeapTupleData tuple;
	TransactionId writer = InvalidTransactionId;
	TM_Result     fate = TM_BeingModified;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	item = PageGetItemId(page, ItemPointerGetOffsetNumber(tid));
	if (ItemIdIsNormal(item))
	{
		tuple.t_tableOid = RelationGetRelid(rel);
		tuple.t_data = (HeapTupleHeader) PageGetItem(page, item);
		tuple.t_len = ItemIdGetLength(item);
		tuple.t_self = *tid;
		fate = HeapTupleSatisfiesUpdate(&tuple, GetCurrentCommandId(true),
										buffer);
		if (fate == TM_BeingModified &&
			!HEAP_XMAX_IS_LOCKED_ONLY(tuple.t_data->t_infomask))
			writer = HeapTupleHeaderGetUpdateXid(tuple.t_data);
	}
	UnlockReleaseBuffer(buffer);
	TQ_DEBUG_POINT("row_fate");
	*written = TransactionIdIsValid(writer) &&
			   TransactionIdIsInProgress(writer);
	/* it may just have ended */
	if (TransactionIdIsValid(writer) && !*written &&
		TransactionIdDidCommit(writer))
		fate = TM_Updated;
	return fate;
}
