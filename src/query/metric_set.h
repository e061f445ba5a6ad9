/*
 * metric_set.h
 *		All metrics that a role may read, at one moment.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_METRIC_SET_H
#define TQ_METRIC_SET_H

#include "base/compat.h"

#include "datatype/timestamp.h"

#include "query/queue_gauge.h"
#include "shared/metric.h"

/*
 * SQL: is this operation stuck?  $1 is the time on the dispatch clock.  One
 * that is due gets a batch within moments, however many there are.
 */
#define TQ_SQL_OPERATION_STUCK                                                \
	"(finished_at IS NULL AND due_at < $1 - interval '5 minutes')"

typedef enum TqMetricKind
{
	TQ_METRIC_COUNTER,
	TQ_METRIC_GAUGE,
	TQ_METRIC_HISTOGRAM
} TqMetricKind;

typedef struct TqMetricQueue
{
	char        *name;
	TqMetrics    counted;
	TqQueueGauge gauge;
	int64        dead;
	int64        oldest_dead; /* age, microseconds */
} TqMetricQueue;

/* Workers by state, as in taskq.workers. */
typedef enum TqMetricWorker
{
	TQ_METRIC_WORKER_ACTIVE,
	TQ_METRIC_WORKER_STALE,
	TQ_METRIC_WORKER_DEAD,
	TQ_METRIC_WORKER_STATES
} TqMetricWorker;

typedef struct TqMetricSet
{
	bool           counted; /* there are counters and histograms */
	TimestampTz    since;   /* when they were all zero */
	int            queue_count;
	TqMetricQueue *queues;
	bool           knows_dead; /* finished tasks have been counted */

	/* of no queue */
	bool      all; /* the role may read what follows */
	TqMetrics database;
	int64     not_counted;
	int64     workers[TQ_METRIC_WORKER_STATES];
	double    snapshot_age;
	double    dead_share;
	double    ids_used;
	bool      worker_up;
	double    turn_age; /* negative: unknown */
	int64     operations_stuck;
} TqMetricSet;

typedef struct TqMetricFamily TqMetricFamily;

/* A number, or a histogram. */
typedef struct TqMetricSample
{
	int              queue; /* index of the queue; -1: none */
	const char      *label; /* NULL: no label but the queue */
	const char      *label_value;
	double           value;
	const TqMetrics *counted; /* of a histogram: its buckets */
	TqHistogram      histogram;
} TqMetricSample;

typedef void (*TqMetricVisit)(const TqMetricSet    *set,
							  const TqMetricFamily *family,
							  const TqMetricSample *sample, void *arg);

/* All samples with one name. */
struct TqMetricFamily
{
	const char  *name; /* in taskq.metrics */
	TqMetricKind kind;
	const char  *unit;     /* seconds, ratio, or NULL */
	bool         by_queue; /* samples have the label queue */
	const char  *help;
	void (*visit)(const TqMetricSet *set, const TqMetricFamily *family,
				  TqMetricVisit visit, void *arg);
	int which; /* for visit */
};

extern const TqMetricFamily *tq_metric_set_families(int *count);

extern void tq_metric_set_read(TqMetricSet *set);
extern void tq_metric_set_visit(const TqMetricSet    *set,
								const TqMetricFamily *family,
								TqMetricVisit visit, void *arg);

#endif /* TQ_METRIC_SET_H */
