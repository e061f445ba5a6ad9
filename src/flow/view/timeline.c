/*
 * timeline.c
 *		taskq_timeline: the history of a task, of an instance, or of all tasks
 *		with a correlation id.
 *
 * The rows are those of taskq.transition (engine/history.c), which has an
 * index on task ids only; the task ids come from the rows of the tasks, by
 * their indexes.  The call therefore reads only changes of these tasks,
 * whatever else the history contains.  Each change of a task draws a higher
 * number when it is made, so the numbers give the order.
 *
 * The rows may need more memory than there is, so they are read from a cursor
 * and put into the result a few at a time.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "flow/definition/template.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "query/task_filter.h"
#include "query/task_page.h"
#include "query/visibility.h"

#define ROWS_AT_ONCE 1000

PG_FUNCTION_INFO_V1(taskq_timeline);

/*
 * Columns of the result, followed by columns that decide whether the row may
 * be shown.
 */
typedef enum Column
{
	COLUMN_AT,
	COLUMN_WORKFLOW_ID,
	COLUMN_STEP,
	COLUMN_TASK_ID,
	COLUMN_FROM_STATE,
	COLUMN_TO_STATE,
	COLUMN_REASON,
	COLUMN_ATTEMPT,
	COLUMN_TOKEN,
	COLUMN_WORKER,
	COLUMN_ROLE,
	COLUMN_MESSAGE,
	COLUMN_ACTOR,
	RESULT_COLUMNS,
	COLUMN_QUEUE_ID = RESULT_COLUMNS,
	COLUMN_TEMPLATE_ID,
	COLUMNS
} Column;

typedef struct Timeline
{
	ReturnSetInfo *result;
	TqVisibility   sight;
	int64          told; /* number of rows returned */
} Timeline;

/*
 * OFFSET 0 makes the join go task by task, so that the index of each leaf is
 * used.  Names are looked up row by row, regardless of the planner's row
 * estimate.
 */
#define CHANGES_OF(tasks)                                                     \
	"SELECT t.at, s.workflow_id, s.step_id, t.task_id,"                       \
	" t.from_state::integer, t.to_state::integer, t.reason::integer,"         \
	" t.attempt, t.token,"                                                    \
	" (SELECT w.name FROM taskq.worker w"                                     \
	"   WHERE w.worker_id = t.worker_id),"                                    \
	" (SELECT r.name FROM taskq.role r WHERE r.role_id = t.role_id),"         \
	" t.message, t.actor, t.queue_id,"                                        \
	" (SELECT f.template_id FROM taskq.workflow f"                            \
	"   WHERE f.workflow_id = s.workflow_id)"                                 \
	"  FROM (" tasks ") s"                                                    \
	" CROSS JOIN LATERAL (SELECT * FROM taskq.transition x"                   \
	"                      WHERE x.task_id = s.task_id OFFSET 0) t"           \
	" ORDER BY t.transition_id"

static TqStmt stmt_of_task = {
	CHANGES_OF("SELECT $1 AS task_id, $2 AS workflow_id, $3 AS step_id"),
	{INT8OID, INT8OID, INT4OID}};

/* Steps are kept as long as their instance. */
static TqStmt stmt_of_workflow = {
	CHANGES_OF("SELECT task_id, workflow_id, step_id FROM taskq.task"
			   " WHERE workflow_id = $1"
			   " UNION ALL"
			   " SELECT task_id, workflow_id, step_id FROM taskq.archive_keep"
			   " WHERE workflow_id = $1"),
	{INT8OID}};

static TqStmt stmt_of_correlation = {
	CHANGES_OF("SELECT task_id, workflow_id, step_id FROM taskq.task"
			   " WHERE correlation_id = $1"
			   " UNION ALL"
			   " SELECT task_id, workflow_id, step_id FROM taskq.archive"
			   " WHERE correlation_id = $1"),
	{TEXTOID}};

static void  tell_task(Timeline *timeline, int64 task_id, int64 workflow_id,
					   const char *correlation_id);
static bool  find_task(int64 task_id, TqTask *task);
static bool  fits(const TqTask *task, int64 workflow_id,
				  const char *correlation_id);
static void  tell(Timeline *timeline, TqStmt *stmt, Datum *args,
				  const char *nulls);
static void  tell_row(Timeline *timeline, HeapTuple row, TupleDesc desc);
static char *step_of(const Datum *values, const bool *nulls);
static void  put_word(Datum *values, bool *nulls, Column column,
					  const char *word);

Datum
taskq_timeline(PG_FUNCTION_ARGS)
{
	char    *correlation_id = NULL;
	int64    workflow_id = 0;
	Timeline timeline = {0};
	TqFlow   flow;
	Datum    arg;

	tq_srf_begin(fcinfo);
	timeline.result = (ReturnSetInfo *) fcinfo->resultinfo;
	if (PG_ARGISNULL(0) && PG_ARGISNULL(1) && PG_ARGISNULL(2))
		ereport(
			ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("task_id, workflow_id or correlation_id must be given")));
	correlation_id = tq_arg_word(fcinfo, 2, "correlation_id", TQ_MAX_KEY);
	tq_queue_refresh();
	tq_visibility_take(&timeline.sight);
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (!PG_ARGISNULL(1))
	{
		workflow_id = PG_GETARG_INT64(1);
		(void) tq_flow_look(workflow_id, &flow);
	}
	if (!PG_ARGISNULL(0))
		tell_task(&timeline, PG_GETARG_INT64(0), workflow_id, correlation_id);
	else if (workflow_id == 0)
	{
		arg = CStringGetTextDatum(correlation_id);
		tell(&timeline, &stmt_of_correlation, &arg, NULL);
	}
	else if (correlation_id == NULL ||
			 (flow.start.correlation_id != NULL &&
			  strcmp(correlation_id, flow.start.correlation_id) == 0))
	{
		arg = Int64GetDatum(workflow_id);
		tell(&timeline, &stmt_of_workflow, &arg, NULL);
	}
	PopActiveSnapshot();
	return (Datum) 0;
}

