/*
 * worst_outcome.c
 *		taskq_worst_outcome: the worst of several outcomes, for composite work.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/place.h"

PG_FUNCTION_INFO_V1(taskq_worst_outcome);

Datum
taskq_worst_outcome(PG_FUNCTION_ARGS)
{
	static const char *const words[] = {"complete", "filter", "suspend",
										"fail"};
	Datum                   *values;
	int                      count;
	TqPlace                  place;
	int                      worst = -1;

	if (PG_ARGISNULL(0))
		tq_error_required("outcomes");
	values = tq_arg_array(fcinfo, 0, "outcomes", TEXTOID, &count);
	tq_place_begin(&place, "outcomes");
	for (int i = 0; i < count; i++)
	{
		char *word = TextDatumGetCString(values[i]);
		int   rank = 0;

		place.index = i;
		while (rank < lengthof(words) && strcmp(words[rank], word) != 0)
			rank++;
		if (rank == lengthof(words))
			tq_error_invalid("outcomes", "has an unknown value",
							 "Allowed: complete, filter, suspend, fail.");
		worst = Max(worst, rank);
	}
	tq_place_end(&place);
	if (worst < 0)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(words[worst]));
}
