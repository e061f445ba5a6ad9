/*
 * task_info.c
 *		Tasks as readers see them: rows of taskq.task_info.
 *
 * query/contents.c decides what is visible of messages, errors and contents;
 * pg_monitor sees everything else.  Names of
 * workers and roles, and values in taskq.large, are read with the active
 * snapshot; progress, and the time a worker was last seen, come from shared
 * memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "engine/liveness.h"
#include "engine/step.h"
#include "query/contents.h"
#include "query/task_content.h"
#include "query/task_info.h"
#include "query/visibility.h"
#include "shared/running.h"

typedef enum NameKind
{
	NAME_WORKER,
	NAME_ROLE
} NameKind;

typedef struct NameKey
{
	int32 kind;
	int32 id;
} NameKey;

typedef struct NameEntry
{
	NameKey key;
	text   *name; /* NULL: there is none */
} NameEntry;

/* A row under construction. */
typedef struct Row
{
	TqInfo *info;
	TqTask *task;
	Datum  *values;
	bool   *nulls;
} Row;

static TqStmt stmt_worker = {
	"SELECT name FROM taskq.worker WHERE worker_id = $1", {INT4OID}};

static TqStmt stmt_role = {"SELECT name FROM taskq.role WHERE role_id = $1",
						   {INT4OID}};

static void  put(Row *row, TqInfoColumn column, Datum value);
static void  put_word(Row *row, TqInfoColumn column, const char *word);
static void  put_time(Row *row, TqInfoColumn column, TimestampTz time);
static void  put_column(Row *row, TqInfoColumn column, TqColumn from);
static void  put_contents(Row *row, TqInfoColumn column, TqColumn from);
static void  put_name(Row *row, TqInfoColumn column, NameKind kind, int32 id);
static void  put_fixed(Row *row);
static void  put_carried(Row *row);
static void  put_running(Row *row);
static text *name_of(TqInfo *info, NameKind kind, int32 id);

