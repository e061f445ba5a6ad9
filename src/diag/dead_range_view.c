/*
 * dead_range_view.c
 *		SQL view of dead ranges: taskq.range_numbers(), and in the test build
 *		the table of dead ranges.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/timestamp.h"

#include "base/srf.h"
#include "shared/dead_range.h"

PG_FUNCTION_INFO_V1(taskq_range_numbers);
#ifdef TASKQ_DEBUG
PG_FUNCTION_INFO_V1(taskq_debug_range_moment);
PG_FUNCTION_INFO_V1(taskq_debug_range_learn);
PG_FUNCTION_INFO_V1(taskq_debug_range_lower);
PG_FUNCTION_INFO_V1(taskq_debug_range_read);
PG_FUNCTION_INFO_V1(taskq_debug_range_learn_priorities);
PG_FUNCTION_INFO_V1(taskq_debug_range_priorities);
#endif

Datum
taskq_range_numbers(PG_FUNCTION_ARGS)
{
	TqDeadRangeNumbers numbers;
	Datum              values[8];
	bool               nulls[8];

	memset(nulls, !tq_dead_range_numbers(&numbers), sizeof(nulls));
	values[0] = Int64GetDatum(numbers.entries);
	values[1] = Int64GetDatum(numbers.ranges);
	values[2] = Int64GetDatum(numbers.learned);
	values[3] = Int64GetDatum(numbers.refused);
	values[4] = Int64GetDatum(numbers.lowered);
	values[5] = Int64GetDatum(numbers.evicted);
	values[6] = Int64GetDatum(numbers.audited);
	values[7] = Int64GetDatum(numbers.repaired);
	return tq_srf_row(fcinfo, values, nulls);
}

#ifdef TASKQ_DEBUG
Datum
taskq_debug_range_moment(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) tq_dead_range_moment());
}

Datum
taskq_debug_range_learn(PG_FUNCTION_ARGS)
{
	TqPosition lo = {PG_GETARG_TIMESTAMPTZ(2), PG_GETARG_INT64(3)};
	TqPosition hi = {PG_GETARG_TIMESTAMPTZ(4), PG_GETARG_INT64(5)};

	tq_dead_range_learn(PG_GETARG_INT64(0), (int16) PG_GETARG_INT32(1), lo, hi,
						(TqDeadRangeMoment) PG_GETARG_INT64(6));
	PG_RETURN_VOID();
}

Datum
taskq_debug_range_lower(PG_FUNCTION_ARGS)
{
	TqLanePosition place = {0};

	place.lane_id = PG_GETARG_INT64(0);
	place.priority = (int16) PG_GETARG_INT32(1);
	place.available_at = PG_GETARG_TIMESTAMPTZ(2);
	place.task_id = PG_GETARG_INT64(3);
	tq_dead_range_lower(&place, 1);
	PG_RETURN_VOID();
}

Datum
taskq_debug_range_read(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TqDeadRange    ranges[TQ_RANGES];
	int            count;

	tq_srf_begin(fcinfo);
	count = tq_dead_range_read(PG_GETARG_INT64(0), (int16) PG_GETARG_INT32(1),
							   ranges);
	for (int i = 0; i < count; i++)
	{
		Datum values[4];
		bool  nulls[4] = {false, false, false, false};

		values[0] = TimestampTzGetDatum(ranges[i].lo.at);
		values[1] = Int64GetDatum(ranges[i].lo.task_id);
		values[2] = TimestampTzGetDatum(ranges[i].hi.at);
		values[3] = Int64GetDatum(ranges[i].hi.task_id);
		tq_srf_add(result, values, nulls);
	}
	return (Datum) 0;
}

Datum
taskq_debug_range_learn_priorities(PG_FUNCTION_ARGS)
{
	ArrayType *list = PG_GETARG_ARRAYTYPE_P(1);

	tq_dead_range_learn_priorities(
		PG_GETARG_INT64(0), (int16 *) ARR_DATA_PTR(list),
		ArrayGetNItems(ARR_NDIM(list), ARR_DIMS(list)),
		(TqDeadRangeMoment) PG_GETARG_INT64(2));
	PG_RETURN_VOID();
}

Datum
taskq_debug_range_priorities(PG_FUNCTION_ARGS)
{
	int16 priorities[TQ_RANGE_PRIORITIES];
	Datum values[TQ_RANGE_PRIORITIES];
	int   count;

	if (!tq_dead_range_priorities(PG_GETARG_INT64(0), priorities, &count))
		PG_RETURN_NULL();
	for (int i = 0; i < count; i++)
		values[i] = Int16GetDatum(priorities[i]);
	PG_RETURN_ARRAYTYPE_P(
		construct_array(values, count, INT2OID, 2, true, TYPALIGN_SHORT));
}
#endif
