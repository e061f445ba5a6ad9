/*
 * task_search.c
 *		Finds a page of tasks: the first that match a filter, by id.
 *
 * The index is chosen here and not by the planner, so that the choice does not
 * depend on statistics: each table is read through the index that fits the
 * filter best, in the order of ids if possible.  Some conditions have no index
 * of their own: queue and state of live tasks (indexed columns there cost
 * every submit, and a claim changes the state); several queues in the archive.
 * For these the tables are read by id as long as many rows are in the right
 * queues and states.  If few are, candidates come from another source: lanes
 * of the dispatch index, of which no rows are read, the table of running
 * tasks, or a range of the archive's index for each queue and state.
 *
 * Rounds.  The search proceeds in rounds, each of which examines all rows up
 * to some id, in all tables.  A walk in the order of ids ends after some rows,
 * and restricts the round to the ids that it has reached; the tables are read
 * in the order of their next ids, so that little is read twice.  So a search
 * that may examine no more rows, or take no more time, stops between two
 * rounds, and the id that the last round has reached is where the next search
 * continues.  Since ids do not change, nothing is missed or found twice when
 * tasks move between the tables in the meantime.
 *
 * Ranges that are not in the order of ids (a reference, a correlation id, a
 * workflow, a time) are read as a whole.  If a search is bounded and such a
 * range has more than MOST_IN_RANGE rows, tables are read by id instead.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/debug.h"
#include "base/types.h"
#include "cache/queue.h"
#include "engine/lane_priority.h"
#include "query/task_search.h"
#include "query/task_time.h"
#include "query/task_walk.h"
#include "shared/running.h"

#define FIRST_ROUND 1000 /* rows of a walk */
#define LAST_ROUND 20000
#define TRIAL 1000   /* rows by id, before another source is considered */
#define SPARSE 4     /* then less than one row of so many is in place */
#define FEW_QUEUES 4 /* that are searched one by one immediately */
#define FEW_WORKFLOWS 200
#define MOST_IN_RANGE 100000
#define MIN_CANDIDATES 1000

/* What walks by id have seen in one kind of table. */
typedef struct Density
{
	int64 examined;
	int64 in_place;
} Density;

typedef struct PagePlan
{
	TqSearch   s;
	int        live_states; /* TQ_STATE_BITs; 0: none */
	int        leaf_states;
	Density    live;
	Density    leaf;
	TqLeafTime leaf_time[TQ_FOUND_LIVE];
	TqIdHeap   whole; /* what was found in ranges that were read as a whole */
	bool       is_read[TQ_FOUND_LIVE]; /* leaves of which it has the tasks */
	bool       crowded;                /* a range has too many rows */
	bool       again; /* the round must be repeated without that range */
} PagePlan;

static void plan_begin(PagePlan *plan, TqTaskPage *find,
					   const TqTaskFilter *filter, TqTaskSearch *result);
static void forget_round(TqSearch *search, int64 first, int64 last);
static void run_round(PagePlan *plan);
static int  tables_in_order(PagePlan *plan, int *tables);
static void search_table(PagePlan *plan, int table);
static bool search_ids(PagePlan *plan, int table);
static bool search_words(PagePlan *plan, int table);
static void search_by_queue(PagePlan *plan, int table, TqTaskIndex which,
							const char *word);
static void search_workflows(PagePlan *plan, int table, const int64 *ids,
							 int count);
static void search_workers(PagePlan *plan, int leaf);
static bool search_times(PagePlan *plan, int leaf);
static void add_whole(PagePlan *plan);
static void search_leaf(PagePlan *plan, int leaf);
static void search_queues(PagePlan *plan, int leaf);
static void search_live(PagePlan *plan);
static void search_by_id(PagePlan *plan, int table, Density *density);
static bool is_sparse(const Density *density);
static void search_candidates(PagePlan *plan, bool in_memory);
static void walk_crowd(PagePlan *plan, int table, TqRange *range);
static bool by_running(const TqTaskFilter *filter);
static bool registry_will_do(void);
static void collect_running(PagePlan *plan, TqIdHeap *candidates);
static void add_running(PagePlan *plan, const TqRunning *running, int count,
						TqIdHeap *candidates);
