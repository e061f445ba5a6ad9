/*
 * state_hook.c
 *		Hooks of moves of steps: they refuse or redirect a move, and note work
 *		for the end of the call.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/error.h"
#include "engine/call.h"
#include "engine/failure.h"
#include "engine/key.h"
#include "engine/step.h"
#include "flow/instance/edge.h"
#include "flow/instance/flow.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/child.h"
#include "flow/run/choice.h"
#include "flow/run/failure_policy.h"
#include "flow/run/instance_lock.h"
#include "flow/run/key_preview.h"
#include "flow/run/move_queue.h"
#include "flow/run/repair.h"
#include "flow/run/state_hook.h"
#include "store/large.h"

static void  moving(TqCall *call, TqQueue *queue, TqTask *task,
					const TqMove *move, TqMoveAnswer *answer);
static void  moving_all(TqCall *call, const int64 *ids, const int64 *tokens,
						const TqInstanceLockKind *kinds, int count, int right);
static void  returning(TqCall *call, const TqTask *task);
static bool  leaves_its_wait(TqState from, const TqMove *move,
							 const TqMoveAnswer *answer);
static bool  is_left_by_hand(const TqMoveAnswer *answer);
static bool  may_be_held_back(TqState from, const TqMove *move,
							  const TqMoveAnswer *answer);
static bool  goes_back_with_key(const TqQueue *queue, const TqTask *task,
								const TqMoveAnswer *answer);
static bool  lock_instance(TqCall *call, const TqQueue *queue,
						   const TqFlow *flow, const TqStep *step,
						   const TqTask *task, const TqMove *move,
						   const TqMoveAnswer *answer, bool repairs);
static char *check_choice(const TqFlow *flow, const TqStep *step, TqTask *task,
						  const TqMove *move, TqMoveAnswer *answer);
static char *too_large(const TqFlow *flow, const TqStep *step,
					   const TqChoice *choice);
static void  cancel_child(TqCall *call, const TqTask *task);
static void  hold_back(TqTask *task, const TqMove *move, TqMoveAnswer *answer);
static void  moved(TqCall *call, TqTask *task, TqState from,
				   const TqMoveAnswer *answer);

void
tq_state_hook_init(void)
{
	tq_step_hooks.returning = returning;
	tq_step_hooks.moving_all = moving_all;
	tq_step_hooks.moving = moving;
	tq_step_hooks.moved = moved;
}

/* Called before a step is moved. */
static void
moving(TqCall *call, TqQueue *queue, TqTask *task, const TqMove *move,
	   TqMoveAnswer *answer)
{
	TqState from = (TqState) task->f.state;
	bool    repairs = !TQ_STATE_IS_LIVE(from) ||
				   leaves_its_wait(from, move, answer) ||
				   may_be_held_back(from, move, answer);
	bool locks = !tq_call_steps_are_locked(call) &&
				 (repairs || !TQ_STATE_IS_LIVE(answer->to) ||
				  goes_back_with_key(queue, task, answer));
	const TqStep *step = NULL;
	char         *wrong = NULL;
	TqFlow        flow;

	if (locks || answer->to == TQ_STATE_DONE)
		step = tq_flow_step_of(task, &flow);
	if (step != NULL && answer->to == TQ_STATE_DONE)
		wrong = check_choice(&flow, step, task, move, answer);
	if (step != NULL && locks &&
		!lock_instance(call, queue, &flow, step, task, move, answer, repairs))
	{
		answer->refused = true;
		return;
	}
	if (wrong != NULL)
		tq_choice_warn_wrong(&flow, step, task->f.task_id, wrong);
	if (!TQ_STATE_IS_LIVE(from))
		tq_repair(call, task, move, answer);
	else if (leaves_its_wait(from, move, answer))
		tq_repair_waiting(task, move, answer);
	if (may_be_held_back(from, move, answer))
		hold_back(task, move, answer);
	if (from == TQ_STATE_SUSPENDED && is_left_by_hand(answer))
		cancel_child(call, task);
}

/* Does the step stop waiting for an instance because of a call? */
static bool
is_left_by_hand(const TqMoveAnswer *answer)
{
	return answer->to == TQ_STATE_CANCELLED ||
		   (!TQ_STATE_IS_LIVE(answer->to) &&
			(answer->reason == TQ_REASON_MANUAL ||
			 answer->reason == TQ_REASON_POISON));
}

