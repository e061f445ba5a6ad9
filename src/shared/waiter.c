/*
 * waiter.c
 *		Sessions that wait in the server, and the handling of wakes.
 *
 * Each backend has a slot, in which it publishes the events for which it
 * waits: tasks of some lanes, or the end of one task or workflow.  A session
 * that has made tasks claimable wakes as many waiters as there are tasks, the
 * longest waiting first, and only waiters that can claim the task.
 *
 * No wake is missed: a waiter fills its slot, then checks, and sleeps only if
 * it found nothing; the waking session searches the slots when its change is
 * visible.  There is a full barrier between filling the slot and checking, and
 * between the visibility and the search, so one of the two sees the other.
 * And no wake is trusted: it is a reason to check again, and every sleep has
 * an end.
 *
 * A wake is for one waiter, and must not be lost if the waiter ends.  A waiter
 * keeps its wakes until it has checked.  Then:
 *
 * - It found nothing: the task is gone, and the wake is dropped.  (But a
 *   waiter that could not name all of its lanes may have been woken for
 *   another lane: it passes the wake on to waiters that have waited less
 *   long.)
 * - It claimed a task of the same lane: the wake has served its purpose.  The
 *   session woken for that very task finds another one.
 * - It claimed something else, or ends without having checked: the wake is
 *   passed on to another waiter.
 * - A limit of the queue prevents the claim of the task: the waiter keeps
 *   the wake, and publishes that a limit blocks it.  Then it is woken
 *   when there is room (which is a separate kind of wake), and no longer for
 *   tasks of that queue: other waiters are woken for these, until each task
 *   that is blocked by the limit has a waiter.
 * - The worker may not claim more: the wake is passed on, and the waiter is
 *   woken when one of the worker's tasks has ended.
 * - What it waits for has changed in the meantime (a right was revoked, a
 *   queue or a tag of its worker removed), and no longer includes the event
 *   that woke it: the wake is passed on.
 *
 * The slots that can be woken are counted by queue (hashed), so a commit
 * without waiters reads two numbers.  A waiter that is found by its ticket,
 * which orders waiters by the time they began, is checked under its spinlock.
 * The waiters reached by a wake are chosen in wake.c.
 *
 * Locks: a spinlock in each slot, held for a check of it; never two.  A wake
 * sets the latch of a process, which exists as long as shared memory does.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/wait_event.h"

#include "base/clock.h"
#include "shared/waiter.h"
#include "shared/waiter_table.h"
#include "shared/wake.h"

#define HELD 4
#define TAKEN 8

/* What this backend waits for. */
static TqWaiterSlot *my_slot = NULL; /* NULL: nothing */

static uint64    my_ticket = 0;
static TqWaitFor my_wait_for;
static int       held_count = 0;
static TqWake    held[HELD]; /* wakes received before the last check */
static int       taken_count = 0;
static int64     taken[TAKEN]; /* lanes of tasks that this check has claimed */
static int32     taken_queue[TAKEN];

static Size tickets_size(void);
static void begin(TqWaiterKind kind, int64 task_id);
static void arm(TqWaiterSlot *slot);
static bool take_wake(TqWaiterSlot *slot, TqWake *wake);
static void hold(const TqWake *wake);
static bool waits_for(const TqWake *wake);
static bool is_used(const TqWake *wake);
static void pass_on(TqWake *wake, uint64 after);
static void at_exit(int code, Datum arg);
static void wait_latch(long timeout);

Size
tq_waiter_size(void)
{
	return add_size(
		MAXALIGN(add_size(offsetof(TqWaiters, slot),
						  mul_size(sizeof(TqWaiterSlot), MaxBackends))),
		tickets_size());
}

