/*
 * manage.c
 *		Changes of one task by an operator: taskq_cancel, taskq_retry,
 *		taskq_recreate, taskq_resolve, taskq_hold, taskq_poison,
 *		taskq_unpoison.
 *
 * Each function reads the task, prepares the row and its move, and calls
 * tq_state_enter.  If the row has changed in between, it starts again with a
 * new snapshot.  The table of moves (state.c) and the stricter actions[] say
 * which states an action applies to.
 *
 * Poison is a reason of a dead task.  The reason that the task had before is
 * kept in the upper bits of its flags.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "cache/role.h"
#include "command/manage.h"
#include "command/submit.h"
#include "engine/call.h"
#include "engine/history.h"
#include "engine/id.h"
#include "engine/key.h"
#include "engine/name_lock.h"
#include "engine/state.h"
#include "engine/step.h"
#include "store/archive.h"
#include "store/large.h"
#include "store/snapshot.h"
#include "xact/xact.h"

#define IN(state) (1 << (state))
#define WAITING (IN(TQ_STATE_PENDING) | IN(TQ_STATE_BLOCKED))
#define FINISHED                                                              \
	(IN(TQ_STATE_DONE) | IN(TQ_STATE_DEAD) | IN(TQ_STATE_CANCELLED) |         \
	 IN(TQ_STATE_FILTERED))
#define REMOVABLE                                                             \
	(WAITING | IN(TQ_STATE_SUSPENDED) | FINISHED | IN(TQ_STATE_REDUNDANT) |   \
	 IN(TQ_STATE_RECREATED))

/* States that an action applies to; with force also running tasks. */
static const struct
{
	int         states;
	bool        forcible;
	const char *wanted; /* "cannot ... task 7 because it is done" */
} actions[] = {
	[TQ_ACTION_CANCEL] = {WAITING | IN(TQ_STATE_SUSPENDED) |
							  IN(TQ_STATE_RUNNING),
						  true, "cancel"},
	[TQ_ACTION_RETRY] = {FINISHED | IN(TQ_STATE_SUSPENDED), true, "retry"},
	[TQ_ACTION_RECREATE] = {FINISHED | IN(TQ_STATE_SUSPENDED), false,
							"recreate"},
	[TQ_ACTION_RESOLVE] = {WAITING | IN(TQ_STATE_SUSPENDED) |
							   IN(TQ_STATE_DEAD) | IN(TQ_STATE_FILTERED),
						   true, "resolve"},
	[TQ_ACTION_HOLD] = {WAITING, false, "hold"},
	[TQ_ACTION_POISON] = {WAITING | IN(TQ_STATE_SUSPENDED) | IN(TQ_STATE_DEAD),
						  false, "poison"},
	[TQ_ACTION_UNPOISON] = {IN(TQ_STATE_DEAD), false, "unpoison"},
	[TQ_ACTION_DELETE] = {REMOVABLE, false, "delete"},
};

PG_FUNCTION_INFO_V1(taskq_cancel);
PG_FUNCTION_INFO_V1(taskq_retry);
PG_FUNCTION_INFO_V1(taskq_recreate);
PG_FUNCTION_INFO_V1(taskq_resolve);
PG_FUNCTION_INFO_V1(taskq_hold);
PG_FUNCTION_INFO_V1(taskq_poison);
PG_FUNCTION_INFO_V1(taskq_unpoison);
#ifdef TASKQ_DEBUG
PG_FUNCTION_INFO_V1(taskq_debug_move);
#endif

static void act_alone(FunctionCallInfo fcinfo, const char *function,
					  TqWish *wish);
static void lock_reference(TqCall *call, int64 task_id, const TqWish *wish);
static void lock_key(TqCall *call, TqQueue *queue, TqTask *task,
					 const TqWish *wish);
static bool may_repair(const TqQueue *queue, const TqTask *task,
					   TqAction action);
static void check_state(const TqTask *task, const TqWish *wish);
static bool is_so_already(const TqTask *task, const TqWish *wish);
static bool act(TqCall *call, TqQueue *queue, TqTask *task, TqWish *wish);
static bool request_stop(TqCall *call, TqQueue *queue, TqTask *task);
static void prepare_retry(TqTask *task, TqState state, const TqWish *wish,
						  TqMove *move);
