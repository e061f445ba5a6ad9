/*
 * executor_slot.c
 *		The processes that run SQL tasks.
 *
 * One slot for each process, at most taskq.max_executors in all databases.
 * The background worker of a database reserves a slot and registers the
 * process, which finds its slot by number and generation, so that a process
 * that starts too late finds no slot.  It then assigns queues to processes
 * that are idle.  An executor changes its own slot, and frees it when it
 * exits.
 *
 * Signals are sent under the lock, to a process that is known to be there, and
 * a cancel only to the process that still runs the task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <signal.h>

#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "base/clock.h"
#include "base/guc.h"
#include "shared/executor_slot.h"
#include "shared/worker_directory.h"

#define NUMBER_BITS 16

typedef struct Slots
{
	LWLock     lock;
	int        tranche;
	int        count;
	bool       lacks; /* no background worker slot was free for the last one */
	TqExecutor slot[FLEXIBLE_ARRAY_MEMBER];
} Slots;

static Slots *slots = NULL;

/* In an executor: its own slot. */
static TqExecutor *mine = NULL;

static void enter(TqExecutor *slot, TqExecutorState state);
static void detach(int code, Datum arg);
static void make_free(TqExecutor *slot);

Size
tq_executor_slot_size(void)
{
	return MAXALIGN(
		add_size(offsetof(Slots, slot),
				 mul_size(sizeof(TqExecutor), tq_guc_max_executors)));
}

/* The caller holds AddinShmemInitLock. */
void
tq_executor_slot_init(void)
{
	bool found;

	slots =
		ShmemInitStruct("taskq executors", tq_executor_slot_size(), &found);
	if (!found)
	{
		memset(slots, 0, tq_executor_slot_size());
		slots->count = tq_guc_max_executors;
		slots->tranche = LWLockNewTrancheId();
		LWLockInitialize(&slots->lock, slots->tranche);
	}
	LWLockRegisterTranche(slots->tranche, "taskq_executor");
}

/* Note whether a background worker slot was free for the last executor. */
void
tq_executor_slot_lack(bool lacks)
{
	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	slots->lacks = lacks;
	LWLockRelease(&slots->lock);
}

bool
tq_executor_slot_lacks(void)
{
	return slots != NULL && slots->lacks;
}

/* A copy of all slots, in the current memory context. */
TqExecutor *
tq_executor_slot_list(int *count)
{
	TqExecutor *copy;

	*count = slots == NULL ? 0 : slots->count;
	copy = palloc(sizeof(TqExecutor) * (*count + 1));
	if (slots == NULL)
		return copy;
	LWLockAcquire(&slots->lock, LW_SHARED);
	memcpy(copy, slots->slot, sizeof(TqExecutor) * *count);
	LWLockRelease(&slots->lock);
	return copy;
}

/*
 * Reserve a slot for a process of this database.  Returns the argument of the
 * process, or 0 if no slot is free.
 */
Datum
tq_executor_slot_reserve(int32 role_id, Oid role, int32 queue_id, int *number)
{
	Datum arg = (Datum) 0;

	if (slots == NULL)
		return arg;
	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	for (int i = 0; i < slots->count && arg == (Datum) 0; i++)
	{
		TqExecutor *slot = &slots->slot[i];

		if (slot->state != TQ_EXECUTOR_NONE)
			continue;
		slot->generation = (slot->generation + 1) & 0x7FFFFFFF;
		slot->database = MyDatabaseId;
		slot->role_id = role_id;
		slot->role = role;
		slot->queue_id = queue_id;
		slot->failed_role = 0;
		enter(slot, TQ_EXECUTOR_STARTING);
		*number = i;
		arg = Int64GetDatum((int64) slot->generation << NUMBER_BITS | (i + 1));
	}
	LWLockRelease(&slots->lock);
	return arg;
}

/* The process was not started, or has not come. */
void
tq_executor_slot_give_up(int number)
{
	TqExecutor *slot = &slots->slot[number];

	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	if (slot->state == TQ_EXECUTOR_STARTING && slot->pid == 0)
		make_free(slot);
	LWLockRelease(&slots->lock);
}

/* Let an idle executor look for a task in the queue. */
bool
tq_executor_slot_assign(int number, int32 queue_id)
{
	TqExecutor *slot = &slots->slot[number];
	bool        assigned;

	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	assigned = slot->state == TQ_EXECUTOR_IDLE &&
			   slot->database == MyDatabaseId;
	if (assigned)
	{
		slot->queue_id = queue_id;
		enter(slot, TQ_EXECUTOR_LOOKING);
		SetLatch(slot->latch);
	}
	LWLockRelease(&slots->lock);
	return assigned;
}

/* Make an idle executor of any database exit, to make room for another one. */
bool
tq_executor_slot_end_idle(int number)
{
	TqExecutor *slot = &slots->slot[number];
	bool        ends;

	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	ends = slot->state == TQ_EXECUTOR_IDLE;
	if (ends)
	{
		enter(slot, TQ_EXECUTOR_ENDING);
		SetLatch(slot->latch);
	}
	LWLockRelease(&slots->lock);
	return ends;
}

