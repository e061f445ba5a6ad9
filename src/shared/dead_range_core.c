/*
 * dead_range_core.c
 *		Dead ranges of the dispatch index: the pure part.
 *
 * A table of cells.  The cell of a lane and priority has dead ranges:
 * positions of the index at which no task can be claimed, so that a claim
 * skips them.  The cell of a lane (priority TQ_RANGE_LANE) lists the
 * priorities in use.  If a cell is missing or empty, claims skip nothing,
 * which is correct, but slower.
 *
 * A session that scanned entries that cannot be claimed records the range
 * ("learns") some time after the scan.  A session that made a task claimable
 * publishes its position ("lowers") when the change is visible to others.
 * Recording a range must not undo a lower that came after the scan, so:
 *
 * - Lowers are numbered.  A learner passes the number that it read before it
 *   took its snapshot (its moment): the snapshot sees everything published by
 *   lowers up to that number.  The positions of later lowers are cut out of
 *   the recorded range.
 * - For that purpose a cell stores the spans of the last TQ_RANGE_SPANS
 *   lowers. If another lower comes, the two oldest spans are merged, if the
 *   result has at most TQ_RANGE_NEAR microseconds: a wider span with a later
 *   number cuts out more than necessary, never less.  Otherwise the oldest is
 *   forgotten and its number becomes the cell's floor: a range with an earlier
 *   moment is refused.
 * - A lower that finds no cell raises the table's floor, and the eviction of a
 *   cell raises it to the last number that the cell knew.  A new cell starts
 *   with the table's floor.
 * - Clearing cells for other reasons also draws a number, which becomes the
 *   table's floor.  Numbers increase from call to call.
 *
 * A list of priorities works in the same way: each priority has the number of
 * its last lower, and those later than the learner's moment stay in the list.
 *
 * A cell with too many ranges drops the narrowest.  "Nothing from here to the
 * end" is stored separately (open): any lower in it ends it, without splitting
 * it into two ranges.
 *
 * This file uses no locks, no memory allocation, no clock, and only types of
 * the server: the caller has exclusive access to the table, or shared access
 * for the two functions that read (they set "touched", which may be lost).
 * test/model checks exactly this code against all orders of events.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "shared/dead_range_core.h"

/* Room for a recorded range cut by all spans */
#define MAX_PIECES (TQ_RANGE_SPANS + 2)

static TqRangeCell *find(TqRangeTable *table, const TqRangeKey *key);
static TqRangeCell *find_or_make(TqRangeTable *table, const TqRangeKey *key);
static TqRangeCell *evict(TqRangeTable *table);
static int32       *head_of(TqRangeTable *table, const TqRangeKey *key);
static void         unlink_cell(TqRangeTable *table, TqRangeCell *cell);
static TqDeadRangeMoment last_number(const TqRangeCell *cell);

static void note_span(TqRangeCell *cell, const TqDeadRange *range,
					  TqDeadRangeMoment number);
static void forget_oldest(TqRangeCell *cell);
static void cut_out(TqRangeDead *dead, const TqDeadRange *span);
static int  cut(TqDeadRange *list, int count, const TqDeadRange *span);
static void add(TqRangeDead *dead, TqDeadRange piece);
static void keep(TqRangeDead *dead, TqDeadRange *list, int count);

static bool insert_priority(TqRangeLane *lane, int16 priority,
							TqDeadRangeMoment number);
static void lower_priority(TqRangeCell *cell, int16 priority,
						   TqDeadRangeMoment number);

static bool       before(TqPosition a, TqPosition b);
static TqPosition previous(TqPosition position);
static TqPosition following(TqPosition position);
static bool       is_open(const TqDeadRange *range);
static bool       overlap(const TqDeadRange *a, const TqDeadRange *b);
static bool       narrower(const TqDeadRange *a, const TqDeadRange *b);
static uint64     width(const TqDeadRange *range);
static TqRangeKey lane_key(Oid database, int64 lane_id);

/* The hash of a lane with all of its priorities */
uint64
tq_dead_range_core_hash(Oid database, int64 lane_id)
{
	uint64 hash = (uint64) lane_id ^
				  ((uint64) database * UINT64CONST(0x9E3779B97F4A7C15));

	hash = (hash ^ (hash >> 33)) * UINT64CONST(0xFF51AFD7ED558CCD);
	return hash ^ (hash >> 33);
}

