/*
 * cron_schedule.h
 *		Schedules that pg_cron fires.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CRON_SCHEDULE_H
#define TQ_CRON_SCHEDULE_H

#include "schedule/schedule_row.h"

extern void tq_cron_schedule_keep(TqSchedule       *schedule,
								  const TqSchedule *before);
extern void tq_cron_schedule_init(void);

#endif /* TQ_CRON_SCHEDULE_H */
