/*
 * advance.c
 *		What follows in a workflow from the moves of its steps.
 *
 * The door tells of each step that it has moved; when the call ends, and
 * before its transaction does, what follows is done here, one instance after
 * the other in the order of their numbers.
 *
 * Of an instance a call does all at once: under its lock (edge.c) the steps
 * that follow from choices are made, the edges of the steps that have ended
 * are taken away, and each child is looked at.  A child that waits for
 * nothing any more is let go under the same lock, and when it ends at once
 * (a condition that is not true, a decision that the engine makes), that is
 * one more end: a loop, until nothing follows.  Then the lock is given back.
 * What could only be done by waiting for another transaction is waited for
 * without the lock, and looked at again, with all that was left to others:
 * meanwhile these leave everything to this one (edge.c).
 *
 * Instances come one after the other, those inside first, and each is left
 * only when nothing of it is waited for.  So whoever is waited for in an
 * instance has seen to it, and waits, if at all, in one that comes later.
 *
 * A step that dies leaves its edges, and one that says so (TQ_EDGE_FAILURE);
 * instance_end.c tells when that ends the instance.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/error.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/state.h"
#include "engine/step.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/instance/step_rows.h"
#include "flow/instance/step_rule.h"
#include "flow/run/advance.h"
#include "flow/run/child.h"
#include "flow/run/child_start.h"
#include "flow/run/choice.h"
#include "flow/run/compensation.h"
#include "flow/run/failure_policy.h"
#include "flow/run/instance_end.h"
#include "flow/run/move_queue.h"
#include "flow/run/step_make.h"
#include "flow/run/step_plan.h"
#include "flow/run/wait_step.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "store/tuple_lock.h"

/* The choices of an instance: what is known of it while they are made. */
typedef struct Choices
{
	TqPlanView *view;    /* while the lock is kept; NULL: not read yet */
	Bitmapset  *to_come; /* that are still to be made, by places */
	bool        asked; /* has anything failed?  Until that may have changed */
	bool        held_up;
	bool        again; /* those of before a wait are looked at again */
	List       *large; /* decisions that choose many steps */
} Choices;

/* What has to wait for another transaction. */
typedef struct Blocked
{
	TqChildLooks  later;       /* children that are looked at after it */
	TransactionId xid;         /* the transaction, unless task_id is set */
	int64         task_id;     /* task whose row or key is busy; 0: none */
	int32         step_id;     /* its step */
	bool          by_key;      /* its key is */
	int64         locked_task; /* its row was locked without the lock */
	List         *elsewhere;   /* steps that were put elsewhere meanwhile */
} Blocked;

/* What the moves come to for the instance as a whole. */
typedef struct Outcome
{
	bool       failed;         /* a step has, in this call */
	bool       revived;        /* the instance had failed before it */
	bool       left_to_others; /* another step goes on, and decides */
	bool       decides;        /* this call does, with going */
	Bitmapset *batches;        /* that end, by places of their members */
	int32      last_step;      /* a step that has ended */
	TqGoing    going;          /* does another step go on? */
	List      *children;       /* steps that begin to wait for an instance */
} Outcome;

/* An instance that goes on. */
typedef struct Advance
{
	TqCall      *call;
	pairingheap *moves; /* that have been taken from the call */
	TqFlow       flow;
	TqEdges      edges;
	TqStepRows   rows;
	List        *ends;      /* of TqMoved, that have still to be seen to */
	TqChildLooks looks;     /* children that are to be looked at */
	bool         not_there; /* a child that has nothing to wait for */
	Choices      choices;
	Blocked      blocked;
	Outcome      outcome;
} Advance;

static bool take_ends(Advance *a);
static void advance_one(TqCall *call, pairingheap *moves);
static bool are_steps(const Advance *a);
static void go_on(Advance *a);
static bool round_of(Advance *a);
static bool has_failed(const Advance *a);
static void see_to_other_instances(Advance *a);
static bool see_to_choices(Advance *a);
static bool make_choices(Advance *a);
static void note_choice(Advance *a, const TqMoved *end);
static bool is_choice(const Advance *a, const TqMoved *end);
static bool make_choice(Advance *a, const TqMoved *end);
static bool is_held_up(Advance *a);
static bool changes_failures(const TqMoved *end);
static void see_to_ends(Advance *a);
static void pass_on(Advance *a, const TqMoved *end);
static void note_failure(Advance *a, const TqMoved *end);
static void take_failure_back(Advance *a, const TqMoved *end);
static bool is_repaired(const Advance *a);
static void bring_back(Advance *a);
static void see_to_children(Advance *a);
static void put_off(Advance *a, const TqChildLooks *ready);
static void begin_ready(Advance *a, TqChildLooks *ready);
static bool let_go(Advance *a, int32 step_id);
static void wait_for_others(Advance *a);
static void look_again(Advance *a);

