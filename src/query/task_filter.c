/*
 * task_filter.c
 *		A filter on tasks, and whether a row matches it.
 *
 * The columns of the fixed part are compared first, then the others, and last
 * the contents, which may have to be read from taskq.large.
 *
 * A condition on the contents would tell a caller what they are.  So it
 * matches only tasks of queues that the caller may read (contents_fit).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_collation.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

#include "base/compare.h"
#include "base/fingerprint.h"
#include "base/spi.h"
#include "base/try.h"
#include "query/contents.h"
#include "query/task_content.h"
#include "query/task_filter.h"

/* One evaluation of the predicate on the payload. */
typedef struct Match
{
	JsonPath *path;
	Jsonb    *variables;
	Datum     document;
	bool      matches;
} Match;

static TqStmt stmt_is_of_template = {
	"SELECT FROM taskq.workflow w JOIN taskq.template t USING (template_id)"
	" WHERE w.workflow_id = $1 AND t.name = $2",
	{INT8OID, TEXTOID}};

static bool fixed_fits(const TqTaskFilter *filter, const TqTaskFixed *row);
static bool wants_implied(const TqTaskFilter *filter);
static bool implied_fits(const TqTaskFilter  *filter,
						 const TqTaskImplied *implied);
static bool time_fits(const TqTaskFilter *filter, TqFilterTime time,
					  TimestampTz at);
static bool holds(const int32 *numbers, int count, int32 number);
static bool wants_columns(const TqTaskFilter *filter);
static bool wants_contents(const TqTaskFilter *filter);
static bool columns_fit(const TqTaskFilter *filter, TqTask *task);
static bool text_is(const TqTask *task, TqColumn column, const char *value);
static bool tags_fit(const TqTaskFilter *filter, const TqTask *task);
static bool workflow_fits(const TqTaskFilter *filter, const TqTask *task);
static bool contents_fit(const TqTaskFilter *filter, TqTask *task);
static bool error_fits(const TqTaskFilter *filter, TqTask *task);
static bool contains(const char *text, int length, const char *part);
static bool payload_fits(const TqTaskFilter *filter, TqTask *task);
static void match(void *arg);

/* All tasks. */
void
tq_task_filter_init(TqTaskFilter *filter)
{
	memset(filter, 0, sizeof(*filter));
	filter->all_queues = true;
	filter->first = filter->from_id = PG_INT64_MIN;
	filter->last = filter->to_id = PG_INT64_MAX;
	filter->priority_min = PG_INT32_MIN;
	filter->priority_max = PG_INT32_MAX;
	for (int i = 0; i < TQ_FILTER_TIMES; i++)
	{
		filter->times[i].from = DT_NOBEGIN;
		filter->times[i].to = DT_NOEND;
	}
}

/*
 * Restrict the filter to visible tasks, and what it compares to what can be
 * seen of them.  The filter refers to sight.
 */
void
tq_task_filter_restrict(TqTaskFilter *filter, TqVisibility *sight)
{
	filter->all_queues = sight->all;
	filter->queues = sight->queues;
	filter->queue_count = sight->queue_count;
	filter->sight = sight;
}

/* Continue after a task.  After the last possible id no task matches. */
void
tq_task_filter_after(TqTaskFilter *filter, int64 task_id)
{
	if (filter->backward)
	{
		if (task_id == PG_INT64_MIN)
			filter->first = PG_INT64_MAX;
		filter->last = Min(filter->last, task_id - (task_id != PG_INT64_MIN));
	}
	else
	{
		if (task_id == PG_INT64_MAX)
			filter->last = PG_INT64_MIN;
		filter->first =
			Max(filter->first, task_id + (task_id != PG_INT64_MAX));
	}
}

/* Restrict the filter to states, given as TQ_STATE_BITs. */
void
tq_task_filter_states(TqTaskFilter *filter, int states)
{
	filter->states = filter->states == 0 ? states : filter->states & states;
	if (filter->states == 0)
		filter->nothing = true;
}

/* Is the row in one of the queues and states? */
bool
tq_task_filter_is_in_place(const TqTaskFilter *filter, const TqTaskFixed *row)
{
	return (filter->states == 0 ||
			(filter->states & TQ_STATE_BIT(row->state)) != 0) &&
		   (filter->all_queues ||
			holds(filter->queues, filter->queue_count, row->queue_id));
}

