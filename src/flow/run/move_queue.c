/*
 * move_queue.c
 *		The queue of steps that have moved, and of the children to be checked.
 *
 * Both may be many in one call, so that finding one must not require a scan of
 * all others.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/array.h"
#include "engine/call.h"
#include "flow/run/move_queue.h"

/* Number of moves noted in this session. */
static uint64 moves_noted = 0;

static int compare_moves(const pairingheap_node *a, const pairingheap_node *b,
						 void *arg);
static int compare_looks(const void *a, const void *b);
static int compare_tasks(const void *a, const void *b);

/* Create an empty queue. */
pairingheap *
tq_move_queue_new(void)
{
	return pairingheap_allocate(compare_moves, NULL);
}

/* The number for the next move. */
static uint64
next_number(void)
{
	return moves_noted++;
}

/*
 * Order by instance, inner instances, which have the larger ids, before outer
 * ones, then by the order in which the moves were noted.
 */
static int
compare_moves(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	const TqMoved *x = pairingheap_const_container(TqMoved, node, a);
	const TqMoved *y = pairingheap_const_container(TqMoved, node, b);

	if (x->workflow_id != y->workflow_id)
		return x->workflow_id > y->workflow_id ? 1 : -1;
	return x->number < y->number ? 1 : -1;
}

/* Returns the first move that was not processed, or NULL if all were. */
TqMoved *
tq_move_queue_next(TqCall *call, pairingheap *moves)
{
	ListCell *cell;

	foreach (cell, call->steps->moved)
		pairingheap_add(moves, &((TqMoved *) lfirst(cell))->node);
	list_free(call->steps->moved);
	call->steps->moved = NIL;
	return pairingheap_is_empty(moves)
			   ? NULL
			   : pairingheap_container(TqMoved, node,
									   pairingheap_first(moves));
}

/* Remove the check of one child. */
void
tq_move_queue_drop_look(TqChildLooks *looks, int32 child)
{
	int kept = 0;

	for (int i = 0; i < looks->count; i++)
	{
		if (looks->all[i].child != child)
			looks->all[kept++] = looks->all[i];
	}
	looks->count = kept;
}

/* A child may be added twice; see tq_move_queue_sort_looks. */
void
tq_move_queue_add_look(TqChildLooks *looks, int32 child, int32 near)
{
	TqChildLook *last;

	if (looks->count > 0 && looks->all[looks->count - 1].child == child)
		return;
	TQ_ARRAY_RESERVE(looks->all, looks->count, looks->room,
					 CurrentMemoryContext);
	last = &looks->all[looks->count++];
	last->child = child;
	last->near = near;
	last->task_id = 0;
}

/* Sort and remove duplicates; the end of the instance comes last. */
void
tq_move_queue_sort_looks(TqChildLooks *looks)
{
	int kept = 0;

	if (looks->count < 2)
		return;
	qsort(looks->all, looks->count, sizeof(TqChildLook), compare_looks);
	for (int i = 0; i < looks->count; i++)
	{
		if (kept == 0 || looks->all[kept - 1].child != looks->all[i].child)
			looks->all[kept++] = looks->all[i];
	}
	looks->count = kept;
}

/* Sort by task id. */
void
tq_move_queue_sort_tasks(TqChildLooks *looks)
{
	if (looks->count > 1)
		qsort(looks->all, looks->count, sizeof(TqChildLook), compare_tasks);
}

static int
compare_looks(const void *a, const void *b)
{
	uint32 x = (uint32) ((const TqChildLook *) a)->child;
	uint32 y = (uint32) ((const TqChildLook *) b)->child;

	return x < y ? -1 : x > y;
}

static int
compare_tasks(const void *a, const void *b)
{
	int64 x = ((const TqChildLook *) a)->task_id;
	int64 y = ((const TqChildLook *) b)->task_id;

	if (x == y)
		return compare_looks(a, b);
	return x < y ? -1 : 1;
}

/* Note that a step has moved, for the end of the call. */
void
tq_move_queue_note(TqCall *call, int64 workflow_id, int64 task_id,
				   int32 step_id, TqState from, TqState to, bool revived)
{
	MemoryContext mine = MemoryContextSwitchTo(call->context);
	TqSteps      *steps = tq_call_steps(call);
	TqMoved      *one = palloc(sizeof(TqMoved));

	one->number = next_number();
	one->workflow_id = workflow_id;
	one->task_id = task_id;
	one->step_id = step_id;
	one->from = from;
	one->to = to;
	one->revived = revived;
	steps->moved = lappend(steps->moved, one);
	MemoryContextSwitchTo(mine);
}