static bool recreate(TqCall *call, TqQueue *queue, TqTask *task, TqWish *wish);
static bool poison(TqCall *call, TqQueue *queue, TqTask *task);
static void unpoison(TqCall *call, TqQueue *queue, TqTask *task);
static bool is_poison(const TqTask *task);

Datum
taskq_cancel(PG_FUNCTION_ARGS)
{
	TqWish wish = {TQ_ACTION_CANCEL};

	wish.message = tq_arg_message(fcinfo, 1);
	wish.force = tq_arg_bool(fcinfo, 2, false);
	act_alone(fcinfo, "taskq_cancel()", &wish);
	PG_RETURN_TEXT_P(
		cstring_to_text(wish.requested ? "requested" : "cancelled"));
}

Datum
taskq_retry(PG_FUNCTION_ARGS)
{
	TqWish wish = {TQ_ACTION_RETRY};

	wish.reset_given = !PG_ARGISNULL(1);
	wish.reset = tq_arg_bool(fcinfo, 1, false);
	wish.force = tq_arg_bool(fcinfo, 2, false);
	wish.message = tq_arg_message(fcinfo, 3);
	act_alone(fcinfo, "taskq_retry()", &wish);
	PG_RETURN_VOID();
}

Datum
taskq_recreate(PG_FUNCTION_ARGS)
{
	TqWish wish = {TQ_ACTION_RECREATE};

	wish.insertion = tq_submission_insertion(fcinfo, 1);
	wish.message = tq_arg_message(fcinfo, 2);
	act_alone(fcinfo, "taskq_recreate()", &wish);
	PG_RETURN_INT64(wish.recreated_as);
}

Datum
taskq_resolve(PG_FUNCTION_ARGS)
{
	TqWish wish = {TQ_ACTION_RESOLVE};

	wish.result = tq_arg_jsonb(fcinfo, 1);
	wish.message = tq_arg_message(fcinfo, 2);
	wish.force = tq_arg_bool(fcinfo, 3, false);
	act_alone(fcinfo, "taskq_resolve()", &wish);
	PG_RETURN_VOID();
}

Datum
taskq_hold(PG_FUNCTION_ARGS)
{
	TqWish wish = {TQ_ACTION_HOLD};

	wish.message = tq_arg_message(fcinfo, 1);
	act_alone(fcinfo, "taskq_hold()", &wish);
	PG_RETURN_VOID();
}

Datum
taskq_poison(PG_FUNCTION_ARGS)
{
	TqWish wish = {TQ_ACTION_POISON};

	wish.message = tq_arg_message(fcinfo, 1);
	act_alone(fcinfo, "taskq_poison()", &wish);
	PG_RETURN_VOID();
}

Datum
taskq_unpoison(PG_FUNCTION_ARGS)
{
	TqWish wish = {TQ_ACTION_UNPOISON};

	wish.message = tq_arg_message(fcinfo, 1);
	act_alone(fcinfo, "taskq_unpoison()", &wish);
	PG_RETURN_VOID();
}

#ifdef TASKQ_DEBUG
/* Move a task with tq_state_enter: tests try all pairs of states. */
Datum
taskq_debug_move(PG_FUNCTION_ARGS)
{
	int64   task_id = tq_arg_int8(fcinfo, 0, "task_id");
	char   *word = tq_arg_keyword(fcinfo, 1, "state");
	TqState to;
	TqCall  call;

	if (word == NULL || !tq_state_parse(word, &to))
		tq_error_invalid("state", "is unknown", tq_state_words());
	for (tq_call_begin(&call, "taskq.debug_move()");; tq_snapshot_renew())
	{
		TqTask   task;
		TqQueue *queue = tq_manage_find(&call, task_id, &task);
		TqMove   move = {0};

		move.to = to;
		move.wanted = "move";
		move.claimed_at = tq_clock_dispatch();
		move.lease_until = DT_NOEND;
		if (task.archived && tq_step_is(&task))
			tq_step_hooks.returning(&call, &task);
		if (task.archived)
			tq_key_lock_task(&call, queue, &task);
		if (task.archived && !tq_archive_take(&task))
			continue;
		if (tq_state_enter(&call, queue, &task, &move))
			break;
	}
	tq_call_end(&call);
	PG_RETURN_VOID();
}
#endif

/*
 * Find a task, live or finished, that current_user may manage.  Raises TQ002
 * if there is no such task, with the same message if the caller has no right
 * on its queue.
 */
