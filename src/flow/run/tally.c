/*
 * tally.c
 *		Computes the state of an instance from its steps.
 *
 * Claims and ends of steps do not write the row of the instance, on which all
 * of them would contend.  The state of a live instance is therefore computed
 * whenever it is read, from the rows of its steps as the caller has read them;
 * views read them with the snapshot of their statement, flow->of_moment.  If
 * the row says that the instance has ended, that takes precedence.
 *
 * This file also determines which steps will never be made, since a choice
 * skips them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/clock.h"
#include "flow/instance/results.h"
#include "flow/instance/step_rule.h"
#include "flow/run/choice.h"
#include "flow/run/tally.h"

static void note_held(const TqFlow *flow, const TqStepRow *made,
					  const bool *exists, bool *chosen);

/* Count the steps of an instance. */
void
tq_tally_count(const TqFlow *flow, const TqStepRow *made, int count,
			   TqTally *tally)
{
	memset(tally, 0, sizeof(*tally));
	for (int i = 0; i < count; i++)
	{
		const TqStepRow *step = &made[i];
		const TqStep    *kind =
			&flow->template->steps[TQ_STEP_INDEX(step->step_id)];

		tally->total++;
		tally->begun += tq_step_rule_has_begun(kind, step->state, step->reason,
											   step->is.claimed, false);
		switch (step->state)
		{
			case TQ_STATE_PENDING:
				tally->ready += step->is.ready;
				tally->backoff += step->is.backoff;
				tally->waiting += !step->is.ready && !step->is.backoff;
				break;
			case TQ_STATE_BLOCKED:
				tally->in_line += step->is.in_line;
				tally->blocked += !step->is.in_line;
				break;
			case TQ_STATE_RUNNING:
				tally->running++;
				break;
			case TQ_STATE_SUSPENDED:
				if (step->reason == TQ_REASON_NONE &&
					tq_step_waits(kind->type))
					tally->awaiting++;
				else
				{
					if (tally->suspended == 0)
						tally->first_suspended = step;
					tally->suspended++;
				}
				break;
			case TQ_STATE_DONE:
				if (step->reason == TQ_REASON_MANUAL)
					tally->resolved = true;
				tally->done++;
				break;
			case TQ_STATE_FILTERED:
				tally->done++;
				break;
			case TQ_STATE_DEAD:
				if (tq_step_rule_is_excused(flow->template, step->step_id))
				{
					tally->done++;
					break;
				}
				if (tally->dead == 0 ||
					step->finished_at < tally->first_dead->finished_at)
					tally->first_dead = step;
				tally->dead++;
				break;
			case TQ_STATE_CANCELLED:
			case TQ_STATE_REDUNDANT:
			case TQ_STATE_RECREATED:
				if (tally->cancelled == 0 ||
					step->finished_at < tally->first_cancelled->finished_at)
					tally->first_cancelled = step;
				tally->cancelled++;
				break;
		}
	}
}

/*
 * Returns the first state that applies.  After a failure the instance is not
 * in error while a step can still continue by itself or by a call, including
 * steps that are due later, or wait for a signal or for their key.
 */
const char *
tq_tally_state(const TqFlow *flow, const TqTally *tally)
{
	bool is_live = tally->ready + tally->running + tally->backoff +
					   tally->suspended + tally->waiting + tally->awaiting +
					   tally->in_line >
				   0;

	switch (flow->state)
	{
		case TQ_FLOW_CANCELLED:
			return "cancelled";
		case TQ_FLOW_DONE:
			return "done";
		case TQ_FLOW_RESOLVED:
			return "resolved";
		case TQ_FLOW_ERROR:
			return "error";
		case TQ_FLOW_COMPENSATING:
			return "compensating";
		case TQ_FLOW_LIVE:
			break;
	}
	if (tally->dead + tally->cancelled > 0)
		return is_live ? "blocked_by_failures" : "error";
	if (tally->done == tally->total)
		return tally->resolved ? "resolved" : "done";
	if (tally->ready + tally->running > 0)
		return "running";
	if (tally->begun == 0 && flow->start.run_at > tq_clock_dispatch())
		return "pending";
	if (tally->backoff > 0)
		return "waiting_for_retry";
	if (tally->suspended > 0)
		return "suspended";
	return "waiting_for_dependencies";
}

