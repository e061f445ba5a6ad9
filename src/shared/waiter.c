/*
 * waiter.c
 *		Who waits in the server, and who is woken.
 *
 * Each backend has a slot, in which it says what it waits for: tasks of some
 * lanes, or the end of one task.  Whoever has made something claimable wakes
 * as many waiters as there are tasks, first the one that has waited longest,
 * and only such as can claim the task.
 *
 * No wake is missed: a waiter fills its slot, then looks, and sleeps only if
 * that was in vain; whoever wakes does so when what it did can be seen.
 * Between filling and looking, and between being seen and searching, is a
 * full barrier, so one of the two finds the other.  And no wake is trusted:
 * it is a reason to look again, and every sleep has an end.
 *
 * A wake is for one waiter, so it must not get lost with it.  A waiter holds
 * the wakes that it got until it has looked.  What becomes of them then:
 *
 * - It has found nothing: the task is gone, and so is the wake.  (But a
 *	 waiter that could not name all of its lanes may have been the wrong one:
 *	 it passes the wake on to those that have waited less long.)
 * - It has claimed a task of the same lane: that is what the wake was for.
 *	 Whoever was woken for that very task finds another one.
 * - It has claimed something else, or ends without having looked: the wake is
 *	 passed on to another waiter.
 * - There is a task, but a limit of the queue lets it not be claimed: it
 *	 keeps the wake, and says that it is hindered.  Then it is woken when
 *	 there is room (which is a wake of its own kind), and no more for tasks of
 *	 that queue: for these others are woken, until each task that is held up
 *	 has a waiter.
 * - The worker may not claim more: the wake is passed on, and the waiter is
 *	 woken when one of the worker's tasks has ended.
 *
 * How many slots can be woken is counted by queue (hashed), so a commit for
 * which nobody waits reads two numbers.  A waiter that is found by its ticket,
 * which says how long it has waited, is looked at under its spinlock.
 *
 * Locks: a spinlock in each slot, held for a look at it; never two.  What is
 * woken is a process' own latch, which exists as long as shared memory does.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/hashfn.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/wait_event.h"

#include "base/clock.h"
#include "shared/waiter.h"

#define BUCKETS 1024
#define WAKE_AT_ONCE 64 /* slots chosen in one search */
#define HELD 4
#define TAKEN 8

typedef enum SlotKind
{
	SLOT_FREE,
	SLOT_CLAIM,
	SLOT_TASK
} SlotKind;

typedef enum WakeKind
{
	WAKE_LOOK,  /* for whoever it is about; not passed on */
	WAKE_PLACE, /* a task of that lane */
	WAKE_ROOM   /* room for a task of that queue */
} WakeKind;

/* Whom a look is for. */
typedef enum Whose
{
	OF_NOBODY, /* PLACE and ROOM say whose */
	OF_QUEUE,
	OF_WORKER,
	OF_WORKER_ROOM,
	OF_MADE,
	OF_DATABASE,
	OF_TASK
} Whose;

typedef struct Wake
{
	WakeKind kind;
	Whose    whose;
	Oid      database;
	int32    id;    /* of the queue or worker; state of the task */
	int64    key;   /* the lane, or task */
	uint64   after; /* only those with later tickets */
} Wake;

typedef struct Slot
{
	slock_t   mutex; /* guards the rest */
	SlotKind  kind;
	Oid       database;
	uint64    ticket;
	bool      armed; /* it can be woken; else it was, or is free */
	bool      woken;
	Wake      wake;
	int64     task_id;
	int       ended; /* in which state, as far as was told; 0: not known */
	TqWaitFor wait_for;
} Slot;

typedef struct Waiters
{
	pg_atomic_uint64 last_ticket;
	pg_atomic_uint64 sleeps;
	pg_atomic_uint64 wakes;
	pg_atomic_uint64 passed_on;

	/* armed slots: all, those hindered, by what they wait for */
	pg_atomic_uint32 all;
	pg_atomic_uint32 hindered;
	pg_atomic_uint32 broad; /* not of one queue or task */
	pg_atomic_uint32 buckets[BUCKETS];

	int  slot_count;
	Slot slot[FLEXIBLE_ARRAY_MEMBER];
} Waiters;