/* Can a running task of that worker match? */
bool
tq_task_filter_may_run(const TqTaskFilter *filter, int32 worker_id)
{
	return !filter->by_worker ||
		   holds(filter->workers, filter->worker_count, worker_id);
}

bool
tq_task_filter_has_time(const TqTaskFilter *filter, TqFilterTime time)
{
	return filter->times[time].from != DT_NOBEGIN ||
		   filter->times[time].to != DT_NOEND;
}

/*
 * Does the fixed part of a row match?  *sure: so does the row, except perhaps
 * its id.
 */
bool
tq_task_filter_may_fit(const TqTaskFilter *filter, const TqTaskFixed *row,
					   bool *sure)
{
	*sure = !wants_columns(filter);
	return fixed_fits(filter, row);
}

/*
 * Does a task, which is live or archived, match the whole filter except its
 * bounds of ids?  Values in taskq.large are read with the active snapshot.
 * The current memory context is used for values; the caller resets it.
 */
bool
tq_task_filter_fits_task(const TqTaskFilter *filter, TqTask *task)
{
	return fixed_fits(filter, &task->f) && implied_fits(filter, &task->i) &&
		   (!wants_columns(filter) || columns_fit(filter, task));
}

static bool
fixed_fits(const TqTaskFilter *filter, const TqTaskFixed *row)
{
	if (!tq_task_filter_is_in_place(filter, row))
		return false;
	if (filter->reasons != 0 &&
		(filter->reasons & TQ_STATE_BIT(row->reason)) == 0)
		return false;
	if (filter->by_worker &&
		!holds(filter->workers, filter->worker_count, row->worker_id))
		return false;
	return row->priority >= filter->priority_min &&
		   row->priority <= filter->priority_max &&
		   time_fits(filter, TQ_TIME_CLAIMED, row->claimed_at);
}

static bool
wants_implied(const TqTaskFilter *filter)
{
	return tq_task_filter_has_time(filter, TQ_TIME_CREATED) ||
		   tq_task_filter_has_time(filter, TQ_TIME_RUN);
}

static bool
implied_fits(const TqTaskFilter *filter, const TqTaskImplied *implied)
{
	return time_fits(filter, TQ_TIME_CREATED, implied->created_at) &&
		   time_fits(filter, TQ_TIME_RUN, implied->run_at);
}

/* An infinite time of a row stands for no time. */
static bool
time_fits(const TqTaskFilter *filter, TqFilterTime time, TimestampTz at)
{
	const TqTimeRange *range = &filter->times[time];

	if (!tq_task_filter_has_time(filter, time))
		return true;
	return !TIMESTAMP_NOT_FINITE(at) && at >= range->from && at < range->to;
}

static bool
holds(const int32 *numbers, int count, int32 number)
{
	return count > 0 && bsearch(&number, numbers, count, sizeof(int32),
								tq_order_int32) != NULL;
}

/* Does the filter need more than the fixed part of a row? */
static bool
wants_columns(const TqTaskFilter *filter)
{
	return wants_implied(filter) || filter->reference != NULL ||
		   filter->key != NULL || filter->correlation_id != NULL ||
		   filter->tags.count > 0 || filter->workflow_id != 0 ||
		   filter->template != NULL ||
		   tq_task_filter_has_time(filter, TQ_TIME_FINISHED) ||
		   wants_contents(filter);
}

static bool
wants_contents(const TqTaskFilter *filter)
{
	return filter->error != NULL || filter->fingerprint != NULL ||
		   filter->payload != NULL;
}

static bool
columns_fit(const TqTaskFilter *filter, TqTask *task)
{
	if (!text_is(task, TQ_COL_REFERENCE, filter->reference) ||
		!text_is(task, TQ_COL_KEY, filter->key) ||
		!text_is(task, TQ_COL_CORRELATION_ID, filter->correlation_id) ||
		!tags_fit(filter, task) || !workflow_fits(filter, task))
		return false;
	if (tq_task_filter_has_time(filter, TQ_TIME_FINISHED) &&
		(!task->archived ||
		 !time_fits(filter, TQ_TIME_FINISHED,
					TQ_TASK_TIME(task, TQ_COL_FINISHED_AT, DT_NOEND))))
		return false;
	return !wants_contents(filter) || contents_fit(filter, task);
}

static bool
text_is(const TqTask *task, TqColumn column, const char *value)
{
	text *word;

	if (value == NULL)
		return true;
	if (task->isnull[column])
		return false;
	word = DatumGetTextPP(task->value[column]);
	return VARSIZE_ANY_EXHDR(word) == strlen(value) &&
		   memcmp(VARDATA_ANY(word), value, strlen(value)) == 0;
}

