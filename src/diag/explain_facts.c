/*
 * explain_facts.c
 *		Facts for explanations: pauses, limits, holders of tasks.
 *
 * No function here reads more than LOOK_ROWS rows of a queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/spi.h"
#include "diag/explain_facts.h"
#include "diag/explain_text.h"
#include "engine/step.h"
#include "shared/counter.h"
#include "shared/rate_bucket.h"
#include "shared/reservation.h"
#include "shared/running.h"
#include "shared/shmem.h"
#include "xact/xact.h"

#define LOOK_ROWS 10000
#define HOLDERS_NAMED 5

static TqStmt stmt_pause = {
	"SELECT paused_at, paused_until, pause_reason FROM taskq.queue"
	" WHERE queue_id = $1 AND paused_at IS NOT NULL"
	"   AND (paused_until IS NULL OR paused_until > $2)",
	{INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_worker = {
	"SELECT name, state::integer FROM taskq.worker WHERE worker_id = $1",
	{INT4OID}};

static bool say_pause(TqExplain *e, int32 queue_id, const char *name);
static bool say_queue_limit(TqExplain *e, const TqQueue *queue);
static bool say_rate_limit(TqExplain *e, const TqQueue *queue);
static void look_at_row(TqSurvey *survey, const TqTaskFixed *row);
static int  compare_holders(const void *a, const void *b);

/* Is the queue paused, or are all queues? */
bool
tq_explain_paused(TqExplain *e, const TqQueue *queue)
{
	if (!tq_queue_is_paused(queue))
		return false;
	if (say_pause(e, 0, NULL))
	{
		tq_explain_because(TQ_WHY_PAUSED_ALL);
		if (queue->paused && queue->paused_until > tq_clock_dispatch())
			appendStringInfo(
				&e->text,
				" The queue itself is paused, too: run taskq_resume(%s) as well.",
				quote_literal_cstr(queue->name));
		return true;
	}
	if (!say_pause(e, queue->queue_id, queue->name))
		return false;
	tq_explain_because(TQ_WHY_PAUSED);
	return true;
}

static bool
say_pause(TqExplain *e, int32 queue_id, const char *name)
{
	TqSpi       spi;
	Datum       args[2];
	TimestampTz since;
	TimestampTz until;
	char       *words;

	args[0] = Int32GetDatum(queue_id);
	args[1] = TimestampTzGetDatum(tq_clock_dispatch());
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_pause, args, NULL, 1) == 0)
	{
		tq_spi_leave(&spi);
		return false;
	}
	since = tq_spi_time(0, 1, 0);
	until = tq_spi_time(0, 2, DT_NOEND);
	words = tq_spi_text(&spi, 0, 3);
	tq_spi_leave(&spi);

	if (name == NULL)
		appendStringInfo(&e->text, "all queues have been paused since %s",
						 tq_explain_time(since));
	else
		appendStringInfo(&e->text, "queue \"%s\" has been paused since %s",
						 name, tq_explain_time(since));
	if (until != DT_NOEND)
		appendStringInfo(&e->text, " (until %s)", tq_explain_time(until));
	tq_explain_words(e, ", with reason ", words);
	appendStringInfo(&e->text, "; run taskq_resume(%s) to resume %s.",
					 quote_literal_cstr(name == NULL ? TQ_QUEUE_ALL : name),
					 name == NULL ? "them" : "it");
	return true;
}

/* Do the limits of the queue prevent every claim? */
bool
tq_explain_limited(TqExplain *e, const TqQueue *queue)
{
	if (tq_explain_refused(e, queue))
		return true;
	return say_queue_limit(e, queue) || say_rate_limit(e, queue);
}

/* Do claims from the queue fail because its limits need shared memory? */
bool
tq_explain_refused(TqExplain *e, const TqQueue *queue)
{
	const TqOptions *defaults = tq_queue_defaults();
	const char      *option;
	bool             of_all;

	if (tq_shmem_ready() || RecoveryInProgress())
		return false;
	if (queue->options.max_running > 0)
	{
		option = "max_running";
		of_all = defaults->max_running > 0;
	}
	else if (queue->options.rate.count > 0)
	{
		option = "rate_limit";
		of_all = defaults->rate.count > 0;
	}
	else
		return false;
	tq_explain_because(TQ_WHY_LIMIT_NOT_PRELOADED);
	appendStringInfo(
		&e->text,
		"queue \"%s\" has a %s, which requires taskq to be loaded via"
		" shared_preload_libraries, so claims raise 55000; add taskq to"
		" shared_preload_libraries and restart the server, or remove the"
		" limit: taskq_alter_queue(%s, '{\"%s\": null}').",
		queue->name, option,
		quote_literal_cstr(of_all ? TQ_QUEUE_ALL : queue->name), option);
	return true;
}

