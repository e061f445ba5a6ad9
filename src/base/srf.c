/*
 * srf.c
 *		The rows that a set-returning function returns.
 *
 * They are kept until the function has ended.  Their columns are those that
 * the calling query expects, taken from the function's declaration: another
 * lookup would cost a tenth of a claim that finds nothing.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/tuplestore.h"

#include "base/srf.h"

void
tq_srf_begin(FunctionCallInfo fcinfo)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext  caller;

	if (result == NULL || !IsA(result, ReturnSetInfo) ||
		(result->allowedModes & SFRM_Materialize) == 0 ||
		result->expectedDesc == NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg(
				 "set-valued function called in context that cannot accept a set")));
	caller = MemoryContextSwitchTo(result->econtext->ecxt_per_query_memory);
	result->setResult = tuplestore_begin_heap(
		(result->allowedModes & SFRM_Materialize_Random) != 0, false,
		work_mem);
	result->returnMode = SFRM_Materialize;
	MemoryContextSwitchTo(caller);
}

void
tq_srf_add(ReturnSetInfo *result, const Datum *values, const bool *nulls)
{
	tuplestore_putvalues(result->setResult, result->expectedDesc,
						 unconstify(Datum *, values),
						 unconstify(bool *, nulls));
}

/* The only row of a function that returns one row. */
Datum
tq_srf_row(FunctionCallInfo fcinfo, const Datum *values, const bool *nulls)
{
	TupleDesc desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
											 unconstify(Datum *, values),
											 unconstify(bool *, nulls)));
}
