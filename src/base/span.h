/*
 * span.h
 *		Durations.
 *
 * A duration is one non-negative int64: microseconds, plus months in units of
 * TQ_SPAN_MONTH.  So it can be compared with 0, and without months it is a
 * number of microseconds.  tq_span_after() adds it to a time by the calendar
 * in UTC.  As a length (tq_span_length()), a month counts 30 days and a year
 * 365. TQ_FOREVER is not a duration.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SPAN_H
#define TQ_SPAN_H

#include "base/compat.h"

#include "datatype/timestamp.h"

#define TQ_SPAN_MONTH (INT64CONST(1) << 50)

extern double      tq_span_read(const Interval *interval, int64 *span);
extern int64       tq_span_length(int64 span);
extern TimestampTz tq_span_after(TimestampTz at, int64 span);
extern int64       tq_span_longer(TimestampTz at, int64 a, int64 b);

#endif /* TQ_SPAN_H */
