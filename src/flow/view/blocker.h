/*
 * blocker.h
 *		What keeps the steps of an instance from being done.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BLOCKER_H
#define TQ_BLOCKER_H

#include "flow/instance/flow_types.h"

/* An instance that is explained: its steps, and what may be told of them. */
typedef struct TqFlowView
{
	TqFlow    *flow;
	TqStepRow *made;
	int        count;
	bool      *exists; /* by place */
	bool      *ended;  /* by place: done or filtered, all that there are */
	TqStepRow *undone; /* compensations that there are */
	int        undone_count;
	int        undone_left; /* those that are to come */
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
