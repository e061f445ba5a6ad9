/*
 * fire.c
 *		Firing a schedule: one planned time, one task.
 *
 * The number of the next planned time is in the schedule's row, and the
 * transaction that submits the task moves it on.  So a planned time fires at
 * most once, whatever happens to the server.  The task has a reference made of
 * the name and the planned time, which excludes a second one even if the
 * schedule was removed and saved again.
 *
 * Planned times are times of the wall clock.  After a step backward the next
 * planned time stays where it was; after a step forward, as after an outage,
 * catch_up decides which of the times passed fire.
 *
 * A cron expression is fired by pg_cron (cron_schedule.c).
 *
 * The task is submitted with the rights of the schedule's owner.  If that
 * fails, the error is kept in the row, the planned time stays due, and the
 * schedule is tried again after a pause.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/subxact.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "command/manage.h"
#include "command/submit.h"
#include "engine/call.h"
#include "engine/state.h"
#include "schedule/fire.h"
#include "schedule/schedule_flow.h"
#include "store/row.h"
#include "store/snapshot.h"

#define RETRY_PAUSE USECS_PER_MINUTE

/* A planned time that is later than this was missed. */
#define GRACE (2 * USECS_PER_MINUTE)

/* One firing. */
typedef struct Firing
{
	TqSchedule *schedule;
	TimestampTz planned; /* until one is chosen: now */
	bool        by_hand;
	bool        skipped;
	int64       task_id; /* or the id of the instance */
} Firing;

static void   process(const TqSchedule *schedule, TimestampTz now);
static void   fire_due(void *arg);
static bool   choose(TqSchedule *schedule, const TqPlan *plan, TimestampTz now,
					 int64 last);
static void   fire(Firing *firing);
static bool   clear_earlier(TqCall *call, const TqSchedule *schedule);
static void   submit(TqCall *call, Firing *firing);
static void   start_workflow(Firing *firing);
static Jsonb *add_headers(Jsonb *given, const Firing *firing);
static char  *utc_text(TimestampTz at);

/* Read the description of a schedule's tasks. */
void
tq_fire_read(const TqSchedule *schedule, FunctionCallInfo inner,
			 TqSubmission *sub)
{
	static const TqEntryKind kind = {
		"options", NULL,
		(1 << TQ_SUBMIT_QUEUE) | (1 << TQ_SUBMIT_PAYLOAD) |
			(1 << TQ_SUBMIT_RUN_AT) | (1 << TQ_SUBMIT_DEADLINE) |
			(1 << TQ_SUBMIT_REFERENCE) | (1 << TQ_SUBMIT_ON_CONFLICT)};
	bool named[TQ_SUBMIT_COUNT] = {false};

	InitFunctionCallInfoData(*inner, NULL, TQ_SUBMIT_COUNT, InvalidOid, NULL,
							 NULL);
	for (int i = 0; i < TQ_SUBMIT_COUNT; i++)
		inner->args[i].isnull = true;
	if (schedule->options != NULL)
	{
		JsonbValue entry;

		if (!JB_ROOT_IS_OBJECT(schedule->options))
			tq_error_invalid("options", "must be a JSON object", NULL);
		entry.type = jbvBinary;
		entry.val.binary.data = &schedule->options->root;
		entry.val.binary.len = VARSIZE(schedule->options) - VARHDRSZ;
		tq_submission_read_entry(inner, &entry, &kind, named);
	}
	for (int i = 0; i < TQ_SUBMIT_COUNT; i++)
	{
		if (named[i] && (kind.refused & (1 << i)) != 0)
			tq_error_invalid(
				"options", "has a member that a schedule does not allow",
				"Not allowed: queue, payload, run_at, deadline, reference, on_conflict.");
	}
	tq_submission_read(inner, sub, schedule->queue);
}

/*
 * The duty.  Process the schedules that are due, at most limit of them.
 * Returns the number processed.
 */
