/*
 * submit.c
 *		taskq_submit, taskq_submit_many, taskq_submit_tasks: the beginning
 *		of a task's way.
 *
 * Arguments are checked, the queue is found or made under the lock that
 * lets drop_queue wait (queue.c), the tags give the lane (queue.c), the id
 * is drawn (id.c), and the row is inserted by the door (state.c).
 *
 * A reference is unique among the live tasks of its queue by an index.  A
 * finished task may hold it longer (reference_window); such tasks stand in
 * archive_keep.  That is looked up after the row was inserted: from then on
 * nobody else can have the reference, and whoever had it has finished.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/spi.h"
#include "core/id.h"
#include "core/large.h"
#include "core/limit.h"
#include "core/role.h"
#include "core/state.h"
#include "core/submit.h"

typedef enum OnConflict
{
	CONFLICT_ERROR,
	CONFLICT_RETURN,
	CONFLICT_SKIP,
	CONFLICT_UPDATE,
	CONFLICT_MERGE
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
	Jsonb      *options; /* of its own */
	int32       role_id;
	int64       lane_id;
	bool        likely_taken; /* finished tasks keep their references */
} Submission;

/* Who has the reference. */
typedef struct Holder
{
	int64   task_id;
	TqState state;
} Holder;

PG_FUNCTION_INFO_V1(taskq_submit);
PG_FUNCTION_INFO_V1(taskq_submit_many);
PG_FUNCTION_INFO_V1(taskq_submit_tasks);

static TqStmt stmt_window = {
	"SELECT task_id, state::integer, finished_at, options"
	"  FROM taskq.archive_keep WHERE queue_id = $1 AND reference = $2"
	" ORDER BY finished_at DESC, task_id DESC",
	2,
	{INT4OID, TEXTOID},
	NULL};

static void  read_arguments(FunctionCallInfo fcinfo, Submission *sub,
							const char *default_queue);
static void  read_times(FunctionCallInfo fcinfo, Submission *sub);
static void  read_words(FunctionCallInfo fcinfo, Submission *sub);
static void  resolve_queue(FunctionCallInfo fcinfo, Submission *sub);
static bool  submit_one(TqCall *call, Submission *sub, Jsonb *payload,
						int64 *task_id);
static void  fill_task(const Submission *sub, Jsonb *payload, TqTask *task);
static void  replace_settings(const Submission *sub, Jsonb *payload,
							  TqTask *task);
static bool  insert_task(TqCall *call, Submission *sub, Jsonb *payload,
						 int64 *task_id, Holder *holder);
static bool  change_holder(TqCall *call, Submission *sub, Jsonb *payload,
						   const Holder *holder);
static bool  held_by_finished(const Submission *sub, Holder *holder);
static void  read_entry(FunctionCallInfo inner, JsonbValue *entry);
static void  read_member(FunctionCallInfo inner, const char *name,
						 JsonbValue *value);
static int32 integer_of(const char *name, JsonbValue *value);
static Datum tags_of_list(JsonbValue *value);

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
	ARG_OPTIONS,
	ARG_COUNT
};

/* What a list of tasks calls them, and what it may say. */
typedef enum MemberKind
{
	MEMBER_TEXT,
	MEMBER_JSON,
	MEMBER_INTEGER,
	MEMBER_TIME,
	MEMBER_INTERVAL,
	MEMBER_TAGS,
	MEMBER_BYTES,
	MEMBER_BOOLEAN
} MemberKind;

