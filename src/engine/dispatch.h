/*
 * dispatch.h
 *		Finding tasks to hand out.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DISPATCH_H
#define TQ_DISPATCH_H

#include "engine/limit.h"
#include "store/table.h"
#include "store/task.h"

typedef struct TqDispatch
{
	TqQueue      *queue;
	const TqTags *tags; /* of the claimer */
	TqOrder       order;
	int           reach;  /* random: number of candidates; else 0 */
	int32         sql_of; /* take only SQL of that role, and stop at others */
	int           max_tasks;
	int32         worker_id;
	int64         lease;       /* 0: no lease was given; then */
	bool          while_alive; /* while it lives, or as configured */
	TqLimit      *limit;
	bool          unknown; /* out: a limit must be recounted first */
	bool          full;    /* out: a limit allows no more tasks */
} TqDispatch;

/* What a claim would find, as tq_dispatch_peek reports it. */
typedef struct TqPeek
{
	bool to_the_end; /* in: no bound on the number of entries */
	int  reach; /* in: choose one of this number of tasks; 0: the first task */
	bool found;
	TqTask head; /* the first task that the claim would get */
	int   busy; /* tasks skipped because open transactions are changing them */
	int   past; /* tasks skipped because they are past their deadline */
	int64 past_id; /* the first task past its deadline */
	bool  gave_up; /* there are more entries than may be read */
} TqPeek;

extern int  tq_dispatch_claim(TqCall *call, TqDispatch *dispatch,
							  TqTask **claimed);
extern bool tq_dispatch_oldest(TqCall *call, const TqQueue *queue,
							   TimestampTz *oldest);
extern void tq_dispatch_peek(TqCall *call, const TqQueue *queue,
							 const TqTags *tags, TqOrder order, bool later,
							 TqPeek *peek);

#endif /* TQ_DISPATCH_H */
