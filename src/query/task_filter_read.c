/*
 * task_filter_read.c
 *		Reads a filter that a caller gives as a JSON object.
 *
 * Each member adds a condition to those that the filter has.  A member that is
 * null is not given.  Names of workers and templates become numbers here, once
 * for each call.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/compare.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "base/json.h"
#include "base/spi.h"
#include "query/task_filter_read.h"

#define MAX_WORDS 100       /* entries of a list */
#define MAX_WORKFLOWS 10000 /* of a template, that are kept in memory */

/* Which end of a range; and of which range. */
#define FROM(time) (2 * (time))
#define TO(time) (2 * (time) + 1)

/* A member: n distinguishes members that one function reads. */
typedef struct Member
{
	const char *name;
	void (*read)(TqTaskFilter *filter, const char *name, JsonbValue *value,
				 int n);
	int n;
} Member;

static TqStmt stmt_workers = {
	"SELECT worker_id FROM taskq.worker"
	" WHERE name = $1 AND state = " TQ_SQL_WORKER_LABEL " UNION ALL"
	" SELECT worker_id FROM taskq.worker"
	" WHERE name = $1 AND state <> " TQ_SQL_WORKER_LABEL " ORDER BY 1",
	{TEXTOID}};

static TqStmt stmt_workflows = {"SELECT w.workflow_id FROM taskq.template t"
								"  JOIN taskq.workflow w USING (template_id)"
								" WHERE t.name = $1 LIMIT $2",
								{TEXTOID, INT8OID}};

static const Member *member_of(const char *name);
static char         *member_names(void);
static void          read_state(TqTaskFilter *filter, const char *name,
								JsonbValue *value, int n);
static void          read_reason(TqTaskFilter *filter, const char *name,
								 JsonbValue *value, int n);
static void          read_tags(TqTaskFilter *filter, const char *name,
							   JsonbValue *value, int n);
static void          read_worker(TqTaskFilter *filter, const char *name,
								 JsonbValue *value, int n);
static void          read_word(TqTaskFilter *filter, const char *name,
							   JsonbValue *value, int n);
static void          read_error(TqTaskFilter *filter, const char *name,
								JsonbValue *value, int n);
static void          read_fingerprint(TqTaskFilter *filter, const char *name,
									  JsonbValue *value, int n);
static void          read_time(TqTaskFilter *filter, const char *name,
							   JsonbValue *value, int n);
static void          read_priority(TqTaskFilter *filter, const char *name,
								   JsonbValue *value, int n);
static void          read_workflow(TqTaskFilter *filter, const char *name,
								   JsonbValue *value, int n);
static void          read_template(TqTaskFilter *filter, const char *name,
								   JsonbValue *value, int n);
static void          read_payload(TqTaskFilter *filter, const char *name,
								  JsonbValue *value, int n);
static void read_id(TqTaskFilter *filter, const char *name, JsonbValue *value,
					int n);
static TimestampTz time_of(const char *name, JsonbValue *value);
static char      **words_of(const char *name, JsonbValue *value, bool or_text,
							int *count);
static void        check_order(const char *name, int64 from, int64 to);
static void        refuse_variables(JsonPath *path);

/* read_word */
enum
{
	WORD_KEY,
	WORD_REFERENCE,
	WORD_CORRELATION
};

/* In the order of the reference. */
static const Member members[] = {
	{"state", read_state, 0},
	{"reason", read_reason, 0},
	{"tags", read_tags, 0},
	{"worker", read_worker, 0},
	{"key", read_word, WORD_KEY},
	{"reference", read_word, WORD_REFERENCE},
	{"correlation_id", read_word, WORD_CORRELATION},
	{"error", read_error, 0},
	{"fingerprint", read_fingerprint, 0},
	{"created_from", read_time, FROM(TQ_TIME_CREATED)},
	{"created_to", read_time, TO(TQ_TIME_CREATED)},
	{"finished_from", read_time, FROM(TQ_TIME_FINISHED)},
	{"finished_to", read_time, TO(TQ_TIME_FINISHED)},
	{"run_from", read_time, FROM(TQ_TIME_RUN)},
	{"run_to", read_time, TO(TQ_TIME_RUN)},
	{"claimed_from", read_time, FROM(TQ_TIME_CLAIMED)},
	{"claimed_to", read_time, TO(TQ_TIME_CLAIMED)},
	{"priority_min", read_priority, 0},
	{"priority_max", read_priority, 1},
	{"workflow_id", read_workflow, 0},
	{"template", read_template, 0},
	{"payload", read_payload, 0},
	{"from_id", read_id, 0},
	{"to_id", read_id, 1}};

