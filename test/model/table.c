/*
 * table.c
 *		Calls of the table of dead ranges, with a rule taken out or not.
 *
 * What dead_range.c does under a lock is one step here.  Where the rule is one of
 * dead_range_core.c, its effect is undone after the call.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "model.h"

static TqRangeCell  *cell_of(World *world, int priority);
static TqDeadRangeMoment next_number(World *world);
static void undo_in_cell(TqRangeCell *cell, const TqRangeCell *before);
static void undo_in_lane(TqRangeCell *cell, const TqRangeCell *before);

/* Slots from one to another of a priority are lowered as one span. */
void
table_lower(World *world, int from, int to)
{
	int           priority = world->entry_priority[from];
	TqRangeKey    key = key_of(priority);
	TqDeadRange       range = {position_of(from), position_of(to)};
	TqRangeCell  *cell = cell_of(world, priority);
	TqRangeCell  *lane = cell_of(world, TQ_RANGE_LANE);
	TqRangeCell   cell_before;
	TqRangeCell   lane_before;
	TqDeadRangeMoment floor = world->table.floor;

	if (without == RULE_LOWER_POSITION)
		range.lo = range.hi = position_of(world->now);
	if (cell != NULL)
		cell_before = *cell;
	if (lane != NULL)
		lane_before = *lane;
	tq_dead_range_core_lower(&world->table, &key, &range, next_number(world));
	if (cell != NULL)
		undo_in_cell(cell, &cell_before);
	if (lane != NULL)
		undo_in_lane(lane, &lane_before);
	if (without == RULE_BIRTH)
		world->table.floor = floor;
}

static void
undo_in_cell(TqRangeCell *cell, const TqRangeCell *before)
{
	TqRangeDead *dead = &cell->u.dead;

	switch (without)
	{
		case RULE_SPAN:
			dead->span_count = before->u.dead.span_count;
			dead->first_span = before->u.dead.first_span;
			memcpy(dead->spans, before->u.dead.spans, sizeof(dead->spans));
			break;
		case RULE_CUT:
			dead->count = before->u.dead.count;
			dead->open = before->u.dead.open;
			memcpy(dead->ranges, before->u.dead.ranges, sizeof(dead->ranges));
			break;
		case RULE_TOO_MANY:
			cell->floor = before->floor;
			break;
		default:
			break;
	}
}

static void
undo_in_lane(TqRangeCell *cell, const TqRangeCell *before)
{
	if (without == RULE_PRIORITY_ADDED ||
		(without == RULE_PRIORITY_MANY && !cell->u.lane.known))
		*cell = *before;
}

void
table_learn(World *world, const Actor *actor, const TqDeadRange *range)
{
	TqRangeKey    key = key_of(actor->priorities[actor->priority]);
	TqDeadRangeMoment moment = actor->moment;
	TqDeadRangeMoment floor = world->table.floor;
	uint64        evicted = world->table.evicted;

	if (without == RULE_LATER_CUT)
		moment = PG_UINT64_MAX;
	if (cell_of(world, key.priority) == NULL && without == RULE_BIRTH)
		world->table.floor = 0;
	(void) tq_dead_range_core_learn(&world->table, &key, range, moment);
	if (without == RULE_BIRTH)
		world->table.floor = floor;
	if (without == RULE_EVICTION && world->table.evicted != evicted)
	{
		world->table.floor = floor;
		cell_of(world, key.priority)->floor = floor;
	}
}

void
table_learn_priorities(World *world, const Actor *actor)
{
	TqRangeKey    lane = key_of(TQ_RANGE_LANE);
	TqDeadRangeMoment moment = actor->moment;

	if (without == RULE_PRIORITY_LATER)
		moment = PG_UINT64_MAX;
	(void) tq_dead_range_core_learn_priorities(&world->table, lane.database,
										  lane.lane_id, actor->priorities,
										  actor->priority_count, moment);
}

/* Other lanes are walked, until this one's cells have gone. */
void
table_evict(World *world)
{
	TqDeadRangeMoment floor = world->table.floor;

	for (int i = 0; i < TQ_RANGE_CELLS; i++)
	{
		TqRangeKey key = key_of(0);
		TqDeadRange    range = {TQ_DEAD_RANGE_BEGIN, position_of(1)};

		key.lane_id += 1 + i;
		(void) tq_dead_range_core_learn(&world->table, &key, &range, world->number);
	}
	if (without == RULE_EVICTION)
		world->table.floor = floor;
}

void
table_wipe(World *world)
{
	TqDeadRangeMoment floor = world->table.floor;

	tq_dead_range_core_wipe(&world->table, next_number(world));
	if (without == RULE_WIPE)
		world->table.floor = floor;
}

void
table_forget(World *world)
{
	TqDeadRangeMoment floor = world->table.floor;

	tq_dead_range_core_forget(&world->table, key_of(0).database,
						 next_number(world));
	if (without == RULE_PREPARED_NUMBER)
		world->table.floor = floor;
}

static TqRangeCell *
cell_of(World *world, int priority)
{
	TqRangeKey key = key_of(priority);

	for (int i = 0; i < world->table.count; i++)
	{
		if (memcmp(&world->table.cells[i].key, &key, sizeof(key)) == 0)
			return &world->table.cells[i];
	}
	return NULL;
}

static TqDeadRangeMoment
next_number(World *world)
{
	if (without != RULE_NUMBER)
		world->number++;
	return world->number;
}
