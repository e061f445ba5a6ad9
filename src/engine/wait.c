/*
 * wait.c
 *		Waiting for tasks: check, sleep, check again.
 *
 * A check claims tasks, or only reports whether there is one.  If it found no
 * task, it has recorded what its caller waits for (tq_wait_queue): the
 * matching lanes, the limits that block, the end of a pause.  The session
 * writes this into its waiter slot (shared/waiter.c).  Since a task may have
 * arrived before that, it then repeats the check.  The session sleeps only
 * after a check that records the same as the slot has: then any later event,
 * including new lanes and queues, ends the sleep.
 *
 * A sleep also ends at a time that the check has named, and after five minutes
 * in any case, so that losing the memory of waiters cannot block a session
 * forever.  In between the process only wakes to send a heartbeat for a
 * registered worker.  Without shared memory it checks once a second.
 *
 * Before a check that may claim, the client's connection is tested, so that a
 * task is not given to a client that has gone.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "utils/memutils.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/guc.h"
#include "cache/lane.h"
#include "engine/wait.h"
#include "shared/counter.h"
#include "shared/heartbeat.h"
#include "shared/rate_bucket.h"
#include "shared/shmem.h"

#define CEILING (300 * USECS_PER_SEC)
#define UNLOADED_PAUSE USECS_PER_SEC

/* Up to this many tags, wait for the lanes of all subsets, existing or not. */
#define MAX_TAGS_IN_SETS 6

static TqWaitResult run(TqWait *wait);
static void         look_first(TqWait *wait);
static bool         is_same(const TqWaitFor *some, const TqWaitFor *other);
static void         enter(const TqWait *wait);
static void         sleep_until(const TqWait *wait, int64 look_at);
static void         notice_unloaded(void);
static void         add_queue(TqWaitFor *wait_for, int32 queue_id);
static void         add_lanes(TqWaitFor *wait_for, const TqQueue *queue,
							  const TqTags *tags);
static bool add_sets(TqWaitFor *wait_for, int32 queue_id, const TqTags *tags);
static bool add_lane(TqWaitFor *wait_for, int64 lane_id);
static void look_by(TqWait *wait, int64 pause);

/* Return how long to wait, in microseconds. */
int64
tq_wait_span(FunctionCallInfo fcinfo, int n, const char *what, int64 if_null)
{
	int64 span = tq_arg_length(fcinfo, n, what, 0, if_null);

	if (span > (int64) tq_guc_max_wait * USECS_PER_SEC)
		tq_error_invalid(
			what,
			psprintf("must not be longer than taskq.max_wait, now %d s",
					 tq_guc_max_wait),
			NULL);
	return span;
}

/* A wait inside a transaction must not make other sessions wait. */
void
tq_wait_require_unwritten(const char *function)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot wait in a transaction that has written",
						function),
				 errhint("Commit first, or claim without wait.")));
	if (IsolationUsesXactSnapshot())
		ereport(
			ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("%s can wait only at isolation level READ COMMITTED",
					function),
			 errhint(
				 "At higher levels the transaction's snapshot does not see tasks committed later. Begin the transaction at READ COMMITTED (see \"default_transaction_isolation\"), claim without wait, or CALL taskq_wait() before the transaction.")));
}

/*
 * For a procedure that ends its transaction, in order to wait outside of one.
 */
void
tq_wait_require_top_level(FunctionCallInfo fcinfo, const char *function)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic || IsSubTransaction())
		ereport(
			ERROR,
			(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
			 errmsg("%s cannot run inside a transaction block", function),
			 errhint(
				 "Call it outside a transaction block, with autocommit on: it commits the current transaction. A procedure that calls it must be called outside a transaction block, too, and must not be SECURITY DEFINER or have SET clauses.")));
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run in a transaction that has written",
						function),
				 errhint("Commit first: it ends the current transaction.")));
}

void
tq_wait_begin(TqWait *wait, int64 span)
{
	/* in case an error has left it behind */
	tq_waiter_end(false);
	wait->until = tq_clock_monotonic() + span;
	wait->worker_id = 0;
	wait->task_id = 0;
}

/*
 * Check until a task is found, time runs out, or there is nothing left to wait
 * for.  Memory that a check allocates is kept until the next check.
 */
