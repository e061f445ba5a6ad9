/*
 * advance_begin.c
 *		Begins steps that no longer wait for a parent.
 *
 * This runs under the edge lock and never waits.  If the row or key of a child
 * is busy, that child and all children with higher task ids are recorded in
 * TqAdvanceBlocked and handled after the wait.  All sessions change the steps
 * of an instance in the order of their task ids, so they do not wait for each
 * other in a cycle.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"

#include "base/error.h"
#include "engine/key.h"
#include "engine/state.h"
#include "flow/advance/advance_begin.h"
#include "flow/instance/step_rule.h"
#include "flow/run/instance_end.h"
#include "flow/run/step_make.h"
#include "flow/run/wait_step.h"
#include "store/snapshot.h"
#include "store/tuple_lock.h"

/* What to do with a child that was checked. */
typedef enum ChildNext
{
	CHILD_WAITS,  /* do nothing: it still has an edge */
	CHILD_LATER,  /* wait for the transaction that deletes its last edge */
	CHILD_BEGINS, /* it waits for nothing */
	CHILD_IS_END  /* not a step: the instance may have ended */
} ChildNext;

/* What happened to a child that was ready to begin. */
typedef enum ChildResult
{
	CHILD_SETTLED, /* it has begun, or cannot begin */
	CHILD_MISSING, /* it has no row, or has already ended */
	CHILD_BUSY     /* requires a wait for another transaction */
} ChildResult;

static ChildNext next_of(TqLeft left, int32 child);
static void      put_off(const TqChildLooks *ready, TqChildLooks *later);
static void begin_ready(TqAdvance *a, TqChildLooks *ready, TqChildLooks *looks,
						TqAdvanceBlocked *blocked, TqAdvanceOutcome *outcome);
static ChildResult begin_child(TqAdvance *a, int32 step_id,
							   TqAdvanceBlocked *blocked,
							   TqAdvanceOutcome *outcome);
static ChildResult find_child(TqAdvance *a, int32 step_id, TqTask *task,
							  TransactionId *maker);
static bool        move_child(TqAdvance *a, const TqStep *step, TqQueue *queue,
							  TqTask *task, int64 locked_task,
							  TqAdvanceOutcome *outcome);
static ChildResult note_busy(TqAdvanceBlocked *blocked, int64 task_id,
							 int32 step_id, bool by_key);

/*
 * Processes all entries of looks; entries that remain on return were added in
 * the meantime.  Children that require a wait are added to blocked.
 */
void
tq_advance_begin(TqAdvance *a, TqChildLooks *looks, TqAdvanceBlocked *blocked,
				 TqAdvanceOutcome *outcome)
{
	TqChildLooks now = *looks;
	TqChildLooks ready = {0};

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	memset(looks, 0, sizeof(*looks));
	tq_move_queue_sort_looks(&now);
	for (int i = 0; i < now.count; i++)
	{
		int32         child = now.all[i].child;
		int32         near = now.all[i].near;
		TransactionId other;
		ChildNext     next;

		CHECK_FOR_INTERRUPTS();
		next = next_of(
			tq_edge_left(&a->edges, a->flow.workflow_id, child, near, &other),
			child);
		if (next == CHILD_LATER)
			blocked->xid = other;
		if (next == CHILD_IS_END &&
			tq_instance_end_try(a->call, &a->flow, &a->edges, &blocked->xid) ==
				TQ_GOING_UNKNOWN)
			next = CHILD_LATER;
		if (next == CHILD_LATER)
			tq_move_queue_add_look(&blocked->later, child, near);
		else if (next == CHILD_BEGINS)
			tq_move_queue_add_look(&ready, child, near);
	}
	if (blocked->later.count > 0 && tq_step_rule_stops(&a->flow))
		put_off(&ready, &blocked->later);
	else
		begin_ready(a, &ready, looks, blocked, outcome);
}

/* Decide what to do with a child; left is the state of the edges to it. */
static ChildNext
next_of(TqLeft left, int32 child)
{
	if (left == TQ_LEFT_PASSING)
		return CHILD_LATER;
	if (left == TQ_LEFT_OPEN)
		return CHILD_WAITS;
	return child == TQ_EDGE_END ? CHILD_IS_END : CHILD_BEGINS;
}

/*
 * Defer the ready children.  With on_failure stop a failure cancels the steps
 * that have not begun, and waits for the calls that work on them.  A call that
 * may wait for a failure therefore begins no step.
 */
static void
put_off(const TqChildLooks *ready, TqChildLooks *later)
{
	for (int i = 0; i < ready->count; i++)
		tq_move_queue_add_look(later, ready->all[i].child, ready->all[i].near);
}

/*
 * Begin the children in the order of their task ids.  If a child is busy, all
 * later children wait, too.
 */
