/*
 * lineage.c
 *		taskq_lineage: where a task comes from, and which tasks come from it.
 *
 * Recreated tasks are followed from one to the next in both directions.  A
 * dead letter names its origin in its headers.  The dead letters of a task are
 * searched in the queue that the option of its queue currently names, from the
 * task's id and its time of death on, for at most LETTERS rows, since no index
 * supports this search.  Tasks that current_user may not read are omitted.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/json.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/task_filter.h"
#include "query/task_page.h"
#include "query/task_search.h"
#include "query/visibility.h"
#include "store/large.h"

#define MAX_ROWS 1000 /* of one relation */
#define LETTERS 5000  /* tasks searched for letters, at each place */
#define PAGE 500

PG_FUNCTION_INFO_V1(taskq_lineage);

typedef struct Lineage
{
	TqTaskPage    *find;
	TqVisibility   sight;
	ReturnSetInfo *result;
	MemoryContext  row_context;
	int64          letters[MAX_ROWS]; /* already reported */
	int            letter_count;
} Lineage;

static bool  find_origin(Lineage *lineage, int64 task_id, TqTask *task);
static void  tell(Lineage *lineage, const TqTask *task, const char *relation,
				  TimestampTz at);
static void  tell_recreated_from(Lineage *lineage, const TqTask *task);
static void  tell_recreated_as(Lineage *lineage, const TqTask *task);
static void  tell_letters(Lineage *lineage, const TqTask *task);
static void  look_for_letters(Lineage *lineage, int32 queue_id, int64 origin,
							  int64 after);
static int64 first_since(Lineage *lineage, int32 queue_id, int64 after,
						 TimestampTz since);
static void  tell_correlated(Lineage *lineage, const TqTask *task);
static int64 origin_of(TqTask *task);

Datum
taskq_lineage(PG_FUNCTION_ARGS)
{
	int64   task_id = tq_arg_int8(fcinfo, 0, "task_id");
	Lineage lineage = {0};
	TqTask  task;
	TqTask  origin;
	int64   origin_id;

	tq_srf_begin(fcinfo);
	lineage.result = (ReturnSetInfo *) fcinfo->resultinfo;
	tq_queue_refresh();
	tq_visibility_take(&lineage.sight);
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	lineage.find = tq_task_page_begin(GetActiveSnapshot());
	lineage.row_context = AllocSetContextCreate(
		CurrentMemoryContext, "taskq row", ALLOCSET_DEFAULT_SIZES);
	if (!tq_task_page_find_one(lineage.find, task_id, &task))
		tq_error_no_such_task(task_id);
	if (!lineage.sight.all)
		tq_role_require_task(tq_queue_by_id(task.f.queue_id), task_id,
							 TQ_RIGHT_OBSERVE);
	tell_recreated_from(&lineage, &task);
	tell_recreated_as(&lineage, &task);
	origin_id = origin_of(&task);
	if (origin_id != 0 &&
		tq_task_page_find_one(lineage.find, origin_id, &origin))
		tell(&lineage, &origin, "dead_letter_of", task.i.created_at);
	tell_letters(&lineage, &task);
	tell_correlated(&lineage, &task);
	tq_task_page_end(lineage.find);
	PopActiveSnapshot();
	return (Datum) 0;
}

/* Find the task that was recreated as this one. */
static bool
find_origin(Lineage *lineage, int64 task_id, TqTask *task)
{
	TqTaskFilter filter;
	TqFound     *found;

	tq_task_filter_init(&filter);
	filter.recreated_as = task_id;
	if (tq_task_search_page(lineage->find, &filter, 1, &found) == 0)
		return false;
	tq_task_page_read(lineage->find, found, task);
	return true;
}

static void
tell(Lineage *lineage, const TqTask *task, const char *relation,
	 TimestampTz at)
{
	Datum values[3];
	bool  nulls[3] = {false, false, false};

	if (!lineage->sight.all &&
		!tq_visibility_observes(&lineage->sight, task->f.queue_id))
		return;
	values[0] = Int64GetDatum(task->f.task_id);
	values[1] = CStringGetTextDatum(relation);
	values[2] = TimestampTzGetDatum(at);
	tq_srf_add(lineage->result, values, nulls);
}

/* Follow the chain back to the first task. */
static void
tell_recreated_from(Lineage *lineage, const TqTask *task)
{
	TqTask newer = *task;
	TqTask older;

	for (int i = 0; i < MAX_ROWS; i++)
	{
		if (!find_origin(lineage, newer.f.task_id, &older))
			return;
		tell(lineage, &older, "recreated_from", newer.i.created_at);
		newer = older;
	}
}

/* Follow the chain on to the last task. */
static void
tell_recreated_as(Lineage *lineage, const TqTask *task)
{
	TqTask older = *task;
	TqTask newer;

	for (int i = 0; i < MAX_ROWS; i++)
	{
		if (!older.archived || older.isnull[TQ_COL_RECREATED_AS] ||
			!tq_task_page_find_one(
				lineage->find, DatumGetInt64(older.value[TQ_COL_RECREATED_AS]),
				&newer))
			return;
		tell(lineage, &newer, "recreated_as", newer.i.created_at);
		older = newer;
	}
}

