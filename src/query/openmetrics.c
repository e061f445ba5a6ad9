/*
 * openmetrics.c
 *		taskq_openmetrics(): the metrics as text for Prometheus.
 *
 * Two formats with the same samples and the same numbers: OpenMetrics 1.0, and
 * Prometheus' text format 0.0.4.  They differ in the lines about a metric, and
 * OpenMetrics ends with a line of its own.
 *
 * The name of a metric is taskq_, its name in taskq.metrics with _ for dots,
 * its unit, and _total if it is a counter.
 *
 * A thousand queues have a hundred thousand lines, most of them buckets.
 * Their common parts are made once.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <math.h>

#include "common/shortest_dec.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/error.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/metric_set.h"

#define EXACT 1e15 /* smaller integers are written as such */
#define ROOM 8192  /* about the lines of a queue */

PG_FUNCTION_INFO_V1(taskq_openmetrics);

/* A piece of a line. */
typedef struct Piece
{
	const char *text;
	int         length;
} Piece;

typedef struct Writing
{
	bool           prometheus;
	StringInfoData text;
	Piece         *queues;              /* the label of each queue */
	Piece          buckets[TQ_BUCKETS]; /* the label of each bucket */
	char          *name;                /* of the current metric */
	bool           begun;               /* it has a sample */
} Writing;

static const char *const kinds[] = {[TQ_METRIC_COUNTER] = "counter",
									[TQ_METRIC_GAUGE] = "gauge",
									[TQ_METRIC_HISTOGRAM] = "histogram"};

static void  begin_text(StringInfo text, int queue_count);
static void  make_labels(Writing *writing, const TqMetricSet *set);
static Piece piece_of(const char *text);
static char *escaped(const char *text);
static char *number_text(double number);
static char *name_of(const TqMetricFamily *family);
static void  write_sample(const TqMetricSet *set, const TqMetricFamily *family,
						  const TqMetricSample *sample, void *arg);
static void  write_head(Writing *writing, const TqMetricFamily *family);
static void  write_histogram(Writing *writing, const TqMetricSample *sample);
static void  begin_line(Writing *writing, const char *suffix,
						const Piece *queue);
static void  end_line(Writing *writing, bool has_labels, double number);

Datum
taskq_openmetrics(PG_FUNCTION_ARGS)
{
	char                 *format = tq_arg_keyword(fcinfo, 0, "format");
	int                   count;
	const TqMetricFamily *families = tq_metric_set_families(&count);
	Writing               writing = {0};
	TqMetricSet           set;

	if (format != NULL && strcmp(format, "prometheus") == 0)
		writing.prometheus = true;
	else if (format != NULL && strcmp(format, "openmetrics") != 0)
		tq_error_invalid("format", "is unknown",
						 "Allowed: openmetrics, prometheus.");
	tq_queue_refresh();
	tq_role_require_all_numbers();
	tq_metric_set_read(&set);
	begin_text(&writing.text, set.queue_count);
	make_labels(&writing, &set);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		writing.name = name_of(&families[i]);
		writing.begun = false;
		tq_metric_set_visit(&set, &families[i], write_sample, &writing);
	}
	if (!writing.prometheus)
		appendStringInfoString(&writing.text, "# EOF\n");
	SET_VARSIZE(writing.text.data, writing.text.len);
	PG_RETURN_TEXT_P((text *) writing.text.data);
}

/* It begins with the head of the result, since copying it takes long. */
static void
begin_text(StringInfo text, int queue_count)
{
	initStringInfo(text);
	enlargeStringInfo(
		text, (int) Min((int64) queue_count * ROOM + ROOM, MaxAllocSize / 2));
	text->len = VARHDRSZ;
}

/* The last label is that of no queue. */
static void
make_labels(Writing *writing, const TqMetricSet *set)
{
	writing->queues = palloc_extended(sizeof(Piece) * (set->queue_count + 1),
									  MCXT_ALLOC_HUGE);
	for (int i = 0; i < set->queue_count; i++)
		writing->queues[i] =
			piece_of(psprintf("queue=\"%s\"", escaped(set->queues[i].name)));
	writing->queues[set->queue_count] = piece_of("queue=\"\"");
	for (int i = 0; i < TQ_BUCKETS - 1; i++)
	{
		double bound = (double) tq_metric_bound(i) / USECS_PER_SEC;

		/* OpenMetrics requires a fraction, which Prometheus accepts */
		writing->buckets[i] =
			piece_of(psprintf("le=\"%s%s\"", number_text(bound),
							  bound == rint(bound) ? ".0" : ""));
	}
	writing->buckets[TQ_BUCKETS - 1] = piece_of("le=\"+Inf\"");
}

