/*
 * wake.c
 *		Choice of the waiting sessions that a wake reaches.
 *
 * A session that has made a task claimable, or has changed something on which
 * waiters depend, reports the change here.  A task, or room for one, wakes as
 * many waiters as there are tasks, the longest waiting first; other changes
 * wake all waiters that they may concern.  The rules and the locks are at the
 * head of waiter.c.
 *
 * Except for tq_wake_one, which passes a wake on, these functions are called
 * at the ends of transactions: nothing here fails, waits or allocates.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "miscadmin.h"
#include "storage/latch.h"
#include "storage/proc.h"

#include "base/clock.h"
#include "shared/waiter_table.h"
#include "shared/wake.h"

#define WAKE_AT_ONCE 64 /* slots chosen in one search */

static void look_again(TqWhose whose, int32 id, int64 key);
static void wake_all(TqWake *wake);
static bool is_anybody(const TqWake *wake);
static int  choose(const TqWake *wake, int max, int *chosen);
static bool wake_slot(int number, const TqWake *wake);
static bool is_wanted(const TqWaiterSlot *slot, const TqWake *wake);

/*
 * Tasks are at these positions.  Those that are not due yet are left to the
 * background worker.
 */
void
tq_wake_positions(const TqLanePosition *places, int count)
{
	TimestampTz now = 0;
	TqWake      wake = {TQ_WAKE_PLACE};
	int         next;

	if (tq_waiter_table == NULL)
		return;
	wake.database = MyDatabaseId;
	for (int i = 0; i < count; i = next)
	{
		int due = 0;

		wake.id = places[i].queue_id;
		wake.key = places[i].lane_id;
		if (now == 0 && is_anybody(&wake))
			now = tq_clock_dispatch();
		for (next = i; next < count && places[next].lane_id == wake.key &&
					   places[next].queue_id == wake.id;
			 next++)
			due += places[next].available_at <= now ? 1 : 0;
		if (due > 0)
			(void) tq_wake_one(&wake, due);
	}
}

/* A limit of the queue has room for count claims. */
void
tq_wake_room(int32 queue_id, int count)
{
	TqWake wake = {TQ_WAKE_ROOM};

	wake.database = MyDatabaseId;
	wake.id = queue_id;
	(void) tq_wake_one(&wake, count);
}

/* The queue has changed: paused or resumed, options, dropped. */
void
tq_wake_queue(int32 queue_id)
{
	look_again(TQ_OF_QUEUE, queue_id, 0);
}

/*
 * The worker drains, or has ended; with of_room, one of its tasks has ended.
 */
void
tq_wake_worker(int32 worker_id, bool of_room)
{
	look_again(of_room ? TQ_OF_WORKER_ROOM : TQ_OF_WORKER, worker_id, 0);
}

/* Queues or lanes were created. */
void
tq_wake_made(void)
{
	look_again(TQ_OF_MADE, 0, 0);
}

/* Unknown changes: wake all waiters of the database. */
void
tq_wake_database(void)
{
	look_again(TQ_OF_DATABASE, 0, 0);
}

/* The task has finished; this state may be its only trace. */
void
tq_wake_task_ended(int64 task_id, int state)
{
	look_again(TQ_OF_TASK, state, task_id);
}

/* The extension was dropped: waiting sessions find that out.  Cannot fail. */
void
tq_wake_forget_database(Oid database)
{
	TqWake wake = {TQ_WAKE_LOOK};

	wake.whose = TQ_OF_DATABASE;
	wake.database = database;
	wake_all(&wake);
}

/* Wake up to count of the matching waiters; returns their number. */
int
tq_wake_one(TqWake *wake, int count)
{
	int woken = 0;

	if (!is_anybody(wake))
		return 0;
	while (woken < count)
	{
		int chosen[WAKE_AT_ONCE];
		int found = choose(wake, Min(count - woken, WAKE_AT_ONCE), chosen);

		if (found == 0)
			break;
		for (int i = 0; i < found; i++)
			woken += wake_slot(chosen[i], wake) ? 1 : 0;
	}
	return woken;
}

static void
look_again(TqWhose whose, int32 id, int64 key)
{
	TqWake wake = {TQ_WAKE_LOOK};

	wake.whose = whose;
	wake.database = MyDatabaseId;
	wake.id = id;
	wake.key = key;
	wake_all(&wake);
}

/* Wake all matching waiters. */
static void
wake_all(TqWake *wake)
{
	if (!is_anybody(wake))
		return;
	for (int i = 0; i < tq_waiter_table->slot_count; i++)
	{
		if (pg_atomic_read_u64(&tq_waiter_tickets[i]) != 0)
			(void) wake_slot(i, wake);
	}
}