static void collect_lanes(PagePlan *plan, int states, TqIdHeap *candidates);
static void collect_lane(PagePlan *plan, int states, int64 lane,
						 TqIdHeap *candidates);
static bool next_priority(PagePlan *plan, int64 lane, int16 *priority,
						  bool below);

/*
 * Running tasks may be searched in the table of running tasks, which those
 * leave that end after the snapshot was taken: with the snapshot they have not
 * finished.  So, if tasks match whether they run or have finished, remember
 * what runs now.  Returns true if the caller must then take a new snapshot.
 */
bool
tq_task_search_prepare(TqTaskPage *find, const TqTaskFilter *filter)
{
	if (!by_running(filter) || !registry_will_do())
		return false;
	find->ran = tq_running_all(&find->ran_count);
	return true;
}

/*
 * Find the first tasks that match the filter.  Unless the search was stopped,
 * the page is full or there are no more tasks.
 */
void
tq_task_search_run(TqTaskPage *find, const TqTaskFilter *filter,
				   TqTaskSearch *result)
{
	PagePlan  plan = {0};
	TqSearch *s = &plan.s;
	int64     first;
	int64     last;
	int64     step = FIRST_ROUND;

	plan_begin(&plan, find, filter, result);
	first = s->first;
	last = s->last;
	result->stopped = false;
	while (first <= last && !filter->nothing)
	{
		s->limit = Min(
			step, (result->max_examined - s->examined) / TQ_FOUND_TABLES + 1);
		s->first = first;
		s->last = last;
		run_round(&plan);
		if (plan.again)
		{
			plan.again = false;
			forget_round(s, first, last);
			continue;
		}
		tq_id_heap_keep(&s->page, filter->backward ? s->first : PG_INT64_MIN,
						filter->backward ? PG_INT64_MAX : s->last);
		add_whole(&plan);
		if (s->page.count >= s->page.max ||
			(filter->backward ? s->first == first : s->last == last))
			break;
		result->resume_after = filter->backward ? s->first : s->last;
		if (s->examined >= result->max_examined || tq_task_walk_is_late(s))
		{
			result->stopped = true;
			break;
		}
		if (filter->backward)
			last = s->first - 1;
		else
			first = s->last + 1;
		step = Min(step * 2, LAST_ROUND);
	}
	tq_id_heap_sort(&s->page);
	result->found = s->page.rows;
	result->count = s->page.count;
	result->examined = s->examined;
}

/*
 * Find the first max tasks that match the filter; return their number, which
 * is less than max only if there are no more.
 */
int
tq_task_search_page(TqTaskPage *find, const TqTaskFilter *filter, int max,
					TqFound **found)
{
	TqTaskSearch search = {max, PG_INT64_MAX};

	tq_task_search_run(find, filter, &search);
	*found = search.found;
	return search.count;
}

static void
plan_begin(PagePlan *plan, TqTaskPage *find, const TqTaskFilter *filter,
		   TqTaskSearch *result)
{
	int states = filter->states != 0 ? filter->states : ~0;

	plan->s.find = find;
	plan->s.filter = filter;
	plan->s.first = filter->first;
	plan->s.last = filter->last;
	plan->s.until = result->until;
	plan->s.crowd = result->max_examined == PG_INT64_MAX ? PG_INT64_MAX
														 : MOST_IN_RANGE;
	tq_id_heap_init(&plan->s.page, result->max, filter->backward);
	tq_id_heap_init(&plan->whole, result->max, filter->backward);
	plan->live_states = states & TQ_STATES_LIVE;
	plan->leaf_states = states & TQ_STATES_FINISHED;
	/* of live tasks only a running one has a worker and a time of its claim */
	if (by_running(filter))
		plan->live_states &= TQ_STATE_BIT(TQ_STATE_RUNNING);
	if (tq_task_filter_has_time(filter, TQ_TIME_FINISHED) ||
		filter->recreated_as != 0)
		plan->live_states = 0;
	if (!filter->nothing && filter->ids == NULL)
		tq_task_time_bounds(find, filter, &plan->s.first, &plan->s.last);
}

