/*
 * schedule_flow.h
 *		Schedules that start workflows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SCHEDULE_FLOW_H
#define TQ_SCHEDULE_FLOW_H

#include "schedule/schedule_row.h"

extern bool  tq_schedule_flow_given(const TqSchedule *schedule);
extern void  tq_schedule_flow_check(const TqSchedule *schedule);
extern bool  tq_schedule_flow_clear(const TqSchedule *schedule);
extern int64 tq_schedule_flow_start(const TqSchedule *schedule,
									Jsonb            *headers);

#endif /* TQ_SCHEDULE_FLOW_H */
