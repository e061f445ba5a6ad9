/*
 * failure_policy.h
 *		What a failure holds up.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FAILURE_POLICY_H
#define TQ_FAILURE_POLICY_H

#include "flow/instance/flow_types.h"
#include "flow/run/move_queue.h"
#include "store/table.h"

extern bool tq_failure_policy_counts_as_finished(const TqFlow  *flow,
												 const TqMoved *end);
extern bool tq_failure_policy_is_repaired(const List *moves);
extern bool tq_failure_policy_has_failed(const TqFlow *flow);
extern int  tq_failure_policy_bring_back(TqCall *call, const TqFlow *flow,
										 int32 **steps);

#endif /* TQ_FAILURE_POLICY_H */