/* The caller holds AddinShmemInitLock. */
void
tq_waiter_init(void)
{
	bool found;

	tq_waiter_table =
		ShmemInitStruct("taskq waiters", tq_waiter_size(), &found);
	tq_waiter_tickets =
		(pg_atomic_uint64 *) ((char *) tq_waiter_table +
							  (tq_waiter_size() - tickets_size()));
	if (found)
		return;
	memset(tq_waiter_table, 0, tq_waiter_size());
	pg_atomic_init_u64(&tq_waiter_table->last_ticket, 0);
	pg_atomic_init_u64(&tq_waiter_table->sleeps, 0);
	pg_atomic_init_u64(&tq_waiter_table->wakes, 0);
	pg_atomic_init_u64(&tq_waiter_table->passed_on, 0);
	pg_atomic_init_u32(&tq_waiter_table->all, 0);
	pg_atomic_init_u32(&tq_waiter_table->at_limit, 0);
	pg_atomic_init_u32(&tq_waiter_table->broad, 0);
	for (int i = 0; i < TQ_WAITER_BUCKETS; i++)
		pg_atomic_init_u32(&tq_waiter_table->buckets[i], 0);
	tq_waiter_table->slot_count = MaxBackends;
	for (int i = 0; i < MaxBackends; i++)
	{
		SpinLockInit(&tq_waiter_table->slot[i].mutex);
		pg_atomic_init_u64(&tq_waiter_tickets[i], 0);
	}
}

/*
 * All slots become empty; a sleeping session checks, and fills its slot again.
 */
void
tq_waiter_wipe(void)
{
	if (tq_waiter_table == NULL)
		return;
	for (int i = 0; i < tq_waiter_table->slot_count; i++)
	{
		TqWaiterSlot *slot = &tq_waiter_table->slot[i];
		bool          used;

		SpinLockAcquire(&slot->mutex);
		used = slot->kind != TQ_WAITER_FREE;
		tq_waiter_disarm(slot);
		slot->kind = TQ_WAITER_FREE;
		slot->woken = false;
		SpinLockRelease(&slot->mutex);
		if (used)
			SetLatch(&GetPGProcByNumber(i)->procLatch);
	}
}

/*
 * From now on a claimable task, and other relevant changes, end the sleep; so
 * the caller checks next.
 */
void
tq_waiter_begin_claim(const TqWaitFor *wait_for)
{
	my_wait_for = *wait_for;
	begin(TQ_WAITER_CLAIM, 0);
}

/* The same for the end of a task, or of a workflow instance. */
void
tq_waiter_begin_task(int64 task_id)
{
	memset(&my_wait_for, 0, sizeof(my_wait_for));
	begin(TQ_WAITER_TASK, task_id);
}

/* The check has claimed a task. */
void
tq_waiter_took(int32 queue_id, int64 lane_id)
{
	if (my_slot == NULL || taken_count == TAKEN)
		return;
	taken_queue[taken_count] = queue_id;
	taken[taken_count++] = lane_id;
}

/* The check found nothing: decide about the wakes that led to it. */
void
tq_waiter_looked(void)
{
	TqWake settled[HELD];
	int    count = held_count;

	if (my_slot == NULL)
		return;
	memcpy(settled, held, sizeof(settled));
	held_count = 0;
	for (int i = 0; i < count; i++)
	{
		TqWake *wake = &settled[i];
		bool    at_limit = my_wait_for.at_limit == wake->id ||
						my_wait_for.at_limit == -1;

		if (!waits_for(wake) || (wake->kind == TQ_WAKE_ROOM && !at_limit))
			pass_on(wake, 0);
		else if (wake->kind != TQ_WAKE_PLACE)
			continue;
		else if (my_wait_for.worker_full || my_wait_for.lane_count < 0)
			pass_on(wake, my_ticket);
		else if (at_limit)
			held[held_count++] = *wake;
	}
}

/*
 * Sleep until woken, or until a time of the monotonic clock.  Returns true if
 * woken.  If false, the caller checks the time; it checks for interrupts in
 * any case.
 */
bool
tq_waiter_sleep(int64 until_monotonic)
{
	int64 left = until_monotonic - tq_clock_monotonic();
	bool  woken = false;

	if (my_slot != NULL)
	{
		SpinLockAcquire(&my_slot->mutex);
		woken = !my_slot->armed;
		SpinLockRelease(&my_slot->mutex);
	}
	if (woken || left <= 0)
		return woken;
	if (tq_waiter_table != NULL)
		pg_atomic_fetch_add_u64(&tq_waiter_table->sleeps, 1);
	wait_latch((long) Min(left / 1000 + 1, INT_MAX));
	if (my_slot == NULL)
		return false;
	SpinLockAcquire(&my_slot->mutex);
	woken = !my_slot->armed;
	SpinLockRelease(&my_slot->mutex);
	return woken;
}