TqQueue *
tq_manage_find(TqCall *call, int64 task_id, TqTask *task)
{
	TqQueue *queue;

	if (!tq_archive_find_any(call, task_id, task))
		tq_error_no_such_task(task_id);
	queue = tq_queue_by_id(task->f.queue_id);
	tq_role_require_task(queue, task_id, TQ_RIGHT_MANAGE);
	return queue;
}

/*
 * Apply the action to a task, or raise an error if that is not possible.  The
 * caller may want to change it only in the version that wish->still accepts.
 * If the action can make a finished task live, the caller holds the lock of
 * tq_queue_lock_insertions, so that its queue cannot be dropped concurrently.
 */
void
tq_manage_act(TqCall *call, int64 task_id, TqWish *wish)
{
	for (;; tq_snapshot_renew())
	{
		TqTask   task;
		TqQueue *queue = tq_manage_find(call, task_id, &task);

		wish->skipped = wish->still != NULL && !wish->still(&task, wish->arg);
		if (wish->skipped || tq_manage_try(call, queue, &task, wish))
			return;
	}
}

/*
 * Apply the action to a task that was just read.  Returns false if the task
 * has changed since.
 */
bool
tq_manage_try(TqCall *call, TqQueue *queue, TqTask *task, TqWish *wish)
{
	check_state(task, wish);
	if (wish->action == TQ_ACTION_RECREATE || wish->action == TQ_ACTION_DELETE)
		tq_step_refuse(task, actions[wish->action].wanted);
	if (is_so_already(task, wish))
	{
		wish->requested = wish->action == TQ_ACTION_CANCEL;
		return true;
	}
	if (!tq_call_steps_are_locked(call) &&
		may_repair(queue, task, wish->action))
	{
		tq_step_hooks.returning(call, task);
		tq_key_lock_task(call, queue, task);
		tq_call_steps(call)->locked = true;
	}
	lock_key(call, queue, task, wish);
	if (task->archived && wish->in_bulk &&
		(wish->action == TQ_ACTION_RETRY ||
		 wish->action == TQ_ACTION_RECREATE))
		tq_submit_refuse_taken(queue, task);
	if (task->archived && !tq_archive_take(task))
		return false;
	return act(call, queue, task, wish);
}

static void
lock_key(TqCall *call, TqQueue *queue, TqTask *task, const TqWish *wish)
{
	if (task->archived || wish->action == TQ_ACTION_RECREATE)
		tq_key_lock_task(call, queue, task);
	if (wish->insertion != TQ_INSERTION_APPEND && !task->isnull[TQ_COL_KEY])
		(void) tq_key_lock(call, queue->queue_id, task->value[TQ_COL_KEY]);
}

/*
 * Must the locks of the step's instance and of its key be taken first?  A step
 * that is retried or resolved may have finished while the session waited for
 * them.  A step that is put on hold may have to wait for other tasks of its
 * key when it resumes.
 */
static bool
may_repair(const TqQueue *queue, const TqTask *task, TqAction action)
{
	if (!tq_step_is(task))
		return false;
	if (action == TQ_ACTION_HOLD)
		return !task->isnull[TQ_COL_KEY] && tq_key_is_ordered(queue);
	return action == TQ_ACTION_RETRY || action == TQ_ACTION_RESOLVE;
}

static void
act_alone(FunctionCallInfo fcinfo, const char *function, TqWish *wish)
{
	int64  task_id = tq_arg_int8(fcinfo, 0, "task_id");
	TqCall call;

	tq_call_begin(&call, function);
	if (wish->action == TQ_ACTION_RETRY || wish->action == TQ_ACTION_RECREATE)
	{
		tq_queue_lock_insertions();
		tq_snapshot_renew();
		lock_reference(&call, task_id, wish);
		tq_snapshot_renew();
	}
	tq_manage_act(&call, task_id, wish);
	tq_call_end(&call);
}

/*
 * Lock the reference that a live task gets, before the row is locked: a list
 * that has this lock, and a live task with the reference, may need the row.
 * Lists lock keys before references.
 */