/*
 * The history may be kept longer than a task; such a task counts as one
 * without a workflow.
 */
static void
tell_task(Timeline *timeline, int64 task_id, int64 workflow_id,
		  const char *correlation_id)
{
	Datum  args[3] = {Int64GetDatum(task_id)};
	char   nulls[] = " nn";
	bool   restricted = workflow_id != 0 || correlation_id != NULL;
	TqTask task;

	if (!find_task(task_id, &task))
	{
		if (!restricted)
			tell(timeline, &stmt_of_task, args, nulls);
		if (timeline->told == 0)
			tq_error_no_such_task(task_id);
		return;
	}
	if (!timeline->sight.all)
		tq_role_require_task(tq_queue_by_id(task.f.queue_id), task_id,
							 TQ_RIGHT_OBSERVE);
	if (restricted && !fits(&task, workflow_id, correlation_id))
		return;
	if (!task.isnull[TQ_COL_WORKFLOW_ID])
	{
		args[1] = task.value[TQ_COL_WORKFLOW_ID];
		args[2] = task.value[TQ_COL_STEP_ID];
		nulls[1] = nulls[2] = ' ';
	}
	tell(timeline, &stmt_of_task, args, nulls);
}

static bool
find_task(int64 task_id, TqTask *task)
{
	TqTaskPage *find = tq_task_page_begin(GetActiveSnapshot());
	bool        there = tq_task_page_find_one(find, task_id, task);

	tq_task_page_end(find);
	return there;
}

/* Does the task match the other arguments? 0 and NULL match any task. */
static bool
fits(const TqTask *task, int64 workflow_id, const char *correlation_id)
{
	if (workflow_id != 0 &&
		(task->isnull[TQ_COL_WORKFLOW_ID] ||
		 DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]) != workflow_id))
		return false;
	return correlation_id == NULL ||
		   (!task->isnull[TQ_COL_CORRELATION_ID] &&
			strcmp(TextDatumGetCString(task->value[TQ_COL_CORRELATION_ID]),
				   correlation_id) == 0);
}

/*
 * Planned for each call, because leaves of the history grow and are emptied.
 */
static void
tell(Timeline *timeline, TqStmt *stmt, Datum *args, const char *nulls)
{
	MemoryContext rows;
	MemoryContext mine;
	Portal        cursor;
	TqSpi         spi;

	tq_spi_enter(&spi);
	rows = AllocSetContextCreate(CurrentMemoryContext, "taskq rows",
								 ALLOCSET_DEFAULT_SIZES);
	cursor = SPI_cursor_open_with_args(
		NULL, stmt->text, tq_spi_arg_count(stmt), stmt->types, args, nulls,
		true, CURSOR_OPT_NO_SCROLL);
	do
	{
		CHECK_FOR_INTERRUPTS();
		SPI_cursor_fetch(cursor, true, ROWS_AT_ONCE);
		mine = MemoryContextSwitchTo(rows);
		for (uint64 i = 0; i < SPI_tuptable->numvals; i++)
			tell_row(timeline, SPI_tuptable->vals[i], SPI_tuptable->tupdesc);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(rows);
		SPI_freetuptable(SPI_tuptable);
	} while (SPI_processed > 0);
	SPI_cursor_close(cursor);
	tq_spi_leave(&spi);
}

/* Add a row if the queue that the task had at that time may be read. */
static void
tell_row(Timeline *timeline, HeapTuple row, TupleDesc desc)
{
	Datum values[COLUMNS];
	bool  nulls[COLUMNS];
	bool  reads;

	heap_deform_tuple(row, desc, values, nulls);
	reads = tq_visibility_observes(&timeline->sight,
								   DatumGetInt32(values[COLUMN_QUEUE_ID]));
	if (!reads && !timeline->sight.all)
		return;
	put_word(values, nulls, COLUMN_STEP, step_of(values, nulls));
	put_word(
		values, nulls, COLUMN_FROM_STATE,
		tq_state_name((TqState) DatumGetInt32(values[COLUMN_FROM_STATE])));
	put_word(values, nulls, COLUMN_TO_STATE,
			 tq_state_name((TqState) DatumGetInt32(values[COLUMN_TO_STATE])));
	put_word(values, nulls, COLUMN_REASON,
			 tq_reason_name((TqReason) DatumGetInt32(values[COLUMN_REASON])));
	if (!reads)
		nulls[COLUMN_MESSAGE] = true;
	tq_srf_add(timeline->result, values, nulls);
	timeline->told++;
}

/*
 * Returns NULL if the task is no step, or its instance is just being removed.
 */
static char *
step_of(const Datum *values, const bool *nulls)
{
	if (nulls[COLUMN_TEMPLATE_ID])
		return NULL;
	return tq_results_name(
		tq_template_get(DatumGetInt32(values[COLUMN_TEMPLATE_ID])),
		DatumGetInt32(values[COLUMN_STEP]));
}

/* Set a text column; NULL becomes null. */
static void
put_word(Datum *values, bool *nulls, Column column, const char *word)
{
	nulls[column] = word == NULL;
	values[column] = word == NULL ? (Datum) 0 : CStringGetTextDatum(word);
}
