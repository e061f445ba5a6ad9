/*
 * manage.c
 *		taskq_cancel and taskq_retry: changes by people.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "core/large.h"
#include "core/look.h"
#include "core/role.h"
#include "core/state.h"
#include "core/xact.h"

PG_FUNCTION_INFO_V1(taskq_cancel);
PG_FUNCTION_INFO_V1(taskq_retry);
#ifdef TASKQ_DEBUG
PG_FUNCTION_INFO_V1(taskq_debug_move);
#endif

static TqQueue *find_task(TqCall *call, int64 task_id, TqTask *task);
static bool     request_stop(TqCall *call, TqQueue *queue, TqTask *task);
static void     prepare_retry(TqTask *task, bool reset);

Datum
taskq_cancel(PG_FUNCTION_ARGS)
{
	int64       task_id = tq_arg_int8(fcinfo, 0, "task_id");
	char       *message = tq_arg_message(fcinfo, 1);
	bool        force = tq_arg_bool(fcinfo, 2, false);
	const char *answer = "cancelled";
	TqCall      call;

	for (tq_call_begin(&call, "taskq_cancel()");; tq_call_snapshot())
	{
		TqTask   task;
		TqQueue *queue = find_task(&call, task_id, &task);
		TqMove   move = {0};

		if (!TQ_STATE_IS_LIVE(task.f.state))
			tq_error_invalid_transition(task_id, (TqState) task.f.state,
										"cancelled");
		if (message != NULL)
			tq_large_put(&task, TQ_COL_MESSAGE, CStringGetTextDatum(message));
		if (task.f.state == TQ_STATE_RUNNING && !force)
		{
			answer = "requested";
			if (request_stop(&call, queue, &task))
				break;
			continue;
		}
		answer = "cancelled";
		move.to = TQ_STATE_CANCELLED;
		move.reason = TQ_REASON_MANUAL;
		move.wanted = "cancelled";
		if (tq_state_enter(&call, queue, &task, &move))
			break;
	}
	tq_call_end(&call);
	PG_RETURN_TEXT_P(cstring_to_text(answer));
}

Datum
taskq_retry(PG_FUNCTION_ARGS)
{
	int64  task_id = tq_arg_int8(fcinfo, 0, "task_id");
	bool   force = tq_arg_bool(fcinfo, 2, false);
	TqCall call;

	for (tq_call_begin(&call, "taskq_retry()");; tq_call_snapshot())
	{
		TqTask   task;
		TqQueue *queue = find_task(&call, task_id, &task);
		TqState  state = (TqState) task.f.state;
		TqMove   move = {0};
		bool     reset;

		move.to = TQ_STATE_PENDING;
		move.wanted = "retried";
		if (!tq_state_is_legal(state, TQ_STATE_PENDING) ||
			state == TQ_STATE_BLOCKED || (state == TQ_STATE_RUNNING && !force))
			tq_error_invalid_transition(task_id, state, move.wanted);
		reset = tq_arg_bool(fcinfo, 1, !TQ_STATE_IS_LIVE(state));
		if (state == TQ_STATE_SUSPENDED && task.f.run_at > tq_clock_dispatch())
			move.due_at = task.f.run_at;
		if (task.archived && !tq_row_take_archived(task_id, &task))
			continue;
		prepare_retry(&task, reset);
		if (task.f.max_attempts != -1 && task.f.attempt >= task.f.max_attempts)
			ereport(ERROR, (errcode(ERRCODE_TQ_INVALID_TRANSITION),
							errmsg("task " INT64_FORMAT
								   " has used all of its attempts",
								   task_id),
							errdetail("{\"task_id\": " INT64_FORMAT
									  ", \"state\": \"%s\"}",
									  task_id, tq_state_name(state)),
							errhint("Use reset_attempts => true.")));
		if (tq_state_enter(&call, queue, &task, &move))
			break;
	}
	tq_call_end(&call);
	PG_RETURN_VOID();
}

#ifdef TASKQ_DEBUG
/* Move a real row through the door, for the test of all pairs of states. */
Datum
taskq_debug_move(PG_FUNCTION_ARGS)
{
	int64   task_id = tq_arg_int8(fcinfo, 0, "task_id");
	char   *word = tq_arg_keyword(fcinfo, 1, "state");
	TqState to;
	TqCall  call;

	if (word == NULL || !tq_state_parse(word, &to))
		tq_error_invalid("state", "is unknown", tq_state_words());
	for (tq_call_begin(&call, "taskq.debug_move()");; tq_call_snapshot())
	{
		TqTask   task;
		TqQueue *queue = find_task(&call, task_id, &task);
		TqMove   move = {0};

		move.to = to;
		move.wanted = tq_state_name(to);
		move.lease_until = DT_NOEND;
		if (task.archived && !tq_row_take_archived(task_id, &task))
			continue;
		if (tq_state_enter(&call, queue, &task, &move))
			break;
	}
	tq_call_end(&call);
	PG_RETURN_VOID();
}
#endif

/*
 * A task that current_user may manage, live or finished.  TQ002 when there
 * is none, in the same words when the caller has no right on its queue.
 */
static TqQueue *
find_task(TqCall *call, int64 task_id, TqTask *task)
{
	TqQueue *queue;

	if (!tq_row_find(call, task_id, task) &&
		!tq_row_find_archived(task_id, task))
		tq_error_no_such_task(task_id);
	queue = tq_queue_by_id(task->f.queue_id);
	tq_look_require(queue, task_id, TQ_RIGHT_MANAGE);
	return queue;
}

static bool
request_stop(TqCall *call, TqQueue *queue, TqTask *task)
{
	if (task->isnull[TQ_COL_CANCEL_REQUESTED_AT])
		tq_task_set(task, TQ_COL_CANCEL_REQUESTED_AT,
					TimestampTzGetDatum(tq_clock_wall()));
	if (!tq_state_touch(call, queue, task))
		return false;
	tq_xact_ask(task->f.worker_id);
	return true;
}

/*
 * A deadline that has passed would end the task again at once, and somebody
 * wants it to run.
 */
static void
prepare_retry(TqTask *task, bool reset)
{
	if (reset)
	{
		task->f.attempt = 0;
		task->f.flags &= ~TQ_FLAG_WORKER_DIED;
	}
	if (TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND) <= tq_clock_wall())
		tq_task_clear(task, TQ_COL_DEADLINE);
}
