/*
 * blocker.h
 *		What keeps the steps of an instance from being done.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BLOCKER_H
#define TQ_BLOCKER_H

#include "flow/instance/flow.h"

/* An instance that is explained: its steps, and what may be told of them. */
typedef struct TqSight
{
	TqFlow *flow;
	TqMade *made;
	int     count;
	bool   *exists; /* by place */
	bool   *ended;  /* by place: done or filtered, all that there are */
	TqMade *undone; /* compensations that there are */
	int     undone_count;
	int     undone_left; /* those that are to come */
} TqSight;

extern void tq_obstacle_look(TqSight *sight, TqFlow *flow);
extern bool tq_obstacle_has_failed(const TqFlow *flow, const TqMade *step);
extern const TqMade *tq_obstacle_root(const TqSight *sight, const bool *places,
									  bool *hidden);
extern bool          tq_obstacle_is(const TqFlow *flow, const TqMade *step);
extern bool          tq_obstacle_waits(const TqFlow *flow, const TqMade *step);
extern void tq_obstacle_say(StringInfo text, TqFlow *flow, const TqMade *step);
extern void tq_obstacle_why(StringInfo text, TqFlow *flow, const TqMade *step);
extern void tq_obstacle_do(StringInfo text, TqFlow *flow, const TqMade *step);

#endif /* TQ_BLOCKER_H */