static Waiters *waiters = NULL;

/* The ticket of each armed slot, or 0: beside each other, for the search. */
static pg_atomic_uint64 *tickets = NULL;

/* What this backend waits for. */
static Slot     *my_slot = NULL; /* NULL: nothing */
static uint64    my_ticket = 0;
static TqWaitFor my_wait_for;
static int       held_count = 0;
static Wake      held[HELD]; /* wakes that it got before its last look */
static int       taken_count = 0;
static int64     taken[TAKEN]; /* lanes of tasks that this look has claimed */
static int32     taken_queue[TAKEN];

static Size              tickets_size(void);
static void              begin(SlotKind kind, int64 task_id);
static void              arm(Slot *slot);
static void              disarm(Slot *slot);
static pg_atomic_uint32 *bucket_of(Oid database, int32 queue_id, int64 key);
static pg_atomic_uint32 *bucket_of_slot(const Slot *slot);
static bool              take_wake(Slot *slot, Wake *wake);
static void              hold(const Wake *wake);
static bool              is_used(const Wake *wake);
static void              pass_on(Wake *wake, uint64 after);
static void              at_exit(int code, Datum arg);
static void              wait_latch(long timeout);
static int               wake_slots(Wake *wake, int count);
static void              wake_all(Wake *wake);
static bool              is_anybody(const Wake *wake);
static int               choose(const Wake *wake, int max, int *chosen);
static bool              wake_slot(int number, const Wake *wake);
static bool              is_wanted(const Slot *slot, const Wake *wake);
static bool              has_queue(const TqWaitFor *wait_for, int32 queue_id);
static bool              has_lane(const TqWaitFor *wait_for, int64 lane_id);
static void              look_again(Whose whose, int32 id, int64 key);

Size
tq_waiter_size(void)
{
	return add_size(MAXALIGN(add_size(offsetof(Waiters, slot),
									  mul_size(sizeof(Slot), MaxBackends))),
					tickets_size());
}

/* The caller holds AddinShmemInitLock. */
void
tq_waiter_init(void)
{
	bool found;

	waiters = ShmemInitStruct("taskq waiters", tq_waiter_size(), &found);
	tickets = (pg_atomic_uint64 *) ((char *) waiters +
									(tq_waiter_size() - tickets_size()));
	if (found)
		return;
	memset(waiters, 0, tq_waiter_size());
	pg_atomic_init_u64(&waiters->last_ticket, 0);
	pg_atomic_init_u64(&waiters->sleeps, 0);
	pg_atomic_init_u64(&waiters->wakes, 0);
	pg_atomic_init_u64(&waiters->passed_on, 0);
	pg_atomic_init_u32(&waiters->all, 0);
	pg_atomic_init_u32(&waiters->hindered, 0);
	pg_atomic_init_u32(&waiters->broad, 0);
	for (int i = 0; i < BUCKETS; i++)
		pg_atomic_init_u32(&waiters->buckets[i], 0);
	waiters->slot_count = MaxBackends;
	for (int i = 0; i < MaxBackends; i++)
	{
		SpinLockInit(&waiters->slot[i].mutex);
		pg_atomic_init_u64(&tickets[i], 0);
	}
}

/* All slots are empty; whoever sleeps looks, and fills its slot again. */
void
tq_waiter_wipe(void)
{
	if (waiters == NULL)
		return;
	for (int i = 0; i < waiters->slot_count; i++)
	{
		Slot *slot = &waiters->slot[i];
		bool  used;

		SpinLockAcquire(&slot->mutex);
		used = slot->kind != SLOT_FREE;
		disarm(slot);
		slot->kind = SLOT_FREE;
		slot->woken = false;
		SpinLockRelease(&slot->mutex);
		if (used)
			SetLatch(&GetPGProcByNumber(i)->procLatch);
	}
}

