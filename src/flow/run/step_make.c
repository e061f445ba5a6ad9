/*
 * step_make.c
 *		Creates steps, and begins them.
 *
 * All steps that are created at the same time are written together: their
 * rows, and the edges to all of their children.  A step without parents is
 * pending immediately.  If it needs an evaluation first, it is written as
 * blocked, and begins like a step whose last parent has ended.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/builtins.h"

#include "base/clock.h"
#include "base/span.h"
#include "cache/lane.h"
#include "cache/queue.h"
#include "command/submit.h"
#include "engine/key.h"
#include "engine/sql_task.h"
#include "engine/state.h"
#include "flow/definition/value.h"
#include "flow/instance/flow_types.h"
#include "flow/instance/results.h"
#include "flow/run/choice.h"
#include "flow/run/step_fill.h"
#include "flow/run/step_make.h"
#include "flow/run/wait_step.h"
#include "store/large.h"
#include "store/row.h"

static void lock_keys(TqCall *call, const TqNewStep *steps, int count,
					  const TqTemplate *template);
static void describe(TqFlow *flow, const TqStep *step, TqSubmission *sub);
static bool begins_at_once(TqFlow *flow, const TqStep    *step,
						   const TqNewStep *new, TqQueue *queue,
						   Jsonb **payload);
static void put_payload(TqFlow *flow, const TqStep *step, const TqQueue *queue,
						TqTask *task, TqMove *move);
static bool fill_payload(TqFlow *flow, const TqStep *step,
						 const TqQueue *queue, Jsonb **payload, char **wrong);

/*
 * Make steps, and add their edges.  Sets new[].decides for steps that wait for
 * no parent but have not begun yet.
 */
void
tq_step_make_all(TqCall *call, TqFlow *flow, TqNewStep *new, int count,
				 const TqNewEdges *edges)
{
	bool          many = call->many;
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq new steps", ALLOCSET_DEFAULT_SIZES);

	tq_edge_add(flow->workflow_id, edges);
	lock_keys(call, new, count, flow->template);
	call->many = count > 1;
	for (int i = 0; i < count; i++)
	{
		const TqStep *step = tq_template_at(flow->template, new[i].step_id);
		TqSubmission  sub = {0};
		TqTask        task = {{0}};
		Jsonb        *payload = NULL;
		bool          begins;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		describe(flow, step, &sub);
		begins = new[i].free &&begins_at_once(flow, step, &new[i], sub.queue,
											  &payload);
		new[i].decides = new[i].free && !begins;
		if (begins)
			sub.run_at = flow->start.run_at;
		else
			payload = new[i].payload;
		sub.of_step = true;
		tq_submit_fill(&sub, payload, &task);
		task.f.submitted_by = task.i.run_as = flow->start.started_by;
		if (new[i].payload == NULL)
			tq_sql_task_of_step(sub.queue, &task, step->payload);
		if (step->payload == NULL && new[i].payload == NULL &&
			!TQ_STEP_COMPENSATES(new[i].step_id))
			task.f.flags |= TQ_FLAG_INPUT;
		tq_task_set(&task, TQ_COL_WORKFLOW_ID,
					Int64GetDatum(flow->workflow_id));
		tq_task_set(&task, TQ_COL_STEP_ID, Int32GetDatum(new[i].step_id));
		(void) tq_state_submit(call, sub.queue, &task,
							   begins ? TQ_STATE_PENDING : TQ_STATE_BLOCKED,
							   false, NULL, NULL);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(one);
	}
	tq_row_flush(call);
	call->many = many;
	MemoryContextDelete(one);
}

/*
 * Lock the keys of all steps that may begin, before the first row is written.
 */
static void
lock_keys(TqCall *call, const TqNewStep *new, int count,
		  const TqTemplate *template)
{
	TqKeyName *names;
	int        named = 0;

	if (!tq_queue_any_ordered())
		return;
	names = MemoryContextAllocHuge(CurrentMemoryContext,
								   sizeof(TqKeyName) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		const TqStep *step = tq_template_at(template, new[i].step_id);
		TqQueue      *queue = tq_queue_find(step->queue);

		if (step->key == NULL || queue == NULL || !tq_key_is_ordered(queue))
			continue;
		names[named].queue_id = queue->queue_id;
		names[named++].key = cstring_to_text(step->key);
	}
	tq_key_lock_names(call, names, named);
	pfree(names);
}