bool
tq_dead_range_core_before(const TqPosition *a, const TqPosition *b)
{
	return before(*a, *b);
}

/* Clear everything, of all databases. */
void
tq_dead_range_core_wipe(TqRangeTable *table, TqDeadRangeMoment number)
{
	table->floor = number;
	table->count = 0;
	table->hand = 0;
	for (int i = 0; i < TQ_RANGE_CELLS; i++)
		table->heads[i] = -1;
}

/* Clear the cells of a database. */
void
tq_dead_range_core_forget(TqRangeTable *table, Oid database,
						  TqDeadRangeMoment number)
{
	int count = 0;

	for (int i = 0; i < TQ_RANGE_CELLS; i++)
		table->heads[i] = -1;
	for (int i = 0; i < table->count; i++)
	{
		TqRangeCell *cell = &table->cells[count];
		int32       *head;

		if (table->cells[i].key.database == database)
			continue;
		if (count != i)
			*cell = table->cells[i];
		head = head_of(table, &cell->key);
		cell->next = *head;
		*head = count++;
	}
	table->count = count;
	table->hand = 0;
	table->floor = number;
}

/* The dead ranges of a lane and priority; returns their number. */
int
tq_dead_range_core_read(TqRangeTable *table, const TqRangeKey *key,
						TqDeadRange *ranges)
{
	TqRangeCell *cell = find(table, key);

	return cell != NULL ? tq_dead_range_core_ranges(cell, ranges) : 0;
}

/* The ranges of a cell: sorted, and not adjacent. */
int
tq_dead_range_core_ranges(const TqRangeCell *cell, TqDeadRange *ranges)
{
	const TqRangeDead *dead = &cell->u.dead;
	int                count = dead->count;
	TqDeadRange        open = {dead->open_lo, TQ_DEAD_RANGE_END};

	memcpy(ranges, dead->ranges, sizeof(TqDeadRange) * count);
	if (!dead->open)
		return count;
	while (count > 0 &&
		   !before(following(ranges[count - 1].hi), dead->open_lo))
	{
		count--;
		if (before(ranges[count].lo, open.lo))
			open.lo = ranges[count].lo;
	}
	if (count < TQ_RANGES)
		ranges[count++] = open;
	return count;
}

/* The priorities of a lane, highest first; false if unknown. */
bool
tq_dead_range_core_priorities(TqRangeTable *table, Oid database, int64 lane_id,
							  int16 *priorities, int *count)
{
	TqRangeKey   key = lane_key(database, lane_id);
	TqRangeCell *cell = find(table, &key);

	if (cell == NULL || !cell->u.lane.known)
		return false;
	*count = cell->u.lane.count;
	memcpy(priorities, cell->u.lane.priorities, sizeof(int16) * *count);
	return true;
}

/*
 * Record that the entries in the range are not claimable for a snapshot taken
 * after the moment.  Returns whether any part was kept.
 */
bool
tq_dead_range_core_learn(TqRangeTable *table, const TqRangeKey *key,
						 const TqDeadRange *range, TqDeadRangeMoment moment)
{
	TqRangeCell *cell = find_or_make(table, key);
	TqRangeDead *dead = &cell->u.dead;
	TqDeadRange  pieces[MAX_PIECES];
	int          count = moment >= cell->floor ? 1 : 0;

	pieces[0] = *range;
	for (int i = 0; i < dead->span_count && count > 0; i++)
	{
		const TqRangeSpan *span =
			&dead->spans[(dead->first_span + i) % TQ_RANGE_SPANS];

		if (span->number > moment)
			count = cut(pieces, count, &span->range);
	}
	for (int i = 0; i < count; i++)
	{
		if (!is_open(&pieces[i]))
			add(dead, pieces[i]);
		else if (!dead->open || before(pieces[i].lo, dead->open_lo))
		{
			dead->open = true;
			dead->open_lo = pieces[i].lo;
		}
	}
	if (count == 0)
		table->refused++;
	else
		table->learned++;
	return count > 0;
}

/*
 * Record all priorities of which the index had entries when it was scanned,
 * after the moment.  Returns whether the list is known now.
 */
