/*
 * span.c
 *		Durations.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/span.h"
#include "base/types.h"

#define YEAR (INT64CONST(365) * USECS_PER_DAY)
#define MONTH (INT64CONST(30) * USECS_PER_DAY)

StaticAssertDecl(TQ_MAX_SPAN < TQ_SPAN_MONTH / 2,
				 "microseconds of a duration stay below its months");

static int32 months_of(int64 span);

/*
 * Returns the length of an interval in microseconds.  If the length is from 0
 * to TQ_MAX_SPAN, *span is the duration.  Negative months, and more months
 * than days and time subtract again, count by their length.
 */
double
tq_span_read(const Interval *interval, int64 *span)
{
	int32  months = interval->month;
	double rest = (double) interval->day * (double) USECS_PER_DAY +
				  (double) interval->time;
	double length = (double) (months / MONTHS_PER_YEAR) * (double) YEAR +
					(double) (months % MONTHS_PER_YEAR) * (double) MONTH +
					rest;

	*span = 0;
	if (length < 0 || length > (double) TQ_MAX_SPAN)
		return length;
	if (months > 0 && months <= 10 * MONTHS_PER_YEAR)
		*span = months * TQ_SPAN_MONTH + (int64) rest;
	else
		*span = (int64) length;
	return length;
}

int64
tq_span_length(int64 span)
{
	int32 months = months_of(span);

	return months / MONTHS_PER_YEAR * YEAR + months % MONTHS_PER_YEAR * MONTH +
		   (span - months * TQ_SPAN_MONTH);
}

/* The time at plus the duration. */
TimestampTz
tq_span_after(TimestampTz at, int64 span)
{
	Interval interval = {0};

	interval.month = months_of(span);
	if (interval.month == 0)
		return at + span;
	interval.time = span - interval.month * TQ_SPAN_MONTH;
	/* without a time zone, that is in UTC */
	return DatumGetTimestamp(
		DirectFunctionCall2(timestamp_pl_interval, TimestampGetDatum(at),
							IntervalPGetDatum(&interval)));
}

/* The duration that ends later if both begin at the given time. */
int64
tq_span_longer(TimestampTz at, int64 a, int64 b)
{
	return tq_span_after(at, a) >= tq_span_after(at, b) ? a : b;
}

static int32
months_of(int64 span)
{
	return (int32) ((span + TQ_SPAN_MONTH / 2) / TQ_SPAN_MONTH);
}