/* The extension is gone: whoever waits finds that out.  Cannot fail. */
void
tq_waiter_forget_database(Oid database)
{
	Wake wake = {WAKE_LOOK};

	wake.whose = OF_DATABASE;
	wake.database = database;
	wake_all(&wake);
}

/*
 * From now on a task that can be claimed, and what else may help, ends the
 * sleep; so the caller looks next.
 */
void
tq_waiter_begin_claim(const TqWaitFor *wait_for)
{
	my_wait_for = *wait_for;
	begin(SLOT_CLAIM, 0);
}

/* The same for the end of a task. */
void
tq_waiter_begin_task(int64 task_id)
{
	memset(&my_wait_for, 0, sizeof(my_wait_for));
	begin(SLOT_TASK, task_id);
}

/* The look has claimed a task. */
void
tq_waiter_took(int32 queue_id, int64 lane_id)
{
	if (my_slot == NULL || taken_count == TAKEN)
		return;
	taken_queue[taken_count] = queue_id;
	taken[taken_count++] = lane_id;
}

/* The look was in vain: what becomes of the wakes that led to it? */
void
tq_waiter_looked(void)
{
	Wake settled[HELD];
	int  count = held_count;

	if (my_slot == NULL)
		return;
	memcpy(settled, held, sizeof(settled));
	held_count = 0;
	for (int i = 0; i < count; i++)
	{
		Wake *wake = &settled[i];
		bool  hindered = my_wait_for.hindered == wake->id ||
						my_wait_for.hindered == -1;

		if (wake->kind == WAKE_ROOM && !hindered)
			pass_on(wake, 0);
		else if (wake->kind != WAKE_PLACE)
			continue;
		else if (my_wait_for.worker_full || my_wait_for.lane_count < 0)
			pass_on(wake, my_ticket);
		else if (hindered)
			held[held_count++] = *wake;
	}
}

/*
 * Sleep until woken, or until that time of the monotonic clock.  True: woken.
 * False: the caller looks at the time and, as in any case, for interrupts.
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
	if (waiters != NULL)
		pg_atomic_fetch_add_u64(&waiters->sleeps, 1);
	wait_latch((long) Min(left / 1000 + 1, INT_MAX));
	if (my_slot == NULL)
		return false;
	SpinLockAcquire(&my_slot->mutex);
	woken = !my_slot->armed;
	SpinLockRelease(&my_slot->mutex);
	return woken;
}

/*
 * Nothing is waited for any more.  satisfied: tq_waiter_took has told what
 * the last look claimed; else no wake was of any use.
 */
void
tq_waiter_end(bool satisfied)
{
	Wake left[HELD];
	int  count = 0;
	Wake wake;
	bool woken;

	if (my_slot == NULL)
		return;
	SpinLockAcquire(&my_slot->mutex);
	woken = take_wake(my_slot, &wake);
	disarm(my_slot);
	my_slot->kind = SLOT_FREE;
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
	/* what this waiter counted on may be for the next one */
	if (my_wait_for.hindered > 0 && !satisfied)
		tq_waiter_wake_room(my_wait_for.hindered, 1);
}

/* In which state did the awaited task end?  0: nobody has told. */
int
tq_waiter_ended(void)
{
	int ended = 0;

	if (my_slot == NULL)
		return 0;
	SpinLockAcquire(&my_slot->mutex);
	if (my_slot->kind == SLOT_TASK)
		ended = my_slot->ended;
	SpinLockRelease(&my_slot->mutex);
	return ended;
}

