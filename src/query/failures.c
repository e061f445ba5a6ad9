/*
 * failures.c
 *		taskq_failures, taskq_fingerprint: failures by kind.
 *
 * The failed tasks are those that are dead, and those that wait for another
 * attempt.  Dead tasks are found by their state, newest first.  Waiting tasks
 * are found by the time at which the next attempt is due, since a backoff sets
 * it and no index has the number of attempts; the few that were due at once
 * are searched by id.  Each search may examine a part of max_examined rows.
 *
 * For each kind only numbers are kept, and where its newest task is: its text
 * is read at the end, for the kinds that are returned.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/guc.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/task_content.h"
#include "query/task_search.h"
#include "query/task_walk.h"
#include "query/visibility.h"

#define DEFAULT_ROWS 100
#define MAX_ROWS 10000
#define PAGE 1000 /* tasks that are searched together */

PG_FUNCTION_INFO_V1(taskq_fingerprint);
PG_FUNCTION_INFO_V1(taskq_failures);

enum
{
	OUT_FINGERPRINT,
	OUT_KIND,
	OUT_TASKS,
	OUT_DEAD,
	OUT_RETRYING,
	OUT_FIRST_AT,
	OUT_LAST_AT,
	OUT_TASK_ID,
	OUT_ERROR,
	OUT_TREND,
	OUT_STOPPED_EARLY,
	OUT_COLUMNS
};

typedef struct Kind
{
	char        fingerprint[TQ_FINGERPRINT_LENGTH + 1];
	int64       dead;
	int64       retrying;
	TimestampTz first_at;
	TimestampTz last_at;
	TqFound     newest; /* by last_at */
} Kind;

/* Failures of a kind in an hour. */
typedef struct HourKey
{
	char        fingerprint[TQ_FINGERPRINT_LENGTH + 8];
	TimestampTz begin;
} HourKey;

typedef struct Hour
{
	HourKey key;
	int64   tasks;
} Hour;

typedef struct Count
{
	TqTaskPage   *find;
	TqTaskFilter  filter; /* queues; an error */
	TimestampTz   since;
	TimestampTz   until;
	HTAB         *kinds;
	HTAB         *hours;
	Hour         *sorted_hours;
	int64         hour_count;
	MemoryContext row;
	bool          stopped;
} Count;

static void  read_arguments(FunctionCallInfo fcinfo, Count *count,
							int *max_rows, int64 *max_examined);
static void  restrict_queues(FunctionCallInfo fcinfo, TqTaskFilter *filter);
static HTAB *make_table(const char *name, Size key, Size entry);
static int64 count_pages(Count *count, int states, bool due_at_once,
						 int64 budget);
static int64 count_waiting(Count *count, int64 budget);
static void  count_found(Count *count, const TqFound *found, bool due_at_once);
static void  add(Count *count, const TqFound *found, const char *fingerprint,
				 TimestampTz at, bool dead);
static Kind **best_kinds(Count *count, int *number);
static int    by_size(const void *a, const void *b);
static void   sort_hours(Count *count);
static int    by_hour(const void *a, const void *b);
static void   put_kind(Count *count, const Kind *kind, Datum *values,
					   bool *nulls);
static Datum  trend_of(Count *count, const Kind *kind);

Datum
taskq_fingerprint(PG_FUNCTION_ARGS)
{
	char  fingerprint[TQ_FINGERPRINT_LENGTH + 1];
	char *error;

	if (PG_ARGISNULL(0))
		tq_error_required("error");
	error = tq_arg_message(fcinfo, 0);
	tq_fingerprint_of(error, (int) strlen(error), fingerprint);
	PG_RETURN_TEXT_P(cstring_to_text(fingerprint));
}

