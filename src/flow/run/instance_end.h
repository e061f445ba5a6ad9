/*
 * instance_end.h
 *		What state an instance is in.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_INSTANCE_END_H
#define TQ_INSTANCE_END_H

#include "flow/instance/flow.h"

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
	const TqMade *first_dead;      /* that died first */
	const TqMade *first_cancelled; /* by time, too */
	const TqMade *first_suspended; /* in the template */
} TqTally;

/* Does another step go on? */
typedef enum TqGoing
{
	TQ_GOING_NOT,
	TQ_GOING_ON,
	TQ_GOING_UNKNOWN /* that is for another transaction to say */
} TqGoing;

extern void tq_judge_tally(const TqFlow *flow, const TqMade *made, int count,
						   TqTally *tally);
extern const char *tq_judge_state(const TqFlow *flow, const TqTally *tally);
extern TqReason    tq_judge_reason(const TqFlow *flow, const TqTally *tally);
extern int         tq_judge_uncreated(const TqFlow *flow, const TqMade *made,
									  int count);
extern bool    tq_judge_is_excused(const TqTemplate *template, int32 step_id);
extern bool   *tq_judge_skipped(const TqFlow *flow, const TqMade *made,
								int count);
extern TqGoing tq_judge_end(TqCall *call, TqFlow *flow, TqEdges *edges,
							TransactionId *other);
extern bool    tq_judge_finish(TqFlow *flow);
extern bool    tq_judge_has_failed(const TqFlow *flow, TqEdges *edges);
extern TqGoing tq_judge_look(TqCall *call, TqFlow *flow, TqEdges *edges,
							 int32 near, TransactionId *other);
extern void    tq_judge_failed(TqCall *call, TqFlow *flow,
							   const Bitmapset *batches);
extern void    tq_judge_error(TqFlow *flow);

#endif /* TQ_INSTANCE_END_H */
