/*
 * advance_choose.c
 *		Makes the steps that decisions and batches have chosen.
 *
 * This runs under the edge lock, before the edges of ended steps are deleted,
 * because the chosen steps must exist by then.  If a choice has to wait for a
 * transaction, no edge has been deleted yet, and all ends are processed again
 * after the wait.
 *
 * While the lock is held, the steps of the instance are read only once.
 * Whether a failure holds up choices is also determined only once, until a
 * move may have changed it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "flow/advance/advance_choose.h"
#include "flow/instance/failed_step.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/instance/step_rule.h"
#include "flow/run/choice.h"
#include "flow/run/failure_policy.h"
#include "flow/run/step_make.h"
#include "flow/run/step_plan.h"

static bool changes_failures(const TqMoved *end);
static void note_choice(const TqAdvance *a, const TqMoved *end,
						TqAdvanceChoices *choices);
static bool is_choice(const TqAdvance *a, const TqMoved *end);
static bool make_all_choices(TqAdvance *a, const List *ends,
							 TqAdvanceChoices *choices, TqChildLooks *looks,
							 TransactionId *blocked_by);
static bool make_choice(TqAdvance *a, const TqMoved *end,
						TqAdvanceChoices *choices, TqChildLooks *looks,
						TransactionId *blocked_by);
static bool is_held_up(const TqAdvance *a, int32 near,
					   TqAdvanceChoices *choices);

/*
 * Returns false if the call must wait for the transaction *blocked_by.  Adds
 * the steps that can begin to looks.
 */
bool
tq_advance_choose(TqAdvance *a, const List *ends, TqAdvanceChoices *choices,
				  TqChildLooks *looks, TransactionId *blocked_by)
{
	ListCell *cell;

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	foreach (cell, ends)
		choices->asked = choices->asked && !changes_failures(lfirst(cell));
	if ((choices->again || (tq_step_rule_stops(&a->flow) &&
							tq_failure_policy_is_repaired(ends))) &&
		!make_all_choices(a, ends, choices, looks, blocked_by))
		return false;
	choices->again = false;
	foreach (cell, ends)
		note_choice(a, lfirst(cell), choices);
	foreach (cell, ends)
	{
		if (!make_choice(a, lfirst(cell), choices, looks, blocked_by))
			return false;
	}
	/* these ends are not processed again after this point */
	foreach (cell, ends)
	{
		const TqMoved *end = lfirst(cell);

		if (is_choice(a, end))
			tq_choice_note_large(&choices->large, a->flow.template,
								 TQ_STEP_INDEX(end->step_id), end->task_id);
	}
	return true;
}

static bool
changes_failures(const TqMoved *end)
{
	TqState states[] = {end->from, end->to};

	for (int i = 0; i < lengthof(states); i++)
	{
		if (!TQ_STATE_IS_LIVE(states[i]) && states[i] != TQ_STATE_DONE &&
			states[i] != TQ_STATE_FILTERED)
			return true;
	}
	return false;
}

static void
note_choice(const TqAdvance *a, const TqMoved *end, TqAdvanceChoices *choices)
{
	if (is_choice(a, end))
		choices->to_come =
			bms_add_member(choices->to_come, TQ_STEP_INDEX(end->step_id));
}

static bool
is_choice(const TqAdvance *a, const TqMoved *end)
{
	TqStepType type =
		a->flow.template->steps[TQ_STEP_INDEX(end->step_id)].type;

	return (end->to == TQ_STATE_DONE || end->to == TQ_STATE_FILTERED) &&
		   tq_step_chooses(type);
}

/*
 * Make the choices of all steps that have ended, unless a failure holds them
 * up: earlier calls may not have made all steps of a choice.
 */
static bool
make_all_choices(TqAdvance *a, const List *ends, TqAdvanceChoices *choices,
				 TqChildLooks *looks, TransactionId *blocked_by)
{
	const TqMoved *moved = ends == NIL ? NULL : linitial(ends);
	TqStepRow     *made;
	TqMoved       *all;
	int            count;

	if (is_held_up(a, moved == NULL ? 0 : moved->step_id, choices))
	{
		choices->view = NULL;
		return true;
	}
	count = tq_flow_steps(&a->flow, &made);
	all = palloc0(sizeof(TqMoved) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		all[i].workflow_id = a->flow.workflow_id;
		all[i].task_id = made[i].task_id;
		all[i].step_id = made[i].step_id;
		all[i].to = made[i].state;
		note_choice(a, &all[i], choices);
	}
	for (int i = 0; i < count; i++)
	{
		if (!make_choice(a, &all[i], choices, looks, blocked_by))
			return false;
	}
	return true;
}

/*
 * If end is a choice, make those of its steps that do not exist.  When a call
 * makes several choices, each choice treats the later choices as not made yet.
 */
static bool
make_choice(TqAdvance *a, const TqMoved *end, TqAdvanceChoices *choices,
			TqChildLooks *looks, TransactionId *blocked_by)
{
	TqPlan     plan = {0};
	TqChoice   choice;
	Bitmapset *made = NULL;
	int        place = TQ_STEP_INDEX(end->step_id);
	char      *wrong;

	if (!is_choice(a, end))
		return true;
	choices->to_come = bms_del_member(choices->to_come, place);
	if (is_held_up(a, end->step_id, choices))
	{
		choices->view = NULL;
		return true;
	}
	wrong = tq_choice_read(a->flow.template, place,
						   tq_results_of_step(end->task_id), &choice);
	/* the result was checked when the step ended */
	if (wrong != NULL)
		tq_choice_refuse(&a->flow.template->steps[place], end->task_id, wrong);
	if (choices->view == NULL)
		choices->view = tq_step_plan_known(&a->flow, choices->to_come);
	if (!tq_step_plan_after(&a->flow, choices->view, &a->edges, place, &choice,
							choices->to_come, &plan, blocked_by))
		return false;
	tq_step_make_all(a->call, &a->flow, plan.steps, plan.count, &plan.edges);
	for (int i = 0; i < plan.count; i++)
	{
		made = bms_add_member(made, TQ_STEP_INDEX(plan.steps[i].step_id));
		if (!plan.steps[i].free || plan.steps[i].decides)
			tq_move_queue_add_look(looks, plan.steps[i].step_id, 0);
	}
	tq_failure_policy_forget_cancelled(&a->flow, &a->edges, made);
	return true;
}

/*
 * Does a failure keep choices from making steps?  The search for one begins at
 * the step near.
 */
static bool
is_held_up(const TqAdvance *a, int32 near, TqAdvanceChoices *choices)
{
	if (!tq_step_rule_stops(&a->flow))
		return false;
	if (!choices->asked)
		choices->held_up = tq_failed_step_any(&a->flow, TQ_ALL_PLACES, near);
	choices->asked = true;
	return choices->held_up;
}
