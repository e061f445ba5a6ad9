/*
 * advance_pass.c
 *		Deletes the edges of steps that have ended.
 *
 * This runs under the edge lock.  A finished step deletes the edges to its
 * children, and each child is then checked.  A failed step keeps its edges and
 * adds an edge that records the failure (TQ_EDGE_FAILURE), which is deleted
 * when the step is repaired.  A failed step that continues does both: its
 * children begin, and the instance ends in error when no step is live.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/types.h"
#include "flow/advance/advance_pass.h"
#include "flow/instance/step_rule.h"
#include "flow/run/failure_policy.h"

static void bring_back(TqAdvance *a, const List *ends, TqChildLooks *looks);
static void delete_edges(TqAdvance *a, const TqMoved *end,
						 TqChildLooks *looks);
static void delete_end(TqAdvance *a, const TqMoved *end, TqChildLooks *looks);
static void note_failure(TqAdvance *a, const TqMoved *end,
						 TqAdvanceOutcome *outcome);

/* Processes each member of ends once. */
void
tq_advance_pass_on(TqAdvance *a, const List *ends, TqAdvanceOutcome *outcome,
				   TqChildLooks *looks)
{
	ListCell *cell;

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	bring_back(a, ends, looks);
	foreach (cell, ends)
	{
		TqMoved *end = lfirst(cell);

		outcome->revived = outcome->revived || end->revived;
		outcome->may_end = outcome->may_end || end->revived ||
						   TQ_STATE_IS_LIVE(end->from);
		outcome->last_step = end->step_id;
		/* a failed step is live again, or was resolved */
		if (end->from != 0 && !TQ_STATE_IS_LIVE(end->from))
			(void) tq_edge_delete(&a->edges, a->flow.workflow_id,
								  TQ_EDGE_FAILURE, end->step_id);
		/* its last parent may have ended since it was held back */
		if (end->to == TQ_STATE_BLOCKED)
			tq_move_queue_add_look(looks, end->step_id, 0);
		if (end->from != TQ_STATE_BLOCKED &&
			(end->to == TQ_STATE_BLOCKED || end->to == TQ_STATE_SUSPENDED))
			outcome->returned =
				bms_add_member(outcome->returned, TQ_STEP_INDEX(end->step_id));
		/* also a step that was removed with an undone choice */
		if (TQ_STATE_IS_LIVE(end->to))
			continue;
		if (tq_step_rule_is_passed(a->flow.template, end->step_id, end->to))
			delete_edges(a, end, looks);
		if (tq_failure_policy_counts_as_finished(&a->flow, end))
			delete_end(a, end, looks);
		else
			note_failure(a, end, outcome);
	}
}

/*
 * Steps that were cancelled because of a failure wait again after its repair.
 */
static void
bring_back(TqAdvance *a, const List *ends, TqChildLooks *looks)
{
	int32 *steps;
	int count = tq_failure_policy_bring_back(a->call, &a->flow, ends, &steps);

	for (int i = 0; i < count; i++)
		tq_move_queue_add_look(looks, steps[i], 0);
}

/* The children of the step wait for one parent fewer. */
static void
delete_edges(TqAdvance *a, const TqMoved *end, TqChildLooks *looks)
{
	const TqStep *step = &a->flow.template->steps[TQ_STEP_INDEX(end->step_id)];
	int64         workflow_id = a->flow.workflow_id;

	for (int i = 0; i < step->children.count; i++)
	{
		int32 child = step->children.places[i];

		if (tq_edge_delete(&a->edges, workflow_id, child, end->step_id))
			tq_move_queue_add_look(looks, child, end->step_id);
	}
}

/*
 * The instance waits for one step fewer.  If the step had failed and
 * continues, all other steps may have ended earlier, and only its failure was
 * left.
 */
static void
delete_end(TqAdvance *a, const TqMoved *end, TqChildLooks *looks)
{
	const TqStep *step = &a->flow.template->steps[TQ_STEP_INDEX(end->step_id)];
	bool deleted = step->ends && tq_edge_delete(&a->edges, a->flow.workflow_id,
												TQ_EDGE_END, end->step_id);

	if (deleted || (step->continues && end->from == TQ_STATE_DEAD))
		tq_move_queue_add_look(looks, TQ_EDGE_END, end->step_id);
}

static void
note_failure(TqAdvance *a, const TqMoved *end, TqAdvanceOutcome *outcome)
{
	const TqTemplate *template = a->flow.template;
	int        place = TQ_STEP_INDEX(end->step_id);
	TqNewEdges one = {0};

	if (end->to == TQ_STATE_DEAD &&
		tq_step_rule_ends_batch(template, &template->steps[place]))
		outcome->batches = bms_add_member(outcome->batches, place);
	tq_edge_note(&one, TQ_EDGE_FAILURE, end->step_id);
	tq_edge_add(a->flow.workflow_id, &one);
	if (!tq_step_rule_is_passed(template, end->step_id, end->to))
		outcome->failed = true;
}