static const struct
{
	const char *name;
	MemberKind  kind;
} members[ARG_COUNT] = {[ARG_QUEUE] = {"queue", MEMBER_TEXT},
						[ARG_PAYLOAD] = {"payload", MEMBER_JSON},
						[ARG_PRIORITY] = {"priority", MEMBER_INTEGER},
						[ARG_RUN_AT] = {"run_at", MEMBER_TIME},
						[ARG_DELAY] = {"delay", MEMBER_INTERVAL},
						[ARG_DEADLINE] = {"deadline", MEMBER_TIME},
						[ARG_MAX_ATTEMPTS] = {"max_attempts", MEMBER_INTEGER},
						[ARG_TAGS] = {"tags", MEMBER_TAGS},
						[ARG_KEY] = {"key", MEMBER_TEXT},
						[ARG_REFERENCE] = {"reference", MEMBER_TEXT},
						[ARG_ON_CONFLICT] = {"on_conflict", MEMBER_TEXT},
						[ARG_HEADERS] = {"headers", MEMBER_JSON},
						[ARG_CORRELATION_ID] = {"correlation_id", MEMBER_TEXT},
						[ARG_DATA] = {"data", MEMBER_BYTES},
						[ARG_INSERTION] = {"insertion", MEMBER_TEXT},
						[ARG_SUSPENDED] = {"suspended", MEMBER_BOOLEAN},
						[ARG_OPTIONS] = {"options", MEMBER_JSON}};

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
	MemoryContext  caller = CurrentMemoryContext;
	MemoryContext  one;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (PG_ARGISNULL(ARG_PAYLOAD))
		tq_error_required("payloads");
	payloads = tq_arg_array(fcinfo, ARG_PAYLOAD, "payloads", JSONBOID, &count);
	read_arguments(fcinfo, &sub, NULL);
	tq_call_begin(&call, "taskq_submit_many()");
	resolve_queue(fcinfo, &sub);
	one = AllocSetContextCreate(caller, "taskq_submit_many",
								ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < count; i++)
	{
		int64 task_id = 0;
		bool  isnull;
		Datum value;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		if (i > 0 && sub.reference != NULL)
			tq_call_snapshot();
		isnull =
			!submit_one(&call, &sub, DatumGetJsonbP(payloads[i]), &task_id);
		value = Int64GetDatum(task_id);
		tuplestore_putvalues(result->setResult, result->setDesc, &value,
							 &isnull);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_call_end(&call);
	MemoryContextDelete(one);
	return (Datum) 0;
}

/*
 * A list of objects, each with the arguments of taskq_submit as members.
 * All or none: the first problem ends the call.
 */
