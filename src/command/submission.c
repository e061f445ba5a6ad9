/*
 * submission.c
 *		The caller's description of a task: the arguments of taskq_submit, or
 *		an object with their names.
 *
 * Everything is checked before anything is written. tq_submission_read needs
 * no queue. tq_submission_resolve finds or creates the queue and fills in its
 * defaults.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/span.h"
#include "cache/lane.h"
#include "cache/role.h"
#include "command/submission.h"
#include "store/large.h"

/* How a list of tasks names the arguments, and their types. */
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
} members[TQ_SUBMIT_COUNT] = {
	[TQ_SUBMIT_QUEUE] = {"queue", MEMBER_TEXT},
	[TQ_SUBMIT_PAYLOAD] = {"payload", MEMBER_JSON},
	[TQ_SUBMIT_PRIORITY] = {"priority", MEMBER_INTEGER},
	[TQ_SUBMIT_RUN_AT] = {"run_at", MEMBER_TIME},
	[TQ_SUBMIT_DELAY] = {"delay", MEMBER_INTERVAL},
	[TQ_SUBMIT_DEADLINE] = {"deadline", MEMBER_TIME},
	[TQ_SUBMIT_MAX_ATTEMPTS] = {"max_attempts", MEMBER_INTEGER},
	[TQ_SUBMIT_TAGS] = {"tags", MEMBER_TAGS},
	[TQ_SUBMIT_KEY] = {"key", MEMBER_TEXT},
	[TQ_SUBMIT_REFERENCE] = {"reference", MEMBER_TEXT},
	[TQ_SUBMIT_ON_CONFLICT] = {"on_conflict", MEMBER_TEXT},
	[TQ_SUBMIT_HEADERS] = {"headers", MEMBER_JSON},
	[TQ_SUBMIT_CORRELATION_ID] = {"correlation_id", MEMBER_TEXT},
	[TQ_SUBMIT_DATA] = {"data", MEMBER_BYTES},
	[TQ_SUBMIT_INSERTION] = {"insertion", MEMBER_TEXT},
	[TQ_SUBMIT_SUSPENDED] = {"suspended", MEMBER_BOOLEAN},
	[TQ_SUBMIT_OPTIONS] = {"options", MEMBER_JSON}};

static void  read_times(FunctionCallInfo fcinfo, TqSubmission *sub);
static void  read_words(FunctionCallInfo fcinfo, TqSubmission *sub);
static int   read_member(FunctionCallInfo inner, const TqEntryKind *kind,
						 const char *name, JsonbValue *value);
static char *member_words(const TqEntryKind *kind);
static Datum tags_of_list(JsonbValue *value);

/*
 * Check everything that does not depend on the queue.  If default_queue is
 * NULL, the queue is required.
 */
