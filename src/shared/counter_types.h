/*
 * counter_types.h
 *		Types of counters, reservations and rates of claims.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COUNTER_TYPES_H
#define TQ_COUNTER_TYPES_H

#include "base/compat.h"

#define TQ_LIVE_STATES 4 /* pending, blocked, running, suspended */

/* Also counted: the pending tasks that have been attempted before. */
#define TQ_LIVE_RETRIES TQ_LIVE_STATES
#define TQ_LIVE_NUMBERS (TQ_LIVE_STATES + 1)

/* Owner of a limit on running tasks: a queue, or a worker. */
typedef enum TqOwner
{
	TQ_OWNER_QUEUE = 1,
	TQ_OWNER_WORKER = 2
} TqOwner;

typedef enum TqReservation
{
	TQ_RESERVE_DONE,
	TQ_RESERVE_FULL,
	TQ_RESERVE_UNKNOWN, /* must be recounted first */
	TQ_RESERVE_NO_ROOM  /* the table of counters is full */
} TqReservation;

/* At most count claims, refilled at count in each per microseconds. */
typedef struct TqRate
{
	double count; /* 0: no limit */
	double per;
} TqRate;

#endif /* TQ_COUNTER_TYPES_H */