Datum
taskq_failures(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Count          count = {0};
	int            max_rows;
	int64          left;
	Kind         **kinds;
	int            number;
	Datum          values[OUT_COLUMNS];
	bool           nulls[OUT_COLUMNS];

	tq_srf_begin(fcinfo);
	tq_queue_refresh();
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	read_arguments(fcinfo, &count, &max_rows, &left);
	count.find = tq_task_page_begin(GetActiveSnapshot());
	count.row = AllocSetContextCreate(CurrentMemoryContext, "taskq row",
									  ALLOCSET_DEFAULT_SIZES);
	count.kinds =
		make_table("taskq kinds", TQ_FINGERPRINT_LENGTH + 1, sizeof(Kind));
	count.hours = make_table("taskq hours", sizeof(HourKey), sizeof(Hour));
	left -= count_pages(&count, TQ_STATE_BIT(TQ_STATE_DEAD), false,
						Max(left / 2, 1));
	left -= count_waiting(&count, Max(left / 2, 1));
	(void) count_pages(&count,
					   TQ_STATE_BIT(TQ_STATE_PENDING) |
						   TQ_STATE_BIT(TQ_STATE_BLOCKED),
					   true, Max(left, 1));
	kinds = best_kinds(&count, &number);
	sort_hours(&count);
	for (int i = 0; i < Min(number, max_rows); i++)
	{
		MemoryContext mine = MemoryContextSwitchTo(count.row);

		CHECK_FOR_INTERRUPTS();
		put_kind(&count, kinds[i], values, nulls);
		tq_srf_add(result, values, nulls);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(count.row);
	}
	if (number == 0 && count.stopped)
	{
		memset(nulls, true, sizeof(nulls));
		values[OUT_STOPPED_EARLY] = BoolGetDatum(true);
		nulls[OUT_STOPPED_EARLY] = false;
		tq_srf_add(result, values, nulls);
	}
	tq_task_page_end(count.find);
	PopActiveSnapshot();
	return (Datum) 0;
}

static void
read_arguments(FunctionCallInfo fcinfo, Count *count, int *max_rows,
			   int64 *max_examined)
{
	restrict_queues(fcinfo, &count->filter);
	count->filter.backward = true;
	count->filter.error = ""; /* any */
	if (!tq_arg_time(fcinfo, 1, "since", &count->since))
		count->since = tq_clock_wall() - USECS_PER_DAY;
	if (!tq_arg_time(fcinfo, 2, "until", &count->until))
		count->until = DT_NOEND;
	if (count->since > count->until)
		tq_error_invalid("since", "is after \"until\"", NULL);
	*max_rows = PG_ARGISNULL(3) ? DEFAULT_ROWS : PG_GETARG_INT32(3);
	if (*max_rows < 1 || *max_rows > MAX_ROWS)
		tq_error_invalid("max_rows",
						 psprintf("must be from 1 to %d", MAX_ROWS), NULL);
	*max_examined = PG_ARGISNULL(4) ? tq_guc_max_examined : PG_GETARG_INT64(4);
	if (*max_examined < 1)
		tq_error_invalid("max_examined", "must be at least 1", NULL);
}

/* pg_monitor alone does not see errors. */
static void
restrict_queues(FunctionCallInfo fcinfo, TqTaskFilter *filter)
{
	TqVisibility *sight = palloc(sizeof(TqVisibility));
	char         *name;
	TqQueue      *queue;

	tq_task_filter_init(filter);
	tq_visibility_take(sight);
	tq_task_filter_restrict(filter, sight);
	filter->all_queues = sight->all_words;
	if (PG_ARGISNULL(0))
		return;
	name = tq_arg_name(fcinfo, 0, "queue", NULL);
	queue = tq_queue_find(name);
	if (queue == NULL)
		tq_error_no_such_queue(name);
	tq_role_require(queue, TQ_RIGHT_OBSERVE);
	filter->all_queues = false;
	filter->queues = palloc(sizeof(int32));
	filter->queues[0] = queue->queue_id;
	filter->queue_count = 1;
}