void
tq_submission_read(FunctionCallInfo fcinfo, TqSubmission *sub,
				   const char *default_queue)
{
	sub->queue_name =
		tq_arg_name(fcinfo, TQ_SUBMIT_QUEUE, "queue", default_queue);
	if (!PG_ARGISNULL(TQ_SUBMIT_PRIORITY))
	{
		sub->priority = PG_GETARG_INT32(TQ_SUBMIT_PRIORITY);
		if (sub->priority < PG_INT16_MIN || sub->priority > PG_INT16_MAX)
			tq_error_invalid("priority", "must be from -32768 to 32767", NULL);
	}
	if (!PG_ARGISNULL(TQ_SUBMIT_MAX_ATTEMPTS))
	{
		sub->max_attempts = PG_GETARG_INT32(TQ_SUBMIT_MAX_ATTEMPTS);
		if (sub->max_attempts < -1 || sub->max_attempts == 0)
			tq_error_invalid("max_attempts",
							 "must be at least 1, or -1 for any number", NULL);
	}
	read_times(fcinfo, sub);
	read_words(fcinfo, sub);
	tq_arg_tags(fcinfo, TQ_SUBMIT_TAGS, &sub->tags);
	sub->suspended = tq_arg_bool(fcinfo, TQ_SUBMIT_SUSPENDED, false);
	sub->headers = tq_arg_jsonb(fcinfo, TQ_SUBMIT_HEADERS);
	if (sub->headers != NULL)
	{
		if (!JB_ROOT_IS_OBJECT(sub->headers))
			tq_error_invalid("headers", "must be a JSON object", NULL);
		if (VARSIZE(sub->headers) > TQ_MAX_SMALL_DOC)
			tq_error_too_large("headers", VARSIZE(sub->headers),
							   TQ_MAX_SMALL_DOC);
	}
	if (!PG_ARGISNULL(TQ_SUBMIT_DATA))
		sub->data = PG_GETARG_BYTEA_P(TQ_SUBMIT_DATA);
	sub->options = tq_arg_jsonb(fcinfo, TQ_SUBMIT_OPTIONS);
	if (sub->options != NULL && VARSIZE(sub->options) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("options", VARSIZE(sub->options), TQ_MAX_SMALL_DOC);
}

static void
read_times(FunctionCallInfo fcinfo, TqSubmission *sub)
{
	TimestampTz now = tq_clock_wall();
	TimestampTz due = now;

	if (!PG_ARGISNULL(TQ_SUBMIT_RUN_AT) && !PG_ARGISNULL(TQ_SUBMIT_DELAY))
		tq_error_invalid("run_at", "cannot be combined with delay", NULL);
	if (tq_arg_time(fcinfo, TQ_SUBMIT_RUN_AT, "run_at", &sub->run_at))
		due = Max(now, sub->run_at);
	else if (!PG_ARGISNULL(TQ_SUBMIT_DELAY))
	{
		int64 delay = tq_arg_span(fcinfo, TQ_SUBMIT_DELAY, "delay", 0, 0);

		if (delay > 0)
			sub->run_at = due = tq_span_after(tq_clock_dispatch(), delay);
	}
	sub->has_deadline =
		tq_arg_time(fcinfo, TQ_SUBMIT_DEADLINE, "deadline", &sub->deadline);
	if (sub->has_deadline && sub->deadline <= now)
		tq_error_invalid("deadline", "is in the past", NULL);
	if (sub->has_deadline && sub->deadline < due)
		tq_error_invalid("deadline", "is before run_at", NULL);
}

static void
read_words(FunctionCallInfo fcinfo, TqSubmission *sub)
{
	char *word;

	sub->key = tq_arg_word(fcinfo, TQ_SUBMIT_KEY, "key", TQ_MAX_KEY);
	sub->reference =
		tq_arg_word(fcinfo, TQ_SUBMIT_REFERENCE, "reference", TQ_MAX_KEY);
	sub->correlation_id = tq_arg_word(fcinfo, TQ_SUBMIT_CORRELATION_ID,
									  "correlation_id", TQ_MAX_KEY);

	word = tq_arg_keyword(fcinfo, TQ_SUBMIT_ON_CONFLICT, "on_conflict");
	if (word == NULL || strcmp(word, "error") == 0)
		sub->on_conflict = TQ_CONFLICT_ERROR;
	else if (strcmp(word, "return") == 0)
		sub->on_conflict = TQ_CONFLICT_RETURN;
	else if (strcmp(word, "skip") == 0)
		sub->on_conflict = TQ_CONFLICT_SKIP;
	else if (strcmp(word, "update") == 0)
		sub->on_conflict = TQ_CONFLICT_UPDATE;
	else if (strcmp(word, "merge") == 0)
		sub->on_conflict = TQ_CONFLICT_MERGE;
	else
		tq_error_invalid("on_conflict", "has an unknown value",
						 "Allowed: error, return, skip, update, merge.");

	sub->insertion = tq_submission_insertion(fcinfo, TQ_SUBMIT_INSERTION);
	if (sub->insertion != TQ_INSERTION_APPEND && sub->key == NULL)
		tq_error_invalid("insertion", "needs a key",
						 "Give key, or insertion => 'append'.");
}

TqInsertion
tq_submission_insertion(FunctionCallInfo fcinfo, int n)
{
	char       *word = tq_arg_keyword(fcinfo, n, "insertion");
	TqInsertion insertion = TQ_INSERTION_APPEND;

	if (word != NULL && !tq_insertion_parse(word, &insertion))
		tq_error_invalid("insertion", "has an unknown value",
						 "Allowed: append, supersede, replace, delete.");
	return insertion;
}

/*
 * Find or create the queue, and apply its options where the caller gave no
 * value.
 */
void
tq_submission_resolve(FunctionCallInfo fcinfo, TqSubmission *sub)
{
	TqOptions own;

	sub->queue = tq_queue_for_submit(sub->queue_name, false);
	if (PG_ARGISNULL(TQ_SUBMIT_PRIORITY))
		sub->priority = sub->queue->options.priority;
	if (PG_ARGISNULL(TQ_SUBMIT_MAX_ATTEMPTS))
		sub->max_attempts = sub->queue->options.max_attempts;
	if (sub->data != NULL)
		tq_submission_check_size(sub->queue, "data",
								 VARSIZE_ANY_EXHDR(sub->data));
	own = sub->queue->options;
	if (sub->options != NULL)
	{
		tq_options_read_task(&own, sub->options);
		if (own.deadline_in > 0)
		{
			if (sub->has_deadline)
				tq_error_invalid("deadline",
								 "cannot be combined with option deadline_in",
								 NULL);
			sub->has_deadline = true;
			sub->deadline = tq_span_after(tq_clock_wall(), own.deadline_in);
			if (sub->deadline < sub->run_at)
				tq_error_invalid("deadline_in", "ends before run_at", NULL);
		}
	}
	sub->likely_taken = sub->queue->options.reference_window > 0;
	sub->role_id = tq_role_intern(GetUserId());
	sub->lane_id = tq_lane_of(sub->queue, &sub->tags);
}

/*
 * Read an object whose members have the names of taskq_submit's arguments.
 * Sets *named to the arguments that are present, null or not.
 */
void
tq_submission_read_entry(FunctionCallInfo inner, JsonbValue *entry,
						 const TqEntryKind *kind, bool *named)
{
	JsonbIterator     *it;
	JsonbValue         key;
	JsonbValue         value;
	JsonbIteratorToken token;

	for (int i = 0; i < TQ_SUBMIT_COUNT; i++)
	{
		inner->args[i].isnull = true;
		named[i] = false;
	}
	if (!tq_json_is_object(entry))
		tq_error_invalid(kind->list, "must be a list of objects", NULL);
	it = JsonbIteratorInit(entry->val.binary.data);
	token = JsonbIteratorNext(&it, &key, false);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		char *name = pnstrdup(key.val.string.val, key.val.string.len);

		token = JsonbIteratorNext(&it, &value, true);
		named[read_member(inner, kind, name, &value)] = true;
	}
}

