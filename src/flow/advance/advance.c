/*
 * advance.c
 *		What follows in a workflow when its steps have moved: the order of the
 *		phases.
 *
 * The state machine notes each move of a step (move_queue.c).  When the call
 * ends, before its transaction does, this file takes the moves of one instance
 * after the other, in descending order of their ids: so inner instances come
 * before the ones around them.  For each instance the phases are
 *
 *	collect	  the moves of the instance				(here)
 *	choose	  make the steps that decisions and batches have chosen
 *	pass on	  delete the edges of steps that have ended
 *	begin	  look at their children; those with no edge left begin
 *	decide	  is any step live after a failure?
 *	wait	  wait for one transaction, row or key, and look again
 *	settle	  cancel, compensate or end the instance; other instances
 *
 * collect to begin repeat until no move is left, since a step may end at once
 * when it begins: its condition is false, the engine makes its decision, its
 * signal has come or its time is over.  choose, pass on, begin and decide run
 * under the edge lock of the instance (edge.c), and wait for nothing.  What
 * has to wait is noted; then the lock is released for the wait, and everything
 * that this transaction is responsible for is looked at again.  settle does
 * not hold the lock; the first collect comes before it.
 *
 * Locks are taken in the order instance locks, keys, rows, edge lock.  The
 * instance locks that the moves need are held when a call comes here
 * (instance_lock.c), so call->steps->locked keeps further moves from taking
 * more.
 *
 * When a wait was in a savepoint, the transaction looks at the instance once
 * more, right before it commits or is prepared: the savepoint may have been
 * rolled back since, with what others had left to this transaction.
 *
 * The next instance comes only when nothing in this one is waited for.  So a
 * transaction that others wait for in an instance is done with it, and waits,
 * if at all, in one that they come to later: there is no cycle of waits.
 *
 * Memory: all of an instance is in "taskq advance", until it is settled.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "engine/call.h"
#include "engine/step_savepoint.h"
#include "flow/advance/advance.h"
#include "flow/advance/advance_begin.h"
#include "flow/advance/advance_choose.h"
#include "flow/advance/advance_pass.h"
#include "flow/advance/advance_settle.h"
#include "flow/advance/advance_wait.h"
#include "flow/instance/edge_wait.h"
#include "flow/instance/flow.h"
#include "flow/run/compensation.h"
#include "store/snapshot.h"

/* How far an instance has come; each phase gets what it needs of it. */
typedef struct Progress
{
	pairingheap     *moves; /* taken from the call, of all instances */
	List            *ends;  /* of TqMoved, not yet processed */
	TqChildLooks     looks; /* children that are to be looked at */
	TqAdvanceChoices choices;
	TqAdvanceBlocked blocked;
	TqAdvanceOutcome outcome;
} Progress;

static void advance(TqCall *call);
static void before_commit(XactEvent event, void *arg);
static void advance_instance(TqCall *call, pairingheap *moves,
							 int64 workflow_id);
static bool collect(const TqAdvance *a, Progress *progress);
static bool are_steps(const TqAdvance *a, const List *ends);
static void run_phases(TqAdvance *a, Progress *progress);
static void look_again(TqAdvance *a, Progress *progress);
static bool run_round(TqAdvance *a, Progress *progress);

void
tq_advance_init(void)
{
	tq_call_hooks.advance = advance;
	tq_edge_wait_init();
	/* callbacks run in the reverse order: what it notes is not yet told */
	RegisterXactCallback(before_commit, NULL);
}

static void
advance(TqCall *call)
{
	pairingheap   *moves = tq_move_queue_new();
	bool           locked = call->steps->locked;
	const TqMoved *first;

	/* what follows takes no instance locks: they are held already */
	call->steps->locked = true;
	while ((first = tq_move_queue_next(call, moves)) != NULL)
		advance_instance(call, moves, first->workflow_id);
	call->steps->locked = locked;
	pairingheap_free(moves);
}

/*
 * Look at the instances in which this transaction has waited in a savepoint.
 * The locks of these instances are held by what has deleted their edges.
 */
static void
before_commit(XactEvent event, void *arg)
{
	int64  workflow_id;
	TqCall call;

	if ((event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_PRE_PREPARE) ||
		tq_edge_wait_last_left() == 0 || !tq_catalog_present())
		return;
	PushActiveSnapshot(GetTransactionSnapshot());
	while ((workflow_id = tq_edge_wait_last_left()) != 0)
	{
		tq_call_begin(&call, event == XACT_EVENT_PRE_COMMIT
								 ? "COMMIT"
								 : "PREPARE TRANSACTION");
		tq_call_steps(&call)->locked = true;
		advance_instance(&call, tq_move_queue_new(), workflow_id);
		tq_edge_wait_looked(workflow_id);
		tq_call_end(&call);
	}
	PopActiveSnapshot();
}