/*
 * Is max_running reached?  If the number in memory is unknown (no claim has
 * counted yet), use the rows that may be read here.
 */
static bool
say_queue_limit(TqExplain *e, const TqQueue *queue)
{
	int64    max = queue->options.max_running;
	int64    used;
	bool     known;
	TqSurvey survey;

	if (max == 0)
		return false;
	known = tq_reservation_count(TQ_OWNER_QUEUE, queue->queue_id, &used);
	if (known)
		used -= tq_xact_stopped_of(TQ_OWNER_QUEUE, queue->queue_id);
	if (known && used < max)
		return false;
	tq_explain_survey(e, queue, &survey);
	if (!known)
		used = survey.live[TQ_STATE_RUNNING];
	if (used < max)
		return false;
	tq_explain_because(TQ_WHY_QUEUE_LIMIT);
	appendStringInfo(
		&e->text, "queue \"%s\" has reached its max_running of " INT64_FORMAT,
		queue->name, max);
	tq_explain_holders(e, &survey);
	if (survey.complete && used > survey.live[TQ_STATE_RUNNING])
		appendStringInfo(&e->text, "; open transactions hold " INT64_FORMAT,
						 used - survey.live[TQ_STATE_RUNNING]);
	appendStringInfo(
		&e->text,
		". Another task can be claimed when one finishes, or after"
		" taskq_alter_queue(%s, '{\"max_running\": " INT64_FORMAT "}').",
		quote_literal_cstr(queue->name), used + 1);
	return true;
}

static bool
say_rate_limit(TqExplain *e, const TqQueue *queue)
{
	const TqRate *rate = &queue->options.rate;
	int64         wait;

	if (rate->count == 0 || RecoveryInProgress())
		return false;
	wait = tq_rate_bucket_next(queue->queue_id, rate);
	if (wait == 0)
		return false;
	tq_explain_because(TQ_WHY_RATE_LIMIT);
	appendStringInfo(
		&e->text, "queue \"%s\" has a rate_limit of %.0f claims per %s, ",
		queue->name, rate->count, tq_explain_span((int64) rate->per));
	if (wait < 0)
		appendStringInfo(&e->text,
						 "which starts empty at the next claim; a claim"
						 " %s after that gets a task.",
						 tq_explain_span((int64) (rate->per / rate->count)));
	else
		appendStringInfo(&e->text,
						 "which is used up; a claim after %s gets a task.",
						 tq_explain_time(tq_clock_wall() + wait));
	return true;
}

/*
 * Count the tasks that a worker holds, but no further than max; return false
 * if that is unknown.  If no claim has counted yet and the caller requests it,
 * walk the running tasks in memory.
 */
bool
tq_explain_worker_used(int32 worker_id, int max, bool walk, int64 *used)
{
	TqRunning *found;

	if (!tq_shmem_ready())
		return false;
	if (tq_reservation_count(TQ_OWNER_WORKER, worker_id, used))
	{
		*used -= tq_xact_stopped_of(TQ_OWNER_WORKER, worker_id);
		return true;
	}
	if (!walk)
		return false;
	max = Min(max, LOOK_ROWS);
	found = palloc(sizeof(TqRunning) * max);
	*used = tq_running_of_workers(&worker_id, 1, found, max);
	pfree(found);
	return true;
}

/* Survey the live tasks of a queue, lane by lane. */
void
tq_explain_survey(TqExplain *e, const TqQueue *queue, TqSurvey *survey)
{
	Relation rel = e->call.task.rel;
	Relation index =
		tq_catalog_open_index(tq_catalog()->task_dispatch, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	int             rows = 0;

	memset(survey, 0, sizeof(*survey));
	for (int i = 0; i < queue->lane_count && rows <= LOOK_ROWS; i++)
	{
		ScanKeyData   key;
		IndexScanDesc scan;

		if (i > 0 && queue->lanes[i].lane_id == queue->lanes[i - 1].lane_id)
			continue;
		ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ,
					Int64GetDatum(queue->lanes[i].lane_id));
		scan = tq_compat_index_beginscan(rel, index, GetActiveSnapshot(), 1);
		index_rescan(scan, &key, 1, NULL, 0);
		while (rows++ < LOOK_ROWS &&
			   index_getnext_slot(scan, ForwardScanDirection, slot))
		{
			bool      should_free;
			HeapTuple tuple =
				ExecFetchSlotHeapTuple(slot, false, &should_free);
			TqTaskFixed *row = (TqTaskFixed *) GETSTRUCT(tuple);

			CHECK_FOR_INTERRUPTS();
			if (row->queue_id == queue->queue_id)
				look_at_row(survey, row);
		}
		index_endscan(scan);
	}
	survey->complete = rows <= LOOK_ROWS;
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	qsort(survey->holders, survey->holder_count, sizeof(TqHolder),
		  compare_holders);
}

