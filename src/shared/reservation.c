/*
 * reservation.c
 *		Claims reserved under limits on running tasks.
 *
 * Each queue or worker with a limit has an entry in the table of counters
 * (counter.c, which has the rules, and whose lock and spinlocks these
 * functions acquire) with the number of its running tasks, open transactions
 * included.  A claim is reserved before it is made, undone if it rolls back,
 * and released after the commit that ends the run.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/guc.h"
#include "shared/counter_table.h"
#include "shared/reservation.h"

static TqCounter *lock_limited(TqOwner owner, int32 id);
static void       unlock(TqCounter *counter);
static void       invalidate(TqCounter *counter);

/*
 * A limit is about to change.  While there is no limit claims reserve nothing,
 * so the current number must not be used once there is a limit again.
 */
void
tq_reservation_invalidate(TqOwner owner, int32 id)
{
	TqCounter *counter = lock_limited(owner, id);

	if (counter == NULL)
		return;
	invalidate(counter);
	unlock(counter);
}

/*
 * Reserve one more running task, of at most max.  *epoch must be passed to
 * tq_reservation_undo.  If it is NULL, only check, and reserve nothing.
 */
TqReservation
tq_reservation_make(TqOwner owner, int32 id, int64 max, uint64 *epoch)
{
	TqCounter    *counter;
	TqCounter    *database;
	TqReservation answer = TQ_RESERVE_UNKNOWN;

	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(owner, id);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	if (counter != NULL && database != NULL)
	{
		uint64 flagged = tq_counter_flagged(database);

		SpinLockAcquire(&counter->mutex);
		if (counter->limited && counter->used_seen == flagged)
		{
			answer = TQ_RESERVE_FULL;
			if (counter->used < max)
			{
				counter->used += epoch != NULL ? 1 : 0;
				answer = TQ_RESERVE_DONE;
			}
			if (epoch != NULL)
				*epoch = counter->epoch;
		}
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(tq_counter_table->lock);
	return answer;
}

/* Does the queue or worker have a counter, or is there room for one? */
bool
tq_reservation_has_room(TqOwner owner, int32 id)
{
	bool has;

	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	has = tq_counter_find(owner, id) != NULL ||
		  hash_get_num_entries(tq_counter_hash) < tq_guc_max_counters;
	LWLockRelease(tq_counter_table->lock);
	return has;
}

/*
 * A task no longer runs, or its claim was rolled back, by a transaction that
 * has ended.  Cannot fail.
 */
void
tq_reservation_release(TqOwner owner, int32 id, int64 task_id, uint64 instance)
{
	TqCounter *counter = lock_limited(owner, id);

	if (counter == NULL)
		return;
	if (tq_counter_table->instance != instance)
		invalidate(counter);
	else if (!counter->recounting)
		counter->used = Max(counter->used - 1, 0);
	else if (counter->ended_count < TQ_COUNTER_ENDED)
		counter->ended[counter->ended_count++] = task_id;
	else
		invalidate(counter);
	unlock(counter);
}

/*
 * A claim was rolled back to a savepoint, or was not made.  Cannot fail.
 */
void
tq_reservation_undo(TqOwner owner, int32 id, uint64 epoch)
{
	TqCounter *counter = lock_limited(owner, id);

	if (counter == NULL)
		return;
	if (counter->recounting || counter->epoch != epoch)
		invalidate(counter);
	else
		counter->used = Max(counter->used - 1, 0);
	unlock(counter);
}

/*
 * Begin a recount of running tasks, concurrent with no claim of the queue or
 * worker; 0 if there is no room.
 */
uint64
tq_reservation_count_begin(TqOwner owner, int32 id, uint64 *instance)
{
	TqCounter *database;
	TqCounter *counter;
	uint64     begun = 0;

	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	database = tq_counter_make(TQ_OWNER_DATABASE, 0);
	counter = tq_counter_make(owner, id);
	*instance = tq_counter_table->instance;
	if (database != NULL && counter != NULL)
	{
		begun = tq_counter_flagged(database);
		counter->limited = true;
		counter->used_seen = 0;
		counter->recounting = true;
		counter->again = false;
		counter->ended_count = 0;
	}
	LWLockRelease(tq_counter_table->lock);
	return begun;
}

/*
 * End the recount with the tasks seen running, one for each claim, in the
 * order of their ids, and the number of others; false if it must be repeated.
 */
bool
tq_reservation_count_end(TqOwner owner, int32 id, uint64 begun,
						 uint64 instance, const int64 *task_ids, int count,
						 int more)
{
	TqCounter *counter;
	bool       done = false;

	LWLockAcquire(tq_counter_table->lock, LW_EXCLUSIVE);
	counter = tq_counter_find(owner, id);
	if (counter != NULL && tq_counter_table->instance == instance &&
		counter->recounting && !counter->again)
	{
		int64 used = count + more;

		for (int i = 0; i < count; i++)
		{
			for (int e = 0; e < counter->ended_count; e++)
			{
				if (counter->ended[e] == task_ids[i])
				{
					/* each end belongs to one claim of the task */
					counter->ended[e] = counter->ended[--counter->ended_count];
					used--;
					break;
				}
			}
		}
		counter->used = used;
		counter->used_seen = begun;
		counter->epoch = tq_counter_new_number();
		counter->recounting = false;
		done = true;
	}
	LWLockRelease(tq_counter_table->lock);
	return done;
}

bool
tq_reservation_is_known(TqOwner owner, int32 id)
{
	TqCounter *counter;
	TqCounter *database;
	bool       known;

	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(owner, id);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	known = counter != NULL && database != NULL && counter->limited &&
			counter->used_seen == tq_counter_flagged(database);
	LWLockRelease(tq_counter_table->lock);
	return known;
}

/* The number of reserved claims; false if unknown. */
bool
tq_reservation_count(TqOwner owner, int32 id, int64 *used)
{
	TqCounter *counter;
	TqCounter *database;
	bool       known = false;

	if (tq_counter_table == NULL)
		return false;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(owner, id);
	database = tq_counter_find(TQ_OWNER_DATABASE, 0);
	if (counter != NULL && database != NULL)
	{
		uint64 flagged = tq_counter_flagged(database);

		SpinLockAcquire(&counter->mutex);
		known = counter->limited && !counter->recounting &&
				counter->used_seen == flagged;
		*used = counter->used;
		SpinLockRelease(&counter->mutex);
	}
	LWLockRelease(tq_counter_table->lock);
	return known;
}

/*
 * The entry, locked, if claims of the queue or worker are counted; otherwise
 * NULL, and not locked.
 */
static TqCounter *
lock_limited(TqOwner owner, int32 id)
{
	TqCounter *counter;

	if (tq_counter_table == NULL)
		return NULL;
	LWLockAcquire(tq_counter_table->lock, LW_SHARED);
	counter = tq_counter_find(owner, id);
	if (counter != NULL && counter->limited)
	{
		SpinLockAcquire(&counter->mutex);
		return counter;
	}
	LWLockRelease(tq_counter_table->lock);
	return NULL;
}

static void
unlock(TqCounter *counter)
{
	SpinLockRelease(&counter->mutex);
	LWLockRelease(tq_counter_table->lock);
}

/*
 * Called under the entry's spinlock: a recount in progress must be repeated.
 */
static void
invalidate(TqCounter *counter)
{
	counter->used_seen = 0;
	counter->again = true;
}
