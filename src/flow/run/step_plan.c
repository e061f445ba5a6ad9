/*
 * step_plan.c
 *		Plans which steps are created, at the start and after a choice.
 *
 * A step is made when all of its parents have been made.  A child of a
 * decision must also have been chosen; below a batch, a step is made once for
 * each member.  A deferred step is made when it is known which of its parents
 * will be made; it then waits for these parents.  Steps are considered in an
 * order in which parents come first, so each needs to be considered only once.
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

/* State of a plan. */
typedef struct Planning
{
	TqFlow *flow;
	TqTemplate *template;
	TqPlan         *plan;
	TqPlanView     *known;
	bool           *exists; /* those of known */
	bool           *ended;
	int             place; /* step that chooses; -1: the start */
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

/* Plan the steps that an instance starts with. */
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

/* A view in which no step exists. */
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
 * Read what exists.  A caller that holds the edge lock can use the result
 * until it releases the lock.
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

/* Add an existing step to a view. */
void
tq_step_plan_note(TqPlanView *known, const TqStepRow *made)
{
	int at = TQ_STEP_INDEX(made->step_id);

	known->exists[at] = true;
	known->ended[at] = made->state == TQ_STATE_DONE ||
					   made->state == TQ_STATE_FILTERED;
}

/*
 * Plan the steps that follow from the choice of a step that has ended, except
 * steps that already exist. to_come has the indexes of ended choices whose
 * steps will be made after this choice.  If this choice depends on a choice
 * that another transaction is about to end, returns false, and known is no
 * longer valid; the caller must wait for the transaction *other.  If *other is
 * invalid, that transaction has just committed.
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
 * Has no other choice been made since the steps were read?  An uncommitted
 * choice is not visible, and has not seen this one.  A choice that has not
 * been made yet is not made by others until the edge lock is released.
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
 * On entry known shows which steps exist; on return, which steps would exist
 * if the choices that have not ended had made no step. below has, by index,
 * the steps that come after these choices.  Steps that other choices have made
 * remain.
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

/*
 * Is the step made by a choice, as opposed to a step that is made when its
 * parents are known?
 */
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

/* Do all choices that have made the step exist, and need not be made again? */
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

/* Make the step if it is due. */
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
		/* a choice around it may not have been made, or may have skipped it */
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
		/* it is chosen by this choice, or was made by another one */
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
 * Is it known whether the parent of a deferred step will be made?  Go from the
 * region of the child inwards to the region of the parent.  The first choice
 * that skips the parent settles the question; a choice that has not been made
 * leaves it open.
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

/*
 * Add a step and its edges: to its children, to the end, and from parents that
 * do not exist yet.
 */
static void
add_step(Planning *planning, int place)
{
	const TqStep *step = &planning->template->steps[place];

	for (int i = 0; i < step->parents.count; i++)
	{
		int parent = step->parents.places[i];

		/* a chosen step may also wait for a deferred one */
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
	/* the step that chose it has ended; does it have other parents? */
	new->free = true;
	for (int i = 0; i < step->parents.count; i++)
		new->free = new->free && step->parents.places[i] == planning->place;
	tq_edge_note_step(&plan->edges, step, step_id);
}
