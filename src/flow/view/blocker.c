/*
 * blocker.c
 *		Describes what keeps the steps of an instance from finishing, and the
 *		call that helps.
 *
 * A blocker is a step that a worker alone cannot continue: it has failed, is
 * suspended, waits for a signal, a timer or another workflow, for its next
 * attempt, or for other tasks of its key.  A step that only waits for its
 * parents is not a blocker.
 *
 * The state of a step is shown only if its queue may be read.  Names are those
 * of the template, which is shown with all of its steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "base/clock.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "diag/explain_text.h"
#include "flow/instance/flow.h"
#include "flow/instance/step_rule.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/compensation.h"
#include "flow/run/tally.h"
#include "flow/run/wait_step.h"
#include "flow/view/blocker.h"
#include "store/archive.h"

static TqStmt stmt_since = {
	"SELECT suspended_at FROM taskq.task WHERE task_id = $1", {INT8OID}};

static bool is_waiting(const TqFlow *flow, const TqStepRow *step);
static void say_wait(StringInfo text, TqFlow *flow, int place, int64 task_id);
static bool has_no_queue(int64 task_id);
static TimestampTz since_when(int64 task_id);
static void        say_call(StringInfo text, const TqFlow *flow, int place,
							int64 task_id);
static void say_signal(StringInfo text, const TqStep *step, TimestampTz since);
static void say_child(StringInfo text, int64 task_id);
static bool find_child(int64 task_id, TqFlow *child);

/* Read the current rows of the steps, or the rows that the snapshot sees. */
void
tq_blocker_look(TqFlowView *sight, TqFlow *flow)
{
	int    places = flow->template->step_count + 1;
	int32 *left;

	sight->flow = flow;
	sight->count = tq_flow_steps(flow, &sight->made);
	sight->exists = palloc0(sizeof(bool) * places);
	sight->ended = palloc0(sizeof(bool) * places);
	for (int i = 0; i < sight->count; i++)
	{
		const TqStepRow *step = &sight->made[i];
		int              place = TQ_STEP_INDEX(step->step_id);
		bool             ended = step->state == TQ_STATE_DONE ||
					 step->state == TQ_STATE_FILTERED;

		sight->ended[place] = ended &&
							  (sight->ended[place] || !sight->exists[place]);
		sight->exists[place] = true;
	}
	sight->undone_count = tq_flow_compensations(flow, &sight->undone);
	sight->undone_left = 0;
	if (sight->undone_count > 0)
		sight->undone_left = tq_compensation_left(flow, &left);
}

/*
 * Do the steps that depend on this one wait until it is repaired, or does the
 * instance fail?
 */
bool
tq_blocker_has_failed(const TqFlow *flow, const TqStepRow *step)
{
	if (step->state == TQ_STATE_DEAD)
		return TQ_STEP_COMPENSATES(step->step_id) ||
			   !tq_step_rule_is_excused(flow->template, step->step_id);
	return step->state == TQ_STATE_CANCELLED ||
		   step->state == TQ_STATE_REDUNDANT ||
		   step->state == TQ_STATE_RECREATED;
}

/*
 * Among the given steps (by index), returns the step that failed first, or
 * NULL.  Steps that the caller may not see, or that failed because of another
 * step, are skipped.  Sets *hidden if a step has failed that the caller may
 * not see.
 */
const TqStepRow *
tq_blocker_root(const TqFlowView *sight, const bool *places, bool *hidden)
{
	const TqStepRow *root = NULL;

	*hidden = false;
	for (int i = 0; i < sight->count; i++)
	{
		const TqStepRow *step = &sight->made[i];
		int              place = TQ_STEP_INDEX(step->step_id);
		bool             follows = step->state == TQ_STATE_CANCELLED &&
					   step->reason == TQ_REASON_DEPENDENCY_FAILED;

		if ((places != NULL && !places[place]) || follows ||
			!tq_blocker_has_failed(sight->flow, step) ||
			tq_step_rule_is_passed(sight->flow->template, step->step_id,
								   step->state))
			continue;
		if (!tq_flow_sees(
				tq_template_at(sight->flow->template, step->step_id)))
			*hidden = true;
		else if (root == NULL || step->finished_at < root->finished_at)
			root = step;
	}
	return root;
}

