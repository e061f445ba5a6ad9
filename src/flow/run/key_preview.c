/*
 * key_preview.c
 *		Notes in advance the keys that a move of a step may need.
 *
 * If a transaction waited for a key late, it might hold locks for which others
 * wait.  Therefore, when an instance is locked (instance_lock.c), the keys of
 * all steps that may begin or be cancelled because of the move are noted, as
 * far as the template names them, and are locked together with the key of the
 * step, in one order.  This includes the keys of instances that steps start,
 * and of instances that are cancelled together with the step that waits for
 * them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "miscadmin.h"

#include "base/catalog.h"
#include "engine/key.h"
#include "flow/definition/reach.h"
#include "flow/definition/template.h"
#include "flow/instance/flow.h"
#include "flow/run/key_preview.h"

static void follow(const TqTemplate *template, const TqStep *step,
				   bool *behind);
static void note_keys(TqCall     *call, const TqTemplate *template,
					  const bool *which);
static void begin(TqCall *call, TqKeyPreview *ahead,
				  const TqWaitDefinition *wait);
static void begin_inside(TqCall *call, TqKeyPreview *ahead,
						 const TqTemplate *template);
static bool latest_is_known(void);
static void remember(const TqTemplate *template);

/*
 * Templates of child instances whose steps name no version, the one found last
 * first, and the transaction that has found them.
 */
static List              *latest = NIL;
static LocalTransactionId latest_by = InvalidLocalTransactionId;
static uint64             latest_in = 0; /* extension to which they belong */

/*
 * The steps that may begin when a step ends, by index: its children, the
 * children of those that may end when they begin, and everything below a
 * choice, since a choice makes all steps whose parents exist.
 */
bool *
tq_key_preview_behind(const TqTemplate *template, const TqStep *step)
{
	bool *behind = palloc0(sizeof(bool) * (template->step_count + 1));

	follow(template, step, behind);
	return behind;
}

static void
follow(const TqTemplate *template, const TqStep *step, bool *behind)
{
	const TqStepList *lists[] = {&step->children, &step->joins};

	check_stack_depth();
	if (tq_step_chooses(step->type))
	{
		bool *below = tq_reach_below(template, (int) (step - template->steps));

		for (int i = 0; i < template->step_count; i++)
			behind[i] = behind[i] || below[i];
		pfree(below);
	}
	for (int i = 0; i < lengthof(lists); i++)
	{
		for (int j = 0; j < lists[i]->count; j++)
		{
			int           place = lists[i]->places[j];
			const TqStep *child = &template->steps[place];
			bool          seen = behind[place];

			behind[place] = true;
			if (!seen && tq_key_preview_ends_at_once(child))
				follow(template, child, behind);
		}
	}
}

/* May the step end as soon as it begins? */
bool
tq_key_preview_ends_at_once(const TqStep *step)
{
	return step->when != NULL || step->branch_count > 0 || step->wait != NULL;
}

/* Note the keys of the steps behind a step, or of all steps (NULL). */
void
tq_key_preview_note(TqCall *call, TqKeyPreview               *ahead,
					const TqTemplate *template, const TqStep *step)
{
	bool *behind = NULL;

	if (!template->any_key && !template->any_inner)
		return;
	if (step != NULL)
		behind = tq_key_preview_behind(template, step);
	else if (list_member_int(ahead->all, template->template_id))
		return;
	else
		ahead->all = lappend_int(ahead->all, template->template_id);
	note_keys(call, template, behind);
	for (int i = 0; i < template->step_count && template->any_inner; i++)
	{
		const TqStep *one = &template->steps[i];

		if ((behind == NULL || behind[i]) && one->type == TQ_STEP_WORKFLOW)
			begin(call, ahead, one->wait);
	}
	if (behind != NULL)
		pfree(behind);
}

/*
 * Note the keys of some steps (NULL: of all) whose queues are ordered by key.
 */
static void
note_keys(TqCall *call, const TqTemplate *template, const bool *which)
{
	for (int i = 0; i < template->step_count && template->any_key; i++)
	{
		const TqStep *step = &template->steps[i];
		TqQueue      *queue;

		if (step->key != NULL && (which == NULL || which[i]) &&
			(queue = tq_queue_find(step->queue)) != NULL &&
			tq_key_is_ordered(queue))
			tq_key_note(call, queue->queue_id, step->key);
	}
}