static int
read_member(FunctionCallInfo inner, const TqEntryKind *kind, const char *name,
			JsonbValue *value)
{
	int   n;
	Datum datum = (Datum) 0;

	for (n = 0; n < TQ_SUBMIT_COUNT; n++)
	{
		if (strcmp(members[n].name, name) == 0)
			break;
	}
	if (n == TQ_SUBMIT_COUNT)
		tq_error_invalid(psprintf("member \"%s\" of a task", name),
						 "does not exist",
						 psprintf("Allowed: %s.", member_words(kind)));
	if (value->type == jbvNull)
		return n;
	switch (members[n].kind)
	{
		case MEMBER_TEXT:
			datum = CStringGetTextDatum(tq_json_string(name, value));
			break;
		case MEMBER_JSON:
			datum = JsonbPGetDatum(JsonbValueToJsonb(value));
			break;
		case MEMBER_INTEGER:
			datum = Int32GetDatum(tq_json_int4(name, value));
			break;
		case MEMBER_TIME:
			datum = DirectFunctionCall3(
				timestamptz_in, CStringGetDatum(tq_json_string(name, value)),
				ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
			break;
		case MEMBER_INTERVAL:
			datum = DirectFunctionCall3(
				interval_in, CStringGetDatum(tq_json_string(name, value)),
				ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
			break;
		case MEMBER_TAGS:
			datum = tags_of_list(value);
			break;
		case MEMBER_BYTES:
			datum = DirectFunctionCall1(
				byteain, CStringGetDatum(tq_json_string(name, value)));
			break;
		case MEMBER_BOOLEAN:
			datum = BoolGetDatum(tq_json_bool(name, value));
			break;
	}
	inner->args[n].value = datum;
	inner->args[n].isnull = false;
	return n;
}

/* Returns the names of the members that the caller accepts. */
static char *
member_words(const TqEntryKind *kind)
{
	StringInfoData all;

	initStringInfo(&all);
	if (kind->others != NULL)
		appendStringInfoString(&all, kind->others);
	for (int i = 0; i < TQ_SUBMIT_COUNT; i++)
	{
		if ((kind->refused & (1 << i)) == 0)
			appendStringInfo(&all, "%s%s", all.len > 0 ? ", " : "",
							 members[i].name);
	}
	return all.data;
}

static Datum
tags_of_list(JsonbValue *value)
{
	JsonbIterator     *it;
	JsonbValue         tag;
	JsonbIteratorToken token;
	ArrayBuildState   *tags;

	if (!tq_json_is_list(value))
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

/* Fill in a copy of a task's contents; return its payload. */
Jsonb *
tq_submission_carried(TqSubmission *sub, TqTask *origin)
{
	Jsonb *payload = NULL;
	Datum  value;

	if (tq_large_get(origin, TQ_COL_PAYLOAD, &value))
		payload = DatumGetJsonbPCopy(value);
	if (tq_large_get(origin, TQ_COL_DATA, &value))
		sub->data = DatumGetByteaPCopy(value);
	if (!origin->isnull[TQ_COL_KEY])
		sub->key = TextDatumGetCString(origin->value[TQ_COL_KEY]);
	if (!origin->isnull[TQ_COL_CORRELATION_ID])
		sub->correlation_id =
			TextDatumGetCString(origin->value[TQ_COL_CORRELATION_ID]);
	return payload;
}

/*
 * Describe the same task again, submitted by current_user and due now.  A
 * deadline that has passed is omitted; a deadline that counts from the submit
 * restarts.
 */
Jsonb *
tq_submission_again(TqSubmission *sub, TqQueue *queue, TqTask *origin)
{
	Jsonb      *payload = tq_submission_carried(sub, origin);
	TimestampTz now = tq_clock_wall();
	Datum       value;

	sub->queue = queue;
	sub->priority = origin->f.priority;
	sub->max_attempts = origin->f.max_attempts;
	sub->suspended = (origin->f.flags & TQ_FLAG_SUSPENDED) != 0;
	sub->dead_letter = (origin->f.flags & TQ_FLAG_DEAD_LETTER) != 0;
	sub->any_depth = true;
	if (tq_large_get(origin, TQ_COL_HEADERS, &value))
		sub->headers = DatumGetJsonbPCopy(value);
	if (!origin->isnull[TQ_COL_REFERENCE])
		sub->reference = TextDatumGetCString(origin->value[TQ_COL_REFERENCE]);
	if (!origin->isnull[TQ_COL_TAGS])
		tq_arg_tags_read(origin->value[TQ_COL_TAGS], &sub->tags);
	sub->deadline = TQ_TASK_TIME(origin, TQ_COL_DEADLINE, DT_NOEND);
	if (!origin->isnull[TQ_COL_OPTIONS])
	{
		TqOptions own = queue->options;

		sub->options = DatumGetJsonbPCopy(origin->value[TQ_COL_OPTIONS]);
		tq_options_read_task(&own, sub->options);
		if (own.deadline_in > 0)
			sub->deadline = tq_span_after(now, own.deadline_in);
	}
	sub->has_deadline = sub->deadline != DT_NOEND && sub->deadline > now;
	sub->role_id = tq_role_intern(GetUserId());
	sub->lane_id = tq_lane_of(queue, &sub->tags);
	return payload;
}

/* Raise TQ009 if a document is larger than its queue allows. */
void
tq_submission_check_size(const TqQueue *queue, const char *what, int64 size)
{
	if (size > queue->options.max_payload)
		tq_error_max_payload(what, size, queue->options.max_payload);
}
