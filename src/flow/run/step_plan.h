/*
 * step_plan.h
 *		Plans which steps are created, at the start and after a choice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_PLAN_H
#define TQ_STEP_PLAN_H

#include "nodes/bitmapset.h"

#include "flow/instance/edge.h"
#include "flow/instance/flow_types.h"
#include "flow/run/choice.h"

/* A step to be made. */
typedef struct TqNewStep
{
	int32  step_id;
	Jsonb *payload; /* of a batch member; NULL: as defined */
	bool   free;    /* it waits for nothing */
	bool   decides; /* but needs an evaluation to begin */
} TqNewStep;

/* Steps to be made together. */
typedef struct TqPlan
{
	int        count;
	int        room;
	TqNewStep *steps;
	TqNewEdges edges;
} TqPlan;

/* State of an instance while choices are made, by step index. */
typedef struct TqPlanView
{
	bool *exists; /* it exists, or will exist */
	bool *ended;  /* decisions and batches: the choice is made */
	bool *stands; /* not made, also not by another transaction */
} TqPlanView;

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
