/*
 * rate_bucket.h
 *		Buckets of claims, for rates.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RATE_BUCKET_H
#define TQ_RATE_BUCKET_H

#include "shared/counter.h"

extern int64  tq_counter_next(int32 queue_id, const TqRate *rate);
extern TqReserve tq_counter_take(int32 queue_id, const TqRate *rate,
								 int64 *taken_at);
extern bool      tq_counter_tokens(int32 queue_id, const TqRate *rate,
								   double *tokens);
extern void      tq_counter_put_back(int32 queue_id, int64 taken_at);

#endif /* TQ_RATE_BUCKET_H */
