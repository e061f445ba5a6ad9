/*
 * ready.c
 *		taskq_wait: sleep until there is a task to claim.
 *
 * Each check is a transaction of its own.  Between two checks the session
 * holds no snapshot and no lock, so it holds back neither vacuum nor changes
 * of the extension's objects.  Only a procedure can do that, not a function.
 *
 * A check claims nothing.  It reports what a claim would get, considering
 * limits and pauses; the first session to claim gets the task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "executor/spi.h"
#include "fmgr.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/srf.h"
#include "cache/role.h"
#include "command/claim_trouble.h"
#include "command/ready.h"
#include "engine/call.h"
#include "engine/dispatch.h"

PG_FUNCTION_INFO_V1(taskq_wait);

#define DEFAULT_TIMEOUT (30 * USECS_PER_SEC)

/* What taskq_wait waits for. */
typedef struct Ready
{
	TqCall call;
	char  *queue_name;  /* NULL: all of the worker's queues */
	char  *worker_name; /* or NULL */
	TqTags tags;
	bool   tags_given;
} Ready;

static TqWaitResult look(TqWait *wait);
static TqWaitResult look_at_queues(TqWait *wait, Ready *ready);
static void find_worker(TqWait *wait, const Ready *ready, TqWorker *worker);
static bool look_at(TqWait *wait, Ready *ready, const TqWorker *worker,
					const char *name);

Datum
taskq_wait(PG_FUNCTION_ARGS)
{
	Ready        ready = {0};
	TqWait       wait = {0};
	int64        timeout;
	TqWaitResult answer;
	Datum        value;
	bool         isnull = false;

	tq_wait_require_top_level(fcinfo, "taskq_wait()");
	PreventCommandDuringRecovery("taskq_wait()");
	if (!PG_ARGISNULL(0))
		ready.queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	timeout = tq_wait_span(fcinfo, 1, "timeout", DEFAULT_TIMEOUT);
	if (!PG_ARGISNULL(3))
		ready.worker_name = tq_arg_name(fcinfo, 3, "worker", NULL);
	ready.tags_given = tq_arg_tags(fcinfo, 4, &ready.tags);

	wait.look = look;
	wait.arg = &ready;
	tq_wait_begin(&wait, timeout);
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	answer = tq_wait_run(&wait);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");

	value = BoolGetDatum(answer == TQ_WAIT_FOUND);
	return tq_srf_row(fcinfo, &value, &isnull);
}

/*
 * Is there a task that such a claim could get, and in which lane?  Does not
 * consider limits.
 */
bool
tq_ready_task(TqCall *call, const TqQueue *queue, const TqTags *tags,
			  int64 *lane_id)
{
	TqPeek peek = {0};

	if (tq_queue_is_paused(queue))
		return false;
	peek.to_the_end = true;
	tq_dispatch_peek(call, queue, tags, queue->options.order, false, &peek);
	*lane_id = peek.head.f.lane_id;
	return peek.found;
}

/*
 * Do limits allow another task to be claimed?  If the number of running tasks
 * is unknown, count them; if it becomes unknown again, the claim finds that
 * out.
 */
bool
tq_ready_room(const TqQueue *queue, const TqWorker *worker, TqNoTask *no_task)
{
	TqLimit       limit = {0};
	TqReservation answer;

	limit.queue = queue;
	limit.worker_id = worker->worker_id;
	limit.worker_max = worker->max_running;
	tq_limit_require(&limit);
	answer = tq_limit_look(&limit);
	if (answer == TQ_RESERVE_UNKNOWN)
	{
		tq_limit_know(&limit);
		answer = tq_limit_look(&limit);
	}
	no_task->full = answer == TQ_RESERVE_FULL;
	no_task->worker_full = limit.worker_full;
	return !no_task->full;
}

static TqWaitResult
look(TqWait *wait)
{
	Ready       *ready = wait->arg;
	TqWaitResult answer;

	tq_call_begin_look(&ready->call);
	answer = look_at_queues(wait, ready);
	tq_call_end(&ready->call);
	SPI_commit();
	return answer;
}

static TqWaitResult
look_at_queues(TqWait *wait, Ready *ready)
{
	TqWorker worker = {0};
	bool     found = false;
	char   **names = &ready->queue_name;
	int      count = 1;

	find_worker(wait, ready, &worker);
	if (wait->over)
		return TQ_WAIT_OVER;
	if (ready->queue_name == NULL)
		names = tq_worker_queues(&worker, 0, &count);
	if (ready->queue_name == NULL && worker.queues == NULL)
		tq_wait_open(wait);
	for (int i = 0; i < count && !found; i++)
		found = look_at(wait, ready, &worker, names[i]);
	return found ? TQ_WAIT_FOUND : TQ_WAIT_NO_TASK;
}

/* A name that is not registered is only a label, and has no effect here. */
static void
find_worker(TqWait *wait, const Ready *ready, TqWorker *worker)
{
	if (ready->worker_name == NULL)
	{
		if (ready->queue_name == NULL)
			tq_error_required("queue or worker");
		return;
	}
	if (ready->queue_name == NULL)
		tq_worker_registered(ready->worker_name, NULL, worker);
	else
		tq_worker_if_registered(ready->worker_name, worker);
	tq_wait_worker(wait, ready->worker_name, worker);
}

/* Would a claim from that queue get a task now? */
static bool
look_at(TqWait *wait, Ready *ready, const TqWorker *worker, const char *name)
{
	TqQueue      *queue = ready->queue_name == NULL ? tq_queue_find(name)
													: tq_queue_for_claim(name);
	const TqTags *tags = (ready->tags_given || !worker->registered)
							 ? &ready->tags
							 : &worker->tags;
	TqNoTask      no_task = {0};
	int64         lane_id;

	CHECK_FOR_INTERRUPTS();
	if (queue == NULL)
	{
		tq_wait_open(wait);
		return false;
	}
	if (ready->queue_name == NULL &&
		(tq_role_rights(queue) & TQ_RIGHT_WORK) == 0)
	{
		/* the right may be granted */
		tq_wait_open(wait);
		return false;
	}
	if (ready->queue_name == NULL && !tq_claim_trouble_check(queue, worker))
	{
		/* a claim skips it, too */
		tq_wait_queue(wait, queue, tags, &no_task);
		return false;
	}
	if (tq_ready_task(&ready->call, queue, tags, &lane_id) &&
		tq_ready_room(queue, worker, &no_task))
	{
		tq_waiter_took(queue->queue_id, lane_id);
		return true;
	}
	tq_wait_queue(wait, queue, tags, &no_task);
	return false;
}
