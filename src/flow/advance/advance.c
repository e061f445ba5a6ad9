/*
 * advance.c
 *		Advances a workflow after its steps have moved: the order of the
 *		phases.
 *
 * The state machine queues each move of a step (move_queue.c).  At the end of
 * the call, still inside its transaction, this file processes the moves
 * instance by instance, in descending order of the instance ids, so that inner
 * instances come before the outer ones.  The phases for each instance are
 *
 *	collect	  take the moves of the instance				(here)
 *	choose	  make the steps that decisions and batches have chosen
 *	pass on	  delete the edges of steps that have ended
 *	begin	  check their children; those with no edge left begin
 *	decide	  is any step live after a failure?
 *	wait	  wait for one transaction, row or key, and check again
 *	settle	  cancel, compensate or end the instance; other instances
 *
 * The phases from collect to begin repeat until no move is left, because a
 * step may end immediately when it begins: its condition is false, the engine
 * makes its decision, its signal has arrived or its time is over.  Choose,
 * pass on, begin and decide run under the edge lock of the instance (edge.c)
 * and never wait.  They record what needs a wait; the call then releases the
 * lock, waits, and checks again everything that this transaction is
 * responsible for.  Settle does not hold the lock, and the first collect runs
 * before the lock is taken.
 *
 * Locks are taken in the order instance locks, keys, rows, edge lock.  When a
 * call gets here it holds the instance locks that the moves need
 * (instance_lock.c), so call->steps->locked keeps further moves from taking
 * more.
 *
 * If a wait was inside a savepoint, the transaction checks the instance once
 * more right before it commits or is prepared: the savepoint may have been
 * rolled back since, together with the work that other transactions had left
 * to this transaction.
 *
 * The call continues with the next instance only when it no longer has to wait
 * in the current one.  If transactions wait for another transaction in an
 * instance, the latter has therefore finished with that instance, and can wait
 * only in an instance that the waiting transactions reach later.  So there is
 * no cycle of waits.
 *
 * Memory: everything for one instance is allocated in "taskq advance" and
 * freed once the instance is settled.
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

/* Progress in one instance; each phase gets the members it needs. */
typedef struct Progress
{
	pairingheap     *moves; /* moves of all instances, taken from the call */
	List            *ends;  /* of TqMoved, not yet processed */
	TqChildLooks     looks; /* children to be checked */
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
	/* callbacks run in reverse order: no notification has been sent yet */
	RegisterXactCallback(before_commit, NULL);
}

static void
advance(TqCall *call)
{
	pairingheap   *moves = tq_move_queue_new();
	bool           locked = call->steps->locked;
	const TqMoved *first;

	/* the moves that follow need no instance locks: the call holds them */
	call->steps->locked = true;
	while ((first = tq_move_queue_next(call, moves)) != NULL)
		advance_instance(call, moves, first->workflow_id);
	call->steps->locked = locked;
	pairingheap_free(moves);
}

/*
 * Check the instances in which this transaction has waited in a savepoint.
 * The transaction already holds their instance locks, since it has deleted
 * edges of these instances.
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

/*
 * Process the moves of one instance.  There may be none if the instance is
 * only checked again.
 */
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

/*
 * Append the moves of the instance to ends.  Returns false if there are none.
 */
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

/*
 * Are the ids of all moved steps valid?  Rows written by hand may have any
 * step_id.
 */
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
 * A transaction announces its wait before it releases the edge lock.  When it
 * has the lock again, it first checks all children again.  In between, other
 * transactions leave their work to it (edge.c).
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
		/*
		 * A rollback to the savepoint would undo the work that others leave to
		 * it.
		 */
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
 * Run the phases that need the edge lock until nothing follows.  Returns false
 * if the rest requires a wait.  Decide comes last, when all changes of this
 * call are visible: of two concurrent calls the second then sees the first.
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
