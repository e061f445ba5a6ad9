/*
 * cron_schedule.c
 *		Schedules that pg_cron fires.
 *
 * pg_cron alone interprets cron expressions.  The planned time of a firing is
 * the minute in which pg_cron calls taskq.fire_cron(), and two calls in one
 * minute are one firing.  position is the first minute that may still fire, so
 * no minute fires twice when the wall clock is set back.
 *
 * If the task cannot be submitted, position and due_at make the duty try the
 * same minute again, until the next one fires.
 *
 * A disabled schedule has no job.  In a copy of a database, which may contain
 * copies of the jobs, nothing fires; taskq_activate() writes the jobs again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "nodes/pg_list.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/subxact.h"
#include "cache/activation.h"
#include "command/activate.h"
#include "cron/cron.h"
#include "engine/call.h"
#include "schedule/cron_schedule.h"
#include "schedule/fire.h"

PG_FUNCTION_INFO_V1(taskq_fire_cron);

static void check_name(const TqSchedule *schedule);
static void write_jobs(void);
static void write_job(void *arg);

void
tq_cron_schedule_init(void)
{
	tq_activate_hook = write_jobs;
}

/*
 * A schedule is saved, in the place of another one: write its job, or remove
 * the job that it had.
 */
void
tq_cron_schedule_keep(TqSchedule *schedule, const TqSchedule *before)
{
	if (schedule->cron)
	{
		check_name(schedule);
		tq_cron_require(schedule->zone);
	}
	if (schedule->cron && schedule->enabled)
		schedule->job_id =
			tq_cron_write(schedule->name, schedule->text, before->job_id);
	else if (before->cron)
		tq_cron_remove(before->name, before->job_id);
}

static void
check_name(const TqSchedule *schedule)
{
	if (strlen(schedule->name) > TQ_CRON_MAX_NAME)
		tq_error_too_long(
			"name", strlen(schedule->name), TQ_CRON_MAX_NAME,
			"The name of a schedule with a cron expression is part of the name of its job.");
}

/* Write the jobs of a database that is activated. */
static void
write_jobs(void)
{
	ListCell *cell;

	foreach (cell, tq_schedule_row_cron_names())
	{
		char      *name = lfirst(cell);
		ErrorData *error = tq_subxact_run(write_job, name);

		CHECK_FOR_INTERRUPTS();
		if (error == NULL)
			continue;
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
			ERRCODE_OPERATOR_INTERVENTION)
			ReThrowError(error);
		tq_schedule_row_set_job(name, 0, error->message);
	}
}

static void
write_job(void *arg)
{
	TqSchedule schedule = {0};

	if (!tq_schedule_row_find(arg, &schedule) || !schedule.cron ||
		!schedule.enabled)
		return;
	tq_cron_require(schedule.zone);
	tq_schedule_row_set_job(
		schedule.name,
		tq_cron_write(schedule.name, schedule.text, schedule.job_id), NULL);
}

/* Called by pg_cron. */
Datum
taskq_fire_cron(PG_FUNCTION_ARGS)
{
	/* before waits for locks */
	TimestampTz now = tq_clock_wall();
	char       *name = tq_arg_name(fcinfo, 0, "name", NULL);
	TqSchedule  schedule = {0};
	TqCall      call;

	if (!tq_activation_allows_duties())
		PG_RETURN_VOID();
	tq_call_begin(&call, "taskq.fire_cron()");
	if (tq_schedule_row_find(name, &schedule) && schedule.cron &&
		schedule.enabled)
		tq_fire_minute(&schedule, now);
	tq_call_end(&call);
	PG_RETURN_VOID();
}