/* Forget what a round has found; it began with these ids. */
static void
forget_round(TqSearch *search, int64 first, int64 last)
{
	if (search->filter->backward ? last == PG_INT64_MAX
								 : first == PG_INT64_MIN)
		search->page.count = 0; /* it was the first one */
	else if (search->filter->backward)
		tq_id_heap_keep(&search->page, last + 1, PG_INT64_MAX);
	else
		tq_id_heap_keep(&search->page, PG_INT64_MIN, first - 1);
}

/* Search all tables up to some id. */
static void
run_round(PagePlan *plan)
{
	int tables[TQ_FOUND_TABLES];
	int count = tables_in_order(plan, tables);

	for (int i = 0; i < count && !plan->again; i++)
	{
		if (plan->s.first > plan->s.last)
			break;
		search_table(plan, tables[i]);
		TQ_DEBUG_POINT("find_table");
	}
}

/*
 * The tables that have rows of this round, by their next id in the direction
 * of the search.
 */
static int
tables_in_order(PagePlan *plan, int *tables)
{
	TqSearch *s = &plan->s;
	int64     next[TQ_FOUND_TABLES];
	int       count = 0;

	for (int t = 0; t < TQ_FOUND_TABLES; t++)
	{
		/* where the first ids are likely to be, if they are not looked up */
		int   table = s->filter->backward ? TQ_FOUND_LIVE - t : t;
		int64 id = 0;
		int   i;

		if ((table == TQ_FOUND_LIVE ? plan->live_states : plan->leaf_states) ==
				0 ||
			RelationGetNumberOfBlocks(
				tq_task_page_table(s->find, table)->rel) == 0)
			continue;
		if (s->filter->ids == NULL && s->filter->recreated_as == 0 &&
			!tq_task_walk_peek(s, table, &id))
			continue;
		for (i = count++; i > 0 && (s->filter->backward ? next[i - 1] < id
														: next[i - 1] > id);
			 i--)
		{
			next[i] = next[i - 1];
			tables[i] = tables[i - 1];
		}
		next[i] = id;
		tables[i] = table;
	}
	return count;
}

static void
search_table(PagePlan *plan, int table)
{
	if (search_ids(plan, table) || search_words(plan, table))
		return;
	if (table == TQ_FOUND_LIVE)
		search_live(plan);
	else
		search_leaf(plan, table);
}

/* By given ids, or by the task that was made from a task. */
static bool
search_ids(PagePlan *plan, int table)
{
	const TqTaskFilter *filter = plan->s.filter;
	TqRange             range;

	for (int i = 0; i < filter->id_count; i++)
	{
		range = (TqRange){TQ_BY_ID};
		tq_task_walk_equals(&range, F_INT8EQ, Int64GetDatum(filter->ids[i]));
		(void) tq_task_walk(&plan->s, table, &range);
	}
	if (filter->ids != NULL || filter->recreated_as == 0)
		return filter->ids != NULL;
	range = (TqRange){TQ_BY_RECREATED};
	tq_task_walk_equals(&range, F_INT8EQ, Int64GetDatum(filter->recreated_as));
	(void) tq_task_walk(&plan->s, table, &range);
	return true;
}

/* By the condition that is likely to match the fewest tasks. */
static bool
search_words(PagePlan *plan, int table)
{
	const TqTaskFilter *filter = plan->s.filter;

	if (plan->crowded)
		return false;
	if (filter->reference != NULL)
		search_by_queue(plan, table, TQ_BY_REFERENCE, filter->reference);
	else if (filter->workflow_id != 0)
		search_workflows(plan, table, &filter->workflow_id, 1);
	else if (filter->key != NULL)
		search_by_queue(plan, table, TQ_BY_KEY, filter->key);
	else if (filter->correlation_id != NULL)
	{
		TqRange range = {TQ_BY_CORRELATION};

		tq_task_walk_equals(&range, F_TEXTEQ,
							CStringGetTextDatum(filter->correlation_id));
		walk_crowd(plan, table, &range);
	}
	else if (filter->workflows != NULL &&
			 filter->workflow_count <= FEW_WORKFLOWS)
		search_workflows(plan, table, filter->workflows,
						 filter->workflow_count);
	else
		return false;
	return true;
}

