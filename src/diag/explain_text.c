/*
 * explain_text.c
 *		Common parts of all explanations: text for times, tags and reasons, and
 *		why background processing is off.
 *
 * In the test build a session counts which reasons it has given
 * (taskq.debug_reasons), so that a test can check that each one occurred.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/guc.h"
#include "base/srf.h"
#include "cache/activation.h"
#include "diag/explain_text.h"
#include "shared/shmem.h"
#include "shared/worker_directory.h"

#define LINE_MAX_BYTES 500

#ifdef TASKQ_DEBUG
PG_FUNCTION_INFO_V1(taskq_debug_reasons);

static const char *const names[] = {
	[TQ_WHY_DONE] = "done",
	[TQ_WHY_DEAD_EXHAUSTED] = "dead_exhausted",
	[TQ_WHY_DEAD_REJECTED] = "dead_rejected",
	[TQ_WHY_DEAD_DEADLINE] = "dead_deadline",
	[TQ_WHY_DEAD_WORKER] = "dead_worker",
	[TQ_WHY_DEAD_LEASE] = "dead_lease",
	[TQ_WHY_DEAD_TIMEOUT] = "dead_timeout",
	[TQ_WHY_DEAD_OTHERWISE] = "dead_otherwise",
	[TQ_WHY_CANCELLED] = "cancelled",
	[TQ_WHY_FILTERED] = "filtered",
	[TQ_WHY_REDUNDANT] = "redundant",
	[TQ_WHY_RECREATED] = "recreated",
	[TQ_WHY_LOST_LEASE] = "lost_lease",
	[TQ_WHY_LOST_TIME] = "lost_time",
	[TQ_WHY_LOST_WORKER] = "lost_worker",
	[TQ_WHY_CANCEL_REQUESTED] = "cancel_requested",
	[TQ_WHY_WORKER_STALE] = "worker_stale",
	[TQ_WHY_RUNS_BY_WORKER] = "runs_by_worker",
	[TQ_WHY_RUNS_BY_LABEL] = "runs_by_label",
	[TQ_WHY_RUNS_BY_NOBODY] = "runs_by_nobody",
	[TQ_WHY_SUSPENDED] = "suspended",
	[TQ_WHY_BLOCKED] = "blocked",
	[TQ_WHY_BUSY] = "busy",
	[TQ_WHY_DEADLINE_PAST] = "deadline_past",
	[TQ_WHY_RETRY_LATER] = "retry_later",
	[TQ_WHY_NOT_DUE] = "not_due",
	[TQ_WHY_NO_WORKER] = "no_worker",
	[TQ_WHY_OTHER_TAGS] = "other_tags",
	[TQ_WHY_WORKERS_DEAD] = "workers_dead",
	[TQ_WHY_WORKERS_STALE] = "workers_stale",
	[TQ_WHY_WORKERS_DRAINING] = "workers_draining",
	[TQ_WHY_WORKERS_FULL] = "workers_full",
	[TQ_WHY_READY_BEHIND] = "ready_behind",
	[TQ_WHY_READY_NEXT] = "ready_next",
	[TQ_WHY_STEP_PARENTS] = "step_parents",
	[TQ_WHY_STEP_FAILED] = "step_failed",
	[TQ_WHY_STEP_CHOICE] = "step_choice",
	[TQ_WHY_STEP_SIGNAL] = "step_signal",
	[TQ_WHY_STEP_APPROVAL] = "step_approval",
	[TQ_WHY_STEP_TIMER] = "step_timer",
	[TQ_WHY_STEP_WORKFLOW] = "step_workflow",
	[TQ_WHY_STEP_STOPPED] = "step_stopped",
	[TQ_WHY_STEP_OVER] = "step_over",
	[TQ_WHY_PAUSED_ALL] = "paused_all",
	[TQ_WHY_PAUSED] = "paused",
	[TQ_WHY_LIMIT_NOT_PRELOADED] = "limit_not_preloaded",
	[TQ_WHY_QUEUE_LIMIT] = "queue_limit",
	[TQ_WHY_RATE_LIMIT] = "rate_limit",
	[TQ_WHY_CLAIM_STANDBY] = "claim_standby",
	[TQ_WHY_CLAIM_NO_QUEUE] = "claim_no_queue",
	[TQ_WHY_CLAIM_QUEUE_REFUSED] = "claim_queue_refused",
	[TQ_WHY_CLAIM_NO_QUEUES] = "claim_no_queues",
	[TQ_WHY_CLAIM_NO_RIGHT] = "claim_no_right",
	[TQ_WHY_CLAIM_WORKER_UNKNOWN] = "claim_worker_unknown",
	[TQ_WHY_CLAIM_WORKER_DEAD] = "claim_worker_dead",
	[TQ_WHY_CLAIM_WORKER_DRAINING] = "claim_worker_draining",
	[TQ_WHY_CLAIM_WORKER_LIMIT] = "claim_worker_limit",
	[TQ_WHY_CLAIM_GETS] = "claim_gets",
	[TQ_WHY_CLAIM_TOO_MANY] = "claim_too_many",
	[TQ_WHY_CLAIM_BUSY] = "claim_busy",
	[TQ_WHY_CLAIM_DEADLINE] = "claim_deadline",
	[TQ_WHY_CLAIM_OTHER_TAGS] = "claim_other_tags",
	[TQ_WHY_CLAIM_LATER] = "claim_later",
	[TQ_WHY_CLAIM_LATER_OTHER_TAGS] = "claim_later_other_tags",
	[TQ_WHY_CLAIM_ALL_RUNNING] = "claim_all_running",
	[TQ_WHY_CLAIM_NONE_PENDING] = "claim_none_pending",
	[TQ_WHY_CLAIM_EMPTY] = "claim_empty",
	[TQ_WHY_NOT_PRELOADED] = "not_preloaded",
	[TQ_WHY_NOT_ACTIVATED] = "not_activated",
	[TQ_WHY_NO_BACKGROUND_WORKER] = "no_background_worker",
	[TQ_WHY_DEADLINE_AHEAD] = "deadline_ahead",
	[TQ_WHY_WAITERS] = "waiters",
	[TQ_WHY_CLAIM_WAITERS] = "claim_waiters"};

StaticAssertDecl(lengthof(names) == TQ_WHY_LAST + 1,
				 "every reason has a name");

static int64 given[TQ_WHY_LAST + 1];

/* Return (name, given): every reason, and how often this session gave it. */
Datum
taskq_debug_reasons(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	tq_srf_begin(fcinfo);
	for (int i = 0; i <= TQ_WHY_LAST; i++)
	{
		Datum values[2];
		bool  nulls[2] = {names[i] == NULL, false};

		values[0] = nulls[0] ? (Datum) 0 : CStringGetTextDatum(names[i]);
		values[1] = Int64GetDatum(given[i]);
		tq_srf_add(result, values, nulls);
	}
	return (Datum) 0;
}
#endif