static bool
tags_fit(const TqTaskFilter *filter, const TqTask *task)
{
	TqTags tags;

	if (filter->tags.count == 0)
		return true;
	return !task->isnull[TQ_COL_TAGS] &&
		   tq_arg_tags_read(task->value[TQ_COL_TAGS], &tags) &&
		   tq_arg_tags_subset(&filter->tags, &tags);
}

static bool
workflow_fits(const TqTaskFilter *filter, const TqTask *task)
{
	int64 workflow_id;
	Datum args[2];
	TqSpi spi;
	bool  found;

	if (filter->workflow_id == 0 && filter->template == NULL)
		return true;
	if (task->isnull[TQ_COL_WORKFLOW_ID])
		return false;
	workflow_id = DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]);
	if (filter->workflow_id != 0 && workflow_id != filter->workflow_id)
		return false;
	if (filter->template == NULL)
		return true;
	if (filter->workflows != NULL)
		return filter->workflow_count > 0 &&
			   bsearch(&workflow_id, filter->workflows, filter->workflow_count,
					   sizeof(int64), tq_order_int64) != NULL;
	args[0] = Int64GetDatum(workflow_id);
	args[1] = CStringGetTextDatum(filter->template);
	tq_spi_enter(&spi);
	found = tq_spi_read(&stmt_is_of_template, args, NULL, 1) > 0;
	tq_spi_leave(&spi);
	return found;
}

/* Do the contents match, as far as the caller may read them? */
static bool
contents_fit(const TqTaskFilter *filter, TqTask *task)
{
	return filter->sight != NULL && error_fits(filter, task) &&
		   payload_fits(filter, task);
}

static bool
error_fits(const TqTaskFilter *filter, TqTask *task)
{
	char  fingerprint[TQ_FINGERPRINT_LENGTH + 1];
	char *error;
	int   length;

	if (filter->error == NULL && filter->fingerprint == NULL)
		return true;
	if (!tq_task_content_error(filter->sight, task, &error, &length))
		return false;
	if (filter->error != NULL && !contains(error, length, filter->error))
		return false;
	if (filter->fingerprint == NULL)
		return true;
	tq_fingerprint_of(error, length, fingerprint);
	return strcmp(fingerprint, filter->fingerprint) == 0;
}

/* By bytes; in encodings other than UTF-8 also by characters. */
static bool
contains(const char *text, int length, const char *part)
{
	int         part_length = (int) strlen(part);
	const char *at = text;
	const char *end = text + length - part_length;

	if (part_length == 0)
		return true;
	for (; at <= end; at++)
	{
		at = memchr(at, part[0], end - at + 1);
		if (at == NULL)
			return false;
		if (memcmp(at, part, part_length) == 0)
			break;
	}
	if (at > end)
		return false;
	if (pg_database_encoding_max_length() == 1 ||
		GetDatabaseEncoding() == PG_UTF8)
		return true;
	return DatumGetInt32(DirectFunctionCall2Coll(
			   textpos, C_COLLATION_OID,
			   PointerGetDatum(cstring_to_text_with_len(text, length)),
			   CStringGetTextDatum(part))) > 0;
}

/* A path that raises an error for a payload does not match it. */
static bool
payload_fits(const TqTaskFilter *filter, TqTask *task)
{
	Match this = {filter->payload, filter->variables, (Datum) 0, false};
	ErrorData *error;

	if (filter->payload == NULL)
		return true;
	if (!tq_contents_get(filter->sight, task, TQ_COL_PAYLOAD, &this.document))
		return false;
	this.document = JsonbPGetDatum(DatumGetJsonbP(this.document));
	error = tq_try(match, &this);
	return error == NULL && this.matches;
}

static void
match(void *arg)
{
	LOCAL_FCINFO(fcinfo, 4);
	Match *this = arg;
	Datum result;

	InitFunctionCallInfoData(*fcinfo, NULL, 4, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = this->document;
	fcinfo->args[1].value = PointerGetDatum(this->path);
	fcinfo->args[2].value = JsonbPGetDatum(this->variables);
	fcinfo->args[3].value = BoolGetDatum(true); /* silent */
	for (int i = 0; i < 4; i++)
		fcinfo->args[i].isnull = false;
	result = jsonb_path_match(fcinfo);
	this->matches = !fcinfo->isnull && DatumGetBool(result);
}
