/*
 * advance_wait.c
 *		Waits for another transaction without the edge lock, and checks again.
 *
 * advance.c announces the wait (tq_edge_wait) before it releases the lock.
 * During the wait other transactions do not wait for this transaction: they
 * leave to it the children of the steps that it has ended.  When this
 * transaction has the lock again, it therefore first checks all of these
 * children again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "storage/lmgr.h"

#include "cache/queue.h"
#include "engine/key.h"
#include "flow/advance/advance_wait.h"
#include "store/row.h"
#include "store/snapshot.h"

static void wait_for_row(TqAdvance *a, TqAdvanceBlocked *blocked,
						 TqChildLooks *looks);

/*
 * Wait for one transaction, row or key.  After waiting for a row this call
 * holds its lock, and the step begins unless it was moved during the wait.
 * Children that were blocked are put back into looks.
 */
void
tq_advance_wait(TqAdvance *a, TqAdvanceBlocked *blocked, TqChildLooks *looks)
{
	Assert(!tq_edge_is_locked(a->flow.workflow_id));
	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < blocked->later.count; i++)
		tq_move_queue_add_look(looks, blocked->later.all[i].child,
							   blocked->later.all[i].near);
	blocked->later.count = 0;
	if (blocked->task_id != 0)
		wait_for_row(a, blocked, looks);
	else if (TransactionIdIsValid(blocked->xid))
		XactLockTableWait(blocked->xid, NULL, NULL, XLTW_None);
}

/* Wait for the row that was busy, or for its key, and lock it. */
static void
wait_for_row(TqAdvance *a, TqAdvanceBlocked *blocked, TqChildLooks *looks)
{
	TqTask task;

	tq_snapshot_renew();
	blocked->locked_task = 0;
	if (blocked->by_key && tq_row_find(a->call, blocked->task_id, &task))
	{
		TqQueue *queue = tq_queue_by_id(task.f.queue_id);

		if (queue != NULL)
			tq_key_lock_task(a->call, queue, &task);
	}
	else
	{
		if (tq_row_find(a->call, blocked->task_id, &task) &&
			tq_row_lock(a->call, &task, false))
			blocked->locked_task = blocked->task_id;
		if (blocked->locked_task == 0 || task.f.state != TQ_STATE_BLOCKED ||
			(task.f.flags & TQ_FLAG_IN_LINE) != 0)
		{
			tq_move_queue_drop_look(looks, blocked->step_id);
			tq_move_queue_add_look(looks, TQ_EDGE_END, 0);
			blocked->elsewhere =
				lappend_int(blocked->elsewhere, blocked->step_id);
		}
	}
	blocked->task_id = 0;
	blocked->by_key = false;
}

/*
 * Check again all children of steps that this transaction has ended, in this
 * call or an earlier one, since other transactions may have left them to it.
 */
void
tq_advance_look_again(TqAdvance *a, const TqAdvanceBlocked *blocked,
					  TqAdvanceChoices *choices, TqAdvanceOutcome *outcome,
					  TqChildLooks *looks)
{
	const TqStep *steps = a->flow.template->steps;
	TqNewEdges    mine = {0};

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	choices->view = NULL;
	choices->asked = false;
	tq_edge_mine(&a->edges, a->flow.workflow_id, &mine);
	for (int i = 0; i < mine.count; i++)
	{
		int32 parent = mine.parents[i];

		if (mine.children[i] < TQ_EDGE_END ||
			list_member_int(blocked->elsewhere, mine.children[i]))
			continue;
		tq_move_queue_add_look(looks, mine.children[i], parent);
		choices->again = choices->again ||
						 (mine.children[i] == TQ_EDGE_END &&
						  tq_step_chooses(steps[TQ_STEP_INDEX(parent)].type));
	}
	outcome->may_end = true;
	outcome->left_to_others = false;
}
