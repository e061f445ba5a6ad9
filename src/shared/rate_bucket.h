/*
 * rate_bucket.h
 *		Token buckets of claims, for rates.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RATE_BUCKET_H
#define TQ_RATE_BUCKET_H

#include "shared/counter_types.h"

extern int64         tq_rate_bucket_next(int32 queue_id, const TqRate *rate);
extern TqReservation tq_rate_bucket_take(int32 queue_id, const TqRate *rate,
										 int64 *taken_at);
extern bool          tq_rate_bucket_tokens(int32 queue_id, const TqRate *rate,
										   double *tokens);
extern void          tq_rate_bucket_put_back(int32 queue_id, int64 taken_at);

#endif /* TQ_RATE_BUCKET_H */