Datum
taskq_submit_tasks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo     *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Jsonb             *list = tq_arg_jsonb(fcinfo, 0);
	JsonbIterator     *it;
	JsonbValue         entry;
	JsonbIteratorToken token;
	TqCall             call;
	MemoryContext      caller = CurrentMemoryContext;
	MemoryContext      one;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (list == NULL)
		tq_error_required("tasks");
	if (!JB_ROOT_IS_ARRAY(list) || JB_ROOT_IS_SCALAR(list))
		tq_error_invalid("tasks", "must be a list of objects", NULL);
	one = AllocSetContextCreate(caller, "taskq_submit_tasks",
								ALLOCSET_DEFAULT_SIZES);
	tq_call_begin(&call, "taskq_submit_tasks()");
	it = JsonbIteratorInit(&list->root);
	token = JsonbIteratorNext(&it, &entry, false);
	while ((token = JsonbIteratorNext(&it, &entry, true)) == WJB_ELEM)
	{
		LOCAL_FCINFO(inner, ARG_COUNT);
		Submission sub = {0};
		int64      task_id = 0;
		bool       isnull;
		Datum      value;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		InitFunctionCallInfoData(*inner, NULL, ARG_COUNT, InvalidOid, NULL,
								 NULL);
		read_entry(inner, &entry);
		read_arguments(inner, &sub, "default");
		resolve_queue(inner, &sub);
		if (sub.reference != NULL)
			tq_call_snapshot();
		isnull = !submit_one(&call, &sub, tq_arg_jsonb(inner, ARG_PAYLOAD),
							 &task_id);
		value = Int64GetDatum(task_id);
		tuplestore_putvalues(result->setResult, result->setDesc, &value,
							 &isnull);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_call_end(&call);
	MemoryContextDelete(one);
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
	sub->options = tq_arg_jsonb(fcinfo, ARG_OPTIONS);
	if (sub->options != NULL && VARSIZE(sub->options) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("options", VARSIZE(sub->options), TQ_MAX_SMALL_DOC);
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
	else if (strcmp(word, "update") == 0)
		sub->on_conflict = CONFLICT_UPDATE;
	else if (strcmp(word, "merge") == 0)
		sub->on_conflict = CONFLICT_MERGE;
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
	TqOptions own;

	sub->queue = tq_queue_for_submit(sub->queue_name, false);
	if (PG_ARGISNULL(ARG_PRIORITY))
		sub->priority = sub->queue->options.priority;
	if (PG_ARGISNULL(ARG_MAX_ATTEMPTS))
		sub->max_attempts = sub->queue->options.max_attempts;
	if (sub->data != NULL)
		tq_submit_check_size(sub->queue, "data", VARSIZE_ANY_EXHDR(sub->data));
	own = sub->queue->options;
	if (sub->options != NULL)
	{
		tq_options_read_task(&own, sub->options);
		if (own.deadline_in > 0)
		{
			if (sub->has_deadline)
				tq_error_invalid("deadline",
								 "and option deadline_in exclude each other",
								 NULL);
			sub->has_deadline = true;
			sub->deadline = tq_clock_wall() + own.deadline_in;
			if (sub->deadline < sub->run_at)
				tq_error_invalid("deadline_in", "ends before run_at", NULL);
		}
	}
	sub->likely_taken = sub->queue->options.reference_window > 0;
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
	if (payload != NULL)
		tq_submit_check_size(sub->queue, "payload", VARSIZE(payload));
	for (;;)
	{
		Holder holder;

		if (insert_task(call, sub, payload, task_id, &holder))
			return true;
		*task_id = holder.task_id;
		switch (sub->on_conflict)
		{
			case CONFLICT_RETURN:
				return true;
			case CONFLICT_SKIP:
				return false;
			case CONFLICT_UPDATE:
			case CONFLICT_MERGE:
				if (TQ_STATE_IS_LIVE(holder.state))
				{
					/* it may have moved since: look with new eyes */
					tq_call_snapshot();
					if (change_holder(call, sub, payload, &holder))
						return true;
					tq_call_snapshot();
					continue;
				}
				break;
			case CONFLICT_ERROR:
				break;
		}
		tq_error_reference_exists(sub->reference, holder.task_id,
								  holder.state);
	}
}

/* Insert the task, unless another one has its reference. */
static bool
insert_task(TqCall *call, Submission *sub, Jsonb *payload, int64 *task_id,
			Holder *holder)
{
	TqTask task = {{0}};

	/* looked up first, so that the usual conflict leaves no dead row */
	if (sub->reference != NULL && sub->likely_taken &&
		held_by_finished(sub, holder))
		return false;
	fill_task(sub, payload, &task);
	TQ_DEBUG_POINT("submit_before_insert");
	if (!tq_state_submit(
			call, sub->queue, &task,
			sub->suspended ? TQ_STATE_SUSPENDED : TQ_STATE_PENDING,
			sub->reference != NULL, &holder->task_id, &holder->state))
	{
		/* parts of the row that was not written must not stay */
		if (task.f.large != 0)
			tq_large_remove_all(task.f.task_id);
		return false;
	}
	if (sub->reference != NULL)
	{
		TQ_DEBUG_POINT("submit_after_insert");
		CommandCounterIncrement();
		if (held_by_finished(sub, holder))
		{
			if (!tq_state_remove(call, &task))
				elog(ERROR, "could not take back a task just inserted");
			return false;
		}
	}
	/* not before: a task that is not new is not refused */
	tq_limit_check_depth(sub->queue);
	*task_id = task.f.task_id;
	return true;
}

/* A new task as the caller wants it. */
static void
fill_task(const Submission *sub, Jsonb *payload, TqTask *task)
{
	memset(task->isnull, true, sizeof(task->isnull));
	task->f.task_id = tq_id_next();
	task->f.created_at = tq_clock_wall();
	task->f.version = 1;
	task->f.queue_id = sub->queue->queue_id;
	task->f.submitted_by = sub->role_id;
	if (sub->reference != NULL)
		tq_task_set(task, TQ_COL_REFERENCE,
					CStringGetTextDatum(sub->reference));
	replace_settings(sub, payload, task);
}

/*
 * All that a later submit with the same reference replaces.  It is other
 * work, so its attempts are counted anew (and no checkpoint is of it).
 */
static void
replace_settings(const Submission *sub, Jsonb *payload, TqTask *task)
{
#define SET_OR_CLEAR(col, given, datum)                                       \
	do                                                                        \
	{                                                                         \
		if (given)                                                            \
			tq_task_set(task, col, datum);                                    \
		else                                                                  \
			tq_task_clear(task, col);                                         \
	} while (0)
#define PUT_OR_DROP(col, given, datum)                                        \
	do                                                                        \
	{                                                                         \
		if (given)                                                            \
			tq_large_put(task, col, datum);                                   \
		else                                                                  \
			tq_large_drop(task, col);                                         \
	} while (0)
	task->f.lane_id = sub->lane_id;
	task->f.run_at = sub->run_at;
	task->f.priority = (int16) sub->priority;
	task->f.max_attempts = sub->max_attempts;
	task->f.attempt = 0;
	task->f.flags &= ~TQ_FLAG_WORKER_DIED;
	task->f.run_as = sub->role_id;
	SET_OR_CLEAR(TQ_COL_DEADLINE, sub->has_deadline,
				 TimestampTzGetDatum(sub->deadline));
	SET_OR_CLEAR(TQ_COL_KEY, sub->key != NULL, CStringGetTextDatum(sub->key));
	SET_OR_CLEAR(TQ_COL_CORRELATION_ID, sub->correlation_id != NULL,
				 CStringGetTextDatum(sub->correlation_id));
	SET_OR_CLEAR(TQ_COL_TAGS, sub->tags.count > 0,
				 tq_arg_tags_datum(&sub->tags));
	SET_OR_CLEAR(TQ_COL_OPTIONS, sub->options != NULL,
				 JsonbPGetDatum(sub->options));
	PUT_OR_DROP(TQ_COL_PAYLOAD, payload != NULL, JsonbPGetDatum(payload));
	PUT_OR_DROP(TQ_COL_DATA, sub->data != NULL, PointerGetDatum(sub->data));
	PUT_OR_DROP(TQ_COL_HEADERS, sub->headers != NULL,
				JsonbPGetDatum(sub->headers));
#undef SET_OR_CLEAR
#undef PUT_OR_DROP
}

/*
 * on_conflict update and merge.  A waiting holder gets the new payload and
 * settings: true.  A running one loses its reference, and false is returned,
 * as it is when it has changed meanwhile: then the task is submitted again.
 */
static bool
change_holder(TqCall *call, Submission *sub, Jsonb *payload,
			  const Holder *holder)
{
	TqTask task;
	Datum  before;

	if (!tq_row_find(call, holder->task_id, &task) ||
		task.isnull[TQ_COL_REFERENCE] ||
		strcmp(TextDatumGetCString(task.value[TQ_COL_REFERENCE]),
			   sub->reference) != 0)
		return false;
	if (task.f.state == TQ_STATE_RUNNING)
	{
		tq_task_clear(&task, TQ_COL_REFERENCE);
		(void) tq_state_touch(call, sub->queue, &task);
		return false;
	}
	if (sub->on_conflict == CONFLICT_MERGE && payload == NULL)
	{
		if (tq_large_get(&task, TQ_COL_PAYLOAD, &before))
			payload = DatumGetJsonbP(before);
	}
	else if (sub->on_conflict == CONFLICT_MERGE &&
			 tq_large_get(&task, TQ_COL_PAYLOAD, &before))
	{
		payload = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, before,
													 JsonbPGetDatum(payload)));
		tq_submit_check_size(sub->queue, "payload", VARSIZE(payload));
	}
	replace_settings(sub, payload, &task);
	tq_large_drop(&task, TQ_COL_CHECKPOINT);
	return tq_state_rewrite(call, sub->queue, &task, sub->run_at);
}