static Piece
piece_of(const char *text)
{
	Piece piece = {text, (int) strlen(text)};

	return piece;
}

/* The value of a label, the same in both formats. */
static char *
escaped(const char *text)
{
	StringInfoData out;

	initStringInfo(&out);
	for (; *text != '\0'; text++)
	{
		if (*text == '\n')
			appendStringInfoString(&out, "\\n");
		else if (*text == '"' || *text == '\\')
			appendStringInfo(&out, "\\%c", *text);
		else
			appendStringInfoChar(&out, *text);
	}
	return out.data;
}

static char *
number_text(double number)
{
	char *text = palloc(Max(MAXINT8LEN + 1, DOUBLE_SHORTEST_DECIMAL_LEN));

	if (number == rint(number) && fabs(number) < EXACT)
		pg_lltoa((int64) number, text);
	else
		(void) double_to_shortest_decimal_buf(number, text);
	return text;
}

static char *
name_of(const TqMetricFamily *family)
{
	char *name = psprintf("taskq_%s%s%s", family->name,
						  family->unit == NULL ? "" : "_",
						  family->unit == NULL ? "" : family->unit);

	for (char *at = name; *at != '\0'; at++)
	{
		if (*at == '.')
			*at = '_';
	}
	return name;
}

static void
write_sample(const TqMetricSet *set, const TqMetricFamily *family,
			 const TqMetricSample *sample, void *arg)
{
	Writing     *writing = arg;
	const Piece *queue = NULL;

	if (!writing->begun)
		write_head(writing, family);
	writing->begun = true;
	if (family->kind == TQ_METRIC_HISTOGRAM)
	{
		write_histogram(writing, sample);
		return;
	}
	if (family->by_queue)
		queue = &writing->queues[sample->queue < 0 ? set->queue_count
												   : sample->queue];
	begin_line(writing, family->kind == TQ_METRIC_COUNTER ? "_total" : "",
			   queue);
	if (sample->label != NULL)
		appendStringInfo(&writing->text, "%s%s=\"%s\"",
						 queue == NULL ? "{" : ",", sample->label,
						 sample->label_value);
	end_line(writing, queue != NULL || sample->label != NULL, sample->value);
}

static void
write_head(Writing *writing, const TqMetricFamily *family)
{
	StringInfo  text = &writing->text;
	const char *suffix =
		writing->prometheus && family->kind == TQ_METRIC_COUNTER ? "_total"
																 : "";

	appendStringInfo(text, "# HELP %s%s %s\n# TYPE %s%s %s\n", writing->name,
					 suffix, family->help, writing->name, suffix,
					 kinds[family->kind]);
	if (!writing->prometheus && family->unit != NULL)
		appendStringInfo(text, "# UNIT %s %s\n", writing->name, family->unit);
}

/* Buckets are cumulative: each includes those before it. */
static void
write_histogram(Writing *writing, const TqMetricSample *sample)
{
	const Piece *queue = &writing->queues[sample->queue];
	int64        count = 0;

	for (int i = 0; i < TQ_BUCKETS; i++)
	{
		count += sample->counted->slot[TQ_METRIC_BUCKET(sample->histogram, i)];
		begin_line(writing, "_bucket", queue);
		appendStringInfoChar(&writing->text, ',');
		appendBinaryStringInfo(&writing->text, writing->buckets[i].text,
							   writing->buckets[i].length);
		end_line(writing, true, (double) count);
	}
	begin_line(writing, "_count", queue);
	end_line(writing, true, (double) count);
	begin_line(writing, "_sum", queue);
	end_line(writing, true,
			 sample->counted->sum[sample->histogram] / USECS_PER_SEC);
}

static void
begin_line(Writing *writing, const char *suffix, const Piece *queue)
{
	appendStringInfoString(&writing->text, writing->name);
	appendStringInfoString(&writing->text, suffix);
	if (queue == NULL)
		return;
	appendStringInfoChar(&writing->text, '{');
	appendBinaryStringInfo(&writing->text, queue->text, queue->length);
}

static void
end_line(Writing *writing, bool has_labels, double number)
{
	StringInfo text = &writing->text;

	if (has_labels)
		appendStringInfoChar(text, '}');
	appendStringInfoChar(text, ' ');
	enlargeStringInfo(text, Max(MAXINT8LEN, DOUBLE_SHORTEST_DECIMAL_LEN) + 1);
	if (number == rint(number) && fabs(number) < EXACT)
		text->len += pg_lltoa((int64) number, text->data + text->len);
	else
		text->len +=
			double_to_shortest_decimal_bufn(number, text->data + text->len);
	appendStringInfoChar(text, '\n');
}
