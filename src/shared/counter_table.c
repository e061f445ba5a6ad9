/*
 * counter_table.c
 *		The table of counters shared by counter.c, reservation.c and
 *		rate_bucket.c.
 *
 * This file finds, creates and numbers entries.  The rules and the locks are
 * at the head of counter.c.  Callers hold the LWLock; tq_counter_find_or_make
 * releases it for a moment to acquire it exclusively, so pointers to other
 * entries are invalid after that call.  The hash has room for
 * taskq.max_counters entries; a queue that finds no room has no entry, and its
 * numbers are unknown.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/clock.h"
#include "base/guc.h"
#include "shared/counter_table.h"

TqCounterTable *tq_counter_table = NULL;
HTAB           *tq_counter_hash = NULL;

/* Called under the lock, in any mode. */
TqCounter *
tq_counter_find(int owner, int32 id)
{
	TqCounterKey key;

	key.database = MyDatabaseId;
	key.owner = owner;
	key.id = id;
	return hash_search(tq_counter_hash, &key, HASH_FIND, NULL);
}

/* Called under the shared lock, which may be released for a moment. */
TqCounter *
tq_counter_find_or_make(int owner, int32 id)
{
	TqCounter *counter = tq_counter_find(owner, id);

	if (counter != NULL)
		return counter;
	LWLockRelease(tq_counter_table->lock);
	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	(void) tq_counter_make(owner, id);
	LWLockRelease(tq_counter_table->lock);
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	return tq_counter_find(owner, id);
}

/* Called under the exclusive lock; NULL if there is no room. */
TqCounter *
tq_counter_make(int owner, int32 id)
{
	TqCounter   *counter = tq_counter_find(owner, id);
	TqCounterKey key;
	bool         found;

	/* the hash allocates entries beyond its size, so check the limit here */
	if (counter != NULL ||
		hash_get_num_entries(tq_counter_hash) >= tq_guc_max_counters)
		return counter;
	key.database = MyDatabaseId;
	key.owner = owner;
	key.id = id;
	counter = hash_search(tq_counter_hash, &key, HASH_ENTER_NULL, &found);
	if (counter == NULL)
		return NULL;
	memset((char *) counter + sizeof(TqCounterKey), 0,
		   sizeof(TqCounter) - sizeof(TqCounterKey));
	SpinLockInit(&counter->mutex);
	pg_atomic_init_u64(&counter->flagged, tq_counter_new_number());
	pg_atomic_init_u64(&counter->claimed_at, 0);
	if (owner == TQ_OWNER_QUEUE)
	{
		TqCounter *of = tq_counter_find(TQ_OWNER_DATABASE, 0);

		/* earlier changes of this one may have found no room */
		if (of != NULL && of->missing)
			pg_atomic_fetch_add_u64(&of->flagged, 1);
	}
	return counter;
}

/*
 * The value that the seen of a number must equal for the number to be known.
 */
uint64
tq_counter_flagged(TqCounter *database)
{
	return pg_atomic_read_u64(&database->flagged);
}

/* Never 0, and never repeated while the machine is up. */
uint64
tq_counter_new_number(void)
{
	static uint64 last = 0;
	uint64        number = (uint64) tq_clock_monotonic() << 12;

	last = Max(last + 1, number + (uint64) (MyProcPid & 0xfff));
	return last;
}
