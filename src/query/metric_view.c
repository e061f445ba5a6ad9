/*
 * metric_view.c
 *		taskq.metric_rows(): the rows of the view taskq.metrics.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/srf.h"
#include "query/metric_set.h"

PG_FUNCTION_INFO_V1(taskq_metric_rows);

/* Columns of taskq.metrics. */
typedef enum MetricColumn
{
	OUT_NAME,
	OUT_QUEUE,
	OUT_LABELS,
	OUT_KIND,
	OUT_VALUE,
	OUT_BUCKET_BOUNDS,
	OUT_BUCKET_COUNTS,
	OUT_SUM,
	OUT_COUNT,
	OUT_SINCE,
	OUT_COLUMNS
} MetricColumn;

/* A row under construction. */
typedef struct Row
{
	Datum values[OUT_COLUMNS];
	bool  nulls[OUT_COLUMNS];
} Row;

static const char *const kinds[] = {[TQ_METRIC_COUNTER] = "counter",
									[TQ_METRIC_GAUGE] = "gauge",
									[TQ_METRIC_HISTOGRAM] = "histogram"};

static void  put_sample(const TqMetricSet *set, const TqMetricFamily *family,
						const TqMetricSample *sample, void *arg);
static Datum labels_of(const TqMetricSample *sample);
static void  put_histogram(Row *row, const TqMetricSample *sample);
static void  put(Row *row, MetricColumn column, Datum value);

Datum
taskq_metric_rows(PG_FUNCTION_ARGS)
{
	int                   count;
	const TqMetricFamily *families = tq_metric_set_families(&count);
	TqMetricSet           set;

	tq_srf_begin(fcinfo);
	tq_metric_set_read(&set);
	for (int i = 0; i < count; i++)
		tq_metric_set_visit(&set, &families[i], put_sample,
							fcinfo->resultinfo);
	return (Datum) 0;
}

static void
put_sample(const TqMetricSet *set, const TqMetricFamily *family,
		   const TqMetricSample *sample, void *arg)
{
	Row row;

	memset(row.nulls, true, sizeof(row.nulls));
	put(&row, OUT_NAME, CStringGetTextDatum(family->name));
	if (sample->queue >= 0)
		put(&row, OUT_QUEUE,
			CStringGetTextDatum(set->queues[sample->queue].name));
	put(&row, OUT_LABELS, labels_of(sample));
	put(&row, OUT_KIND, CStringGetTextDatum(kinds[family->kind]));
	if (family->kind == TQ_METRIC_HISTOGRAM)
		put_histogram(&row, sample);
	else
		put(&row, OUT_VALUE, Float8GetDatum(sample->value));
	if (family->kind != TQ_METRIC_GAUGE)
		put(&row, OUT_SINCE, TimestampTzGetDatum(set->since));
	tq_srf_add((ReturnSetInfo *) arg, row.values, row.nulls);
}

/* The words need no quoting. */
static Datum
labels_of(const TqMetricSample *sample)
{
	const char *text = "{}";

	if (sample->label != NULL)
		text =
			psprintf("{\"%s\": \"%s\"}", sample->label, sample->label_value);
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
}

/* Buckets are cumulative: each includes those before it. */
static void
put_histogram(Row *row, const TqMetricSample *sample)
{
	Datum bounds[TQ_BUCKETS];
	Datum counts[TQ_BUCKETS];
	int64 count = 0;

	for (int i = 0; i < TQ_BUCKETS; i++)
	{
		count += sample->counted->slot[TQ_METRIC_BUCKET(sample->histogram, i)];
		counts[i] = Int64GetDatum(count);
		bounds[i] = Float8GetDatum(
			i == TQ_BUCKETS - 1 ? get_float8_infinity()
								: (double) tq_metric_bound(i) / USECS_PER_SEC);
	}
	put(row, OUT_BUCKET_BOUNDS,
		PointerGetDatum(construct_array(bounds, TQ_BUCKETS, FLOAT8OID,
										sizeof(float8), FLOAT8PASSBYVAL,
										TYPALIGN_DOUBLE)));
	put(row, OUT_BUCKET_COUNTS,
		PointerGetDatum(construct_array(counts, TQ_BUCKETS, INT8OID,
										sizeof(int64), FLOAT8PASSBYVAL,
										TYPALIGN_DOUBLE)));
	put(row, OUT_SUM,
		Float8GetDatum(sample->counted->sum[sample->histogram] /
					   USECS_PER_SEC));
	put(row, OUT_COUNT, Int64GetDatum(count));
}

static void
put(Row *row, MetricColumn column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}