/* How many of those that the queue's limit hinders have waited longer. */
int
tq_waiter_ahead(int32 queue_id)
{
	int count = 0;

	if (my_slot == NULL || pg_atomic_read_u32(&waiters->hindered) == 0)
		return 0;
	for (int i = 0; i < waiters->slot_count; i++)
	{
		Slot  *slot = &waiters->slot[i];
		uint64 ticket = pg_atomic_read_u64(&tickets[i]);

		if (ticket == 0 || ticket >= my_ticket)
			continue;
		SpinLockAcquire(&slot->mutex);
		if (slot->armed && slot->database == MyDatabaseId &&
			slot->wait_for.hindered == queue_id)
			count++;
		SpinLockRelease(&slot->mutex);
	}
	return count;
}

/*
 * Tasks stand there.  Those that are not due yet are for the background
 * worker to tell when they are.
 */
void
tq_waiter_wake_places(const TqPlace *places, int count)
{
	TimestampTz now = 0;
	Wake        wake = {WAKE_PLACE};
	int         next;

	if (waiters == NULL)
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
			(void) wake_slots(&wake, due);
	}
}

/* A limit of the queue has room for so many claims. */
void
tq_waiter_wake_room(int32 queue_id, int count)
{
	Wake wake = {WAKE_ROOM};

	wake.database = MyDatabaseId;
	wake.id = queue_id;
	(void) wake_slots(&wake, count);
}

/* The queue has changed: paused or not, options, dropped. */
void
tq_waiter_wake_queue(int32 queue_id)
{
	look_again(OF_QUEUE, queue_id, 0);
}

/* The worker drains, or is no more; or only: one of its tasks has ended. */
void
tq_waiter_wake_worker(int32 worker_id, bool of_room)
{
	look_again(of_room ? OF_WORKER_ROOM : OF_WORKER, worker_id, 0);
}

/* Queues or lanes were made. */
void
tq_waiter_wake_made(void)
{
	look_again(OF_MADE, 0, 0);
}

/* Nobody knows what has changed. */
void
tq_waiter_wake_database(void)
{
	look_again(OF_DATABASE, 0, 0);
}

/* The task has finished; it may leave no other trace than this state. */
void
tq_waiter_task_ended(int64 task_id, int state)
{
	look_again(OF_TASK, state, task_id);
}

/* Who waits to claim from a queue of this database; 0: from any. */
int
tq_waiter_count(int32 queue_id)
{
	int count = 0;

	if (waiters == NULL)
		return 0;
	for (int i = 0; i < waiters->slot_count; i++)
	{
		Slot *slot = &waiters->slot[i];

		SpinLockAcquire(&slot->mutex);
		if (slot->kind == SLOT_CLAIM && slot->database == MyDatabaseId &&
			(queue_id == 0 || has_queue(&slot->wait_for, queue_id)))
			count++;
		SpinLockRelease(&slot->mutex);
	}
	return count;
}

void
tq_waiter_numbers(TqWaiterNumbers *numbers)
{
	memset(numbers, 0, sizeof(*numbers));
	if (waiters == NULL)
		return;
	numbers->sleeps = (int64) pg_atomic_read_u64(&waiters->sleeps);
	numbers->wakes = (int64) pg_atomic_read_u64(&waiters->wakes);
	numbers->passed_on = (int64) pg_atomic_read_u64(&waiters->passed_on);
}

static Size
tickets_size(void)
{
	return MAXALIGN(mul_size(sizeof(pg_atomic_uint64), MaxBackends));
}

