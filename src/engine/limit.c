/*
 * limit.c
 *		Limits of queues and workers: running tasks, rate, depth.
 *
 * A claim from a queue with max_running makes a reservation in shared memory
 * before it writes (shared/counter.c).  A rollback returns the reservation,
 * and the commit that ends the task's attempt releases it (xact/xact.c).
 *
 * If the number of reserved claims is unknown, no task is claimed until a
 * session has counted the running tasks of the queue (or worker).  Claims hold
 * a heavyweight lock on the queue in share mode from before they reserve until
 * they have written, and the counting session holds it in exclusive mode.
 * While it counts, each reservation is therefore either in a row, or not made
 * yet.  A claim of an open or prepared transaction counts, and so does a task
 * whose end is not committed.  While a worker has no limit, its claims only
 * lock their queue.  When it gets a limit, the counting session first waits
 * for claims that may not know it.
 *
 * max_depth and taskq.queues use the numbers of live tasks.  They are
 * recounted with a snapshot that does not see changes of this transaction;
 * other sessions continue in the meantime.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "lib/qunique.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"

#include "base/array.h"
#include "base/catalog.h"
#include "base/compare.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/guc.h"
#include "engine/limit.h"
#include "shared/counter.h"
#include "shared/rate_bucket.h"
#include "shared/reservation.h"
#include "shared/shmem.h"
#include "store/task.h"
#include "xact/count_note.h"
#include "xact/xact.h"

/* The lock for counting live tasks: one session at a time in the server. */
#define RECOUNT_LOCK_CLASS RelationRelationId
#define RECOUNT_LOCK_SUBID 0x7471 /* no column of a relation has it */

/*
 * The lock of a session that gives a worker a limit, in addition to TqOwner.
 */
#define NEW_LIMIT 0x7472

#define MAX_TRIES 20

#define RETRY_AFTER_MIN_MS 10
#define RETRY_AFTER_MAX_MS 60000
#define RETRY_AFTER_UNKNOWN_MS 1000 /* if no task has left the queue yet */

/* A claim as recorded in a row. */
typedef struct Held
{
	int64 task_id;
	int64 token;
} Held;

static bool has_queue_limit(const TqLimit *limit);
static void count_used(TqOwner owner, int32 id);
static void let_claims_write(int32 worker_id);
static bool try_count_used(TqOwner owner, int32 id);
static int  count_held(TqOwner owner, int32 id, int64 **found, bool *aborted);
static int  compare_held(const void *a, const void *b);
static bool is_held(HeapTuple tuple, Buffer buffer, Snapshot snapshot,
					bool *aborted);
static void count_live(int32 queue_id);
static bool try_count_live(void);
static void no_room(void) pg_attribute_noreturn();

/*
 * Begin a claim.  Taking the lock also reads invalidation messages, so the
 * options of the queue are current; the caller refreshes its own copy.
 */
void
tq_limit_begin(TqLimit *limit)
{
	Oid task = tq_catalog()->task;

	if (!tq_shmem_ready())
		return;
	limit->queue_id = limit->queue->queue_id;
	LockDatabaseObject(task, limit->queue_id, TQ_OWNER_QUEUE, ShareLock);
	limit->queue_locked = true;
	limit->queue_ended = tq_xact_stopped_of(TQ_OWNER_QUEUE, limit->queue_id);
	if (limit->worker_max > 0)
	{
		LockDatabaseObject(task, limit->worker_id, TQ_OWNER_WORKER, ShareLock);
		limit->worker_locked = true;
		limit->worker_ended =
			tq_xact_stopped_of(TQ_OWNER_WORKER, limit->worker_id);
	}
}

/* Is there no limit, or shared memory to enforce it? */
bool
tq_limit_is_possible(const TqLimit *limit)
{
	return tq_shmem_ready() ||
		   (!has_queue_limit(limit) && limit->worker_max == 0);
}

/* Is there no limit, or a counter to enforce it? */
bool
tq_limit_has_room(const TqLimit *limit)
{
	return !tq_shmem_ready() ||
		   ((!has_queue_limit(limit) ||
			 tq_reservation_has_room(TQ_OWNER_QUEUE,
									 limit->queue->queue_id)) &&
			(limit->worker_max == 0 ||
			 tq_reservation_has_room(TQ_OWNER_WORKER, limit->worker_id)));
}