/* Does a finished task have the reference, within its window? */
static bool
held_by_finished(const Submission *sub, Holder *holder)
{
	TimestampTz now = tq_clock_wall();
	Datum       args[2];
	bool        held = false;
	uint64      rows;
	TqSpi       spi;

	args[0] = Int32GetDatum(sub->queue->queue_id);
	args[1] = CStringGetTextDatum(sub->reference);
	PushActiveSnapshot(GetLatestSnapshot());
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_window, args, NULL, 0);
	for (uint64 i = 0; i < rows && !held; i++)
	{
		TqOptions options = sub->queue->options;
		bool      isnull;
		Datum     value = tq_spi_get(i, 4, &isnull);

		if (!isnull)
			tq_options_read_task(&options, DatumGetJsonbP(value));
		value = tq_spi_get(i, 3, &isnull);
		if (options.reference_window == 0 ||
			(options.reference_window != TQ_FOREVER &&
			 DatumGetTimestampTz(value) + options.reference_window <= now))
			continue;
		holder->task_id = tq_spi_int8(i, 1, 0);
		holder->state = (TqState) tq_spi_int4(i, 2, 0);
		held = true;
	}
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	return held;
}

/* One object of a list of tasks, as arguments of taskq_submit. */
static void
read_entry(FunctionCallInfo inner, JsonbValue *entry)
{
	JsonbIterator     *it;
	JsonbValue         key;
	JsonbValue         value;
	JsonbIteratorToken token;

	for (int i = 0; i < ARG_COUNT; i++)
		inner->args[i].isnull = true;
	if (entry->type != jbvBinary ||
		!JsonContainerIsObject(entry->val.binary.data))
		tq_error_invalid("tasks", "must be a list of objects", NULL);
	it = JsonbIteratorInit(entry->val.binary.data);
	token = JsonbIteratorNext(&it, &key, false);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		char *name = pnstrdup(key.val.string.val, key.val.string.len);

		token = JsonbIteratorNext(&it, &value, true);
		read_member(inner, name, &value);
	}
}

