/*
 * step_plan.h
 *		Which steps come into being, at the start and after a choice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_PLAN_H
#define TQ_STEP_PLAN_H

#include "flow/instance/flow.h"

extern void        tq_step_plan_start(TqFlow *flow, TqPlan *plan);
extern TqPlanView *tq_step_plan_nothing(const TqTemplate *template);
extern TqPlanView *tq_step_plan_known(const TqFlow    *flow,
									  const Bitmapset *to_come);
extern bool tq_step_plan_after(TqFlow *flow, TqPlanView *known, TqEdges *edges,
							   int place, const TqChoice *choice,
							   const Bitmapset *to_come, TqPlan *plan,
							   TransactionId *other);
extern void tq_step_plan_note(TqPlanView *known, const TqStepRow *made);
extern void tq_step_plan_without(TqFlow *flow, TqPlanView *known,
								 const bool *below);

#endif /* TQ_STEP_PLAN_H */
