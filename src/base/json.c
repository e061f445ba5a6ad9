/*
 * json.c
 *		Members of JSON documents that callers give, as C values.
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

int32
tq_json_int4(const char *name, JsonbValue *value)
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

/* 22003 when the integer is out of range. */
int64
tq_json_int8(const char *name, JsonbValue *value)
{
	if (value->type != jbvNumeric ||
		!DatumGetBool(DirectFunctionCall2(
			numeric_eq, NumericGetDatum(value->val.numeric),
			DirectFunctionCall2(numeric_trunc,
								NumericGetDatum(value->val.numeric),
								Int32GetDatum(0)))))
		tq_error_invalid(name, "must be an integer", NULL);
	return DatumGetInt64(DirectFunctionCall1(
		numeric_int8, NumericGetDatum(value->val.numeric)));
}

/* An interval as text, in microseconds, not below 0. */
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
