/*
 * notify_flag.c
 *		Flags of queues for which a NOTIFY is to be sent.
 *
 * A bounded table of the queues with option notify.  The background worker of
 * each database enters the flags of its queues.  A transaction that ends
 * raises the flag of each queue in which something can be claimed, and wakes
 * the worker if the flag was down.  The worker responds with a NOTIFY
 * (maintenance/notify.c).
 *
 * Raising a flag takes no lock: it probes a few slots, and a queue without a
 * flag costs two probes.  Each slot has a key (database and queue) and a flag.
 * The slot of queue 0 says that the flags of its database are complete.  While
 * it is missing (after a start, after a wipe, or if the table is too small for
 * all), a session that finds no flag counts a stray, for which the worker
 * considers all flags of its queues raised.  So no notification is lost for
 * lack of room.
 *
 * A slot that is freed becomes a tombstone, over which probing continues;
 * tombstones are reused.  Slots change under one LWLock.  A flag that is
 * raised while its slot is being reassigned may wake a worker unnecessarily,
 * or be lost; so a flag is raised when it is entered.
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

/* Few in the test build, to test what happens when there are too few. */
#ifdef TASKQ_DEBUG
#define MAX_FLAGS 16
#else
#define MAX_FLAGS 1024
#endif

/* Number of counters of strays, which databases share by hash. */
#define STRAYS 64

#define FREE UINT64CONST(0)
#define TOMBSTONE UINT64CONST(1) /* no database has OID 0 */

typedef struct Flag
{
	pg_atomic_uint64 key; /* changed under lock */
	pg_atomic_uint32 raised;
} Flag;

typedef struct Flags
{
	LWLock           lock;
	int              tranche;
	pg_atomic_uint64 strays[STRAYS]; /* by the hash of the database */
	Flag             flag[MAX_FLAGS];
} Flags;

static Flags *shared = NULL;

/* In the background worker: the strays that it has handled. */
static uint64 answered_strays = 0;

static uint64 key_of(Oid database, int32 queue_id);
static uint32 place_of(uint64 key);
static Flag  *find(uint64 key);
static bool   is_wanted(uint64 key, const int32 *queue_ids, int count);
static bool   enter(uint64 key);
static void   give_up(Flag *flag);
static void   clean(void);

Size
tq_notify_flag_size(void)
{
	return MAXALIGN(sizeof(Flags));
}

/* The caller holds AddinShmemInitLock. */
void
tq_notify_flag_init(void)
{
	bool found;

	shared =
		ShmemInitStruct("taskq notify flags", tq_notify_flag_size(), &found);
	if (!found)
	{
		memset(shared, 0, tq_notify_flag_size());
		shared->tranche = LWLockNewTrancheId();
		LWLockInitialize(&shared->lock, shared->tranche);
		for (int i = 0; i < STRAYS; i++)
			pg_atomic_init_u64(&shared->strays[i], 0);
		for (int i = 0; i < MAX_FLAGS; i++)
		{
			pg_atomic_init_u64(&shared->flag[i].key, FREE);
			pg_atomic_init_u32(&shared->flag[i].raised, 0);
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
	for (int i = 0; i < MAX_FLAGS; i++)
		pg_atomic_write_u64(&shared->flag[i].key, FREE);
	LWLockRelease(&shared->lock);
}

/* The extension or the database was dropped.  Cannot fail. */
void
tq_notify_flag_forget_database(Oid database)
{
	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_FLAGS; i++)
	{
		uint64 key = pg_atomic_read_u64(&shared->flag[i].key);

		if (key > TOMBSTONE && (Oid) (key >> 32) == database)
			give_up(&shared->flag[i]);
	}
	clean();
	LWLockRelease(&shared->lock);
}

/* Something can be claimed in the queue. */
void
tq_notify_flag_raise(int32 queue_id)
{
	Flag *flag;

	if (shared == NULL)
		return;
	flag = find(key_of(MyDatabaseId, queue_id));
	if (flag != NULL)
	{
		/*
		 * if the flag was up already, the session that raised it wakes the
		 * worker
		 */
		if (pg_atomic_exchange_u32(&flag->raised, 1) == 0)
			tq_worker_directory_wake();
	}
	else if (find(key_of(MyDatabaseId, 0)) == NULL)
		tq_notify_flag_raise_all();
}

/* Raise the flags of these positions, except those that are not due yet. */
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

/* Raise all flags: it is unknown where something can be claimed. */
void
tq_notify_flag_raise_all(void)
{
	if (shared == NULL)
		return;
	pg_atomic_fetch_add_u64(&shared->strays[MyDatabaseId % STRAYS], 1);
	tq_worker_directory_wake();
}

/*
 * Enter the sorted queues of this database that have the option.  New ones
 * count as raised, since something may have been missed since the option was
 * set.  False if there is no room for all of them.
 */
bool
tq_notify_flag_add(const int32 *queue_ids, int count)
{
	bool all = true;

	if (shared == NULL)
		return false;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < MAX_FLAGS; i++)
	{
		uint64 key = pg_atomic_read_u64(&shared->flag[i].key);

		if (key > TOMBSTONE && (Oid) (key >> 32) == MyDatabaseId &&
			!is_wanted(key, queue_ids, count))
			give_up(&shared->flag[i]);
	}
	clean();
	for (int i = 0; i < count; i++)
		all &= enter(key_of(MyDatabaseId, queue_ids[i]));
	all = all && enter(key_of(MyDatabaseId, 0));
	if (!all)
	{
		Flag *all_queues = find(key_of(MyDatabaseId, 0));

		if (all_queues != NULL)
			give_up(all_queues);
	}
	LWLockRelease(&shared->lock);
	return all;
}

