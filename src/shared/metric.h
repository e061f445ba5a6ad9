/*
 * metric.h
 *		Counters and histograms of each queue, in shared memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_METRIC_H
#define TQ_METRIC_H

#include "datatype/timestamp.h"

#include "base/types.h"

/* How an unsuccessful attempt ended. */
typedef enum TqEnd
{
	TQ_END_OTHER, /* or was successful */
	TQ_END_FAILURE,
	TQ_END_WORKER_DEAD,
	TQ_END_LEASE_EXPIRED,
	TQ_END_RELEASED,
	TQ_END_TIMEOUT
} TqEnd;

#define TQ_END_LAST TQ_END_TIMEOUT

typedef enum TqHistogram
{
	TQ_HISTOGRAM_WAIT,
	TQ_HISTOGRAM_EXECUTION,
	TQ_HISTOGRAM_END_TO_END,
	TQ_HISTOGRAMS
} TqHistogram;

#define TQ_BUCKETS 23 /* the last one has no upper bound */

/*
 * Counters, followed by the buckets of the histograms.  The file of a server
 * that was shut down uses these numbers: if they change, increase
 * METRIC_LAYOUT (metric.c).
 */
typedef enum TqMetric
{
	TQ_METRIC_SUBMITTED,
	TQ_METRIC_CLAIMED,
	TQ_METRIC_COMPLETED,
	TQ_METRIC_FAILED,
	TQ_METRIC_CLEANED,
	TQ_METRIC_WORKERS_REGISTERED, /* of queue 0, as are the next two */
	TQ_METRIC_WORKERS_DIED,
	TQ_METRIC_WORKERS_CLEANED,
	TQ_METRIC_REQUEUED, /* one for each TqEnd */
	TQ_METRIC_DEAD = TQ_METRIC_REQUEUED + TQ_END_LAST + 1, /* TqReason */
	TQ_METRIC_BUCKETS = TQ_METRIC_DEAD + TQ_REASON_LAST + 1,
	TQ_METRIC_SLOTS = TQ_METRIC_BUCKETS + TQ_HISTOGRAMS * TQ_BUCKETS
} TqMetric;

#define TQ_METRIC_BUCKET(histogram, n)                                        \
	(TQ_METRIC_BUCKETS + (histogram) *TQ_BUCKETS + (n))

/* Of one queue, or of no queue (queue_id 0). */
typedef struct TqMetrics
{
	int64  slot[TQ_METRIC_SLOTS];
	double sum[TQ_HISTOGRAMS]; /* microseconds */
} TqMetrics;

/* The number of a slot that is not marked is undefined. */
typedef struct TqMetricChange
{
	uint64    marked[(TQ_METRIC_SLOTS + 63) / 64];
	TqMetrics by;
} TqMetricChange;

/*
 * Minutes since 2000 in which nothing happened: those that follow minute after
 * up to last (query/metric_minute.c).
 */
typedef struct TqQuietMinutes
{
	int64 after;
	int64 last;
} TqQuietMinutes;

extern Size tq_metric_size(void);
extern void tq_metric_request(void);
extern void tq_metric_init(void);
extern void tq_metric_wipe(void);

extern bool        tq_metric_ready(void);
extern int         tq_metric_bucket_of(int64 span);
extern int64       tq_metric_bound(int bucket);
extern void        tq_metric_add(int32 queue_id, const TqMetricChange *change);
extern bool        tq_metric_read(int32 queue_id, TqMetrics *metrics);
extern TimestampTz tq_metric_since(void);
extern int64       tq_metric_not_counted(void);
extern int         tq_metric_list(int32 **queue_ids);
extern bool        tq_metric_put_quiet(TqQuietMinutes quiet);
extern TqQuietMinutes tq_metric_quiet(void);
extern void           tq_metric_forget(int32 queue_id);
extern void           tq_metric_forget_database(Oid database);

#endif /* TQ_METRIC_H */
