/*
 * schedule_row.h
 *		A row of taskq.schedule.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SCHEDULE_ROW_H
#define TQ_SCHEDULE_ROW_H

#include "base/compat.h"

#include "utils/jsonb.h"

#include "schedule/plan.h"

typedef struct TqSchedule
{
	char       *name;
	char       *text;
	char       *queue;
	Jsonb      *payload; /* or NULL */
	char       *zone;
	char       *overlap;
	char       *catch_up;
	Jsonb      *options; /* or NULL */
	bool        enabled;
	int32       role_id;
	TimestampTz anchor;
	int64       position; /* number of the next planned time; of a cron
						   * expression: minute from which it may fire */
	TimestampTz last_run; /* DT_NOEND: none */
	int64       last_task_id;
	int64       last_workflow_id;
	int64       misses;
	char       *problem; /* or NULL */
	bool        cron;
	int64       job_id; /* of pg_cron, or 0 */
} TqSchedule;

extern bool        tq_schedule_row_find(const char *name, TqSchedule *row);
extern bool        tq_schedule_row_due(TimestampTz now, TqSchedule *row);
extern TimestampTz tq_schedule_row_next_due(void);
extern void        tq_schedule_row_define(const TqSchedule *row);
extern void  tq_schedule_row_place(const TqSchedule *row, const TqPlan *plan);
extern void  tq_schedule_row_postpone(const TqSchedule *row,
									  const char *problem, TimestampTz due);
extern void  tq_schedule_row_set_job(const char *name, int64 job_id,
									 const char *problem);
extern List *tq_schedule_row_cron_names(void);
extern bool  tq_schedule_row_add(const TqSchedule *row);
extern bool  tq_schedule_row_delete(const char *name);

#endif /* TQ_SCHEDULE_ROW_H */