static void
read_member(FunctionCallInfo inner, const char *name, JsonbValue *value)
{
	int   n;
	Datum datum = (Datum) 0;
	char *text = NULL;

	for (n = 0; n < ARG_COUNT; n++)
	{
		if (strcmp(members[n].name, name) == 0)
			break;
	}
	if (n == ARG_COUNT)
	{
		StringInfoData all;

		initStringInfo(&all);
		for (int i = 0; i < ARG_COUNT; i++)
			appendStringInfo(&all, "%s%s", i > 0 ? ", " : "", members[i].name);
		tq_error_invalid(psprintf("member \"%s\" of a task", name),
						 "does not exist", psprintf("Allowed: %s.", all.data));
	}
	if (value->type == jbvNull)
		return;
	if (value->type == jbvString)
		text = pnstrdup(value->val.string.val, value->val.string.len);
	switch (members[n].kind)
	{
		case MEMBER_JSON:
			datum = JsonbPGetDatum(JsonbValueToJsonb(value));
			break;
		case MEMBER_INTEGER:
			datum = Int32GetDatum(integer_of(name, value));
			break;
		case MEMBER_BOOLEAN:
			if (value->type != jbvBool)
				tq_error_invalid(name, "must be true or false", NULL);
			datum = BoolGetDatum(value->val.boolean);
			break;
		case MEMBER_TAGS:
			datum = tags_of_list(value);
			break;
		case MEMBER_TEXT:
		case MEMBER_TIME:
		case MEMBER_INTERVAL:
		case MEMBER_BYTES:
			if (text == NULL)
				tq_error_invalid(name, "must be a string", NULL);
			if (members[n].kind == MEMBER_TEXT)
				datum = CStringGetTextDatum(text);
			else if (members[n].kind == MEMBER_BYTES)
				datum = DirectFunctionCall1(byteain, CStringGetDatum(text));
			else
				datum = DirectFunctionCall3(
					members[n].kind == MEMBER_TIME ? timestamptz_in
												   : interval_in,
					CStringGetDatum(text), ObjectIdGetDatum(InvalidOid),
					Int32GetDatum(-1));
			break;
	}
	inner->args[n].value = datum;
	inner->args[n].isnull = false;
}

