/*
 * plan.h
 *		The planned times of a schedule.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PLAN_H
#define TQ_PLAN_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "pgtime.h"

typedef struct TqPlan
{
	pg_tz      *zone;
	bool        cron;     /* by pg_cron: the planned times are not known */
	bool        once;     /* at its anchor only */
	Interval    step;     /* between planned times */
	bool        has_time; /* a time of day is given */
	int64       time;     /* us since midnight */
	TimestampTz anchor;   /* when it was saved, or the only time */
} TqPlan;

extern void        tq_plan_read(const char *text, const char *zone,
								TimestampTz anchor, bool is_new, TqPlan *plan);
extern TimestampTz tq_plan_time(const TqPlan *plan, int64 n);
extern int64       tq_plan_after(const TqPlan *plan, TimestampTz at);

#endif /* TQ_PLAN_H */
