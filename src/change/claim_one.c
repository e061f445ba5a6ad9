/*
 * claim_one.c
 *		taskq_claim_one: claims any one task of some queues, provided that
 *		other tasks do not change.
 *
 * The tasks and documents in depends are locked and checked before a task is
 * claimed; if one of them is not as expected, the call fails like a change,
 * whether there is a task to claim or not.  A call that waits checks without
 * locks as long as there is no task to claim.  If it has locked everything,
 * and another session then claims the task first, it stops waiting.
 *
 * The order of the queues is random: the more tasks a queue has, the more
 * likely it is first.  In a queue, any one of the first REACH claimable tasks
 * is chosen.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/lock_scope.h"
#include "base/srf.h"
#include "change/change.h"
#include "change/change_entry.h"
#include "change/change_lock.h"
#include "change/change_problem.h"
#include "command/claim.h"
#include "engine/call.h"
#include "engine/dispatch.h"
#include "shared/counter.h"
#include "store/snapshot.h"

#define REACH 1000

PG_FUNCTION_INFO_V1(taskq_claim_one);

/* A queue, and its turn: the lowest one first. */
typedef struct Turn
{
	char  *queue_name;
	double rank;
} Turn;

typedef struct One
{
	TqCall        *call;
	ReturnSetInfo *result;
	TqChange       depends;
	TqClaim        claim;
	Turn          *turns;
	int            count;
	bool           leaves; /* leave the task as it is: its lease would be 0 */
	bool           lost;   /* another session was faster, after the locks */
	int64          task_id;
} One;

static void         read_queues(FunctionCallInfo fcinfo, One *one);
static bool         call_for_one(One *one);
static TqWaitResult look(TqWait *wait);
static bool         find_one(One *one);
static void         check_depends(One *one, bool lock);
static bool         any_is_ready(One *one);
static void         draw_turns(One *one);
static bool         choose(One *one, const char *queue_name);
static int          compare_turns(const void *a, const void *b);

Datum
taskq_claim_one(PG_FUNCTION_ARGS)
{
	One    one = {0};
	TqWait wait = {.look = look, .arg = &one};
	TqCall call;
	char  *worker = tq_arg_name(fcinfo, 0, "worker", NULL);
	Jsonb *lists[TQ_PARTS] = {NULL};
	int64  span;

	tq_srf_begin(fcinfo);
	one.call = &call;
	one.result = (ReturnSetInfo *) fcinfo->resultinfo;
	read_queues(fcinfo, &one);
	if (PG_ARGISNULL(2))
		tq_error_required("lease");
	one.claim.worker_name = worker;
	one.claim.max_tasks = 1;
	one.claim.lease = tq_arg_span(fcinfo, 2, "lease", 0, 0);
	one.claim.order_given = true;
	one.claim.order = TQ_ORDER_RANDOM;
	one.claim.reach = REACH;
	one.claim.taken = &one.task_id;
	one.leaves = one.claim.lease == 0;
	tq_change_begin(&one.depends, &call, worker);
	lists[TQ_PART_DEPENDS] = tq_arg_jsonb(fcinfo, 3);
	if (lists[TQ_PART_DEPENDS] == NULL)
		tq_error_required("depends");
	tq_change_read(&one.depends, lists);
	tq_change_sort(&one.depends);
	span = tq_wait_span(fcinfo, 4, "wait", 0);
	if (span > 0)
	{
		tq_wait_require_unwritten("taskq_claim_one()");
		tq_wait_begin(&wait, span);
		one.claim.wait = &wait;
		(void) tq_wait_run(&wait);
	}
	else
		(void) call_for_one(&one);
	return (Datum) 0;
}

/* One call, which returns the task that it finds. */
static bool
call_for_one(One *one)
{
	TqInfo info;
	bool   found;

	tq_call_begin(one->call, "taskq_claim_one()");
	found = find_one(one);
	if (found)
	{
		tq_snapshot_renew();
		tq_task_info_begin(&info);
		tq_visibility_open(&info.sight);
		tq_change_return(one->call, &info, one->task_id, one->result);
	}
	tq_call_end(one->call);
	return found;
}