static void
begin_ready(TqAdvance *a, TqChildLooks *ready, TqChildLooks *looks,
			TqAdvanceBlocked *blocked, TqAdvanceOutcome *outcome)
{
	bool any_busy = false;
	bool any_missing = false;

	/* some of them may have just been made or brought back */
	if (ready->count > 1)
		tq_snapshot_renew();
	for (int i = 0; i < ready->count && ready->count > 1; i++)
	{
		TqTask task;

		if (tq_step_rows_find(&a->rows, ready->all[i].child, &task))
			ready->all[i].task_id = task.f.task_id;
	}
	tq_move_queue_sort_tasks(ready);
	for (int i = 0; i < ready->count; i++)
	{
		ChildResult result = CHILD_BUSY;

		if (!any_busy)
			result = begin_child(a, ready->all[i].child, blocked, outcome);
		any_missing = any_missing || result == CHILD_MISSING;
		any_busy = result == CHILD_BUSY;
		if (any_busy)
			tq_move_queue_add_look(&blocked->later, ready->all[i].child,
								   ready->all[i].near);
	}
	/* it ended before its parents, and may be the last step of the instance */
	if (any_missing)
		tq_move_queue_add_look(looks, TQ_EDGE_END, 0);
}

/*
 * Begin a step that no longer waits for a parent, unless it was moved by hand.
 */
static ChildResult
begin_child(TqAdvance *a, int32 step_id, TqAdvanceBlocked *blocked,
			TqAdvanceOutcome *outcome)
{
	const TqStep *step = &a->flow.template->steps[TQ_STEP_INDEX(step_id)];
	TqTask        task;
	TransactionId maker = InvalidTransactionId;
	ChildResult   found = find_child(a, step_id, &task, &maker);
	TqQueue      *queue;

	if (found == CHILD_BUSY)
		blocked->xid = maker;
	if (found != CHILD_SETTLED)
		return found;
	queue = tq_queue_by_id(task.f.queue_id);
	if (queue == NULL)
		return CHILD_SETTLED;
	if (task.f.state != TQ_STATE_BLOCKED ||
		(task.f.flags & TQ_FLAG_IN_LINE) != 0)
		return tq_tuple_lock_is_taken(a->call, &task)
				   ? note_busy(blocked, task.f.task_id, step_id, false)
				   : CHILD_SETTLED;
	if (tq_queue_any_ordered() && !tq_key_try_task(a->call, queue, &task))
		return note_busy(blocked, task.f.task_id, step_id, true);
	if (!move_child(a, step, queue, &task, blocked->locked_task, outcome))
		return note_busy(blocked, task.f.task_id, step_id, false);
	return CHILD_SETTLED;
}

/*
 * Read the row of a step.  If the result is CHILD_BUSY, the caller must wait
 * for the transaction *maker, which is creating the row.
 */
static ChildResult
find_child(TqAdvance *a, int32 step_id, TqTask *task, TransactionId *maker)
{
	while (tq_snapshot_renew(), !tq_step_rows_find(&a->rows, step_id, task))
	{
		if (!tq_step_rows_is_made(&a->rows, step_id, maker))
			return CHILD_MISSING;
		if (TransactionIdIsValid(*maker))
			return CHILD_BUSY;
		/* it was committed just now, or after this transaction began */
		if (IsolationUsesXactSnapshot())
			tq_error_serialization();
	}
	return CHILD_SETTLED;
}

/* Returns false if another transaction has locked the row. */
static bool
move_child(TqAdvance *a, const TqStep *step, TqQueue *queue, TqTask *task,
		   int64 locked_task, TqAdvanceOutcome *outcome)
{
	TqMove move = {0};

	tq_step_make_begin(&a->flow, step, queue, task, &move);
	move.wanted = "begin";
	move.no_wait = task->f.task_id != locked_task;
	/* never wait under the edge lock, unless the row is already locked */
	Assert(tq_edge_is_locked(a->flow.workflow_id));
	Assert(move.no_wait || tq_tuple_lock_is_held(a->call, task));
	if (!tq_state_enter(a->call, queue, task, &move))
		return false;
	if (move.to == TQ_STATE_SUSPENDED)
		tq_wait_step_begun(task, &move);
	if (move.to == TQ_STATE_SUSPENDED && step->type == TQ_STEP_WORKFLOW)
	{
		int64 *begun = palloc(sizeof(int64));

		*begun = task->f.task_id;
		outcome->children = lappend(outcome->children, begun);
	}
	return true;
}

/*
 * The call waits for the child that is noted last, and locks its key before
 * its row.
 */
static ChildResult
note_busy(TqAdvanceBlocked *blocked, int64 task_id, int32 step_id, bool by_key)
{
	if (by_key || !blocked->by_key)
	{
		blocked->task_id = task_id;
		blocked->step_id = step_id;
		blocked->by_key = by_key;
	}
	return CHILD_BUSY;
}
