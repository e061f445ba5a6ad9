/*
 * counter.c
 *		Numbers of live tasks and what limits need, in shared memory.
 *
 * One entry for each queue (numbers of its live tasks by state, reserved
 * claims, a bucket of claims for its rate) and for each worker with a limit
 * of its own (reserved claims); one for each database.  At most
 * taskq.max_counters; when there is no room, numbers are not known, and what
 * needs them says so (53400).
 *
 * Numbers change when a transaction has ended: at the commit of what moved
 * tasks, or at the abort of what had reserved a claim.  They are not known
 * after a start, a wipe, and the end of a prepared transaction ("flagged");
 * then somebody counts rows (core/limit.c) while others go on working:
 *
 * - While rows are counted, what ends is written down beside the entry
 *   (ended[], or the area for numbers of live tasks) and taken into account
 *   afterwards.
 * - A transaction may have ended for the rows that are counted, and not yet
 *   have come here.  So every transaction that changes tasks enters its
 *   number into its backend's mark before the first change, and takes it
 *   away when all has been told; the counting session waits until no mark
 *   has a transaction that is over.
 * - Marks are lost by a wipe.  It changes the instance; whoever entered
 *   under another instance does not change numbers, but flags them again.
 * - A savepoint that rolls back is over before its transaction.  When the
 *   entry was recounted since it reserved (epoch), the number is flagged.
 *
 * Locks: one LWLock, exclusive for making and removing entries, for taking
 * the area and for publishing a recount of live tasks, shared for all else;
 * under it, a spinlock in each entry.  Functions called at a transaction's
 * end cannot fail.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/transam.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"
#include "utils/wait_event.h"

#include "base/clock.h"
#include "base/guc.h"
#include "shared/counter.h"

#define OWNER_DATABASE 0 /* beside TqOwner */
#define ENDED 48         /* ends of claims during a recount of an entry */
#define AREA 4096        /* commits during a recount of live tasks */
#define PAUSE_WEIGHT                                                          \
	0.05 /* of the newest task in the mean of tq_counter_pause */

typedef struct CounterKey
{
	Oid   database;
	int32 owner;
	int32 id;
} CounterKey;

typedef struct Counter
{
	CounterKey key;
	slock_t    mutex; /* guards all below but flagged */

	/* of a database: numbers are known while seen = flagged */
	pg_atomic_uint64 flagged;
	uint64           seen;
	bool             missing; /* some queue has no entry, for want of room */

	/* live tasks of a queue */
	int64            live[TQ_LIVE_STATES];
	uint64           changes;    /* how often live was written */
	int64            left_at;    /* monotonic clock; 0: never */
	pg_atomic_uint64 claimed_at; /* dispatch clock, to about a second; 0:
								 * not since this entry was made */
	double           pause; /* mean of microseconds between tasks that leave */

	/* reserved claims: known while used_seen = flagged of the database */
	bool   limited; /* somebody asked, so used is kept */
	int64  used;
	uint64 used_seen;
	uint64 epoch; /* of the last recount */
	bool   recounting;
	bool   again; /* the recount is of no use */
	int    ended_count;
	int64  ended[ENDED];

	/* bucket of claims */
	TqRate rate;
	double level;
	int64  filled_at; /* monotonic clock */
	int64  full_at;   /* when it was last seen full, or emptied */
} Counter;

/* A transaction that changes tasks, and has not told all. */
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
	int64         delta[TQ_LIVE_STATES];
} AreaItem;

typedef struct CounterShared
{
	LWLock     *lock;
	uint64      instance; /* never twice the same */
	TimestampTz since;    /* of the start or the last wipe; dispatch clock */
	slock_t     area_mutex;
	Oid         area_database; /* whose live tasks are being counted */
	bool        area_too_many;
	int         area_count;
	AreaItem    area[AREA];
} CounterShared;

static CounterShared *shared = NULL;
static Mark          *marks = NULL;
static HTAB          *counters = NULL;

static Counter *find(int owner, int32 id);
static Counter *find_or_make(int owner, int32 id);
static Counter *enter(int owner, int32 id);
static uint64   flagged_of(Counter *database);
static bool     in_progress(TransactionId xid, Snapshot snapshot);
static void     unknow(Counter *counter);
static uint64   new_number(void);
static void     fill(Counter *counter, const TqRate *rate);