static void
tell_letters(Lineage *lineage, const TqTask *task)
{
	TqQueue *queue = tq_queue_by_id(task->f.queue_id);
	char    *name = queue == NULL ? NULL : queue->options.dead_letter_queue;
	int64    after = task->f.task_id;
	int32    queue_id;

	queue = name == NULL ? NULL : tq_queue_find(name);
	if (queue == NULL || (task->f.flags & TQ_FLAG_DEAD_LETTER) != 0)
		return;
	queue_id = queue->queue_id;
	look_for_letters(lineage, queue_id, task->f.task_id, after);
	if (!task->archived)
		return;
	after = first_since(lineage, queue_id, after,
						DatumGetTimestampTz(task->value[TQ_COL_FINISHED_AT]) -
							USECS_PER_SEC);
	look_for_letters(lineage, queue_id, task->f.task_id, after);
}

/* Search the tasks of a queue behind an id for letters of a task. */
static void
look_for_letters(Lineage *lineage, int32 queue_id, int64 origin, int64 after)
{
	MemoryContext mine = MemoryContextSwitchTo(lineage->row_context);
	TqTaskFilter  filter;
	int           count = PAGE;

	for (int seen = 0; seen < LETTERS && count == PAGE; seen += count)
	{
		TqFound *found;

		tq_task_filter_init(&filter);
		filter.all_queues = false;
		filter.queues = &queue_id;
		filter.queue_count = 1;
		tq_task_filter_after(&filter, after);
		count = tq_task_search_page(lineage->find, &filter, PAGE, &found);
		for (int i = 0; i < count; i++)
		{
			TqTask letter;
			bool   told = false;

			CHECK_FOR_INTERRUPTS();
			after = found[i].task_id;
			tq_task_page_read(lineage->find, &found[i], &letter);
			if (origin_of(&letter) != origin)
				continue;
			for (int l = 0; l < lineage->letter_count; l++)
				told = told || lineage->letters[l] == after;
			if (told || lineage->letter_count >= MAX_ROWS)
				continue;
			lineage->letters[lineage->letter_count++] = after;
			tell(lineage, &letter, "dead_letter", letter.i.created_at);
		}
		MemoryContextReset(lineage->row_context);
	}
	MemoryContextSwitchTo(mine);
}

/*
 * Find the id behind which are the tasks of a queue that were created since
 * some time: later tasks have higher ids, with few exceptions.
 */
static int64
first_since(Lineage *lineage, int32 queue_id, int64 after, TimestampTz since)
{
	MemoryContext mine = MemoryContextSwitchTo(lineage->row_context);
	int64         low = after;
	int64         high = INT64CONST(1) << 53;

	while (high - low > 1)
	{
		int64        middle = low + (high - low) / 2;
		TqTaskFilter filter;
		TqFound     *found;
		TqTask       task;

		tq_task_filter_init(&filter);
		filter.all_queues = false;
		filter.queues = &queue_id;
		filter.queue_count = 1;
		tq_task_filter_after(&filter, middle);
		if (tq_task_search_page(lineage->find, &filter, 1, &found) == 0)
			high = middle;
		else
		{
			tq_task_page_read(lineage->find, found, &task);
			if (task.i.created_at >= since)
				high = middle;
			else
				low = task.f.task_id;
		}
		MemoryContextReset(lineage->row_context);
	}
	MemoryContextSwitchTo(mine);
	return low;
}

static void
tell_correlated(Lineage *lineage, const TqTask *task)
{
	TqTaskFilter filter;
	TqFound     *found;
	int          count;

	if (task->isnull[TQ_COL_CORRELATION_ID])
		return;
	tq_task_filter_init(&filter);
	tq_task_filter_restrict(&filter, &lineage->sight);
	filter.correlation_id =
		TextDatumGetCString(task->value[TQ_COL_CORRELATION_ID]);
	count = tq_task_search_page(lineage->find, &filter, MAX_ROWS, &found);
	for (int i = 0; i < count; i++)
	{
		TqTask other;

		CHECK_FOR_INTERRUPTS();
		if (found[i].task_id == task->f.task_id)
			continue;
		tq_task_page_read(lineage->find, &found[i], &other);
		tell(lineage, &other, "same_correlation", other.i.created_at);
	}
}

/* Return the id of the task whose dead letter this is; 0 if it is not one. */
static int64
origin_of(TqTask *task)
{
	Datum      headers;
	Jsonb     *document;
	JsonbValue origin;
	JsonbValue id;
	Datum      number;

	if ((task->f.flags & TQ_FLAG_DEAD_LETTER) == 0 ||
		!tq_large_look(task, TQ_COL_HEADERS, &headers))
		return 0;
	document = DatumGetJsonbP(headers);
	if (!JB_ROOT_IS_OBJECT(document) ||
		getKeyJsonValueFromContainer(&document->root, "dead_letter", 11,
									 &origin) == NULL ||
		!tq_json_is_object(&origin) ||
		getKeyJsonValueFromContainer(origin.val.binary.data, "task_id", 7,
									 &id) == NULL ||
		id.type != jbvNumeric)
		return 0;
	number = NumericGetDatum(id.val.numeric);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8, number));
}
