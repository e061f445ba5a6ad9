/*
 * explain_step.c
 *		taskq_explain for steps of workflows.
 *
 * For a step that waits for other steps, the text names the steps that have
 * not ended.  Then it gives the first of these reasons that applies: a step
 * before it has failed, so that the step stays blocked; a choice before it has
 * not been made; or it names the first of the steps before it that does not
 * wait for another step.  For a step without a worker, the text says for which
 * event it waits.  For a step that has ended, it says which calls are
 * possible.
 *
 * It reads the current rows of the instance's steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"

#include "base/spi.h"
#include "diag/explain_text.h"
#include "engine/step.h"
#include "flow/definition/reach.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/instance/step_rule.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/compensation.h"
#include "flow/run/tally.h"
#include "flow/view/blocker.h"
#include "flow/view/explain_step.h"

#define NAMED 3 /* parents that are named */

static TqStmt stmt_missing = {
	"SELECT parent FROM taskq.edge WHERE workflow_id = $1 AND child = $2"
	" ORDER BY parent",
	{INT8OID, INT4OID}};

static bool explain(TqExplain *e, const TqTask *task);
static bool explain_blocked(TqExplain *e, TqFlow *flow, int32 step_id);
static int  read_missing(const TqFlow *flow, int32 step_id, int32 **missing);
static void say_missing(TqExplain *e, const TqFlowView *sight,
						const int32 *missing, int count);
static const TqStepRow *find(const TqFlowView *sight, int32 step_id);
static void say_cause(TqExplain *e, const TqFlowView *sight, int place,
					  const int32 *missing, int count);
static int  find_choice(const TqFlowView *sight, const bool *places);
static const TqStepRow *first_that_goes(const TqFlowView *sight,
										const bool       *places);
static void explain_waiting(TqExplain *e, TqFlow *flow, int32 step_id,
							int64 task_id);
static bool explain_ended(TqExplain *e, TqFlow *flow, const TqTask *task);
static bool is_over(const TqFlow *flow, int32 step_id, TqState state);

void
tq_explain_step_init(void)
{
	tq_step_hooks.explain = explain;
}

static bool
explain(TqExplain *e, const TqTask *task)
{
	int32         step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	TqFlow        flow;
	const TqStep *step = tq_flow_step_of(task, &flow);

	if (step == NULL)
		return false;
	switch ((TqState) task->f.state)
	{
		case TQ_STATE_BLOCKED:
			return explain_blocked(e, &flow, step_id);
		case TQ_STATE_SUSPENDED:
			if (step->wait == NULL || !tq_waiting_step_is(task))
				return false;
			explain_waiting(e, &flow, step_id, task->f.task_id);
			return true;
		default:
			return explain_ended(e, &flow, task);
	}
}

/* Returns false if the step waits for no parent that the caller may see. */
static bool
explain_blocked(TqExplain *e, TqFlow *flow, int32 step_id)
{
	TqFlowView sight;
	int32     *missing;
	int        count = read_missing(flow, step_id, &missing);

	if (count == 0)
		return false;
	tq_blocker_look(&sight, flow);
	appendStringInfoString(&e->text, "is blocked: it waits for the end of ");
	say_missing(e, &sight, missing, count);
	say_cause(e, &sight, TQ_STEP_INDEX(step_id), missing, count);
	return true;
}

/* Read the parents that the step still waits for.  Returns their number. */
static int
read_missing(const TqFlow *flow, int32 step_id, int32 **missing)
{
	Datum args[2] = {Int64GetDatum(flow->workflow_id), Int32GetDatum(step_id)};

	return (int) tq_spi_list_int4(&stmt_missing, args, missing);
}

