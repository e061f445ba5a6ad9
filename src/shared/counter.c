/*
 * counter.c
 *		Numbers of live tasks in shared memory, and the rules of all counters.
 *
 * One entry for each queue (numbers of its live tasks by state, reserved
 * claims, a token bucket for its rate), for each worker with a limit of its
 * own (reserved claims), and for each database.  There are at most
 * taskq.max_counters entries; if there is no room, numbers are unknown, and
 * functions that need them raise 53400.  Reserved claims are in reservation.c,
 * buckets in rate_bucket.c, the table itself in counter_table.c.
 *
 * Numbers change when a transaction has ended: at the commit of a transaction
 * that moved tasks, or at the abort of one that had reserved a claim.  They
 * are unknown after a start, a wipe, and the end of a prepared transaction
 * ("flagged"); then a session counts rows (engine/limit.c) while other
 * sessions continue:
 *
 * - While rows are counted, ends are recorded beside the entry (ended[], or
 *   the area for numbers of live tasks) and applied afterwards.
 * - A transaction may have ended for the rows that are counted, and not have
 *   reported here yet.  So every transaction that changes tasks enters its XID
 *   into its backend's mark before the first change, and clears the mark after
 *   everything has been reported; the counting session waits until no mark has
 *   an ended transaction.
 * - A wipe loses the marks.  It changes the instance; a transaction that
 *   entered under another instance does not change numbers, but flags them
 *   again.
 * - A savepoint that rolls back ends before its transaction.  If the entry has
 *   been recounted since the savepoint reserved (epoch), the number is
 *   flagged.
 * - A number is known while its seen (used_seen) equals the database's
 *   flagged: it was counted after the last flag.  If some queue has no entry
 *   (missing), a queue without an entry is unknown, not empty.
 * - used is maintained only for entries for which it has been requested
 *   (limited).  While there is no limit nothing is reserved, so a session that
 *   sets a limit makes used unknown before the change is visible
 *   (tq_reservation_invalidate).
 * - A claim that rolls back late must not refill a bucket that has been full
 *   without it (full_at): that would allow more than the rate.
 *
 * Locks: one LWLock, exclusive for creating and removing entries, for
 * acquiring the area and for publishing a recount of live tasks, shared for
 * everything else; under it, a spinlock in each entry.  Functions called at a
 * transaction's end cannot fail.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/transam.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

#include "base/clock.h"
#include "base/guc.h"
#include "shared/counter.h"
#include "shared/counter_table.h"

#define AREA 4096 /* commits during a recount of live tasks */

#define PAUSE_WEIGHT                                                          \
	0.05 /* weight of the newest interval in tq_counter_pause */

/* A transaction that changes tasks, and has not reported everything. */
typedef struct Mark
{
	Oid           database;
	TransactionId xid;
} Mark;

/* A commit during a recount of live tasks. */
typedef struct AreaItem
{
	TransactionId xid;
	int32         queue_id;
	int64         delta[TQ_LIVE_NUMBERS];
} AreaItem;

typedef struct CounterShared
{
	TqCounterTable table;
	TimestampTz    since; /* the start or the last wipe; dispatch clock */
	slock_t        area_mutex;
	Oid            area_database; /* whose live tasks are counted */
	bool           area_too_many;
	int            area_count;
	AreaItem       area[AREA];
} CounterShared;

static CounterShared *shared = NULL;
static Mark          *marks = NULL;

static bool remove_entry(TqOwner owner, int32 id);
static bool is_running(TransactionId xid);
static bool in_progress(TransactionId xid, Snapshot snapshot);

Size
tq_counter_size(void)
{
	Size size = MAXALIGN(sizeof(CounterShared));

	size = add_size(size, MAXALIGN(mul_size(sizeof(Mark), MaxBackends)));
	return add_size(
		size, hash_estimate_size(tq_guc_max_counters, sizeof(TqCounter)));
}

void
tq_counter_request(void)
{
	RequestNamedLWLockTranche("taskq counters", 1);
}