bool
tq_dead_range_core_learn_priorities(TqRangeTable *table, Oid database,
									int64 lane_id, const int16 *priorities,
									int count, TqDeadRangeMoment moment)
{
	TqRangeKey   key = lane_key(database, lane_id);
	TqRangeCell *cell = find_or_make(table, &key);
	TqRangeLane *lane = &cell->u.lane;
	TqRangeLane  had = *lane;
	bool         fits = true;

	if (moment < cell->floor || count > TQ_RANGE_PRIORITIES)
	{
		table->refused++;
		return false;
	}
	lane->count = 0;
	for (int i = 0; i < had.count; i++)
	{
		if (had.numbers[i] > moment)
			insert_priority(lane, had.priorities[i], had.numbers[i]);
	}
	for (int i = 0; i < count; i++)
		fits = fits && insert_priority(lane, priorities[i], 0);
	if (!fits)
	{
		/* entries with numbers must not be lost */
		*lane = had;
		lane->known = false;
		table->refused++;
		return false;
	}
	lane->known = true;
	table->learned++;
	return true;
}

/*
 * Publish that there may be something to claim in the range again; it is
 * visible to others already.
 */
void
tq_dead_range_core_lower(TqRangeTable *table, const TqRangeKey *key,
						 const TqDeadRange *range, TqDeadRangeMoment number)
{
	TqRangeKey   key_of_lane = lane_key(key->database, key->lane_id);
	TqRangeCell *cell = find(table, key);
	TqRangeCell *lane = find(table, &key_of_lane);

	table->lowered++;
	if (cell == NULL || lane == NULL)
		table->floor = number;
	if (cell != NULL)
	{
		note_span(cell, range, number);
		cut_out(&cell->u.dead, range);
	}
	if (lane != NULL)
		lower_priority(lane, (int16) key->priority, number);
}

/*
 * Is the position in a dead range, and has it been so ever since the moment,
 * as far as is known?
 */
bool
tq_dead_range_core_still(TqRangeTable *table, const TqRangeKey *key,
						 const TqPosition *position, TqDeadRangeMoment moment)
{
	TqRangeCell *cell = find(table, key);
	TqDeadRange  range = {*position, *position};
	TqDeadRange  ranges[TQ_RANGES];
	int          count;

	if (cell == NULL || moment < cell->floor)
		return false;
	for (int i = 0; i < cell->u.dead.span_count; i++)
	{
		const TqRangeSpan *span = &cell->u.dead.spans[i];

		/* all elements of the ring are in use, or the first ones */
		if (span->number > moment && overlap(&span->range, &range))
			return false;
	}
	count = tq_dead_range_core_ranges(cell, ranges);
	for (int i = 0; i < count; i++)
	{
		if (overlap(&ranges[i], &range))
			return true;
	}
	return false;
}

static TqRangeCell *
find(TqRangeTable *table, const TqRangeKey *key)
{
	for (int32 i = *head_of(table, key); i >= 0; i = table->cells[i].next)
	{
		TqRangeCell *cell = &table->cells[i];

		if (cell->key.lane_id == key->lane_id &&
			cell->key.priority == key->priority &&
			cell->key.database == key->database)
		{
			if (!cell->touched)
				cell->touched = true;
			return cell;
		}
	}
	return NULL;
}

static TqRangeCell *
find_or_make(TqRangeTable *table, const TqRangeKey *key)
{
	TqRangeCell *cell = find(table, key);
	int32       *head;

	if (cell != NULL)
		return cell;
	if (table->count < TQ_RANGE_CELLS)
		cell = &table->cells[table->count++];
	else
		cell = evict(table);
	memset(cell, 0, sizeof(*cell));
	cell->key = *key;
	cell->floor = table->floor;
	cell->touched = true;
	head = head_of(table, key);
	cell->next = *head;
	*head = (int32) (cell - table->cells);
	return cell;
}

/* Evict the cell that has been unused for the longest, approximately. */
static TqRangeCell *
evict(TqRangeTable *table)
{
	TqRangeCell *cell;

	for (;;)
	{
		cell = &table->cells[table->hand];
		table->hand = (table->hand + 1) % TQ_RANGE_CELLS;
		if (!cell->touched)
			break;
		cell->touched = false;
	}
	unlink_cell(table, cell);
	table->floor = Max(table->floor, last_number(cell));
	table->evicted++;
	return cell;
}

