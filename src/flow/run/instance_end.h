/*
 * instance_end.h
 *		Decides when an instance ends.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_INSTANCE_END_H
#define TQ_INSTANCE_END_H

#include "flow/instance/edge.h"
#include "flow/instance/flow_types.h"
#include "store/table.h"

/* Is another step live? */
typedef enum TqGoing
{
	TQ_GOING_NOT,
	TQ_GOING_ON,
	TQ_GOING_UNKNOWN /* depends on another transaction */
} TqGoing;

extern TqGoing tq_instance_end_try(TqCall *call, TqFlow *flow, TqEdges *edges,
								   TransactionId *other);
extern bool    tq_instance_end_if_done(TqFlow *flow);
extern bool    tq_instance_end_has_failed(const TqFlow *flow, TqEdges *edges,
										  int32 near);
extern TqGoing tq_instance_end_is_live(TqCall *call, TqFlow *flow,
									   TqEdges *edges, int32 near,
									   TransactionId *other);
extern void    tq_instance_end_cancel_waiting(TqCall *call, TqFlow *flow,
											  TqEdges         *edges,
											  const Bitmapset *batches,
											  bool             once);
extern void    tq_instance_end_in_error(TqFlow *flow);

#endif /* TQ_INSTANCE_END_H */