/*
 * End the wait.  If satisfied, tq_waiter_took has reported what the last check
 * claimed; otherwise no wake was used.
 */
void
tq_waiter_end(bool satisfied)
{
	TqWake left[HELD];
	int    count = 0;
	TqWake wake;
	bool   woken;

	if (my_slot == NULL)
		return;
	SpinLockAcquire(&my_slot->mutex);
	woken = take_wake(my_slot, &wake);
	tq_waiter_disarm(my_slot);
	my_slot->kind = TQ_WAITER_FREE;
	SpinLockRelease(&my_slot->mutex);
	my_slot = NULL;
	if (woken)
		hold(&wake);
	for (int i = 0; i < held_count; i++)
	{
		if (!satisfied || !is_used(&held[i]))
			left[count++] = held[i];
	}
	held_count = taken_count = 0;
	for (int i = 0; i < count; i++)
		pass_on(&left[i], 0);
	/* the next waiter may use the room for which this one waited */
	if (my_wait_for.at_limit > 0 && !satisfied)
		tq_wake_room(my_wait_for.at_limit, 1);
}

/* The final state of the awaited task; 0 if it has not been reported. */
int
tq_waiter_ended(void)
{
	int ended = 0;

	if (my_slot == NULL)
		return 0;
	SpinLockAcquire(&my_slot->mutex);
	if (my_slot->kind == TQ_WAITER_TASK)
		ended = my_slot->ended;
	SpinLockRelease(&my_slot->mutex);
	return ended;
}

/*
 * The number of waiters blocked by the queue's limit that have waited longer.
 */
int
tq_waiter_ahead(int32 queue_id)
{
	int count = 0;

	if (my_slot == NULL || pg_atomic_read_u32(&tq_waiter_table->at_limit) == 0)
		return 0;
	for (int i = 0; i < tq_waiter_table->slot_count; i++)
	{
		TqWaiterSlot *slot = &tq_waiter_table->slot[i];
		uint64        ticket = pg_atomic_read_u64(&tq_waiter_tickets[i]);

		if (ticket == 0 || ticket >= my_ticket)
			continue;
		SpinLockAcquire(&slot->mutex);
		if (slot->armed && slot->database == MyDatabaseId &&
			slot->wait_for.at_limit == queue_id)
			count++;
		SpinLockRelease(&slot->mutex);
	}
	return count;
}

/*
 * The number of sessions that wait to claim tasks of this database: of a
 * queue, or of one of its lanes; 0 is any.
 */
int
tq_waiter_count(int32 queue_id, int64 lane_id)
{
	int count = 0;

	if (tq_waiter_table == NULL)
		return 0;
	for (int i = 0; i < tq_waiter_table->slot_count; i++)
	{
		TqWaiterSlot *slot = &tq_waiter_table->slot[i];

		/* most slots are free, and a claim that begins now may be missed */
		if (slot->kind != TQ_WAITER_CLAIM)
			continue;
		SpinLockAcquire(&slot->mutex);
		if (slot->kind == TQ_WAITER_CLAIM && slot->database == MyDatabaseId &&
			(queue_id == 0 ||
			 tq_waiter_has_queue(&slot->wait_for, queue_id)) &&
			(lane_id == 0 || tq_waiter_has_lane(&slot->wait_for, lane_id)))
			count++;
		SpinLockRelease(&slot->mutex);
	}
	return count;
}

/* The approximate number of waiting sessions in all databases. */
int
tq_waiter_count_all(void)
{
	int count = 0;

	for (int i = 0; tq_waiter_table != NULL && i < tq_waiter_table->slot_count;
		 i++)
		count += tq_waiter_table->slot[i].kind != TQ_WAITER_FREE ? 1 : 0;
	return count;
}

void
tq_waiter_numbers(TqWaiterNumbers *numbers)
{
	memset(numbers, 0, sizeof(*numbers));
	if (tq_waiter_table == NULL)
		return;
	numbers->sleeps = (int64) pg_atomic_read_u64(&tq_waiter_table->sleeps);
	numbers->wakes = (int64) pg_atomic_read_u64(&tq_waiter_table->wakes);
	numbers->passed_on =
		(int64) pg_atomic_read_u64(&tq_waiter_table->passed_on);
}

