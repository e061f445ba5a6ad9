/*
 * tally.h
 *		Computes the state of an instance from its steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TALLY_H
#define TQ_TALLY_H

#include "flow/instance/flow_types.h"

/* Numbers of the steps of an instance. */
typedef struct TqTally
{
	int  total; /* steps that exist */
	int  done;  /* includes filtered and resolved ones */
	int  dead;
	int  cancelled; /* or redundant */
	int  running;
	int  ready;
	int  backoff;
	int  waiting; /* pending, first attempt due later */
	int  blocked;
	int  in_line; /* blocked only by others of their key */
	int  suspended;
	int  awaiting; /* waiting for something other than a worker */
	int  begun;
	bool resolved; /* a step was resolved by hand */

	/* the steps that determine the reason; NULL: there is none */
	const TqStepRow *first_dead;      /* first in time */
	const TqStepRow *first_cancelled; /* first in time */
	const TqStepRow *first_suspended; /* first in the template */
} TqTally;

extern void        tq_tally_count(const TqFlow *flow, const TqStepRow *made,
								  int count, TqTally *tally);
extern const char *tq_tally_state(const TqFlow *flow, const TqTally *tally);
extern TqReason    tq_tally_reason(const TqFlow *flow, const TqTally *tally);
extern int   tq_tally_uncreated(const TqFlow *flow, const TqStepRow *made,
								int count);
extern bool *tq_tally_skipped(const TqFlow *flow, const TqStepRow *made,
							  int count);

#endif /* TQ_TALLY_H */