static bool
has_queue_limit(const TqLimit *limit)
{
	const TqOptions *options = &limit->queue->options;

	return options->max_running > 0 || options->rate.count > 0;
}

/* Raise 55000 if there are limits, but no shared memory to enforce them. */
void
tq_limit_require(const TqLimit *limit)
{
	const TqOptions *options = &limit->queue->options;

	if (options->max_running > 0 || limit->worker_max > 0)
		tq_shmem_require("max_running");
	if (options->rate.count > 0)
		tq_shmem_require("rate_limit");
}

/*
 * May another task be claimed, as far as can be seen without a reservation?
 * Needs no lock.
 */
TqReservation
tq_limit_look(TqLimit *limit)
{
	const TqOptions *options = &limit->queue->options;
	int32            queue_id = limit->queue->queue_id;
	TqReservation    answer = TQ_RESERVE_DONE;

	if (options->max_running > 0)
		answer = tq_reservation_make(TQ_OWNER_QUEUE, queue_id,
									 options->max_running, NULL);
	if (answer == TQ_RESERVE_DONE && limit->worker_max > 0)
	{
		answer = tq_reservation_make(TQ_OWNER_WORKER, limit->worker_id,
									 limit->worker_max, NULL);
		limit->worker_full = answer == TQ_RESERVE_FULL;
	}
	if (answer == TQ_RESERVE_DONE && options->rate.count > 0)
		answer = tq_rate_bucket_take(queue_id, &options->rate, NULL);
	return answer;
}

/*
 * May this task be claimed as well?  If so, reserve it and record the
 * reservation for the end of the transaction.  A task whose attempt this
 * transaction has ended remains reserved until it commits, and makes room for
 * a task that the same transaction claims: both become visible together, and a
 * rollback of the end also rolls back later claims.
 *
 * A transaction that has not written yet checks first.  A claim that waits for
 * room checks often, and must not be assigned a transaction id, which would
 * cost WAL and be in the snapshots of all others as long as the wait lasts.
 */
TqReservation
tq_limit_reserve(TqLimit *limit, int64 task_id)
{
	const TqOptions *options = &limit->queue->options;
	TqReservation    answer = TQ_RESERVE_DONE;
	uint64           queue_epoch = 0;
	uint64           worker_epoch = 0;
	TqRunning        claim = {0};
	int64            taken_at = 0;

	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		answer = tq_limit_look(limit);
	if (answer == TQ_RESERVE_NO_ROOM)
		no_room();
	if (answer != TQ_RESERVE_DONE)
		return answer;
	tq_xact_begin();
	claim.task_id = task_id;
	claim.queue_id = limit->queue->queue_id;
	claim.worker_id = limit->worker_id;
	if (options->max_running > 0)
		answer = tq_reservation_make(
			TQ_OWNER_QUEUE, claim.queue_id,
			(int64) options->max_running + limit->queue_ended, &queue_epoch);
	if (answer != TQ_RESERVE_DONE)
		return answer;
	if (limit->worker_max > 0)
		answer = tq_reservation_make(
			TQ_OWNER_WORKER, claim.worker_id,
			(int64) limit->worker_max + limit->worker_ended, &worker_epoch);
	limit->worker_full = answer == TQ_RESERVE_FULL;
	if (answer == TQ_RESERVE_DONE)
	{
		if (options->rate.count > 0)
			answer =
				tq_rate_bucket_take(claim.queue_id, &options->rate, &taken_at);
		if (answer == TQ_RESERVE_DONE)
		{
			tq_xact_reserved(&claim, taken_at, queue_epoch, worker_epoch);
			return answer;
		}
		if (limit->worker_max > 0)
			tq_reservation_undo(TQ_OWNER_WORKER, claim.worker_id,
								worker_epoch);
	}
	if (options->max_running > 0)
		tq_reservation_undo(TQ_OWNER_QUEUE, claim.queue_id, queue_epoch);
	if (answer == TQ_RESERVE_NO_ROOM)
		no_room();
	return answer;
}