/* Does a call suspend, resolve or begin a step that waits for its parents? */
static bool
leaves_its_wait(TqState from, const TqMove *move, const TqMoveAnswer *answer)
{
	return from == TQ_STATE_BLOCKED && !move->flow.released &&
		   !move->key.in_line &&
		   (answer->to == TQ_STATE_SUSPENDED || answer->to == TQ_STATE_DONE ||
			answer->to == TQ_STATE_PENDING);
}

/* Does a call, and not the end of another step, make the step pending? */
static bool
may_be_held_back(TqState from, const TqMove *move, const TqMoveAnswer *answer)
{
	return answer->to == TQ_STATE_PENDING && from != TQ_STATE_RUNNING &&
		   !move->flow.released && !move->key.in_line;
}

/*
 * Does the move lock a key?  A request to stop may arrive at that moment, so
 * that the step ends instead; the call notices this only when it reads the row
 * again.
 */
static bool
goes_back_with_key(const TqQueue *queue, const TqTask *task,
				   const TqMoveAnswer *answer)
{
	return task->f.state == TQ_STATE_RUNNING && TQ_STATE_IS_LIVE(answer->to) &&
		   !task->isnull[TQ_COL_KEY] && tq_key_is_ordered(queue);
}

/* Returns false if the lock required a wait: the step must be read again. */
static bool
lock_instance(TqCall *call, const TqQueue *queue, const TqFlow *flow,
			  const TqStep *step, const TqTask *task, const TqMove *move,
			  const TqMoveAnswer *answer, bool repairs)
{
	TqMoved end = {.step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]),
				   .to = answer->to};
	TqInstanceLockKind kind = TQ_FLOW_LOCK_END;

	if (repairs)
		kind = TQ_FLOW_LOCK_REPAIR;
	else if (TQ_STEP_COMPENSATES(end.step_id) ||
			 !tq_failure_policy_counts_as_finished(flow, &end))
		kind = TQ_FLOW_LOCK_FAILURE;
	if (tq_instance_lock_acquire(call, flow, step, kind))
		return false;
	if (is_left_by_hand(answer) && step->type == TQ_STEP_WORKFLOW)
		tq_key_preview_note_child(call, task->f.task_id);
	/*
	 * lock the step's own key together with these keys; a call that must not
	 * wait locks them later
	 */
	if (call->keys != NULL && call->keys->ahead != NIL)
	{
		if (!move->no_wait)
			tq_key_lock_task(call, queue, task);
		call->keys->ahead = NIL;
	}
	return true;
}

/* Called before key and row of the step are locked. */
static void
returning(TqCall *call, const TqTask *task)
{
	const TqStep *step;
	TqFlow        flow;

	step = tq_flow_step_of(task, &flow);
	if (step == NULL)
		return;
	(void) tq_instance_lock_acquire(call, &flow, step, TQ_FLOW_LOCK_REPAIR);
	if (step->type == TQ_STEP_WORKFLOW)
		tq_key_preview_note_child(call, task->f.task_id);
}

/* Lock the instances of a list; they stay locked until the next list. */
static void
moving_all(TqCall *call, const int64 *ids, const int64 *tokens,
		   const TqInstanceLockKind *kinds, int count, int right)
{
	tq_instance_lock_acquire_all(call, ids, tokens, kinds, count, right);
	tq_call_steps(call)->locked = true;
}

/*
 * Reject a decision or batch whose result is invalid, and return a description
 * of the problem.  If the result was given by hand, raise an error instead.
 */
