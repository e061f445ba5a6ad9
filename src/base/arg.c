/*
 * arg.c
 *		Arguments of SQL functions, checked as the contract requires.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "lib/qunique.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/place.h"
#include "base/span.h"

static bool has_control_character(const char *word);
static int  compare_strings(const void *a, const void *b);

/*
 * Returns the name of a queue or worker.  If if_null is NULL, the argument is
 * required.
 */
char *
tq_arg_name(FunctionCallInfo fcinfo, int n, const char *what,
			const char *if_null)
{
	char *name;

	if (PG_ARGISNULL(n))
	{
		if (if_null == NULL)
			tq_error_required(what);
		return pstrdup(if_null);
	}
	name = text_to_cstring(PG_GETARG_TEXT_PP(n));
	tq_arg_check_word(name, what, TQ_MAX_NAME);
	return name;
}

/* Returns an optional word such as a key, or NULL if it is not given. */
char *
tq_arg_word(FunctionCallInfo fcinfo, int n, const char *what, int max)
{
	char *word;

	if (PG_ARGISNULL(n))
		return NULL;
	word = text_to_cstring(PG_GETARG_TEXT_PP(n));
	tq_arg_check_word(word, what, max);
	return word;
}

/*
 * Returns free text of the caller, cut to the length that is kept, or NULL if
 * it is not given.
 */
char *
tq_arg_message(FunctionCallInfo fcinfo, int n)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return tq_arg_cut(text_to_cstring(PG_GETARG_TEXT_PP(n)),
					  TQ_MAX_ERROR_TEXT);
}

/* An optional word of a fixed list, which the caller compares. */
char *
tq_arg_keyword(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		return NULL;
	return text_to_cstring(PG_GETARG_TEXT_PP(n));
}

int64
tq_arg_int8(FunctionCallInfo fcinfo, int n, const char *what)
{
	if (PG_ARGISNULL(n))
		tq_error_required(what);
	return PG_GETARG_INT64(n);
}

/* Returns NULL if the argument is null; otherwise stores it in *value. */
const int64 *
tq_arg_int8_if_given(FunctionCallInfo fcinfo, int n, int64 *value)
{
	if (PG_ARGISNULL(n))
		return NULL;
	*value = PG_GETARG_INT64(n);
	return value;
}

bool
tq_arg_bool(FunctionCallInfo fcinfo, int n, bool if_null)
{
	return PG_ARGISNULL(n) ? if_null : PG_GETARG_BOOL(n);
}

/* A duration (base/span.h) from min to ten years. */
int64
tq_arg_span(FunctionCallInfo fcinfo, int n, const char *what, int64 min,
			int64 if_null)
{
	if (PG_ARGISNULL(n))
		return if_null;
	return tq_arg_interval_span(PG_GETARG_INTERVAL_P(n), what, min);
}

/* Reads a duration as a length in microseconds. */
int64
tq_arg_length(FunctionCallInfo fcinfo, int n, const char *what, int64 min,
			  int64 if_null)
{
	return tq_span_length(tq_arg_span(fcinfo, n, what, min, if_null));
}

/* Reads a time at most ten years away.  Returns false if it is not given. */
bool
tq_arg_time(FunctionCallInfo fcinfo, int n, const char *what,
			TimestampTz *time)
{
	TimestampTz now = tq_clock_wall();

	if (PG_ARGISNULL(n))
		return false;
	*time = PG_GETARG_TIMESTAMPTZ(n);
	if (TIMESTAMP_NOT_FINITE(*time))
		tq_error_invalid(what, "must be finite", NULL);
	if (*time > now + TQ_MAX_SPAN || *time < now - TQ_MAX_SPAN)
		tq_error_invalid(what, "is more than ten years away", NULL);
	return true;
}

Jsonb *
tq_arg_jsonb(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : PG_GETARG_JSONB_P(n);
}

/*
 * Reads tags, sorted and without duplicates.  Returns false if they are not
 * given.
 */
bool
tq_arg_tags(FunctionCallInfo fcinfo, int n, TqTags *tags)
{
	Datum *values;
	int    count;

	tags->count = 0;
	tags->tags = NULL;
	if (PG_ARGISNULL(n))
		return false;
	values = tq_arg_array(fcinfo, n, "tags", TEXTOID, &count);
	tags->tags = tq_arg_words(values, count, "tags", "tag", TQ_MAX_TAG);
	tags->count = count;
	tq_arg_tags_sort(tags);
	if (tags->count > TQ_MAX_TAGS)
		tq_error_too_large("list of tags", tags->count, TQ_MAX_TAGS);
	return true;
}

/* The elements of the list as checked words; max as in tq_arg_check_word. */
char **
tq_arg_words(const Datum *values, int count, const char *list,
			 const char *what, int max)
{
	char **words =
		palloc_extended(sizeof(char *) * (count + 1), MCXT_ALLOC_HUGE);
	TqPlace place;

	tq_place_begin(&place, list);
	for (int i = 0; i < count; i++)
	{
		place.index = i;
		words[i] = TextDatumGetCString(values[i]);
		tq_arg_check_word(words[i], what, max);
	}
	tq_place_end(&place);
	return words;
}

