/*
 * advance.h
 *		What follows in a workflow from the moves of its steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_H
#define TQ_ADVANCE_H

#include "flow/flow.h"

/* A move that the door has told of. */
typedef struct TqMoved
{
	int64   workflow_id;
	int64   task_id;
	int32   step_id;
	TqState from;
	TqState to;
} TqMoved;

extern void tq_advance(TqCall *call);
extern void tq_advance_note(TqCall *call, int64 workflow_id, int64 task_id,
							int32 step_id, TqState from, TqState to);

#endif /* TQ_ADVANCE_H */