/* Name some of the parents, failed ones first. */
static void
say_missing(TqExplain *e, const TqFlowView *sight, const int32 *missing,
			int count)
{
	const TqTemplate *template = sight->flow->template;
	int named = 0;

	for (int failed = 1; failed >= 0; failed--)
	{
		for (int i = 0; i < count && named < NAMED; i++)
		{
			const TqStepRow *parent = find(sight, missing[i]);
			bool seen = tq_flow_sees(tq_template_at(template, missing[i]));
			bool has_failed = seen && parent != NULL &&
							  tq_blocker_has_failed(sight->flow, parent);

			if (has_failed != (failed == 1))
				continue;
			appendStringInfo(&e->text, "%s\"%s\"", named++ > 0 ? ", " : "",
							 tq_results_name(template, missing[i]));
			if (seen)
				appendStringInfo(&e->text, " (%s)",
								 parent == NULL
									 ? "not created yet"
									 : tq_state_name(parent->state));
		}
	}
	if (count > named)
		appendStringInfo(&e->text, " and %d more", count - named);
}

/* Returns NULL if the step does not exist. */
static const TqStepRow *
find(const TqFlowView *sight, int32 step_id)
{
	int low = 0;
	int high = sight->count;

	while (low < high)
	{
		int middle = low + (high - low) / 2;

		if (sight->made[middle].step_id < step_id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < sight->count && sight->made[low].step_id == step_id
			   ? &sight->made[low]
			   : NULL;
}

/* Say why the missing parents are missing, and what to do. */
static void
say_cause(TqExplain *e, const TqFlowView *sight, int place,
		  const int32 *missing, int count)
{
	const TqTemplate *template = sight->flow->template;
	bool            *before = tq_reach_above(template, place);
	StringInfo       text = &e->text;
	int              choice = -1;
	bool             hidden;
	const TqStepRow *step = tq_blocker_root(sight, before, &hidden);

	if (step != NULL || hidden)
	{
		tq_explain_because(TQ_WHY_STEP_FAILED);
		if (step == NULL)
			appendStringInfoString(
				text, "; a step before it has failed, and it stays blocked"
					  " until that step is repaired.");
		else
		{
			appendStringInfo(text,
							 "; it stays blocked as long as step \"%s\" ",
							 tq_results_name(template, step->step_id));
			tq_blocker_say(text, sight->flow, step);
			appendStringInfoChar(text, '.');
		}
		return;
	}
	for (int i = 0; i < count && choice < 0; i++)
	{
		if (find(sight, missing[i]) == NULL)
			choice = find_choice(sight, before);
	}
	if (choice >= 0)
	{
		tq_explain_because(TQ_WHY_STEP_CHOICE);
		appendStringInfo(text,
						 "; step \"%s\" decides which steps are created, and"
						 " it has not finished",
						 template->steps[choice].name);
	}
	else
	{
		tq_explain_because(TQ_WHY_STEP_PARENTS);
		appendStringInfoString(
			text, "; it becomes ready when all of them have finished");
	}
	step = first_that_goes(sight, before);
	if (step != NULL)
		appendStringInfo(
			text, "; taskq_explain(" INT64_FORMAT ") explains step \"%s\"",
			step->task_id, tq_results_name(template, step->step_id));
	appendStringInfoChar(text, '.');
}

/* Returns a decision or batch that has not ended, or -1. */
static int
find_choice(const TqFlowView *sight, const bool *places)
{
	const TqTemplate *template = sight->flow->template;

	for (int i = 0; i < template->step_count; i++)
	{
		int place = template->order[i];

		if (places[place] && !sight->ended[place] &&
			tq_step_chooses(template->steps[place].type))
			return place;
	}
	return -1;
}

/*
 * Returns a step that the caller may see, has not ended, and waits for no
 * other step.
 */
static const TqStepRow *
first_that_goes(const TqFlowView *sight, const bool *places)
{
	for (int i = 0; i < sight->count; i++)
	{
		const TqStepRow *step = &sight->made[i];
		int              place = TQ_STEP_INDEX(step->step_id);

		if (places[place] && TQ_STATE_IS_LIVE(step->state) &&
			(step->state != TQ_STATE_BLOCKED || step->is.in_line) &&
			tq_flow_sees(tq_template_at(sight->flow->template, step->step_id)))
			return step;
	}
	return NULL;
}

/* Explain a step without a worker. */
static void
explain_waiting(TqExplain *e, TqFlow *flow, int32 step_id, int64 task_id)
{
	const TqStep *step = &flow->template->steps[TQ_STEP_INDEX(step_id)];
	TqStepType    type = step->type;
	TqStepRow     made = {0};

	made.step_id = step_id;
	made.task_id = task_id;
	made.state = TQ_STATE_SUSPENDED;
	tq_explain_because(type == TQ_STEP_SIGNAL     ? TQ_WHY_STEP_SIGNAL
					   : type == TQ_STEP_APPROVAL ? TQ_WHY_STEP_APPROVAL
					   : type == TQ_STEP_TIMER    ? TQ_WHY_STEP_TIMER
												  : TQ_WHY_STEP_WORKFLOW);
	appendStringInfoString(&e->text, ": it ");
	tq_blocker_say(&e->text, flow, &made);
	appendStringInfoChar(&e->text, '.');
	if (step->wait->after != NULL || step->wait->at != NULL)
		(void) tq_explain_upkeep(e, " Its time limit is not processed: ");
}

/*
 * Explain which calls are possible for an ended step.  Returns false if they
 * are the same as for any task.
 */
static bool
explain_ended(TqExplain *e, TqFlow *flow, const TqTask *task)
{
	TqState          state = (TqState) task->f.state;
	int32            step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	TqFlowView       sight;
	const TqStepRow *root;
	bool             hidden;

	if (is_over(flow, step_id, state))
	{
		TqTally none = {0};

		tq_explain_because(TQ_WHY_STEP_OVER);
		appendStringInfo(&e->text,
						 " Its workflow is %s, and it does not run again.",
						 tq_tally_state(flow, &none));
		return true;
	}
	if (!tq_compensation_allows(flow, step_id, state))
	{
		tq_explain_because(TQ_WHY_STEP_OVER);
		appendStringInfoString(
			&e->text, " Another step has failed; this one does not run"
					  " again until that is repaired.");
		return true;
	}
	if (tq_step_rule_is_passed(flow->template, step_id, state))
	{
		appendStringInfo(&e->text,
						 " taskq_retry(" INT64_FORMAT
						 ") runs it %s, unless a step that depends on it"
						 " has begun",
						 task->f.task_id,
						 state == TQ_STATE_FILTERED ? "after all" : "again");
		if (state == TQ_STATE_DEAD)
			appendStringInfo(
				&e->text, "; taskq_resolve(" INT64_FORMAT ") marks it as done",
				task->f.task_id);
		appendStringInfoChar(&e->text, '.');
		return true;
	}
	if (state != TQ_STATE_CANCELLED ||
		task->f.reason != TQ_REASON_DEPENDENCY_FAILED)
		return false;
	tq_explain_because(TQ_WHY_STEP_STOPPED);
	tq_blocker_look(&sight, flow);
	root = tq_blocker_root(&sight, NULL, &hidden);
	appendStringInfoString(&e->text,
						   " After a failure no step of its workflow begins");
	if (root != NULL)
	{
		appendStringInfo(&e->text, ": step \"%s\" ",
						 tq_results_name(flow->template, root->step_id));
		tq_blocker_say(&e->text, flow, root);
	}
	appendStringInfoString(&e->text, "; after that it waits again.");
	return true;
}

/* Is it impossible to retry the step? */
static bool
is_over(const TqFlow *flow, int32 step_id, TqState state)
{
	if (flow->state == TQ_FLOW_LIVE)
		return false;
	return flow->state != TQ_FLOW_ERROR ||
		   !tq_compensation_allows(flow, step_id, state);
}
