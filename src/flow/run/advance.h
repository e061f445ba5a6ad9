/*
 * advance.h
 *		What follows in a workflow from the moves of its steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_H
#define TQ_ADVANCE_H

#include "lib/pairingheap.h"

#include "flow/instance/flow.h"

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

extern void tq_advance(TqCall *call);
extern void tq_advance_note(TqCall *call, int64 workflow_id, int64 task_id,
							int32 step_id, TqState from, TqState to,
							bool revived);

/* failure_policy.c */
extern bool tq_stop_is(const TqFlow *flow);
extern bool tq_stop_ends_batch(const TqTemplate *template, const TqStep *step);
extern bool tq_stop_counts_as_finished(const TqFlow *flow, const TqMoved *end);
extern bool tq_stop_has_failed(const TqFlow *flow);
extern int tq_stop_bring_back(TqCall *call, const TqFlow *flow, int32 **steps);

#endif /* TQ_ADVANCE_H */
