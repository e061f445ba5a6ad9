/*
 * instance_end.c
 *		Decides when an instance ends.
 *
 * The state of a live instance is computed from its steps whenever it is read,
 * and only in tq_tally_state; claims and ends of steps do not write the row of
 * the instance.  Only the end of the instance writes it: when no step holds
 * the instance open, or when a step has failed and no other step is live.
 *
 * In the second case the last live step decides.  The transaction that ends a
 * step checks all other steps, under the edge lock of the instance, using
 * their current row versions.  If one of them is live, the transaction that
 * ends that step will make the same check.  If another transaction is ending a
 * step, the edges show whether that transaction has made its check already.
 * If it has, it has seen the step of this transaction live, and this
 * transaction waits for it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/transam.h"
#include "access/xact.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/array.h"
#include "base/catalog.h"
#include "base/compare.h"
#include "base/debug.h"
#include "cache/queue.h"
#include "engine/move.h"
#include "engine/state.h"
#include "flow/instance/edge_wait.h"
#include "flow/instance/failed_step.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/instance/step_rule.h"
#include "flow/instance/step_walk.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/failure_policy.h"
#include "flow/run/instance_end.h"
#include "flow/run/tally.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "store/tuple_lock.h"

static TqGoing look_at_rows(TqCall *call, TqFlow *flow, TqEdges *edges,
							int32 near, bool all, TransactionId *other);
static TqGoing look_both_ways(TqCall *call, TqFlow *flow, TqEdges *edges,
							  int32 near, bool all, TransactionId *other);
static bool    any_went_on(TqCall *call, TqFlow *flow, Snapshot snapshot,
						   bool all);
static bool    is_live(const TqFlow *flow, const TqTask *task, bool all);
static TqGoing check_row(TqFlow *flow, TqEdges *edges, TqTask *task, bool all,
						 TransactionId writer, TransactionId *other);
static Jsonb  *result_of(TqFlow *flow, const TqStepRow *made, int count);
static bool    has_child(const TqFlow *flow, const TqTask *task);
static void cancel_once(TqCall *call, TqFlow *flow, TqEdges *edges, int place,
						bool once);
static void cancel_waiting(TqCall *call, TqFlow *flow, int place);
static int64 *not_begun(TqCall *call, const TqFlow *flow, int place,
						int *count);
static bool   has_not_begun(const TqTask *task, int place);

/*
 * No edge holds the instance open.  In most cases all of its steps have
 * finished.  However, if a step was resolved before its parents had ended, its
 * parents may still be live.  In that case the last of the parents makes the
 * check, and must wait (TQ_GOING_UNKNOWN) for transactions of other parents
 * that have made the check but have not committed.
 */
TqGoing
tq_instance_end_try(TqCall *call, TqFlow *flow, TqEdges *edges,
					TransactionId *other)
{
	for (int i = 0; i < 2; i++)
	{
		TqGoing going;

		if (flow->state != TQ_FLOW_LIVE || tq_instance_end_if_done(flow))
			return TQ_GOING_NOT;
		going = look_at_rows(call, flow, edges, 0, true, other);
		if (going != TQ_GOING_NOT)
			return going;
		/* the last one may have committed in between */
	}
	return TQ_GOING_NOT;
}

/* End the instance if all of its steps have finished. */
bool
tq_instance_end_if_done(TqFlow *flow)
{
	TqStepRow *made;
	int        count = tq_flow_steps(flow, &made);
	TqTally    tally;

	tq_tally_count(flow, made, count, &tally);
	if (tally.done != tally.total)
		return false;
	(void) tq_flow_end(flow, tally.resolved ? TQ_FLOW_RESOLVED : TQ_FLOW_DONE,
					   result_of(flow, made, count));
	return true;
}

/*
 * Returns the result of the last step.  If there are several last steps,
 * returns an object with a member for each, or NULL if the object would be too
 * large.
 */
