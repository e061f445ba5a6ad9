/*
 * dispatch.h
 *		Finding tasks to hand out.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DISPATCH_H
#define TQ_DISPATCH_H

#include "core/limit.h"
#include "core/state.h"

typedef struct TqDispatch
{
	TqQueue      *queue;
	const TqTags *tags; /* of the claimer */
	TqOrder       order;
	int           max_tasks;
	int32         worker_id;
	int64         lease;       /* microseconds; 0: not given, hence */
	bool          while_alive; /* as long as the worker lives, or as the
								* task or its queue says */
	TqLimit      *limit;
	bool          unknown; /* out: a limit has to be recounted first */
} TqDispatch;

extern int  tq_dispatch_claim(TqCall *call, TqDispatch *dispatch,
							  TqTask **claimed);
extern bool tq_dispatch_oldest(TqCall *call, const TqQueue *queue,
							   TimestampTz *oldest);

#endif /* TQ_DISPATCH_H */
