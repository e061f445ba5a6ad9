/*
 * steps.c
 *		What actors do, one function for each kind of step.
 *
 * A step is what happens without another process in between: a read of one
 * entry of the index, one call of the table, the moment at which the end of
 * a transaction shows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "model.h"

typedef void (*StepFunction)(World *world, int number, int choice);

static void insert(World *world, int number, int choice);
static void retry(World *world, int number, int choice);
static void lock_row(World *world, int number, int choice);
static void read_moment(World *world, int number, int choice);
static void take_snapshot(World *world, int number, int choice);
static void find_priorities(World *world, int number, int choice);
static void learn_priorities(World *world, int number, int choice);
static void read_ranges(World *world, int number, int choice);
static void walk(World *world, int number, int choice);
static void learn(World *world, int number, int choice);
static void learn_end(World *world, int number, int choice);
static void end(World *world, int number, int choice);
static void end_prepared(World *world, int number, int choice);
static void lower(World *world, int number, int choice);
static void forget(World *world, int number, int choice);
static void tick(World *world, int number, int choice);
static void evict(World *world, int number, int choice);
static void wipe(World *world, int number, int choice);
static void restart(World *world, int number, int choice);

static const struct
{
	const char  *name;
	StepFunction function;
} steps[] = {
	[STEP_INSERT] = {"inserts", insert},
	[STEP_RETRY] = {"puts its task back", retry},
	[STEP_LOCK] = {"locks a row", lock_row},
	[STEP_MOMENT] = {"reads the moment", read_moment},
	[STEP_SNAPSHOT] = {"takes a snapshot", take_snapshot},
	[STEP_PRIORITIES] = {"looks for priorities", find_priorities},
	[STEP_LEARN_PRIORITIES] = {"tells priorities", learn_priorities},
	[STEP_READ] = {"reads the ranges", read_ranges},
	[STEP_WALK] = {"looks at an entry", walk},
	[STEP_LEARN] = {"tells what it passed", learn},
	[STEP_LEARN_END] = {"tells that nothing follows", learn_end},
	[STEP_END] = {"ends, visibly", end},
	[STEP_PREPARED] = {"ends, having been prepared", end_prepared},
	[STEP_LOWER] = {"lowers", lower},
	[STEP_FORGET] = {"forgets all ranges", forget},
	[STEP_TICK] = {"lets time pass", tick},
	[STEP_EVICT] = {"needs the cells", evict},
	[STEP_WIPE] = {"wipes memory", wipe},
	[STEP_RESTART] = {"restarts the server", restart},
};

static void begin_walk(World *world, int number);
static bool looks_before(const Part *part);
static int  next_entry(const World *world, int number);
static void look_at(World *world, int number, int slot);
static void pass(Actor *actor, int slot);
static void next_priority(Actor *actor, const Part *part);
static void go_to(Actor *actor, Step step);
static void show(World *world, int number, bool commit);
static int  debts(const World *world, int number, bool commit);
static void lower_first(Actor *actor, int owes, Step otherwise);

Step
first_step(const Part *part)
{
	switch (part->kind)
	{
		case KIND_SUBMIT:
			return STEP_INSERT;
		case KIND_CLAIM:
			return looks_before(part) ? STEP_SNAPSHOT : STEP_MOMENT;
		case KIND_RETRY:
			return STEP_RETRY;
		case KIND_LOCK:
			return STEP_LOCK;
		case KIND_TICK:
			return STEP_TICK;
		case KIND_EVICT:
			return STEP_EVICT;
		case KIND_WIPE:
			return STEP_WIPE;
		case KIND_RESTART:
			return STEP_RESTART;
		case KIND_NONE:
			break;
	}
	return STEP_DONE;
}

const char *
step_name(Step step)
{
	return steps[step].name;
}

/* In how many ways can the actor continue?  0: it has ended, or must wait. */
int
choices(const World *world, int number)
{
	const Part  *part = &scenario->parts[number];
	const Actor *actor = &world->actors[number];
	const Task  *task = &world->tasks[part->task];

	switch ((Step) actor->step)
	{
		case STEP_DONE:
			return 0;
		case STEP_RETRY:
			return (task->row.state == ROW_RUNNING ||
					(part->moves && task->row.state == ROW_PENDING)) &&
				   task->writer == NO_ACTOR;
		case STEP_LOCK:
			return task->row.state == ROW_PENDING && task->writer == NO_ACTOR;
		case STEP_END:
			return actor->end != 0 ? 1 : __builtin_popcount(part->ends);
		default:
			return 1;
	}
}

