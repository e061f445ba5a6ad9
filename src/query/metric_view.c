/*
 * metric_view.c
 *		taskq.metric_rows(): counters for the view of metrics.
 *
 * Returns counters and histograms of the queues that current_user may read
 * and, for roles that may read all queues, those that belong to no queue.  If
 * nothing is counted because the library is not preloaded, these rows are
 * missing: a zero would say that nothing has happened.  The view adds the
 * numbers that taskq.queues also shows.
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

#include "base/catalog.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "shared/metric.h"

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

static const struct
{
	const char *name;
	TqMetric    metric;
} queue_counters[] = {{"tasks.submitted", TQ_METRIC_SUBMITTED},
					  {"tasks.claimed", TQ_METRIC_CLAIMED},
					  {"tasks.completed", TQ_METRIC_COMPLETED},
					  {"tasks.failed", TQ_METRIC_FAILED},
					  {"tasks.cleaned", TQ_METRIC_CLEANED}},
  worker_counters[] = {{"workers.registered", TQ_METRIC_WORKERS_REGISTERED},
					   {"workers.died", TQ_METRIC_WORKERS_DIED},
					   {"workers.cleaned", TQ_METRIC_WORKERS_CLEANED}};

static const char *const histograms[] = {
	[TQ_HISTOGRAM_WAIT] = "tasks.queue.wait",
	[TQ_HISTOGRAM_EXECUTION] = "tasks.execution.duration",
	[TQ_HISTOGRAM_END_TO_END] = "tasks.end_to_end.duration"};

static const char *const ends[] = {[TQ_END_FAILURE] = "failure",
								   [TQ_END_WORKER_DEAD] = "worker_dead",
								   [TQ_END_LEASE_EXPIRED] = "lease_expired",
								   [TQ_END_RELEASED] = "released",
								   [TQ_END_TIMEOUT] = "timeout"};

StaticAssertDecl(lengthof(ends) == TQ_END_LAST + 1, "every end has a name");

/*
 * The session with the oldest snapshot or transaction id; vacuum cannot remove
 * rows that have become dead since.
 */
static TqStmt stmt_oldest_snapshot = {
	"SELECT extract(epoch FROM clock_timestamp() - a.xact_start)::float8,"
	"       jsonb_strip_nulls(jsonb_build_object("
	"          'pid', a.pid::text, 'user', a.usename,"
	"          'application', nullif(a.application_name, '')))"
	"  FROM pg_stat_activity a"
	" WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)"
	"   AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()"
	"   AND a.datid = $1"
	"   AND a.backend_type IS DISTINCT FROM 'autovacuum worker'"
	"   AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v"
	"                    WHERE v.pid = a.pid)"
	" ORDER BY a.xact_start LIMIT 1",
	{OIDOID}};

/* From the server's statistics, which lag by up to a minute. */
static TqStmt stmt_dead_share = {
	"SELECT coalesce(d.dead::float8 / nullif(d.dead + d.live, 0), 0)"
	"  FROM (SELECT pg_stat_get_dead_tuples($1) AS dead,"
	"               pg_stat_get_live_tuples($1) AS live) d",
	{OIDOID}};

static void  put_queue(ReturnSetInfo *result, const TqQueue *queue);
static void  put_database(ReturnSetInfo *result);
static void  put_workers(ReturnSetInfo *result, const char *queue,
						 const TqMetrics *metrics);
static void  put_server(ReturnSetInfo *result);
static void  put_number(ReturnSetInfo *result, const char *name,
						const char *queue, Datum labels, const char *kind,
						double value);
static void  put_histogram(ReturnSetInfo *result, const char *queue,
						   const TqMetrics *metrics, TqHistogram histogram);
static void  begin_row(Row *row, const char *name, const char *queue,
					   Datum labels, const char *kind);
static void  put_row(ReturnSetInfo *result, Row *row);
static Datum no_labels(void);
static Datum reason_label(const char *reason);

Datum
taskq_metric_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool           all;
	char         **names;
	char         **copies;
	int            count;

	tq_srf_begin(fcinfo);
	tq_queue_refresh();
	all = tq_role_is_monitor() ||
		  (tq_role_rights_all() & TQ_RIGHT_OBSERVE) != 0;
	if (tq_metric_ready())
	{
		names = tq_queue_names(&count);
		/* the session's cache may be refreshed between two queues */
		copies = palloc(sizeof(char *) * (count + 1));
		for (int i = 0; i < count; i++)
			copies[i] = pstrdup(names[i]);
		for (int i = 0; i < count; i++)
		{
			TqQueue *queue = tq_queue_find(copies[i]);

			CHECK_FOR_INTERRUPTS();
			if (queue != NULL &&
				(all || (tq_role_rights(queue) & TQ_RIGHT_OBSERVE) != 0))
				put_queue(result, queue);
		}
		if (all)
			put_database(result);
	}
	if (all)
		put_server(result);
	return (Datum) 0;
}