static Jsonb *
result_of(TqFlow *flow, const TqStepRow *made, int count)
{
	TqStepList  last = {0};
	Jsonb      *results;
	JsonbValue *one;

	last.places = palloc(sizeof(int) * (flow->template->step_count + 1));
	for (int i = 0; i < count; i++)
	{
		int place = TQ_STEP_INDEX(made[i].step_id);

		if (flow->template->steps[place].children.count > 0 ||
			(last.count > 0 && last.places[last.count - 1] == place))
			continue;
		if (TQ_STEP_MEMBER(made[i].step_id) > 1)
			continue;
		last.places[last.count++] = place;
	}
	if (last.count == 0)
		return NULL;
	results = tq_results_of(flow->workflow_id, flow->template, &last,
							TQ_MAX_DOCUMENT);
	if (last.count > 1 || results == NULL)
		return results;
	one = getKeyJsonValueFromContainer(
		&results->root, flow->template->steps[last.places[0]].name,
		(int) strlen(flow->template->steps[last.places[0]].name), NULL);
	return one == NULL || one->type == jbvNull ? NULL : JsonbValueToJsonb(one);
}

/*
 * Has a step failed, in any transaction, committed or not?  The scan begins
 * near the given step.
 */
bool
tq_instance_end_has_failed(const TqFlow *flow, TqEdges *edges, int32 near)
{
	TransactionId other;

	return tq_edge_left(edges, flow->workflow_id, TQ_EDGE_FAILURE, near,
						&other) != TQ_LEFT_NONE;
}

/*
 * Steps have failed in this call: cancel the steps that have not begun, or the
 * members of these batches, which end with the first dead member. batches has
 * the step indexes of the members. once says that failures in later calls need
 * not search for further steps.  It is false if a child instance is still to
 * be started in this call: if that fails, its step has not begun.
 */
void
tq_instance_end_cancel_waiting(TqCall *call, TqFlow *flow, TqEdges *edges,
							   const Bitmapset *batches, bool once)
{
	int place = TQ_ALL_PLACES;

	if (tq_step_rule_stops(flow))
	{
		cancel_once(call, flow, edges, place, once);
		return;
	}
	while ((place = bms_next_member(batches, place)) >= 0)
		cancel_once(call, flow, edges, place, once);
}

/*
 * Cancel the steps, unless an earlier failure has cancelled them and no step
 * has been added since.
 */
static void
cancel_once(TqCall *call, TqFlow *flow, TqEdges *edges, int place, bool once)
{
	if (tq_failure_policy_is_cancelled(flow, edges, place))
		return;
	cancel_waiting(call, flow, place);
	if (once)
		tq_failure_policy_note_cancelled(flow, edges, place);
}

/* No step is live any longer. */
void
tq_instance_end_in_error(TqFlow *flow)
{
	(void) tq_flow_end(flow, TQ_FLOW_ERROR, NULL);
}

/* Is any step live?  The search begins at near, where that is most likely. */
TqGoing
tq_instance_end_is_live(TqCall *call, TqFlow *flow, TqEdges *edges, int32 near,
						TransactionId *other)
{
	return look_at_rows(call, flow, edges, near, false, other);
}

/*
 * Check the current row versions.  If all is true, every step that has not
 * finished counts.  The scan may miss a step that was moved by a transaction
 * which committed during the scan; in that case it is repeated.
 */
static TqGoing
look_at_rows(TqCall *call, TqFlow *flow, TqEdges *edges, int32 near, bool all,
			 TransactionId *other)
{
	TqGoing going;
	bool    moved;

	do
	{
		Snapshot before;

		CommandCounterIncrement();
		before = RegisterSnapshot(GetLatestSnapshot());
		going = look_both_ways(call, flow, edges, near, all, other);
		moved = going == TQ_GOING_NOT && any_went_on(call, flow, before, all);
		UnregisterSnapshot(before);
	} while (moved);
	return going;
}

/*
 * Scan from near in both directions: while there is an old snapshot, the scan
 * also passes rows of ended steps, which are next to each other.
 */
