/*
 * move_queue.h
 *		The queue of steps that have moved, and of the children to be checked.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MOVE_QUEUE_H
#define TQ_MOVE_QUEUE_H

#include "base/code.h"
#include "store/table.h"

/* A move of a step, noted by state_hook.c. */
typedef struct TqMoved
{
	pairingheap_node node;   /* in the queue */
	uint64           number; /* in the order in which they were noted */

	int64   workflow_id;
	int64   task_id;
	int32   step_id;
	TqState from;
	TqState to;
	bool    revived; /* the instance had ended, and is live again */
} TqMoved;

/* A child that must be checked. */
typedef struct TqChildLook
{
	int32 child;
	int32 near;    /* the parent that has ended */
	int64 task_id; /* 0: not known */
} TqChildLook;

typedef struct TqChildLooks
{
	int          count;
	int          room;
	TqChildLook *all;
} TqChildLooks;

extern pairingheap *tq_move_queue_new(void);
extern TqMoved     *tq_move_queue_next(TqCall *call, pairingheap *moves);
extern void         tq_move_queue_add_look(TqChildLooks *looks, int32 child,
										   int32 near);
extern void         tq_move_queue_drop_look(TqChildLooks *looks, int32 child);
extern void         tq_move_queue_sort_looks(TqChildLooks *looks);
extern void         tq_move_queue_sort_tasks(TqChildLooks *looks);

extern void tq_move_queue_note(TqCall *call, int64 workflow_id, int64 task_id,
							   int32 step_id, TqState from, TqState to,
							   bool revived);

#endif /* TQ_MOVE_QUEUE_H */