TqWaitResult
tq_wait_run(TqWait *wait)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext turn =
		AllocSetContextCreate(caller, "taskq wait", ALLOCSET_DEFAULT_SIZES);
	TqWaitResult answer;

	MemoryContextSwitchTo(turn);
	PG_TRY();
	{
		answer = run(wait);
	}
	PG_CATCH();
	{
		tq_waiter_end(false);
		PG_RE_THROW();
	}
	PG_END_TRY();
	tq_waiter_end(answer == TQ_WAIT_FOUND);
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(turn);
	return answer;
}

/*
 * A registered worker waits, and must remain the same one: a later
 * registration of the name is another process.  Without shared memory its
 * heartbeat is a row that others see after the transaction, so it only waits
 * briefly.
 */
void
tq_wait_worker(TqWait *wait, const char *name, const TqWorker *worker)
{
	if (wait->worker_id == 0 && worker->registered)
	{
		wait->worker_id = worker->worker_id;
		if (!tq_shmem_ready())
			wait->until =
				Min(wait->until, tq_clock_monotonic() +
									 tq_guc_usecs(tq_guc_dead_threshold) / 2);
	}
	else if (wait->worker_id != 0 && !worker->registered)
		tq_error_no_such_worker(name, false);
	else if (wait->worker_id != 0 && worker->worker_id != wait->worker_id)
		tq_error_worker_again(name);
	wait->wait_for.worker_id = wait->worker_id;
	wait->over = worker->draining;
}

/* A check of a queue found no task. */
void
tq_wait_queue(TqWait *wait, const TqQueue *queue, const TqTags *tags,
			  const TqNoTask *no_task)
{
	TqWaitFor    *wait_for = &wait->wait_for;
	TimestampTz   resumed;
	const TqRate *rate = &queue->options.rate;

	add_queue(wait_for, queue->queue_id);
	add_lanes(wait_for, queue, tags);
	if (tq_queue_paused_until(queue, &resumed))
	{
		if (!TIMESTAMP_NOT_FINITE(resumed))
			look_by(wait, resumed - tq_clock_dispatch());
		return;
	}
	if (!no_task->full)
		return;
	if (no_task->worker_full)
	{
		wait_for->worker_full = true;
		return;
	}
	wait_for->at_limit = wait_for->at_limit == 0 ? queue->queue_id : -1;
	if (rate->count > 0)
	{
		int64 next = tq_rate_bucket_next(queue->queue_id, rate);

		if (next > 0)
			look_by(wait, next + (int64) (tq_waiter_ahead(queue->queue_id) *
										  rate->per / rate->count));
	}
}

/* Also wait for queues that are created later. */
void
tq_wait_open(TqWait *wait)
{
	wait->wait_for.open = true;
}

static TqWaitResult
run(TqWait *wait)
{
	TqWaitFor entered;
	bool      is_entered = false;

	if (!tq_shmem_ready())
		notice_unloaded();
	for (;;)
	{
		TqWaitResult answer;
		int64        now;

		look_first(wait);
		answer = wait->look(wait);
		if (answer != TQ_WAIT_NO_TASK)
			return answer;
		TQ_DEBUG_POINT("wait_looked");
		now = tq_clock_monotonic();
		if (now < wait->until && tq_shmem_ready() &&
			(!is_entered || !is_same(&entered, &wait->wait_for)))
		{
			/* an event before this would be missed: check again */
			enter(wait);
			entered = wait->wait_for;
			is_entered = true;
			continue;
		}
		/* a session that gives up passes its wake-up on to another session */
		if (now >= wait->until)
			return TQ_WAIT_NO_TASK;
		tq_waiter_looked();
		sleep_until(wait,
					Min(Min(wait->until, wait->look_at),
						now + (tq_shmem_ready() ? CEILING : UNLOADED_PAUSE)));
		if (is_entered)
			enter(wait);
	}
}

/* Begin a check. */
static void
look_first(TqWait *wait)
{
	CHECK_FOR_INTERRUPTS();
	MemoryContextReset(CurrentMemoryContext);
	memset(&wait->wait_for, 0, sizeof(wait->wait_for));
	wait->look_at = PG_INT64_MAX;
	wait->over = false;
}

