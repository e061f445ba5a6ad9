/*
 * claim.c
 *		taskq_claim: claims tasks.
 *
 * A claim finds the queue, checks the caller's right and resolves the worker's
 * name (worker.c).  Under the lock for limits (limit.c), dispatch.c selects
 * the tasks and sets them to running (tq_state_enter).  Their rows are
 * returned together with their values in taskq.large.  A worker that claims
 * from all of its queues does this for one queue after the other, and each
 * claim starts with the next queue.
 *
 * A claim with wait repeats the claim (wait.c), each time with a new snapshot
 * and in a call of its own, which releases its locks if it found no task.  A
 * sleeping session thus holds no lock on a table or index: REINDEX and similar
 * commands do not wait for it, and producers do not wait for them.  Rows that
 * must be written before a claim are only written once there is a task and the
 * limits allow it; otherwise the transaction would be assigned a transaction
 * id that it keeps as long as it waits.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/lock_scope.h"
#include "base/srf.h"
#include "base/subxact.h"
#include "cache/role.h"
#include "cache/task_options.h"
#include "command/claim.h"
#include "command/claim_trouble.h"
#include "command/ready.h"
#include "engine/call.h"
#include "engine/dispatch.h"
#include "engine/liveness.h"
#include "engine/step.h"
#include "engine/worker.h"
#include "shared/counter.h"
#include "store/large.h"
#include "xact/claim_commit.h"

PG_FUNCTION_INFO_V1(taskq_claim);

/* Columns of taskq.claimed. */
enum
{
	OUT_TASK_ID,
	OUT_TOKEN,
	OUT_QUEUE,
	OUT_PAYLOAD,
	OUT_DATA,
	OUT_ATTEMPT,
	OUT_MAX_ATTEMPTS,
	OUT_PRIORITY,
	OUT_KEY,
	OUT_REFERENCE,
	OUT_TAGS,
	OUT_HEADERS,
	OUT_CORRELATION_ID,
	OUT_CHECKPOINT,
	OUT_CREATED_AT,
	OUT_RUN_AT,
	OUT_DEADLINE,
	OUT_LEASE_UNTIL,
	OUT_OF_STEP, /* the columns of TqStepClaimColumn */
	OUT_COLUMNS = OUT_OF_STEP + TQ_CARRY_COLUMNS
};

/* A claim from one of the worker's queues. */
typedef struct OneOfAll
{
	TqCall        *call;
	TqClaim       *claim;
	TqWorker      *worker;
	const char    *queue_name;
	ReturnSetInfo *result;
	int            max_tasks;
	int            count; /* number of tasks claimed */
} OneOfAll;

/* A claim that waits. */
typedef struct Claiming
{
	TqCall        *call;
	TqClaim       *claim;
	ReturnSetInfo *result;
} Claiming;

static TqOrder      read_order(FunctionCallInfo fcinfo, int n);
static int          claim_alone(Claiming *claiming);
static void         claim_waiting(Claiming *claiming, int64 span);
static TqWaitResult look(TqWait *wait);
static int  claim_named(TqCall *call, TqClaim *claim, ReturnSetInfo *result);
static int  claim_of_all(TqCall *call, TqClaim *claim, ReturnSetInfo *result);
static void claim_one_of_all(OneOfAll *one);
static void claim_apart(void *arg);
static void claim_if_possible(OneOfAll *one);
static bool find_worker(TqCall *call, const TqClaim *claim,
						const TqQueue *queue, TqWorker *worker);
static bool begin_claim(TqCall *call, const TqClaim *claim, TqWorker *worker,
						const char *queue_name, TqLimit *limit);
static int  claim_from(TqCall *call, TqClaim *claim, TqWorker *worker,
					   const char *queue_name, int max_tasks,
					   ReturnSetInfo *result);
static void tell_wait(TqWait *wait, const char *queue_name, const TqTags *tags,
					  const TqNoTask *no_task, const TqTask *claimed,
					  int count);
static void return_task(ReturnSetInfo *result, const TqQueue *queue,
						TqTask *task);
static bool is_deferrable(const TqQueue *queue, const TqTask *task);
static void copy_column(Datum *values, bool *nulls, int out,
						const TqTask *task, TqColumn col);

