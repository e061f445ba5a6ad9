/*
 * waiter_types.h
 *		What a claim that finds nothing waits for.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAITER_TYPES_H
#define TQ_WAITER_TYPES_H

#include "base/compat.h"

/* What a waiter can name; beyond that it is woken for more than it needs. */
#define TQ_WAITER_QUEUES 16
#define TQ_WAITER_LANES 64

/* What a claim that finds nothing waits for. */
typedef struct TqWaitFor
{
	int   queue_count; /* -1: any queue of the database */
	int32 queues[TQ_WAITER_QUEUES];
	int   lane_count; /* -1: any lane of these queues */
	int64 lanes[TQ_WAITER_LANES];
	int32 worker_id;   /* who is told of its drain or end; 0: nobody */
	bool  worker_full; /* the worker runs as many tasks as it may */
	int32 at_limit;    /* a queue that has tasks, but a limit of which lets
						* none be claimed; 0: none, -1: several */
	bool  open; /* a queue or lane that is made later may belong to it */
} TqWaitFor;

#endif /* TQ_WAITER_TYPES_H */