static int32 *
head_of(TqRangeTable *table, const TqRangeKey *key)
{
	uint64 hash = tq_dead_range_core_hash(key->database, key->lane_id);

	return &table->heads[(hash + (uint64) key->priority) % TQ_RANGE_CELLS];
}

static void
unlink_cell(TqRangeTable *table, TqRangeCell *cell)
{
	int32 *link = head_of(table, &cell->key);

	while (&table->cells[*link] != cell)
		link = &table->cells[*link].next;
	*link = cell->next;
}

/* Later lowers have not changed the cell. */
static TqDeadRangeMoment
last_number(const TqRangeCell *cell)
{
	TqDeadRangeMoment last = cell->floor;

	if (cell->key.priority == TQ_RANGE_LANE)
	{
		for (int i = 0; i < cell->u.lane.count; i++)
			last = Max(last, cell->u.lane.numbers[i]);
	}
	else
	{
		for (int i = 0; i < cell->u.dead.span_count; i++)
			last = Max(last, cell->u.dead.spans[i].number);
	}
	return last;
}

static void
note_span(TqRangeCell *cell, const TqDeadRange *range,
		  TqDeadRangeMoment number)
{
	TqRangeDead *dead = &cell->u.dead;
	TqRangeSpan *span;

	if (dead->span_count == TQ_RANGE_SPANS)
		forget_oldest(cell);
	span =
		&dead->spans[(dead->first_span + dead->span_count) % TQ_RANGE_SPANS];
	span->number = number;
	span->range = *range;
	dead->span_count++;
}

/* Make room for a span: merge the oldest one into the second. */
static void
forget_oldest(TqRangeCell *cell)
{
	TqRangeDead *dead = &cell->u.dead;
	TqRangeSpan *oldest = &dead->spans[dead->first_span];
	TqRangeSpan *second =
		&dead->spans[(dead->first_span + 1) % TQ_RANGE_SPANS];
	TqDeadRange both = second->range;

	if (before(oldest->range.lo, both.lo))
		both.lo = oldest->range.lo;
	if (before(both.hi, oldest->range.hi))
		both.hi = oldest->range.hi;
	if (width(&both) <= TQ_RANGE_NEAR)
		second->range = both;
	else
		cell->floor = oldest->number;
	dead->first_span = (dead->first_span + 1) % TQ_RANGE_SPANS;
	dead->span_count--;
}

static void
cut_out(TqRangeDead *dead, const TqDeadRange *span)
{
	TqDeadRange list[TQ_RANGES + 1];
	int         count;

	memcpy(list, dead->ranges, sizeof(TqDeadRange) * dead->count);
	count = cut(list, dead->count, span);
	keep(dead, list, count);
	if (!dead->open || before(span->hi, dead->open_lo))
		return;
	dead->open = false;
	if (before(dead->open_lo, span->lo))
		add(dead, (TqDeadRange){dead->open_lo, previous(span->lo)});
}

/*
 * Cut a span out of a sorted list of ranges that has room for one more;
 * returns the new number of ranges.  Of an open range only the part before the
 * span remains.
 */
static int
cut(TqDeadRange *list, int count, const TqDeadRange *span)
{
	int kept = 0;

	for (int i = 0; i < count; i++)
	{
		TqDeadRange range = list[i];

		if (!overlap(&range, span))
		{
			list[kept++] = range;
			continue;
		}
		if (before(range.lo, span->lo))
			list[kept++] = (TqDeadRange){range.lo, previous(span->lo)};
		if (!before(span->hi, range.hi) || is_open(&range))
			continue;
		range.lo = following(span->hi);
		if (kept > i)
		{
			/* the range is split, so the span overlaps no other */
			memmove(&list[i + 2], &list[i + 1],
					sizeof(TqDeadRange) * (count - i - 1));
			list[kept] = range;
			return count + 1;
		}
		list[kept++] = range;
	}
	return kept;
}