/* Count a reason that is given. */
void
tq_explain_because(TqWhy why)
{
#ifdef TASKQ_DEBUG
	given[why]++;
#endif
}

/* Format a time as the session writes it. */
char *
tq_explain_time(TimestampTz at)
{
	return DatumGetCString(
		DirectFunctionCall1(timestamptz_out, TimestampTzGetDatum(at)));
}

/* Format microseconds as an interval. */
char *
tq_explain_span(int64 span)
{
	Interval interval = {0};

	interval.time = span;
	return DatumGetCString(
		DirectFunctionCall1(interval_out, IntervalPGetDatum(&interval)));
}

/* Return the first line of a text, shortened if necessary. */
static char *
first_line(const char *text)
{
	return tq_arg_cut(pnstrdup(text, strcspn(text, "\r\n")), LINE_MAX_BYTES);
}

/* Format tags as a literal of text[]: {a,b} */
char *
tq_explain_tags(const TqTags *tags)
{
	Oid  out;
	bool varlena;

	if (tags->count == 0)
		return "{}";
	getTypeOutputInfo(TEXTARRAYOID, &out, &varlena);
	return OidOutputFunctionCall(out, tq_arg_tags_datum(tags));
}

/* Append a message, if there is one and the caller may see it. */
void
tq_explain_words(TqExplain *e, const char *before, const char *words)
{
	if (words != NULL && e->words)
		appendStringInfo(&e->text, "%s\"%s\"", before, first_line(words));
}

/*
 * Report why background processing is off in this database, and how to change
 * that; return false if it is on.  On a standby it runs on the primary.
 */
bool
tq_explain_upkeep(TqExplain *e, const char *before)
{
	StringInfo text = &e->text;

	if (RecoveryInProgress())
		return false;
	if (!tq_shmem_ready())
	{
		tq_explain_because(TQ_WHY_NOT_PRELOADED);
		appendStringInfo(
			text,
			"%staskq is not loaded via shared_preload_libraries,"
			" so there is no background worker; call taskq_run_reapers(), or"
			" add taskq to shared_preload_libraries and restart"
			" the server.",
			before);
		return true;
	}
	if (!tq_activation_allows_duties())
	{
		tq_explain_because(TQ_WHY_NOT_ACTIVATED);
		appendStringInfo(text,
						 "%sthis database is a copy that has not been"
						 " activated; a superuser must call"
						 " taskq_activate().",
						 before);
		return true;
	}
	if (tq_worker_directory_has_worker(MyDatabaseId))
		return false;
	tq_explain_because(TQ_WHY_NO_BACKGROUND_WORKER);
	appendStringInfo(
		text, "%sthe background worker of this database is not running; ",
		before);
	if (tq_worker_directory_lacks_slot())
		appendStringInfo(
			text,
			"increase \"max_worker_processes\" (currently %d) and restart"
			" the server.",
			max_worker_processes);
	else if (tq_worker_directory_lacks_room())
		appendStringInfo(
			text,
			"increase \"taskq.max_databases\" (currently %d) and restart"
			" the server.",
			tq_guc_max_databases);
	else
		appendStringInfoString(text, "see the server log for the reason.");
	appendStringInfoString(
		text, " Until then, taskq_run_reapers() does its work once per call.");
	return true;
}

/* Report when a task past its deadline becomes dead. */
void
tq_explain_deadline_duty(TqExplain *e)
{
	appendStringInfo(&e->text,
					 "; the background worker makes it dead within"
					 " \"taskq.deadline_interval\" (%s).",
					 tq_explain_span(tq_guc_usecs(tq_guc_deadline_interval)));
}