/* Include all columns, unless the caller restricts them. */
void
tq_task_info_begin(TqInfo *info)
{
	HASHCTL ctl = {0};

	memset(info, 0, sizeof(*info));
	tq_visibility_take(&info->sight);
	memset(info->wanted, true, sizeof(info->wanted));
	ctl.keysize = sizeof(NameKey);
	ctl.entrysize = sizeof(NameEntry);
	ctl.hcxt = CurrentMemoryContext;
	info->names = hash_create("taskq names", 32, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/*
 * Build the row of a task; columns that are not included or not visible are
 * null.  Values are in the current memory context, or the task's.
 */
void
tq_task_info_row(TqInfo *info, TqTask *task, Datum *values, bool *nulls)
{
	Row row = {info, task, values, nulls};

	memset(nulls, true, sizeof(bool) * TQ_SCAN_COLUMNS);
	put_fixed(&row);
	put_column(&row, TQ_INFO_KEY, TQ_COL_KEY);
	put_column(&row, TQ_INFO_REFERENCE, TQ_COL_REFERENCE);
	put_column(&row, TQ_INFO_TAGS, TQ_COL_TAGS);
	put_column(&row, TQ_INFO_CORRELATION_ID, TQ_COL_CORRELATION_ID);
	put_column(&row, TQ_INFO_DEADLINE, TQ_COL_DEADLINE);
	put_column(&row, TQ_INFO_CANCEL_REQUESTED_AT, TQ_COL_CANCEL_REQUESTED_AT);
	put_column(&row, TQ_INFO_WORKFLOW_ID, TQ_COL_WORKFLOW_ID);
	if (tq_step_is(task) && tq_step_hooks.name != NULL &&
		info->wanted[TQ_INFO_STEP])
		put_word(&row, TQ_INFO_STEP, tq_step_hooks.name(task));
	if (task->archived)
	{
		put_column(&row, TQ_INFO_FINISHED_AT, TQ_COL_FINISHED_AT);
		put_column(&row, TQ_INFO_RECREATED_AS, TQ_COL_RECREATED_AS);
	}
	put_name(&row, TQ_INFO_WORKER, NAME_WORKER, task->f.worker_id);
	put_name(&row, TQ_INFO_SUBMITTED_BY, NAME_ROLE, task->f.submitted_by);
	put_name(&row, TQ_INFO_RUN_AS, NAME_ROLE, task->f.run_as);
	put_carried(&row);
	put_running(&row);
}

static void
put(Row *row, TqInfoColumn column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

static void
put_word(Row *row, TqInfoColumn column, const char *word)
{
	if (row->info->wanted[column] && word != NULL)
		put(row, column, CStringGetTextDatum(word));
}

/* Infinity stands for no value. */
static void
put_time(Row *row, TqInfoColumn column, TimestampTz time)
{
	if (!TIMESTAMP_NOT_FINITE(time))
		put(row, column, TimestampTzGetDatum(time));
}

static void
put_column(Row *row, TqInfoColumn column, TqColumn from)
{
	if (row->info->wanted[column] && !row->task->isnull[from])
		put(row, column, row->task->value[from]);
}

/* If current_user may see it */
static void
put_contents(Row *row, TqInfoColumn column, TqColumn from)
{
	Datum value;

	if (row->info->wanted[column] &&
		tq_contents_get(&row->info->sight, row->task, from, &value))
		put(row, column, value);
}

static void
put_name(Row *row, TqInfoColumn column, NameKind kind, int32 id)
{
	text *name;

	if (!row->info->wanted[column] || id == 0)
		return;
	name = name_of(row->info, kind, id);
	if (name != NULL)
		put(row, column, PointerGetDatum(name));
}

static void
put_fixed(Row *row)
{
	const TqTaskFixed *f = &row->task->f;

	put(row, TQ_INFO_TASK_ID, Int64GetDatum(f->task_id));
	if (row->info->wanted[TQ_INFO_QUEUE])
	{
		TqQueue *queue = tq_queue_by_id(f->queue_id);

		put_word(row, TQ_INFO_QUEUE, queue == NULL ? NULL : queue->name);
	}
	put_word(row, TQ_INFO_STATE, tq_state_name((TqState) f->state));
	put_word(row, TQ_INFO_REASON, tq_reason_name((TqReason) f->reason));
	put(row, TQ_INFO_PRIORITY, Int32GetDatum(f->priority));
	put(row, TQ_INFO_ATTEMPT, Int32GetDatum(f->attempt));
	put(row, TQ_INFO_MAX_ATTEMPTS, Int32GetDatum(f->max_attempts));
	put(row, TQ_INFO_TOKEN, Int64GetDatum(f->token));
	put(row, TQ_INFO_VERSION, Int64GetDatum(f->version));
	put(row, TQ_INFO_CREATED_AT, TimestampTzGetDatum(f->created_at));
	put(row, TQ_INFO_RUN_AT, TimestampTzGetDatum(f->run_at));
	put_time(row, TQ_INFO_CLAIMED_AT, f->claimed_at);
	put_time(row, TQ_INFO_LEASE_UNTIL, f->lease_until);
	put_word(row, TQ_INFO_DESCENT, tq_state_name((TqState) f->descent));
}

/* What callers have written. */
static void
put_carried(Row *row)
{
	const bool *wanted = row->info->wanted;
	Datum       errors;
	char       *error;
	int         length;

	put_contents(row, TQ_INFO_MESSAGE, TQ_COL_MESSAGE);
	put_contents(row, TQ_INFO_PAYLOAD, TQ_COL_PAYLOAD);
	put_contents(row, TQ_INFO_DATA, TQ_COL_DATA);
	put_contents(row, TQ_INFO_HEADERS, TQ_COL_HEADERS);
	put_contents(row, TQ_INFO_RESULT, TQ_COL_RESULT);
	put_contents(row, TQ_INFO_CHECKPOINT, TQ_COL_CHECKPOINT);
	if ((wanted[TQ_INFO_ERRORS] || wanted[TQ_INFO_ERROR]) &&
		tq_contents_get(&row->info->sight, row->task, TQ_COL_ERRORS, &errors))
	{
		tq_task_content_last_error(errors, &error, &length);
		put(row, TQ_INFO_ERRORS, errors);
		if (error != NULL)
			put(row, TQ_INFO_ERROR,
				PointerGetDatum(cstring_to_text_with_len(error, length)));
	}
}

/* What its worker reported, and when the worker was last seen. */
static void
put_running(Row *row)
{
	const bool        *wanted = row->info->wanted;
	const TqTaskFixed *f = &row->task->f;
	float4             progress;
	char               message[TQ_PROGRESS_MESSAGE + 1];
	int64              silence;

	if (f->state != TQ_STATE_RUNNING)
		return;
	if ((wanted[TQ_INFO_PROGRESS] || wanted[TQ_INFO_PROGRESS_MESSAGE]) &&
		tq_liveness_read_progress(f->task_id, f->token, &progress, message))
	{
		if (progress >= 0)
			put(row, TQ_INFO_PROGRESS, Float4GetDatum(progress));
		if (message[0] != '\0' &&
			tq_visibility_observes(&row->info->sight, f->queue_id))
			put_word(row, TQ_INFO_PROGRESS_MESSAGE, message);
	}
	if (wanted[TQ_INFO_WORKER_SEEN] && f->worker_id != 0 &&
		tq_liveness_silence(f->worker_id, &silence))
		put(row, TQ_INFO_WORKER_SEEN,
			TimestampTzGetDatum(tq_clock_wall() - silence));
}

static text *
name_of(TqInfo *info, NameKind kind, int32 id)
{
	NameKey    key = {kind, id};
	NameEntry *entry;
	bool       known;
	Datum      arg = Int32GetDatum(id);
	text      *name = NULL;
	TqSpi      spi;

	entry = hash_search(info->names, &key, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->name;
	tq_spi_enter(&spi);
	if (tq_spi_read(kind == NAME_WORKER ? &stmt_worker : &stmt_role, &arg,
					NULL, 1) > 0)
	{
		MemoryContext mine =
			MemoryContextSwitchTo(GetMemoryChunkContext(info->names));
		bool isnull;

		name = DatumGetTextPCopy(tq_spi_get(0, 1, &isnull));
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	entry = hash_search(info->names, &key, HASH_ENTER, &known);
	entry->name = name;
	return name;
}