Size
tq_counter_size(void)
{
	Size size = MAXALIGN(sizeof(CounterShared));

	size = add_size(size, MAXALIGN(mul_size(sizeof(Mark), MaxBackends)));
	return add_size(size,
					hash_estimate_size(tq_guc_max_counters, sizeof(Counter)));
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
		shared->lock = &GetNamedLWLockTranche("taskq counters")->lock;
		shared->instance = new_number();
		shared->since = tq_clock_dispatch();
		SpinLockInit(&shared->area_mutex);
	}
	marks = ShmemInitStruct("taskq marks", mul_size(sizeof(Mark), MaxBackends),
							&found);
	if (!found)
		memset(marks, 0, sizeof(Mark) * MaxBackends);
	ctl.keysize = sizeof(CounterKey);
	ctl.entrysize = sizeof(Counter);
	counters = ShmemInitHash("taskq counter entries", tq_guc_max_counters,
							 tq_guc_max_counters, &ctl,
							 HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

void
tq_counter_wipe(void)
{
	HASH_SEQ_STATUS scan;
	Counter        *counter;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, counters);
	while ((counter = hash_seq_search(&scan)) != NULL)
		hash_search(counters, &counter->key, HASH_REMOVE, NULL);
	memset(marks, 0, sizeof(Mark) * MaxBackends);
	shared->instance = new_number();
	shared->since = tq_clock_dispatch();
	shared->area_database = InvalidOid;
	LWLockRelease(shared->lock);
}

/*
 * Before a transaction's first change of a task.  Returns the instance that
 * its end must name.
 */
uint64
tq_counter_enter(TransactionId xid)
{
	Mark  *mark;
	uint64 instance;

	if (shared == NULL)
		return 0;
	mark = &marks[TQ_MY_PROC_NUMBER];
	LWLockAcquire(shared->lock, LW_SHARED);
	mark->database = MyDatabaseId;
	mark->xid = xid;
	instance = shared->instance;
	LWLockRelease(shared->lock);
	return instance;
}

/* All has been told.  Cannot fail. */
void
tq_counter_leave(void)
{
	if (shared == NULL)
		return;
	pg_memory_barrier();
	marks[TQ_MY_PROC_NUMBER].xid = InvalidTransactionId;
}

/*
 * Wait until every transaction of this database that is over has told its
 * changes.
 */
void
tq_counter_wait_for_ended(void)
{
	for (int i = 0; i < MaxBackends; i++)
	{
		volatile Mark *mark = &marks[i];

		for (;;)
		{
			TransactionId xid = mark->xid;

			if (!TransactionIdIsValid(xid) || mark->database != MyDatabaseId ||
				i == TQ_MY_PROC_NUMBER || TransactionIdIsInProgress(xid))
				break;
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 1, PG_WAIT_EXTENSION);
			ResetLatch(MyLatch);
			CHECK_FOR_INTERRUPTS();
		}
	}
}

/* Numbers of this database are not known any more.  Cannot fail. */
void
tq_counter_flag(void)
{
	Counter *database;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	database = find(OWNER_DATABASE, 0);
	if (database != NULL)
		pg_atomic_fetch_add_u64(&database->flagged, 1);
	LWLockRelease(shared->lock);
}

/*
 * Tasks of a queue have changed their state, by the transaction xid that has
 * committed.  Cannot fail.
 */
void
tq_counter_add(int32 queue_id, const int64 *delta, TransactionId xid,
			   uint64 instance)
{
	Counter *database;
	Counter *counter;
	int64    left = 0;
	int64    now;

	if (shared == NULL)
		return;
	for (int i = 0; i < TQ_LIVE_STATES; i++)
		left -= delta[i];
	LWLockAcquire(shared->lock, LW_SHARED);
	database = find(OWNER_DATABASE, 0);
	if (database == NULL)
	{
		/* nobody has counted yet, so nothing is known */
		LWLockRelease(shared->lock);
		return;
	}
	if (shared->instance != instance)
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
		counter = find_or_make(TQ_OWNER_QUEUE, queue_id);
		if (counter != NULL)
		{
			now = left > 0 ? tq_clock_monotonic() : 0;
			SpinLockAcquire(&counter->mutex);
			for (int i = 0; i < TQ_LIVE_STATES; i++)
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
		else if ((database = find(OWNER_DATABASE, 0)) != NULL)
			database->missing = true;
	}
	LWLockRelease(shared->lock);
}

