/*
 * tally.h
 *		The state of an instance, computed from its steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TALLY_H
#define TQ_TALLY_H

#include "flow/instance/flow_types.h"

/* Numbers of an instance's steps. */
typedef struct TqTally
{
	int  total; /* of those that there are */
	int  done;  /* filtered and resolved ones, too */
	int  dead;
	int  cancelled; /* or redundant */
	int  running;
	int  ready;
	int  backoff;
	int  waiting; /* pending, and to run later for the first time */
	int  blocked;
	int  in_line; /* blocked, by others of their key alone */
	int  suspended;
	int  awaiting; /* suspended, to wait for what no worker does */
	int  begun;
	bool resolved; /* one was, by hand */

	/* for reasons: which of them; NULL: none */
	const TqStepRow *first_dead;      /* that died first */
	const TqStepRow *first_cancelled; /* by time, too */
	const TqStepRow *first_suspended; /* in the template */
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
