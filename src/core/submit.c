/*
 * submit.c
 *		taskq_submit, taskq_submit_many: the beginning of a task's way.
 *
 * Arguments are checked, the queue is found or made under the lock that
 * lets drop_queue wait (queue.c), the tags give the lane (queue.c), the id
 * is drawn (id.c), and the row is inserted by the door (state.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "core/id.h"
#include "core/large.h"
#include "core/role.h"
#include "core/state.h"
#include "core/submit.h"

typedef enum OnConflict
{
	CONFLICT_ERROR,
	CONFLICT_RETURN,
	CONFLICT_SKIP
} OnConflict;

/* The arguments of one call but for the payload. */
typedef struct Submission
{
	char       *queue_name;
	TqQueue    *queue;
	int         priority;
	int         max_attempts;
	TimestampTz run_at; /* 0: now */
	bool        has_deadline;
	TimestampTz deadline;
	TqTags      tags;
	char       *key;
	char       *reference;
	OnConflict  on_conflict;
	Jsonb      *headers;
	char       *correlation_id;
	bytea      *data;
	bool        suspended;
	int32       role_id;
	int64       lane_id;
} Submission;

PG_FUNCTION_INFO_V1(taskq_submit);
PG_FUNCTION_INFO_V1(taskq_submit_many);

static void read_arguments(FunctionCallInfo fcinfo, Submission *sub,
						   const char *default_queue);
static void read_times(FunctionCallInfo fcinfo, Submission *sub);
static void read_words(FunctionCallInfo fcinfo, Submission *sub);
static void resolve_queue(FunctionCallInfo fcinfo, Submission *sub);
static bool submit_one(TqCall *call, Submission *sub, Jsonb *payload,
					   int64 *task_id);

/* Both functions have the same arguments at the same places. */
enum
{
	ARG_QUEUE,
	ARG_PAYLOAD,
	ARG_PRIORITY,
	ARG_RUN_AT,
	ARG_DELAY,
	ARG_DEADLINE,
	ARG_MAX_ATTEMPTS,
	ARG_TAGS,
	ARG_KEY,
	ARG_REFERENCE,
	ARG_ON_CONFLICT,
	ARG_HEADERS,
	ARG_CORRELATION_ID,
	ARG_DATA,
	ARG_INSERTION,
	ARG_SUSPENDED,
	ARG_OPTIONS
};

Datum
taskq_submit(PG_FUNCTION_ARGS)
{
	Submission sub = {0};
	TqCall     call;
	int64      task_id;
	bool       told;

	read_arguments(fcinfo, &sub, "default");
	tq_call_begin(&call, "taskq_submit()");
	resolve_queue(fcinfo, &sub);
	told =
		submit_one(&call, &sub, tq_arg_jsonb(fcinfo, ARG_PAYLOAD), &task_id);
	tq_call_end(&call);
	if (!told)
		PG_RETURN_NULL();
	PG_RETURN_INT64(task_id);
}

Datum
taskq_submit_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Submission     sub = {0};
	TqCall         call;
	Datum         *payloads;
	int            count;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (PG_ARGISNULL(ARG_PAYLOAD))
		tq_error_required("payloads");
	payloads = tq_arg_array(fcinfo, ARG_PAYLOAD, "payloads", JSONBOID, &count);
	read_arguments(fcinfo, &sub, NULL);
	tq_call_begin(&call, "taskq_submit_many()");
	resolve_queue(fcinfo, &sub);
	for (int i = 0; i < count; i++)
	{
		int64 task_id = 0;
		bool  isnull;
		Datum value;

		CHECK_FOR_INTERRUPTS();
		if (i > 0 && sub.reference != NULL)
			tq_call_snapshot();
		isnull =
			!submit_one(&call, &sub, DatumGetJsonbP(payloads[i]), &task_id);
		value = Int64GetDatum(task_id);
		tuplestore_putvalues(result->setResult, result->setDesc, &value,
							 &isnull);
	}
	tq_call_end(&call);
	return (Datum) 0;
}

/*
 * What can be checked without knowing the queue; a default_queue of NULL
 * means that the queue is required.
 */
