/*
 * world.c
 *		How a world begins, what must hold in it, and its fingerprint.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "model.h"

static bool lost(const World *world, const Task *task);
static bool owed(const World *world, int slot);
static bool listed(const TqRangeLane *lane, int priority);
static bool sorted(const TqRangeCell *cell);
static void hash_bytes_of(Fingerprint *hash, const void *bytes, size_t size);
static void hash_table(Fingerprint *hash, const TqRangeTable *table);
static void hash_cell(Fingerprint *hash, const TqRangeCell *cell);
static void hash_actor(Fingerprint *hash, const Actor *actor);

void
world_begin(World *world)
{
	memset(world, 0, sizeof(*world));
	world->now = (uint8) scenario->now;
	world->number = 1;
	tq_dead_range_core_wipe(&world->table, 1);
	for (int i = 0; i < TASKS; i++)
	{
		const Row *row = &scenario->rows[i];

		world->tasks[i].row = *row;
		world->tasks[i].writer = NO_ACTOR;
		if (row->state == ROW_NONE)
			continue;
		world->entry[row->slot] = (uint8) (i + 1);
		world->entry_priority[row->slot] = row->priority;
	}
	for (int i = 0; i < ACTORS; i++)
		world->actors[i].step = (uint8) first_step(&scenario->parts[i]);
}

/* Two slots have one time: neighbours in a range, or not. */
TqPosition
position_of(int slot)
{
	return (TqPosition){slot / 2, slot % 2};
}

TqRangeKey
key_of(int priority)
{
	return (TqRangeKey){1, priority, 1};
}

bool
inside(const TqDeadRange *ranges, int count, int slot)
{
	TqPosition position = position_of(slot);

	for (int i = 0; i < count; i++)
	{
		if (!tq_dead_range_core_before(&position, &ranges[i].lo) &&
			!tq_dead_range_core_before(&ranges[i].hi, &position))
			return true;
	}
	return false;
}

/* Is no task lost? */
bool
world_sound(const World *world, const char **problem)
{
	for (int i = 0; i < world->table.count; i++)
	{
		if (world->table.cells[i].key.priority != TQ_RANGE_LANE &&
			!sorted(&world->table.cells[i]))
		{
			*problem = "ranges are not sorted and disjoint";
			return false;
		}
	}
	for (int i = 0; i < TASKS; i++)
	{
		if (lost(world, &world->tasks[i]))
		{
			*problem = "a task is lost";
			return false;
		}
	}
	return true;
}

/* Is something known to be dead? */
bool
world_knows(const World *world)
{
	for (int i = 0; i < world->table.count; i++)
	{
		const TqRangeCell *cell = &world->table.cells[i];

		if (cell->key.priority != TQ_RANGE_LANE &&
			cell->key.lane_id == key_of(0).lane_id &&
			(cell->u.dead.count > 0 || cell->u.dead.open))
			return true;
	}
	return false;
}

/*
 * It can be claimed, now or when it is due, but claims would skip it, or not
 * reach its priority, and no actor will publish its position.
 */
static bool
lost(const World *world, const Task *task)
{
	if (task->row.state != ROW_PENDING || task->writer != NO_ACTOR ||
		owed(world, task->row.slot))
		return false;
	for (int i = 0; i < world->table.count; i++)
	{
		const TqRangeCell *cell = &world->table.cells[i];
		TqDeadRange            ranges[TQ_RANGES];

		if (cell->key.lane_id != key_of(0).lane_id)
			continue;
		if (cell->key.priority == TQ_RANGE_LANE)
		{
			if (!listed(&cell->u.lane, task->row.priority))
				return true;
		}
		else if (cell->key.priority == task->row.priority &&
				 inside(ranges, tq_dead_range_core_ranges(cell, ranges),
						task->row.slot))
			return true;
	}
	return false;
}

static bool
owed(const World *world, int slot)
{
	for (int i = 0; i < ACTORS; i++)
	{
		const Actor *actor = &world->actors[i];

		if (actor->step == STEP_FORGET ||
			(actor->step == STEP_LOWER && (actor->owes & (1 << slot)) != 0))
			return true;
	}
	return false;
}

/* A list that is not known is complete. */
static bool
listed(const TqRangeLane *lane, int priority)
{
	for (int i = 0; i < lane->count; i++)
	{
		if (lane->priorities[i] == priority)
			return true;
	}
	return !lane->known;
}