static void
search_by_queue(PagePlan *plan, int table, TqTaskIndex which, const char *word)
{
	Datum  value = CStringGetTextDatum(word);
	int32 *queues;
	int    count;

	tq_task_page_queues(plan->s.find, plan->s.filter, &queues, &count);
	for (int i = 0; i < count && !plan->again; i++)
	{
		TqRange range = {which};

		tq_task_walk_equals(&range, F_INT4EQ, Int32GetDatum(queues[i]));
		tq_task_walk_equals(&range, F_TEXTEQ, value);
		range.id_column = which == TQ_BY_KEY ? 3 : 0;
		walk_crowd(plan, table, &range);
	}
}

static void
search_workflows(PagePlan *plan, int table, const int64 *ids, int count)
{
	for (int i = 0; i < count && !plan->again; i++)
	{
		TqRange range = {TQ_BY_WORKFLOW};

		tq_task_walk_equals(&range, F_INT8EQ, Int64GetDatum(ids[i]));
		walk_crowd(plan, table, &range);
	}
}

static void
search_leaf(PagePlan *plan, int leaf)
{
	const TqTaskFilter *filter = plan->s.filter;

	if (plan->leaf_time[leaf] == TQ_LEAF_TIME_UNKNOWN)
		plan->leaf_time[leaf] = tq_task_time_leaf(plan->s.find, filter, leaf);
	if (plan->leaf_time[leaf] == TQ_LEAF_TIME_OUTSIDE)
		return;
	/* few finished tasks are not done */
	if (filter->by_worker &&
		(plan->leaf_states & TQ_STATE_BIT(TQ_STATE_DONE)) != 0)
		search_workers(plan, leaf);
	else if (search_times(plan, leaf))
		return;
	else if (filter->all_queues &&
			 (plan->leaf_states & TQ_STATE_BIT(TQ_STATE_DONE)) == 0)
	{
		for (int state = TQ_STATE_DONE; state <= TQ_STATE_LAST; state++)
		{
			TqRange range = {TQ_BY_STATE_ALONE};

			if ((plan->leaf_states & TQ_STATE_BIT(state)) == 0)
				continue;
			tq_task_walk_equals(&range, F_INT2EQ, Int16GetDatum(state));
			range.id_column = 2;
			(void) tq_task_walk(&plan->s, leaf, &range);
		}
	}
	else if ((filter->all_queues && plan->leaf_states == TQ_STATES_FINISHED) ||
			 ((filter->all_queues || filter->queue_count > FEW_QUEUES) &&
			  !is_sparse(&plan->leaf)))
		search_by_id(plan, leaf, &plan->leaf);
	else
		search_queues(plan, leaf);
}

static void
search_workers(PagePlan *plan, int leaf)
{
	const TqTaskFilter *filter = plan->s.filter;

	for (int i = 0; i < filter->worker_count; i++)
	{
		TqRange range = {TQ_BY_WORKER};

		tq_task_walk_equals(&range, F_INT4EQ,
							Int32GetDatum(filter->workers[i]));
		range.id_column = 2;
		(void) tq_task_walk(&plan->s, leaf, &range);
	}
}

/*
 * Search a leaf by the time at which tasks finished, if that selects a part of
 * it that is not too large.  It is read once, for all rounds.
 */
static bool
search_times(PagePlan *plan, int leaf)
{
	TqSearch search = plan->s;
	TqRange  range = {TQ_BY_FINISHED};

	if (plan->leaf_time[leaf] != TQ_LEAF_TIME_PARTLY)
		return false;
	if (plan->is_read[leaf])
		return true;
	tq_task_time_range(search.filter, &range);
	search.page = plan->whole;
	search.first = search.filter->first;
	search.last = search.filter->last;
	plan->is_read[leaf] = tq_task_walk(&search, leaf, &range);
	plan->whole = search.page;
	if (!plan->is_read[leaf])
	{
		/* begin again, without this leaf */
		memset(plan->is_read, false, sizeof(plan->is_read));
		plan->whole.count = 0;
		plan->leaf_time[leaf] = TQ_LEAF_TIME_LARGE;
		plan->again = true;
	}
	return true;
}

