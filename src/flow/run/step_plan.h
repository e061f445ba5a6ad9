/*
 * step_plan.h
 *		Which steps come into being, at the start and after a choice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_PLAN_H
#define TQ_STEP_PLAN_H

#include "flow/instance/flow.h"

extern void     tq_plan_start(TqFlow *flow, TqPlan *plan);
extern TqKnown *tq_plan_nothing(const TqTemplate *template);
extern TqKnown *tq_plan_known(const TqFlow *flow, const Bitmapset *to_come);
extern bool     tq_plan_after(TqFlow *flow, TqKnown *known, TqEdges *edges,
							  int place, const TqChoice *choice,
							  const Bitmapset *to_come, TqPlan *plan,
							  TransactionId *other);
extern void     tq_plan_note(TqKnown *known, const TqMade *made);
extern void  tq_plan_without(TqFlow *flow, TqKnown *known, const bool *below);

#endif /* TQ_STEP_PLAN_H */
