/*
 * preview.c
 *		taskq_preview_schedule: the next planned times of a schedule that need
 *		not exist.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/srf.h"
#include "schedule/plan.h"

#define MOST_ROWS 10000

PG_FUNCTION_INFO_V1(taskq_preview_schedule);

Datum
taskq_preview_schedule(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char          *zone = tq_arg_name(fcinfo, 1, "timezone", "UTC");
	TimestampTz    anchor = tq_clock_wall();
	TimestampTz    after;
	int32          rows = PG_ARGISNULL(4) ? 10 : PG_GETARG_INT32(4);
	int64          n;
	TqPlan         plan;

	tq_srf_begin(fcinfo);
	if (PG_ARGISNULL(0))
		tq_error_required("schedule");
	(void) tq_arg_time(fcinfo, 2, "anchor", &anchor);
	after = anchor;
	(void) tq_arg_time(fcinfo, 3, "after", &after);
	if (rows < 1 || rows > MOST_ROWS)
		tq_error_invalid("max_rows", "must be from 1 to 10000", NULL);
	tq_plan_read(text_to_cstring(PG_GETARG_TEXT_PP(0)), zone, anchor, true,
				 &plan);
	if (plan.cron)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compute planned times of a cron expression"),
				 errhint("Use the form \"every <interval> at <time>\".")));
	n = tq_plan_after(&plan, after);
	for (int i = 0; i < rows; i++)
	{
		TimestampTz at = tq_plan_time(&plan, n + i);
		Datum       value = TimestampTzGetDatum(at);
		bool        isnull = false;

		CHECK_FOR_INTERRUPTS();
		if (at == DT_NOEND)
			break;
		tq_srf_add(result, &value, &isnull);
	}
	return (Datum) 0;
}