static int32
integer_of(const char *name, JsonbValue *value)
{
	double number = 0.5;

	if (value->type == jbvNumeric)
		number = DatumGetFloat8(DirectFunctionCall1(
			numeric_float8_no_overflow, NumericGetDatum(value->val.numeric)));
	if (!(number >= PG_INT32_MIN && number <= PG_INT32_MAX) ||
		number != (double) (int32) number)
		tq_error_invalid(name, "must be an integer", NULL);
	return (int32) number;
}

static Datum
tags_of_list(JsonbValue *value)
{
	JsonbIterator     *it;
	JsonbValue         tag;
	JsonbIteratorToken token;
	ArrayBuildState   *tags;

	if (value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data))
		tq_error_invalid("tags", "must be a list of strings", NULL);
	tags = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	it = JsonbIteratorInit(value->val.binary.data);
	token = JsonbIteratorNext(&it, &tag, false);
	while ((token = JsonbIteratorNext(&it, &tag, true)) == WJB_ELEM)
	{
		if (tag.type != jbvString && tag.type != jbvNull)
			tq_error_invalid("tags", "must be a list of strings", NULL);
		tags = accumArrayResult(
			tags,
			tag.type == jbvNull ? (Datum) 0
								: PointerGetDatum(cstring_to_text_with_len(
									  tag.val.string.val, tag.val.string.len)),
			tag.type == jbvNull, TEXTOID, CurrentMemoryContext);
	}
	return makeArrayResult(tags, CurrentMemoryContext);
}

/*
 * Submit a copy of a task that died: with what it carries, in the name of
 * who submitted it.  No limit of the other queue refuses it.
 */
void
tq_submit_dead_letter(TqCall *call, const char *queue_name, TqTask *origin,
					  Jsonb *headers)
{
	Submission sub = {0};
	TqTask     task = {{0}};
	Datum      value;
	Jsonb     *payload = NULL;

	sub.queue_name = (char *) queue_name;
	sub.queue = tq_queue_for_submit(queue_name, true);
	sub.priority = sub.queue->options.priority;
	sub.max_attempts = sub.queue->options.max_attempts;
	sub.role_id = origin->f.submitted_by;
	sub.lane_id = tq_queue_lane(sub.queue, &sub.tags);
	if (tq_large_get(origin, TQ_COL_PAYLOAD, &value))
		payload = DatumGetJsonbP(value);
	if (tq_large_get(origin, TQ_COL_DATA, &value))
		sub.data = DatumGetByteaPP(value);
	if (!origin->isnull[TQ_COL_KEY])
		sub.key = TextDatumGetCString(origin->value[TQ_COL_KEY]);
	if (!origin->isnull[TQ_COL_CORRELATION_ID])
		sub.correlation_id =
			TextDatumGetCString(origin->value[TQ_COL_CORRELATION_ID]);
	sub.headers = headers;
	fill_task(&sub, payload, &task);
	task.f.run_as = origin->f.run_as;
	task.f.flags |= TQ_FLAG_DEAD_LETTER;
	TQ_FAULT_POINT("dead_letter");
	(void) tq_state_submit(call, sub.queue, &task, TQ_STATE_PENDING, false,
						   NULL, NULL);
}

/* TQ009 when a document is larger than its queue allows. */
void
tq_submit_check_size(const TqQueue *queue, const char *what, int64 size)
{
	if (size > queue->options.max_payload)
		tq_error_too_large(what, size, queue->options.max_payload);
}