/* Add a dead range, which may overlap others. */
static void
add(TqRangeDead *dead, TqDeadRange piece)
{
	TqDeadRange list[TQ_RANGES + 1];
	int         count = 0;
	bool        placed = false;

	for (int i = 0; i < dead->count; i++)
	{
		TqDeadRange range = dead->ranges[i];

		if (before(following(range.hi), piece.lo))
			list[count++] = range;
		else if (before(following(piece.hi), range.lo))
		{
			if (!placed)
				list[count++] = piece;
			placed = true;
			list[count++] = range;
		}
		else
		{
			if (before(range.lo, piece.lo))
				piece.lo = range.lo;
			if (before(piece.hi, range.hi))
				piece.hi = range.hi;
		}
	}
	if (!placed)
		list[count++] = piece;
	keep(dead, list, count);
}

/* Store the ranges, of which there may be one too many. */
static void
keep(TqRangeDead *dead, TqDeadRange *list, int count)
{
	int narrowest = 0;

	if (count > TQ_RANGES)
	{
		for (int i = 1; i < count; i++)
		{
			if (narrower(&list[i], &list[narrowest]))
				narrowest = i;
		}
		count--;
		memmove(&list[narrowest], &list[narrowest + 1],
				sizeof(TqDeadRange) * (count - narrowest));
	}
	memcpy(dead->ranges, list, sizeof(TqDeadRange) * count);
	dead->count = count;
}

/* Returns false if there is no room. */
static bool
insert_priority(TqRangeLane *lane, int16 priority, TqDeadRangeMoment number)
{
	int i = 0;

	while (i < lane->count && lane->priorities[i] > priority)
		i++;
	if (i < lane->count && lane->priorities[i] == priority)
	{
		lane->numbers[i] = Max(lane->numbers[i], number);
		return true;
	}
	if (lane->count == TQ_RANGE_PRIORITIES)
		return false;
	memmove(&lane->priorities[i + 1], &lane->priorities[i],
			sizeof(int16) * (lane->count - i));
	memmove(&lane->numbers[i + 1], &lane->numbers[i],
			sizeof(TqDeadRangeMoment) * (lane->count - i));
	lane->priorities[i] = priority;
	lane->numbers[i] = number;
	lane->count++;
	return true;
}

/* Something can be claimed at a priority, perhaps for the first time. */
static void
lower_priority(TqRangeCell *cell, int16 priority, TqDeadRangeMoment number)
{
	TqRangeLane *lane = &cell->u.lane;

	if (insert_priority(lane, priority, number))
		return;
	lane->known = false;
	lane->count = 0;
	cell->floor = number;
}

static bool
before(TqPosition a, TqPosition b)
{
	return a.at < b.at || (a.at == b.at && a.task_id < b.task_id);
}

/* The position before this one, which is not the first. */
static TqPosition
previous(TqPosition position)
{
	if (position.task_id > PG_INT64_MIN)
		return (TqPosition){position.at, position.task_id - 1};
	return (TqPosition){position.at - 1, PG_INT64_MAX};
}

/* The position after this one, which is not the last. */
static TqPosition
following(TqPosition position)
{
	if (position.task_id < PG_INT64_MAX)
		return (TqPosition){position.at, position.task_id + 1};
	return (TqPosition){position.at + 1, PG_INT64_MIN};
}

/*
 * Does the range extend to the end?  Entries at infinity are never claimable.
 */
static bool
is_open(const TqDeadRange *range)
{
	return range->hi.at >= PG_INT64_MAX - 1;
}

static bool
overlap(const TqDeadRange *a, const TqDeadRange *b)
{
	return !before(a->hi, b->lo) && !before(b->hi, a->lo);
}

static bool
narrower(const TqDeadRange *a, const TqDeadRange *b)
{
	if (width(a) != width(b))
		return width(a) < width(b);
	return (uint64) a->hi.task_id - (uint64) a->lo.task_id <
		   (uint64) b->hi.task_id - (uint64) b->lo.task_id;
}

/* In microseconds; more than any time if the range has no beginning. */
static uint64
width(const TqDeadRange *range)
{
	return (uint64) range->hi.at - (uint64) range->lo.at;
}

static TqRangeKey
lane_key(Oid database, int64 lane_id)
{
	return (TqRangeKey){database, TQ_RANGE_LANE, lane_id};
}
