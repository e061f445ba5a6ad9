/*
 * dispatch.h
 *		Finding tasks to hand out.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DISPATCH_H
#define TQ_DISPATCH_H

#include "core/state.h"

typedef struct TqDispatch
{
	TqQueue      *queue;
	const TqTags *tags; /* of the claimer */
	TqOrder       order;
	int           max_tasks;
	int32         worker_id;
	int64         lease; /* microseconds; 0: held while the worker lives */
} TqDispatch;

extern int tq_dispatch_claim(TqCall *call, const TqDispatch *dispatch,
							 TqTask **claimed);

#endif /* TQ_DISPATCH_H */