static void
lock_reference(TqCall *call, int64 task_id, const TqWish *wish)
{
	TqTask     task;
	TqQueue   *queue = tq_manage_find(call, task_id, &task);
	Bitmapset *names;

	if (task.isnull[TQ_COL_REFERENCE] ||
		(wish->action == TQ_ACTION_RETRY && !task.archived))
		return;
	lock_key(call, queue, &task, wish);
	names = tq_name_lock_add(
		NULL, TextDatumGetCString(task.value[TQ_COL_REFERENCE]));
	tq_name_lock(TQ_NAME_REFERENCE, names, NULL);
}

/* Raise TQ005 if the action does not apply to tasks in that state. */
static void
check_state(const TqTask *task, const TqWish *wish)
{
	TqState state = (TqState) task->f.state;
	bool    allowed = (actions[wish->action].states & IN(state)) != 0;

	if (state == TQ_STATE_RUNNING && actions[wish->action].forcible &&
		wish->force)
		allowed = true;
	/* a step that waits for no other task; its workflow decides */
	if (state == TQ_STATE_BLOCKED && wish->action == TQ_ACTION_RETRY)
		allowed = tq_step_is(task) && (task->f.flags & TQ_FLAG_IN_LINE) == 0;
	if (wish->action == TQ_ACTION_UNPOISON && !is_poison(task))
		allowed = false;
	if (wish->in_bulk && wish->action == TQ_ACTION_RETRY && is_poison(task))
		allowed = false;
	if (allowed)
		return;
	if (state == TQ_STATE_RUNNING && actions[wish->action].forcible &&
		!wish->in_bulk)
		tq_error_needs_force(task->f.task_id, actions[wish->action].wanted);
	tq_error_invalid_transition(task->f.task_id, state,
								actions[wish->action].wanted);
}

/* Returns false if the row has changed since it was read. */
static bool
act(TqCall *call, TqQueue *queue, TqTask *task, TqWish *wish)
{
	TqMove move = {0};

	move.wanted = actions[wish->action].wanted;
	move.reason = TQ_REASON_MANUAL;
	if (!wish->automatic)
		tq_history_mark(task, wish->message);
	switch (wish->action)
	{
		case TQ_ACTION_CANCEL:
			wish->requested = task->f.state == TQ_STATE_RUNNING &&
							  !wish->force;
			if (wish->requested)
				return request_stop(call, queue, task);
			move.to = TQ_STATE_CANCELLED;
			break;
		case TQ_ACTION_RETRY:
			prepare_retry(task, (TqState) task->f.state, wish, &move);
			break;
		case TQ_ACTION_RECREATE:
			return recreate(call, queue, task, wish);
		case TQ_ACTION_RESOLVE:
			if (wish->result != NULL)
			{
				tq_submission_check_size(queue, "result",
										 VARSIZE(wish->result));
				tq_large_put(task, TQ_COL_RESULT,
							 JsonbPGetDatum(wish->result));
			}
			move.to = TQ_STATE_DONE;
			break;
		case TQ_ACTION_HOLD:
			move.to = TQ_STATE_SUSPENDED;
			move.reason = TQ_REASON_HELD;
			break;
		case TQ_ACTION_POISON:
			return poison(call, queue, task);
		case TQ_ACTION_UNPOISON:
			unpoison(call, queue, task);
			return true;
		case TQ_ACTION_DELETE:
			if (!task->archived)
				return tq_state_remove(call, queue, task);
			tq_large_remove_all(task->f.task_id);
			tq_state_forget(call, queue, task);
			return true;
	}
	return tq_state_enter(call, queue, task, &move);
}

/*
 * Has the task already been asked to stop, or marked as poison, with the same
 * message?  If its id occurs many times in a list, rewriting the row each time
 * would become more and more expensive.
 */
static bool
is_so_already(const TqTask *task, const TqWish *wish)
{
	bool asked = wish->action == TQ_ACTION_CANCEL && !wish->force &&
				 task->f.state == TQ_STATE_RUNNING &&
				 !task->isnull[TQ_COL_CANCEL_REQUESTED_AT];
	char *message;

	if (!asked && !(wish->action == TQ_ACTION_POISON && is_poison(task)))
		return false;
	if (wish->message == NULL)
		return true;
	if (task->isnull[TQ_COL_MESSAGE])
		return false; /* no message, or a large one */
	message = TextDatumGetCString(task->value[TQ_COL_MESSAGE]);
	return strcmp(message, wish->message) == 0;
}

