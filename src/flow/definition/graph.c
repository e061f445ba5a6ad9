/*
 * graph.c
 *		Checks the graph of a definition's steps.
 *
 * Steps are sorted so that parents come before their children; the steps that
 * remain are on a cycle or behind one (cycle.c).  In that order each step gets
 * its level and its region, which says what choices must be made to create it.
 * Each child of a decision has a region of its own.  The steps below it are in
 * that region, too, except that a deferred step is in the region where the
 * paths to it diverge.  If a step is not deferred, none of its parents may be
 * in regions that can be entered independently of each other.
 *
 * Every edge is visited a bounded number of times, and the depth of a region
 * is at most TQ_GUC_MOST_NESTING.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "flow/definition/cycle.h"
#include "flow/definition/graph.h"
#include "flow/definition/problem.h"

/* State of a check. */
typedef struct Graph
{
	TqTemplate *template;
	TqDefinitionProblems *problems;
	int                   max_nesting;
	int *left;    /* parents without a position in the order yet */
	int  ordered; /* steps with a position */
	int  regions_room;
} Graph;

static void link_children(Graph *graph);
static void put_in_order(Graph *graph);
static void find_regions(Graph *graph);
static int  region_of(Graph *graph, int place);
static int  region_of_deferred(Graph *graph, int place);
static int  region_by_parent(Graph *graph, int parent, int child);
static int  common_region(const TqTemplate *template, int a, int b);
static int  add_region(Graph *graph, int decision, int child);
static void find_joins(Graph *graph);
static void find_ends(Graph *graph);
static void check_types(Graph *graph);
static void check_decision(Graph *graph, int place);
static void check_batch(Graph *graph, int place);
static void check_member_names(Graph *graph);
static bool contains(const TqStepList *list, int place);

void
tq_graph_check(TqTemplate *template, int max_nesting,
			   TqDefinitionProblems *problems)
{
	Graph graph = {template, problems, max_nesting};

	link_children(&graph);
	check_types(&graph);
	put_in_order(&graph);
	find_regions(&graph);
	if (graph.ordered < template->step_count)
	{
		tq_cycle_tell(template, graph.left, problems);
		return;
	}
	find_joins(&graph);
	find_ends(&graph);
	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];

		template->any_key = template->any_key || step->key != NULL;
		template->any_inner = template->any_inner ||
							  step->type == TQ_STEP_WORKFLOW;
	}
}

static void
link_children(Graph *graph)
{
	TqTemplate *template = graph->template;

	for (int i = 0; i < template->step_count; i++)
	{
		for (int j = 0; j < template->steps[i].parents.count; j++)
			template->steps[template->steps[i].parents.places[j]]
				.children.count++;
	}
	for (int i = 0; i < template->step_count; i++)
	{
		TqStepList *children = &template->steps[i].children;

		children->places = palloc(sizeof(int) * (children->count + 1));
		children->count = 0;
	}
	for (int i = 0; i < template->step_count; i++)
	{
		for (int j = 0; j < template->steps[i].parents.count; j++)
		{
			TqStepList *children =
				&template->steps[template->steps[i].parents.places[j]]
					 .children;

			children->places[children->count++] = i;
		}
	}
}

/* Sort the steps.  Steps on a cycle or behind one get no position. */
static void
put_in_order(Graph *graph)
{
	TqTemplate *template = graph->template;
	int done = 0;
	int known = 0;

	template->order = palloc(sizeof(int) * (template->step_count + 1));
	graph->left = palloc(sizeof(int) * (template->step_count + 1));
	for (int i = 0; i < template->step_count; i++)
	{
		graph->left[i] = template->steps[i].parents.count;
		if (graph->left[i] == 0)
			template->order[known++] = i;
	}
	while (done < known)
	{
		TqStep *step = &template->steps[template->order[done++]];

		for (int i = 0; i < step->children.count; i++)
		{
			int     child = step->children.places[i];
			TqStep *next = &template->steps[child];

			next->level = Max(next->level, step->level + 1);
			if (--graph->left[child] == 0)
				template->order[known++] = child;
		}
	}
	graph->ordered = known;
}

static void
check_types(Graph *graph)
{
	TqTemplate *template = graph->template;

	for (int i = 0; i < template->step_count; i++)
	{
		TqStep *step = &template->steps[i];

		CHECK_FOR_INTERRUPTS();
		if (step->type == TQ_STEP_DECISION)
			check_decision(graph, i);
		else if (step->type == TQ_STEP_BATCH)
			check_batch(graph, i);
		else if (step->type == TQ_STEP_BATCH_WORKER &&
				 (step->parents.count != 1 ||
				  template->steps[step->parents.places[0]].type !=
					  TQ_STEP_BATCH))
			tq_problem(graph->problems, psprintf("steps[%d].depends_on", i),
					   "must name exactly one step, of type batch");
	}
	check_member_names(graph);
}