int64
tq_fire_run(int limit)
{
	TimestampTz now = tq_clock_wall();
	TqSchedule  schedule;
	TqCall      call;
	int64       acted = 0;

	tq_call_begin(&call, "taskq duties");
	while (acted < limit && tq_schedule_row_due(now, &schedule))
	{
		CHECK_FOR_INTERRUPTS();
		process(&schedule, now);
		acted++;
	}
	tq_call_end(&call);
	return acted;
}

/* When the duty must run again, on the dispatch clock. */
TimestampTz
tq_fire_next(void)
{
	TimestampTz due = tq_schedule_row_next_due();

	return due == DT_NOEND ? due
						   : due + (tq_clock_dispatch() - tq_clock_wall());
}

/*
 * Process a schedule that is due and whose row is locked.  Its error does not
 * keep the others from firing.
 */
static void
process(const TqSchedule *schedule, TimestampTz now)
{
	TqSchedule chosen = *schedule;
	Firing     firing = {&chosen, now};
	ErrorData *error = tq_subxact_run(fire_due, &firing);
	int        category;

	if (error == NULL)
		return;
	category = ERRCODE_TO_CATEGORY(error->sqlerrcode);
	if (category == ERRCODE_OPERATOR_INTERVENTION ||
		category == ERRCODE_TRANSACTION_ROLLBACK)
		ReThrowError(error);
	tq_schedule_row_postpone(schedule, error->message, now + RETRY_PAUSE);
}

/*
 * pg_cron fires a schedule, whose row is locked: fire it for the current
 * minute, unless that has been done.
 */
void
tq_fire_minute(TqSchedule *schedule, TimestampTz now)
{
	int64 minute = now / USECS_PER_MINUTE;

	if (minute < schedule->position)
		return;
	schedule->position = minute;
	process(schedule, now);
}

static void
fire_due(void *arg)
{
	Firing     *firing = arg;
	TqSchedule *schedule = firing->schedule;
	TimestampTz now = firing->planned;
	TqPlan      plan;

	tq_plan_read(schedule->text, schedule->zone, schedule->anchor, false,
				 &plan);
	if (plan.cron ||
		choose(schedule, &plan, now, tq_plan_after(&plan, now) - 1))
	{
		firing->planned = plan.cron ? schedule->position * USECS_PER_MINUTE
									: tq_plan_time(&plan, schedule->position);
		fire(firing);
		schedule->position++;
	}
	schedule->problem = NULL;
	tq_schedule_row_place(schedule, &plan);
}

/*
 * Move the schedule on to the planned time that fires now, and count those
 * that are missed.  Returns false if none fires.  last is the latest planned
 * time that has come.
 */
static bool
choose(TqSchedule *schedule, const TqPlan *plan, TimestampTz now, int64 last)
{
	int64 first = last;

	if (last < schedule->position)
		return false;
	if (strcmp(schedule->catch_up, "all") == 0)
		first = Max(schedule->position, last - tq_guc_max_catch_up + 1);
	else if (strcmp(schedule->catch_up, "none") == 0 &&
			 now - tq_plan_time(plan, last) > GRACE)
		first = last + 1;
	schedule->misses += first - schedule->position;
	schedule->position = first;
	return first <= last;
}

/*
 * Fire a schedule by hand.  Its row is locked, and keeps its next planned
 * time.  Returns false if no task was submitted.
 */
bool
tq_fire_now(TqSchedule *schedule, int64 *task_id)
{
	Firing firing = {schedule, tq_clock_wall(), true};
	TqPlan plan;

	tq_plan_read(schedule->text, schedule->zone, schedule->anchor, false,
				 &plan);
	fire(&firing);
	schedule->problem = NULL;
	tq_schedule_row_place(schedule, &plan);
	*task_id = firing.task_id;
	return !firing.skipped;
}

