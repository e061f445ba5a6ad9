/*
 * value.c
 *		Values in definitions, and what paths select.
 *
 * The server's own functions parse what users write, and their errors are
 * turned into text here.  These functions hold no resources that would have to
 * be released, so no savepoint is needed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_collation_d.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/try.h"
#include "flow/definition/value.h"

typedef struct Options
{
	Jsonb *document;
} Options;

typedef struct Option
{
	TqOptions  *options;
	const char *name;
	JsonbValue *value;
} Option;

typedef struct Span
{
	const char *word;
	int64       span;
} Span;

typedef struct Time
{
	const char *word;
	TimestampTz time;
} Time;

typedef struct Likeness
{
	char *pattern;
	char *word;
	bool  result;
} Likeness;

typedef struct Path
{
	const char *word;
	JsonPath   *path;
} Path;

typedef struct Selection
{
	JsonPath  *path;
	Jsonb     *document;
	PGFunction what;
	Datum      result;
	bool       isnull;
} Selection;

typedef struct Filling
{
	Jsonb *pattern;
	Jsonb *document;
	Jsonb *result;
	char  *wrong;
} Filling;

static char *error_of(void (*work)(void *arg), void *arg);
static void  read_options(void *arg);
static void  read_option(void *arg);
static void  read_span(void *arg);
static void  read_time(void *arg);
static void  set_for_now(const char *name, const char *value);
static void  read_path(void *arg);
static void  compare(void *arg);
static void  apply(void *arg);
static char *without_value(char *message, const char *path);
static void  fill_whole(void *arg);
static char *path_of(JsonbContainer *container);
static bool  select_first(const char *word, Jsonb *document, Jsonb **found,
						  char **wrong);
static bool  fill(JsonbContainer *pattern, Jsonb *document,
				  JsonbParseState **state, JsonbValue **result, char **wrong);
static bool  fill_value(JsonbValue *value, JsonbIteratorToken token,
						Jsonb *document, JsonbParseState **state,
						JsonbValue **result, char **wrong);

/*
 * Run work.  Returns the message of the error that it raises, or NULL if it
 * raises no error.
 */
static char *
error_of(void (*work)(void *arg), void *arg)
{
	ErrorData *error = tq_try(work, arg);

	return error == NULL ? NULL : error->message;
}

/* Is it an integer of at most 2^53? */
bool
tq_value_whole(Numeric number, int64 *result)
{
	const double largest = (double) TQ_LARGEST_WHOLE;
	double       value = DatumGetFloat8(DirectFunctionCall1(
			  numeric_float8_no_overflow, NumericGetDatum(number)));

	if (!(value >= -largest && value <= largest) || value != (int64) value)
		return false;
	/* a number that is not an integer may be one as a double */
	if (!DatumGetBool(DirectFunctionCall2(
			numeric_eq, NumericGetDatum(number),
			NumericGetDatum(int64_to_numeric((int64) value)))))
		return false;
	*result = (int64) value;
	return true;
}

/* Read a duration as users write it: an interval with a unit. */
bool
tq_value_span(const char *word, int64 *span)
{
	Span reading = {word, 0};

	if (strspn(word, "+-.0123456789 ") == strlen(word) ||
		error_of(read_span, &reading) != NULL)
		return false;
	*span = reading.span;
	return true;
}

static void
read_span(void *arg)
{
	Span     *reading = arg;
	Interval *interval = DatumGetIntervalP(
		DirectFunctionCall3(interval_in, CStringGetDatum(reading->word),
							ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));

	reading->span = tq_arg_interval_span(interval, "interval", 0);
}

/* Read a finite point in time, as users write it. */
bool
tq_value_time(const char *word, TimestampTz *time)
{
	Time reading = {word, 0};

	if (error_of(read_time, &reading) != NULL ||
		TIMESTAMP_NOT_FINITE(reading.time))
		return false;
	*time = reading.time;
	return true;
}

/*
 * The session's settings do not apply, since the session that reads the value
 * is the session that ended the previous step.  Therefore a time without a
 * zone is in UTC, and in dates with slashes the year comes first.
 */
