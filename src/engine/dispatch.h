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
	int           reach; /* random: of so many; 0: the queue's */
	int           max_tasks;
	int32         worker_id;
	int64         lease;       /* 0: not given; then */
	bool          while_alive; /* while it lives, or as configured */
	TqLimit      *limit;
	bool          unknown; /* out: a limit must be recounted first */
	bool          full;    /* out: a limit allows no more tasks */
} TqDispatch;

/* What a claim would find. */
typedef struct TqPeek
{
	bool   to_the_end; /* in: no bound on the number of entries */
	int    reach;      /* in: any one of so many; 0: the first one */
	bool   found;
	TqTask head;    /* the first one that it would get */
	int    busy;    /* skipped: open transactions are changing them */
	int    past;    /* skipped: past their deadline */
	int64  past_id; /* the first of these */
	bool   gave_up; /* there are more entries than may be read */
} TqPeek;

extern int  tq_dispatch_claim(TqCall *call, TqDispatch *dispatch,
							  TqTask **claimed);
extern bool tq_dispatch_oldest(TqCall *call, const TqQueue *queue,
							   TimestampTz *oldest);
extern void tq_dispatch_peek(TqCall *call, const TqQueue *queue,
							 const TqTags *tags, TqOrder order, bool later,
							 TqPeek *peek);

#endif /* TQ_DISPATCH_H */