/* Live tasks of a queue, by state; false when that is not known. */
bool
tq_counter_read(int32 queue_id, int64 *live)
{
	uint64 changes;

	return tq_counter_read_changes(queue_id, live, &changes);
}

/* The same, and a number that is another one after each change of them. */
bool
tq_counter_read_changes(int32 queue_id, int64 *live, uint64 *changes)
{
	Counter *database;
	Counter *counter;
	bool     known;

	memset(live, 0, sizeof(int64) * TQ_LIVE_STATES);
	*changes = 0;
	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	database = find(OWNER_DATABASE, 0);
	known = database != NULL && database->seen == flagged_of(database);
	counter = known ? find(TQ_OWNER_QUEUE, queue_id) : NULL;
	if (known && counter == NULL)
		known = !database->missing;
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		memcpy(live, counter->live, sizeof(counter->live));
		*changes = counter->changes;
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
	return known;
}

/*
 * Around a recount of the live tasks of this database, of which there is
 * one at a time in the server; the snapshot is taken in between.
 */
uint64
tq_counter_recount_begin(uint64 *instance)
{
	Counter *database;
	uint64   begun = 0;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	database = enter(OWNER_DATABASE, 0);
	if (database != NULL)
		begun = flagged_of(database);
	*instance = shared->instance;
	shared->area_database = MyDatabaseId;
	shared->area_too_many = false;
	shared->area_count = 0;
	LWLockRelease(shared->lock);
	return begun;
}

/*
 * Publish what was counted; false when it must be done again.  The caller
 * has waited for those that had ended.
 */
bool
tq_counter_recount_end(uint64 begun, uint64 instance, Snapshot snapshot,
					   TqLiveCount *counts, int count)
{
	HASH_SEQ_STATUS scan;
	Counter        *counter;
	Counter        *database;
	bool            done = false;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	database = find(OWNER_DATABASE, 0);
	if (shared->instance == instance && !shared->area_too_many &&
		database != NULL && shared->area_database == MyDatabaseId)
	{
		bool all = true;

		database->missing = false;
		hash_seq_init(&scan, counters);
		while ((counter = hash_seq_search(&scan)) != NULL)
		{
			if (counter->key.database != MyDatabaseId)
				continue;
			memset(counter->live, 0, sizeof(counter->live));
			counter->changes++;
		}
		for (int i = 0; i < count; i++)
		{
			counter = enter(TQ_OWNER_QUEUE, counts[i].queue_id);
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
			counter = enter(TQ_OWNER_QUEUE, item->queue_id);
			if (counter == NULL)
				all = false;
			for (int s = 0; s < TQ_LIVE_STATES && counter != NULL; s++)
				counter->live[s] += item->delta[s];
		}
		database->seen = begun;
		database->missing = !all;
		done = true;
	}
	shared->area_database = InvalidOid;
	LWLockRelease(shared->lock);
	return done;
}

/* Would a recount not make the queue's numbers known, for want of room? */
bool
tq_counter_has_no_room(int32 queue_id)
{
	Counter *database;
	bool     full;

	LWLockAcquire(shared->lock, LW_SHARED);
	full = hash_get_num_entries(counters) >= tq_guc_max_counters;
	database = find(OWNER_DATABASE, 0);
	if (database != NULL && (find(TQ_OWNER_QUEUE, queue_id) != NULL ||
							 database->seen != flagged_of(database)))
		full = false;
	LWLockRelease(shared->lock);
	return full;
}

/* Mean time between two tasks that leave the queue; 0 if not known. */
int64
tq_counter_pause(int32 queue_id)
{
	Counter *counter;
	double   pause = 0;

	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		pause = counter->pause;
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
	return (int64) pause;
}

/*
 * Tasks of a queue are handed out: for those who watch that somebody takes
 * them.  Written once a second by each session that claims, which costs
 * claims nothing; and the last quarter of the room is left to limits.
 */