static TqGoing
look_both_ways(TqCall *call, TqFlow *flow, TqEdges *edges, int32 near,
			   bool all, TransactionId *other)
{
	Relation index =
		tq_catalog_open_index(tq_catalog()->task_workflow, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(call->task.rel, NULL);
	TqGoing         going = TQ_GOING_NOT;
	SnapshotData    dirty;
	TqStepWalk      walks[2];

	InitDirtySnapshot(dirty);
	tq_step_walk_begin(&walks[0], call->task.rel, index, &dirty,
					   flow->workflow_id, near, ForwardScanDirection);
	tq_step_walk_begin(&walks[1], call->task.rel, index, &dirty,
					   flow->workflow_id, near, BackwardScanDirection);
	for (int i = 0; going != TQ_GOING_ON && !(walks[0].over && walks[1].over);
		 i = 1 - i)
	{
		TransactionId writer;
		bool          should_free;
		HeapTuple     tuple;
		TqTask        task;
		TqGoing       one;

		CHECK_FOR_INTERRUPTS();
		if (!tq_step_walk_next(&walks[i]))
			continue;
		TQ_DEBUG_POINT("judge_before_row");
		if (!index_fetch_heap(walks[i].scan, slot))
			continue;
		writer = dirty.xmax;
		if (TransactionIdIsValid(dirty.xmin) &&
			TransactionIdIsValid(tq_tuple_lock_past(slot)))
			continue;
		tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
		tq_row_read(tuple, RelationGetDescr(call->task.rel), &task);
		one = check_row(flow, edges, &task, all, writer, other);
		if (one != TQ_GOING_NOT)
			going = one;
	}
	for (int i = 0; i < lengthof(walks); i++)
		tq_step_walk_end(&walks[i]);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return going;
}

/* Was any step live when the snapshot was taken? */
static bool
any_went_on(TqCall *call, TqFlow *flow, Snapshot snapshot, bool all)
{
	Relation index =
		tq_catalog_open_index(tq_catalog()->task_workflow, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(call->task.rel, NULL);
	bool            any = false;
	ScanKeyData     key;
	IndexScanDesc   scan;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(flow->workflow_id));
	scan = tq_compat_index_beginscan(call->task.rel, index, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (!any && index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool   should_free;
		TqTask task;

		CHECK_FOR_INTERRUPTS();
		tq_row_read(ExecFetchSlotHeapTuple(slot, false, &should_free),
					RelationGetDescr(call->task.rel), &task);
		any = is_live(flow, &task, all);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return any;
}

/* Is the step live? If all is true: has it not finished? */
static bool
is_live(const TqFlow *flow, const TqTask *task, bool all)
{
	int place = TQ_STEP_INDEX(DatumGetInt32(task->value[TQ_COL_STEP_ID]));

	return place < flow->template->step_count &&
		   (all || task->f.state != TQ_STATE_BLOCKED ||
			(task->f.flags & TQ_FLAG_IN_LINE) != 0);
}

/*
 * Check a row that is live.  If another transaction (writer) is about to
 * change or delete it, the step counts as live, since the writer will make its
 * own check, and may wait for this transaction.  The exception is a writer
 * that has already made its check and is not waiting.  If the writer has ended
 * since the row was read, the state is unknown, since both the row and the
 * edges have changed.
 */
static TqGoing
check_row(TqFlow *flow, TqEdges *edges, TqTask *task, bool all,
		  TransactionId writer, TransactionId *other)
{
	int32         step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	const TqStep *step = &flow->template->steps[TQ_STEP_INDEX(step_id)];
	int32         child = TQ_EDGE_END;
	TransactionId passing;

	if (!is_live(flow, task, all))
		return TQ_GOING_NOT;
	if (!TransactionIdIsValid(writer) ||
		tq_edge_waits(flow->workflow_id, writer))
		return TQ_GOING_ON;
	TQ_DEBUG_POINT("judge_row_read");
	if (step->children.count > 0)
		child = step->children.places[0];
	if (tq_edge_one(edges, flow->workflow_id, child, step_id, &passing) !=
			TQ_LEFT_PASSING &&
		tq_edge_one(edges, flow->workflow_id, TQ_EDGE_FAILURE, step_id,
					&passing) == TQ_LEFT_NONE &&
		TransactionIdIsInProgress(writer))
		return TQ_GOING_ON;
	*other = writer;
	return TQ_GOING_UNKNOWN;
}

/*
 * Does the step have a live child instance?  If so, it has begun, or begins in
 * this call.
 */
static bool
has_child(const TqFlow *flow, const TqTask *task)
{
	int place = TQ_STEP_INDEX(DatumGetInt32(task->value[TQ_COL_STEP_ID]));

	return place < flow->template->step_count &&
		   flow->template->steps[place].type == TQ_STEP_WORKFLOW &&
		   tq_waiting_step_is(task) && !tq_waiting_step_is_put_off(task);
}

/*
 * Cancel the steps of the instance, or the members of one batch, that have not
 * begun.
 */
static void
cancel_waiting(TqCall *call, TqFlow *flow, int place)
{
	int    count;
	int64 *ids = not_begun(call, flow, place, &count);

	for (int i = 0; i < count; i++)
	{
		for (;;)
		{
			TqMove   move = {0};
			TqTask   task;
			TqQueue *queue;

			tq_snapshot_renew();
			if (!tq_row_find_shown(call, ids[i], &task) ||
				!has_not_begun(&task, place) || has_child(flow, &task))
				break;
			queue = tq_queue_by_id(task.f.queue_id);
			move.to = TQ_STATE_CANCELLED;
			move.reason = TQ_REASON_DEPENDENCY_FAILED;
			move.wanted = "cancel";
			if (queue == NULL || tq_state_enter(call, queue, &task, &move))
				break;
		}
	}
}

/*
 * Task ids of the steps that have not begun, sorted.  An index scan marks the
 * entries of dead rows, so that later scans skip them; a bitmap scan does not.
 */
static int64 *
not_begun(TqCall *call, const TqFlow *flow, int place, int *count)
{
	Relation index =
		tq_catalog_open_index(tq_catalog()->task_workflow, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(call->task.rel, NULL);
	int             room = 0;
	int64          *ids = NULL;
	Snapshot        snapshot;
	TqStepWalk      walk;

	*count = 0;
	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	tq_step_walk_begin(&walk, call->task.rel, index, snapshot,
					   flow->workflow_id, 0, ForwardScanDirection);
	while (tq_step_walk_next(&walk))
	{
		bool   should_free;
		TqTask task;

		CHECK_FOR_INTERRUPTS();
		if (!index_fetch_heap(walk.scan, slot))
			continue;
		tq_row_read(ExecFetchSlotHeapTuple(slot, false, &should_free),
					RelationGetDescr(call->task.rel), &task);
		if (has_not_begun(&task, place))
		{
			TQ_ARRAY_RESERVE(ids, *count, room, CurrentMemoryContext);
			ids[(*count)++] = task.f.task_id;
		}
		heap_freetuple(task.image);
	}
	tq_step_walk_end(&walk);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	if (*count > 1)
		qsort(ids, *count, sizeof(int64), tq_order_int64);
	return ids;
}

/*
 * Was the step never claimed, or does it wait for its parents again?  A step
 * that was claimed and is blocked only by its key is live.
 */
static bool
has_not_begun(const TqTask *task, int place)
{
	int32 step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	bool  waits = task->f.state == TQ_STATE_BLOCKED &&
				 (task->f.flags & TQ_FLAG_IN_LINE) == 0;

	return task->f.state != TQ_STATE_RUNNING &&
		   (waits || task->f.token == 0) &&
		   (place < 0 || TQ_STEP_INDEX(step_id) == place);
}
