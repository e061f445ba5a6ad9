/*
 * finish.c
 *		The end of an attempt (complete, fail, release, suspend, filter), and
 *		what a worker reports while it holds a task.
 *
 * Every function takes (task_id, token) and raises TQ001 unless the task is
 * running under that token.  The task is read with a new snapshot, and the
 * write applies only to the version of the row that was read.  A stale worker
 * therefore changes nothing, no matter what happens concurrently.  The
 * functions for many tasks (bulk.c) do the same for each task; for them a
 * problem with a task is returned as an SQLSTATE.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <math.h>

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/span.h"
#include "base/srf.h"
#include "cache/role.h"
#include "cache/task_options.h"
#include "command/checkpoint.h"
#include "command/finish.h"
#include "command/submission.h"
#include "engine/call.h"
#include "engine/failure.h"
#include "engine/liveness.h"
#include "engine/state.h"
#include "engine/step.h"
#include "engine/worker.h"
#include "shared/running.h"
#include "store/large.h"
#include "store/row.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_complete);
PG_FUNCTION_INFO_V1(taskq_fail);
PG_FUNCTION_INFO_V1(taskq_release);
PG_FUNCTION_INFO_V1(taskq_suspend);
PG_FUNCTION_INFO_V1(taskq_filter);
PG_FUNCTION_INFO_V1(taskq_extend);
PG_FUNCTION_INFO_V1(taskq_progress);
PG_FUNCTION_INFO_V1(taskq_checkpoint);

static void   decide(FunctionCallInfo fcinfo, const char *function,
					 const TqDecision *decision, TqState *state);
static int    hold(TqCall *call, int64 task_id, int64 token, bool raise,
				   TqQueue **queue, TqTask *task);
static bool   is_too_large(const TqQueue *queue, const char *what,
						   Jsonb *document, bool raise);
static void   prepare(const TqDecision *decision, TqQueue *queue, TqTask *task,
					  TqMove *move);
static Datum  lease_and_cancel(FunctionCallInfo fcinfo, const TqTask *task);
static float4 read_progress(FunctionCallInfo fcinfo, int n);

Datum
taskq_complete(PG_FUNCTION_ARGS)
{
	TqDecision decision = {.outcome = TQ_FINISH_COMPLETE};

	decision.result = tq_arg_jsonb(fcinfo, 2);
	if (!PG_ARGISNULL(3))
		decision.trace = PG_GETARG_BOOL(3) ? TQ_TRACE_KEEP : TQ_TRACE_NONE;
	decide(fcinfo, "taskq_complete()", &decision, NULL);
	PG_RETURN_VOID();
}

Datum
taskq_fail(PG_FUNCTION_ARGS)
{
	TqDecision decision = {.outcome = TQ_FINISH_FAIL};
	TqState    state;

	decision.error = tq_arg_message(fcinfo, 2);
	decision.retryable = tq_arg_bool(fcinfo, 3, true);
	decision.retry_in = tq_arg_span(fcinfo, 4, "retry_in", 0, -1);
	decision.detail = tq_arg_jsonb(fcinfo, 5);
	if (decision.error == NULL)
		tq_error_required("error");
	tq_finish_check_detail(decision.detail);
	decide(fcinfo, "taskq_fail()", &decision, &state);
	PG_RETURN_TEXT_P(cstring_to_text(tq_state_name(state)));
}

Datum
taskq_release(PG_FUNCTION_ARGS)
{
	TqDecision decision = {.outcome = TQ_FINISH_RELEASE};

	decision.delay = tq_arg_span(fcinfo, 2, "delay", 0, 0);
	decision.message = tq_arg_message(fcinfo, 3);
	decision.result = tq_arg_jsonb(fcinfo, 4);
	decide(fcinfo, "taskq_release()", &decision, NULL);
	PG_RETURN_VOID();
}

Datum
taskq_suspend(PG_FUNCTION_ARGS)
{
	TqDecision decision = {.outcome = TQ_FINISH_SUSPEND};

	decision.message = tq_arg_message(fcinfo, 2);
	decide(fcinfo, "taskq_suspend()", &decision, NULL);
	PG_RETURN_VOID();
}

Datum
taskq_filter(PG_FUNCTION_ARGS)
{
	TqDecision decision = {.outcome = TQ_FINISH_FILTER};

	decision.message = tq_arg_message(fcinfo, 2);
	decide(fcinfo, "taskq_filter()", &decision, NULL);
	PG_RETURN_VOID();
}

Datum
taskq_extend(PG_FUNCTION_ARGS)
{
	int64  task_id = tq_arg_int8(fcinfo, 0, "task_id");
	int64  token = tq_arg_int8(fcinfo, 1, "token");
	int64  lease = tq_arg_span(fcinfo, 2, "lease", 1, 0);
	TqCall call;
	TqTask task;

	tq_call_begin(&call, "taskq_extend()");
	(void) tq_finish_extend(&call, task_id, token, lease, true, &task);
	tq_call_end(&call);
	return lease_and_cancel(fcinfo, &task);
}

Datum
taskq_progress(PG_FUNCTION_ARGS)
{
	int64    task_id = tq_arg_int8(fcinfo, 0, "task_id");
	int64    token = tq_arg_int8(fcinfo, 1, "token");
	float4   progress = read_progress(fcinfo, 2);
	char    *message = tq_arg_message(fcinfo, 3);
	TqCall   call;
	TqQueue *queue;
	TqTask   task;

	tq_call_begin(&call, "taskq_progress()");
	(void) hold(&call, task_id, token, true, &queue, &task);
	if (message != NULL)
		message = tq_arg_cut(message, TQ_PROGRESS_MESSAGE);
	tq_liveness_progress(task_id, token, progress, message);
	tq_call_end(&call);
	tq_liveness_heartbeat(task.f.worker_id);
	return lease_and_cancel(fcinfo, &task);
}

Datum
taskq_checkpoint(PG_FUNCTION_ARGS)
{
	int64    task_id = tq_arg_int8(fcinfo, 0, "task_id");
	int64    token = tq_arg_int8(fcinfo, 1, "token");
	Jsonb   *checkpoint = tq_arg_jsonb(fcinfo, 2);
	float4   progress = read_progress(fcinfo, 3);
	TqCall   call;
	TqQueue *queue;
	TqTask   task;

	if (checkpoint == NULL)
		tq_error_required("checkpoint");
	for (tq_call_begin(&call, "taskq_checkpoint()");; tq_snapshot_renew())
	{
		(void) hold(&call, task_id, token, true, &queue, &task);
		tq_submission_check_size(queue, "checkpoint", VARSIZE(checkpoint));
		tq_large_put(&task, TQ_COL_CHECKPOINT, JsonbPGetDatum(checkpoint));
		if (tq_step_is(&task))
			tq_checkpoint_plan(&task);
		if (tq_state_touch(&call, queue, &task))
			break;
	}
	if (tq_step_is(&task))
		tq_checkpoint_note(&task, checkpoint);
	tq_liveness_progress(task_id, token, progress, NULL);
	tq_call_end(&call);
	tq_liveness_heartbeat(task.f.worker_id);
	return lease_and_cancel(fcinfo, &task);
}

/*
 * End the attempt of one task as decided.  If that is not possible, raise the
 * error or return its SQLSTATE; return 0 on success.
 */