static void
look_at_row(TqSurvey *survey, const TqTaskFixed *row)
{
	int i = 0;

	if (row->state < TQ_STATE_FIRST || !TQ_STATE_IS_LIVE(row->state))
		return;
	survey->live[row->state]++;
	if (row->state != TQ_STATE_RUNNING)
		return;
	while (i < survey->holder_count &&
		   survey->holders[i].worker_id != row->worker_id)
		i++;
	if (i == TQ_HOLDERS)
		return;
	if (i == survey->holder_count)
	{
		survey->holders[i].worker_id = row->worker_id;
		survey->holders[i].tasks = 0;
		survey->holder_count++;
	}
	survey->holders[i].tasks++;
}

/* Order by number of tasks, descending. */
static int
compare_holders(const void *a, const void *b)
{
	const TqHolder *x = a;
	const TqHolder *y = b;

	if (x->tasks != y->tasks)
		return x->tasks > y->tasks ? -1 : 1;
	return x->worker_id < y->worker_id ? -1 : x->worker_id > y->worker_id;
}

/* ": worker "a" holds 2, label "b" 1, others 4" */
void
tq_explain_holders(TqExplain *e, const TqSurvey *survey)
{
	int64 others = survey->live[TQ_STATE_RUNNING];
	int   told = e->names ? Min(survey->holder_count, HOLDERS_NAMED) : 0;

	for (int i = 0; i < told; i++)
	{
		const TqHolder *holder = &survey->holders[i];
		Datum           arg = Int32GetDatum(holder->worker_id);
		char           *name = NULL;
		bool            label = false;
		TqSpi           spi;

		tq_spi_enter(&spi);
		if (tq_spi_look(&stmt_worker, &arg, NULL, 1) > 0)
		{
			name = tq_spi_text(&spi, 0, 1);
			label = tq_spi_int4(0, 2, 0) == TQ_WORKER_LABEL;
		}
		tq_spi_leave(&spi);
		appendStringInfoString(&e->text, i == 0 ? ": " : ", ");
		if (name != NULL)
			appendStringInfo(&e->text, "%s \"%s\"", label ? "label" : "worker",
							 name);
		else
			appendStringInfoString(&e->text, "claims without a name");
		appendStringInfo(&e->text,
						 i == 0 ? (name ? " holds %d" : " hold %d") : " %d",
						 holder->tasks);
		others -= holder->tasks;
	}
	if (told > 0 && others > 0)
		appendStringInfo(&e->text, ", others " INT64_FORMAT, others);
	if (!survey->complete)
		appendStringInfo(&e->text, " (among the first %d tasks)", LOOK_ROWS);
}

/* Return the tags of a task, sorted. */
void
tq_explain_task_tags(const TqTask *task, TqTags *tags)
{
	if (task->isnull[TQ_COL_TAGS] ||
		!tq_arg_tags_read(task->value[TQ_COL_TAGS], tags))
		memset(tags, 0, sizeof(*tags));
}

/*
 * Report how many sessions wait; false if there are none or the caller may not
 * know.
 */
bool
tq_explain_waiters(TqExplain *e, int count, const char *what)
{
	if (count == 0 || !e->names)
		return false;
	appendStringInfo(&e->text, " %d %s in the server for %s.", count,
					 count == 1 ? "session waits" : "sessions wait", what);
	return true;
}

/* For a step, report its workflow. */
void
tq_explain_which(TqExplain *e, const TqTask *task)
{
	char *name = NULL;

	if (tq_step_is(task) && tq_step_hooks.name != NULL)
		name = tq_step_hooks.name(task);
	if (name != NULL)
		appendStringInfo(&e->text,
						 ", step \"%s\" of workflow " INT64_FORMAT ",", name,
						 DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]));
	appendStringInfoChar(&e->text, ' ');
}

/* Returns true if the workflow layer has written the explanation. */
bool
tq_explain_step(TqExplain *e, const TqTask *task)
{
	return tq_step_is(task) && tq_step_hooks.explain != NULL &&
		   tq_step_hooks.explain(e, task);
}