static Size
tickets_size(void)
{
	return MAXALIGN(mul_size(sizeof(pg_atomic_uint64), MaxBackends));
}

/* Fill the slot; earlier wakes are kept until the check has ended. */
static void
begin(TqWaiterKind kind, int64 task_id)
{
	static bool   registered = false;
	TqWaiterSlot *slot;
	TqWake        wake;
	bool          woken;

	taken_count = 0;
	if (tq_waiter_table == NULL || TQ_MY_PROC_NUMBER < 0 ||
		TQ_MY_PROC_NUMBER >= tq_waiter_table->slot_count)
		return;
	if (!registered)
		before_shmem_exit(at_exit, (Datum) 0);
	registered = true;
	slot = &tq_waiter_table->slot[TQ_MY_PROC_NUMBER];
	if (my_slot == NULL)
	{
		my_ticket = pg_atomic_add_fetch_u64(&tq_waiter_table->last_ticket, 1);
		my_slot = slot;
		held_count = 0;
	}
	SpinLockAcquire(&slot->mutex);
	woken = take_wake(slot, &wake);
	tq_waiter_disarm(slot);
	/* keep a state that was reported between two checks */
	if (slot->kind != kind || slot->ticket != my_ticket)
		slot->ended = 0;
	slot->kind = kind;
	slot->database = MyDatabaseId;
	slot->ticket = my_ticket;
	slot->task_id = task_id;
	slot->wait_for = my_wait_for;
	arm(slot);
	SpinLockRelease(&slot->mutex);
	if (woken)
		hold(&wake);
	pg_memory_barrier();
}

/* The slot can be woken from now on.  It is locked. */
static void
arm(TqWaiterSlot *slot)
{
	slot->armed = true;
	pg_atomic_write_u64(&tq_waiter_tickets[slot - tq_waiter_table->slot],
						slot->ticket);
	pg_atomic_fetch_add_u32(&tq_waiter_table->all, 1);
	pg_atomic_fetch_add_u32(tq_waiter_bucket_of(slot), 1);
	if (slot->wait_for.at_limit != 0 || slot->wait_for.worker_full)
		pg_atomic_fetch_add_u32(&tq_waiter_table->at_limit, 1);
}

/* The wake of the slot, if it is for a task or room.  The slot is locked. */
static bool
take_wake(TqWaiterSlot *slot, TqWake *wake)
{
	bool woken = slot->woken && slot->wake.kind != TQ_WAKE_LOOK;

	slot->woken = false;
	*wake = slot->wake;
	return woken;
}

static void
hold(const TqWake *wake)
{
	if (held_count == HELD)
		pass_on(&held[--held_count], 0);
	held[held_count++] = *wake;
}

/* Would this waiter still be woken for that task, or room, limits aside? */
static bool
waits_for(const TqWake *wake)
{
	return tq_waiter_has_queue(&my_wait_for, wake->id) &&
		   (wake->kind != TQ_WAKE_PLACE ||
			tq_waiter_has_lane(&my_wait_for, wake->key));
}

/*
 * Has the check claimed what the wake was for?  A claim counts for one wake.
 */
static bool
is_used(const TqWake *wake)
{
	for (int i = 0; i < taken_count; i++)
	{
		if (taken_queue[i] != wake->id ||
			(wake->kind == TQ_WAKE_PLACE && taken[i] != wake->key))
			continue;
		taken_queue[i] = 0;
		return true;
	}
	return false;
}

static void
pass_on(TqWake *wake, uint64 after)
{
	wake->after = after;
	if (tq_wake_one(wake, 1) > 0)
		pg_atomic_fetch_add_u64(&tq_waiter_table->passed_on, 1);
}

static void
at_exit(int code, Datum arg)
{
	tq_waiter_end(false);
}

/*
 * Wait for the latch.  If the client has disconnected, the session ends when
 * interrupts are processed.
 */
static void
wait_latch(long timeout)
{
	bool closed = false;

	if (!tq_compat_wait_client(timeout, PG_WAIT_EXTENSION, &closed))
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 timeout, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	if (closed)
	{
		ClientConnectionLost = true;
		InterruptPending = true;
	}
}
