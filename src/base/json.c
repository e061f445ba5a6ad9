/*
 * json.c
 *		Members of JSON documents given by callers, as C values.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/json.h"

static Numeric whole_number(const char *name, JsonbValue *value);

bool
tq_json_is_object(const JsonbValue *value)
{
	return value->type == jbvBinary &&
		   JsonContainerIsObject(value->val.binary.data);
}

bool
tq_json_is_list(const JsonbValue *value)
{
	return value->type == jbvBinary &&
		   JsonContainerIsArray(value->val.binary.data) &&
		   !JsonContainerIsScalar(value->val.binary.data);
}

/* Returns a member of an object, or NULL if it is missing or null. */
JsonbValue *
tq_json_member(const JsonbValue *value, const char *name)
{
	JsonbValue *found;

	if (!tq_json_is_object(value))
		return NULL;
	found = getKeyJsonValueFromContainer(value->val.binary.data, name,
										 strlen(name), NULL);
	return found == NULL || found->type == jbvNull ? NULL : found;
}

/* Raises 22003 if the integer is out of range. */
int32
tq_json_int4(const char *name, JsonbValue *value)
{
	double number = DatumGetFloat8(
		DirectFunctionCall1(numeric_float8_no_overflow,
							NumericGetDatum(whole_number(name, value))));

	if (number < PG_INT32_MIN || number > PG_INT32_MAX)
		ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						errmsg("%s is out of range for type integer", name)));
	return (int32) number;
}

/* Raises 22003 if the integer is out of range. */
int64
tq_json_int8(const char *name, JsonbValue *value)
{
	return DatumGetInt64(DirectFunctionCall1(
		numeric_int8, NumericGetDatum(whole_number(name, value))));
}

/* An interval given as text, as a duration (base/span.h). */
int64
tq_json_span(const char *name, JsonbValue *value)
{
	Datum interval = DirectFunctionCall3(
		interval_in, CStringGetDatum(tq_json_string(name, value)),
		ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));

	return tq_arg_interval_span(DatumGetIntervalP(interval), name, 0);
}

bool
tq_json_bool(const char *name, JsonbValue *value)
{
	if (value->type != jbvBool)
		tq_error_invalid(name, "must be true or false", NULL);
	return value->val.boolean;
}

char *
tq_json_string(const char *name, JsonbValue *value)
{
	if (value->type != jbvString)
		tq_error_invalid(name, "must be a string", NULL);
	return pnstrdup(value->val.string.val, value->val.string.len);
}

static Numeric
whole_number(const char *name, JsonbValue *value)
{
	if (value->type != jbvNumeric ||
		!DatumGetBool(DirectFunctionCall2(
			numeric_eq, NumericGetDatum(value->val.numeric),
			DirectFunctionCall2(numeric_trunc,
								NumericGetDatum(value->val.numeric),
								Int32GetDatum(0)))))
		tq_error_invalid(name, "must be an integer", NULL);
	return value->val.numeric;
}