void
take_step(World *world, int number, int choice)
{
	steps[world->actors[number].step].function(world, number, choice);
}

/* --- actors that make a task claimable */

static void
insert(World *world, int number, int choice)
{
	const Part *part = &scenario->parts[number];

	for (int i = 0; i < (part->second != 0 ? 2 : 1); i++)
	{
		Task *task = &world->tasks[part->task + i];
		int   slot = i == 0 ? part->slot : part->second;

		task->writer = (int8) number;
		task->written =
			(Row){ROW_PENDING, (uint8) slot, (uint8) part->priority};
		world->entry[slot] = (uint8) (part->task + i + 1);
		world->entry_priority[slot] = (uint8) part->priority;
	}
	world->actors[number].step = STEP_END;
}

static void
retry(World *world, int number, int choice)
{
	const Part *part = &scenario->parts[number];
	Task       *task = &world->tasks[part->task];

	task->writer = (int8) number;
	task->written = (Row){ROW_PENDING, (uint8) part->slot, task->row.priority};
	world->entry[part->slot] = (uint8) (part->task + 1);
	world->entry_priority[part->slot] = task->row.priority;
	world->actors[number].step = STEP_END;
}

/* Perhaps to change it, which does not come to pass */
static void
lock_row(World *world, int number, int choice)
{
	Task *task = &world->tasks[scenario->parts[number].task];

	task->writer = (int8) number;
	task->written = task->row;
	world->actors[number].step = STEP_END;
}

/* --- actors that claim */

static void
read_moment(World *world, int number, int choice)
{
	Actor *actor = &world->actors[number];

	actor->moment = world->number;
	if (looks_before(&scenario->parts[number]))
		begin_walk(world, number);
	else
		actor->step = STEP_SNAPSHOT;
}

static void
take_snapshot(World *world, int number, int choice)
{
	Actor *actor = &world->actors[number];

	for (int i = 0; i < TASKS; i++)
		actor->snapshot[i] = world->tasks[i].row;
	if (looks_before(&scenario->parts[number]))
		actor->step = STEP_MOMENT;
	else
		begin_walk(world, number);
}

static void
begin_walk(World *world, int number)
{
	Actor *actor = &world->actors[number];

	actor->priority_count = 1;
	actor->step = scenario->parts[number].lists ? STEP_PRIORITIES : STEP_READ;
}

/* Is its snapshot older than its moment? */
static bool
looks_before(const Part *part)
{
	return part->old || without == RULE_MOMENT_FIRST;
}

/* As they are known, or by the entries that the index has */
static void
find_priorities(World *world, int number, int choice)
{
	Actor     *actor = &world->actors[number];
	TqRangeKey lane = key_of(TQ_RANGE_LANE);
	int        count = 0;

	actor->step = STEP_READ;
	if (tq_dead_range_core_priorities(&world->table, lane.database, lane.lane_id,
								 actor->priorities, &count))
		actor->priority_count = (uint8) count;
	else
	{
		for (int priority = TASKS; priority >= 0; priority--)
		{
			for (int slot = 1; slot < SLOTS; slot++)
			{
				if (world->entry[slot] == 0 ||
					world->entry_priority[slot] != priority)
					continue;
				actor->priorities[count++] = (int16) priority;
				break;
			}
		}
		actor->priority_count = (uint8) count;
		actor->step = STEP_LEARN_PRIORITIES;
	}
	if (count == 0 && actor->step == STEP_READ)
		go_to(actor, STEP_DONE);
}

static void
learn_priorities(World *world, int number, int choice)
{
	Actor *actor = &world->actors[number];

	table_learn_priorities(world, actor);
	if (actor->priority_count > 0)
		actor->step = STEP_READ;
	else
		go_to(actor, STEP_DONE);
}

static void
read_ranges(World *world, int number, int choice)
{
	Actor     *actor = &world->actors[number];
	TqRangeKey key = key_of(actor->priorities[actor->priority]);

	actor->range_count =
		(uint8) tq_dead_range_core_read(&world->table, &key, actor->ranges);
	actor->step = STEP_WALK;
}

