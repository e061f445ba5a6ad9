/*
 * notify_flag.c
 *		Queues about which NOTIFY is to tell.
 *
 * A bounded table of the queues with option notify.  The background worker of
 * each database hangs the bells of its queues; a transaction that ends rings
 * the bell of each queue in which something can be claimed, and wakes the
 * worker with the first stroke; the worker answers with a NOTIFY
 * (maintenance/notify.c).
 *
 * Ringing takes no lock: it probes a few slots, and a queue without a bell
 * costs two probes.  Each slot is one number (database and queue) and a flag.
 * The slot of queue 0 says that the bells of its database are hung.  While it
 * is not there (after a start, after a wipe, or when the table is too small
 * for all), whoever finds no bell makes a stray stroke, for which the worker
 * takes all its queues to be rung.  So nothing is lost for want of room.
 *
 * A slot that is given up becomes a tombstone, over which probing goes on;
 * tombstones are used again.  Slots change under one LWLock.  A bell that is
 * rung while its slot changes hands may wake a worker for nothing, or be
 * lost; who hangs a bell therefore rings it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "base/clock.h"
#include "base/compare.h"
#include "shared/notify_flag.h"
#include "shared/worker_directory.h"

/* The test build shows what happens when there are too few. */
#ifdef TASKQ_DEBUG
#define BELLS 16
#else
#define BELLS 1024
#endif

/* Databases are told apart by so many numbers of stray strokes. */
#define STRAYS 64

#define FREE UINT64CONST(0)
#define TOMBSTONE UINT64CONST(1) /* no database has number 0 */

typedef struct Bell
{
	pg_atomic_uint64 key; /* changed under lock */
	pg_atomic_uint32 rung;
} Bell;

typedef struct Bells
{
	LWLock           lock;
	int              tranche;
	pg_atomic_uint64 strays[STRAYS]; /* by the database's number */
	Bell             bell[BELLS];
} Bells;

static Bells *shared = NULL;

/* In the background worker: the stray strokes that it has answered. */
static uint64 answered_strays = 0;

static uint64 key_of(Oid database, int32 queue_id);
static uint32 place_of(uint64 key);
static Bell  *find(uint64 key);
static bool   is_wanted(uint64 key, const int32 *queue_ids, int count);
static bool   enter(uint64 key);
static void   give_up(Bell *bell);
static void   clean(void);

Size
tq_notify_flag_size(void)
{
	return MAXALIGN(sizeof(Bells));
}

/* The caller holds AddinShmemInitLock. */
void
tq_notify_flag_init(void)
{
	bool found;

	shared = ShmemInitStruct("taskq bells", tq_notify_flag_size(), &found);
	if (!found)
	{
		memset(shared, 0, tq_notify_flag_size());
		shared->tranche = LWLockNewTrancheId();
		LWLockInitialize(&shared->lock, shared->tranche);
		for (int i = 0; i < STRAYS; i++)
			pg_atomic_init_u64(&shared->strays[i], 0);
		for (int i = 0; i < BELLS; i++)
		{
			pg_atomic_init_u64(&shared->bell[i].key, FREE);
			pg_atomic_init_u32(&shared->bell[i].rung, 0);
		}
	}
	LWLockRegisterTranche(shared->tranche, "taskq_bell");
}

void
tq_notify_flag_wipe(void)
{
	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < BELLS; i++)
		pg_atomic_write_u64(&shared->bell[i].key, FREE);
	LWLockRelease(&shared->lock);
}

/* The extension or the database is gone.  Cannot fail. */
void
tq_notify_flag_forget_database(Oid database)
{
	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < BELLS; i++)
	{
		uint64 key = pg_atomic_read_u64(&shared->bell[i].key);

		if (key > TOMBSTONE && (Oid) (key >> 32) == database)
			give_up(&shared->bell[i]);
	}
	clean();
	LWLockRelease(&shared->lock);
}

/* Something can be claimed in the queue. */
void
tq_notify_flag_raise(int32 queue_id)
{
	Bell *bell;

	if (shared == NULL)
		return;
	bell = find(key_of(MyDatabaseId, queue_id));
	if (bell != NULL)
	{
		/* whoever reads a flag that is set leaves waking to who set it */
		if (pg_atomic_exchange_u32(&bell->rung, 1) == 0)
			tq_worker_directory_wake();
	}
	else if (find(key_of(MyDatabaseId, 0)) == NULL)
		tq_notify_flag_raise_all();
}

/* At these places, of which those to come are left out. */
void
tq_notify_flag_raise_positions(const TqLanePosition *places, int count)
{
	TimestampTz now = 0;
	int32       last = 0;

	if (shared == NULL)
		return;
	for (int i = 0; i < count; i++)
	{
		if (places[i].queue_id == last)
			continue;
		if (now == 0)
			now = tq_clock_dispatch();
		if (places[i].available_at > now)
			continue;
		last = places[i].queue_id;
		tq_notify_flag_raise(last);
	}
}