static void
put_queue(ReturnSetInfo *result, const TqQueue *queue)
{
	TqMetrics metrics;

	tq_metric_read(queue->queue_id, &metrics);
	for (int i = 0; i < lengthof(queue_counters); i++)
		put_number(result, queue_counters[i].name, queue->name, no_labels(),
				   "counter", (double) metrics.slot[queue_counters[i].metric]);
	for (int end = TQ_END_FAILURE; end <= TQ_END_LAST; end++)
		put_number(result, "tasks.requeued", queue->name,
				   reason_label(ends[end]), "counter",
				   (double) metrics.slot[TQ_METRIC_REQUEUED + end]);
	for (int reason = TQ_REASON_NONE + 1; reason <= TQ_REASON_LAST; reason++)
	{
		int64 number = metrics.slot[TQ_METRIC_DEAD + reason];

		if (number != 0)
			put_number(result, "tasks.dead_lettered", queue->name,
					   reason_label(tq_reason_name((TqReason) reason)),
					   "counter", (double) number);
	}
	for (int i = 0; i < TQ_HISTOGRAMS; i++)
		put_histogram(result, queue->name, &metrics, (TqHistogram) i);
	put_workers(result, queue->name, &metrics);
}

/* Metrics that belong to no queue. */
static void
put_database(ReturnSetInfo *result)
{
	TqMetrics metrics;

	tq_metric_read(0, &metrics);
	put_workers(result, NULL, &metrics);
	put_number(result, "metrics.not_counted", NULL, no_labels(), "counter",
			   (double) tq_metric_not_counted());
}

static void
put_workers(ReturnSetInfo *result, const char *queue, const TqMetrics *metrics)
{
	for (int i = 0; i < lengthof(worker_counters); i++)
		put_number(result, worker_counters[i].name, queue, no_labels(),
				   "counter",
				   (double) metrics->slot[worker_counters[i].metric]);
}

/* Effects of the server on the queues. */
static void
put_server(ReturnSetInfo *result)
{
	Datum  arg = ObjectIdGetDatum(MyDatabaseId);
	Datum  labels = no_labels();
	double age = 0;
	double dead = 0;
	bool   isnull;
	TqSpi  spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_oldest_snapshot, &arg, NULL, 1) > 0)
	{
		age = Max(DatumGetFloat8(tq_spi_get(0, 1, &isnull)), 0);
		labels = JsonbPGetDatum(tq_spi_jsonb(&spi, 0, 2));
	}
	arg = ObjectIdGetDatum(tq_catalog()->task);
	if (tq_spi_look(&stmt_dead_share, &arg, NULL, 1) > 0)
		dead = DatumGetFloat8(tq_spi_get(0, 1, &isnull));
	tq_spi_leave(&spi);
	put_number(result, "snapshot.oldest_age", NULL, labels, "gauge", age);
	put_number(result, "dispatch.dead_share", NULL, no_labels(), "gauge",
			   dead);
}

static void
put_number(ReturnSetInfo *result, const char *name, const char *queue,
		   Datum labels, const char *kind, double value)
{
	Row row;

	begin_row(&row, name, queue, labels, kind);
	row.values[OUT_VALUE] = Float8GetDatum(value);
	row.nulls[OUT_VALUE] = false;
	row.nulls[OUT_SINCE] = strcmp(kind, "counter") != 0;
	put_row(result, &row);
}

/* Buckets are cumulative: each includes those before it. */
static void
put_histogram(ReturnSetInfo *result, const char *queue,
			  const TqMetrics *metrics, TqHistogram histogram)
{
	Row   row;
	Datum bounds[TQ_BUCKETS];
	Datum counts[TQ_BUCKETS];
	int64 count = 0;

	for (int i = 0; i < TQ_BUCKETS; i++)
	{
		count += metrics->slot[TQ_METRIC_BUCKET(histogram, i)];
		counts[i] = Int64GetDatum(count);
		bounds[i] = Float8GetDatum(
			i == TQ_BUCKETS - 1 ? get_float8_infinity()
								: (double) tq_metric_bound(i) / USECS_PER_SEC);
	}
	begin_row(&row, histograms[histogram], queue, no_labels(), "histogram");
	row.values[OUT_BUCKET_BOUNDS] = PointerGetDatum(
		construct_array(bounds, TQ_BUCKETS, FLOAT8OID, sizeof(float8),
						FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	row.values[OUT_BUCKET_COUNTS] = PointerGetDatum(
		construct_array(counts, TQ_BUCKETS, INT8OID, sizeof(int64),
						FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	row.values[OUT_SUM] =
		Float8GetDatum(metrics->sum[histogram] / USECS_PER_SEC);
	row.values[OUT_COUNT] = Int64GetDatum(count);
	for (int i = OUT_BUCKET_BOUNDS; i <= OUT_SINCE; i++)
		row.nulls[i] = false;
	put_row(result, &row);
}

static void
begin_row(Row *row, const char *name, const char *queue, Datum labels,
		  const char *kind)
{
	memset(row->nulls, true, sizeof(row->nulls));
	row->values[OUT_NAME] = CStringGetTextDatum(name);
	row->values[OUT_LABELS] = labels;
	row->values[OUT_KIND] = CStringGetTextDatum(kind);
	row->values[OUT_SINCE] = TimestampTzGetDatum(tq_metric_since());
	row->nulls[OUT_NAME] = row->nulls[OUT_LABELS] = row->nulls[OUT_KIND] =
		false;
	if (queue != NULL)
	{
		row->values[OUT_QUEUE] = CStringGetTextDatum(queue);
		row->nulls[OUT_QUEUE] = false;
	}
}

static void
put_row(ReturnSetInfo *result, Row *row)
{
	tq_srf_add(result, row->values, row->nulls);
}

static Datum
no_labels(void)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum("{}"));
}

/* The words need no quoting. */
static Datum
reason_label(const char *reason)
{
	return DirectFunctionCall1(
		jsonb_in, CStringGetDatum(psprintf("{\"reason\": \"%s\"}", reason)));
}