/* The elements of a one-dimensional array without null values. */
Datum *
tq_arg_array(FunctionCallInfo fcinfo, int n, const char *what, Oid element,
			 int *count)
{
	ArrayType *array = PG_GETARG_ARRAYTYPE_P(n);
	int16      length;
	bool       by_value;
	char       align;
	Datum     *values;
	bool      *nulls;

	if (ARR_NDIM(array) > 1)
		ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
						errmsg("%s must be a one-dimensional array", what)));
	tq_arg_check_list(what, ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)));
	get_typlenbyvalalign(element, &length, &by_value, &align);
	deconstruct_array(array, element, length, by_value, align, &values, &nulls,
					  count);
	for (int i = 0; i < *count; i++)
	{
		if (nulls[i])
			ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
							errmsg("%s must not contain null values", what),
							errcontext("entry %s[%d]", what, i)));
	}
	return values;
}

/* To be called before memory is allocated for each entry of the list. */
void
tq_arg_check_list(const char *list, int64 count)
{
	if (count > TQ_MAX_LIST)
		tq_error_too_long(list, count, TQ_MAX_LIST,
						  "Divide the list among several calls.");
}

/*
 * Raise an error unless the word has 1 to max bytes and no control character.
 */
void
tq_arg_check_word(const char *word, const char *what, int max)
{
	size_t      length = strlen(word);
	const char *hint = strcmp(what, "queue") == 0 ? tq_error_payload_hint(word)
												  : NULL;

	if (length == 0)
		tq_error_invalid(what, "must not be empty", NULL);
	if (length > (size_t) max)
		tq_error_too_long(what, (int64) length, max, hint);
	if (has_control_character(word))
		tq_error_invalid(what, "must not contain control characters", hint);
}

/* Makes the same check, but raises no error. */
bool
tq_arg_word_is_valid(const char *word, int max)
{
	size_t length = strlen(word);

	return length > 0 && length <= (size_t) max &&
		   !has_control_character(word);
}

int64
tq_arg_interval_span(Interval *interval, const char *what, int64 min)
{
	int64  span;
	double length = tq_span_read(interval, &span);

	if (length < (double) min)
		tq_error_invalid(
			what, min > 0 ? "must be positive" : "must not be negative", NULL);
	if (length > (double) TQ_MAX_SPAN)
		tq_error_invalid(what, "must not exceed ten years", NULL);
	return span;
}

/* The text, cut at a character boundary if it is longer than max bytes. */
char *
tq_arg_cut(const char *text, int max)
{
	int length = (int) strlen(text);

	if (length > max)
		length = pg_mbcliplen(text, length, max);
	return pnstrdup(text, length);
}

/*
 * Returns the tags as text[].  An empty set is a null pointer, since the
 * column is then null.
 */
Datum
tq_arg_tags_datum(const TqTags *tags)
{
	Datum *values;

	if (tags->count == 0)
		return (Datum) 0;
	values = palloc(sizeof(Datum) * tags->count);
	for (int i = 0; i < tags->count; i++)
		values[i] = CStringGetTextDatum(tags->tags[i]);
	return PointerGetDatum(construct_array(values, tags->count, TEXTOID, -1,
										   false, TYPALIGN_INT));
}

/*
 * Reads the tags of a row.  Returns false if the stored array contains a null.
 */
bool
tq_arg_tags_read(Datum stored, TqTags *tags)
{
	if (!tq_arg_tags_stored(stored, tags))
		return false;
	tq_arg_tags_sort(tags);
	return true;
}

/* Reads the tags of a row in stored order. */
bool
tq_arg_tags_stored(Datum stored, TqTags *tags)
{
	Datum *values;
	bool  *nulls;

	deconstruct_array(DatumGetArrayTypeP(stored), TEXTOID, -1, false,
					  TYPALIGN_INT, &values, &nulls, &tags->count);
	tags->tags = palloc(sizeof(char *) * (tags->count + 1));
	for (int i = 0; i < tags->count; i++)
	{
		if (nulls[i])
			return false;
		tags->tags[i] = TextDatumGetCString(values[i]);
	}
	return true;
}

/* Is each element of the array some also in the array all? Both are sorted. */
bool
tq_arg_tags_subset(const TqTags *some, const TqTags *all)
{
	int j = 0;

	for (int i = 0; i < some->count; i++)
	{
		int order = 1;

		while (j < all->count &&
			   (order = strcmp(some->tags[i], all->tags[j])) > 0)
			j++;
		if (j >= all->count || order != 0)
			return false;
	}
	return true;
}

void
tq_arg_tags_sort(TqTags *tags)
{
	if (tags->count < 2)
		return;
	qsort(tags->tags, tags->count, sizeof(char *), compare_strings);
	tags->count = (int) qunique(tags->tags, tags->count, sizeof(char *),
								compare_strings);
}

/* C0 and DEL, and in UTF-8 also C1. */
static bool
has_control_character(const char *word)
{
	bool utf8 = GetDatabaseEncoding() == PG_UTF8;

	for (const unsigned char *p = (const unsigned char *) word; *p; p++)
	{
		if (*p < 0x20 || *p == 0x7f)
			return true;
		if (utf8 && *p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)
			return true;
	}
	return false;
}

static int
compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}