void
tq_advance(TqCall *call)
{
	pairingheap *moves = tq_move_queue_new();
	bool         locked = call->steps->locked;

	/* what follows passes no gates: they were passed before */
	call->steps->locked = true;
	while (tq_move_queue_next(call, moves) != NULL)
		advance_one(call, moves);
	call->steps->locked = locked;
	pairingheap_free(moves);
}

/* The moves of the instance, behind those that are left; false: no more. */
static bool
take_ends(Advance *a)
{
	bool     any = false;
	TqMoved *one;

	while ((one = tq_move_queue_next(a->call, a->moves)) != NULL &&
		   one->workflow_id == a->flow.workflow_id)
	{
		(void) pairingheap_remove_first(a->moves);
		a->ends = lappend(a->ends, one);
		any = true;
	}
	return any;
}

/* The instance of the first move. */
static void
advance_one(TqCall *call, pairingheap *moves)
{
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq advance", ALLOCSET_DEFAULT_SIZES);
	int64   workflow_id = tq_move_queue_next(call, moves)->workflow_id;
	Advance a = {call, moves};
	bool    known;

	MemoryContextSwitchTo(one);
	known = tq_flow_read(workflow_id, &a.flow);
	(void) take_ends(&a);
	if (known)
		a.ends = tq_compensation_follow(call, &a.flow, a.ends);
	if (known && a.ends != NIL && a.flow.state != TQ_FLOW_CANCELLED &&
		are_steps(&a))
	{
		tq_edge_begin(&a.edges);
		tq_step_rows_begin(&a.rows, call, workflow_id);
		go_on(&a);
		tq_step_rows_end(&a.rows);
		tq_edge_end(&a.edges);
	}
	MemoryContextSwitchTo(mine);
	MemoryContextDelete(one);
}

/* Not rows that somebody has written by hand. */
static bool
are_steps(const Advance *a)
{
	ListCell *cell;

	foreach (cell, a->ends)
	{
		int32 step_id = ((TqMoved *) lfirst(cell))->step_id;

		if (step_id < 0 ||
			TQ_STEP_INDEX(step_id) >= a->flow.template->step_count)
			return false;
	}
	return true;
}

/*
 * Round after round, then the failures.  Who has failed looks for others that
 * go on in the round in which that can be seen: so of two the second one sees
 * the first.
 */
static void
go_on(Advance *a)
{
	int64 workflow_id = a->flow.workflow_id;

	tq_edge_lock(workflow_id);
	while (!round_of(a))
	{
		tq_edge_wait(workflow_id);
		tq_edge_unlock(workflow_id);
		wait_for_others(a);
		tq_edge_lock(workflow_id);
		tq_edge_go_on(workflow_id);
		look_again(a);
	}
	tq_edge_unlock(workflow_id);
	Assert(!tq_edge_is_locked(workflow_id));
	/* whoever is told may be slow to listen */
	tq_choice_warn(&a->flow, a->choices.large);
	if (a->outcome.failed)
		tq_instance_end_cancel_waiting(a->call, &a->flow, a->outcome.batches);
	if (has_failed(a) &&
		a->flow.template->on_failure == TQ_ON_FAILURE_COMPENSATE)
		tq_compensation_begin(a->call, &a->flow);
	else if (has_failed(a))
		tq_instance_end_in_error(&a->flow);
	see_to_other_instances(a);
}

/* Nothing goes on any more, as this call knows. */
static bool
has_failed(const Advance *a)
{
	return a->outcome.going == TQ_GOING_NOT && a->outcome.decides &&
		   a->flow.state == TQ_FLOW_LIVE;
}

