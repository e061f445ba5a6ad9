/*
 * instance_end.h
 *		What state an instance is in.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_INSTANCE_END_H
#define TQ_INSTANCE_END_H

#include "flow/instance/flow.h"
#include "store/table.h"

/* Does another step go on? */
typedef enum TqGoing
{
	TQ_GOING_NOT,
	TQ_GOING_ON,
	TQ_GOING_UNKNOWN /* that is for another transaction to say */
} TqGoing;

extern TqGoing tq_judge_end(TqCall *call, TqFlow *flow, TqEdges *edges,
							TransactionId *other);
extern bool    tq_judge_finish(TqFlow *flow);
extern bool    tq_judge_has_failed(const TqFlow *flow, TqEdges *edges);
extern TqGoing tq_judge_look(TqCall *call, TqFlow *flow, TqEdges *edges,
							 int32 near, TransactionId *other);
extern void    tq_judge_failed(TqCall *call, TqFlow *flow,
							   const Bitmapset *batches);
extern void    tq_judge_error(TqFlow *flow);

#endif /* TQ_INSTANCE_END_H */