static char *
check_choice(const TqFlow *flow, const TqStep *step, TqTask *task,
			 const TqMove *move, TqMoveAnswer *answer)
{
	TqChoice choice;
	Datum    value;
	Jsonb   *result = NULL;
	char    *wrong;

	if (!tq_step_chooses(step->type))
		return NULL;
	/*
	 * It was filtered: it has chosen no step, and its end has been processed.
	 */
	if (task->f.state == TQ_STATE_FILTERED)
		tq_error_invalid_transition(task->f.task_id, TQ_STATE_FILTERED,
									move->wanted);
	if (tq_large_get(task, TQ_COL_RESULT, &value))
		result = DatumGetJsonbP(value);
	if (result == NULL &&
		(move->reason == TQ_REASON_MANUAL || step->type == TQ_STEP_BATCH))
		return NULL;
	wrong = result == NULL
				? "a decision must have a result"
				: tq_choice_read(flow->template,
								 (int) (step - flow->template->steps), result,
								 &choice);
	if (wrong == NULL)
		wrong = tq_choice_exceeds(step, &choice);
	if (wrong == NULL)
		wrong = too_large(flow, step, &choice);
	if (wrong == NULL)
		return NULL;
	if (move->reason == TQ_REASON_MANUAL)
		tq_choice_refuse(step, task->f.task_id, wrong);
	tq_failure_add_error(task, wrong, NULL, NULL);
	tq_large_drop(task, TQ_COL_RESULT);
	answer->to = TQ_STATE_DEAD;
	answer->reason = TQ_REASON_REJECTED;
	answer->end = TQ_END_FAILURE;
	return wrong;
}

/*
 * Returns a part that is too large to be the payload of its member, or NULL if
 * there is no such part.
 */
static char *
too_large(const TqFlow *flow, const TqStep *step, const TqChoice *choice)
{
	const TqStep *worker = step;
	TqQueue      *queue;
	int           largest;

	for (int i = 0; i < step->children.count; i++)
	{
		const TqStep *child = &flow->template->steps[step->children.places[i]];

		if (child->type == TQ_STEP_BATCH_WORKER)
			worker = child;
	}
	queue = tq_queue_find(worker->queue);
	largest = queue != NULL ? queue->options.max_payload
							: tq_queue_defaults()->max_payload;
	for (int i = 0; i < choice->member_count; i++)
	{
		if (VARSIZE(choice->members[i]) > largest)
			return psprintf(
				"batches[%d] of %u bytes exceeds the limit of queue \"%s\", "
				"%d bytes",
				i, VARSIZE(choice->members[i]), worker->queue, largest);
	}
	return NULL;
}

/* A step that stops waiting for an instance cancels that instance. */
static void
cancel_child(TqCall *call, const TqTask *task)
{
	const TqStep *step;
	TqFlow        flow;

	step = tq_flow_step_of(task, &flow);
	if (step != NULL && step->type == TQ_STEP_WORKFLOW &&
		tq_waiting_step_is(task))
		(void) tq_child_cancel(call, task->f.task_id);
}

/*
 * A step does not become pending while one of its parents has not ended, and a
 * step without a worker never becomes pending.  Such a step becomes blocked
 * instead, and is checked like a step whose last parent has ended.  The same
 * check is made for a blocked step that no longer waits for a parent; no
 * sequence of calls should leave such a step behind.  A blocked step that
 * waits for other steps is refused.
 */
static void
hold_back(TqTask *task, const TqMove *move, TqMoveAnswer *answer)
{
	int64         workflow_id = DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]);
	int32         step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	bool          blocked = task->f.state == TQ_STATE_BLOCKED;
	bool          waits;
	const TqStep *step;
	TransactionId other;
	TqEdges       edges;
	TqFlow        flow;

	step = tq_flow_step_of(task, &flow);
	tq_edge_begin(&edges);
	waits = tq_edge_left(&edges, workflow_id, step_id, 0, &other) !=
			TQ_LEFT_NONE;
	tq_edge_end(&edges);
	if (blocked && waits)
		tq_error_invalid_transition(task->f.task_id, TQ_STATE_BLOCKED,
									move->wanted);
	if (blocked || waits || (step != NULL && step->wait != NULL))
		answer->to = TQ_STATE_BLOCKED;
}

/* Called after a step was moved. */
static void
moved(TqCall *call, TqTask *task, TqState from, const TqMoveAnswer *answer)
{
	TqState to = (TqState) task->f.state;
	bool    waits = to == TQ_STATE_BLOCKED &&
				 (task->f.flags & TQ_FLAG_IN_LINE) == 0;

	if ((from == to && !waits) ||
		(TQ_STATE_IS_LIVE(from) && TQ_STATE_IS_LIVE(to) && !waits &&
		 !answer->revived))
		return;
	tq_move_queue_note(
		call, DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]), task->f.task_id,
		DatumGetInt32(task->value[TQ_COL_STEP_ID]), from, to, answer->revived);
}
