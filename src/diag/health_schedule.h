/*
 * health_schedule.h
 *		taskq_health(): schedules, and their jobs of pg_cron.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEALTH_SCHEDULE_H
#define TQ_HEALTH_SCHEDULE_H

#include "diag/health_report.h"

extern void tq_health_schedules(TqHealth *health);
extern void tq_health_cron_jobs(TqHealth *health);

#endif /* TQ_HEALTH_SCHEDULE_H */