/* Does the step need more than a worker?  It may be a compensation. */
bool
tq_blocker_is(const TqFlow *flow, const TqStepRow *step)
{
	if (step->state == TQ_STATE_CANCELLED &&
		step->reason == TQ_REASON_DEPENDENCY_FAILED)
		return false;
	return tq_blocker_has_failed(flow, step) ||
		   step->state == TQ_STATE_SUSPENDED || step->is.backoff ||
		   step->is.in_line ||
		   (step->state == TQ_STATE_PENDING && !step->is.ready);
}

/* Append what the blocker is, and what to do about it; without a period. */
void
tq_blocker_say(StringInfo text, TqFlow *flow, const TqStepRow *step)
{
	StringInfoData advice;

	initStringInfo(&advice);
	tq_blocker_why(text, flow, step);
	tq_blocker_do(&advice, flow, step);
	if (advice.len > 0)
		appendStringInfo(text, ": %s", advice.data);
}

/* Append what the blocker is. */
void
tq_blocker_why(StringInfo text, TqFlow *flow, const TqStepRow *step)
{
	if (is_waiting(flow, step))
		say_wait(text, flow, TQ_STEP_INDEX(step->step_id), step->task_id);
	else if (step->state == TQ_STATE_PENDING)
		appendStringInfo(text, "waits for its %s",
						 step->is.backoff ? "next attempt" : "start time");
	else if (step->state == TQ_STATE_BLOCKED)
		appendStringInfoString(text, "waits for other tasks of its key");
	else
	{
		appendStringInfo(text, "is %s", tq_state_name(step->state));
		if (step->reason != TQ_REASON_NONE)
			appendStringInfo(text, " (%s)", tq_reason_name(step->reason));
	}
}

/* Append the call that helps, if there is one, and its effect. */
void
tq_blocker_do(StringInfo text, TqFlow *flow, const TqStepRow *step)
{
	int64 task_id = step->task_id;

	if (is_waiting(flow, step))
		say_call(text, flow, TQ_STEP_INDEX(step->step_id), task_id);
	else if (!TQ_STATE_IS_LIVE(step->state) && has_no_queue(task_id))
		appendStringInfoString(text, "its queue was dropped, so it cannot be "
									 "repaired: start the workflow again");
	else if (step->state == TQ_STATE_DEAD)
		appendStringInfo(
			text,
			"taskq_retry(" INT64_FORMAT
			") runs it again%s, taskq_resolve(" INT64_FORMAT
			") marks it as done",
			task_id,
			tq_step_rule_is_passed(flow->template, step->step_id, step->state)
				? " unless a step that depends on it has begun"
				: "",
			task_id);
	else if (step->state == TQ_STATE_CANCELLED)
		appendStringInfo(
			text, "taskq_retry(" INT64_FORMAT ") runs it after all", task_id);
	else if (step->state == TQ_STATE_SUSPENDED)
		appendStringInfo(text, "taskq_retry(" INT64_FORMAT ") resumes it",
						 task_id);
	else if (TQ_STATE_IS_LIVE(step->state))
		appendStringInfo(text, "taskq_explain(" INT64_FORMAT ") shows more",
						 task_id);
}

/* Tasks of a dropped queue can no longer be managed. */
static bool
has_no_queue(int64 task_id)
{
	TqTask task;

	return tq_archive_find(task_id, &task) &&
		   tq_queue_by_id(task.f.queue_id) == NULL;
}

/* Has the step been reached, and waits for something other than a worker? */
static bool
is_waiting(const TqFlow *flow, const TqStepRow *step)
{
	return step->state == TQ_STATE_SUSPENDED &&
		   step->reason == TQ_REASON_NONE &&
		   !TQ_STEP_COMPENSATES(step->step_id) &&
		   tq_step_waits(
			   flow->template->steps[TQ_STEP_INDEX(step->step_id)].type);
}