static void
walk(World *world, int number, int choice)
{
	const Part *part = &scenario->parts[number];
	Actor      *actor = &world->actors[number];
	int         slot = next_entry(world, number);

	actor->at_end = slot == 0;
	if (slot == 0)
		actor->step = STEP_LEARN;
	else if (slot <= world->now)
		look_at(world, number, slot);
	else if (without == RULE_NOT_DUE_ENDS)
		pass(actor, slot);
	else
		actor->step = STEP_LEARN;
	if (actor->taken == part->want && without != RULE_CLAIMABLE_ENDS)
		actor->step = STEP_LEARN;
}

/*
 * The next slot with an entry that is not known to be dead; 0 if there is none
 */
static int
next_entry(const World *world, int number)
{
	const Actor *actor = &world->actors[number];
	int          step = scenario->parts[number].lifo ? -1 : 1;
	int          slot = actor->at + step;

	if (step < 0 && actor->at == 0)
		slot = world->now;
	for (; slot > 0 && slot < SLOTS; slot += step)
	{
		if (world->entry[slot] != 0 &&
			world->entry_priority[slot] ==
				actor->priorities[actor->priority] &&
			!inside(actor->ranges, actor->range_count, slot))
			return slot;
	}
	return 0;
}

static void
look_at(World *world, int number, int slot)
{
	const Part *part = &scenario->parts[number];
	Actor      *actor = &world->actors[number];
	int         index = world->entry[slot] - 1;
	Task       *task = &world->tasks[index];
	const Row  *seen = &actor->snapshot[index];

	if (seen->state != ROW_PENDING || seen->slot != slot)
	{
		pass(actor, slot);
		return;
	}
	if (part->refuses == index + 1 && without != RULE_LIMIT_ENDS)
	{
		actor->step = STEP_LEARN;
		return;
	}
	if (part->refuses != index + 1 && actor->taken < part->want &&
		task->writer == NO_ACTOR && memcmp(&task->row, seen, sizeof(Row)) == 0)
	{
		task->writer = (int8) number;
		task->written = *seen;
		task->written.state = ROW_RUNNING;
		actor->taken++;
	}
	pass(actor, slot);
}

static void
pass(Actor *actor, int slot)
{
	actor->at = (uint8) slot;
	actor->last = (uint8) slot;
	if (actor->first == 0)
		actor->first = (uint8) slot;
}

/* From where the walk began, over all that it jumped, to the last entry */
static void
learn(World *world, int number, int choice)
{
	const Part *part = &scenario->parts[number];
	Actor      *actor = &world->actors[number];
	TqDeadRange     range = {TQ_DEAD_RANGE_BEGIN, position_of(actor->last)};

	if (part->lifo)
		range.hi = position_of(actor->first);
	if (part->lifo && !actor->at_end)
		range.lo = position_of(actor->last);
	if (!part->lifo && without == RULE_LEARN_POSITION)
		range.hi = position_of(world->now);
	if (actor->last != 0 && (!part->old || without == RULE_OWN_SNAPSHOT))
		table_learn(world, actor, &range);
	if (actor->at_end && !part->lifo && !part->old)
		actor->step = STEP_LEARN_END;
	else
		next_priority(actor, part);
}

static void
learn_end(World *world, int number, int choice)
{
	Actor  *actor = &world->actors[number];
	TqDeadRange range = {TQ_DEAD_RANGE_BEGIN, TQ_DEAD_RANGE_END};

	if (actor->last != 0)
		range.lo = position_of(actor->last);
	table_learn(world, actor, &range);
	next_priority(actor, &scenario->parts[number]);
}

static void
next_priority(Actor *actor, const Part *part)
{
	if (actor->taken < part->want &&
		actor->priority + 1 < actor->priority_count)
	{
		actor->priority++;
		actor->at = actor->first = actor->last = 0;
		actor->step = STEP_READ;
	}
	else
		go_to(actor, actor->taken > 0 ? STEP_END : STEP_DONE);
}

/* What it knew no longer matters. */
static void
go_to(Actor *actor, Step step)
{
	memset(actor, 0, sizeof(*actor));
	actor->step = (uint8) step;
}

/* --- ends of transactions */

static void
end(World *world, int number, int choice)
{
	const Part *part = &scenario->parts[number];
	Actor      *actor = &world->actors[number];
	bool        chosen = actor->end != 0;
	int         owes;

	for (int i = 0; i < ENDS && !chosen; i++)
	{
		if ((part->ends & (1 << i)) != 0 && choice-- == 0)
			actor->end = (uint8) (1 << i);
	}
	if ((actor->end & END_PREPARED) != 0)
	{
		world->flagged = true;
		actor->step = STEP_PREPARED;
		return;
	}
	owes = debts(world, number, actor->end == END_COMMIT);
	if (without == RULE_AFTER_VISIBLE && !chosen)
	{
		lower_first(actor, owes, STEP_END);
		return;
	}
	show(world, number, actor->end == END_COMMIT);
	if (without == RULE_AFTER_VISIBLE)
		go_to(actor, STEP_DONE);
	else
		lower_first(actor, owes, STEP_DONE);
}

