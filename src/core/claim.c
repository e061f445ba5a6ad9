/*
 * claim.c
 *		taskq_claim: tasks are handed out.
 *
 * The queue is found, the caller's right checked, the name of the worker
 * resolved (worker.c); dispatch.c finds the tasks and moves them through
 * the door; their rows are returned with what stands in taskq.large.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/guc.h"
#include "core/dispatch.h"
#include "core/large.h"
#include "core/role.h"
#include "core/worker.h"

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
	OUT_COLUMNS
};

static int     read_max_tasks(FunctionCallInfo fcinfo, int n);
static TqOrder read_order(FunctionCallInfo fcinfo, int n, TqOrder if_null);
static void    refuse_wait(FunctionCallInfo fcinfo, int n);
static void    return_task(ReturnSetInfo *result, const TqQueue *queue,
						   TqTask *task);
static void    copy_column(Datum *values, bool *nulls, int out,
						   const TqTask *task, TqColumn col);

Datum
taskq_claim(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TqDispatch     dispatch = {0};
	TqCall         call;
	TqWorker       worker = {0};
	TqTags         tags;
	TqTask        *claimed = NULL;
	char          *queue_name;
	char          *worker_name;
	bool           tags_given;
	int64          lease;
	int            count;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		tq_error_not_built("taskq_claim(queue => NULL)");
	queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	if (strcmp(queue_name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	worker_name = PG_ARGISNULL(1) ? NULL
								  : tq_arg_name(fcinfo, 1, "worker", NULL);
	dispatch.max_tasks = read_max_tasks(fcinfo, 2);
	lease = tq_arg_span(fcinfo, 3, "lease", 1, 0);
	refuse_wait(fcinfo, 4);
	tags_given = tq_arg_tags(fcinfo, 5, &tags);

	tq_call_begin(&call, "taskq_claim()");
	dispatch.queue = tq_queue_find(queue_name);
	if (dispatch.queue == NULL)
	{
		(void) read_order(fcinfo, 6, TQ_ORDER_FIFO);
		if (!tq_guc_auto_create_queues)
			tq_error_no_such_queue(queue_name);
		if ((tq_role_rights_all() & TQ_RIGHT_WORK) == 0)
			tq_error_no_right(queue_name, TQ_RIGHT_WORK);
		tq_call_end(&call);
		return (Datum) 0;
	}
	tq_role_require(dispatch.queue, TQ_RIGHT_WORK);
	dispatch.order = read_order(fcinfo, 6, dispatch.queue->options.order);

	if (worker_name != NULL)
		tq_worker_for_claim(worker_name, &worker);
	dispatch.worker_id = worker.worker_id;
	dispatch.lease = lease;
	if (lease == 0 && !worker.registered)
		dispatch.lease = dispatch.queue->options.lease;
	dispatch.tags = (tags_given || !worker.registered) ? &tags : &worker.tags;

	if (!tq_queue_is_paused(dispatch.queue))
	{
		count = tq_dispatch_claim(&call, &dispatch, &claimed);
		for (int i = 0; i < count; i++)
			return_task(result, dispatch.queue, &claimed[i]);
	}
	tq_call_end(&call);
	return (Datum) 0;
}

static int
read_max_tasks(FunctionCallInfo fcinfo, int n)
{
	int max_tasks = PG_ARGISNULL(n) ? 1 : PG_GETARG_INT32(n);

	if (max_tasks < 1 || max_tasks > TQ_MAX_CLAIM)
		tq_error_invalid("max_tasks",
						 psprintf("must be from 1 to %d", TQ_MAX_CLAIM), NULL);
	return max_tasks;
}

static TqOrder
read_order(FunctionCallInfo fcinfo, int n, TqOrder if_null)
{
	char *word = tq_arg_keyword(fcinfo, n, "claim_order");

	if (word == NULL)
		return if_null;
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
refuse_wait(FunctionCallInfo fcinfo, int n)
{
	if (tq_arg_span(fcinfo, n, "wait", 0, 0) > 0)
		tq_error_not_built("argument \"wait\" of taskq_claim()");
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
	values[OUT_CREATED_AT] = TimestampTzGetDatum(task->f.created_at);
	values[OUT_RUN_AT] = TimestampTzGetDatum(task->f.run_at);
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
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void
copy_column(Datum *values, bool *nulls, int out, const TqTask *task,
			TqColumn col)
{
	values[out] = task->value[col];
	nulls[out] = task->isnull[col];
}
