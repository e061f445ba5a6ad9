/*
 * step_plan.c
 *		Which steps are created, at the start and after a choice.
 *
 * A step is made when all of its parents have been.  Below a decision it
 * must have been chosen, or stand below what was; below a batch it is made
 * as often as there are members.  A deferred step is made when it is known of
 * each of its parents whether it will be: then it waits for those that are.
 * Steps are looked at in an order in which parents come first, so one look at
 * each is enough.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/array.h"
#include "base/debug.h"
#include "base/guc.h"
#include "flow/definition/reach.h"
#include "flow/instance/flow.h"
#include "flow/run/step_plan.h"

/* What is known while a plan is made. */
typedef struct Planning
{
	TqFlow *flow;
	TqTemplate *template;
	TqPlan         *plan;
	TqPlanView     *known;
	bool           *exists; /* of what is known */
	bool           *ended;
	int             place; /* whose choice it is; -1: the start */
	const TqChoice *choice;
} Planning;

static void begin(Planning *planning, TqFlow *flow, TqPlan *plan,
				  TqPlanView *known);
static bool check_others(Planning *planning, TqEdges *edges,
						 const Bitmapset *to_come, TransactionId *other);
static bool is_child_of_choice(const TqTemplate *template, int place);
static bool is_choice_made(const Planning *planning, int place);
static void consider(Planning *planning, int place);
static bool is_chosen(const Planning *planning, int place);
static bool are_there(const Planning *planning, const TqStep *step);
static bool is_known(const Planning *planning, const TqStep *step, int parent);
static void add_step(Planning *planning, int place);
static void add_members(Planning *planning, int place);
static void add(Planning *planning, int32 step_id, Jsonb *payload);

/* What an instance begins with. */
void
tq_step_plan_start(TqFlow *flow, TqPlan *plan)
{
	Planning planning = {0};

	begin(&planning, flow, plan, tq_step_plan_nothing(flow->template));
	planning.place = -1;
	for (int i = 0; i < flow->template->step_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		consider(&planning, flow->template->order[i]);
	}
}

/* Nothing is there yet. */
TqPlanView *
tq_step_plan_nothing(const TqTemplate *template)
{
	TqPlanView *known = palloc0(sizeof(TqPlanView));

	known->exists = palloc0(sizeof(bool) * (template->step_count + 1));
	known->ended = palloc0(sizeof(bool) * (template->step_count + 1));
	known->stands = palloc0(sizeof(bool) * (template->step_count + 1));
	return known;
}

/*
 * What exists.  A caller that holds the edge lock can use it until it releases
 * the lock.
 */
TqPlanView *
tq_step_plan_known(const TqFlow *flow, const Bitmapset *to_come)
{
	TqPlanView *known = tq_step_plan_nothing(flow->template);
	TqStepRow  *made;
	int         count = tq_flow_steps(flow, &made);

	for (int i = 0; i < count; i++)
		tq_step_plan_note(known, &made[i]);
	for (int at = -1; (at = bms_next_member(to_come, at)) >= 0;)
		known->ended[at] = false;
	pfree(made);
	TQ_DEBUG_POINT("plan_steps_read");
	return known;
}

/* A step that is there. */
void
tq_step_plan_note(TqPlanView *known, const TqStepRow *made)
{
	int at = TQ_STEP_INDEX(made->step_id);

	known->exists[at] = true;
	known->ended[at] = made->state == TQ_STATE_DONE ||
					   made->state == TQ_STATE_FILTERED;
}

/*
 * What follows from the choice of a step that has ended.  What is there is
 * not made again.  to_come: places of choices that have ended, and of which
 * what follows will be made after this.  False, and what is known is so no
 * more: another transaction is about to end a choice on which this one
 * depends, and has to be waited for (other), or has just done so (none).
 */
