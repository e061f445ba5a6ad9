/*
 * cycle.c
 *		Finds cycles in the graph of a definition.
 *
 * Steps that depend on each other, directly or through others, form strongly
 * connected components, and the graph has no topological order.  The
 * components are found with Tarjan's algorithm: the walk goes from children to
 * their parents, and each step gets a number and the lowest number that can be
 * reached from it.  The walk keeps its own stack, since a chain may be as long
 * as the definition.  For each component of more than one step one cycle is
 * reported, and also each step that depends on itself.  Every step and edge is
 * visited a bounded number of times.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "flow/definition/cycle.h"
#include "flow/definition/problem.h"

typedef struct Cycles
{
	const TqTemplate *template;
	const int *left;   /* parents without a position; by step index */
	int       *number; /* in the order of the walk, from 1 */
	int       *lowest;
	int       *part; /* 0: not complete yet */
	int       *size; /* of components, from 1 */
	int        numbers;
	int        parts;
	int       *way; /* path that is being walked */
	int        way_length;
	int       *looked_at; /* parents visited */
	int       *open;      /* steps whose components are not complete */
	int        open_count;
} Cycles;

static void begin(Cycles *cycles, const TqTemplate *template, const int *left);
static void walk(Cycles *cycles, int from);
static void enter(Cycles *cycles, int place);
static void leave(Cycles *cycles);
static bool is_own_parent(const TqStep *step, int place);
static void tell_part(const Cycles *cycles, TqDefinitionProblems *problems,
					  bool *seen, int at);
static int  parent_in_part(const Cycles *cycles, int place);

/*
 * left has, for each step, the number of its parents without a position in the
 * order.
 */
void
tq_cycle_tell(const TqTemplate *template, const int *left,
			  TqDefinitionProblems *problems)
{
	bool  *seen = palloc0(sizeof(bool) * template->step_count);
	Cycles cycles = {0};

	begin(&cycles, template, left);
	for (int i = 0; i < template->step_count; i++)
	{
		if (left[i] > 0 && cycles.number[i] == 0)
			walk(&cycles, i);
	}
	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];

		if (left[i] == 0)
			continue;
		if (cycles.size[cycles.part[i]] > 1)
		{
			tell_part(&cycles, problems, seen, i);
			/* report each component once */
			cycles.size[cycles.part[i]] = 0;
		}
		if (is_own_parent(step, i))
			tq_problem(problems, psprintf("steps[%d].depends_on", i),
					   "is part of a cycle: %s -> %s", step->name, step->name);
	}
}

static void
begin(Cycles *cycles, const TqTemplate *template, const int *left)
{
	Size size = sizeof(int) * (template->step_count + 1);

	cycles->template = template;
	cycles->left = left;
	cycles->number = palloc0(size);
	cycles->lowest = palloc(size);
	cycles->part = palloc0(size);
	cycles->size = palloc0(size);
	cycles->way = palloc(size);
	cycles->looked_at = palloc0(size);
	cycles->open = palloc(size);
}

/* Walk all steps that can be reached and have not been visited. */
static void
walk(Cycles *cycles, int from)
{
	enter(cycles, from);
	while (cycles->way_length > 0)
	{
		int               at = cycles->way[cycles->way_length - 1];
		const TqStepList *parents = &cycles->template->steps[at].parents;
		int               parent;

		CHECK_FOR_INTERRUPTS();
		if (cycles->looked_at[at] == parents->count)
		{
			leave(cycles);
			continue;
		}
		parent = parents->places[cycles->looked_at[at]++];
		if (cycles->left[parent] == 0)
			continue;
		if (cycles->number[parent] == 0)
			enter(cycles, parent);
		else if (cycles->part[parent] == 0)
			cycles->lowest[at] =
				Min(cycles->lowest[at], cycles->number[parent]);
	}
}

static void
enter(Cycles *cycles, int place)
{
	cycles->number[place] = ++cycles->numbers;
	cycles->lowest[place] = cycles->number[place];
	cycles->way[cycles->way_length++] = place;
	cycles->open[cycles->open_count++] = place;
}

/*
 * Return to the previous step of the path.  If nothing earlier on the path can
 * be reached from this step, the component is complete.
 */
static void
leave(Cycles *cycles)
{
	int place = cycles->way[--cycles->way_length];
	int last;

	if (cycles->way_length > 0)
	{
		int before = cycles->way[cycles->way_length - 1];

		cycles->lowest[before] =
			Min(cycles->lowest[before], cycles->lowest[place]);
	}
	if (cycles->lowest[place] < cycles->number[place])
		return;
	cycles->parts++;
	do
	{
		last = cycles->open[--cycles->open_count];
		cycles->part[last] = cycles->parts;
		cycles->size[cycles->parts]++;
	} while (last != place);
}

static bool
is_own_parent(const TqStep *step, int place)
{
	for (int i = 0; i < step->parents.count; i++)
	{
		if (step->parents.places[i] == place)
			return true;
	}
	return false;
}

/* Follow the parents of a step until one repeats. */
static void
tell_part(const Cycles *cycles, TqDefinitionProblems *problems, bool *seen,
		  int at)
{
	const TqStep  *steps = cycles->template->steps;
	List          *way = NIL;
	StringInfoData names;

	while (!seen[at])
	{
		seen[at] = true;
		way = lappend_int(way, at);
		at = parent_in_part(cycles, at);
	}
	initStringInfo(&names);
	/* the path leads from children to parents: print it in reverse */
	for (int i = list_length(way) - 1; i >= 0; i--)
	{
		appendStringInfo(&names, "%s -> ", steps[list_nth_int(way, i)].name);
		if (list_nth_int(way, i) == at)
			break;
	}
	appendStringInfoString(&names, steps[llast_int(way)].name);
	tq_problem(problems, psprintf("steps[%d].depends_on", at),
			   "is part of a cycle: %s", names.data);
}

/*
 * Returns a parent other than the step itself.  Such a parent exists, since
 * the component has several steps.
 */
static int
parent_in_part(const Cycles *cycles, int place)
{
	const int *parents = cycles->template->steps[place].parents.places;
	int        i = 0;

	while (parents[i] == place ||
		   cycles->part[parents[i]] != cycles->part[place])
		i++;
	return parents[i];
}