/* Add the conditions of a JSON object; NULL has none. */
void
tq_task_filter_read(TqTaskFilter *filter, Jsonb *document)
{
	JsonbIterator     *it;
	JsonbIteratorToken token;
	JsonbValue         value;

	if (document == NULL)
		return;
	if (!JB_ROOT_IS_OBJECT(document))
		tq_error_invalid("filter", "must be a JSON object", NULL);
	it = JsonbIteratorInit(&document->root);
	token = JsonbIteratorNext(&it, &value, true);
	while ((token = JsonbIteratorNext(&it, &value, true)) == WJB_KEY)
	{
		char *name = pnstrdup(value.val.string.val, value.val.string.len);
		const Member *member = member_of(name);

		if (member == NULL)
			tq_error_invalid(psprintf("filter member \"%s\"", name),
							 "is unknown",
							 psprintf("Allowed: %s.", member_names()));
		(void) JsonbIteratorNext(&it, &value, true);
		if (value.type != jbvNull)
			member->read(filter, psprintf("filter.%s", name), &value,
						 member->n);
	}
	for (int i = 0; i < lengthof(members); i++)
	{
		if (members[i].read == read_time && members[i].n % 2 == 0)
			check_order(members[i].name, filter->times[members[i].n / 2].from,
						filter->times[members[i].n / 2].to);
	}
	check_order("priority_min", filter->priority_min, filter->priority_max);
	check_order("from_id", filter->from_id, filter->to_id);
	filter->first = Max(filter->first, filter->from_id);
	filter->last = Min(filter->last, filter->to_id);
}

/*
 * The same filter, with times that depend neither on settings of the session
 * nor on the present time, for those who read it later.  It is valid.
 */
Jsonb *
tq_task_filter_fix_times(Jsonb *document)
{
	JsonbParseState   *state = NULL;
	JsonbIterator     *it;
	JsonbIteratorToken token;
	JsonbValue         key;
	JsonbValue         value;

	if (document == NULL)
		return NULL;
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	it = JsonbIteratorInit(&document->root);
	token = JsonbIteratorNext(&it, &value, true);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		char         *name = pnstrdup(key.val.string.val, key.val.string.len);
		const Member *member = member_of(name);

		(void) JsonbIteratorNext(&it, &value, true);
		if (member != NULL && member->read == read_time &&
			value.type != jbvNull)
		{
			int utc = 0;

			value.val.string.val = JsonEncodeDateTime(
				NULL, TimestampTzGetDatum(time_of(name, &value)),
				TIMESTAMPTZOID, &utc);
			value.val.string.len = (int) strlen(value.val.string.val);
		}
		(void) pushJsonbValue(&state, WJB_KEY, &key);
		(void) pushJsonbValue(&state, WJB_VALUE, &value);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/* Add the condition that a key, reference or correlation id is a value. */
void
tq_task_filter_read_word(TqTaskFilter *filter, const char **word,
						 const char *value)
{
	if (value == NULL)
		return;
	if (*word != NULL && strcmp(*word, value) != 0)
		filter->nothing = true;
	*word = value;
}

static const Member *
member_of(const char *name)
{
	for (int i = 0; i < lengthof(members); i++)
	{
		if (strcmp(members[i].name, name) == 0)
			return &members[i];
	}
	return NULL;
}

static char *
member_names(void)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < lengthof(members); i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", members[i].name);
	return names.data;
}

static void
read_state(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	int    count;
	char **words = words_of(name, value, true, &count);
	int    states = 0;

	for (int i = 0; i < count; i++)
	{
		TqState state;

		if (!tq_state_parse(words[i], &state))
			tq_error_invalid(name, "has an unknown value",
							 psprintf("Allowed: %s.", tq_state_words()));
		states |= TQ_STATE_BIT(state);
	}
	tq_task_filter_states(filter, states);
}

static void
read_reason(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	int    count;
	char **words = words_of(name, value, true, &count);

	for (int i = 0; i < count; i++)
	{
		TqReason reason;

		if (!tq_reason_parse(words[i], &reason))
			tq_error_invalid(name, "has an unknown value",
							 psprintf("Allowed: %s.", tq_reason_words()));
		filter->reasons |= TQ_STATE_BIT(reason);
	}
}

static void
read_tags(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	TqTags *tags = &filter->tags;

	tags->tags = words_of(name, value, false, &tags->count);
	for (int i = 0; i < tags->count; i++)
		tq_arg_check_word(tags->tags[i], "tag", TQ_MAX_TAG);
	tq_arg_tags_sort(tags);
	if (tags->count > TQ_MAX_TAGS)
		tq_error_too_large("list of tags", tags->count, TQ_MAX_TAGS);
}

/* A name may have had several registrations.  Without any, nothing matches. */
static void
read_worker(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	char *worker = tq_json_string(name, value);
	Datum arg = CStringGetTextDatum(worker);

	tq_arg_check_word(worker, name, TQ_MAX_NAME);
	filter->by_worker = true;
	filter->worker_count =
		(int) tq_spi_list_int4(&stmt_workers, &arg, &filter->workers);
	filter->nothing = filter->nothing || filter->worker_count == 0;
}

static void
read_word(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	char *word = tq_json_string(name, value);

	tq_arg_check_word(word, name, TQ_MAX_KEY);
	tq_task_filter_read_word(filter,
							 n == WORD_KEY         ? &filter->key
							 : n == WORD_REFERENCE ? &filter->reference
												   : &filter->correlation_id,
							 word);
}