bool
tq_step_plan_after(TqFlow *flow, TqPlanView *known, TqEdges *edges, int place,
				   const TqChoice *choice, const Bitmapset *to_come,
				   TqPlan *plan, TransactionId *other)
{
	TqTemplate *template = flow->template;
	bool    *concerned = tq_reach_below(template, place);
	Planning planning = {0};

	begin(&planning, flow, plan, known);
	planning.place = place;
	planning.choice = choice;
	planning.ended[place] = true;
	if (!check_others(&planning, edges, to_come, other))
		return false;
	for (int i = 0; i < template->step_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (concerned[template->order[i]] &&
			!planning.exists[template->order[i]])
			consider(&planning, template->order[i]);
	}
	pfree(concerned);
	return true;
}

/*
 * Has no other choice been made since the steps were read?  One that is not
 * committed cannot be seen, and has not seen this one.  One that stands does
 * so until the lock is given back.
 */
static bool
check_others(Planning *planning, TqEdges *edges, const Bitmapset *to_come,
			 TransactionId *other)
{
	bool *stands = planning->known->stands;

	for (int i = 0; i < planning->template->step_count; i++)
	{
		TqLeft left;

		if (!tq_step_chooses(planning->template->steps[i].type) ||
			!planning->exists[i] || planning->ended[i] || stands[i] ||
			bms_is_member(i, to_come))
			continue;
		left = tq_edge_one(edges, planning->flow->workflow_id, TQ_EDGE_END, i,
						   other);
		stands[i] = left == TQ_LEFT_OPEN;
		if (stands[i])
			continue;
		/* it has been committed since the steps were read */
		if (left == TQ_LEFT_NONE)
			*other = InvalidTransactionId;
		return false;
	}
	return true;
}

/*
 * known is what there is, and becomes what there would be if those of the
 * choices that have not ended had made nothing; below: by places, what comes
 * after them.  What other choices have made stays.
 */
void
tq_step_plan_without(TqFlow *flow, TqPlanView *known, const bool *below)
{
	TqTemplate *template = flow->template;
	bool    *made = palloc0(sizeof(bool) * (template->step_count + 1));
	Planning planning = {0};
	TqPlan   plan = {0};

	for (int i = 0; i < template->step_count; i++)
	{
		made[i] = known->exists[i];
		known->exists[i] = made[i] && !below[i];
	}
	begin(&planning, flow, &plan, known);
	planning.place = -1;
	for (int i = 0; i < template->step_count; i++)
	{
		int place = template->order[i];

		CHECK_FOR_INTERRUPTS();
		if (!below[place] || !made[place])
			continue;
		if (is_child_of_choice(template, place))
			known->exists[place] = is_choice_made(&planning, place);
		else
			consider(&planning, place);
	}
	pfree(made);
}

/* Not one that is made when its parents are known. */
static bool
is_child_of_choice(const TqTemplate *template, int place)
{
	const TqStep *step = &template->steps[place];

	for (int i = 0; i < step->parents.count; i++)
	{
		if (step->type != TQ_STEP_DEFERRED &&
			tq_step_chooses(template->steps[step->parents.places[i]].type))
			return true;
	}
	return false;
}

/* Is whatever has chosen it there, and has not to choose again? */
static bool
is_choice_made(const Planning *planning, int place)
{
	const TqTemplate *template = planning->template;
	const TqStep *step = &template->steps[place];

	for (int i = 0; i < step->parents.count; i++)
	{
		int parent = step->parents.places[i];

		if (tq_step_chooses(template->steps[parent].type) &&
			(!planning->exists[parent] || !planning->ended[parent]))
			return false;
	}
	return true;
}

static void
begin(Planning *planning, TqFlow *flow, TqPlan *plan, TqPlanView *known)
{
	planning->flow = flow;
	planning->template = flow->template;
	planning->plan = plan;
	planning->known = known;
	planning->exists = known->exists;
	planning->ended = known->ended;
}

