/*
 * task_content.c
 *		The last error of a task, as current_user may see it.
 *
 * Rows that are shown and filters that compare errors read them here, so that
 * a filter compares what is shown.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/json.h"
#include "base/try.h"
#include "query/contents.h"
#include "query/task_content.h"

/* The time of an error, as it is stored. */
typedef struct Reading
{
	char       *word;
	TimestampTz at;
} Reading;

static void read_time(void *arg);
static bool last_error(Datum errors, JsonbValue *entry);

/*
 * The list of errors, and the text of the last one, which is NULL if it has
 * none.  Returns false if there is no list.
 */
bool
tq_task_content_errors(TqVisibility *sight, TqTask *task, Datum *errors,
					   char **error, int *length)
{
	JsonbValue entry;
	JsonbValue text;

	*error = NULL;
	*length = 0;
	if (!tq_contents_get(sight, task, TQ_COL_ERRORS, errors))
		return false;
	if (last_error(*errors, &entry) &&
		getKeyJsonValueFromContainer(entry.val.binary.data, "error", 5,
									 &text) != NULL &&
		text.type == jbvString)
	{
		*error = text.val.string.val;
		*length = text.val.string.len;
	}
	return true;
}

/* The text of the last error.  Returns false if there is none. */
bool
tq_task_content_error(TqVisibility *sight, TqTask *task, char **error,
					  int *length)
{
	Datum errors;

	return tq_task_content_errors(sight, task, &errors, error, length) &&
		   *error != NULL;
}

/* When the last error occurred.  Returns false if that is not known. */
bool
tq_task_content_error_at(Datum errors, TimestampTz *at)
{
	Reading    reading = {NULL, 0};
	JsonbValue entry;
	JsonbValue word;
	ErrorData *error;

	if (!last_error(errors, &entry) ||
		getKeyJsonValueFromContainer(entry.val.binary.data, "at", 2, &word) ==
			NULL ||
		word.type != jbvString)
		return false;
	reading.word = pnstrdup(word.val.string.val, word.val.string.len);
	error = tq_try(read_time, &reading);
	*at = reading.at;
	return error == NULL && !TIMESTAMP_NOT_FINITE(reading.at);
}

static void
read_time(void *arg)
{
	Reading *reading = arg;

	reading->at = DatumGetTimestampTz(
		DirectFunctionCall3(timestamptz_in, CStringGetDatum(reading->word),
							ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
}

static bool
last_error(Datum errors, JsonbValue *entry)
{
	Jsonb      *list = DatumGetJsonbP(errors);
	JsonbValue *last;

	if (!JB_ROOT_IS_ARRAY(list) || JB_ROOT_IS_SCALAR(list) ||
		JB_ROOT_COUNT(list) == 0)
		return false;
	last = getIthJsonbValueFromContainer(&list->root, JB_ROOT_COUNT(list) - 1);
	if (last == NULL || !tq_json_is_object(last))
		return false;
	*entry = *last;
	return true;
}