/*
 * Returns the reason of the state, if it has one: why the first failed step
 * died, why a step was suspended, or that an operator's call caused the state.
 */
TqReason
tq_tally_reason(const TqFlow *flow, const TqTally *tally)
{
	if (flow->end.reason != TQ_REASON_NONE)
		return flow->end.reason;
	if (flow->state == TQ_FLOW_CANCELLED || flow->state == TQ_FLOW_RESOLVED)
		return TQ_REASON_MANUAL;
	if (tally->first_dead != NULL)
		return tally->first_dead->reason;
	if (tally->first_cancelled != NULL)
		return tally->first_cancelled->reason != TQ_REASON_NONE
				   ? tally->first_cancelled->reason
				   : TQ_REASON_MANUAL;
	if (strcmp(tq_tally_state(flow, tally), "suspended") == 0)
		return tally->first_suspended->reason;
	return TQ_REASON_NONE;
}

/* The number of steps that will or may be made: neither made nor skipped. */
int
tq_tally_uncreated(const TqFlow *flow, const TqStepRow *made, int count)
{
	int   steps = flow->template->step_count;
	bool *exists = palloc0(sizeof(bool) * (steps + 1));
	bool *skipped = tq_tally_skipped(flow, made, count);
	int   uncreated = 0;

	for (int i = 0; i < count; i++)
		exists[TQ_STEP_INDEX(made[i].step_id)] = true;
	for (int i = 0; i < steps; i++)
		uncreated += !exists[i] && !skipped[i];
	pfree(exists);
	pfree(skipped);
	return uncreated;
}

/*
 * Returns, by index, the steps that a choice which was made has skipped.
 * Steps that it has chosen exist, or will be made when the failure that holds
 * them up is repaired (failure_policy.c).  In the order of regions, a region
 * comes after the region that contains it.
 */
bool *
tq_tally_skipped(const TqFlow *flow, const TqStepRow *made, int count)
{
	const TqTemplate *template = flow->template;
	int   steps = template->step_count;
	bool *exists = palloc0(sizeof(bool) * (steps + 1));
	bool *ended = palloc0(sizeof(bool) * (steps + 1));
	bool *chosen = palloc0(sizeof(bool) * (steps + 1));
	bool *passed = palloc0(sizeof(bool) * (template->region_count + 1));
	bool *skipped = palloc0(sizeof(bool) * (steps + 1));

	for (int i = 0; i < count; i++)
	{
		int place = TQ_STEP_INDEX(made[i].step_id);

		exists[place] = true;
		ended[place] = made[i].state == TQ_STATE_DONE ||
					   made[i].state == TQ_STATE_FILTERED;
	}
	for (int i = 0; i < count && (tq_step_rule_stops(flow) ||
								  flow->state == TQ_FLOW_CANCELLED);
		 i++)
	{
		if (made[i].state == TQ_STATE_DONE)
			note_held(flow, &made[i], exists, chosen);
	}
	for (int i = 1; i < template->region_count; i++)
	{
		const TqRegion *region = &template->regions[i];

		passed[i] = passed[region->parent] ||
					(ended[region->decision] && !exists[region->child] &&
					 !chosen[region->child]);
	}
	for (int i = 0; i < steps; i++)
		skipped[i] = passed[template->steps[i].region];
	pfree(exists);
	pfree(ended);
	pfree(chosen);
	pfree(passed);
	return skipped;
}

/*
 * Add the steps that a choice has chosen, if no step of the choice was made.
 */
static void
note_held(const TqFlow *flow, const TqStepRow *made, const bool *exists,
		  bool *chosen)
{
	int           place = TQ_STEP_INDEX(made->step_id);
	const TqStep *step = &flow->template->steps[place];
	TqChoice      choice;
	Jsonb        *result;

	if (!tq_step_chooses(step->type))
		return;
	for (int i = 0; i < step->children.count; i++)
	{
		if (exists[step->children.places[i]])
			return;
	}
	result = flow->of_moment ? tq_results_seen(made->task_id)
							 : tq_results_of_step(made->task_id);
	if (tq_choice_read(flow->template, place, result, &choice) != NULL)
		return;
	for (int i = 0; i < choice.steps.count; i++)
		chosen[choice.steps.places[i]] = true;
	for (int i = 0; i < step->children.count && choice.member_count > 0; i++)
		chosen[step->children.places[i]] = true;
}