static void
check_decision(Graph *graph, int place)
{
	TqStep *step = &graph->template->steps[place];

	if (step->children.count == 0)
		tq_problem(graph->problems, psprintf("steps[%d]", place),
				   "is a decision, but no step depends on it");
	for (int i = 0; i < step->branch_count; i++)
	{
		TqStepList *chosen = &step->branches[i].steps;

		for (int j = 0; j < chosen->count; j++)
		{
			TqStep *child = &graph->template->steps[chosen->places[j]];

			if (!contains(&child->parents, place))
				tq_problem(
					graph->problems,
					psprintf("steps[%d].branches[%d].steps[%d]", place, i, j),
					"does not depend on the decision");
		}
	}
}

/*
 * A batch must have exactly one step of type batch_worker.  The other steps
 * that depend on it or on its members must be deferred.
 */
static void
check_batch(Graph *graph, int place)
{
	TqTemplate *template = graph->template;
	TqStep *step = &template->steps[place];
	int     workers = 0;

	for (int i = 0; i < step->children.count; i++)
	{
		TqStep *child = &template->steps[step->children.places[i]];

		if (child->type == TQ_STEP_BATCH_WORKER)
		{
			workers++;
			for (int j = 0; j < child->children.count; j++)
			{
				if (template->steps[child->children.places[j]].type !=
					TQ_STEP_DEFERRED)
					tq_problem(
						graph->problems,
						psprintf("steps[%d].type", child->children.places[j]),
						"must be deferred, since it depends on the "
						"members of a batch");
			}
		}
		else if (child->type != TQ_STEP_DEFERRED)
			tq_problem(graph->problems,
					   psprintf("steps[%d].type", step->children.places[i]),
					   "must be batch_worker or deferred, since it depends on "
					   "a batch");
	}
	if (workers != 1)
		tq_problem(
			graph->problems, psprintf("steps[%d]", place),
			"is a batch and requires one step of type batch_worker that "
			"depends on it, not %d",
			workers);
}

/*
 * No other step may have a name of the form that members have: the name of the
 * batch_worker step, _ and digits.
 */
static void
check_member_names(Graph *graph)
{
	TqTemplate *template = graph->template;
	List     *workers = NIL;
	ListCell *cell;

	for (int i = 0; i < template->step_count; i++)
	{
		if (template->steps[i].type == TQ_STEP_BATCH_WORKER)
			workers = lappend_int(workers, i);
	}
	if (workers == NIL)
		return;
	for (int i = 0; i < template->step_count; i++)
	{
		const char *name = template->steps[i].name;
		int         length = (int) strlen(name);
		int         stem = length;

		while (stem > 0 && name[stem - 1] >= '0' && name[stem - 1] <= '9')
			stem--;
		if (stem == length || stem < 2 || name[stem - 1] != '_')
			continue;
		foreach (cell, workers)
		{
			const char *worker = template->steps[lfirst_int(cell)].name;

			if ((int) strlen(worker) == stem - 1 &&
				strncmp(worker, name, stem - 1) == 0)
				tq_problem(graph->problems, psprintf("steps[%d].name", i),
						   "is also the name of a member of steps[%d]",
						   lfirst_int(cell));
		}
	}
}

static void
find_regions(Graph *graph)
{
	TqTemplate *template = graph->template;

	graph->regions_room = 16;
	template->regions = palloc0(sizeof(TqRegion) * graph->regions_room);
	template->region_count = 1;
	template->regions[0].parent = -1;
	for (int i = 0; i < graph->ordered; i++)
	{
		int place = template->order[i];

		CHECK_FOR_INTERRUPTS();
		template->steps[place].region = template->steps[place].type ==
												TQ_STEP_DEFERRED
											? region_of_deferred(graph, place)
											: region_of(graph, place);
	}
}

/*
 * Returns the innermost of the parents' regions.  If it is not inside all
 * other regions of parents, the step must be deferred.
 */
static int
region_of(Graph *graph, int place)
{
	TqTemplate *template = graph->template;
	TqStep *step = &template->steps[place];
	int     deepest = 0;
	bool    parts = false;

	for (int i = 0; i < step->parents.count; i++)
	{
		int region = region_by_parent(graph, step->parents.places[i], place);
		int common = common_region(template, region, deepest);

		if (common == deepest)
			deepest = region;
		else if (common != region)
			parts = true;
	}
	if (parts)
		tq_problem(graph->problems, psprintf("steps[%d].type", place),
				   "must be deferred, since it depends on steps below several "
				   "branches");
	return deepest;
}