/* Add what was found in whole ranges, as far as this round goes. */
static void
add_whole(PagePlan *plan)
{
	TqSearch *s = &plan->s;

	for (int i = 0; i < plan->whole.count; i++)
	{
		if (plan->whole.rows[i].task_id >= s->first &&
			plan->whole.rows[i].task_id <= s->last)
			tq_id_heap_add(&s->page, &plan->whole.rows[i]);
	}
}

/* Search each state of each queue: these index ranges are ordered by id. */
static void
search_queues(PagePlan *plan, int leaf)
{
	int32 *queues;
	int    count;

	tq_task_page_queues(plan->s.find, plan->s.filter, &queues, &count);
	for (int i = 0; i < count; i++)
	{
		for (int state = TQ_STATE_DONE; state <= TQ_STATE_LAST; state++)
		{
			TqRange range = {TQ_BY_STATE};

			if ((plan->leaf_states & TQ_STATE_BIT(state)) == 0)
				continue;
			tq_task_walk_equals(&range, F_INT4EQ, Int32GetDatum(queues[i]));
			tq_task_walk_equals(&range, F_INT2EQ, Int16GetDatum(state));
			range.id_column = 3;
			(void) tq_task_walk(&plan->s, leaf, &range);
		}
	}
}

static void
search_live(PagePlan *plan)
{
	const TqTaskFilter *filter = plan->s.filter;
	int  pending = plan->live_states & TQ_STATE_BIT(TQ_STATE_PENDING);
	int  running = plan->live_states & TQ_STATE_BIT(TQ_STATE_RUNNING);
	bool in_memory = running != 0 && pending == 0 && registry_will_do();

	/* no other source is smaller */
	if (filter->all_queues && (pending != 0 || (running != 0 && !in_memory)))
		search_by_id(plan, TQ_FOUND_LIVE, &plan->live);
	else if ((in_memory && by_running(filter)) || is_sparse(&plan->live))
		search_candidates(plan, in_memory);
	else
		search_by_id(plan, TQ_FOUND_LIVE, &plan->live);
}

static void
search_by_id(PagePlan *plan, int table, Density *density)
{
	TqRange range = {TQ_BY_ID};
	int64   examined = plan->s.examined;
	int64   in_place = plan->s.in_place;

	range.id_column = 1;
	(void) tq_task_walk(&plan->s, table, &range);
	density->examined += plan->s.examined - examined;
	density->in_place += plan->s.in_place - in_place;
}

/* Are few of the rows in the right queues and states? */
static bool
is_sparse(const Density *density)
{
	return density->examined - density->in_place >= TRIAL &&
		   density->in_place < density->examined / SPARSE;
}

/* Collect the first ids of tasks that may match, and check each task. */
static void
search_candidates(PagePlan *plan, bool in_memory)
{
	TqSearch *s = &plan->s;
	TqIdHeap  candidates;
	int       states = plan->live_states;
	int64     examined = 0;

	tq_id_heap_init(
		&candidates,
		(int) Max(Min(s->limit, (int64) s->page.max * 2), MIN_CANDIDATES),
		s->filter->backward);
	if (in_memory)
	{
		collect_running(plan, &candidates);
		states &= ~TQ_STATE_BIT(TQ_STATE_RUNNING);
	}
	if (states != 0)
		collect_lanes(plan, states, &candidates);
	tq_id_heap_sort(&candidates);
	for (int i = 0; i < candidates.count; i++)
	{
		int64   task_id = candidates.rows[i].task_id;
		TqRange range = {TQ_BY_ID};

		/* a task may occur twice, with positions of two versions */
		if (i > 0 && task_id == candidates.rows[i - 1].task_id)
			continue;
		if (!tq_id_heap_wants(&s->page, task_id))
			break;
		tq_task_walk_equals(&range, F_INT8EQ, Int64GetDatum(task_id));
		(void) tq_task_walk(s, TQ_FOUND_LIVE, &range);
		s->examined++;
		if ((++examined >= s->limit || tq_task_walk_is_late(s)) &&
			i + 1 < candidates.count)
		{
			tq_task_walk_narrow(s, task_id);
			break;
		}
	}
	if (candidates.dropped)
		tq_task_walk_narrow(s, candidates.rows[candidates.count - 1].task_id);
	pfree(candidates.rows);
}