/* Submit the task of a planned time, as the owner of the schedule. */
static void
fire(Firing *firing)
{
	TqSchedule *schedule = firing->schedule;
	Oid         owner = tq_role_oid(schedule->role_id);
	Oid         user;
	int         context;
	TqCall      call;

	/* in a copy, a role that is missing has a number that no role has */
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(owner)))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("owner of schedule \"%s\" does not exist",
							   schedule->name)));
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(owner, context | SECURITY_LOCAL_USERID_CHANGE);
	tq_call_begin(&call, "taskq schedules");
	if (tq_queue_find(schedule->queue) == NULL)
		tq_error_no_such_queue(schedule->queue);
	firing->skipped = !tq_schedule_flow_clear(schedule) ||
					  !clear_earlier(&call, schedule);
	if (firing->skipped)
		schedule->misses++;
	else if (tq_schedule_flow_given(schedule))
		start_workflow(firing);
	else
		submit(&call, firing);
	tq_call_end(&call);
	SetUserIdAndSecContext(user, context);
}

/*
 * Deal with the task of an earlier planned time, if it is live.  Returns false
 * if it keeps this one from being submitted.
 */
static bool
clear_earlier(TqCall *call, const TqSchedule *schedule)
{
	bool replace = strcmp(schedule->overlap, "replace") == 0;

	if (schedule->last_task_id == 0 || strcmp(schedule->overlap, "allow") == 0)
		return true;
	for (;; tq_snapshot_renew())
	{
		TqWish   wish = {TQ_ACTION_CANCEL};
		TqMove   move = {0};
		TqTask   task;
		TqQueue *queue;

		CHECK_FOR_INTERRUPTS();
		wish.automatic = true;
		if (!tq_row_find(call, schedule->last_task_id, &task) ||
			!TQ_STATE_IS_LIVE(task.f.state) ||
			(queue = tq_queue_by_id(task.f.queue_id)) == NULL)
			return true;
		if (!replace)
			return false;
		move.to = TQ_STATE_REDUNDANT;
		move.wanted = "replace";
		if (task.f.state == TQ_STATE_RUNNING
				? tq_manage_try(call, queue, &task, &wish)
				: tq_state_enter(call, queue, &task, &move))
			return true;
	}
}

static void
submit(TqCall *call, Firing *firing)
{
	LOCAL_FCINFO(inner, TQ_SUBMIT_COUNT);
	TqSchedule  *schedule = firing->schedule;
	TqSubmission sub = {0};

	tq_fire_read(schedule, inner, &sub);
	tq_submission_resolve(inner, &sub);
	sub.headers = add_headers(sub.headers, firing);
	if (!firing->by_hand)
	{
		sub.reference =
			psprintf("%s@%s", schedule->name, utc_text(firing->planned));
		sub.on_conflict = TQ_CONFLICT_RETURN;
	}
	tq_snapshot_renew();
	(void) tq_submit_one(call, &sub, schedule->payload, &firing->task_id);
	schedule->last_task_id = firing->task_id;
	schedule->last_workflow_id = 0;
	schedule->last_run = firing->planned;
}

static void
start_workflow(Firing *firing)
{
	TqSchedule *schedule = firing->schedule;

	firing->task_id =
		tq_schedule_flow_start(schedule, add_headers(NULL, firing));
	schedule->last_workflow_id = firing->task_id;
	schedule->last_task_id = 0;
	schedule->last_run = firing->planned;
}

/* Tell the worker which schedule and planned time the task is for. */
static Jsonb *
add_headers(Jsonb *given, const Firing *firing)
{
	StringInfoData text;
	Datum          added;

	initStringInfo(&text);
	appendStringInfoString(&text, "{\"schedule\": ");
	escape_json(&text, firing->schedule->name);
	appendStringInfo(&text, ", \"planned_at\": \"%s\"}",
					 utc_text(firing->planned));
	added = DirectFunctionCall1(jsonb_in, CStringGetDatum(text.data));
	if (given != NULL)
		added =
			DirectFunctionCall2(jsonb_concat, JsonbPGetDatum(given), added);
	return DatumGetJsonbP(added);
}

/* The time in UTC as in ISO 8601, as the server writes it into JSON. */
static char *
utc_text(TimestampTz at)
{
	int utc = 0;

	return JsonEncodeDateTime(NULL, TimestampTzGetDatum(at), TIMESTAMPTZOID,
							  &utc);
}
