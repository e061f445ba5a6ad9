/*
 * queue_gauge.h
 *		Numbers of a queue's live tasks, for views and metrics.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_QUEUE_GAUGE_H
#define TQ_QUEUE_GAUGE_H

#include "base/compat.h"

#include "cache/queue_types.h"
#include "shared/counter_types.h"

/* Ages are in microseconds, 0 if there is no such task. */
typedef struct TqQueueGauge
{
	int64 live[TQ_LIVE_NUMBERS];
	int64 ready;
	bool  any_ready; /* one that a claim could get */
	int64 oldest_ready;
	int64 longest_running;
	int64 workers; /* that hold tasks */
	int   waiters; /* claims that wait */
} TqQueueGauge;

/* What one scan provides for all queues. */
typedef struct TqQueueGauges TqQueueGauges;

extern TqQueueGauges *tq_queue_gauge_begin(void);
extern void tq_queue_gauge_read(TqQueueGauges *gauges, const TqQueue *queue,
								TqQueueGauge *gauge);

#endif /* TQ_QUEUE_GAUGE_H */