/* The claim has written all its tasks. */
void
tq_limit_end(TqLimit *limit)
{
	Oid task = tq_catalog()->task;

	if (limit->worker_locked)
		UnlockDatabaseObject(task, limit->worker_id, TQ_OWNER_WORKER,
							 ShareLock);
	if (limit->queue_locked)
		UnlockDatabaseObject(task, limit->queue_id, TQ_OWNER_QUEUE, ShareLock);
	limit->worker_locked = limit->queue_locked = false;
}

/* Make the number of reserved claims known, without holding the locks. */
void
tq_limit_know(const TqLimit *limit)
{
	if (limit->queue->options.max_running > 0)
		count_used(TQ_OWNER_QUEUE, limit->queue->queue_id);
	if (limit->worker_max > 0)
		count_used(TQ_OWNER_WORKER, limit->worker_id);
}

/* Raise TQ008 if the queue has more live tasks than allowed. */
void
tq_limit_check_depth(const TqQueue *queue)
{
	int64 live[TQ_LIVE_NUMBERS];
	int64 depth = 0;
	int64 pause;

	if (queue->options.max_depth == 0)
		return;
	tq_shmem_require("max_depth");
	if (!tq_limit_live(queue->queue_id, live))
		no_room();
	for (int i = 0; i < TQ_LIVE_STATES; i++)
		depth += live[i];
	if (depth <= queue->options.max_depth)
		return;
	pause = tq_counter_pause(queue->queue_id) / 1000;
	if (pause == 0)
		pause = RETRY_AFTER_UNKNOWN_MS;
	tq_error_queue_full(
		queue->name, queue->options.max_depth,
		Min(Max(pause, RETRY_AFTER_MIN_MS), RETRY_AFTER_MAX_MS));
}

/*
 * Get the numbers of a queue's live tasks, including this transaction's
 * changes; return false if they cannot be known.
 */
bool
tq_limit_live(int32 queue_id, int64 *live)
{
	if (!tq_shmem_ready() || RecoveryInProgress())
		return false;
	if (!tq_counter_read(queue_id, live))
	{
		if (!tq_counter_has_no_room(queue_id))
			count_live(queue_id);
		if (!tq_counter_read(queue_id, live))
			return false;
	}
	for (int i = 0; i < TQ_LIVE_NUMBERS; i++)
		live[i] += tq_count_note_sum(queue_id, i);
	return true;
}

/* Count running tasks, unless another session has done so in the meantime. */
static void
count_used(TqOwner owner, int32 id)
{
	Oid task = tq_catalog()->task;

	if (tq_reservation_is_known(owner, id))
		return;
	if (owner == TQ_OWNER_WORKER)
		let_claims_write(id);
	LockDatabaseObject(task, id, owner, ExclusiveLock);
	TQ_DEBUG_POINT("limit_counting");
	for (int i = 0; i < MAX_TRIES && !tq_reservation_is_known(owner, id); i++)
	{
		if (try_count_used(owner, id))
			break;
	}
	UnlockDatabaseObject(task, id, owner, ExclusiveLock);
}

/*
 * Wait for claims that may not know that the worker has a limit.  The session
 * that gave it one has announced it by the time its lock is free; claims that
 * begin later know the limit, and claims that began before hold a lock on a
 * queue.
 */
static void
let_claims_write(int32 worker_id)
{
	Oid    task = tq_catalog()->task;
	int    count;
	int    found = 0;
	char **names;
	int32 *queues;

	LockDatabaseObject(task, worker_id, NEW_LIMIT, ShareLock);
	UnlockDatabaseObject(task, worker_id, NEW_LIMIT, ShareLock);
	tq_queue_refresh();
	names = tq_queue_names(&count);
	queues = palloc(sizeof(int32) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL)
			queues[found++] = queue->queue_id;
	}
	for (int i = 0; i < found; i++)
	{
		LockDatabaseObject(task, queues[i], TQ_OWNER_QUEUE, RowExclusiveLock);
		UnlockDatabaseObject(task, queues[i], TQ_OWNER_QUEUE,
							 RowExclusiveLock);
	}
	pfree(queues);
}

/*
 * A worker without a limit gets a limit in this transaction.  Once other
 * sessions see the limit, the number of its running tasks counts as unknown.
 */
