/*
 * fire.h
 *		Firing a schedule.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FIRE_H
#define TQ_FIRE_H

#include "base/compat.h"

#include "command/submission.h"
#include "schedule/schedule_row.h"

extern void  tq_fire_read(const TqSchedule *schedule, FunctionCallInfo inner,
						  TqSubmission *sub);
extern bool  tq_fire_now(TqSchedule *schedule, int64 *task_id);
extern void  tq_fire_minute(TqSchedule *schedule, TimestampTz now);
extern int64 tq_fire_run(int limit);
extern TimestampTz tq_fire_next(void);

#endif /* TQ_FIRE_H */
