/*
 * advance_settle.c
 *		Settles the instance, and the instances inside and around it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "flow/advance/advance_settle.h"
#include "flow/run/child.h"
#include "flow/run/child_start.h"
#include "flow/run/choice.h"
#include "flow/run/compensation.h"
#include "flow/run/failure_policy.h"
#include "flow/run/instance_end.h"

static void settle_other_instances(TqAdvance              *a,
								   const TqAdvanceOutcome *outcome);

/*
 * Runs under the edge lock, after all other changes.  If a step has failed, is
 * any other step live?  The last step to end decides about the instance.  A
 * repair of a live instance needs no search, since it ends no live step.
 * Returns false if the answer depends on the transaction *blocked_by.
 */
bool
tq_advance_decide(TqAdvance *a, TqAdvanceOutcome *outcome,
				  TransactionId *blocked_by)
{
	TqGoing going = TQ_GOING_NOT;
	bool    failed;

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	failed =
		a->flow.state == TQ_FLOW_LIVE && outcome->may_end &&
		tq_instance_end_has_failed(&a->flow, &a->edges, outcome->last_step);
	if (failed && !outcome->left_to_others)
		going = tq_instance_end_is_live(a->call, &a->flow, &a->edges,
										outcome->last_step, blocked_by);
	if (going == TQ_GOING_ON)
		outcome->left_to_others = true;
	outcome->ends = failed && !outcome->left_to_others;
	return going != TQ_GOING_UNKNOWN;
}

/*
 * Runs without the edge lock, because a client may be slow to read a warning,
 * and rows of other instances may require waits.  Cancelling comes first;
 * otherwise a step would be started and immediately cancelled.
 */
void
tq_advance_settle(TqAdvance *a, const List *large,
				  const TqAdvanceOutcome *outcome)
{
	Assert(!tq_edge_is_locked(a->flow.workflow_id));
	tq_choice_warn(&a->flow, large);
	tq_failure_policy_forget_cancelled(&a->flow, &a->edges, outcome->returned);
	if (outcome->failed)
		tq_instance_end_cancel_waiting(
			a->call, &a->flow, &a->edges, outcome->batches,
			!outcome->ends && outcome->children == NIL);
	if (outcome->ends && a->flow.state == TQ_FLOW_LIVE)
	{
		if (a->flow.template->on_failure == TQ_ON_FAILURE_COMPENSATE)
			tq_compensation_begin(a->call, &a->flow);
		else
			tq_instance_end_in_error(&a->flow);
	}
	settle_other_instances(a, outcome);
}

static void
settle_other_instances(TqAdvance *a, const TqAdvanceOutcome *outcome)
{
	ListCell *cell;

	foreach (cell, outcome->children)
		tq_child_begin(a->call, &a->flow, *(int64 *) lfirst(cell));
	if (outcome->revived)
		tq_child_revived(a->call, &a->flow);
	if (a->flow.end.ended)
		tq_child_ended(a->call, &a->flow);
}
