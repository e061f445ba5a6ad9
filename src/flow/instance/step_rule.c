/*
 * step_rule.c
 *		Rules for one step that follow from its template and its state.
 *
 * They read no table and take no lock, so that every file of flow can call
 * them under any lock: does a failure stop the instance, does a dead member
 * end or excuse its batch, has a step begun?
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "flow/instance/flow_types.h"
#include "flow/instance/step_rule.h"

/* Does a failure stop the whole instance? */
bool
tq_step_rule_stops(const TqFlow *flow)
{
	return flow->template->on_failure != TQ_ON_FAILURE_CONTINUE;
}

/* Is it a member of a batch that ends with the first dead member? */
bool
tq_step_rule_ends_batch(const TqTemplate *template, const TqStep *step)
{
	return step->type == TQ_STEP_BATCH_WORKER &&
		   template->steps[step->parents.places[0]].strategy ==
			   TQ_STRATEGY_FAIL_FAST;
}

/* Is it a member of a batch that succeeds without its dead members? */
bool
tq_step_rule_is_excused(const TqTemplate *template, int32 step_id)
{
	const TqStep *step = &template->steps[TQ_STEP_INDEX(step_id)];

	return step->type == TQ_STEP_BATCH_WORKER &&
		   template->steps[step->parents.places[0]].strategy ==
			   TQ_STRATEGY_CONTINUE;
}

/* Do its children run even if it is dead? */
bool
tq_step_rule_passes_on(const TqTemplate *template, int32 step_id)
{
	return template->steps[TQ_STEP_INDEX(step_id)].continues ||
		   tq_step_rule_is_excused(template, step_id);
}

/* Does a step in this state no longer hold up its children? */
bool
tq_step_rule_is_passed(const TqTemplate *template, int32 step_id,
					   TqState state)
{
	return state == TQ_STATE_DONE || state == TQ_STATE_FILTERED ||
		   (state == TQ_STATE_DEAD &&
			tq_step_rule_passes_on(template, step_id));
}

/*
 * claimed says whether a worker has ever claimed the step, waited whether the
 * step has ever waited for something other than a worker.  A decision made by
 * the engine itself never begins.
 */
bool
tq_step_rule_has_begun(const TqStep *step, TqState state, TqReason reason,
					   bool claimed, bool waited)
{
	if (claimed || waited)
		return true;
	return state == TQ_STATE_DONE &&
		   (step->branch_count == 0 || reason != TQ_REASON_NONE);
}