int
tq_finish_decide(TqCall *call, int64 task_id, int64 token,
				 const TqDecision *decision, bool raise, TqState *state)
{
	for (;; tq_snapshot_renew())
	{
		TqQueue *queue;
		TqTask   task;
		TqMove   move = {0};
		int32    worker_id;
		int      problem = hold(call, task_id, token, raise, &queue, &task);

		if (problem != 0)
			return problem;
		if (is_too_large(queue, "result", decision->result, raise))
			return ERRCODE_TQ_TOO_LARGE;
		worker_id = task.f.worker_id;
		prepare(decision, queue, &task, &move);
		if (!tq_state_enter(call, queue, &task, &move))
			continue;
		if (state != NULL)
			*state = (TqState) task.f.state;
		tq_liveness_heartbeat(worker_id);
		return 0;
	}
}

/*
 * Extend the lease of a task to now + lease.  If lease is 0, use the lease of
 * the task or of the queue; a task that its worker holds without a lease is
 * not changed.  Errors are the same as for tq_finish_decide.
 */
int
tq_finish_extend(TqCall *call, int64 task_id, int64 token, int64 lease,
				 bool raise, TqTask *task)
{
	for (;; tq_snapshot_renew())
	{
		TqQueue  *queue;
		TqOptions room;
		int       problem = hold(call, task_id, token, raise, &queue, task);

		if (problem != 0)
			return problem;
		if (lease > 0)
			task->f.lease_until = tq_span_after(tq_clock_dispatch(), lease);
		else if (task->f.lease_until != DT_NOEND)
			task->f.lease_until =
				tq_span_after(tq_clock_dispatch(),
							  tq_task_options(queue, task, &room)->lease);
		if ((lease == 0 && task->f.lease_until == DT_NOEND) ||
			tq_state_touch(call, queue, task))
			break;
	}
	tq_liveness_heartbeat(task->f.worker_id);
	return 0;
}