/*
 * Returns the innermost region that contains all paths to the step.  If all
 * parents are in the same region, this is the region around it, because the
 * step runs whether or not the parents' region is entered.
 */
static int
region_of_deferred(Graph *graph, int place)
{
	TqTemplate *template = graph->template;
	TqStep *step = &template->steps[place];
	int     common;
	bool    one = true;

	if (step->parents.count == 0)
		return 0;
	common = template->steps[step->parents.places[0]].region;
	for (int i = 0; i < step->parents.count; i++)
	{
		int parent = step->parents.places[i];

		one = one &&
			  template->steps[parent].region ==
				  template->steps[step->parents.places[0]].region &&
			  !tq_step_chooses(template->steps[parent].type);
		common =
			common_region(template, common, template->steps[parent].region);
	}
	if (one && common != 0)
		common = template->regions[common].parent;
	return common;
}

/* The region that one parent requires for its child. */
static int
region_by_parent(Graph *graph, int parent, int child)
{
	TqStep *step = &graph->template->steps[parent];

	return tq_step_chooses(step->type) ? add_region(graph, parent, child)
									   : step->region;
}

static int
common_region(const TqTemplate *template, int a, int b)
{
	while (a != b)
	{
		if (template->regions[a].depth >= template->regions[b].depth)
			a = template->regions[a].parent;
		else
			b = template->regions[b].parent;
	}
	return a;
}

static int
add_region(Graph *graph, int decision, int child)
{
	TqTemplate *template = graph->template;
	TqRegion *region;
	int       parent = template->steps[decision].region;

	if (template->region_count == graph->regions_room)
	{
		graph->regions_room *= 2;
		template->regions = repalloc(template->regions,
									 sizeof(TqRegion) * graph->regions_room);
	}
	region = &template->regions[template->region_count];
	region->parent = parent;
	region->decision = decision;
	region->child = child;
	region->depth = template->regions[parent].depth + 1;
	if (region->depth > graph->max_nesting)
	{
		tq_problem(graph->problems, psprintf("steps[%d]", child),
				   "is below more than %d decisions and batches in a row",
				   graph->max_nesting);
		return parent;
	}
	template->nesting = Max(template->nesting, region->depth);
	return template->region_count++;
}

/*
 * For each decision and batch, find the deferred steps that must wait until
 * its outcome is known.  Such a step has a parent in a region about which the
 * decision or batch decides.
 */
static void
find_joins(Graph *graph)
{
	TqTemplate *template = graph->template;
	int   *last = palloc(sizeof(int) * (template->step_count + 1));
	List **joins = palloc0(sizeof(List *) * (template->step_count + 1));

	for (int i = 0; i < template->step_count; i++)
		last[i] = -1;
	for (int i = 0; i < template->step_count; i++)
	{
		int     place = template->order[i];
		TqStep *step = &template->steps[place];

		if (step->type != TQ_STEP_DEFERRED)
			continue;
		for (int j = 0; j < step->parents.count; j++)
		{
			int region = template->steps[step->parents.places[j]].region;

			for (; region != step->region && region > 0;
				 region = template->regions[region].parent)
			{
				int decision = template->regions[region].decision;

				if (last[decision] == place)
					continue;
				last[decision] = place;
				joins[decision] = lappend_int(joins[decision], place);
			}
		}
	}
	for (int i = 0; i < template->step_count; i++)
	{
		TqStepList *list = &template->steps[i].joins;

		list->places = palloc(sizeof(int) * (list_length(joins[i]) + 1));
		for (int j = 0; j < list_length(joins[i]); j++)
			list->places[list->count++] = list_nth_int(joins[i], j);
	}
}

/*
 * Mark the steps that hold the instance open: steps that choose other steps,
 * and steps of which no child is certain to exist.
 */
static void
find_ends(Graph *graph)
{
	TqTemplate *template = graph->template;

	for (int i = 0; i < template->step_count; i++)
	{
		TqStep *step = &template->steps[i];
		bool    sure = false;

		for (int j = 0; j < step->children.count; j++)
		{
			TqStep *child = &template->steps[step->children.places[j]];

			sure = sure || child->type == TQ_STEP_DEFERRED ||
				   child->region == step->region;
		}
		step->ends = tq_step_chooses(step->type) || !sure;
	}
}

static bool
contains(const TqStepList *list, int place)
{
	for (int i = 0; i < list->count; i++)
	{
		if (list->places[i] == place)
			return true;
	}
	return false;
}
