/*
 * counter_types.h
 *		What counters, reservations and rates of claims are of.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COUNTER_TYPES_H
#define TQ_COUNTER_TYPES_H

#include "base/compat.h"

#define TQ_LIVE_STATES 4 /* pending, blocked, running, suspended */

/* What is limited: the running tasks of a queue, or of a worker. */
typedef enum TqOwner
{
	TQ_OWNER_QUEUE = 1,
	TQ_OWNER_WORKER = 2
} TqOwner;

typedef enum TqReservation
{
	TQ_RESERVE_DONE,
	TQ_RESERVE_FULL,
	TQ_RESERVE_UNKNOWN, /* to be recounted first */
	TQ_RESERVE_NO_ROOM  /* the table of counters is full */
} TqReservation;

/* At most count, and count more in each per microseconds. */
typedef struct TqRate
{
	double count; /* 0: no limit */
	double per;
} TqRate;

#endif /* TQ_COUNTER_TYPES_H */