static bool
is_same(const TqWaitFor *some, const TqWaitFor *other)
{
	return memcmp(some, other, sizeof(*some)) == 0;
}

static void
enter(const TqWait *wait)
{
	if (wait->task_id != 0)
		tq_waiter_begin_task(wait->task_id);
	else
		tq_waiter_begin_claim(&wait->wait_for);
}

/* Sleep until woken, or until this time of the monotonic clock. */
static void
sleep_until(const TqWait *wait, int64 look_at)
{
	int64 beat = tq_guc_heartbeat_interval();

	for (;;)
	{
		int64 now = tq_clock_monotonic();
		int64 next = look_at;

		if (now >= look_at)
			break;
		if (wait->worker_id != 0 && tq_shmem_ready())
			next = Min(next, now + beat);
		if (tq_waiter_sleep(next))
			break;
		CHECK_FOR_INTERRUPTS();
		/* without an entry it is dead, or memory was lost */
		if (wait->worker_id != 0 && tq_shmem_ready() &&
			!tq_heartbeat_beat(wait->worker_id))
			break;
	}
	TQ_DEBUG_POINT("wait_woken");
	CHECK_FOR_INTERRUPTS();
	if (!tq_compat_has_client())
	{
		ClientConnectionLost = true;
		InterruptPending = true;
		CHECK_FOR_INTERRUPTS();
	}
}

static void
notice_unloaded(void)
{
	static bool told = false;

	if (told)
		return;
	told = true;
	ereport(
		NOTICE,
		(errmsg(
			 "taskq is not loaded via \"shared_preload_libraries\", so waiting sessions poll once a second"),
		 errhint(
			 "Add taskq to \"shared_preload_libraries\" and restart the server.")));
}

static void
add_queue(TqWaitFor *wait_for, int32 queue_id)
{
	if (wait_for->queue_count == TQ_WAITER_QUEUES)
	{
		memset(wait_for->queues, 0, sizeof(wait_for->queues));
		wait_for->queue_count = -1;
	}
	if (wait_for->queue_count >= 0)
		wait_for->queues[wait_for->queue_count++] = queue_id;
}

/*
 * Add the matching lanes of a queue: those of all subsets of the tags if there
 * is room, or else the existing ones, which may change.
 */
static void
add_lanes(TqWaitFor *wait_for, const TqQueue *queue, const TqTags *tags)
{
	const TqMatch *match;
	bool           room;

	if (wait_for->lane_count < 0)
		return;
	room = add_sets(wait_for, queue->queue_id, tags);
	if (room)
		return;
	wait_for->open = true;
	room = true;
	match = tq_lane_match(queue, tags);
	for (int i = 0; i < match->count && room; i++)
		room = add_lane(wait_for, match->lanes[i]);
	if (room)
		return;
	memset(wait_for->lanes, 0, sizeof(wait_for->lanes));
	wait_for->lane_count = -1;
}

/* Returns false, without any effect, if there are too many sets. */
static bool
add_sets(TqWaitFor *wait_for, int32 queue_id, const TqTags *tags)
{
	char  *chosen[MAX_TAGS_IN_SETS];
	TqTags set;

	if (tags->count > MAX_TAGS_IN_SETS ||
		wait_for->lane_count + (1 << tags->count) > TQ_WAITER_LANES)
		return false;
	set.tags = chosen;
	for (int bits = 0; bits < 1 << tags->count; bits++)
	{
		set.count = 0;
		for (int i = 0; i < tags->count; i++)
		{
			if (bits & (1 << i))
				chosen[set.count++] = tags->tags[i];
		}
		(void) add_lane(wait_for, tq_lane_id(queue_id, &set));
	}
	return true;
}

/* Returns false if there is no room. */
static bool
add_lane(TqWaitFor *wait_for, int64 lane_id)
{
	if (wait_for->lane_count == TQ_WAITER_LANES)
		return false;
	wait_for->lanes[wait_for->lane_count++] = lane_id;
	return true;
}

/* A check may find a task after this time, in microseconds. */
static void
look_by(TqWait *wait, int64 pause)
{
	wait->look_at =
		Min(wait->look_at, tq_clock_monotonic() + Max(pause, 0) + 1);
}