static void
end_prepared(World *world, int number, int choice)
{
	Actor *actor = &world->actors[number];
	bool   commit = actor->end == END_PREPARED_COMMIT;
	bool   told = true;

	show(world, number, commit);
	if (without == RULE_COMMIT_PREPARED && commit)
		told = false;
	if (without == RULE_ROLLBACK_PREPARED && !commit)
		told = false;
	if (without == RULE_PREPARED_RESTART && !world->flagged)
		told = false;
	go_to(actor, told ? STEP_FORGET : STEP_DONE);
}

/* Others see what the transaction, or its savepoint, has done. */
static void
show(World *world, int number, bool commit)
{
	for (int i = 0; i < TASKS; i++)
	{
		Task *task = &world->tasks[i];

		if (task->writer != number)
			continue;
		if (commit)
			task->row = task->written;
		memset(&task->written, 0, sizeof(task->written));
		task->writer = NO_ACTOR;
	}
}

/* The slots at which a task can be claimed after the end */
static int
debts(const World *world, int number, bool commit)
{
	const Part *part = &scenario->parts[number];
	int         end_bit = world->actors[number].end;
	int         owes = 0;

	if (part->kind == KIND_LOCK)
	{
		if (without == RULE_LOCK_LOWERS)
			return 0;
	}
	else if ((without == RULE_COMMIT_LOWERS && end_bit == END_COMMIT) ||
			 (without == RULE_ABORT_LOWERS && end_bit == END_ABORT) ||
			 (without == RULE_SAVEPOINT_LOWERS && end_bit == END_SAVEPOINT))
		return 0;
	for (int i = 0; i < TASKS; i++)
	{
		const Task *task = &world->tasks[i];
		const Row  *row = commit ? &task->written : &task->row;

		if (task->writer == number && row->state == ROW_PENDING)
			owes |= 1 << row->slot;
	}
	return owes;
}

static void
lower_first(Actor *actor, int owes, Step otherwise)
{
	actor->owes = (uint16) owes;
	if (owes != 0)
		actor->step = STEP_LOWER;
	else if (otherwise == STEP_DONE)
		go_to(actor, STEP_DONE);
}

/* One place, or the places of a bulk submission as one span */
static void
lower(World *world, int number, int choice)
{
	const Part *part = &scenario->parts[number];
	Actor      *actor = &world->actors[number];
	int         slot = __builtin_ctz(actor->owes);

	if (part->second != 0)
	{
		table_lower(world, Min(part->slot, part->second),
					Max(part->slot, part->second));
		actor->owes = 0;
	}
	else
	{
		table_lower(world, slot, slot);
		actor->owes &= (uint16) ~(1 << slot);
	}
	if (actor->owes != 0)
		return;
	if (without == RULE_AFTER_VISIBLE)
		actor->step = STEP_END;
	else
		go_to(actor, STEP_DONE);
}

static void
forget(World *world, int number, int choice)
{
	table_forget(world);
	go_to(&world->actors[number], STEP_DONE);
}

/* --- other events */

static void
tick(World *world, int number, int choice)
{
	Actor *actor = &world->actors[number];

	world->now++;
	if (++actor->taken >= scenario->parts[number].want)
		go_to(actor, STEP_DONE);
}

static void
evict(World *world, int number, int choice)
{
	table_evict(world);
	go_to(&world->actors[number], STEP_DONE);
}

static void
wipe(World *world, int number, int choice)
{
	table_wipe(world);
	go_to(&world->actors[number], STEP_DONE);
}

/* Memory is new; of transactions only prepared ones remain. */
static void
restart(World *world, int number, int choice)
{
	for (int i = 0; i < ACTORS; i++)
	{
		Actor *actor = &world->actors[i];

		if (i != number && (actor->step == STEP_PREPARED ||
							actor->step == first_step(&scenario->parts[i])))
			continue;
		show(world, i, false);
		go_to(actor, STEP_DONE);
	}
	memset(&world->table, 0, sizeof(world->table));
	world->number = 1;
	world->flagged = false;
	tq_dead_range_core_wipe(&world->table, 1);
}