/* Cancel the statement of that task, unless it has ended. */
void
tq_executor_slot_cancel(int number, int64 task_id, int64 token)
{
	TqExecutor *slot = &slots->slot[number];

	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	if (slot->state == TQ_EXECUTOR_RUNNING && slot->task_id == task_id &&
		slot->token == token)
		kill(slot->pid, SIGINT);
	LWLockRelease(&slots->lock);
}

/*
 * Begin an executor.  Returns false if the slot has been given up; otherwise
 * it is freed when the process exits.
 */
bool
tq_executor_slot_attach(Datum arg, TqExecutor *slot, int *number)
{
	int64  value = DatumGetInt64(arg);
	uint32 generation = (uint32) (value >> NUMBER_BITS);
	bool   attached;

	*number = (int) (value & ((1 << NUMBER_BITS) - 1)) - 1;
	if (slots == NULL || *number < 0 || *number >= slots->count)
		return false;
	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	mine = &slots->slot[*number];
	attached = mine->state == TQ_EXECUTOR_STARTING && mine->pid == 0 &&
			   mine->generation == generation;
	if (attached)
	{
		mine->pid = MyProcPid;
		mine->latch = MyLatch;
		*slot = *mine;
	}
	LWLockRelease(&slots->lock);
	if (attached)
		before_shmem_exit(detach, (Datum) 0);
	return attached;
}

/* The executor is connected, and its worker is registered. */
void
tq_executor_slot_registered(int32 worker_id)
{
	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	mine->worker_id = worker_id;
	if (mine->state == TQ_EXECUTOR_STARTING)
		enter(mine, TQ_EXECUTOR_LOOKING);
	LWLockRelease(&slots->lock);
}

/* The queue in which to look for a task; 0: none, -1: exit. */
int32
tq_executor_slot_queue(void)
{
	int32 queue_id = 0;

	LWLockAcquire(&slots->lock, LW_SHARED);
	if (mine->state == TQ_EXECUTOR_LOOKING)
		queue_id = mine->queue_id;
	else if (mine->state == TQ_EXECUTOR_ENDING)
		queue_id = -1;
	LWLockRelease(&slots->lock);
	return queue_id;
}

/* The executor runs this task now, of the queue in which it has looked. */
void
tq_executor_slot_running(int64 task_id, int64 token)
{
	bool first;

	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	first = mine->state == TQ_EXECUTOR_LOOKING;
	mine->task_id = task_id;
	mine->token = token;
	enter(mine, TQ_EXECUTOR_RUNNING);
	LWLockRelease(&slots->lock);
	/* the next task may need another executor */
	if (first)
		tq_worker_directory_wake();
}

void
tq_executor_slot_idle(void)
{
	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	if (mine->state != TQ_EXECUTOR_ENDING)
		enter(mine, TQ_EXECUTOR_IDLE);
	mine->queue_id = 0;
	LWLockRelease(&slots->lock);
	tq_worker_directory_wake();
}

/* The executor wants to exit; returns false if it has a queue again. */
bool
tq_executor_slot_end(void)
{
	bool ends;

	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	ends = mine->state != TQ_EXECUTOR_LOOKING;
	if (ends)
		enter(mine, TQ_EXECUTOR_ENDING);
	LWLockRelease(&slots->lock);
	return ends;
}

/* Terminate the executors of a database. */
void
tq_executor_slot_stop_database(Oid database)
{
	if (slots == NULL)
		return;
	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	for (int i = 0; i < slots->count; i++)
	{
		TqExecutor *slot = &slots->slot[i];

		if (slot->state == TQ_EXECUTOR_NONE || slot->database != database)
			continue;
		if (slot->pid != 0)
			kill(slot->pid, SIGTERM);
		else
			make_free(slot);
	}
	LWLockRelease(&slots->lock);
}

static void
enter(TqExecutor *slot, TqExecutorState state)
{
	slot->state = state;
	slot->since = tq_clock_monotonic();
}

/* The process exits. */
static void
detach(int code, Datum arg)
{
	LWLockAcquire(&slots->lock, LW_EXCLUSIVE);
	if (mine->state == TQ_EXECUTOR_STARTING)
	{
		mine->failed_role = mine->role_id;
		mine->failed_database = mine->database;
		mine->failed_at = tq_clock_monotonic();
	}
	make_free(mine);
	LWLockRelease(&slots->lock);
	if (OidIsValid(MyDatabaseId))
		tq_worker_directory_wake();
}

static void
make_free(TqExecutor *slot)
{
	slot->pid = 0;
	slot->latch = NULL;
	slot->queue_id = 0;
	slot->worker_id = 0;
	enter(slot, TQ_EXECUTOR_NONE);
}