/* Make it, if its time has come. */
static void
consider(Planning *planning, int place)
{
	const TqStep *step = &planning->template->steps[place];

	if (step->type == TQ_STEP_DEFERRED)
	{
		for (int i = 0; i < step->parents.count; i++)
		{
			if (!is_known(planning, step, step->parents.places[i]))
				return;
		}
		/* around it a choice may not have been made, or otherwise */
		for (int region = step->region; region > 0;
			 region = planning->template->regions[region].parent)
		{
			if (!planning->exists[planning->template->regions[region].child])
				return;
		}
		add_step(planning, place);
		return;
	}
	for (int i = 0; i < step->parents.count; i++)
	{
		int parent = step->parents.places[i];

		if (!tq_step_chooses(planning->template->steps[parent].type))
			continue;
		/* chosen by this one, or made when another one chose */
		if (parent != planning->place || !is_chosen(planning, place))
			return;
		if (step->type == TQ_STEP_BATCH_WORKER)
			add_members(planning, place);
		else
			add_step(planning, place);
		return;
	}
	if (are_there(planning, step))
		add_step(planning, place);
}

static bool
is_chosen(const Planning *planning, int place)
{
	if (planning->template->steps[place].type == TQ_STEP_BATCH_WORKER)
		return true;
	for (int i = 0; i < planning->choice->steps.count; i++)
	{
		if (planning->choice->steps.places[i] == place)
			return true;
	}
	return false;
}

static bool
are_there(const Planning *planning, const TqStep *step)
{
	for (int i = 0; i < step->parents.count; i++)
	{
		if (!planning->exists[step->parents.places[i]])
			return false;
	}
	return true;
}

/*
 * Is the parent of a deferred step there, or will it never be?  From the
 * region of the child inwards to its own, the first choice that goes past it
 * says so, and one that has not been made leaves it open.
 */
static bool
is_known(const Planning *planning, const TqStep *step, int parent)
{
	const TqTemplate *template = planning->template;
	int way[TQ_GUC_MOST_NESTING];
	int length = 0;

	if (planning->exists[parent])
		return true;
	for (int region = template->steps[parent].region;
		 region > 0 && region != step->region && length < lengthof(way);
		 region = template->regions[region].parent)
		way[length++] = region;
	while (length > 0)
	{
		const TqRegion *region = &template->regions[way[--length]];

		if (!planning->exists[region->decision] ||
			!planning->ended[region->decision])
			return false;
		/* not chosen, or a batch without members */
		if (!planning->exists[region->child])
			return true;
	}
	return false;
}

/* And its edges: to its children, to the end, and from what is to come. */
static void
add_step(Planning *planning, int place)
{
	const TqStep *step = &planning->template->steps[place];

	for (int i = 0; i < step->parents.count; i++)
	{
		int parent = step->parents.places[i];

		/* of a chosen step that waits for a deferred one, too */
		if (!planning->exists[parent] && step->type != TQ_STEP_DEFERRED)
			tq_edge_note(&planning->plan->edges, place, parent);
	}
	add(planning, place, NULL);
	planning->exists[place] = true;
}

static void
add_members(Planning *planning, int place)
{
	for (int i = 0; i < planning->choice->member_count; i++)
		add(planning, TQ_STEP_ID(place, i + 1), planning->choice->members[i]);
	planning->exists[place] = planning->choice->member_count > 0;
}

static void
add(Planning *planning, int32 step_id, Jsonb *payload)
{
	const TqStep *step = &planning->template->steps[TQ_STEP_INDEX(step_id)];
	TqPlan       *plan = planning->plan;
	TqNewStep *new;

	TQ_ARRAY_RESERVE(plan->steps, plan->count, plan->room,
					 CurrentMemoryContext);
	new = &plan->steps[plan->count++];
	new->step_id = step_id;
	new->payload = payload;
	new->decides = false;
	/* the one whose choice it is has ended, and no other parent is there */
	new->free = true;
	for (int i = 0; i < step->parents.count; i++)
		new->free = new->free && step->parents.places[i] == planning->place;
	tq_edge_note_step(&plan->edges, step, step_id);
}