/* Are all flags entered?  If not, they may have been wiped. */
bool
tq_notify_flag_is_complete(void)
{
	return shared == NULL || find(key_of(MyDatabaseId, 0)) != NULL;
}

/* Has the queue's flag been raised? */
bool
tq_notify_flag_raised(int32 queue_id)
{
	Flag *flag;

	if (shared == NULL)
		return false;
	flag = find(key_of(MyDatabaseId, queue_id));
	return flag != NULL && pg_atomic_read_u32(&flag->raised) != 0;
}

/*
 * The same, and lower the flag: to be called before the NOTIFY is sent.
 */
bool
tq_notify_flag_lower(int32 queue_id)
{
	Flag *flag;

	if (shared == NULL)
		return false;
	flag = find(key_of(MyDatabaseId, queue_id));
	return flag != NULL && pg_atomic_exchange_u32(&flag->raised, 0) != 0;
}

/* Have there been strays since the last call? */
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

/* Called without the lock: the result is a snapshot. */
static Flag *
find(uint64 key)
{
	uint32 at = place_of(key);

	for (int i = 0; i < MAX_FLAGS; i++)
	{
		Flag  *flag = &shared->flag[(at + i) % MAX_FLAGS];
		uint64 here = pg_atomic_read_u64(&flag->key);

		if (here == key)
			return flag;
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

/* Enter a slot with this key, under the lock; false if there is no room. */
static bool
enter(uint64 key)
{
	uint32 at = place_of(key);

	Assert(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	if (find(key) != NULL)
		return true;
	for (int i = 0; i < MAX_FLAGS; i++)
	{
		Flag *flag = &shared->flag[(at + i) % MAX_FLAGS];

		if (pg_atomic_read_u64(&flag->key) > TOMBSTONE)
			continue;
		pg_atomic_write_u32(&flag->raised, 1);
		pg_write_barrier();
		pg_atomic_write_u64(&flag->key, key);
		return true;
	}
	return false;
}

static void
give_up(Flag *flag)
{
	Assert(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	pg_atomic_write_u64(&flag->key, TOMBSTONE);
}

/* Free tombstones before a free slot, which probing does not need. */
static void
clean(void)
{
	Assert(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	for (int i = 2 * MAX_FLAGS - 1; i >= 0; i--)
	{
		Flag *flag = &shared->flag[i % MAX_FLAGS];
		Flag *next = &shared->flag[(i + 1) % MAX_FLAGS];

		if (pg_atomic_read_u64(&flag->key) == TOMBSTONE &&
			pg_atomic_read_u64(&next->key) == FREE)
			pg_atomic_write_u64(&flag->key, FREE);
	}
}