void
tq_limit_of_worker_is_new(int32 worker_id)
{
	LockDatabaseObject(tq_catalog()->task, worker_id, NEW_LIMIT,
					   ExclusiveLock);
	tq_xact_note(TQ_NOTE_WORKER_COUNT_UNKNOWN, worker_id);
}

static bool
try_count_used(TqOwner owner, int32 id)
{
	uint64 begun;
	uint64 instance;
	int64 *ids;
	int    count;
	bool   aborted;
	bool   done;

	/*
	 * A task may have ended and been claimed again, and its end may not be
	 * published yet: that end must not be applied to the new claim.
	 */
	tq_counter_wait_for_ended();
	begun = tq_reservation_count_begin(owner, id, &instance);
	if (begun == 0)
		no_room();
	count = count_held(owner, id, &ids, &aborted);
	tq_counter_wait_for_ended();
	/* the count has not seen tasks that this transaction itself has ended */
	done = !aborted &&
		   tq_reservation_count_end(owner, id, begun, instance, ids, count,
									tq_xact_stopped_of(owner, id));
	pfree(ids);
	return done;
}

/*
 * Is the number of reservations equal to the number of claims in rows?  No
 * reservation can be made during this check, so if the number has not changed,
 * no reservation was made or returned.  (But a savepoint may have been rolled
 * back a moment before its reservations are returned.)
 */
bool
tq_limit_agrees(TqOwner owner, int32 id, int64 *used, int64 *held)
{
	Oid    task = tq_catalog()->task;
	int64 *ids;
	int64  after;
	bool   known;
	bool   aborted;

	if (!tq_reservation_count(owner, id, used))
		return true;
	LockDatabaseObject(task, id, owner, ExclusiveLock);
	tq_counter_wait_for_ended();
	known = tq_reservation_count(owner, id, used);
	*held = count_held(owner, id, &ids, &aborted) +
			tq_xact_stopped_of(owner, id);
	pfree(ids);
	tq_counter_wait_for_ended();
	known = known && tq_reservation_count(owner, id, &after);
	UnlockDatabaseObject(task, id, owner, ExclusiveLock);
	return !known || aborted || after != *used || *used == *held;
}

/*
 * Find the held claims of a queue or worker, including claims whose beginning
 * or end is not committed; return the ids of their tasks.  A task that an open
 * transaction has given back and claimed again is listed once for each claim,
 * since each has a reservation.
 *
 * *aborted: a transaction with a claim has aborted during the scan.  When it
 * gives the reservation back, that could be taken for the end of an earlier
 * claim of the same task, so the result is of no use.
 */
static int
count_held(TqOwner owner, int32 id, int64 **found, bool *aborted)
{
	Relation rel = tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan;
	HeapTuple     tuple;
	Held         *claims = NULL;
	int64        *ids;
	int           count = 0;
	int           room = 0;

	*aborted = false;
	TQ_ARRAY_RESERVE(claims, 0, room, CurrentMemoryContext);
	/* including everything that this transaction has done */
	snapshot->curcid = InvalidCommandId;
	scan = table_beginscan_strat(rel, SnapshotAny, 0, NULL, true, false);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		TqTaskFixed row;

		CHECK_FOR_INTERRUPTS();
		memcpy(&row, GETSTRUCT(tuple), sizeof(row));
		if (row.state != TQ_STATE_RUNNING ||
			(owner == TQ_OWNER_QUEUE ? row.queue_id : row.worker_id) != id ||
			!is_held(tuple, ((HeapScanDesc) scan)->rs_cbuf, snapshot, aborted))
			continue;
		TQ_ARRAY_RESERVE(claims, count, room, CurrentMemoryContext);
		claims[count].task_id = row.task_id;
		claims[count++].token = row.token;
		TQ_DEBUG_POINT("limit_scanning");
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	UnregisterSnapshot(snapshot);
	TQ_DEBUG_POINT("limit_counted");

	/* several versions of a row may have been seen */
	qsort(claims, count, sizeof(Held), compare_held);
	count = (int) qunique(claims, count, sizeof(Held), compare_held);
	/* callers free it, even if it is empty */
	ids = MemoryContextAllocHuge(CurrentMemoryContext,
								 sizeof(int64) * (count + 1));
	for (int i = 0; i < count; i++)
		ids[i] = claims[i].task_id;
	pfree(claims);
	*found = ids;
	return count;
}