/* What the step waits for, and until when. */
static void
say_wait(StringInfo text, TqFlow *flow, int place, int64 task_id)
{
	const TqStep *step = &flow->template->steps[place];
	TimestampTz   since = since_when(task_id);
	TimestampTz   until = 0;

	if (step->type == TQ_STEP_WORKFLOW)
	{
		say_child(text, task_id);
		return;
	}
	if (since != 0)
		until = tq_waiting_step_until(task_id, since);
	if (step->type == TQ_STEP_TIMER)
	{
		appendStringInfo(text, "waits until %s",
						 until == 0 ? "its timer is due"
									: tq_explain_time(until));
		return;
	}
	say_signal(text, step, since);
	if (until != 0)
		appendStringInfo(text, "; if it does not arrive, the step is %s at %s",
						 step->wait->completes ? "done" : "dead",
						 tq_explain_time(until));
}

/* The call that ends the wait, or shows more about it. */
static void
say_call(StringInfo text, const TqFlow *flow, int place, int64 task_id)
{
	const TqStep *step = &flow->template->steps[place];
	TqFlow        child;

	if (tq_passive_takes_signal(step))
		appendStringInfo(
			text, "taskq_signal(" INT64_FORMAT ", %s%s) sends it",
			flow->workflow_id, quote_literal_cstr(step->wait->signal),
			step->type == TQ_STEP_APPROVAL ? ", '{\"approved\": true}'" : "");
	else if (step->type == TQ_STEP_TIMER)
		appendStringInfo(
			text, "taskq_resolve(" INT64_FORMAT ") marks it as done", task_id);
	else if (find_child(task_id, &child))
		appendStringInfo(text, "taskq_workflow(" INT64_FORMAT ") shows more",
						 child.workflow_id);
}

static TimestampTz
since_when(int64 task_id)
{
	Datum arg = Int64GetDatum(task_id);

	return tq_spi_find_time(&stmt_since, &arg, 0);
}

/* Append the signal, and the roles that may give it. */
static void
say_signal(StringInfo text, const TqStep *step, TimestampTz since)
{
	const TqWaitDefinition *wait = step->wait;

	appendStringInfo(text, "waits for %s \"%s\"",
					 step->type == TQ_STEP_APPROVAL ? "approval" : "signal",
					 wait->signal);
	if (wait->role == NULL)
		return;
	appendStringInfo(text, ", which members of role \"%s\" can give",
					 wait->role);
	if (wait->escalate_to != NULL && since != 0)
	{
		TimestampTz later = since + wait->escalate_after;

		appendStringInfo(text, ", and %s %s members of role \"%s\"",
						 later <= tq_clock_wall() ? "since" : "from",
						 tq_explain_time(later), wait->escalate_to);
	}
}

/* The child instance of the step, as far as it may be seen. */
static void
say_child(StringInfo text, int64 task_id)
{
	TqFlow     child;
	TqTally    tally;
	TqStepRow *made;
	int        count;

	if (!tq_flow_find_child(task_id, &child))
	{
		appendStringInfoString(
			text, "waits to start its workflow: another transaction was "
				  "using the same identity or creating a queue of its steps");
		return;
	}
	if (tq_flow_sight(child.template) == 0)
	{
		appendStringInfoString(text,
							   "waits for the workflow that it has started");
		return;
	}
	count = tq_flow_steps(&child, &made);
	tq_tally_count(&child, made, count, &tally);
	appendStringInfo(
		text, "waits for workflow " INT64_FORMAT " (\"%s\"), which is %s",
		child.workflow_id, child.template->name,
		tq_tally_state(&child, &tally));
}

/* Returns false if there is no child that the caller may see. */
static bool
find_child(int64 task_id, TqFlow *child)
{
	return tq_flow_find_child(task_id, child) &&
		   tq_flow_sight(child->template) > 0;
}
