/*
 * heartbeat.c
 *		Heartbeats of registered workers, in shared memory.
 *
 * One entry for each live worker; a heartbeat is one store.  There are at most
 * taskq.max_workers entries, in all databases together; beyond that
 * registering raises 53400.  A worker of taskq.worker without an entry (after
 * a start or a wipe) gets a new one from the background worker's next check or
 * from its own next heartbeat, and with it a full threshold of time.
 *
 * Times are of the monotonic clock, which is not affected by steps of the wall
 * clock.
 *
 * Locks: one LWLock; shared for finding an entry and storing into its atomics,
 * exclusive for creating and removing entries.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/hsearch.h"

#include "base/clock.h"
#include "base/guc.h"
#include "shared/heartbeat.h"

typedef struct SlotKey
{
	Oid   database;
	int32 worker_id;
} SlotKey;

typedef struct SlotEntry
{
	SlotKey          key;
	pg_atomic_uint64 last_seen;
	pg_atomic_uint32 asked; /* a task of the worker was asked to stop */
	pg_atomic_uint32 turn;  /* number of claims from all of its queues */
} SlotEntry;

static LWLock *lock = NULL;
static HTAB   *slots = NULL;

static SlotKey    key_of(int32 worker_id);
static SlotEntry *find_locked(int32 worker_id);

Size
tq_heartbeat_size(void)
{
	return hash_estimate_size(tq_guc_max_workers, sizeof(SlotEntry));
}

void
tq_heartbeat_request(void)
{
	RequestNamedLWLockTranche("taskq workers", 1);
}

void
tq_heartbeat_init(void)
{
	HASHCTL ctl = {0};

	lock = &GetNamedLWLockTranche("taskq workers")->lock;
	ctl.keysize = sizeof(SlotKey);
	ctl.entrysize = sizeof(SlotEntry);
	slots = ShmemInitHash("taskq workers", tq_guc_max_workers,
						  tq_guc_max_workers, &ctl,
						  HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
}

void
tq_heartbeat_wipe(void)
{
	HASH_SEQ_STATUS scan;
	SlotEntry      *entry;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, slots);
	while ((entry = hash_seq_search(&scan)) != NULL)
		hash_search(slots, &entry->key, HASH_REMOVE, NULL);
	LWLockRelease(lock);
}

/* The extension or the database was dropped.  Cannot fail. */
void
tq_heartbeat_forget_database(Oid database)
{
	HASH_SEQ_STATUS scan;
	SlotEntry      *entry;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	hash_seq_init(&scan, slots);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database == database)
			hash_search(slots, &entry->key, HASH_REMOVE, NULL);
	}
	LWLockRelease(lock);
}

/*
 * Create an entry, alive from now on; false if there is no room.  Whether a
 * task was asked to stop is unknown, so the next heartbeat checks that.
 */
bool
tq_heartbeat_put(int32 worker_id)
{
	SlotKey    key = key_of(worker_id);
	SlotEntry *entry;
	bool       found;

	if (slots == NULL)
		return false;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* the hash allocates entries beyond its size, so check the limit here */
	entry = hash_search(slots, &key, HASH_FIND, NULL);
	if (entry == NULL && hash_get_num_entries(slots) < tq_guc_max_workers)
		entry = hash_search(slots, &key, HASH_ENTER_NULL, &found);
	if (entry != NULL)
	{
		pg_atomic_init_u32(&entry->turn, 0);
		pg_atomic_init_u64(&entry->last_seen, (uint64) tq_clock_monotonic());
		pg_atomic_init_u32(&entry->asked, 1);
	}
	LWLockRelease(lock);
	return entry != NULL;
}

/* A heartbeat; false if there is no entry. */
bool
tq_heartbeat_beat(int32 worker_id)
{
	SlotEntry *entry = find_locked(worker_id);

	if (entry == NULL)
		return false;
	pg_atomic_write_u64(&entry->last_seen, (uint64) tq_clock_monotonic());
	LWLockRelease(lock);
	return true;
}

/* Cannot fail. */
void
tq_heartbeat_remove(int32 worker_id)
{
	SlotKey key = key_of(worker_id);

	if (slots == NULL)
		return;
	LWLockAcquire(lock, LW_EXCLUSIVE);
	hash_search(slots, &key, HASH_REMOVE, NULL);
	LWLockRelease(lock);
}

bool
tq_heartbeat_find(int32 worker_id, int64 *last_seen)
{
	SlotEntry *entry = find_locked(worker_id);

	if (entry == NULL)
		return false;
	*last_seen = (int64) pg_atomic_read_u64(&entry->last_seen);
	LWLockRelease(lock);
	return true;
}

/* Note that a task of the worker was asked to stop.  Cannot fail. */
void
tq_heartbeat_ask_to_stop(int32 worker_id)
{
	SlotEntry *entry = find_locked(worker_id);

	if (entry == NULL)
		return;
	pg_atomic_write_u32(&entry->asked, 1);
	LWLockRelease(lock);
}

/* May a task of the worker have been asked to stop? */
bool
tq_heartbeat_asked_to_stop(int32 worker_id, bool clear)
{
	SlotEntry *entry = find_locked(worker_id);
	bool       asked;

	if (entry == NULL)
		return false;
	asked = clear ? pg_atomic_exchange_u32(&entry->asked, 0) != 0
				  : pg_atomic_read_u32(&entry->asked) != 0;
	LWLockRelease(lock);
	return asked;
}

/* The number of the worker's claims from all of its queues. */
uint32
tq_heartbeat_turn(int32 worker_id)
{
	SlotEntry *entry = find_locked(worker_id);
	uint32     turn;

	if (entry == NULL)
		return 0;
	turn = pg_atomic_fetch_add_u32(&entry->turn, 1);
	LWLockRelease(lock);
	return turn;
}

/* The number of entries of all databases. */
int
tq_heartbeat_count(void)
{
	int count;

	if (slots == NULL)
		return 0;
	LWLockAcquire(lock, LW_SHARED);
	count = (int) hash_get_num_entries(slots);
	LWLockRelease(lock);
	return count;
}

/* The entries of this database; returns their number. */
int
tq_heartbeat_list(TqHeartbeat *list, int max)
{
	HASH_SEQ_STATUS scan;
	SlotEntry      *entry;
	int             count = 0;

	if (slots == NULL)
		return 0;
	LWLockAcquire(lock, LW_SHARED);
	hash_seq_init(&scan, slots);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database != MyDatabaseId || count >= max)
			continue;
		list[count].worker_id = entry->key.worker_id;
		list[count].last_seen = (int64) pg_atomic_read_u64(&entry->last_seen);
		count++;
	}
	LWLockRelease(lock);
	return count;
}

static SlotKey
key_of(int32 worker_id)
{
	SlotKey key;

	key.database = MyDatabaseId;
	key.worker_id = worker_id;
	return key;
}

/*
 * Returns with the lock held in shared mode; NULL, and not locked, if there is
 * no entry.
 */
static SlotEntry *
find_locked(int32 worker_id)
{
	SlotKey    key = key_of(worker_id);
	SlotEntry *entry;

	if (slots == NULL)
		return NULL;
	LWLockAcquire(lock, LW_SHARED);
	entry = hash_search(slots, &key, HASH_FIND, NULL);
	if (entry == NULL)
		LWLockRelease(lock);
	return entry;
}