static int
compare_held(const void *a, const void *b)
{
	const Held *x = a;
	const Held *y = b;
	int         order = tq_compare_int64(x->task_id, y->task_id);

	return order != 0 ? order : tq_compare_int64(x->token, y->token);
}

/*
 * Does this version of a running task say that it is held, or was held when
 * the snapshot was taken?  Versions of transactions that were open then count,
 * and those written since.  The snapshot keeps versions in place: reading only
 * currently valid ones could miss a row that moves from the part of the table
 * still to be scanned to a part already scanned.
 */
static bool
is_held(HeapTuple tuple, Buffer buffer, Snapshot snapshot, bool *aborted)
{
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);
	bool          visible;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	visible = HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (visible)
		return true;
	if (TransactionIdIsCurrentTransactionId(xmin) ||
		!XidInMVCCSnapshot(xmin, snapshot))
		return false;
	if (!TransactionIdDidAbort(xmin))
		return true;
	/* a savepoint that was rolled back has given its reservations back */
	if (TransactionIdDidAbort(SubTransGetTopmostTransaction(xmin)))
		*aborted = true;
	return false;
}

/* Count live tasks, unless another session has done so in the meantime. */
static void
count_live(int32 queue_id)
{
	int64 live[TQ_LIVE_NUMBERS];

	LockSharedObject(RECOUNT_LOCK_CLASS, InvalidOid, RECOUNT_LOCK_SUBID,
					 ExclusiveLock);
	for (int i = 0; i < MAX_TRIES && !tq_counter_read(queue_id, live) &&
					!tq_counter_has_no_room(queue_id);
		 i++)
		(void) try_count_live();
	UnlockSharedObject(RECOUNT_LOCK_CLASS, InvalidOid, RECOUNT_LOCK_SUBID,
					   ExclusiveLock);
}

static bool
try_count_live(void)
{
	Relation rel = tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	uint64   instance;
	uint64   begun = tq_counter_recount_begin(&instance);
	Snapshot snapshot = RegisterSnapshot(GetLatestSnapshot());
	HASHCTL  ctl = {0};
	HTAB    *found;
	HASH_SEQ_STATUS seq;
	TqLiveCount    *counts;
	TqLiveCount    *entry;
	TableScanDesc   scan;
	HeapTuple       tuple;
	int             count = 0;
	bool            done;

	/* without the changes of this transaction, which its commit adds */
	snapshot->curcid = FirstCommandId;
	ctl.keysize = sizeof(int32);
	ctl.entrysize = sizeof(TqLiveCount);
	ctl.hcxt = CurrentMemoryContext;
	found = hash_create("taskq live tasks", 64, &ctl,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	scan = table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		TqTaskFixed row;
		bool        known;

		CHECK_FOR_INTERRUPTS();
		memcpy(&row, GETSTRUCT(tuple), sizeof(row));
		if (row.state < TQ_STATE_FIRST || !TQ_STATE_IS_LIVE(row.state))
			continue;
		entry = hash_search(found, &row.queue_id, HASH_ENTER, &known);
		if (!known)
			memset(entry->live, 0, sizeof(entry->live));
		entry->live[row.state - TQ_STATE_FIRST]++;
		if (row.state == TQ_STATE_PENDING && row.attempt > 0)
			entry->live[TQ_LIVE_RETRIES]++;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	TQ_DEBUG_POINT("live_counted");

	counts = palloc(sizeof(TqLiveCount) * (hash_get_num_entries(found) + 1));
	hash_seq_init(&seq, found);
	while ((entry = hash_seq_search(&seq)) != NULL)
		counts[count++] = *entry;
	tq_counter_wait_for_ended();
	done = tq_counter_recount_end(begun, instance, snapshot, counts, count);
	UnregisterSnapshot(snapshot);
	hash_destroy(found);
	pfree(counts);
	return done;
}

static void
no_room(void)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
		 errmsg("too many queues and workers with limits"),
		 errhint(
			 "Increase \"taskq.max_counters\" (currently %d) and restart the server.",
			 tq_guc_max_counters)));
}