Datum
taskq_claim(PG_FUNCTION_ARGS)
{
	TqClaim  claim = {0};
	TqCall   call;
	Claiming claiming = {&call, &claim, (ReturnSetInfo *) fcinfo->resultinfo};
	int64    incarnation;
	int64    wait;

	tq_srf_begin(fcinfo);
	if (!PG_ARGISNULL(0))
		claim.queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	if (!PG_ARGISNULL(1))
		claim.worker_name = tq_arg_name(fcinfo, 1, "worker", NULL);
	claim.max_tasks = tq_claim_max_tasks(fcinfo, 2);
	claim.lease = tq_arg_span(fcinfo, 3, "lease", 1, 0);
	wait = tq_wait_span(fcinfo, 4, "wait", 0);
	claim.tags_given = tq_arg_tags(fcinfo, 5, &claim.tags);
	claim.order_given = !PG_ARGISNULL(6);
	if (claim.order_given)
		claim.order = read_order(fcinfo, 6);
	claim.incarnation = tq_arg_int8_if_given(fcinfo, 7, &incarnation);
	if (claim.incarnation != NULL && claim.worker_name == NULL)
		tq_error_required("worker");

	if (wait > 0)
	{
		tq_wait_require_unwritten("taskq_claim()");
		claim_waiting(&claiming, wait);
		return (Datum) 0;
	}
	(void) claim_alone(&claiming);
	return (Datum) 0;
}

/* A claim in a call of its own; returns the number of tasks. */
static int
claim_alone(Claiming *claiming)
{
	int claimed;

	claiming->claim->deferrable = true;
	tq_claim_commit_claim_begin();
	tq_call_begin(claiming->call, "taskq_claim()");
	claimed = tq_claim_run(claiming->call, claiming->claim, claiming->result);
	tq_call_end(claiming->call);
	tq_claim_commit_claim_end(claiming->claim->deferrable);
	return claimed;
}

int
tq_claim_max_tasks(FunctionCallInfo fcinfo, int n)
{
	int max_tasks = PG_ARGISNULL(n) ? 1 : PG_GETARG_INT32(n);

	if (max_tasks < 1 || max_tasks > TQ_MAX_CLAIM)
		tq_error_invalid("max_tasks",
						 psprintf("must be from 1 to %d", TQ_MAX_CLAIM), NULL);
	return max_tasks;
}

/*
 * Claim, return the tasks as rows of taskq.claimed, and return their number.
 */
int
tq_claim_run(TqCall *call, TqClaim *claim, ReturnSetInfo *result)
{
	if (claim->queue_name == NULL && claim->worker_name == NULL)
		tq_error_required("queue or worker");
	return claim->queue_name != NULL ? claim_named(call, claim, result)
									 : claim_of_all(call, claim, result);
}

/* Repeat the claim until it finds a task or time runs out. */
static void
claim_waiting(Claiming *claiming, int64 span)
{
	TqWait wait = {0};

	wait.look = look;
	wait.arg = claiming;
	tq_wait_begin(&wait, span);
	claiming->claim->wait = &wait;
	(void) tq_wait_run(&wait);
}

static TqWaitResult
look(TqWait *wait)
{
	Claiming   *claiming = wait->arg;
	TqLockScope scope;
	int         claimed;

	AcceptInvalidationMessages();
	tq_lock_scope_begin(&scope);
	claimed = claim_alone(claiming);
	tq_lock_scope_end(&scope, claimed > 0);
	if (claimed > 0)
		return TQ_WAIT_FOUND;
	return wait->over ? TQ_WAIT_OVER : TQ_WAIT_NO_TASK;
}

static int
claim_named(TqCall *call, TqClaim *claim, ReturnSetInfo *result)
{
	TqQueue *queue = tq_queue_for_claim(claim->queue_name);
	TqWorker worker = {0};

	if (!find_worker(call, claim, queue, &worker))
		return 0;
	if (queue != NULL)
		return claim_from(call, claim, &worker, claim->queue_name,
						  claim->max_tasks, result);
	if (claim->wait != NULL)
		tq_wait_open(claim->wait);
	return 0;
}