/* Not under the lock: rows of other instances may have to be waited for. */
static void
see_to_other_instances(Advance *a)
{
	ListCell *cell;

	foreach (cell, a->outcome.children)
		tq_child_begin(a->call, &a->flow, *(int64 *) lfirst(cell));
	if (a->outcome.revived)
		tq_child_revived(a->call, &a->flow);
	if (a->flow.ended)
		tq_child_ended(a->call, &a->flow);
}

/*
 * Under the lock of the instance, until nothing follows; false: what is left
 * has to wait for somebody.
 */
static bool
round_of(Advance *a)
{
	Assert(tq_edge_is_locked(a->flow.workflow_id));
	tq_snapshot_renew();
	do
	{
		if (!see_to_choices(a))
			return false;
		see_to_ends(a);
		see_to_children(a);
	} while (take_ends(a) || a->looks.count > 0);
	a->outcome.decides = a->flow.state == TQ_FLOW_LIVE &&
						 tq_instance_end_has_failed(&a->flow, &a->edges);
	a->outcome.going = TQ_GOING_NOT;
	if (a->outcome.decides && !a->outcome.left_to_others)
		a->outcome.going =
			tq_instance_end_goes_on(a->call, &a->flow, &a->edges,
									a->outcome.last_step, &a->blocked.xid);
	a->outcome.left_to_others = a->outcome.left_to_others ||
								a->outcome.going == TQ_GOING_ON;
	a->outcome.decides = a->outcome.decides && !a->outcome.left_to_others;
	return a->blocked.later.count == 0 &&
		   (a->outcome.going != TQ_GOING_UNKNOWN || a->outcome.left_to_others);
}

/*
 * Choices first: what they make must be there before edges go.  False when
 * another choice has to be waited for; nothing has been passed on by then.
 */
static bool
see_to_choices(Advance *a)
{
	ListCell *cell;

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	foreach (cell, a->ends)
		a->choices.asked = a->choices.asked && !changes_failures(lfirst(cell));
	if ((a->choices.again ||
		 (tq_step_rule_stops(&a->flow) && is_repaired(a))) &&
		!make_choices(a))
		return false;
	a->choices.again = false;
	foreach (cell, a->ends)
		note_choice(a, lfirst(cell));
	foreach (cell, a->ends)
	{
		if (!make_choice(a, lfirst(cell)))
			return false;
	}
	/* from here on these ends are not seen again */
	foreach (cell, a->ends)
	{
		const TqMoved *end = lfirst(cell);

		if (is_choice(a, end))
			tq_choice_note_large(&a->choices.large, a->flow.template,
								 TQ_STEP_INDEX(end->step_id), end->task_id);
	}
	return true;
}

static void
note_choice(Advance *a, const TqMoved *end)
{
	if (is_choice(a, end))
		a->choices.to_come =
			bms_add_member(a->choices.to_come, TQ_STEP_INDEX(end->step_id));
}

static bool
is_choice(const Advance *a, const TqMoved *end)
{
	TqStepType type =
		a->flow.template->steps[TQ_STEP_INDEX(end->step_id)].type;

	return (end->to == TQ_STATE_DONE || end->to == TQ_STATE_FILTERED) &&
		   tq_step_chooses(type);
}

/* All that were made: one may have made nothing, or not all that follows. */
static bool
make_choices(Advance *a)
{
	TqStepRow *made;
	int        count = tq_flow_steps(&a->flow, &made);
	TqMoved   *ends = palloc0(sizeof(TqMoved) * (count + 1));

	for (int i = 0; i < count; i++)
	{
		ends[i].workflow_id = a->flow.workflow_id;
		ends[i].task_id = made[i].task_id;
		ends[i].step_id = made[i].step_id;
		ends[i].to = made[i].state;
		note_choice(a, &ends[i]);
	}
	for (int i = 0; i < count; i++)
	{
		if (!make_choice(a, &ends[i]))
			return false;
	}
	return true;
}

/*
 * If it is one.  What is there already is not made again.  Of several that end
 * in one call each one takes those after it as not made yet.
 */