void
tq_counter_claimed(int32 queue_id, TimestampTz now)
{
	static int32       last_queue = 0;
	static TimestampTz last_at = 0;
	Counter           *counter;

	if (shared == NULL || (queue_id == last_queue && now >= last_at &&
						   now - last_at < USECS_PER_SEC))
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(TQ_OWNER_QUEUE, queue_id);
	if (counter == NULL && hash_get_num_entries(counters) <
							   tq_guc_max_counters - tq_guc_max_counters / 4)
		counter = find_or_make(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		pg_atomic_write_u64(&counter->claimed_at, (uint64) now);
		last_queue = queue_id;
		last_at = now;
	}
	LWLockRelease(shared->lock);
}

/*
 * When tasks of the queue were handed out last, 0: never since
 * tq_counter_since().  False when there is no room for knowing it.
 */
bool
tq_counter_last_claim(int32 queue_id, TimestampTz *at)
{
	Counter *counter;
	bool     known;

	*at = 0;
	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(TQ_OWNER_QUEUE, queue_id);
	known = counter != NULL ||
			hash_get_num_entries(counters) <
				tq_guc_max_counters - tq_guc_max_counters / 4;
	if (counter != NULL)
		*at = (TimestampTz) pg_atomic_read_u64(&counter->claimed_at);
	LWLockRelease(shared->lock);
	return known;
}

/* Since when claims have been noted; dispatch clock. */
TimestampTz
tq_counter_since(void)
{
	return shared != NULL ? shared->since : 0;
}

/* Entries in use, of taskq.max_counters. */
int
tq_counter_room(void)
{
	int count;

	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	count = (int) hash_get_num_entries(counters);
	LWLockRelease(shared->lock);
	return count;
}

/* A queue or worker is gone.  Cannot fail. */
void
tq_counter_forget(TqOwner owner, int32 id)
{
	Counter *counter;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	counter = find(owner, id);
	if (counter != NULL)
		hash_search(counters, &counter->key, HASH_REMOVE, NULL);
	LWLockRelease(shared->lock);
}

/* The extension or the database is gone.  Cannot fail. */
void
tq_counter_forget_database(Oid database)
{
	HASH_SEQ_STATUS scan;
	Counter        *counter;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, counters);
	while ((counter = hash_seq_search(&scan)) != NULL)
	{
		if (counter->key.database == database)
			hash_search(counters, &counter->key, HASH_REMOVE, NULL);
	}
	LWLockRelease(shared->lock);
}

/*
 * A limit is about to change.  While there is none, claims reserve nothing,
 * so what is known now must not be believed when there is one again.
 */
void
tq_counter_unknow(TqOwner owner, int32 id)
{
	Counter *counter;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(owner, id);
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		unknow(counter);
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
}

/*
 * Reserve one more running task, of at most max.  *epoch is to be given to
 * tq_counter_undo.
 */