static void
read_error(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	filter->error = tq_json_string(name, value);
	if (filter->error[0] == '\0')
		tq_error_invalid(name, "must not be empty", NULL);
	if (strlen(filter->error) > TQ_MAX_ERROR_TEXT)
		tq_error_too_long(name, (int64) strlen(filter->error),
						  TQ_MAX_ERROR_TEXT, NULL);
}

static void
read_fingerprint(TqTaskFilter *filter, const char *name, JsonbValue *value,
				 int n)
{
	filter->fingerprint = tq_json_string(name, value);
	if (!tq_fingerprint_is_valid(filter->fingerprint))
		tq_error_invalid(
			name, "is not a fingerprint",
			"taskq_failures() and taskq_fingerprint(error) return fingerprints.");
}

static void
read_time(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	TqTimeRange *range = &filter->times[n / 2];
	TimestampTz  at = time_of(name, value);

	if (TIMESTAMP_NOT_FINITE(at))
		tq_error_invalid(name, "must be finite", NULL);
	if (n % 2 == 0)
		range->from = at;
	else
		range->to = at;
}

static TimestampTz
time_of(const char *name, JsonbValue *value)
{
	return DatumGetTimestampTz(DirectFunctionCall3(
		timestamptz_in, CStringGetDatum(tq_json_string(name, value)),
		ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

static void
read_priority(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	if (n == 0)
		filter->priority_min = tq_json_int4(name, value);
	else
		filter->priority_max = tq_json_int4(name, value);
}

static void
read_workflow(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	filter->workflow_id = tq_json_int8(name, value);
	filter->nothing = filter->nothing || filter->workflow_id == 0;
}

static void
read_template(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	char *template = tq_json_string(name, value);
	Datum  args[2];
	uint64 count;

	tq_arg_check_word(template, name, TQ_MAX_NAME);
	filter->template = template;
	args[0] = CStringGetTextDatum(template);
	args[1] = Int64GetDatum(MAX_WORKFLOWS + 1);
	count = tq_spi_list(&stmt_workflows, args, &filter->workflows);
	if (count > MAX_WORKFLOWS)
	{
		filter->workflows = NULL;
		return;
	}
	filter->workflow_count = (int) count;
	qsort(filter->workflows, count, sizeof(int64), tq_order_int64);
	filter->nothing = filter->nothing || count == 0;
}

/* The path is compiled once; a word that is no path keeps its SQLSTATE. */
static void
read_payload(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	char *path = tq_json_string(name, value);

	if (strlen(path) > TQ_MAX_SMALL_DOC)
		tq_error_too_long(name, (int64) strlen(path), TQ_MAX_SMALL_DOC, NULL);
	filter->payload = DatumGetJsonPathP(
		DirectFunctionCall1(jsonpath_in, CStringGetDatum(path)));
	refuse_variables(filter->payload);
	filter->variables =
		DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
}

static void
read_id(TqTaskFilter *filter, const char *name, JsonbValue *value, int n)
{
	if (n == 0)
		filter->from_id = tq_json_int8(name, value);
	else
		filter->to_id = tq_json_int8(name, value);
}

/* The strings of a list, or one string; at least one unless it is a list. */
static char **
words_of(const char *name, JsonbValue *value, bool or_text, int *count)
{
	JsonbContainer *list = value->val.binary.data;
	char          **words;

	if (or_text && value->type == jbvString)
	{
		words = palloc(sizeof(char *));
		words[0] = tq_json_string(name, value);
		*count = 1;
		return words;
	}
	if (!tq_json_is_list(value))
		tq_error_invalid(name,
						 or_text ? "must be a string or a list of strings"
								 : "must be a list of strings",
						 NULL);
	*count = JsonContainerSize(list);
	if (*count == 0)
		tq_error_invalid(name, "must not be empty",
						 "Leave the member out to select any value.");
	if (*count > MAX_WORDS)
		tq_error_too_long(name, *count, MAX_WORDS, NULL);
	words = palloc(sizeof(char *) * *count);
	for (int i = 0; i < *count; i++)
	{
		JsonbValue *entry = getIthJsonbValueFromContainer(list, i);

		if (entry->type == jbvNull)
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("%s must not contain null values", name)));
		words[i] = tq_json_string(name, entry);
	}
	return words;
}

static void
check_order(const char *name, int64 from, int64 to)
{
	if (from > to)
		tq_error_invalid(psprintf("filter.%s", name),
						 "is above the end of its range", NULL);
}

/*
 * There are no variables.  A path that names one would only raise an error
 * when a row is reached for which it is needed.  The server prints it as
 * $"name"; the same characters within a string are skipped.
 */
static void
refuse_variables(JsonPath *path)
{
	char *text = DatumGetCString(
		DirectFunctionCall1(jsonpath_out, PointerGetDatum(path)));

	for (char *c = text; *c != '\0'; c++)
	{
		if (c[0] == '$' && c[1] == '"')
			ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
							errmsg("jsonpath of the filter names a variable"),
							errdetail("A filter has no variables: %s", text)));
		if (*c != '"')
			continue;
		for (c++; *c != '"' && *c != '\0'; c++)
			c += *c == '\\' && c[1] != '\0';
		if (*c == '\0')
			break;
	}
}
