/*
 * span.h
 *		Durations.
 *
 * A duration is one int64 that is not negative: microseconds, and above them
 * months, in units of TQ_SPAN_MONTH.  So it can be compared with 0, and
 * without months it is a number of microseconds.  To a moment it is added by
 * tq_span_after(), as the calendar does in UTC; compared as a length a month
 * counts 30 days and a year 365 (tq_span_length()).  TQ_FOREVER is none.
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