static void
read_time(void *arg)
{
	Time *reading = arg;
	int   level = NewGUCNestLevel();

	PG_TRY();
	{
		set_for_now("timezone", "UTC");
		set_for_now("datestyle", "ISO, YMD");
		reading->time = DatumGetTimestampTz(DirectFunctionCall3(
			timestamptz_in, CStringGetDatum(reading->word),
			ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	}
	PG_FINALLY();
	{
		AtEOXact_GUC(true, level);
	}
	PG_END_TRY();
}

/* Set a parameter until the current GUC nest level ends. */
static void
set_for_now(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Returns what is wrong with the options of a task, or NULL if they are valid.
 */
char *
tq_value_wrong_options(Jsonb *options)
{
	Options reading = {options};

	return error_of(read_options, &reading);
}

static void
read_options(void *arg)
{
	Options  *reading = arg;
	TqOptions options;

	tq_options_default(&options);
	tq_options_check_size(reading->document);
	tq_options_read_task(&options, reading->document);
}

/* Read one option of a task.  Returns false if its value is not allowed. */
bool
tq_value_option(TqOptions *options, const char *name, JsonbValue *value)
{
	Option reading = {options, name, value};

	return error_of(read_option, &reading) == NULL;
}

static void
read_option(void *arg)
{
	Option *reading = arg;

	tq_options_read_own(reading->options, reading->name, reading->value);
}

/* Parse a path.  Returns NULL and sets *wrong if it is not valid. */
JsonPath *
tq_value_path(const char *word, char **wrong)
{
	Path reading = {word, NULL};

	*wrong = error_of(read_path, &reading);
	return *wrong == NULL ? reading.path : NULL;
}

static void
read_path(void *arg)
{
	Path *reading = arg;

	reading->path = DatumGetJsonPathP(
		DirectFunctionCall1(jsonpath_in, CStringGetDatum(reading->word)));
}

/*
 * Append the step names that a path mentions.  The server prints a path with
 * every key in quotes.
 */
List *
tq_value_names(JsonPath *path, List *names)
{
	static const char before[] = ".\"results\".\"";
	char             *text = DatumGetCString(
					DirectFunctionCall1(jsonpath_out, PointerGetDatum(path)));

	for (char *at = strstr(text, before); at != NULL; at = strstr(at, before))
	{
		char *begin = at + strlen(before);
		char *end = begin;

		while (*end != '\0' && *end != '"')
			end += *end == '\\' && end[1] != '\0' ? 2 : 1;
		if (memchr(begin, '\\', end - begin) == NULL)
			names = lappend(names, pnstrdup(begin, end - begin));
		else
		{
			/* with its quotes it is a JSON string */
			Jsonb     *word = DatumGetJsonbP(DirectFunctionCall1(
					jsonb_in,
					CStringGetDatum(pnstrdup(begin - 1, end - begin + 2))));
			JsonbValue value;

			if (JB_ROOT_IS_SCALAR(word) &&
				JsonbExtractScalar(&word->root, &value) &&
				value.type == jbvString)
				names = lappend(names, pnstrdup(value.val.string.val,
												value.val.string.len));
		}
		at = end;
	}
	return names;
}

/* Returns the paths of all objects {"$": path} in a pattern. */
List *
tq_value_paths(Jsonb *document)
{
	List              *paths = NIL;
	JsonbIterator     *it = JsonbIteratorInit(&document->root);
	JsonbIteratorToken token;
	JsonbValue         value;
	bool               only = false; /* is it in an object with one member? */
	bool               dollar = false;

	while ((token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		if (token == WJB_BEGIN_OBJECT)
			only = value.val.object.nPairs == 1;
		else if (token == WJB_KEY)
			dollar = only && value.val.string.len == 1 &&
					 value.val.string.val[0] == '$';
		else if (token == WJB_VALUE && dollar && value.type == jbvString)
			paths = lappend(
				paths, pnstrdup(value.val.string.val, value.val.string.len));
		if (token != WJB_KEY)
			dollar = false;
		if (token == WJB_VALUE || token == WJB_BEGIN_ARRAY)
			only = false;
	}
	return paths;
}

/*
 * Does a regular expression match somewhere?  Returns false and sets *wrong if
 * it is not valid.
 */
bool
tq_value_like(char *pattern, char *word, bool *result, char **wrong)
{
	Likeness likeness = {pattern, word, false};

	*wrong = error_of(compare, &likeness);
	*result = likeness.result;
	return *wrong == NULL;
}

static void
compare(void *arg)
{
	Likeness *likeness = arg;

	likeness->result = DatumGetBool(
		DirectFunctionCall2Coll(textregexeq, DEFAULT_COLLATION_OID,
								CStringGetTextDatum(likeness->word),
								CStringGetTextDatum(likeness->pattern)));
}

/*
 * Is a predicate true?  Returns false and sets *wrong if that cannot be
 * determined.
 */
bool
tq_value_match(JsonPath *path, Jsonb *document, bool *result, char **wrong)
{
	Selection selection = {path, document, jsonb_path_match, (Datum) 0, true};

	*wrong = error_of(apply, &selection);
	if (*wrong != NULL)
	{
		char *text = DatumGetCString(
			DirectFunctionCall1(jsonpath_out, PointerGetDatum(path)));

		*wrong = psprintf("%s: %s", text, without_value(*wrong, text));
		return false;
	}
	*result = !selection.isnull && DatumGetBool(selection.result);
	return true;
}

/*
 * PostgreSQL's message may quote a value, as that of datetime() does.  Roles
 * that may not see contents see errors, so anything quoted that is not part of
 * the path is replaced.
 */
static char *
without_value(char *message, const char *path)
{
	char *begin = strchr(message, '"');
	char *end = strrchr(message, '"');
	char *quoted;

	if (begin == NULL || begin == end)
		return message;
	quoted = pnstrdup(begin + 1, end - begin - 1);
	if (strstr(path, quoted) != NULL)
		return message;
	return psprintf("%.*s\"...\"%s", (int) (begin - message), message,
					end + 1);
}

/* Call a jsonpath function, whose result may be null. */
static void
apply(void *arg)
{
	LOCAL_FCINFO(fcinfo, 4);
	Selection  *selection = arg;
	static char nothing[] = "{}";

	InitFunctionCallInfoData(*fcinfo, NULL, 4, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = JsonbPGetDatum(selection->document);
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = PointerGetDatum(selection->path);
	fcinfo->args[1].isnull = false;
	fcinfo->args[2].value =
		DirectFunctionCall1(jsonb_in, CStringGetDatum(nothing));
	fcinfo->args[2].isnull = false;
	fcinfo->args[3].value = BoolGetDatum(false);
	fcinfo->args[3].isnull = false;
	selection->result = selection->what(fcinfo);
	selection->isnull = fcinfo->isnull;
}

/*
 * Replace each {"$": path} of a pattern by the item that the path selects, or
 * by null if it selects no item.  If a path cannot be evaluated, returns NULL
 * and sets *wrong to a message with the path.
 */
Jsonb *
tq_value_fill(Jsonb *pattern, Jsonb *document, char **wrong)
{
	Filling    filling = {NULL};
	JsonbValue scalar;
	char      *word;

	*wrong = NULL;
	if (JB_ROOT_IS_SCALAR(pattern))
		return pattern;
	word = path_of(&pattern->root);
	if (word != NULL)
	{
		Jsonb *found;

		if (!select_first(word, document, &found, wrong))
			return NULL;
		if (found != NULL)
			return found;
		scalar.type = jbvNull;
		return JsonbValueToJsonb(&scalar);
	}
	filling.pattern = pattern;
	filling.document = document;
	*wrong = error_of(fill_whole, &filling);
	if (*wrong == NULL)
		*wrong = filling.wrong;
	return *wrong == NULL ? filling.result : NULL;
}

static void
fill_whole(void *arg)
{
	Filling         *filling = arg;
	JsonbParseState *state = NULL;
	JsonbValue      *result = NULL;

	if (fill(&filling->pattern->root, filling->document, &state, &result,
			 &filling->wrong))
		filling->result = JsonbValueToJsonb(result);
}

/* Returns the path of an object {"$": path}, or NULL for any other value. */
static char *
path_of(JsonbContainer *container)
{
	JsonbValue *value;

	if (!JsonContainerIsObject(container) || JsonContainerSize(container) != 1)
		return NULL;
	value = getKeyJsonValueFromContainer(container, "$", 1, NULL);
	if (value == NULL || value->type != jbvString)
		return NULL;
	return pnstrdup(value->val.string.val, value->val.string.len);
}

/*
 * Sets *found to the first item that a path selects, or to NULL if it selects
 * no item.
 */
static bool
select_first(const char *word, Jsonb *document, Jsonb **found, char **wrong)
{
	JsonPath *path = tq_value_path(word, wrong);
	Selection selection = {path, document, jsonb_path_query_first, (Datum) 0,
						   true};

	*found = NULL;
	if (path == NULL)
		return false;
	*wrong = error_of(apply, &selection);
	if (*wrong != NULL)
	{
		*wrong = psprintf("%s: %s", word, without_value(*wrong, word));
		return false;
	}
	if (!selection.isnull)
		*found = DatumGetJsonbP(selection.result);
	return true;
}

/* Copy a list, or an object that is not a path. */
static bool
fill(JsonbContainer *pattern, Jsonb *document, JsonbParseState **state,
	 JsonbValue **result, char **wrong)
{
	JsonbIterator     *it = JsonbIteratorInit(pattern);
	JsonbIteratorToken token;
	JsonbValue         value;

	check_stack_depth();
	token = JsonbIteratorNext(&it, &value, true);
	*result = pushJsonbValue(state, token, NULL);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		if (token == WJB_KEY || token == WJB_END_ARRAY ||
			token == WJB_END_OBJECT)
			*result =
				pushJsonbValue(state, token, token == WJB_KEY ? &value : NULL);
		else if (!fill_value(&value, token, document, state, result, wrong))
			return false;
	}
	return true;
}

static bool
fill_value(JsonbValue *value, JsonbIteratorToken token, Jsonb *document,
		   JsonbParseState **state, JsonbValue **result, char **wrong)
{
	char *word;
	JsonbValue new;
	Jsonb *found;

	if (value->type != jbvBinary)
	{
		*result = pushJsonbValue(state, token, value);
		return true;
	}
	word = path_of(value->val.binary.data);
	if (word == NULL)
		return fill(value->val.binary.data, document, state, result, wrong);
	if (!select_first(word, document, &found, wrong))
		return false;
	if (found == NULL)
		new.type = jbvNull;
	else if (!JB_ROOT_IS_SCALAR(found) ||
			 !JsonbExtractScalar(&found->root, &new))
	{
		new.type = jbvBinary;
		new.val.binary.data = &found->root;
		new.val.binary.len = VARSIZE_ANY_EXHDR(found);
	}
	*result = pushJsonbValue(state, token, &new);
	return true;
}

/*
 * Returns the canonical form of a document.  Equal documents have the same
 * canonical form.
 */
Jsonb *
tq_value_canonical(Jsonb *document)
{
	JsonbParseState   *state = NULL;
	JsonbIterator     *it = JsonbIteratorInit(&document->root);
	JsonbIteratorToken token;
	JsonbValue         value;
	JsonbValue        *result = NULL;

	while ((token = JsonbIteratorNext(&it, &value, false)) != WJB_DONE)
	{
		if ((token == WJB_VALUE || token == WJB_ELEM) &&
			value.type == jbvNumeric)
			value.val.numeric = DatumGetNumeric(DirectFunctionCall1(
				numeric_trim_scale, NumericGetDatum(value.val.numeric)));
		if (token == WJB_BEGIN_ARRAY)
			result = pushJsonbValue(&state, token, &value);
		else
			result = pushJsonbValue(&state, token,
									token == WJB_KEY || token == WJB_VALUE ||
											token == WJB_ELEM
										? &value
										: NULL);
	}
	return JsonbValueToJsonb(result);
}