/* Note the keys of an instance that starts: all of its steps are made. */
static void
begin(TqCall *call, TqKeyPreview *ahead, const TqWaitDefinition *wait)
{
	TqTemplate *template =
		tq_template_look(wait->space, wait->name, wait->version);

	check_stack_depth();
	if (template == NULL ||
		list_member_int(ahead->begun, template->template_id))
		return;
	if (wait->version == NULL)
		remember(template);
	ahead->begun = lappend_int(ahead->begun, template->template_id);
	note_keys(call, template, NULL);
	begin_inside(call, ahead, template);
}

/* Has this transaction filled the list, for the current extension? */
static bool
latest_is_known(void)
{
	return latest_by == TQ_MY_LXID && latest_in == tq_catalog_identity();
}

/*
 * Find the latest version of a name, and remember it until the end of the
 * transaction.
 */
static void
remember(const TqTemplate *template)
{
	MemoryContext mine = MemoryContextSwitchTo(TopTransactionContext);

	if (!latest_is_known())
		latest = NIL;
	latest_by = TQ_MY_LXID;
	latest_in = tq_catalog_identity();
	if (!list_member_int(latest, template->template_id))
		latest = lcons_int(template->template_id, latest);
	MemoryContextSwitchTo(mine);
}

/*
 * Returns the template of a child instance: if the keys of its steps were
 * noted, the version that was the latest at that time.  Returns NULL if it
 * does not exist.
 */
TqTemplate *
tq_key_preview_template(const TqWaitDefinition *wait)
{
	const char *version = wait->version;
	TqTemplate *template;
	ListCell *cell;

	if (!latest_is_known() || !tq_queue_any_ordered())
		latest = NIL;
	foreach (cell, latest)
	{
		const TqTemplate *one = tq_template_get(lfirst_int(cell));

		if (version == NULL && one != NULL &&
			strcmp(one->space, wait->space) == 0 &&
			strcmp(one->name, wait->name) == 0)
			version = one->version;
	}
	template = tq_template_find(wait->space, wait->name, version);
	if (template == NULL && wait->version == NULL && version != NULL)
		template = tq_template_find(wait->space, wait->name, NULL);
	return template;
}

/*
 * Note the keys of instances that steps may start immediately.
 */
static void
begin_inside(TqCall *call, TqKeyPreview *ahead, const TqTemplate *template)
{
	bool *at_once;

	if (!template->any_inner)
		return;
	at_once = palloc0(sizeof(bool) * (template->step_count + 1));
	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];

		if (step->parents.count > 0)
			continue;
		at_once[i] = true;
		if (tq_key_preview_ends_at_once(step))
			follow(template, step, at_once);
	}
	for (int i = 0; i < template->step_count; i++)
	{
		if (at_once[i] && template->steps[i].type == TQ_STEP_WORKFLOW)
			begin(call, ahead, template->steps[i].wait);
	}
	pfree(at_once);
}

/*
 * An instance is started: note the keys of its steps and of its child
 * instances.
 */
void
tq_key_preview_note_start(TqCall *call, const TqTemplate *template)
{
	TqKeyPreview ahead = {0};

	if (!tq_queue_any_ordered())
		return;
	note_keys(call, template, NULL);
	begin_inside(call, &ahead, template);
}

/* A step starts its child instance. */
void
tq_key_preview_note_inside(TqCall *call, const TqStep *step)
{
	TqKeyPreview ahead = {0};

	if (tq_queue_any_ordered())
		begin(call, &ahead, step->wait);
}

/* An instance that is locked exclusively is cancelled. */
void
tq_key_preview_note_cancel(TqCall *call, const TqFlow *flow)
{
	TqStepRow *made;
	int        count;

	if (!flow->template->any_inner || !tq_queue_any_ordered())
		return;
	count = tq_flow_steps(flow, &made);
	for (int i = 0; i < count; i++)
	{
		int place = TQ_STEP_INDEX(made[i].step_id);

		if (made[i].state == TQ_STATE_SUSPENDED &&
			flow->template->steps[place].type == TQ_STEP_WORKFLOW)
			tq_key_preview_note_child(call, made[i].task_id);
	}
	pfree(made);
}

/* A step is cancelled, and with it the instance that it waits for. */
void
tq_key_preview_note_child(TqCall *call, int64 task_id)
{
	TqFlow child;

	check_stack_depth();
	if (!tq_queue_any_ordered() || !tq_flow_find_child(task_id, &child) ||
		child.state != TQ_FLOW_LIVE)
		return;
	note_keys(call, child.template, NULL);
	tq_key_preview_note_cancel(call, &child);
}
