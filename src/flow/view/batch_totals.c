/*
 * batch_totals.c
 *		taskq_batch_totals: adds up the results of the members of a batch.
 *
 * Each number among the members of each result is added to the total of its
 * name, as sum(numeric) does, so the cost depends only on the number of
 * results.  Other values are ignored.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

PG_FUNCTION_INFO_V1(taskq_batch_totals_add);
PG_FUNCTION_INFO_V1(taskq_batch_totals_end);

/* A name, not null-terminated. */
typedef struct TotalName
{
	int         length;
	const char *bytes;
} TotalName;

typedef struct Total
{
	TotalName name;
	Datum     sum; /* transition state of numeric_avg_accum */
} Total;

static uint64 seed = 0;

static HTAB  *make_totals(MemoryContext context);
static uint32 hash_name(const void *key, Size size);
static int    compare_names(const void *a, const void *b, Size size);
static void   add(FunctionCallInfo fcinfo, HTAB *totals, MemoryContext context,
				  const JsonbValue *name, Numeric number);

Datum
taskq_batch_totals_add(PG_FUNCTION_ARGS)
{
	HTAB              *totals;
	MemoryContext      context;
	Jsonb             *result;
	JsonbIterator     *it;
	JsonbValue         name;
	JsonbValue         value;
	JsonbIteratorToken token;

	if (!AggCheckCallContext(fcinfo, &context))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("taskq.batch_totals_add() is part of an aggregate")));
	totals = PG_ARGISNULL(0) ? make_totals(context)
							 : (HTAB *) PG_GETARG_POINTER(0);
	if (PG_ARGISNULL(1))
		PG_RETURN_POINTER(totals);
	result = PG_GETARG_JSONB_P(1);
	if (!JB_ROOT_IS_OBJECT(result))
		PG_RETURN_POINTER(totals);
	it = JsonbIteratorInit(&result->root);
	(void) JsonbIteratorNext(&it, &value, true);
	while ((token = JsonbIteratorNext(&it, &name, true)) == WJB_KEY)
	{
		(void) JsonbIteratorNext(&it, &value, true);
		if (value.type == jbvNumeric)
			add(fcinfo, totals, context, &name, value.val.numeric);
	}
	PG_RETURN_POINTER(totals);
}

Datum
taskq_batch_totals_end(PG_FUNCTION_ARGS)
{
	JsonbParseState *state = NULL;
	HASH_SEQ_STATUS  scan;
	Total           *total;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	if (!PG_ARGISNULL(0))
	{
		hash_seq_init(&scan, (HTAB *) PG_GETARG_POINTER(0));
		while ((total = hash_seq_search(&scan)) != NULL)
		{
			LOCAL_FCINFO(sum, 1);
			JsonbValue value;

			InitFunctionCallInfoData(*sum, NULL, 1, InvalidOid,
									 fcinfo->context, NULL);
			sum->args[0].value = total->sum;
			sum->args[0].isnull = false;
			value.type = jbvString;
			value.val.string.val = (char *) total->name.bytes;
			value.val.string.len = total->name.length;
			(void) pushJsonbValue(&state, WJB_KEY, &value);
			value.type = jbvNumeric;
			value.val.numeric = DatumGetNumeric(numeric_sum(sum));
			(void) pushJsonbValue(&state, WJB_VALUE, &value);
		}
	}
	PG_RETURN_JSONB_P(
		JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
}

static HTAB *
make_totals(MemoryContext context)
{
	HASHCTL control = {0};

	/* a random seed: a caller cannot choose names with the same hash */
	while (seed == 0)
		seed = pg_prng_uint64(&pg_global_prng_state);
	control.keysize = sizeof(TotalName);
	control.entrysize = sizeof(Total);
	control.hash = hash_name;
	control.match = compare_names;
	control.hcxt = context;
	return hash_create("taskq totals", 16, &control,
					   HASH_ELEM | HASH_FUNCTION | HASH_COMPARE |
						   HASH_CONTEXT);
}

static uint32
hash_name(const void *key, Size size)
{
	const TotalName *name = key;

	return (uint32) hash_bytes_extended((const unsigned char *) name->bytes,
										name->length, seed);
}

static int
compare_names(const void *a, const void *b, Size size)
{
	const TotalName *one = a;
	const TotalName *other = b;

	return one->length != other->length ||
		   memcmp(one->bytes, other->bytes, one->length) != 0;
}

static void
add(FunctionCallInfo fcinfo, HTAB *totals, MemoryContext context,
	const JsonbValue *name, Numeric number)
{
	LOCAL_FCINFO(accumulate, 2);
	TotalName key = {name->val.string.len, name->val.string.val};
	Total    *total;
	bool      found;

	total = hash_search(totals, &key, HASH_ENTER, &found);
	if (!found)
	{
		char *bytes = MemoryContextAlloc(context, key.length + 1);

		memcpy(bytes, key.bytes, key.length);
		total->name.bytes = bytes;
	}
	InitFunctionCallInfoData(*accumulate, NULL, 2, InvalidOid, fcinfo->context,
							 NULL);
	accumulate->args[0].value = found ? total->sum : (Datum) 0;
	accumulate->args[0].isnull = !found;
	accumulate->args[1].value = NumericGetDatum(number);
	accumulate->args[1].isnull = false;
	total->sum = numeric_avg_accum(accumulate);
}