static HTAB *
make_table(const char *name, Size key, Size entry)
{
	HASHCTL ctl = {0};

	ctl.keysize = key;
	ctl.entrysize = entry;
	ctl.hcxt = CurrentMemoryContext;
	return hash_create(name, 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Count the tasks of some states, by id.  Returns how many were examined. */
static int64
count_pages(Count *count, int states, bool due_at_once, int64 budget)
{
	TqTaskFilter filter = count->filter;
	TqTaskSearch search = {PAGE, budget};
	int64        examined = 0;

	tq_task_filter_states(&filter, states);
	if (states == TQ_STATE_BIT(TQ_STATE_DEAD))
		filter.times[TQ_TIME_FINISHED].from = count->since;
	do
	{
		tq_task_search_run(count->find, &filter, &search);
		for (int i = 0; i < search.count; i++)
			count_found(count, &search.found[i], due_at_once);
		examined += Max(search.examined, search.count);
		search.max_examined = budget - examined;
		if (search.stopped ||
			(search.count == search.max && search.max_examined <= 0))
			count->stopped = true;
		else if (search.count == search.max)
			tq_task_filter_after(&filter,
								 search.found[search.count - 1].task_id);
		pfree(search.found);
	} while (search.count == search.max && !count->stopped &&
			 search.max_examined > 0);
	return examined;
}

/* Count the tasks that wait, or have waited, for another attempt. */
static int64
count_waiting(Count *count, int64 budget)
{
	TqTaskFilter filter = count->filter;
	TqSearch     search = {count->find, &filter};
	TqRange      range = {TQ_BY_WAKE};

	tq_task_filter_states(&filter, TQ_STATE_BIT(TQ_STATE_PENDING));
	search.first = PG_INT64_MIN;
	search.last = PG_INT64_MAX;
	search.crowd = budget;
	tq_id_heap_init(&search.page, (int) Min(budget, PG_INT32_MAX), true);
	(void) tq_task_page_table(count->find, TQ_FOUND_LIVE);
	ScanKeyInit(&range.keys[range.nkeys++], 1, BTGreaterEqualStrategyNumber,
				F_TIMESTAMPTZ_GE, TimestampTzGetDatum(count->since));
	if (!tq_task_walk(&search, TQ_FOUND_LIVE, &range))
		count->stopped = true;
	for (int i = 0; i < search.page.count; i++)
		count_found(count, &search.page.rows[i], false);
	pfree(search.page.rows);
	return search.unordered;
}

/*
 * Count a task, if it failed at the given times.  due_at_once: leave out those
 * that count_waiting has found.
 */
static void
count_found(Count *count, const TqFound *found, bool due_at_once)
{
	MemoryContext mine = MemoryContextSwitchTo(count->row);
	char          fingerprint[TQ_FINGERPRINT_LENGTH + 1];
	TqTask        task;
	Datum         errors;
	char         *error;
	int           length;
	TimestampTz   at;

	CHECK_FOR_INTERRUPTS();
	tq_task_page_read(count->find, found, &task);
	if ((!due_at_once || task.f.state != TQ_STATE_PENDING ||
		 TQ_TASK_TIME(&task, TQ_COL_WAKE_AT, DT_NOBEGIN) < count->since) &&
		tq_task_content_errors(count->filter.sight, &task, &errors, &error,
							   &length) &&
		error != NULL)
	{
		if (!tq_task_content_error_at(errors, &at))
			at = task.archived
					 ? TQ_TASK_TIME(&task, TQ_COL_FINISHED_AT, task.i.run_at)
					 : task.i.run_at;
		tq_fingerprint_of(error, length, fingerprint);
		if (at >= count->since && at < count->until)
			add(count, found, fingerprint, at, task.archived);
	}
	MemoryContextSwitchTo(mine);
	MemoryContextReset(count->row);
}

static void
add(Count *count, const TqFound *found, const char *fingerprint,
	TimestampTz at, bool dead)
{
	HourKey key;
	Hour   *hour;
	bool    known;
	Kind   *kind = hash_search(count->kinds, fingerprint, HASH_ENTER, &known);

	if (!known)
	{
		kind->dead = kind->retrying = 0;
		kind->first_at = DT_NOEND;
		kind->last_at = DT_NOBEGIN;
	}
	if (dead)
		kind->dead++;
	else
		kind->retrying++;
	kind->first_at = Min(kind->first_at, at);
	if (at > kind->last_at)
	{
		kind->last_at = at;
		kind->newest = *found;
	}
	memset(&key, 0, sizeof(key));
	strlcpy(key.fingerprint, fingerprint, sizeof(key.fingerprint));
	key.begin = at - (at % USECS_PER_HOUR + USECS_PER_HOUR) % USECS_PER_HOUR;
	hour = hash_search(count->hours, &key, HASH_ENTER, &known);
	if (!known)
		hour->tasks = 0;
	hour->tasks++;
}

/* The kinds, those with the most tasks first. */
static Kind **
best_kinds(Count *count, int *number)
{
	Kind          **kinds;
	HASH_SEQ_STATUS all;
	Kind           *kind;

	*number = 0;
	kinds = MemoryContextAllocHuge(
		CurrentMemoryContext,
		sizeof(Kind *) * (hash_get_num_entries(count->kinds) + 1));
	hash_seq_init(&all, count->kinds);
	while ((kind = hash_seq_search(&all)) != NULL)
		kinds[(*number)++] = kind;
	qsort(kinds, *number, sizeof(Kind *), by_size);
	return kinds;
}

static int
by_size(const void *a, const void *b)
{
	const Kind *x = *(Kind *const *) a;
	const Kind *y = *(Kind *const *) b;
	int order = tq_compare_int64(y->dead + y->retrying, x->dead + x->retrying);

	if (order == 0)
		order = tq_compare_int64(y->last_at, x->last_at);
	return order != 0 ? order : strcmp(x->fingerprint, y->fingerprint);
}

static void
put_kind(Count *count, const Kind *kind, Datum *values, bool *nulls)
{
	TqTask task;
	char  *error;
	int    length;

	memset(nulls, false, sizeof(bool) * OUT_COLUMNS);
	tq_task_page_read(count->find, &kind->newest, &task);
	if (!tq_task_content_error(count->filter.sight, &task, &error, &length))
		elog(ERROR, "task " INT64_FORMAT " has no error", task.f.task_id);
	values[OUT_FINGERPRINT] = CStringGetTextDatum(kind->fingerprint);
	values[OUT_KIND] =
		CStringGetTextDatum(tq_fingerprint_normalize(error, length));
	values[OUT_TASKS] = Int64GetDatum(kind->dead + kind->retrying);
	values[OUT_DEAD] = Int64GetDatum(kind->dead);
	values[OUT_RETRYING] = Int64GetDatum(kind->retrying);
	values[OUT_FIRST_AT] = TimestampTzGetDatum(kind->first_at);
	values[OUT_LAST_AT] = TimestampTzGetDatum(kind->last_at);
	values[OUT_TASK_ID] = Int64GetDatum(kind->newest.task_id);
	values[OUT_ERROR] =
		PointerGetDatum(cstring_to_text_with_len(error, length));
	values[OUT_TREND] = trend_of(count, kind);
	values[OUT_STOPPED_EARLY] = BoolGetDatum(count->stopped);
}

/* [{"at": hour, "tasks": n}, ...]: the hours that have failures of a kind. */
static Datum
trend_of(Count *count, const Kind *kind)
{
	StringInfoData text;
	int64          low = 0;
	int64          high = count->hour_count;
	const char    *comma = "";

	while (low < high)
	{
		int64 middle = low + (high - low) / 2;

		if (strcmp(count->sorted_hours[middle].key.fingerprint,
				   kind->fingerprint) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	initStringInfo(&text);
	appendStringInfoChar(&text, '[');
	for (; low < count->hour_count; low++, comma = ", ")
	{
		const Hour *hour = &count->sorted_hours[low];

		if (strcmp(hour->key.fingerprint, kind->fingerprint) != 0)
			break;
		appendStringInfo(
			&text, "%s{\"at\": \"%s\", \"tasks\": " INT64_FORMAT "}", comma,
			timestamptz_to_str(hour->key.begin), hour->tasks);
	}
	appendStringInfoChar(&text, ']');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(text.data));
}

/* By kind, and by time. */
static void
sort_hours(Count *count)
{
	HASH_SEQ_STATUS all;
	Hour           *hour;

	count->sorted_hours = MemoryContextAllocHuge(
		CurrentMemoryContext,
		sizeof(Hour) * (hash_get_num_entries(count->hours) + 1));
	hash_seq_init(&all, count->hours);
	while ((hour = hash_seq_search(&all)) != NULL)
		count->sorted_hours[count->hour_count++] = *hour;
	qsort(count->sorted_hours, count->hour_count, sizeof(Hour), by_hour);
}

static int
by_hour(const void *a, const void *b)
{
	const HourKey *x = &((const Hour *) a)->key;
	const HourKey *y = &((const Hour *) b)->key;
	int            order = strcmp(x->fingerprint, y->fingerprint);

	return order != 0 ? order : tq_compare_int64(x->begin, y->begin);
}