void
tq_counter_init(void)
{
	HASHCTL ctl = {0};
	bool    found;

	shared = ShmemInitStruct("taskq counters", sizeof(CounterShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(CounterShared));
		shared->table.lock = &GetNamedLWLockTranche("taskq counters")->lock;
		shared->table.instance = tq_counter_new_number();
		shared->since = tq_clock_dispatch();
		SpinLockInit(&shared->area_mutex);
	}
	tq_counter_table = &shared->table;
	marks = ShmemInitStruct("taskq marks", mul_size(sizeof(Mark), MaxBackends),
							&found);
	if (!found)
		memset(marks, 0, sizeof(Mark) * MaxBackends);
	ctl.keysize = sizeof(TqCounterKey);
	ctl.entrysize = sizeof(TqCounter);
	tq_counter_hash = ShmemInitHash(
		"taskq counter entries", tq_guc_max_counters, tq_guc_max_counters,
		&ctl, HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

void
tq_counter_wipe(void)
{
	HASH_SEQ_STATUS scan;
	TqCounter      *counter;

	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, tq_counter_hash);
	while ((counter = hash_seq_search(&scan)) != NULL)
		hash_search(tq_counter_hash, &counter->key, HASH_REMOVE, NULL);
	memset(marks, 0, sizeof(Mark) * MaxBackends);
	tq_counter_table->instance = tq_counter_new_number();
	shared->since = tq_clock_dispatch();
	shared->area_database = InvalidOid;
	LWLockRelease(tq_counter_table->lock);
}

/*
 * Called before a transaction's first change of a task.  Returns the instance
 * to be passed at its end.
 */
uint64
tq_counter_enter(TransactionId xid)
{
	Mark  *mark;
	uint64 instance;

	if (tq_counter_table == NULL)
		return 0;
	mark = &marks[TQ_MY_PROC_NUMBER];
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	mark->database = MyDatabaseId;
	mark->xid = xid;
	instance = tq_counter_table->instance;
	LWLockRelease(tq_counter_table->lock);
	return instance;
}

/* Everything has been reported.  Cannot fail. */
void
tq_counter_leave(void)
{
	if (tq_counter_table == NULL)
		return;
	pg_memory_barrier();
	marks[TQ_MY_PROC_NUMBER].xid = InvalidTransactionId;
}

/*
 * Wait until every ended transaction of this database has reported its
 * changes.  A transaction that aborts is in progress for a moment although its
 * rows no longer count: it is waited for, too.
 */
void
tq_counter_wait_for_ended(void)
{
	if (tq_counter_table == NULL)
		return;
	for (int i = 0; i < MaxBackends; i++)
	{
		volatile Mark *mark = &marks[i];

		for (;;)
		{
			TransactionId xid = mark->xid;

			if (!TransactionIdIsValid(xid) || mark->database != MyDatabaseId ||
				i == TQ_MY_PROC_NUMBER || is_running(xid))
				break;
			tq_clock_pause(1);
		}
	}
}

static bool
is_running(TransactionId xid)
{
	return TransactionIdIsInProgress(xid) && !TransactionIdDidAbort(xid);
}

/* The numbers of this database become unknown.  Cannot fail. */
void
tq_counter_flag(void)
{
	TqCounter *database;

	if (tq_counter_table == NULL)
		return;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	if (database != NULL)
		pg_atomic_fetch_add_u64(&database->flagged, 1);
	LWLockRelease(tq_counter_table->lock);
}

/*
 * Tasks of a queue have changed their state in the committed transaction xid.
 * Cannot fail.
 */
void
tq_counter_add(int32 queue_id, const int64 *delta, TransactionId xid,
			   uint64 instance)
{
	TqCounter *database;
	TqCounter *counter;
	int64      left = 0;
	int64      now;

	if (tq_counter_table == NULL)
		return;
	for (int i = 0; i < TQ_LIVE_STATES; i++)
		left -= delta[i];
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	if (database == NULL)
	{
		/* not counted yet, so the numbers are unknown */
		LWLockRelease(tq_counter_table->lock);
		return;
	}
	if (tq_counter_table->instance != instance)
		pg_atomic_fetch_add_u64(&database->flagged, 1);
	else if (shared->area_database == MyDatabaseId)
	{
		SpinLockAcquire(&shared->area_mutex);
		if (shared->area_count < AREA)
		{
			AreaItem *item = &shared->area[shared->area_count++];

			item->xid = xid;
			item->queue_id = queue_id;
			memcpy(item->delta, delta, sizeof(item->delta));
		}
		else
			shared->area_too_many = true;
		SpinLockRelease(&shared->area_mutex);
	}
	else
	{
		counter = tq_counter_find_or_make(TQ_OWNER_QUEUE, queue_id);
		if (counter != NULL)
		{
			now = left > 0 ? tq_clock_monotonic() : 0;
			SpinLockAcquire(&counter->mutex);
			for (int i = 0; i < TQ_LIVE_NUMBERS; i++)
				counter->live[i] += delta[i];
			counter->changes++;
			if (left > 0)
			{
				if (counter->left_at != 0)
					counter->pause +=
						((double) (now - counter->left_at) / (double) left -
						 counter->pause) *
						(counter->pause == 0 ? 1 : PAUSE_WEIGHT);
				counter->left_at = now;
			}
			SpinLockRelease(&counter->mutex);
		}
		else if ((database = tq_counter_find(TQ_OWNER_DATABASE, 0)) != NULL)
			database->missing = true;
	}
	LWLockRelease(tq_counter_table->lock);
}

/* The numbers of a queue's live tasks; false if unknown. */
bool
tq_counter_read(int32 queue_id, int64 *live)
{
	uint64 changes;

	return tq_counter_read_changes(queue_id, live, &changes);
}

/* The same, and a number that differs after each change. */
bool
tq_counter_read_changes(int32 queue_id, int64 *live, uint64 *changes)
{
	TqCounter *database;
	TqCounter *counter;
	bool       known;

	memset(live, 0, sizeof(int64) * TQ_LIVE_NUMBERS);
	*changes = 0;
	if (tq_counter_table == NULL)
		return false;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	known = database != NULL && database->seen == tq_counter_flagged(database);
	counter = known ? tq_counter_find(TQ_OWNER_QUEUE, queue_id) : NULL;
	if (known && counter == NULL)
		known = !database->missing;
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		memcpy(live, counter->live, sizeof(counter->live));
		*changes = counter->changes;
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(tq_counter_table->lock);
	return known;
}

/*
 * Begin a recount of the live tasks of this database, of which there is one at
 * a time in the server; the snapshot is taken before its end.
 */
uint64
tq_counter_recount_begin(uint64 *instance)
{
	TqCounter *database;
	uint64     begun = 0;

	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	database = tq_counter_make(TQ_OWNER_DATABASE, 0);
	if (database != NULL)
	{
		begun = tq_counter_flagged(database);
		/* changes that are recorded are in none of the numbers */
		database->seen = 0;
	}
	*instance = tq_counter_table->instance;
	shared->area_database = MyDatabaseId;
	shared->area_too_many = false;
	shared->area_count = 0;
	LWLockRelease(tq_counter_table->lock);
	return begun;
}

/*
 * Publish what was counted; false if it must be repeated.  The caller has
 * waited for ended transactions.
 */
bool
tq_counter_recount_end(uint64 begun, uint64 instance, Snapshot snapshot,
					   TqLiveCount *counts, int count)
{
	HASH_SEQ_STATUS scan;
	TqCounter      *counter;
	TqCounter      *database;
	bool            done = false;

	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	if (tq_counter_table->instance == instance && !shared->area_too_many &&
		database != NULL && shared->area_database == MyDatabaseId)
	{
		bool all = true;

		database->missing = false;
		hash_seq_init(&scan, tq_counter_hash);
		while ((counter = hash_seq_search(&scan)) != NULL)
		{
			if (counter->key.database != MyDatabaseId)
				continue;
			memset(counter->live, 0, sizeof(counter->live));
			counter->changes++;
		}
		for (int i = 0; i < count; i++)
		{
			counter = tq_counter_make(TQ_OWNER_QUEUE, counts[i].queue_id);
			if (counter == NULL)
				all = false;
			else
				memcpy(counter->live, counts[i].live, sizeof(counter->live));
		}
		for (int i = 0; i < shared->area_count; i++)
		{
			AreaItem *item = &shared->area[i];

			if (!in_progress(item->xid, snapshot))
				continue;
			counter = tq_counter_make(TQ_OWNER_QUEUE, item->queue_id);
			if (counter == NULL)
				all = false;
			for (int s = 0; s < TQ_LIVE_NUMBERS && counter != NULL; s++)
				counter->live[s] += item->delta[s];
		}
		database->seen = begun;
		database->missing = !all;
		done = true;
	}
	shared->area_database = InvalidOid;
	LWLockRelease(tq_counter_table->lock);
	return done;
}

/* Would a recount leave the queue's numbers unknown, for lack of room? */
bool
tq_counter_has_no_room(int32 queue_id)
{
	TqCounter *database;
	bool       full;

	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	full = hash_get_num_entries(tq_counter_hash) >= tq_guc_max_counters;
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	if (database != NULL &&
		(tq_counter_find(TQ_OWNER_QUEUE, queue_id) != NULL ||
		 database->seen != tq_counter_flagged(database)))
		full = false;
	LWLockRelease(tq_counter_table->lock);
	return full;
}

/*
 * Returns the mean time between two tasks that leave the queue, or 0 if it is
 * unknown.
 */
int64
tq_counter_pause(int32 queue_id)
{
	TqCounter *counter;
	double     pause = 0;

	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		pause = counter->pause;
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(tq_counter_table->lock);
	return (int64) pause;
}

/*
 * Note a claim from a queue, for the check that its tasks are being claimed.
 * Each session writes at most once a second, which costs claims nothing; the
 * last quarter of the room is left to limits.
 */
void
tq_counter_claimed(int32 queue_id, TimestampTz now)
{
	static int32       last_queue = 0;
	static TimestampTz last_at = 0;
	TqCounter         *counter;

	if (tq_counter_table == NULL ||
		(queue_id == last_queue && now >= last_at &&
		 now - last_at < USECS_PER_SEC))
		return;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(TQ_OWNER_QUEUE, queue_id);
	if (counter == NULL && hash_get_num_entries(tq_counter_hash) <
							   tq_guc_max_counters - tq_guc_max_counters / 4)
		counter = tq_counter_find_or_make(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		pg_atomic_write_u64(&counter->claimed_at, (uint64) now);
		last_queue = queue_id;
		last_at = now;
	}
	LWLockRelease(tq_counter_table->lock);
}

/*
 * The time of the last claim from the queue; 0 if none since
 * tq_counter_since().  False if there is no room to know it.
 */
bool
tq_counter_last_claim(int32 queue_id, TimestampTz *at)
{
	TqCounter *counter;
	bool       known;

	*at = 0;
	if (tq_counter_table == NULL)
		return false;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(TQ_OWNER_QUEUE, queue_id);
	known = counter != NULL ||
			hash_get_num_entries(tq_counter_hash) <
				tq_guc_max_counters - tq_guc_max_counters / 4;
	if (counter != NULL)
		*at = (TimestampTz) pg_atomic_read_u64(&counter->claimed_at);
	LWLockRelease(tq_counter_table->lock);
	return known;
}

/* The time since which claims have been noted; dispatch clock. */
TimestampTz
tq_counter_since(void)
{
	return tq_counter_table != NULL ? shared->since : 0;
}

/* Entries in use, of taskq.max_counters. */
int
tq_counter_room(void)
{
	int count;

	if (tq_counter_table == NULL)
		return 0;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	count = (int) hash_get_num_entries(tq_counter_hash);
	LWLockRelease(tq_counter_table->lock);
	return count;
}

/* The queues, or workers, of this database that have an entry. */
int
tq_counter_list(TqOwner owner, int32 **ids)
{
	int             count = 0;
	HASH_SEQ_STATUS scan;
	TqCounter      *counter;

	*ids = palloc_extended(sizeof(int32) * (tq_guc_max_counters + 1),
						   MCXT_ALLOC_HUGE);
	if (tq_counter_table == NULL)
		return 0;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	hash_seq_init(&scan, tq_counter_hash);
	while ((counter = hash_seq_search(&scan)) != NULL)
	{
		if (counter->key.database == MyDatabaseId &&
			counter->key.owner == (int32) owner)
			(*ids)[count++] = counter->key.id;
	}
	LWLockRelease(tq_counter_table->lock);
	return count;
}

/* A queue or worker was removed.  Cannot fail. */
void
tq_counter_forget(TqOwner owner, int32 id)
{
	if (tq_counter_table == NULL)
		return;
	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	(void) remove_entry(owner, id);
	LWLockRelease(tq_counter_table->lock);
}

/*
 * A queue or worker was removed, but not by this process.  If its number has
 * been assigned again, the entry held the numbers of the new one, so all
 * numbers of the database are counted again.
 */
void
tq_counter_free(TqOwner owner, int32 id)
{
	TqCounter *database;

	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	if (remove_entry(owner, id) && database != NULL)
		pg_atomic_fetch_add_u64(&database->flagged, 1);
	LWLockRelease(tq_counter_table->lock);
}

/* Called under the exclusive lock; was there an entry? */
static bool
remove_entry(TqOwner owner, int32 id)
{
	TqCounter *counter = tq_counter_find(owner, id);

	if (counter != NULL)
		hash_search(tq_counter_hash, &counter->key, HASH_REMOVE, NULL);
	return counter != NULL;
}

/* The extension or the database was dropped.  Cannot fail. */
void
tq_counter_forget_database(Oid database)
{
	HASH_SEQ_STATUS scan;
	TqCounter      *counter;

	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, tq_counter_hash);
	while ((counter = hash_seq_search(&scan)) != NULL)
	{
		if (counter->key.database == database)
			hash_search(tq_counter_hash, &counter->key, HASH_REMOVE, NULL);
	}
	LWLockRelease(tq_counter_table->lock);
}

/*
 * Was the top-level transaction in progress when the snapshot was taken?
 * (Only subtransactions may be missing in a snapshot.)
 */
static bool
in_progress(TransactionId xid, Snapshot snapshot)
{
	if (TransactionIdPrecedes(xid, snapshot->xmin))
		return false;
	if (TransactionIdFollowsOrEquals(xid, snapshot->xmax))
		return true;
	for (uint32 i = 0; i < snapshot->xcnt; i++)
	{
		if (TransactionIdEquals(xid, snapshot->xip[i]))
			return true;
	}
	return false;
}
