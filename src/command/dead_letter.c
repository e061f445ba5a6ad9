/*
 * dead_letter.c
 *		Copies of dead tasks, for queues with dead_letter_queue.
 *
 * A hook of engine/state.h reports that a task has died.  At the end of the
 * call that moved it, a copy is submitted to the other queue in the same
 * transaction; its headers name its origin.  A copy is marked, and is not
 * copied if it dies itself.  Each copy is submitted in a savepoint of its own:
 * if that fails, the failure is logged and the task stays dead.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "base/spi.h"
#include "base/subxact.h"
#include "command/dead_letter.h"
#include "command/submit.h"
#include "engine/call.h"
#include "engine/state.h"
#include "store/archive.h"
#include "store/large.h"

static TqStmt stmt_headers = {
	"SELECT coalesce($1, '{}') || jsonb_build_object('dead_letter',"
	" jsonb_strip_nulls(jsonb_build_object("
	"   'task_id', $2, 'queue', $3, 'reason', $4, 'attempt', $5,"
	"   'error', $6, 'died_at', $7, 'redact', $8)))",
	{JSONBOID, INT8OID, TEXTOID, TEXTOID, INT4OID, TEXTOID, TIMESTAMPTZOID,
	 JSONBOID}};

static TqStmt stmt_last_error = {"SELECT $1 -> -1 ->> 'error'", {JSONBOID}};

static void   note_death(TqCall *call, TqQueue *queue, TqTask *task,
						 TqState from, const TqMove *move);
static void   copy_all(TqCall *call);
static void   copy_guarded(int64 task_id);
static void   copy_one(void *arg);
static Datum  last_error(TqTask *task, bool *isnull);
static Jsonb *origin_headers(TqTask *task, const TqQueue *queue);

void
tq_dead_letter_init(void)
{
	tq_state_hooks.entered = note_death;
	tq_call_hooks.dead_letters = copy_all;
}

/* Hook: a task has changed its state. */
static void
note_death(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
		   const TqMove *move)
{
	MemoryContext mine;
	int64        *task_id;

	if (task->f.state != TQ_STATE_DEAD || from == TQ_STATE_DEAD ||
		queue->options.dead_letter_queue == NULL ||
		(task->f.flags & TQ_FLAG_DEAD_LETTER) != 0)
		return;
	mine = MemoryContextSwitchTo(call->context);
	task_id = palloc(sizeof(int64));
	*task_id = task->f.task_id;
	call->dead = lappend(call->dead, task_id);
	MemoryContextSwitchTo(mine);
}

/* Hook: the call ends, or starts to process its workflows. */
static void
copy_all(TqCall *call)
{
	ListCell *cell;

	foreach (cell, call->dead)
		copy_guarded(*(int64 *) lfirst(cell));
	call->dead = NIL;
}

static void
copy_guarded(int64 task_id)
{
	ErrorData *error = tq_subxact_run(copy_one, &task_id);

	if (error == NULL)
		return;
	/* the caller wants to stop, and a copy must not prevent that */
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED ||
		error->sqlerrcode == ERRCODE_ADMIN_SHUTDOWN)
		ReThrowError(error);
	ereport(
		LOG,
		(errcode(error->sqlerrcode),
		 errmsg("taskq: could not create dead letter for task " INT64_FORMAT
				": %s",
				task_id, error->message)));
	FreeErrorData(error);
}

static void
copy_one(void *arg)
{
	int64    task_id = *(int64 *) arg;
	TqCall   call;
	TqTask   task;
	TqQueue *queue;
	char    *target;

	tq_call_begin(&call, "taskq: a dead letter");
	queue = tq_archive_find(task_id, &task) ? tq_queue_by_id(task.f.queue_id)
											: NULL;
	if (queue != NULL && queue->options.dead_letter_queue != NULL)
	{
		target = pstrdup(queue->options.dead_letter_queue);
		tq_submit_dead_letter(&call, target, &task,
							  origin_headers(&task, queue));
	}
	tq_call_end(&call);
}

/*
 * Return the task's headers, with the origin of the copy.  Readers of the copy
 * must not see what the option redact of its queue hides (query/contents.c),
 * even if that queue is dropped.
 */
static Jsonb *
origin_headers(TqTask *task, const TqQueue *queue)
{
	const char *reason = tq_reason_name((TqReason) task->f.reason);
	Datum       args[8];
	bool        nulls[8] = {false};
	Jsonb      *headers;
	TqSpi       spi;

	nulls[0] = !tq_large_get(task, TQ_COL_HEADERS, &args[0]);
	args[1] = Int64GetDatum(task->f.task_id);
	args[2] = CStringGetTextDatum(queue->name);
	nulls[3] = reason == NULL;
	args[3] = nulls[3] ? (Datum) 0 : CStringGetTextDatum(reason);
	args[4] = Int32GetDatum(task->f.attempt);
	args[5] = last_error(task, &nulls[5]);
	args[6] = task->value[TQ_COL_FINISHED_AT];
	nulls[6] = task->isnull[TQ_COL_FINISHED_AT];
	nulls[7] = queue->options.redact == NULL ||
			   queue->options.redact->count == 0;
	args[7] = nulls[7] ? (Datum) 0
					   : JsonbPGetDatum(queue->options.redact->list);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_headers, args, nulls, SPI_OK_SELECT, 1);
	headers = tq_spi_jsonb(&spi, 0, 1);
	tq_spi_leave(&spi);
	return headers;
}

static Datum
last_error(TqTask *task, bool *isnull)
{
	Datum errors;
	char *text;
	TqSpi spi;

	*isnull = !tq_large_get(task, TQ_COL_ERRORS, &errors);
	if (*isnull)
		return (Datum) 0;
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_last_error, &errors, NULL, SPI_OK_SELECT, 1);
	text = tq_spi_text(&spi, 0, 1);
	tq_spi_leave(&spi);
	*isnull = text == NULL;
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}