static void
read_queues(FunctionCallInfo fcinfo, One *one)
{
	Datum *names;
	char **words;

	if (PG_ARGISNULL(1))
		tq_error_required("queues");
	names = tq_arg_array(fcinfo, 1, "queues", TEXTOID, &one->count);
	if (one->count == 0)
		tq_error_invalid("queues", "must not be empty", NULL);
	words = tq_arg_words(names, one->count, "queues", "queues", TQ_MAX_NAME);
	one->turns = palloc_extended(sizeof(Turn) * one->count, MCXT_ALLOC_HUGE);
	for (int i = 0; i < one->count; i++)
		one->turns[i].queue_name = words[i];
}

static TqWaitResult
look(TqWait *wait)
{
	One        *one = wait->arg;
	TqLockScope scope;
	bool        found;

	AcceptInvalidationMessages();
	tq_lock_scope_begin(&scope);
	found = call_for_one(one);
	tq_lock_scope_end(&scope, found || one->lost);
	if (found)
		return TQ_WAIT_FOUND;
	/* a session that continued to wait would keep its dependencies locked */
	return wait->over || one->lost ? TQ_WAIT_OVER : TQ_WAIT_NO_TASK;
}

static bool
find_one(One *one)
{
	if (one->depends.count > 0 && one->claim.wait != NULL)
	{
		check_depends(one, false);
		if (!any_is_ready(one))
			return false;
	}
	check_depends(one, true);
	draw_turns(one);
	for (int i = 0; i < one->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		one->claim.queue_name = one->turns[i].queue_name;
		if (one->leaves ? choose(one, one->claim.queue_name)
						: tq_claim_run(one->call, &one->claim, NULL) > 0)
			return true;
	}
	one->lost = one->depends.count > 0;
	return false;
}

/*
 * Raise TQ010 unless everything in depends is as expected; if it is locked, it
 * cannot change.
 */
static void
check_depends(One *one, bool lock)
{
	if (one->depends.count == 0)
		return;
	if (lock)
	{
		tq_change_lock(&one->depends);
		tq_call_renew(one->call);
	}
	tq_change_check(&one->depends, lock);
	tq_change_end_if_any(&one->depends);
}

static bool
any_is_ready(One *one)
{
	bool any = false;

	for (int i = 0; i < one->count; i++)
		any |= tq_claim_is_ready(one->call, &one->claim,
								 tq_queue_for_claim(one->turns[i].queue_name));
	return any;
}

/*
 * Draw a rank from an exponential distribution whose mean is the inverse of
 * the number of tasks: the queue with the lowest rank is chosen as if a task
 * had been drawn.
 */
static void
draw_turns(One *one)
{
	for (int i = 0; i < one->count; i++)
	{
		TqQueue *queue = tq_queue_find(one->turns[i].queue_name);
		int64    live[TQ_LIVE_NUMBERS] = {0};

		if (queue != NULL)
			(void) tq_counter_read(queue->queue_id, live);
		one->turns[i].rank = -log(1 - pg_prng_double(&pg_global_prng_state)) /
							 Max(live[0], 1);
	}
	qsort(one->turns, one->count, sizeof(Turn), compare_turns);
}

/* Choose a task, without claiming it. */
static bool
choose(One *one, const char *queue_name)
{
	TqQueue *queue = tq_queue_for_claim(queue_name);
	TqWorker worker = {0};
	TqPeek   peek = {.to_the_end = true, .reach = REACH};

	if (!tq_claim_is_ready(one->call, &one->claim, queue))
		return false;
	if (!tq_worker_is_new(one->claim.worker_name))
		tq_worker_for_claim(one->claim.worker_name, NULL, &worker);
	tq_dispatch_peek(one->call, queue, tq_claim_tags(&one->claim, &worker),
					 TQ_ORDER_RANDOM, false, &peek);
	one->task_id = peek.found ? peek.head.f.task_id : 0;
	return peek.found;
}

static int
compare_turns(const void *a, const void *b)
{
	double x = ((const Turn *) a)->rank;
	double y = ((const Turn *) b)->rank;

	return x < y ? -1 : x > y;
}
