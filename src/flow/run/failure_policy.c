/*
 * failure_policy.c
 *		Which steps a failure holds up.
 *
 * Under on_failure stop or compensate no step begins after a failure: steps
 * that have not begun are cancelled (instance_end.c), and choices make no
 * steps.  The members of a batch that ends with the first dead member are
 * cancelled as well.  When no failure is left, all of these steps wait again.
 *
 * In such instances failures, choices and repairs run one after the other
 * (instance_lock.c), so that each sees the changes of the earlier ones.
 *
 * The first failure adds an edge (TQ_EDGE_CANCELLED), which records that it
 * has cancelled the steps that had not begun, so that later failures need not
 * read all steps again.  The parent of that edge is the index of the batch, or
 * TQ_ALL_PLACES.  Only choices and repairs make steps that have not begun, or
 * let steps wait again; they delete the edge.  An edge that another
 * transaction is adding does not count, since a rollback of that transaction
 * would undo the cancellations.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"

#include "base/error.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "engine/move.h"
#include "engine/state.h"
#include "flow/instance/failed_step.h"
#include "flow/instance/step_rule.h"
#include "flow/run/failure_policy.h"
#include "store/archive.h"
#include "store/snapshot.h"

static TqStmt stmt_cancelled = {
	"SELECT task_id, step_id FROM taskq.archive_keep"
	" WHERE workflow_id = $1 AND state = " TQ_SQL_STATE_CANCELLED
	"   AND reason = " TQ_SQL_REASON_DEPENDENCY_FAILED " ORDER BY task_id",
	{INT8OID}};

static bool repairs(const TqMoved *move);
static bool ends_hold(const TqFlow *flow, const List *moves,
					  Bitmapset **batches);
static bool bring_back(TqCall *call, int64 task_id);

/* This includes a dead member of a batch that succeeds without it. */
bool
tq_failure_policy_counts_as_finished(const TqFlow *flow, const TqMoved *end)
{
	if (end->to == TQ_STATE_DONE || end->to == TQ_STATE_FILTERED)
		return true;
	return end->to == TQ_STATE_DEAD &&
		   tq_step_rule_is_excused(flow->template, end->step_id);
}

/* Does one of these moves repair a failed step? */
bool
tq_failure_policy_is_repaired(const List *moves)
{
	ListCell *cell;

	foreach (cell, moves)
	{
		if (repairs(lfirst(cell)))
			return true;
	}
	return false;
}

static bool
repairs(const TqMoved *move)
{
	return move->from != move->to &&
		   (move->from == TQ_STATE_DEAD || move->from == TQ_STATE_CANCELLED);
}

/*
 * Has a failure cancelled the steps that had not begun, and have none been
 * added since?
 */
bool
tq_failure_policy_is_cancelled(const TqFlow *flow, TqEdges *edges, int place)
{
	return tq_edge_has(edges, flow->workflow_id, TQ_EDGE_CANCELLED, place);
}

/*
 * Record the cancellation.  The edge lock keeps two failures from waiting for
 * each other.
 */
void
tq_failure_policy_note_cancelled(const TqFlow *flow, TqEdges *edges, int place)
{
	TqNewEdges    one = {0};
	TransactionId other;

	tq_edge_note(&one, TQ_EDGE_CANCELLED, place);
	tq_edge_lock(flow->workflow_id);
	if (tq_edge_one(edges, flow->workflow_id, TQ_EDGE_CANCELLED, place,
					&other) == TQ_LEFT_NONE)
		tq_edge_add(flow->workflow_id, &one);
	tq_edge_unlock(flow->workflow_id);
}

/*
 * Delete the record, because the steps with these indexes were made or wait
 * again.
 */
void
tq_failure_policy_forget_cancelled(const TqFlow *flow, TqEdges *edges,
								   const Bitmapset *returned)
{
	const TqTemplate *template = flow->template;
	int place = -1;

	if (tq_step_rule_stops(flow) && !bms_is_empty(returned))
		(void) tq_edge_delete(edges, flow->workflow_id, TQ_EDGE_CANCELLED,
							  TQ_ALL_PLACES);
	if (tq_step_rule_stops(flow))
		return;
	while ((place = bms_next_member(returned, place)) >= 0)
	{
		if (tq_step_rule_ends_batch(template, &template->steps[place]))
			(void) tq_edge_delete(edges, flow->workflow_id, TQ_EDGE_CANCELLED,
								  place);
	}
}

/*
 * After a repair, steps that were cancelled because of a failure wait again:
 * the members of a batch when none of them is dead, or all steps when no
 * failure is left.  Sets *steps to their ids and returns their number.
 */
int
tq_failure_policy_bring_back(TqCall *call, const TqFlow *flow,
							 const List *moves, int32 **steps)
{
	Datum      arg = Int64GetDatum(flow->workflow_id);
	int        count = 0;
	Bitmapset *batches = NULL;
	int64     *ids;
	uint64     rows;
	TqSpi      spi;

	*steps = NULL;
	if (!ends_hold(flow, moves, &batches))
		return 0;
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_cancelled, &arg, NULL, 0);
	ids = tq_spi_ids(&spi, rows, 1);
	*steps = MemoryContextAllocHuge(spi.caller, sizeof(int32) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
		(*steps)[i] = tq_spi_int4(i, 2, 0);
	tq_spi_leave(&spi);
	for (uint64 i = 0; i < rows; i++)
	{
		int32 step_id = (*steps)[i];
		int   place = TQ_STEP_INDEX(step_id);

		if (place < flow->template->step_count &&
			(tq_step_rule_stops(flow) || bms_is_member(place, batches)) &&
			bring_back(call, ids[i]))
			(*steps)[count++] = step_id;
	}
	return count;
}

/*
 * Is no failure left after these moves that holds up what one has cancelled?
 * If only members of batches are held up, *batches has the indexes of those of
 * which none is dead any longer.
 */
static bool
ends_hold(const TqFlow *flow, const List *moves, Bitmapset **batches)
{
	const TqTemplate *template = flow->template;
	Bitmapset *asked = NULL;
	ListCell  *cell;

	foreach (cell, moves)
	{
		const TqMoved *move = lfirst(cell);
		int            place = TQ_STEP_INDEX(move->step_id);

		if (!repairs(move))
			continue;
		if (tq_step_rule_stops(flow))
			return !tq_failed_step_any(flow, TQ_ALL_PLACES, move->step_id);
		if (move->from != TQ_STATE_DEAD || bms_is_member(place, asked) ||
			!tq_step_rule_ends_batch(template, &template->steps[place]))
			continue;
		asked = bms_add_member(asked, place);
		if (!tq_failed_step_any(flow, place, move->step_id))
			*batches = bms_add_member(*batches, place);
	}
	return !bms_is_empty(*batches);
}

/* Returns false if another transaction has changed the task. */
static bool
bring_back(TqCall *call, int64 task_id)
{
	TqMove   move = {0};
	TqTask   task;
	TqQueue *queue;

	tq_snapshot_renew();
	if (!tq_archive_find(task_id, &task) ||
		(queue = tq_queue_by_id(task.f.queue_id)) == NULL ||
		!tq_archive_take(&task))
	{
		if (IsolationUsesXactSnapshot())
			tq_error_serialization();
		return false;
	}
	move.to = TQ_STATE_BLOCKED;
	move.wanted = "bring back";
	return tq_state_enter(call, queue, &task, &move);
}
