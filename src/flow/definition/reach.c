/*
 * reach.c
 *		Finds the steps that come after or before a step of a template.
 *
 * The results are arrays with an element for each step of the template,
 * allocated in the current memory context.  Each step and edge is visited
 * once.  All members of a batch have the same step in the template, so a step
 * that comes after one member comes after all members.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "flow/definition/reach.h"

static void reach(const TqTemplate *template, int place, bool above,
				  bool *marked);

/* Returns all steps that come after a step, by index. */
bool *
tq_reach_below(const TqTemplate *template, int place)
{
	bool *below = palloc0(sizeof(bool) * (template->step_count + 1));

	reach(template, place, false, below);
	return below;
}

/*
 * Add the steps that come after one more step.  Steps after a marked step must
 * be marked already.
 */
void
tq_reach_add_below(const TqTemplate *template, int place, bool *below)
{
	reach(template, place, false, below);
}

/* Returns all steps that come before a step, by index. */
bool *
tq_reach_above(const TqTemplate *template, int place)
{
	bool *above = palloc0(sizeof(bool) * (template->step_count + 1));

	reach(template, place, true, above);
	return above;
}

static void
reach(const TqTemplate *template, int place, bool above, bool *marked)
{
	int *left = palloc(sizeof(int) * (template->step_count + 1));
	int  count = 0;

	left[count++] = place;
	while (count > 0)
	{
		const TqStep     *step = &template->steps[left[--count]];
		const TqStepList *next = above ? &step->parents : &step->children;

		for (int i = 0; i < next->count; i++)
		{
			if (marked[next->places[i]])
				continue;
			marked[next->places[i]] = true;
			left[count++] = next->places[i];
		}
	}
	pfree(left);
}