/* Walk a range of a word; note if it has too many rows. */
static void
walk_crowd(PagePlan *plan, int table, TqRange *range)
{
	if (!tq_task_walk(&plan->s, table, range))
	{
		plan->crowded = true;
		plan->again = true;
	}
}

/* Does the filter select by what only running and finished tasks have? */
static bool
by_running(const TqTaskFilter *filter)
{
	return filter->by_worker ||
		   tq_task_filter_has_time(filter, TQ_TIME_CLAIMED);
}

/*
 * Are the running tasks of the snapshot the same as in shared/running.c?  It
 * has all committed claims, but not claims of this transaction.  (A task that
 * has ended since the snapshot was taken is missing from it, unless
 * tq_task_search_prepare has found it before.)
 */
static bool
registry_will_do(void)
{
	return !IsolationUsesXactSnapshot() &&
		   !TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
		   tq_running_complete();
}

static void
collect_running(PagePlan *plan, TqIdHeap *candidates)
{
	int        count;
	TqRunning *running = tq_running_all(&count);

	add_running(plan, running, count, candidates);
	add_running(plan, plan->s.find->ran, plan->s.find->ran_count, candidates);
	pfree(running);
}

static void
add_running(PagePlan *plan, const TqRunning *running, int count,
			TqIdHeap *candidates)
{
	TqFound found = {0};

	for (int i = 0; i < count; i++)
	{
		found.task_id = running[i].task_id;
		if (found.task_id >= plan->s.first && found.task_id <= plan->s.last &&
			tq_task_filter_may_run(plan->s.filter, running[i].worker_id))
			tq_id_heap_add(candidates, &found);
	}
}

/* Collect candidates from the lanes of the queues, without reading rows. */
static void
collect_lanes(PagePlan *plan, int states, TqIdHeap *candidates)
{
	int32 *queues;
	int    count;

	tq_task_page_queues(plan->s.find, plan->s.filter, &queues, &count);
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_by_id(queues[i]);

		for (int l = 0; queue != NULL && l < queue->lane_count; l++)
		{
			if (l == 0 ||
				queue->lanes[l].lane_id != queue->lanes[l - 1].lane_id)
				collect_lane(plan, states, queue->lanes[l].lane_id,
							 candidates);
		}
	}
}

static void
collect_lane(PagePlan *plan, int states, int64 lane, TqIdHeap *candidates)
{
	int waiting = TQ_STATE_BIT(TQ_STATE_BLOCKED) |
				  TQ_STATE_BIT(TQ_STATE_SUSPENDED);
	int16   priority = 0;
	TqRange range;

	if ((states & ~waiting) != 0)
	{
		range = (TqRange){TQ_BY_POSITION};
		tq_task_walk_equals(&range, F_INT8EQ, Int64GetDatum(lane));
		tq_task_walk_collect(&plan->s, TQ_FOUND_LIVE, &range, 4, candidates);
		return;
	}
	/* these tasks come after all other tasks of their priority */
	for (bool found = next_priority(plan, lane, &priority, false); found;
		 found = next_priority(plan, lane, &priority, true))
	{
		range = (TqRange){TQ_BY_POSITION};
		tq_task_walk_equals(&range, F_INT8EQ, Int64GetDatum(lane));
		tq_task_walk_equals(&range, F_INT2EQ, Int16GetDatum(priority));
		tq_task_walk_equals(&range, F_TIMESTAMPTZ_EQ,
							TimestampTzGetDatum(DT_NOEND));
		tq_task_walk_collect(&plan->s, TQ_FOUND_LIVE, &range, 4, candidates);
	}
}

static bool
next_priority(PagePlan *plan, int64 lane, int16 *priority, bool below)
{
	TqTaskPage *find = plan->s.find;

	return tq_lane_priority_read(
		find->table[TQ_FOUND_LIVE].rel,
		tq_task_page_index(find, TQ_FOUND_LIVE, TQ_BY_POSITION),
		find->snapshot, lane, below, priority);
}
