/*
 * failure_policy.h
 *		Which steps a failure holds up.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FAILURE_POLICY_H
#define TQ_FAILURE_POLICY_H

#include "flow/instance/edge.h"
#include "flow/instance/flow_types.h"
#include "flow/run/move_queue.h"
#include "store/table.h"

extern bool tq_failure_policy_counts_as_finished(const TqFlow  *flow,
												 const TqMoved *end);
extern bool tq_failure_policy_is_repaired(const List *moves);
extern bool tq_failure_policy_is_cancelled(const TqFlow *flow, TqEdges *edges,
										   int place);
extern void tq_failure_policy_note_cancelled(const TqFlow *flow,
											 TqEdges *edges, int place);
extern void tq_failure_policy_forget_cancelled(const TqFlow    *flow,
											   TqEdges         *edges,
											   const Bitmapset *returned);
extern int  tq_failure_policy_bring_back(TqCall *call, const TqFlow *flow,
										 const List *moves, int32 **steps);

#endif /* TQ_FAILURE_POLICY_H */