static int
claim_of_all(TqCall *call, TqClaim *claim, ReturnSetInfo *result)
{
	TqWorker worker = {0};
	int      claimed = 0;
	int      count;
	char   **names;

	if (!find_worker(call, claim, NULL, &worker))
		return 0;
	if (claim->wait != NULL && worker.queues == NULL)
		tq_wait_open(claim->wait);
	/* the order stays the same while this claim waits */
	if (!claim->has_turn)
		claim->turn = tq_liveness_turn(worker.worker_id);
	claim->has_turn = true;
	names = tq_worker_queues(&worker, claim->turn, &count);
	for (int i = 0; i < count && claimed < claim->max_tasks; i++)
	{
		OneOfAll one = {call, claim, &worker, names[i], result};

		CHECK_FOR_INTERRUPTS();
		one.max_tasks = claim->max_tasks - claimed;
		claim_one_of_all(&one);
		claimed += one.count;
	}
	return claimed;
}

/*
 * Claim from one of the worker's queues.  After an error, claim from that
 * queue in savepoints, one task at a time, since rows that have been returned
 * cannot be withdrawn.
 */
static void
claim_one_of_all(OneOfAll *one)
{
	if (!tq_claim_trouble_met(one->queue_name))
	{
		PG_TRY();
		{
			claim_if_possible(one);
		}
		PG_CATCH();
		{
			tq_claim_trouble_note(one->queue_name, true);
			PG_RE_THROW();
		}
		PG_END_TRY();
		return;
	}
	while (one->count < one->max_tasks)
	{
		OneOfAll   next = *one;
		ErrorData *error;

		next.max_tasks = 1;
		next.count = 0;
		error = tq_subxact_run(claim_apart, &next);
		if (error != NULL)
			tq_claim_trouble_survive(one->queue_name, error);
		else
			tq_claim_trouble_note(one->queue_name, false);
		if (error != NULL || next.count == 0)
			break;
		one->count++;
	}
}

static void
claim_apart(void *arg)
{
	OneOfAll *one = arg;
	TqCall    call;

	one->call = &call;
	tq_call_begin(&call, "taskq_claim()");
	claim_if_possible(one);
	tq_call_end(&call);
}

static void
claim_if_possible(OneOfAll *one)
{
	TqQueue *queue = tq_queue_find(one->queue_name);
	bool may = queue != NULL && (tq_role_rights(queue) & TQ_RIGHT_WORK) != 0;

	/* the queue may be created, and the right granted */
	if (!may && one->claim->wait != NULL)
		tq_wait_open(one->claim->wait);
	if (may && tq_claim_trouble_check(queue, one->worker))
		one->count = claim_from(one->call, one->claim, one->worker,
								one->queue_name, one->max_tasks, one->result);
}

/*
 * Find the worker.  Returns false if the call cannot claim a task yet: the
 * worker is draining, or its name is a new label, whose row is written only
 * when a task is ready.
 */
static bool
find_worker(TqCall *call, const TqClaim *claim, const TqQueue *queue,
			TqWorker *worker)
{
	const char *name = claim->worker_name;

	if (name == NULL)
		return true;
	if (claim->queue_name == NULL)
		tq_worker_registered(name, claim->incarnation, worker);
	else if (claim->wait != NULL && claim->wait->worker_id == 0 &&
			 claim->incarnation == NULL && tq_worker_is_new(name) &&
			 !tq_claim_is_ready(call, claim, queue))
		return false;
	else
		tq_worker_for_claim(name, claim->incarnation, worker);
	if (claim->wait != NULL)
		tq_wait_worker(claim->wait, name, worker);
	return !worker->draining;
}

/*
 * Would a claim from the queue find a task now?  Writes nothing; a claim that
 * waits records what it waits for.
 */
bool
tq_claim_is_ready(TqCall *call, const TqClaim *claim, const TqQueue *queue)
{
	TqWorker      worker = {0};
	TqNoTask      no_task = {0};
	const TqTags *tags;
	int64         lane_id;

	if (claim->worker_name != NULL && !tq_worker_is_new(claim->worker_name))
	{
		tq_worker_for_claim(claim->worker_name, claim->incarnation, &worker);
		if (claim->wait != NULL)
			tq_wait_worker(claim->wait, claim->worker_name, &worker);
		if (worker.draining)
			return false;
	}
	tags = tq_claim_tags(claim, &worker);
	if (queue != NULL && tq_ready_task(call, queue, tags, &lane_id) &&
		tq_ready_room(queue, &worker, &no_task))
		return true;
	if (claim->wait == NULL)
		return false;
	if (queue == NULL)
		tq_wait_open(claim->wait);
	else
		tq_wait_queue(claim->wait, queue, tags, &no_task);
	return false;
}