/* By its moves, of which there may be none when it is looked at again. */
static void
advance_instance(TqCall *call, pairingheap *moves, int64 workflow_id)
{
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq advance", ALLOCSET_DEFAULT_SIZES);
	TqAdvance a = {call};
	Progress  progress = {moves};
	bool      known;

	MemoryContextSwitchTo(one);
	known = tq_flow_read(workflow_id, &a.flow);
	(void) collect(&a, &progress);
	if (known)
		progress.ends = tq_compensation_follow(call, &a.flow, progress.ends);
	if (known && a.flow.state != TQ_FLOW_CANCELLED &&
		(progress.ends != NIL || tq_edge_wait_is_left(workflow_id)) &&
		are_steps(&a, progress.ends))
	{
		tq_edge_begin(&a.edges);
		tq_step_rows_begin(&a.rows, call, workflow_id);
		run_phases(&a, &progress);
		tq_step_rows_end(&a.rows);
		tq_edge_end(&a.edges);
	}
	MemoryContextSwitchTo(mine);
	MemoryContextDelete(one);
}

/* Append the moves of the instance to ends; false: there are no more. */
static bool
collect(const TqAdvance *a, Progress *progress)
{
	bool     any = false;
	TqMoved *one;

	while ((one = tq_move_queue_next(a->call, progress->moves)) != NULL &&
		   one->workflow_id == a->flow.workflow_id)
	{
		(void) pairingheap_remove_first(progress->moves);
		progress->ends = lappend(progress->ends, one);
		any = true;
	}
	return any;
}

/* Rows that were written by hand may have any step_id. */
static bool
are_steps(const TqAdvance *a, const List *ends)
{
	ListCell *cell;

	foreach (cell, ends)
	{
		int32 step_id = ((TqMoved *) lfirst(cell))->step_id;

		if (step_id < 0 ||
			TQ_STEP_INDEX(step_id) >= a->flow.template->step_count)
			return false;
	}
	return true;
}

/*
 * A transaction that is about to wait announces that before it releases the
 * edge lock, and looks again as the first thing when it has it back: in
 * the meantime other transactions leave their part to it (edge.c).
 */
static void
run_phases(TqAdvance *a, Progress *progress)
{
	int64 workflow_id = a->flow.workflow_id;

	tq_edge_lock(workflow_id);
	if (tq_edge_wait_is_left(workflow_id))
	{
		tq_edge_wait_looked(workflow_id);
		look_again(a, progress);
	}
	while (!run_round(a, progress))
	{
		/* others would leave their part to what is given up */
		tq_step_savepoint_check_wait();
		tq_edge_wait(workflow_id);
		tq_edge_unlock(workflow_id);
		tq_advance_wait(a, &progress->blocked, &progress->looks);
		tq_edge_lock(workflow_id);
		tq_edge_wait_ended(workflow_id);
		look_again(a, progress);
	}
	tq_edge_unlock(workflow_id);
	tq_advance_settle(a, progress->choices.large, &progress->outcome);
}

static void
look_again(TqAdvance *a, Progress *progress)
{
	tq_advance_look_again(a, &progress->blocked, &progress->choices,
						  &progress->outcome, &progress->looks);
}

/*
 * Under the edge lock, until nothing follows; false: what is left has to wait.
 * Whether a step is live after a failure is decided last, when all that this
 * call does can be seen: so of two calls the second one sees the first.
 */
static bool
run_round(TqAdvance *a, Progress *progress)
{
	bool decided;

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	tq_snapshot_renew();
	do
	{
		if (!tq_advance_choose(a, progress->ends, &progress->choices,
							   &progress->looks, &progress->blocked.xid))
			return false;
		tq_advance_pass_on(a, progress->ends, &progress->outcome,
						   &progress->looks);
		progress->ends = NIL;
		tq_advance_begin(a, &progress->looks, &progress->blocked,
						 &progress->outcome);
	} while (collect(a, progress) || progress->looks.count > 0);
	decided = tq_advance_decide(a, &progress->outcome, &progress->blocked.xid);
	return decided && progress->blocked.later.count == 0;
}