TqReserve
tq_counter_reserve(TqOwner owner, int32 id, int64 max, uint64 *epoch)
{
	Counter  *counter;
	Counter  *database;
	TqReserve answer = TQ_RESERVE_UNKNOWN;

	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(owner, id);
	database = find(OWNER_DATABASE, 0);
	if (counter != NULL && database != NULL)
	{
		uint64 flagged = flagged_of(database);

		SpinLockAcquire(&counter->mutex);
		if (counter->limited && counter->used_seen == flagged)
		{
			answer = TQ_RESERVE_FULL;
			if (counter->used < max)
			{
				counter->used++;
				answer = TQ_RESERVE_DONE;
			}
			*epoch = counter->epoch;
		}
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
	return answer;
}

/*
 * A task does not run any more, or its claim was rolled back, by a
 * transaction that is over.  Cannot fail.
 */
void
tq_counter_release(TqOwner owner, int32 id, int64 task_id, uint64 instance)
{
	Counter *counter;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(owner, id);
	if (counter != NULL && counter->limited)
	{
		SpinLockAcquire(&counter->mutex);
		if (shared->instance != instance)
			unknow(counter);
		else if (!counter->recounting)
			counter->used = Max(counter->used - 1, 0);
		else if (counter->ended_count < ENDED)
			counter->ended[counter->ended_count++] = task_id;
		else
			unknow(counter);
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
}

/*
 * A claim was rolled back by a savepoint, or was not made.  Cannot fail.
 */
void
tq_counter_undo(TqOwner owner, int32 id, uint64 epoch)
{
	Counter *counter;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(owner, id);
	if (counter != NULL && counter->limited)
	{
		SpinLockAcquire(&counter->mutex);
		if (counter->recounting || counter->epoch != epoch)
			unknow(counter);
		else
			counter->used = Max(counter->used - 1, 0);
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
}

/*
 * Around a recount of running tasks, which no claim of the queue or worker
 * accompanies; 0 when there is no room.
 */
uint64
tq_counter_used_begin(TqOwner owner, int32 id, uint64 *instance)
{
	Counter *database;
	Counter *counter;
	uint64   begun = 0;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	database = enter(OWNER_DATABASE, 0);
	counter = enter(owner, id);
	*instance = shared->instance;
	if (database != NULL && counter != NULL)
	{
		begun = flagged_of(database);
		counter->limited = true;
		counter->used_seen = 0;
		counter->recounting = true;
		counter->again = false;
		counter->ended_count = 0;
	}
	LWLockRelease(shared->lock);
	return begun;
}

/*
 * The tasks that were seen running, in the order of their numbers, and how
 * many more; false when it must be done again.
 */
bool
tq_counter_used_end(TqOwner owner, int32 id, uint64 begun, uint64 instance,
					const int64 *task_ids, int count, int more)
{
	Counter *counter;
	bool     done = false;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	counter = find(owner, id);
	if (counter != NULL && shared->instance == instance &&
		counter->recounting && !counter->again)
	{
		int64 used = count + more;

		for (int i = 0; i < count; i++)
		{
			for (int e = 0; e < counter->ended_count; e++)
			{
				if (counter->ended[e] == task_ids[i])
				{
					used--;
					break;
				}
			}
		}
		counter->used = used;
		counter->used_seen = begun;
		counter->epoch = new_number();
		counter->recounting = false;
		done = true;
	}
	LWLockRelease(shared->lock);
	return done;
}

bool
tq_counter_used_known(TqOwner owner, int32 id)
{
	Counter *counter;
	Counter *database;
	bool     known;

	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(owner, id);
	database = find(OWNER_DATABASE, 0);
	known = counter != NULL && database != NULL && counter->limited &&
			counter->used_seen == flagged_of(database);
	LWLockRelease(shared->lock);
	return known;
}

/* How many claims are reserved; false when that is not known. */
bool
tq_counter_used(TqOwner owner, int32 id, int64 *used)
{
	Counter *counter;
	Counter *database;
	bool     known = false;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(owner, id);
	database = find(OWNER_DATABASE, 0);
	if (counter != NULL && database != NULL)
	{
		uint64 flagged = flagged_of(database);

		SpinLockAcquire(&counter->mutex);
		known = counter->limited && !counter->recounting &&
				counter->used_seen == flagged;
		*used = counter->used;
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
	return known;
}

/*
 * In how many microseconds a claim can be taken out of the queue's bucket;
 * -1 when it has not begun to fill.
 */
int64
tq_counter_next(int32 queue_id, const TqRate *rate)
{
	Counter *counter;
	double   level;
	int64    wait = -1;

	if (shared == NULL)
		return -1;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		if (counter->rate.count == rate->count &&
			counter->rate.per == rate->per)
		{
			level = counter->level +
					(double) (tq_clock_monotonic() - counter->filled_at) *
						rate->count / rate->per;
			wait = level >= 1
					   ? 0
					   : (int64) ((1 - level) * rate->per / rate->count) + 1;
		}
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
	return wait;
}

/*
 * Take one claim out of the queue's bucket, which was empty at first;
 * *taken_at is to be given to tq_counter_put_back.
 */
TqReserve
tq_counter_take(int32 queue_id, const TqRate *rate, int64 *taken_at)
{
	Counter  *counter;
	TqReserve answer = TQ_RESERVE_NO_ROOM;

	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find_or_make(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		answer = TQ_RESERVE_FULL;
		SpinLockAcquire(&counter->mutex);
		fill(counter, rate);
		if (counter->level >= 1)
		{
			counter->level -= 1;
			*taken_at = counter->filled_at;
			answer = TQ_RESERVE_DONE;
		}
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
	return answer;
}

/* What is in the bucket of a queue's rate; false when it is not known. */
bool
tq_counter_tokens(int32 queue_id, const TqRate *rate, double *tokens)
{
	Counter *counter;
	bool     known = false;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		double since;

		SpinLockAcquire(&counter->mutex);
		known = counter->rate.count == rate->count &&
				counter->rate.per == rate->per;
		since = (double) (tq_clock_monotonic() - counter->filled_at);
		*tokens = counter->level + since * rate->count / rate->per;
		SpinLockRelease(&counter->mutex);
		*tokens = Min(*tokens, rate->count);
	}
	LWLockRelease(shared->lock);
	return known;
}

/*
 * A claim was not made, or rolled back: the bucket is as if it had not been
 * taken.  When it has been full since, it would have been full without it,
 * too.  Cannot fail.
 */
void
tq_counter_put_back(int32 queue_id, int64 taken_at)
{
	Counter *counter;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	counter = find(TQ_OWNER_QUEUE, queue_id);
	if (counter != NULL)
	{
		SpinLockAcquire(&counter->mutex);
		if (taken_at >= counter->full_at)
			counter->level = Min(counter->level + 1, counter->rate.count);
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(shared->lock);
}

static Counter *
find(int owner, int32 id)
{
	CounterKey key;

	key.database = MyDatabaseId;
	key.owner = owner;
	key.id = id;
	return hash_search(counters, &key, HASH_FIND, NULL);
}

/* Under the shared lock, which may be let go for a moment. */
static Counter *
find_or_make(int owner, int32 id)
{
	Counter *counter = find(owner, id);

	if (counter != NULL)
		return counter;
	LWLockRelease(shared->lock);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	(void) enter(owner, id);
	LWLockRelease(shared->lock);
	LWLockAcquire(shared->lock, LW_SHARED);
	return find(owner, id);
}

/* Under the exclusive lock; NULL when there is no room. */
static Counter *
enter(int owner, int32 id)
{
	Counter   *counter = find(owner, id);
	CounterKey key;
	bool       found;

	/* The hash hands out spare entries beyond its size: count ourselves. */
	if (counter != NULL ||
		hash_get_num_entries(counters) >= tq_guc_max_counters)
		return counter;
	key.database = MyDatabaseId;
	key.owner = owner;
	key.id = id;
	counter = hash_search(counters, &key, HASH_ENTER_NULL, &found);
	if (counter == NULL)
		return NULL;
	memset((char *) counter + sizeof(CounterKey), 0,
		   sizeof(Counter) - sizeof(CounterKey));
	SpinLockInit(&counter->mutex);
	pg_atomic_init_u64(&counter->flagged, new_number());
	pg_atomic_init_u64(&counter->claimed_at, 0);
	if (owner == TQ_OWNER_QUEUE)
	{
		Counter *of = find(OWNER_DATABASE, 0);

		/* there may have been no room for what it has had until now */
		if (of != NULL && of->missing)
			pg_atomic_fetch_add_u64(&of->flagged, 1);
	}
	return counter;
}

static uint64
flagged_of(Counter *database)
{
	return pg_atomic_read_u64(&database->flagged);
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

/* Under the entry's spinlock: a recount that is on its way begins again. */
static void
unknow(Counter *counter)
{
	counter->used_seen = 0;
	counter->again = true;
}

/* Never 0, and not the same again while the machine is up. */
static uint64
new_number(void)
{
	static uint64 last = 0;
	uint64        number = (uint64) tq_clock_monotonic() << 12;

	last = Max(last + 1, number + (uint64) (MyProcPid & 0xfff));
	return last;
}

/* Bring the bucket up to now; a changed rate empties it. */
static void
fill(Counter *counter, const TqRate *rate)
{
	int64 now = tq_clock_monotonic();

	if (counter->rate.count != rate->count || counter->rate.per != rate->per)
	{
		counter->rate = *rate;
		counter->level = 0;
		counter->full_at = now;
	}
	else
		counter->level += (double) (now - counter->filled_at) * rate->count /
						  rate->per;
	if (counter->level >= rate->count)
	{
		counter->level = rate->count;
		counter->full_at = now;
	}
	counter->filled_at = now;
}