/*
 * Begin a claim from a queue, with the current options of the queue and the
 * current limit of the worker.  Returns false if no task can be claimed.
 */
static bool
begin_claim(TqCall *call, const TqClaim *claim, TqWorker *worker,
			const char *queue_name, TqLimit *limit)
{
	for (;;)
	{
		bool found;

		CHECK_FOR_INTERRUPTS();
		memset(limit, 0, sizeof(*limit));
		limit->queue = tq_queue_find(queue_name);
		limit->worker_id = worker->worker_id;
		limit->worker_max = worker->max_running;
		if (limit->queue == NULL || tq_queue_is_paused(limit->queue))
			return false;
		TQ_DEBUG_POINT("claim_begun");
		tq_limit_begin(limit);
		/* no session can start counting while this one holds these locks */
		tq_queue_refresh();
		limit->queue = tq_queue_find(queue_name);
		if (tq_worker_is_current(worker))
			return true;
		memset(worker, 0, sizeof(*worker));
		found = find_worker(call, claim, limit->queue, worker);
		if (found && worker->worker_id == limit->worker_id &&
			worker->max_running == limit->worker_max)
			return true;
		tq_limit_end(limit);
		if (!found)
			return false;
	}
}

/* Claim from one queue, on which the caller has the right. */
static int
claim_from(TqCall *call, TqClaim *claim, TqWorker *worker,
		   const char *queue_name, int max_tasks, ReturnSetInfo *result)
{
	TqDispatch dispatch = {0};
	TqTask    *claimed = NULL;
	int        count = 0;
	TqNoTask   no_task = {0};

	dispatch.max_tasks = max_tasks;
	dispatch.lease = claim->lease;
	dispatch.reach = claim->reach;
	dispatch.sql_of = claim->sql_of;
	for (int i = 0; i < TQ_LIMIT_RECOUNTS; i++)
	{
		TqLimit limit;

		if (!begin_claim(call, claim, worker, queue_name, &limit))
			break;
		dispatch.worker_id = worker->worker_id;
		dispatch.while_alive = worker->registered;
		dispatch.tags = tq_claim_tags(claim, worker);
		dispatch.queue = tq_queue_find(queue_name);
		dispatch.limit = &limit;
		dispatch.unknown = false;
		if (dispatch.queue != NULL && !tq_queue_is_paused(dispatch.queue))
		{
			dispatch.order = claim->order_given
								 ? claim->order
								 : dispatch.queue->options.order;
			tq_limit_require(&limit);
			count = tq_dispatch_claim(call, &dispatch, &claimed);
		}
		tq_limit_end(&limit);
		no_task.full = dispatch.full;
		no_task.worker_full = limit.worker_full;
		if (count > 0 || !dispatch.unknown)
			break;
		tq_limit_know(&limit);
		tq_call_renew(call);
	}
	if (count > 0)
		tq_counter_claimed(dispatch.queue->queue_id, claimed[0].f.claimed_at);
	for (int i = 0; i < count; i++)
	{
		if (!is_deferrable(dispatch.queue, &claimed[i]))
			claim->deferrable = false;
		if (claim->taken != NULL)
			*claim->taken = claimed[i].f.task_id;
		else if (claim->task != NULL)
			*claim->task = claimed[i];
		else
			return_task(result, dispatch.queue, &claimed[i]);
	}
	if (claim->wait != NULL)
		tell_wait(claim->wait, queue_name, tq_claim_tags(claim, worker),
				  &no_task, claimed, count);
	return count;
}

/* The tags of the claim, or else those of the worker's registration. */
const TqTags *
tq_claim_tags(const TqClaim *claim, const TqWorker *worker)
{
	return claim->tags_given || !worker->registered ? &claim->tags
													: &worker->tags;
}

/* Record what a waiting claim got from a queue, or why it got no task. */
static void
tell_wait(TqWait *wait, const char *queue_name, const TqTags *tags,
		  const TqNoTask *no_task, const TqTask *claimed, int count)
{
	const TqQueue *queue = tq_queue_find(queue_name);

	for (int i = 0; i < count; i++)
		tq_waiter_took(claimed[i].f.queue_id, claimed[i].f.lane_id);
	if (count > 0)
		return;
	if (queue == NULL)
		tq_wait_open(wait);
	else
		tq_wait_queue(wait, queue, tags, no_task);
}

