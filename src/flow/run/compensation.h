/*
 * compensation.h
 *		Compensates the finished steps of a failed instance.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COMPENSATION_H
#define TQ_COMPENSATION_H

#include "engine/move.h"
#include "flow/instance/flow_types.h"
#include "store/table.h"

extern void  tq_compensation_begin(TqCall *call, TqFlow *flow);
extern List *tq_compensation_follow(TqCall *call, TqFlow *flow, List *moves);
extern void  tq_compensation_check(const TqFlow *flow, const TqTask *task,
								   const TqMove *move);
extern bool  tq_compensation_allows(const TqFlow *flow, int32 step_id,
									TqState from);
extern int   tq_compensation_left(const TqFlow *flow, int32 **step_ids);

#endif /* TQ_COMPENSATION_H */