static bool
make_choice(Advance *a, const TqMoved *end)
{
	TqPlan   plan = {0};
	TqChoice choice;
	int      place = TQ_STEP_INDEX(end->step_id);
	char    *wrong;

	if (!is_choice(a, end))
		return true;
	a->choices.to_come = bms_del_member(a->choices.to_come, place);
	if (is_held_up(a))
	{
		a->choices.view = NULL;
		return true;
	}
	wrong = tq_choice_read(a->flow.template, place,
						   tq_results_of_step(end->task_id), &choice);
	/* it was checked before; a limit may have been lowered since */
	if (wrong != NULL)
		tq_choice_refuse(&a->flow.template->steps[place], end->task_id, wrong);
	if (a->choices.view == NULL)
		a->choices.view = tq_step_plan_known(&a->flow, a->choices.to_come);
	if (!tq_step_plan_after(&a->flow, a->choices.view, &a->edges, place,
							&choice, a->choices.to_come, &plan,
							&a->blocked.xid))
		return false;
	tq_step_make_all(a->call, &a->flow, plan.steps, plan.count, &plan.edges);
	for (int i = 0; i < plan.count; i++)
	{
		if (!plan.steps[i].free || plan.steps[i].judged)
			tq_move_queue_add_look(&a->looks, plan.steps[i].step_id, 0);
	}
	return true;
}

/* A failure keeps choices from making anything. */
static bool
is_held_up(Advance *a)
{
	if (!tq_step_rule_stops(&a->flow))
		return false;
	if (!a->choices.asked)
		a->choices.held_up = tq_failure_policy_has_failed(&a->flow);
	a->choices.asked = true;
	return a->choices.held_up;
}

static bool
changes_failures(const TqMoved *end)
{
	TqState states[] = {end->from, end->to};

	for (int i = 0; i < lengthof(states); i++)
	{
		if (!TQ_STATE_IS_LIVE(states[i]) && states[i] != TQ_STATE_DONE &&
			states[i] != TQ_STATE_FILTERED)
			return true;
	}
	return false;
}

static void
see_to_ends(Advance *a)
{
	ListCell *cell;

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	if (is_repaired(a))
		bring_back(a);
	foreach (cell, a->ends)
	{
		TqMoved *end = lfirst(cell);

		a->outcome.revived = a->outcome.revived || end->revived;
		if (end->from != 0 && !TQ_STATE_IS_LIVE(end->from))
			take_failure_back(a, end);
		/* its last parent may have ended since it was held back */
		if (end->to == TQ_STATE_BLOCKED)
			tq_move_queue_add_look(&a->looks, end->step_id, 0);
		/* also one that was taken back with a choice */
		if (TQ_STATE_IS_LIVE(end->to))
			continue;
		a->outcome.last_step = end->step_id;
		if (tq_failure_policy_counts_as_finished(&a->flow, end))
			pass_on(a, end);
		else
			note_failure(a, end);
	}
	a->ends = NIL;
}

/* Its children wait for one step less. */
static void
pass_on(Advance *a, const TqMoved *end)
{
	const TqStep *step = &a->flow.template->steps[TQ_STEP_INDEX(end->step_id)];
	int64         workflow_id = a->flow.workflow_id;

	for (int i = 0; i < step->children.count; i++)
	{
		int32 child = step->children.places[i];

		if (tq_edge_delete(&a->edges, workflow_id, child, end->step_id))
			tq_move_queue_add_look(&a->looks, child, end->step_id);
	}
	if (step->ends &&
		tq_edge_delete(&a->edges, workflow_id, TQ_EDGE_END, end->step_id))
		tq_move_queue_add_look(&a->looks, TQ_EDGE_END, end->step_id);
}

static void
note_failure(Advance *a, const TqMoved *end)
{
	const TqTemplate *template = a->flow.template;
	int        place = TQ_STEP_INDEX(end->step_id);
	TqNewEdges one = {0};

	if (end->to == TQ_STATE_DEAD &&
		tq_step_rule_ends_batch(template, &template->steps[place]))
		a->outcome.batches = bms_add_member(a->outcome.batches, place);
	tq_edge_note(&one, TQ_EDGE_FAILURE, end->step_id);
	tq_edge_add(a->flow.workflow_id, &one);
	a->outcome.failed = true;
}

/* A step that had failed goes on, or was resolved. */
static void
take_failure_back(Advance *a, const TqMoved *end)
{
	(void) tq_edge_delete(&a->edges, a->flow.workflow_id, TQ_EDGE_FAILURE,
						  end->step_id);
}