static void
read_arguments(FunctionCallInfo fcinfo, Submission *sub,
			   const char *default_queue)
{
	sub->queue_name = tq_arg_name(fcinfo, ARG_QUEUE, "queue", default_queue);
	if (!PG_ARGISNULL(ARG_PRIORITY))
	{
		sub->priority = PG_GETARG_INT32(ARG_PRIORITY);
		if (sub->priority < PG_INT16_MIN || sub->priority > PG_INT16_MAX)
			tq_error_invalid("priority", "must be from -32768 to 32767", NULL);
	}
	if (!PG_ARGISNULL(ARG_MAX_ATTEMPTS))
	{
		sub->max_attempts = PG_GETARG_INT32(ARG_MAX_ATTEMPTS);
		if (sub->max_attempts < -1 || sub->max_attempts == 0)
			tq_error_invalid("max_attempts",
							 "must be at least 1, or -1 for any number", NULL);
	}
	read_times(fcinfo, sub);
	read_words(fcinfo, sub);
	tq_arg_tags(fcinfo, ARG_TAGS, &sub->tags);
	sub->suspended = tq_arg_bool(fcinfo, ARG_SUSPENDED, false);
	sub->headers = tq_arg_jsonb(fcinfo, ARG_HEADERS);
	if (sub->headers != NULL)
	{
		if (!JB_ROOT_IS_OBJECT(sub->headers))
			tq_error_invalid("headers", "must be a JSON object", NULL);
		if (VARSIZE(sub->headers) > TQ_MAX_SMALL_DOC)
			tq_error_too_large("headers", VARSIZE(sub->headers),
							   TQ_MAX_SMALL_DOC);
	}
	if (!PG_ARGISNULL(ARG_DATA))
		sub->data = PG_GETARG_BYTEA_P(ARG_DATA);
	if (!PG_ARGISNULL(ARG_OPTIONS))
		tq_error_not_built("argument \"options\"");
}

static void
read_times(FunctionCallInfo fcinfo, Submission *sub)
{
	TimestampTz now = tq_clock_wall();
	TimestampTz due = now;

	if (!PG_ARGISNULL(ARG_RUN_AT) && !PG_ARGISNULL(ARG_DELAY))
		tq_error_invalid("run_at", "and delay exclude each other", NULL);
	if (tq_arg_time(fcinfo, ARG_RUN_AT, "run_at", &sub->run_at))
		due = Max(now, sub->run_at);
	else if (!PG_ARGISNULL(ARG_DELAY))
	{
		int64 delay = tq_arg_span(fcinfo, ARG_DELAY, "delay", 0, 0);

		if (delay > 0)
			sub->run_at = due = tq_clock_dispatch() + delay;
	}
	sub->has_deadline =
		tq_arg_time(fcinfo, ARG_DEADLINE, "deadline", &sub->deadline);
	if (sub->has_deadline && sub->deadline <= now)
		tq_error_invalid("deadline", "is in the past", NULL);
	if (sub->has_deadline && sub->deadline < due)
		tq_error_invalid("deadline", "is before run_at", NULL);
}

static void
read_words(FunctionCallInfo fcinfo, Submission *sub)
{
	char *word;

	sub->key = tq_arg_word(fcinfo, ARG_KEY, "key", TQ_MAX_KEY);
	sub->reference =
		tq_arg_word(fcinfo, ARG_REFERENCE, "reference", TQ_MAX_KEY);
	sub->correlation_id =
		tq_arg_word(fcinfo, ARG_CORRELATION_ID, "correlation_id", TQ_MAX_KEY);

	word = tq_arg_keyword(fcinfo, ARG_ON_CONFLICT, "on_conflict");
	if (word == NULL || strcmp(word, "error") == 0)
		sub->on_conflict = CONFLICT_ERROR;
	else if (strcmp(word, "return") == 0)
		sub->on_conflict = CONFLICT_RETURN;
	else if (strcmp(word, "skip") == 0)
		sub->on_conflict = CONFLICT_SKIP;
	else if (strcmp(word, "update") == 0 || strcmp(word, "merge") == 0)
		tq_error_not_built(psprintf("on_conflict => '%s'", word));
	else
		tq_error_invalid("on_conflict", "has an unknown value",
						 "Allowed: error, return, skip, update, merge.");

	word = tq_arg_keyword(fcinfo, ARG_INSERTION, "insertion");
	if (word == NULL || strcmp(word, "append") == 0)
		return;
	if (strcmp(word, "supersede") == 0 || strcmp(word, "replace") == 0 ||
		strcmp(word, "delete") == 0)
		tq_error_not_built(psprintf("insertion => '%s'", word));
	tq_error_invalid("insertion", "has an unknown value",
					 "Allowed: append, supersede, replace, delete.");
}