static bool
sorted(const TqRangeCell *cell)
{
	TqDeadRange ranges[TQ_RANGES];
	int     count = tq_dead_range_core_ranges(cell, ranges);

	for (int i = 0; i < count; i++)
	{
		if (tq_dead_range_core_before(&ranges[i].hi, &ranges[i].lo) ||
			(i > 0 && !tq_dead_range_core_before(&ranges[i - 1].hi, &ranges[i].lo)))
			return false;
	}
	return true;
}

/*
 * 128 bits of what matters in a world: two worlds that differ have, as good
 * as surely, different ones.
 */
Fingerprint
world_fingerprint(const World *world)
{
	Fingerprint hash = {UINT64CONST(0x243F6A8885A308D3),
						UINT64CONST(0x13198A2E03707344)};

	hash_bytes_of(&hash, &world->now, sizeof(world->now));
	hash_bytes_of(&hash, &world->flagged, sizeof(world->flagged));
	hash_bytes_of(&hash, &world->number, sizeof(world->number));
	hash_bytes_of(&hash, world->tasks, sizeof(world->tasks));
	hash_bytes_of(&hash, world->entry, sizeof(world->entry));
	for (int i = 0; i < ACTORS; i++)
		hash_actor(&hash, &world->actors[i]);
	hash_table(&hash, &world->table);
	return hash;
}

static void
hash_bytes_of(Fingerprint *hash, const void *bytes, size_t size)
{
	const uint8 *at = bytes;

	while (size > 0)
	{
		size_t part = Min(size, sizeof(uint64));
		uint64 word = size;

		memcpy(&word, at, part);
		hash->a = (hash->a ^ word) * UINT64CONST(0x9E3779B97F4A7C15);
		hash->a ^= hash->a >> 29;
		hash->b = (hash->b + word) * UINT64CONST(0xC2B2AE3D27D4EB4F);
		hash->b ^= hash->b >> 31;
		at += part;
		size -= part;
	}
}

/* Members one by one: what lies between or behind them does not matter. */
static void
hash_actor(Fingerprint *hash, const Actor *actor)
{
	uint8 members[] = {
		actor->step,           actor->end,         actor->priority,
		actor->priority_count, actor->range_count, actor->at,
		actor->first,          actor->last,        actor->at_end,
		actor->taken,          actor->owes & 0xff, actor->owes >> 8};

	hash_bytes_of(hash, members, sizeof(members));
	hash_bytes_of(hash, &actor->moment, sizeof(actor->moment));
	hash_bytes_of(hash, actor->snapshot, sizeof(actor->snapshot));
	hash_bytes_of(hash, actor->priorities, sizeof(actor->priorities));
	hash_bytes_of(hash, actor->ranges, sizeof(TqDeadRange) * actor->range_count);
}

static void
hash_table(Fingerprint *hash, const TqRangeTable *table)
{
	hash_bytes_of(hash, &table->floor, sizeof(table->floor));
	hash_bytes_of(hash, &table->count, sizeof(table->count));
	hash_bytes_of(hash, &table->hand, sizeof(table->hand));
	for (int i = 0; i < table->count; i++)
		hash_cell(hash, &table->cells[i]);
}

static void
hash_cell(Fingerprint *hash, const TqRangeCell *cell)
{
	const TqRangeDead *dead = &cell->u.dead;
	const TqRangeLane *lane = &cell->u.lane;

	hash_bytes_of(hash, &cell->key, sizeof(cell->key));
	hash_bytes_of(hash, &cell->floor, sizeof(cell->floor));
	hash_bytes_of(hash, &cell->touched, sizeof(cell->touched));
	if (cell->key.priority == TQ_RANGE_LANE)
	{
		hash_bytes_of(hash, &lane->known, sizeof(lane->known));
		hash_bytes_of(hash, lane->priorities,
					  sizeof(lane->priorities[0]) * lane->count);
		hash_bytes_of(hash, lane->numbers,
					  sizeof(lane->numbers[0]) * lane->count);
		return;
	}
	hash_bytes_of(hash, &dead->open, sizeof(dead->open));
	if (dead->open)
		hash_bytes_of(hash, &dead->open_lo, sizeof(dead->open_lo));
	hash_bytes_of(hash, &dead->count, sizeof(dead->count));
	hash_bytes_of(hash, dead->ranges, sizeof(TqDeadRange) * dead->count);
	for (int i = 0; i < dead->span_count; i++)
		hash_bytes_of(hash,
					  &dead->spans[(dead->first_span + i) % TQ_RANGE_SPANS],
					  sizeof(TqRangeSpan));
}
