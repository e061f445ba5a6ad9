/*
 * blocker.h
 *		Describes what keeps the steps of an instance from finishing.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BLOCKER_H
#define TQ_BLOCKER_H

#include "flow/instance/flow_types.h"

/* An instance to be described, and its steps. */
typedef struct TqFlowView
{
	TqFlow    *flow;
	TqStepRow *made;
	int        count;
	bool      *exists; /* by step index */
	bool      *ended;  /* by step index: all are done or filtered */
	TqStepRow *undone; /* compensations that exist */
	int        undone_count;
	int        undone_left; /* compensations still to be made */
} TqFlowView;

extern void tq_blocker_look(TqFlowView *sight, TqFlow *flow);
extern bool tq_blocker_has_failed(const TqFlow *flow, const TqStepRow *step);
extern const TqStepRow *tq_blocker_root(const TqFlowView *sight,
										const bool *places, bool *hidden);
extern bool tq_blocker_is(const TqFlow *flow, const TqStepRow *step);
extern void tq_blocker_say(StringInfo text, TqFlow *flow,
						   const TqStepRow *step);
extern void tq_blocker_why(StringInfo text, TqFlow *flow,
						   const TqStepRow *step);
extern void tq_blocker_do(StringInfo text, TqFlow *flow,
						  const TqStepRow *step);

#endif /* TQ_BLOCKER_H */
