/*
 * undo_choice.c
 *		Undoes the choice of a decision or batch, for another attempt.
 *
 * The steps that would not exist without the choice are removed, together with
 * their edges: its children, the members, and all steps created because of
 * them.  No such step has begun, so no work is discarded, and the next choice
 * creates its own steps.  The history of the removed steps remains, and shows
 * that they were removed.
 *
 * The caller has locked the instance exclusively (instance_lock.c), and the
 * keys of all of its steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"

#include "base/error.h"
#include "engine/history.h"
#include "engine/key.h"
#include "engine/state.h"
#include "flow/instance/flow.h"
#include "flow/instance/step_rule.h"
#include "flow/run/move_queue.h"
#include "flow/run/signal.h"
#include "flow/run/step_plan.h"
#include "flow/run/undo_choice.h"
#include "store/archive.h"
#include "store/large.h"
#include "store/snapshot.h"

static TqPlanView *find_what_stays(TqFlow *flow, TqUndo *all,
								   const bool *below);
static TqStepRow  *find_chosen(const TqUndo *all, const TqPlanView *known,
							   const bool *below, int *count);
static void        note_edges(const TqTemplate *template, TqUndo *all,
							  const TqPlanView *known, const TqStepRow *made,
							  TqNewEdges *edges);
static bool take_back(TqCall *call, const TqFlow *flow, const TqStepRow *made);
static bool take_row(TqCall *call, TqTask *task);
static int  compare_tasks(const void *a, const void *b);

/*
 * Undo the choices of steps that wait again. below: by index, the steps that
 * come after them.  Returns false if a chosen step has begun; then the
 * transaction must not continue.
 */
bool
tq_undo_choice(TqCall *call, TqFlow *flow, TqUndo *all, const bool *below)
{
	TqPlanView *known = find_what_stays(flow, all, below);
	TqNewEdges  edges = {0};
	int         count;
	TqStepRow  *chosen = find_chosen(all, known, below, &count);

	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!take_back(call, flow, &chosen[i]))
			return false;
		all->gone[TQ_STEP_INDEX(chosen[i].step_id)] = true;
		note_edges(flow->template, all, known, &chosen[i], &edges);
	}
	tq_edge_remove(flow->workflow_id, &edges);
	tq_signal_check_again(flow, below);
	pfree(chosen);
	return true;
}

static TqPlanView *
find_what_stays(TqFlow *flow, TqUndo *all, const bool *below)
{
	TqPlanView *known = tq_step_plan_nothing(flow->template);

	if (all->made == NULL)
		all->count = tq_flow_steps(flow, &all->made);
	for (int i = 0; i < all->count; i++)
	{
		if (!all->gone[TQ_STEP_INDEX(all->made[i].step_id)])
			tq_step_plan_note(known, &all->made[i]);
	}
	/* a step that is being made to wait again has no row at the moment */
	for (int i = 0; i < flow->template->step_count; i++)
	{
		known->exists[i] = known->exists[i] ||
						   (all->again[i] && !all->gone[i]);
		known->ended[i] = known->ended[i] && !all->again[i];
	}
	tq_step_plan_without(flow, known, below);
	return known;
}

/*
 * Change the steps in the order of their task ids, like every call that
 * changes several steps.
 */
static TqStepRow *
find_chosen(const TqUndo *all, const TqPlanView *known, const bool *below,
			int *count)
{
	TqStepRow *chosen =
		palloc_extended(sizeof(TqStepRow) * (all->count + 1), MCXT_ALLOC_HUGE);

	*count = 0;
	for (int i = 0; i < all->count; i++)
	{
		int at = TQ_STEP_INDEX(all->made[i].step_id);

		if (below[at] && !known->exists[at] && !all->gone[at])
			chosen[(*count)++] = all->made[i];
	}
	if (*count > 1)
		qsort(chosen, *count, sizeof(TqStepRow), compare_tasks);
	return chosen;
}

/*
 * Note the edges of a removed step.  If another choice has made a step that
 * depends on the removed step, that step waits for it again as if it had not
 * been made yet.
 */
static void
note_edges(const TqTemplate *template, TqUndo *all, const TqPlanView *known,
		   const TqStepRow *made, TqNewEdges *edges)
{
	const TqStep *step = tq_template_at(template, made->step_id);
	bool          had_ended =
		tq_step_rule_is_passed(template, made->step_id, made->state) ||
		all->again[TQ_STEP_INDEX(made->step_id)];

	for (int i = 0; i < step->children.count; i++)
	{
		int child = step->children.places[i];

		if (!known->exists[child])
			tq_edge_note(edges, child, made->step_id);
		else if (had_ended)
			tq_edge_note(&all->kept, child, made->step_id);
	}
	if (step->ends)
		tq_edge_note(edges, TQ_EDGE_END, made->step_id);
}

/* Remove a step.  Returns false if it has begun. */
static bool
take_back(TqCall *call, const TqFlow *flow, const TqStepRow *made)
{
	const TqStep *step = tq_template_at(flow->template, made->step_id);
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq undo", ALLOCSET_DEFAULT_SIZES);
	bool   taken = false;
	bool   begun = false;
	TqTask task;

	/* the instance lock keeps other transactions from removing it */
	while (!taken && !begun)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(one);
		MemoryContextSwitchTo(one);
		tq_snapshot_renew();
		if (!tq_archive_find_any(call, made->task_id, &task))
		{
			if (IsolationUsesXactSnapshot())
				tq_error_serialization();
			MemoryContextSwitchTo(mine);
			break;
		}
		begun = tq_step_rule_has_begun(
			step, (TqState) task.f.state, (TqReason) task.f.reason,
			task.f.token != 0, (task.f.flags & TQ_FLAG_WAITED) != 0);
		if (!begun)
		{
			TqState from = (TqState) task.f.state;

			taken = take_row(call, &task);
			MemoryContextSwitchTo(call->context);
			/* a failure no longer counts */
			if (taken && !TQ_STATE_IS_LIVE(from))
				tq_move_queue_note(call, flow->workflow_id, made->task_id,
								   made->step_id, from, 0, false);
		}
		MemoryContextSwitchTo(mine);
	}
	MemoryContextDelete(one);
	return !begun;
}

/* Returns false if the row has changed since it was read. */
static bool
take_row(TqCall *call, TqTask *task)
{
	TqQueue *queue = tq_queue_by_id(task->f.queue_id);
	TqState  from = (TqState) task->f.state;

	if (queue != NULL)
		tq_key_lock_task(call, queue, task);
	else if (!task->archived)
		tq_error_serialization();
	if (!task->archived)
	{
		if (!tq_state_remove(call, queue, task))
			return false;
	}
	else if (!tq_archive_take(task))
	{
		if (IsolationUsesXactSnapshot())
			tq_error_serialization();
		return false;
	}
	else
	{
		tq_large_remove_all(task->f.task_id);
		tq_state_forget(call, queue, task);
	}
	task->f.reason = TQ_REASON_NONE;
	task->new_message = false;
	tq_history_write(call, task, from);
	return true;
}

static int
compare_tasks(const void *a, const void *b)
{
	int64 one = ((const TqStepRow *) a)->task_id;
	int64 other = ((const TqStepRow *) b)->task_id;

	return one < other ? -1 : one > other;
}
