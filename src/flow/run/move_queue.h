/*
 * move_queue.h
 *		What is still to be seen to when steps have moved.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MOVE_QUEUE_H
#define TQ_MOVE_QUEUE_H

#include "base/types.h"
#include "store/table.h"


/* A move that the door has told of. */
typedef struct TqMoved
{
	pairingheap_node node;   /* in what is to be seen to */
	uint64           number; /* in the order in which they were told */

	int64   workflow_id;
	int64   task_id;
	int32   step_id;
	TqState from;
	TqState to;
	bool    revived; /* the instance had ended */
} TqMoved;

/* A step that is to be looked at. */
typedef struct TqLook
{
	int32 child;
	int32 near;    /* the parent that has ended */
	int64 task_id; /* 0: not known */
} TqLook;

typedef struct TqLooks
{
	int     count;
	int     room;
	TqLook *all;
} TqLooks;

/* sees to the moves when the call ends; advance.c */
extern void (*tq_pending_advance)(TqCall *call);

extern pairingheap *tq_pending_moves(void);
extern uint64       tq_pending_number(void);
extern TqMoved     *tq_pending_move(TqCall *call, pairingheap *moves);
extern void         tq_pending_add(TqLooks *looks, int32 child, int32 near);
extern void         tq_pending_drop(TqLooks *looks, int32 child);
extern void         tq_pending_sort(TqLooks *looks);
extern void         tq_pending_sort_tasks(TqLooks *looks);

extern void tq_advance_note(TqCall *call, int64 workflow_id, int64 task_id,
							int32 step_id, TqState from, TqState to,
							bool revived);

#endif /* TQ_MOVE_QUEUE_H */