/* Does something that had failed not do so any more? */
static bool
is_repaired(const Advance *a)
{
	ListCell *cell;

	foreach (cell, a->ends)
	{
		TqMoved *end = lfirst(cell);

		if (end->from != end->to &&
			(end->from == TQ_STATE_DEAD || end->from == TQ_STATE_CANCELLED))
			return true;
	}
	return false;
}

/* What waited for that is looked at. */
static void
bring_back(Advance *a)
{
	int32 *steps;
	int    count = tq_failure_policy_bring_back(a->call, &a->flow, &steps);

	for (int i = 0; i < count; i++)
		tq_move_queue_add_look(&a->looks, steps[i], 0);
}

static void
see_to_children(Advance *a)
{
	TqChildLooks looks = a->looks;
	TqChildLooks ready = {0};

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	memset(&a->looks, 0, sizeof(a->looks));
	tq_move_queue_sort_looks(&looks);
	for (int i = 0; i < looks.count; i++)
	{
		int32         child = looks.all[i].child;
		int32         near = looks.all[i].near;
		TransactionId other;
		TqLeft        left;

		CHECK_FOR_INTERRUPTS();
		left =
			tq_edge_left(&a->edges, a->flow.workflow_id, child, near, &other);
		if (left == TQ_LEFT_PASSING)
		{
			a->blocked.xid = other;
			tq_move_queue_add_look(&a->blocked.later, child, near);
		}
		else if (left == TQ_LEFT_NONE && child == TQ_EDGE_END)
		{
			if (tq_instance_end_try(a->call, &a->flow, &a->edges,
									&a->blocked.xid) == TQ_GOING_UNKNOWN)
				tq_move_queue_add_look(&a->blocked.later, child, near);
		}
		else if (left == TQ_LEFT_NONE)
			tq_move_queue_add_look(&ready, child, near);
	}
	if (a->blocked.later.count > 0 && tq_step_rule_stops(&a->flow))
		put_off(a, &ready);
	else
		begin_ready(a, &ready);
}

/*
 * Whoever fails cancels what has not begun, and waits for those at it: who
 * may wait for him has begun nothing.
 */
static void
put_off(Advance *a, const TqChildLooks *ready)
{
	for (int i = 0; i < ready->count; i++)
		tq_move_queue_add_look(&a->blocked.later, ready->all[i].child,
							   ready->all[i].near);
}

/*
 * Steps that wait for nothing any more, in the order of their tasks: so with
 * whoever else changes several of them nobody waits in a ring.  For the same
 * reason those behind one that is busy have to wait with it.
 */
static void
begin_ready(Advance *a, TqChildLooks *ready)
{
	bool busy = false;

	/* some of them may just have been made, or brought back */
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
		busy = busy || !let_go(a, ready->all[i].child);
		if (busy)
			tq_move_queue_add_look(&a->blocked.later, ready->all[i].child,
								   ready->all[i].near);
	}
	/* one of them had finished before what it depends on */
	if (a->not_there)
		tq_move_queue_add_look(&a->looks, TQ_EDGE_END, 0);
	a->not_there = false;
}

/*
 * A step that waits for nothing begins, unless it is not there or has been
 * put elsewhere; false: somebody is at its row.
 */
