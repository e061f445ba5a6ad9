/*
 * step_plan.h
 *		Which steps are created, at the start and after a choice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_PLAN_H
#define TQ_STEP_PLAN_H

#include "nodes/bitmapset.h"

#include "flow/instance/edge.h"
#include "flow/instance/flow_types.h"
#include "flow/run/choice.h"

/* A step that is to be made. */
typedef struct TqNewStep
{
	int32  step_id;
	Jsonb *payload; /* of a member of a batch; NULL: as the step says */
	bool   free;    /* it waits for nothing */
	bool   decides; /* and has to begin all the same */
} TqNewStep;

/* What is to be made at once. */
typedef struct TqPlan
{
	int        count;
	int        room;
	TqNewStep *steps;
	TqNewEdges edges;
} TqPlan;

/* What is known of an instance while choices are made in it, by places. */
typedef struct TqPlanView
{
	bool *exists; /* it is there, or will be */
	bool *ended;  /* of decisions and batches: the choice is made */
	bool *stands; /* it is not, and no other transaction makes it */
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