/* Find or make the queue; what it says where the caller said nothing. */
static void
resolve_queue(FunctionCallInfo fcinfo, Submission *sub)
{
	sub->queue = tq_queue_for_submit(sub->queue_name);
	if (PG_ARGISNULL(ARG_PRIORITY))
		sub->priority = sub->queue->options.priority;
	if (PG_ARGISNULL(ARG_MAX_ATTEMPTS))
		sub->max_attempts = sub->queue->options.max_attempts;
	if (sub->data != NULL)
		tq_submit_check_size(sub->queue, "data", VARSIZE_ANY_EXHDR(sub->data));
	sub->role_id = tq_role_intern(GetUserId());
	sub->lane_id = tq_queue_lane(sub->queue, &sub->tags);
}

/*
 * Submit one task; false when there is no id to tell (a conflict that was
 * skipped).
 */
static bool
submit_one(TqCall *call, Submission *sub, Jsonb *payload, int64 *task_id)
{
	TqTask  task = {{0}};
	int64   holder = 0;
	TqState holder_state = TQ_STATE_PENDING;

	if (payload != NULL)
		tq_submit_check_size(sub->queue, "payload", VARSIZE(payload));
	memset(task.isnull, true, sizeof(task.isnull));
	task.f.task_id = tq_id_next();
	task.f.lane_id = sub->lane_id;
	task.f.run_at = sub->run_at;
	task.f.created_at = tq_clock_wall();
	task.f.version = 1;
	task.f.priority = (int16) sub->priority;
	task.f.queue_id = sub->queue->queue_id;
	task.f.max_attempts = sub->max_attempts;
	task.f.submitted_by = sub->role_id;
	task.f.run_as = sub->role_id;
	if (sub->has_deadline)
		tq_task_set(&task, TQ_COL_DEADLINE,
					TimestampTzGetDatum(sub->deadline));
	if (sub->reference != NULL)
		tq_task_set(&task, TQ_COL_REFERENCE,
					CStringGetTextDatum(sub->reference));
	if (sub->key != NULL)
		tq_task_set(&task, TQ_COL_KEY, CStringGetTextDatum(sub->key));
	if (sub->correlation_id != NULL)
		tq_task_set(&task, TQ_COL_CORRELATION_ID,
					CStringGetTextDatum(sub->correlation_id));
	if (sub->tags.count > 0)
		tq_task_set(&task, TQ_COL_TAGS, tq_arg_tags_datum(&sub->tags));
	if (payload != NULL)
		tq_task_set(&task, TQ_COL_PAYLOAD, JsonbPGetDatum(payload));
	if (sub->data != NULL)
		tq_task_set(&task, TQ_COL_DATA, PointerGetDatum(sub->data));
	if (sub->headers != NULL)
		tq_task_set(&task, TQ_COL_HEADERS, JsonbPGetDatum(sub->headers));

	TQ_DEBUG_POINT("submit_before_insert");
	if (tq_state_submit(call, sub->queue, &task,
						sub->suspended ? TQ_STATE_SUSPENDED : TQ_STATE_PENDING,
						sub->reference != NULL, &holder, &holder_state))
	{
		*task_id = task.f.task_id;
		return true;
	}

	/* Parts of the row that was not written must not stay. */
	if (task.f.large != 0)
		tq_large_remove_all(task.f.task_id);
	switch (sub->on_conflict)
	{
		case CONFLICT_ERROR:
			tq_error_reference_exists(sub->reference, holder, holder_state);
			break;
		case CONFLICT_RETURN:
			*task_id = holder;
			return true;
		case CONFLICT_SKIP:
			break;
	}
	return false;
}

/* TQ009 when a document is larger than its queue allows. */
void
tq_submit_check_size(const TqQueue *queue, const char *what, int64 size)
{
	if (size > queue->options.max_payload)
		tq_error_too_large(what, size, queue->options.max_payload);
}