static bool
request_stop(TqCall *call, TqQueue *queue, TqTask *task)
{
	if (task->isnull[TQ_COL_CANCEL_REQUESTED_AT])
		tq_task_set(task, TQ_COL_CANCEL_REQUESTED_AT,
					TimestampTzGetDatum(tq_clock_wall()));
	if (!tq_state_touch(call, queue, task))
		return false;
	tq_xact_note(TQ_NOTE_STOP_TASKS, task->f.worker_id);
	return true;
}

/*
 * Make the task pending, immediately unless it was suspended and due later.  A
 * deadline that has passed is removed, since it would end the task again
 * immediately.
 */
static void
prepare_retry(TqTask *task, TqState state, const TqWish *wish, TqMove *move)
{
	move->to = TQ_STATE_PENDING;
	move->reason = TQ_REASON_NONE;
	if (state == TQ_STATE_SUSPENDED && task->i.run_at > tq_clock_dispatch())
		move->due_at = task->i.run_at;
	if (wish->reset_given ? wish->reset : !TQ_STATE_IS_LIVE(state))
	{
		task->f.attempt = 0;
		task->f.flags &= ~TQ_FLAG_WORKER_DIED;
	}
	task->f.flags &= ~(TQ_FLAG_REASONS | TQ_FLAG_CRASHES);
	if (TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND) <= tq_clock_wall())
		tq_task_clear(task, TQ_COL_DEADLINE);
	if (task->f.max_attempts != -1 && task->f.attempt >= task->f.max_attempts)
		ereport(ERROR, (errcode(ERRCODE_TQ_INVALID_TRANSITION),
						errmsg("cannot retry task " INT64_FORMAT
							   " because it has no attempts left",
							   task->f.task_id),
						errdetail("{\"task_id\": " INT64_FORMAT
								  ", \"state\": \"%s\"}",
								  task->f.task_id, tq_state_name(state)),
						errhint("Use reset_attempts => true.")));
}

/*
 * Move the old task first, since the new one takes over its reference.  Read
 * its contents before that, since the move may delete it.
 */
static bool
recreate(TqCall *call, TqQueue *queue, TqTask *task, TqWish *wish)
{
	TqSubmission sub = {0};
	TqMove       move = {0};
	Jsonb       *payload = tq_submission_again(&sub, queue, task);

	/* a call on many tasks must not run SQL that its role has not read */
	if (wish->in_bulk && (task->f.flags & TQ_FLAG_SQL) != 0)
		sub.run_as = task->i.run_as;
	sub.task_id = tq_id_next();
	tq_task_set(task, TQ_COL_RECREATED_AS, Int64GetDatum(sub.task_id));
	move.to = TQ_STATE_RECREATED;
	move.reason = TQ_REASON_MANUAL;
	move.wanted = actions[TQ_ACTION_RECREATE].wanted;
	if (wish->insertion != TQ_INSERTION_APPEND && sub.key == NULL)
		tq_error_invalid("insertion", "needs a task with a key", NULL);
	if (!tq_state_enter(call, queue, task, &move))
		return false;
	sub.insertion = wish->insertion;
	sub.by_hand = true;
	sub.message = wish->message;
	tq_submit_again(call, &sub, payload);
	wish->recreated_as = sub.task_id;
	return true;
}

static bool
poison(TqCall *call, TqQueue *queue, TqTask *task)
{
	TqMove move = {0};

	if (task->archived)
	{
		if (!is_poison(task))
			task->f.flags |= task->f.reason << TQ_FLAG_REASON_SHIFT;
		tq_state_annotate(call, queue, task, TQ_REASON_POISON);
		return true;
	}
	move.to = TQ_STATE_DEAD;
	move.reason = TQ_REASON_POISON;
	move.wanted = actions[TQ_ACTION_POISON].wanted;
	return tq_state_enter(call, queue, task, &move);
}

/*
 * Restore the reason the task died of before; without one, an operator has
 * marked a live task as poison.
 */
static void
unpoison(TqCall *call, TqQueue *queue, TqTask *task)
{
	int before = (task->f.flags & TQ_FLAG_REASONS) >> TQ_FLAG_REASON_SHIFT;

	task->f.flags &= ~TQ_FLAG_REASONS;
	tq_state_annotate(call, queue, task,
					  before == 0 ? TQ_REASON_MANUAL : (TqReason) before);
}

static bool
is_poison(const TqTask *task)
{
	return task->f.state == TQ_STATE_DEAD &&
		   task->f.reason == TQ_REASON_POISON;
}