/* Raise TQ009 if the detail of an error is too large. */
void
tq_finish_check_detail(Jsonb *detail)
{
	if (detail != NULL && VARSIZE(detail) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("detail", VARSIZE(detail), TQ_MAX_SMALL_DOC);
}

static void
decide(FunctionCallInfo fcinfo, const char *function,
	   const TqDecision *decision, TqState *state)
{
	int64  task_id = tq_arg_int8(fcinfo, 0, "task_id");
	int64  token = tq_arg_int8(fcinfo, 1, "token");
	TqCall call;

	tq_call_begin(&call, function);
	(void) tq_finish_decide(&call, task_id, token, decision, true, state);
	tq_call_end(&call);
}

/*
 * Read the task.  Raises TQ001 unless it is running under the token, with the
 * same message if the caller has no right on its queue.
 */
static int
hold(TqCall *call, int64 task_id, int64 token, bool raise, TqQueue **queue,
	 TqTask *task)
{
	int rights = 0;
	int problem = 0;

	TQ_DEBUG_POINT("finish_before_read");
	if (tq_row_find(call, task_id, task))
	{
		*queue = tq_queue_by_id(task->f.queue_id);
		rights = *queue == NULL ? 0 : tq_role_rights(*queue);
	}
	if (rights == 0)
		problem = ERRCODE_TQ_LEASE_LOST;
	else if ((rights & TQ_RIGHT_WORK) == 0)
		problem = ERRCODE_INSUFFICIENT_PRIVILEGE;
	else if (task->f.state != TQ_STATE_RUNNING || task->f.token != token)
		problem = ERRCODE_TQ_LEASE_LOST;
	if (raise && problem == ERRCODE_TQ_LEASE_LOST)
		tq_error_lease_lost(task_id);
	if (raise && problem != 0)
		tq_error_task_right(task_id, TQ_RIGHT_WORK);
	return problem;
}

static bool
is_too_large(const TqQueue *queue, const char *what, Jsonb *document,
			 bool raise)
{
	if (document == NULL ||
		(int64) VARSIZE(document) <= queue->options.max_payload)
		return false;
	if (raise)
		tq_submission_check_size(queue, what, VARSIZE(document));
	return true;
}

/* Prepare the values that the decision writes into the task, and its move. */
static void
prepare(const TqDecision *decision, TqQueue *queue, TqTask *task, TqMove *move)
{
	bool stop = tq_failure_stop_asked(task);

	switch (decision->outcome)
	{
		case TQ_FINISH_COMPLETE:
			move->wanted = "complete";
			move->to = TQ_STATE_DONE;
			move->trace = decision->trace;
			break;
		case TQ_FINISH_FAIL:
			move->wanted = "fail";
			tq_failure_add_error(task, decision->error, decision->detail,
								 tq_worker_name(task->f.worker_id));
			if (!decision->retryable && !stop)
			{
				move->end = TQ_END_FAILURE;
				move->to = TQ_STATE_DEAD;
				move->reason = TQ_REASON_REJECTED;
			}
			else
				tq_failure_next(queue, task, move, TQ_REASON_EXHAUSTED,
								decision->retry_in);
			break;
		case TQ_FINISH_RELEASE:
			move->wanted = "release";
			move->end = TQ_END_RELEASED;
			move->to = TQ_STATE_PENDING;
			move->due_at =
				decision->delay > 0
					? tq_span_after(tq_clock_dispatch(), decision->delay)
					: tq_failure_place(task);
			task->f.attempt = Max(task->f.attempt - 1, 0);
			break;
		case TQ_FINISH_SUSPEND:
			move->wanted = "suspend";
			move->to = TQ_STATE_SUSPENDED;
			task->f.attempt = Max(task->f.attempt - 1, 0);
			break;
		case TQ_FINISH_FILTER:
			move->wanted = "filter";
			move->to = TQ_STATE_FILTERED;
			break;
	}
	if (stop && decision->outcome != TQ_FINISH_COMPLETE)
		move->to = TQ_STATE_CANCELLED;
	if (decision->message != NULL)
		tq_large_put(task, TQ_COL_MESSAGE,
					 CStringGetTextDatum(decision->message));
	if (decision->result != NULL)
		tq_large_put(task, TQ_COL_RESULT, JsonbPGetDatum(decision->result));
}

/* (lease_until, cancel) */
static Datum
lease_and_cancel(FunctionCallInfo fcinfo, const TqTask *task)
{
	Datum values[2];
	bool  nulls[2] = {false, false};

	values[0] = TimestampTzGetDatum(task->f.lease_until);
	nulls[0] = task->f.lease_until == DT_NOEND;
	values[1] = BoolGetDatum(tq_failure_stop_asked(task));
	return tq_srf_row(fcinfo, values, nulls);
}

/* Return 0 to 1, or -1 if not given. */
static float4
read_progress(FunctionCallInfo fcinfo, int n)
{
	float4 progress;

	if (PG_ARGISNULL(n))
		return -1;
	progress = PG_GETARG_FLOAT4(n);
	if (isnan(progress) || progress < 0 || progress > 1)
		tq_error_invalid("progress", "must be from 0 to 1", NULL);
	return progress;
}
