/*
 * step_rule.c
 *		Rules for one step that follow from its template and its state.
 *
 * They read no table and take no lock, so that every file of flow may ask
 * them, whatever it holds: does a failure stop the instance, does a dead
 * member end or excuse its batch, has a step begun?
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "flow/instance/flow_types.h"
#include "flow/instance/step_rule.h"

/* Does a failure hold up everything? */
bool
tq_step_rule_stops(const TqFlow *flow)
{
	return flow->template->on_failure != TQ_ON_FAILURE_CONTINUE;
}

/* A member of a batch that ends with the first one that dies. */
bool
tq_step_rule_ends_batch(const TqTemplate *template, const TqStep *step)
{
	return step->type == TQ_STEP_BATCH_WORKER &&
		   template->steps[step->parents.places[0]].strategy ==
			   TQ_STRATEGY_FAIL_FAST;
}

/* A member of a batch that succeeds without its dead members. */
bool
tq_step_rule_is_excused(const TqTemplate *template, int32 step_id)
{
	const TqStep *step = &template->steps[TQ_STEP_INDEX(step_id)];

	return step->type == TQ_STEP_BATCH_WORKER &&
		   template->steps[step->parents.places[0]].strategy ==
			   TQ_STRATEGY_CONTINUE;
}

/* Do its children run although it is dead? */
bool
tq_step_rule_passes_on(const TqTemplate *template, int32 step_id)
{
	return template->steps[TQ_STEP_INDEX(step_id)].continues ||
		   tq_step_rule_is_excused(template, step_id);
}

/*
 * Has the end of a step let its children go, as far as they wait for it?
 */
bool
tq_step_rule_is_passed(const TqTemplate *template, int32 step_id,
					   TqState state)
{
	return state == TQ_STATE_DONE || state == TQ_STATE_FILTERED ||
		   (state == TQ_STATE_DEAD &&
			tq_step_rule_passes_on(template, step_id));
}

/*
 * claimed, waited: ever, by a worker, or for what no worker does.  What the
 * engine has decided was never begun.
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
