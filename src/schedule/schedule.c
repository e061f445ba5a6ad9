/*
 * schedule.c
 *		taskq_schedule, taskq_unschedule, taskq_run_schedule.
 *
 * Programs save their schedules each time they start.  A schedule that is
 * saved again with the same text and time zone keeps its anchor and its next
 * planned time, so that a program which restarts more often than its schedule
 * fires does not postpone it for ever.
 *
 * A schedule belongs to the role that saved it last.  Others need the
 * privileges of that role, or manage on its queue, to change it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "cron/cron.h"
#include "engine/call.h"
#include "engine/change_log.h"
#include "schedule/cron_schedule.h"
#include "schedule/fire.h"
#include "schedule/schedule_flow.h"
#include "schedule/schedule_row.h"

#define ARG_CATCH_UP 6

#define MAX_TEXT 500 /* bytes of the text that says when it fires */

PG_FUNCTION_INFO_V1(taskq_schedule);
PG_FUNCTION_INFO_V1(taskq_unschedule);
PG_FUNCTION_INFO_V1(taskq_run_schedule);

static void  read_arguments(FunctionCallInfo fcinfo, TqSchedule *schedule);
static char *choice(FunctionCallInfo fcinfo, int n, const char *what,
					const char *const *words, const char *if_null,
					const char *hint);
static void  check_task(TqSchedule *schedule);
static void  keep_place(TqSchedule *schedule, const TqSchedule *before,
						TqPlan *plan);
static char *started(const TqSchedule *schedule, int64 task_id);
static void  require_owner(const TqSchedule *schedule);

Datum
taskq_schedule(PG_FUNCTION_ARGS)
{
	TqSchedule schedule = {0};
	TqSchedule before = {0};
	TqPlan     plan;
	TqCall     call;

	read_arguments(fcinfo, &schedule);
	tq_call_begin(&call, "taskq_schedule()");
	check_task(&schedule);
	schedule.role_id = tq_role_intern(GetUserId());
	while (!tq_schedule_row_find(schedule.name, &before))
	{
		CHECK_FOR_INTERRUPTS();
		(void) tq_schedule_row_add(&schedule);
	}
	require_owner(&before);
	keep_place(&schedule, &before, &plan);
	if (schedule.cron && !PG_ARGISNULL(ARG_CATCH_UP))
		tq_error_invalid("catch_up", "cannot be set for a cron expression",
						 "pg_cron does not fire missed planned times.");
	tq_cron_schedule_keep(&schedule, &before);
	tq_schedule_row_define(&schedule);
	tq_schedule_row_place(&schedule, &plan);
	tq_change_log_add("schedule", schedule.queue, schedule.name,
					  psprintf("{\"schedule\": %s, \"timezone\": %s, "
							   "\"enabled\": %s}",
							   tq_change_log_word(schedule.text),
							   tq_change_log_word(schedule.zone),
							   schedule.enabled ? "true" : "false"),
					  tq_arg_message(fcinfo, 9));
	tq_call_end(&call);
	PG_RETURN_VOID();
}

static void
read_arguments(FunctionCallInfo fcinfo, TqSchedule *schedule)
{
	static const char *const overlaps[] = {"allow", "skip", "replace", NULL};
	static const char *const catch_ups[] = {"none", "one", "all", NULL};

	schedule->name = tq_arg_name(fcinfo, 0, "name", NULL);
	schedule->text = tq_arg_word(fcinfo, 1, "schedule", MAX_TEXT);
	if (schedule->text == NULL)
		tq_error_required("schedule");
	schedule->queue = tq_arg_name(fcinfo, 2, "queue", NULL);
	schedule->payload = tq_arg_jsonb(fcinfo, 3);
	schedule->zone = tq_arg_name(fcinfo, 4, "timezone", "UTC");
	schedule->overlap = choice(fcinfo, 5, "overlap", overlaps, "allow",
							   "Allowed: allow, skip, replace.");
	schedule->catch_up = choice(fcinfo, ARG_CATCH_UP, "catch_up", catch_ups,
								"one", "Allowed: none, one, all.");
	schedule->options = tq_arg_jsonb(fcinfo, 7);
	schedule->enabled = tq_arg_bool(fcinfo, 8, true);
	schedule->last_run = DT_NOEND;
}

static char *
choice(FunctionCallInfo fcinfo, int n, const char *what,
	   const char *const *words, const char *if_null, const char *hint)
{
	char *word = tq_arg_keyword(fcinfo, n, what);

	if (word == NULL)
		return pstrdup(if_null);
	for (int i = 0; words[i] != NULL; i++)
	{
		if (strcmp(word, words[i]) == 0)
			return word;
	}
	tq_error_invalid(what, "has an unknown value", hint);
}