static bool
let_go(Advance *a, int32 step_id)
{
	const TqStep *step = &a->flow.template->steps[TQ_STEP_INDEX(step_id)];
	TqTask        task;
	TqMove        move = {0};
	TqQueue      *queue;

	while (tq_snapshot_renew(), !tq_step_rows_find(&a->rows, step_id, &task))
	{
		if (!tq_step_rows_is_made(&a->rows, step_id, &a->blocked.xid))
		{
			a->not_there = true;
			return true;
		}
		if (TransactionIdIsValid(a->blocked.xid))
			return false;
		/* it has just been committed, or since the transaction began */
		if (IsolationUsesXactSnapshot())
			tq_error_serialization();
	}
	queue = tq_queue_by_id(task.f.queue_id);
	if (queue == NULL)
		return true;
	if (task.f.state == TQ_STATE_BLOCKED &&
		(task.f.flags & TQ_FLAG_IN_LINE) == 0)
	{
		/* nobody waits for a key while he has the lock */
		if (tq_queue_any_ordered() && !tq_key_try_task(a->call, queue, &task))
		{
			a->blocked.task_id = task.f.task_id;
			a->blocked.step_id = step_id;
			a->blocked.by_key = true;
			return false;
		}
		tq_step_make_begin(&a->flow, step, queue, &task, &move);
		move.wanted = "begun";
		move.no_wait = task.f.task_id != a->blocked.locked_task;
		/* under the lock only a row that is locked already is waited for */
		Assert(tq_edge_is_locked(a->flow.workflow_id));
		Assert(move.no_wait || tq_tuple_lock_is_held(a->call, &task));
		if (tq_state_enter(a->call, queue, &task, &move))
		{
			if (move.to == TQ_STATE_SUSPENDED)
				tq_wait_step_begun(&task, &move);
			if (move.to == TQ_STATE_SUSPENDED &&
				step->type == TQ_STEP_WORKFLOW)
			{
				int64 *begun = palloc(sizeof(int64));

				*begun = task.f.task_id;
				a->outcome.children = lappend(a->outcome.children, begun);
			}
			return true;
		}
	}
	else if (!tq_tuple_lock_is_taken(a->call, &task))
		return true;
	a->blocked.task_id = task.f.task_id;
	a->blocked.step_id = step_id;
	return false;
}

/*
 * Not under the lock.  Of a row that somebody was changing the lock is kept:
 * a step that has been put elsewhere is left alone, any other one begins.
 */
static void
wait_for_others(Advance *a)
{
	TqTask task;

	Assert(!tq_edge_is_locked(a->flow.workflow_id));
	CHECK_FOR_INTERRUPTS();
	tq_step_may_wait();
	for (int i = 0; i < a->blocked.later.count; i++)
		tq_move_queue_add_look(&a->looks, a->blocked.later.all[i].child,
							   a->blocked.later.all[i].near);
	a->blocked.later.count = 0;
	if (a->blocked.task_id == 0)
	{
		if (TransactionIdIsValid(a->blocked.xid))
			XactLockTableWait(a->blocked.xid, NULL, NULL, XLTW_None);
		return;
	}
	tq_snapshot_renew();
	a->blocked.locked_task = 0;
	if (a->blocked.by_key && tq_row_find(a->call, a->blocked.task_id, &task))
	{
		TqQueue *queue = tq_queue_by_id(task.f.queue_id);

		if (queue != NULL)
			tq_key_lock_task(a->call, queue, &task);
	}
	else
	{
		if (tq_row_find(a->call, a->blocked.task_id, &task) &&
			tq_row_lock(a->call, &task, false))
			a->blocked.locked_task = a->blocked.task_id;
		if (a->blocked.locked_task == 0 || task.f.state != TQ_STATE_BLOCKED ||
			(task.f.flags & TQ_FLAG_IN_LINE) != 0)
		{
			tq_move_queue_drop_look(&a->looks, a->blocked.step_id);
			tq_move_queue_add_look(&a->looks, TQ_EDGE_END, 0);
			a->blocked.elsewhere =
				lappend_int(a->blocked.elsewhere, a->blocked.step_id);
		}
	}
	a->blocked.task_id = 0;
	a->blocked.by_key = false;
}

/*
 * Under the lock: whoever has come meanwhile has left to this transaction
 * whatever waits for a step that it has ended, in this call or before.
 */
static void
look_again(Advance *a)
{
	const TqStep *steps = a->flow.template->steps;
	TqNewEdges    mine = {0};

	Assert(tq_edge_is_locked(a->flow.workflow_id));
	a->choices.view = NULL;
	a->choices.asked = false;
	tq_edge_mine(&a->edges, a->flow.workflow_id, &mine);
	for (int i = 0; i < mine.count; i++)
	{
		int32 parent = mine.parents[i];

		if (mine.children[i] == TQ_EDGE_FAILURE ||
			list_member_int(a->blocked.elsewhere, mine.children[i]))
			continue;
		tq_move_queue_add_look(&a->looks, mine.children[i], parent);
		a->choices.again =
			a->choices.again ||
			(mine.children[i] == TQ_EDGE_END &&
			 tq_step_chooses(steps[TQ_STEP_INDEX(parent)].type));
	}
	a->outcome.left_to_others = false;
}