/*
 * May there be a waiter to wake?  The barrier makes the change visible to any
 * session that checks from now on.
 */
static bool
is_anybody(const TqWake *wake)
{
	if (tq_waiter_table == NULL)
		return false;
	pg_memory_barrier();
	if (wake->kind == TQ_WAKE_ROOM || wake->whose == TQ_OF_WORKER_ROOM)
		return pg_atomic_read_u32(&tq_waiter_table->at_limit) != 0;
	if (wake->whose == TQ_OF_TASK)
		return pg_atomic_read_u32(
				   tq_waiter_bucket(wake->database, 0, wake->key)) != 0;
	if (wake->kind == TQ_WAKE_PLACE || wake->whose == TQ_OF_QUEUE)
		return pg_atomic_read_u32(
				   tq_waiter_bucket(wake->database, wake->id, 0)) != 0 ||
			   pg_atomic_read_u32(&tq_waiter_table->broad) != 0;
	return pg_atomic_read_u32(&tq_waiter_table->all) != 0;
}

/* Up to max matching slots, those with the lowest tickets, in order. */
static int
choose(const TqWake *wake, int max, int *chosen)
{
	uint64 lowest[WAKE_AT_ONCE];
	int    count = 0;

	for (int i = 0; i < tq_waiter_table->slot_count; i++)
	{
		TqWaiterSlot *slot = &tq_waiter_table->slot[i];
		uint64        ticket = pg_atomic_read_u64(&tq_waiter_tickets[i]);
		bool          wanted;
		int           place;

		if (ticket == 0 || (count == max && ticket > lowest[count - 1]))
			continue;
		SpinLockAcquire(&slot->mutex);
		wanted = is_wanted(slot, wake);
		ticket = slot->ticket;
		SpinLockRelease(&slot->mutex);
		if (!wanted)
			continue;
		if (count < max)
			count++;
		else if (ticket > lowest[count - 1])
			continue;
		for (place = count - 1; place > 0 && lowest[place - 1] > ticket;
			 place--)
		{
			lowest[place] = lowest[place - 1];
			chosen[place] = chosen[place - 1];
		}
		lowest[place] = ticket;
		chosen[place] = i;
	}
	return count;
}

/* Returns false if the slot no longer matches. */
static bool
wake_slot(int number, const TqWake *wake)
{
	TqWaiterSlot *slot = &tq_waiter_table->slot[number];
	bool          wanted;

	SpinLockAcquire(&slot->mutex);
	wanted = is_wanted(slot, wake);
	if (wanted)
	{
		tq_waiter_disarm(slot);
		slot->woken = true;
		slot->wake = *wake;
		if (wake->whose == TQ_OF_TASK)
			slot->ended = wake->id;
	}
	SpinLockRelease(&slot->mutex);
	if (!wanted)
		return false;
	pg_atomic_fetch_add_u64(&tq_waiter_table->wakes, 1);
	SetLatch(&GetPGProcByNumber(number)->procLatch);
	return true;
}

/* Does the slot match the wake?  It is locked. */
static bool
is_wanted(const TqWaiterSlot *slot, const TqWake *wake)
{
	const TqWaitFor *wait_for = &slot->wait_for;

	if (!slot->armed || slot->database != wake->database ||
		slot->ticket <= wake->after)
		return false;
	if (slot->kind == TQ_WAITER_TASK)
		return wake->whose == TQ_OF_DATABASE ||
			   (wake->whose == TQ_OF_TASK && slot->task_id == wake->key);
	if (wake->kind == TQ_WAKE_PLACE)
		return !wait_for->worker_full && wait_for->at_limit != wake->id &&
			   tq_waiter_has_queue(wait_for, wake->id) &&
			   tq_waiter_has_lane(wait_for, wake->key);
	if (wake->kind == TQ_WAKE_ROOM)
		return wait_for->at_limit == wake->id ||
			   (wait_for->at_limit == -1 &&
				tq_waiter_has_queue(wait_for, wake->id));
	switch (wake->whose)
	{
		case TQ_OF_QUEUE:
			return tq_waiter_has_queue(wait_for, wake->id);
		case TQ_OF_WORKER:
			return wait_for->worker_id == wake->id;
		case TQ_OF_WORKER_ROOM:
			return wait_for->worker_full && wait_for->worker_id == wake->id;
		case TQ_OF_MADE:
			return wait_for->open;
		case TQ_OF_DATABASE:
			return true;
		case TQ_OF_NOBODY:
		case TQ_OF_TASK:
			break;
	}
	return false;
}