/* Check the task as at a submit, including the right of the caller. */
static void
check_task(TqSchedule *schedule)
{
	LOCAL_FCINFO(inner, TQ_SUBMIT_COUNT);
	TqSubmission sub = {0};

	if (tq_queue_find(schedule->queue) == NULL)
		tq_error_no_such_queue(schedule->queue);
	if (tq_schedule_flow_given(schedule))
	{
		tq_schedule_flow_check(schedule);
		return;
	}
	tq_fire_read(schedule, inner, &sub);
	tq_submission_resolve(inner, &sub);
	if (schedule->payload != NULL)
		tq_submission_check_size(sub.queue, "payload",
								 VARSIZE(schedule->payload));
}

/*
 * Decide from which planned time the schedule continues.  Planned times that
 * passed while it was disabled are not missed.
 */
static void
keep_place(TqSchedule *schedule, const TqSchedule *before, TqPlan *plan)
{
	TimestampTz now = tq_clock_wall();
	bool        same = strcmp(schedule->text, before->text) == 0 &&
				strcmp(schedule->zone, before->zone) == 0;

	schedule->last_run = before->last_run;
	schedule->last_task_id = before->last_task_id;
	schedule->last_workflow_id = before->last_workflow_id;
	tq_plan_read(schedule->text, schedule->zone, same ? before->anchor : now,
				 !same, plan);
	if (!same && plan->once && plan->anchor <= now)
		tq_error_invalid("schedule", "is a time that has passed", NULL);
	schedule->anchor = plan->anchor;
	schedule->cron = plan->cron;
	if (same)
		schedule->misses = before->misses;
	if (same && before->enabled)
		schedule->position = before->position;
	else
		schedule->position =
			Max(same ? before->position : 0, tq_plan_after(plan, now));
}

Datum
taskq_unschedule(PG_FUNCTION_ARGS)
{
	char      *name = tq_arg_name(fcinfo, 0, "name", NULL);
	TqSchedule schedule = {0};
	bool       found;
	TqCall     call;

	tq_call_begin(&call, "taskq_unschedule()");
	found = tq_schedule_row_find(name, &schedule);
	if (found)
	{
		require_owner(&schedule);
		if (schedule.cron)
			tq_cron_remove(name, schedule.job_id);
		(void) tq_schedule_row_delete(name);
		tq_change_log_add("unschedule", schedule.queue, name, NULL,
						  tq_arg_message(fcinfo, 1));
	}
	tq_call_end(&call);
	PG_RETURN_BOOL(found);
}

Datum
taskq_run_schedule(PG_FUNCTION_ARGS)
{
	char      *name = tq_arg_name(fcinfo, 0, "name", NULL);
	TqSchedule schedule = {0};
	int64      task_id;
	bool       submitted;
	TqCall     call;

	tq_call_begin(&call, "taskq_run_schedule()");
	if (!tq_schedule_row_find(name, &schedule))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("schedule \"%s\" does not exist", name),
						errhint("Save it with taskq_schedule().")));
	require_owner(&schedule);
	submitted = tq_fire_now(&schedule, &task_id);
	tq_change_log_add("run_schedule", schedule.queue, name,
					  submitted ? started(&schedule, task_id) : NULL,
					  tq_arg_message(fcinfo, 1));
	tq_call_end(&call);
	if (!submitted)
		PG_RETURN_NULL();
	PG_RETURN_INT64(task_id);
}

/* What a schedule has started, as JSON. */
static char *
started(const TqSchedule *schedule, int64 task_id)
{
	if (schedule->last_workflow_id != 0)
		return psprintf("{\"workflow_id\": " INT64_FORMAT "}",
						schedule->last_workflow_id);
	return psprintf("{\"task_id\": " INT64_FORMAT "}", task_id);
}

/* Raise 42501 unless the caller may change the schedule. */
static void
require_owner(const TqSchedule *schedule)
{
	Oid      owner = tq_role_oid(schedule->role_id);
	TqQueue *queue = tq_queue_find(schedule->queue);
	int rights = queue == NULL ? tq_role_rights_all() : tq_role_rights(queue);

	if ((rights & TQ_RIGHT_MANAGE) == 0 &&
		!(OidIsValid(owner) && has_privs_of_role(GetUserId(), owner)))
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for schedule \"%s\"", schedule->name),
			 errhint(
				 "It needs the privileges of the schedule's owner, or the right manage on its queue.")));
}
