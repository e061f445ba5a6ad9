/*
 * backoff.h
 *		The delay before the next attempt of a failed task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BACKOFF_H
#define TQ_BACKOFF_H

#include "base/compat.h"

typedef enum TqRetry
{
	TQ_RETRY_EXPONENTIAL,
	TQ_RETRY_LINEAR,
	TQ_RETRY_FIXED,
	TQ_RETRY_LIST
} TqRetry;

typedef struct TqBackoff
{
	TqRetry retry;
	int64   base; /* microseconds */
	int64   cap;  /* microseconds */
	int64  *list; /* microseconds; for TQ_RETRY_LIST */
	int     list_length;
	double  jitter; /* 0 to 1 */
} TqBackoff;

extern int64 tq_backoff_delay(const TqBackoff *backoff, int attempt,
							  double chance);

#endif /* TQ_BACKOFF_H */