static TqOrder
read_order(FunctionCallInfo fcinfo, int n)
{
	char *word = tq_arg_keyword(fcinfo, n, "claim_order");

	if (strcmp(word, "fifo") == 0)
		return TQ_ORDER_FIFO;
	if (strcmp(word, "lifo") == 0)
		return TQ_ORDER_LIFO;
	if (strcmp(word, "random") != 0)
		tq_error_invalid("claim_order", "has an unknown value",
						 "Allowed: fifo, lifo, random.");
	return TQ_ORDER_RANDOM;
}

static void
return_task(ReturnSetInfo *result, const TqQueue *queue, TqTask *task)
{
	Datum values[OUT_COLUMNS];
	bool  nulls[OUT_COLUMNS];

	tq_large_load(task, TQ_COL_PAYLOAD, TQ_COL_CHECKPOINT);
	memset(nulls, false, sizeof(nulls));
	values[OUT_TASK_ID] = Int64GetDatum(task->f.task_id);
	values[OUT_TOKEN] = Int64GetDatum(task->f.token);
	values[OUT_QUEUE] = CStringGetTextDatum(queue->name);
	values[OUT_ATTEMPT] = Int32GetDatum(task->f.attempt);
	values[OUT_MAX_ATTEMPTS] = Int32GetDatum(task->f.max_attempts);
	values[OUT_PRIORITY] = Int32GetDatum(task->f.priority);
	values[OUT_CREATED_AT] = TimestampTzGetDatum(task->i.created_at);
	values[OUT_RUN_AT] = TimestampTzGetDatum(task->i.run_at);
	values[OUT_LEASE_UNTIL] = TimestampTzGetDatum(task->f.lease_until);
	nulls[OUT_LEASE_UNTIL] = task->f.lease_until == DT_NOEND;
	copy_column(values, nulls, OUT_PAYLOAD, task, TQ_COL_PAYLOAD);
	copy_column(values, nulls, OUT_DATA, task, TQ_COL_DATA);
	copy_column(values, nulls, OUT_KEY, task, TQ_COL_KEY);
	copy_column(values, nulls, OUT_REFERENCE, task, TQ_COL_REFERENCE);
	copy_column(values, nulls, OUT_TAGS, task, TQ_COL_TAGS);
	copy_column(values, nulls, OUT_HEADERS, task, TQ_COL_HEADERS);
	copy_column(values, nulls, OUT_CORRELATION_ID, task,
				TQ_COL_CORRELATION_ID);
	copy_column(values, nulls, OUT_CHECKPOINT, task, TQ_COL_CHECKPOINT);
	copy_column(values, nulls, OUT_DEADLINE, task, TQ_COL_DEADLINE);
	memset(&nulls[OUT_OF_STEP], true, sizeof(bool) * TQ_CARRY_COLUMNS);
	if (tq_step_is(task) && tq_step_hooks.carry != NULL)
	{
		tq_step_hooks.carry(task, &values[OUT_OF_STEP], &nulls[OUT_OF_STEP]);
		if ((task->f.flags & TQ_FLAG_INPUT) != 0)
		{
			values[OUT_PAYLOAD] = values[OUT_OF_STEP + TQ_CARRY_INPUT];
			nulls[OUT_PAYLOAD] = nulls[OUT_OF_STEP + TQ_CARRY_INPUT];
		}
	}
	tq_srf_add(result, values, nulls);
}

/*
 * May a crash undo the claim, so that the task waits again as if it had not
 * been claimed?  Not if that would start a task more often than its attempts
 * allow, or start it again although the loss of its worker must stop it.
 */
static bool
is_deferrable(const TqQueue *queue, const TqTask *task)
{
	TqOptions room;
	bool      last = task->f.max_attempts != -1 &&
				task->f.attempt >= task->f.max_attempts;

	if (queue->options.claims_flushed || last)
		return false;
	return tq_task_options(queue, task, &room)->on_death ==
		   TQ_ON_DEATH_REQUEUE;
}

static void
copy_column(Datum *values, bool *nulls, int out, const TqTask *task,
			TqColumn col)
{
	values[out] = task->value[col];
	nulls[out] = task->isnull[col];
}
