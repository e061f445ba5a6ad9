/*
 * waiter_types.h
 *		What a claim without a result waits for.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAITER_TYPES_H
#define TQ_WAITER_TYPES_H

#include "base/compat.h"

/* What a waiter can name; with more it is woken more often than necessary. */
#define TQ_WAITER_QUEUES 16
#define TQ_WAITER_LANES 64

/* What a claim without a result waits for. */
typedef struct TqWaitFor
{
	int   queue_count; /* -1: any queue of the database */
	int32 queues[TQ_WAITER_QUEUES];
	int   lane_count; /* -1: any lane of these queues */
	int64 lanes[TQ_WAITER_LANES];
	int32 worker_id;   /* woken when this worker drains or ends; 0: none */
	bool  worker_full; /* the worker runs as many tasks as it is allowed to */
	int32
		 at_limit; /* queue whose tasks a limit blocks; 0: none, -1: several */
	bool open;     /* queues or lanes created later may match */
} TqWaitFor;

#endif /* TQ_WAITER_TYPES_H */