/* Nobody knows where something can be claimed. */
void
tq_notify_flag_raise_all(void)
{
	if (shared == NULL)
		return;
	pg_atomic_fetch_add_u64(&shared->strays[MyDatabaseId % STRAYS], 1);
	tq_worker_directory_wake();
}

/*
 * These, sorted, are this database's queues with the option.  New ones count
 * as rung: since the option was set, something may have been lost.  False
 * when there is no room for all of them.
 */
bool
tq_notify_flag_add(const int32 *queue_ids, int count)
{
	bool all = true;

	if (shared == NULL)
		return false;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < BELLS; i++)
	{
		uint64 key = pg_atomic_read_u64(&shared->bell[i].key);

		if (key > TOMBSTONE && (Oid) (key >> 32) == MyDatabaseId &&
			!is_wanted(key, queue_ids, count))
			give_up(&shared->bell[i]);
	}
	clean();
	for (int i = 0; i < count; i++)
		all &= enter(key_of(MyDatabaseId, queue_ids[i]));
	all = all && enter(key_of(MyDatabaseId, 0));
	if (!all)
	{
		Bell *hung = find(key_of(MyDatabaseId, 0));

		if (hung != NULL)
			give_up(hung);
	}
	LWLockRelease(&shared->lock);
	return all;
}

/* Are the bells hung?  If not, somebody may have wiped them. */
bool
tq_notify_flag_is_complete(void)
{
	return shared == NULL || find(key_of(MyDatabaseId, 0)) != NULL;
}

/* Has the queue's bell been rung? */
bool
tq_notify_flag_raised(int32 queue_id)
{
	Bell *bell;

	if (shared == NULL)
		return false;
	bell = find(key_of(MyDatabaseId, queue_id));
	return bell != NULL && pg_atomic_read_u32(&bell->rung) != 0;
}

/*
 * The same, and what is rung from now on is rung anew: to be called before
 * the answer is given.
 */
bool
tq_notify_flag_lower(int32 queue_id)
{
	Bell *bell;

	if (shared == NULL)
		return false;
	bell = find(key_of(MyDatabaseId, queue_id));
	return bell != NULL && pg_atomic_exchange_u32(&bell->rung, 0) != 0;
}

/* Have there been stray strokes since the last call? */
bool
tq_notify_flag_lower_all(void)
{
	uint64 strays;

	if (shared == NULL)
		return false;
	strays = pg_atomic_read_u64(&shared->strays[MyDatabaseId % STRAYS]);
	if (strays == answered_strays)
		return false;
	answered_strays = strays;
	return true;
}

static uint64
key_of(Oid database, int32 queue_id)
{
	return (uint64) database << 32 | (uint32) queue_id;
}

static uint32
place_of(uint64 key)
{
	return hash_combine(murmurhash32((uint32) (key >> 32)),
						murmurhash32((uint32) key));
}

/* Without lock: as of some moment. */
static Bell *
find(uint64 key)
{
	uint32 at = place_of(key);

	for (int i = 0; i < BELLS; i++)
	{
		Bell  *bell = &shared->bell[(at + i) % BELLS];
		uint64 here = pg_atomic_read_u64(&bell->key);

		if (here == key)
			return bell;
		if (here == FREE)
			return NULL;
	}
	return NULL;
}

static bool
is_wanted(uint64 key, const int32 *queue_ids, int count)
{
	int32 queue_id = (int32) key;

	if (queue_id == 0)
		return true;
	return count > 0 && bsearch(&queue_id, queue_ids, count, sizeof(int32),
								tq_order_int32) != NULL;
}

/* Under the lock: such a slot is there; false when there is no room. */
static bool
enter(uint64 key)
{
	uint32 at = place_of(key);

	Assert(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	if (find(key) != NULL)
		return true;
	for (int i = 0; i < BELLS; i++)
	{
		Bell *bell = &shared->bell[(at + i) % BELLS];

		if (pg_atomic_read_u64(&bell->key) > TOMBSTONE)
			continue;
		pg_atomic_write_u32(&bell->rung, 1);
		pg_write_barrier();
		pg_atomic_write_u64(&bell->key, key);
		return true;
	}
	return false;
}

static void
give_up(Bell *bell)
{
	Assert(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	pg_atomic_write_u64(&bell->key, TOMBSTONE);
}

/* Tombstones before a free slot are of no use: nobody probes over them. */
static void
clean(void)
{
	Assert(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	for (int i = 2 * BELLS - 1; i >= 0; i--)
	{
		Bell *bell = &shared->bell[i % BELLS];
		Bell *next = &shared->bell[(i + 1) % BELLS];

		if (pg_atomic_read_u64(&bell->key) == TOMBSTONE &&
			pg_atomic_read_u64(&next->key) == FREE)
			pg_atomic_write_u64(&bell->key, FREE);
	}
}