/* Fill the slot; what woke it before is held until the look is over. */
static void
begin(SlotKind kind, int64 task_id)
{
	static bool registered = false;
	Slot       *slot;
	Wake        wake;
	bool        woken;

	taken_count = 0;
	if (waiters == NULL || TQ_MY_PROC_NUMBER < 0 ||
		TQ_MY_PROC_NUMBER >= waiters->slot_count)
		return;
	if (!registered)
		before_shmem_exit(at_exit, (Datum) 0);
	registered = true;
	slot = &waiters->slot[TQ_MY_PROC_NUMBER];
	if (my_slot == NULL)
	{
		my_ticket = pg_atomic_add_fetch_u64(&waiters->last_ticket, 1);
		my_slot = slot;
		held_count = 0;
	}
	SpinLockAcquire(&slot->mutex);
	woken = take_wake(slot, &wake);
	disarm(slot);
	/* what was told between two looks is kept */
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

/* It can be woken.  The slot is locked, so with the next. */
static void
arm(Slot *slot)
{
	slot->armed = true;
	pg_atomic_write_u64(&tickets[slot - waiters->slot], slot->ticket);
	pg_atomic_fetch_add_u32(&waiters->all, 1);
	pg_atomic_fetch_add_u32(bucket_of_slot(slot), 1);
	if (slot->wait_for.hindered != 0 || slot->wait_for.worker_full)
		pg_atomic_fetch_add_u32(&waiters->hindered, 1);
}

static void
disarm(Slot *slot)
{
	if (!slot->armed)
		return;
	slot->armed = false;
	pg_atomic_write_u64(&tickets[slot - waiters->slot], 0);
	pg_atomic_fetch_sub_u32(&waiters->all, 1);
	pg_atomic_fetch_sub_u32(bucket_of_slot(slot), 1);
	if (slot->wait_for.hindered != 0 || slot->wait_for.worker_full)
		pg_atomic_fetch_sub_u32(&waiters->hindered, 1);
}

/* Where those are counted who wait for one queue, or task. */
static pg_atomic_uint32 *
bucket_of(Oid database, int32 queue_id, int64 key)
{
	uint32 hash =
		hash_combine(murmurhash32(database), murmurhash32((uint32) queue_id));

	hash = hash_combine(hash, (uint32) key);
	return &waiters->buckets[murmurhash32(hash) % BUCKETS];
}

static pg_atomic_uint32 *
bucket_of_slot(const Slot *slot)
{
	if (slot->kind == SLOT_TASK)
		return bucket_of(slot->database, 0, slot->task_id);
	if (slot->wait_for.queue_count == 1)
		return bucket_of(slot->database, slot->wait_for.queues[0], 0);
	return &waiters->broad;
}

/* What the slot was woken for, if it is more than to look.  It is locked. */
static bool
take_wake(Slot *slot, Wake *wake)
{
	bool woken = slot->woken && slot->wake.kind != WAKE_LOOK;

	slot->woken = false;
	*wake = slot->wake;
	return woken;
}

static void
hold(const Wake *wake)
{
	if (held_count == HELD)
		pass_on(&held[--held_count], 0);
	held[held_count++] = *wake;
}

/* Has the look claimed what the wake was for?  It counts for one wake. */
static bool
is_used(const Wake *wake)
{
	for (int i = 0; i < taken_count; i++)
	{
		if (taken_queue[i] != wake->id ||
			(wake->kind == WAKE_PLACE && taken[i] != wake->key))
			continue;
		taken_queue[i] = 0;
		return true;
	}
	return false;
}

static void
pass_on(Wake *wake, uint64 after)
{
	wake->after = after;
	if (wake_slots(wake, 1) > 0)
		pg_atomic_fetch_add_u64(&waiters->passed_on, 1);
}

static void
at_exit(int code, Datum arg)
{
	tq_waiter_end(false);
}

/*
 * Wait for the latch.  A client that has gone ends the session, as soon as
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

/* Wake up to count of those that are wanted; returns how many. */
static int
wake_slots(Wake *wake, int count)
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

/* Wake all that are wanted. */
static void
wake_all(Wake *wake)
{
	if (!is_anybody(wake))
		return;
	for (int i = 0; i < waiters->slot_count; i++)
	{
		if (pg_atomic_read_u64(&tickets[i]) != 0)
			(void) wake_slot(i, wake);
	}
}

/*
 * May there be somebody to be woken?  What is told must be seen by whoever
 * looks from now on, hence the barrier.
 */
static bool
is_anybody(const Wake *wake)
{
	if (waiters == NULL)
		return false;
	pg_memory_barrier();
	if (wake->kind == WAKE_ROOM || wake->whose == OF_WORKER_ROOM)
		return pg_atomic_read_u32(&waiters->hindered) != 0;
	if (wake->whose == OF_TASK)
		return pg_atomic_read_u32(bucket_of(wake->database, 0, wake->key)) !=
			   0;
	if (wake->kind == WAKE_PLACE || wake->whose == OF_QUEUE)
		return pg_atomic_read_u32(bucket_of(wake->database, wake->id, 0)) !=
				   0 ||
			   pg_atomic_read_u32(&waiters->broad) != 0;
	return pg_atomic_read_u32(&waiters->all) != 0;
}

/* Up to max slots that are wanted, those with the lowest tickets, in order. */
static int
choose(const Wake *wake, int max, int *chosen)
{
	uint64 lowest[WAKE_AT_ONCE];
	int    count = 0;

	for (int i = 0; i < waiters->slot_count; i++)
	{
		Slot  *slot = &waiters->slot[i];
		uint64 ticket = pg_atomic_read_u64(&tickets[i]);
		bool   wanted;
		int    place;

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

/* False: it is not wanted any more. */
static bool
wake_slot(int number, const Wake *wake)
{
	Slot *slot = &waiters->slot[number];
	bool  wanted;

	SpinLockAcquire(&slot->mutex);
	wanted = is_wanted(slot, wake);
	if (wanted)
	{
		disarm(slot);
		slot->woken = true;
		slot->wake = *wake;
		if (wake->whose == OF_TASK)
			slot->ended = wake->id;
	}
	SpinLockRelease(&slot->mutex);
	if (!wanted)
		return false;
	pg_atomic_fetch_add_u64(&waiters->wakes, 1);
	SetLatch(&GetPGProcByNumber(number)->procLatch);
	return true;
}

/* The slot is locked. */
static bool
is_wanted(const Slot *slot, const Wake *wake)
{
	const TqWaitFor *wait_for = &slot->wait_for;

	if (!slot->armed || slot->database != wake->database ||
		slot->ticket <= wake->after)
		return false;
	if (slot->kind == SLOT_TASK)
		return wake->whose == OF_DATABASE ||
			   (wake->whose == OF_TASK && slot->task_id == wake->key);
	if (wake->kind == WAKE_PLACE)
		return !wait_for->worker_full && wait_for->hindered != wake->id &&
			   has_queue(wait_for, wake->id) && has_lane(wait_for, wake->key);
	if (wake->kind == WAKE_ROOM)
		return wait_for->hindered == wake->id ||
			   (wait_for->hindered == -1 && has_queue(wait_for, wake->id));
	switch (wake->whose)
	{
		case OF_QUEUE:
			return has_queue(wait_for, wake->id);
		case OF_WORKER:
			return wait_for->worker_id == wake->id;
		case OF_WORKER_ROOM:
			return wait_for->worker_full && wait_for->worker_id == wake->id;
		case OF_MADE:
			return wait_for->open;
		case OF_DATABASE:
			return true;
		case OF_NOBODY:
		case OF_TASK:
			break;
	}
	return false;
}

static bool
has_queue(const TqWaitFor *wait_for, int32 queue_id)
{
	for (int i = 0; i < wait_for->queue_count; i++)
	{
		if (wait_for->queues[i] == queue_id)
			return true;
	}
	return wait_for->queue_count < 0;
}

static bool
has_lane(const TqWaitFor *wait_for, int64 lane_id)
{
	for (int i = 0; i < wait_for->lane_count; i++)
	{
		if (wait_for->lanes[i] == lane_id)
			return true;
	}
	return wait_for->lane_count < 0;
}

static void
look_again(Whose whose, int32 id, int64 key)
{
	Wake wake = {WAKE_LOOK};

	wake.whose = whose;
	wake.database = MyDatabaseId;
	wake.id = id;
	wake.key = key;
	wake_all(&wake);
}