/* The task of a step. */
static void
describe(TqFlow *flow, const TqStep *step, TqSubmission *sub)
{
	TqOptions own;

	sub->queue = tq_queue_for_step(step->queue);
	sub->priority = step->has_priority         ? step->priority
					: flow->start.has_priority ? flow->start.priority
											   : sub->queue->options.priority;
	sub->max_attempts = !step->retryable ? 1
						: step->max_attempts != 0
							? step->max_attempts
							: sub->queue->options.max_attempts;
	sub->tags = step->tags;
	sub->key = step->key;
	sub->headers = flow->start.headers;
	sub->correlation_id = flow->start.correlation_id;
	sub->options = step->options;
	own = sub->queue->options;
	if (sub->options != NULL)
	{
		tq_options_read_task(&own, sub->options);
		sub->has_deadline = own.deadline_in > 0;
		sub->deadline = tq_span_after(Max(tq_clock_wall(), flow->start.run_at),
									  own.deadline_in);
	}
	sub->any_depth = true;
	sub->role_id = flow->start.started_by;
	sub->lane_id = tq_lane_of(sub->queue, &sub->tags);
}

/* Returns false if the step needs an evaluation, or is invalid. */
static bool
begins_at_once(TqFlow *flow, const TqStep *step, const TqNewStep *new,
			   TqQueue *queue, Jsonb **payload)
{
	char *wrong;

	if (step->when != NULL || step->branch_count > 0 || step->wait != NULL)
		return false;
	*payload = new->payload;
	return *payload != NULL ||
		   fill_payload(flow, step, queue, payload, &wrong);
}

static bool
fill_payload(TqFlow *flow, const TqStep *step, const TqQueue *queue,
			 Jsonb **payload, char **wrong)
{
	*payload = NULL;
	if (step->payload == NULL)
		return true;
	if (tq_step_fill(flow, step, step->payload, payload, wrong) &&
		(int64) VARSIZE(*payload) > queue->options.max_payload)
	{
		*wrong = psprintf("payload of %u bytes exceeds the limit of %d bytes",
						  VARSIZE(*payload), queue->options.max_payload);
		*payload = NULL;
	}
	return *payload != NULL;
}

/*
 * A step no longer waits for parents: set its next state.  Evaluates its
 * condition, builds its payload, and makes the engine's decisions.
 */
void
tq_step_make_begin(TqFlow *flow, const TqStep *step, TqQueue *queue,
				   TqTask *task, TqMove *move)
{
	Jsonb *document = NULL;
	char  *wrong;
	bool   asked = step->when != NULL && (task->f.flags & TQ_FLAG_WANTED) == 0;
	bool   wanted = true;

	task->f.flags &= ~TQ_FLAG_WANTED;
	move->to = TQ_STATE_PENDING;
	move->due_at = Max(flow->start.run_at, task->i.run_at);
	if (move->due_at <= tq_clock_dispatch())
		move->due_at = 0;
	move->flow.released = true;
	if (asked || step->branch_count > 0)
		document = tq_results_document(flow, step);
	if ((asked || step->branch_count > 0) && document == NULL)
	{
		tq_step_fill_reject(task, move, TQ_STEP_FILL_TOO_LARGE);
		return;
	}
	if (asked && !tq_value_match(step->when, document, &wanted, &wrong))
	{
		tq_step_fill_reject(task, move, psprintf("when: %s", wrong));
		return;
	}
	if (!wanted)
	{
		move->to = TQ_STATE_FILTERED;
		move->due_at = 0;
		tq_large_put(task, TQ_COL_MESSAGE, CStringGetTextDatum("skipped"));
		return;
	}
	if (step->branch_count > 0)
	{
		Jsonb *result =
			tq_choice_branches(step, flow->template, document, &wrong);

		if (result == NULL)
			tq_step_fill_reject(task, move, wrong);
		else
		{
			tq_large_put(task, TQ_COL_RESULT, JsonbPGetDatum(result));
			move->to = TQ_STATE_DONE;
		}
		return;
	}
	if (step->wait != NULL)
		tq_wait_step_begin(flow, step, task, move);
	else if ((task->f.flags & TQ_FLAG_PAYLOAD) == 0)
		put_payload(flow, step, queue, task, move);
}

static void
put_payload(TqFlow *flow, const TqStep *step, const TqQueue *queue,
			TqTask *task, TqMove *move)
{
	Jsonb *payload;
	char  *wrong;

	if (!fill_payload(flow, step, queue, &payload, &wrong))
		tq_step_fill_reject(task, move, psprintf("payload: %s", wrong));
	else if (payload != NULL)
		tq_large_put(task, TQ_COL_PAYLOAD, JsonbPGetDatum(payload));
}
