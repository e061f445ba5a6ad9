/*
 * dead_range.c
 *		Dead ranges of the dispatch index, in shared memory.
 *
 * dead_range_core.c describes how the ranges are kept correct; this file has
 * the memory, the locks and the numbers of published positions.  The rules for
 * callers:
 *
 * - tq_dead_range_moment is called before the snapshot is taken; a range
 *   recorded with the moment was seen by a snapshot taken for this scan (READ
 *   COMMITTED).
 * - The scan may skip the range that tq_dead_range_read returns, and the range
 *   that it records may include it: [its first position, the last entry
 *   passed]. The range ends before the first entry that is claimable and was
 *   not taken, for whatever reason, and before the first entry that is not
 *   due.  Entries that are gone, running, uncommitted or locked are passed:
 *   the transaction responsible for that publishes the position when the task
 *   becomes claimable.  Positions come from entries, never from a clock.
 * - A scan that reached the end of the index records two ranges: up to the
 *   last entry, and from there to TQ_DEAD_RANGE_END.  The second range says
 *   that no tasks follow; the next task removes this range, and the first
 *   range remains.
 * - A priority is in the list once tq_dead_range_lower has published its task;
 *   a transaction's own unpublished tasks are in no list and may be inside a
 *   dead range.
 * - tq_dead_range_lower is called after the end of the transaction or
 *   savepoint is visible: at commit for every position at which it has put a
 *   pending task, and at abort for every position that it has written or
 *   locked.
 * - COMMIT PREPARED and ROLLBACK PREPARED call tq_dead_range_forget, since the
 *   positions of the prepared transaction are unknown.  Prepared transactions
 *   that survive a restart need nothing more, since memory is empty at first.
 *
 * The ranges are in PARTITIONS tables, a lane with all of its priorities in
 * one of them.  An LWLock guards each table; it is held for a few dozen
 * instructions, or as long as it takes to copy or clear a table.  No two of
 * them are held at the same time.  A number is drawn under the lock, so
 * numbers ascend in each table.
 *
 * Nothing here fails, waits for anything else, or allocates memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "shared/dead_range.h"

#define TRANCHE "taskq ranges"
#define PARTITIONS 16
#define RUNS 4 /* lanes that one call of tq_dead_range_lower may mix */

typedef struct RangeShared
{
	pg_atomic_uint64 number; /* of the last published position */
	pg_atomic_uint64 audited;
	pg_atomic_uint64 repaired;
	LWLockPadded    *locks; /* locks[i] guards tables[i] */
	TqRangeTable     tables[PARTITIONS];
} RangeShared;

/* Nearby positions of a lane and priority. */
typedef struct Run
{
	int64       lane_id;
	int16       priority;
	TqDeadRange range;
} Run;

static RangeShared *shared = NULL;

static int               partition_of(int64 lane_id);
static TqRangeTable     *lock_partition(int partition, LWLockMode mode);
static void              unlock_partition(int partition);
static TqDeadRangeMoment next_number(void);
static TqRangeKey        key_of(int64 lane_id, int16 priority);
static Run *run_for(Run *runs, int count, const TqLanePosition *place);
static void lower_run(const Run *run);
static bool has_ranges(const TqRangeCell *cell);

Size
tq_dead_range_size(void)
{
	return MAXALIGN(sizeof(RangeShared));
}

void
tq_dead_range_request(void)
{
	RequestNamedLWLockTranche(TRANCHE, PARTITIONS);
}

void
tq_dead_range_init(void)
{
	bool found;

	shared = ShmemInitStruct(TRANCHE, sizeof(RangeShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(RangeShared));
	shared->locks = GetNamedLWLockTranche(TRANCHE);
	/* 0 is the moment without shared memory */
	pg_atomic_init_u64(&shared->number, 1);
	pg_atomic_init_u64(&shared->audited, 0);
	pg_atomic_init_u64(&shared->repaired, 0);
	for (int i = 0; i < PARTITIONS; i++)
		tq_dead_range_core_wipe(&shared->tables[i], 1);
}

/* Clear the tables of all databases. */
void
tq_dead_range_wipe(void)
{
	if (shared == NULL)
		return;
	for (int i = 0; i < PARTITIONS; i++)
	{
		tq_dead_range_core_wipe(lock_partition(i, LW_EXCLUSIVE),
								next_number());
		unlock_partition(i);
	}
}

/*
 * Clear what is known of a database; ranges about to be recorded for it are
 * refused.  Cannot fail.
 */
void
tq_dead_range_forget_database(Oid database)
{
	if (shared == NULL)
		return;
	for (int i = 0; i < PARTITIONS; i++)
	{
		tq_dead_range_core_forget(lock_partition(i, LW_EXCLUSIVE), database,
								  next_number());
		unlock_partition(i);
	}
}

/* The same for this database, if it is unknown what has become claimable. */
void
tq_dead_range_forget(void)
{
	tq_dead_range_forget_database(MyDatabaseId);
}

/* Must be called before the snapshot is taken. */
TqDeadRangeMoment
tq_dead_range_moment(void)
{
	TqDeadRangeMoment moment;

	if (shared == NULL)
		return 0;
	moment = pg_atomic_read_u64(&shared->number);
	pg_memory_barrier();
	return moment;
}

/*
 * The dead ranges of a lane and priority, at most TQ_RANGES, sorted and
 * disjoint; returns their number.  0: start at the beginning.
 */
int
tq_dead_range_read(int64 lane_id, int16 priority, TqDeadRange *ranges)
{
	TqRangeKey key = key_of(lane_id, priority);
	int        partition = partition_of(lane_id);
	int        count;

	if (shared == NULL)
		return 0;
	count = tq_dead_range_core_read(lock_partition(partition, LW_SHARED), &key,
									ranges);
	unlock_partition(partition);
	return count;
}

/*
 * The priorities of which a lane has entries, at most TQ_RANGE_PRIORITIES,
 * highest first; false if unknown.
 */
bool
tq_dead_range_priorities(int64 lane_id, int16 *priorities, int *count)
{
	int  partition = partition_of(lane_id);
	bool known;

	if (shared == NULL)
		return false;
	known = tq_dead_range_core_priorities(lock_partition(partition, LW_SHARED),
										  MyDatabaseId, lane_id, priorities,
										  count);
	unlock_partition(partition);
	return known;
}

/* Record that there is nothing to claim from lo to hi, both included. */
void
tq_dead_range_learn(int64 lane_id, int16 priority, TqPosition lo,
					TqPosition hi, TqDeadRangeMoment moment)
{
	TqRangeKey  key = key_of(lane_id, priority);
	TqDeadRange range = {lo, hi};
	int         partition = partition_of(lane_id);

	if (shared == NULL || tq_dead_range_core_before(&hi, &lo))
		return;
	(void) tq_dead_range_core_learn(lock_partition(partition, LW_EXCLUSIVE),
									&key, &range, moment);
	unlock_partition(partition);
}

/* Record that a lane has entries of these priorities only. */
void
tq_dead_range_learn_priorities(int64 lane_id, const int16 *priorities,
							   int count, TqDeadRangeMoment moment)
{
	int partition = partition_of(lane_id);

	if (shared == NULL)
		return;
	(void) tq_dead_range_core_learn_priorities(
		lock_partition(partition, LW_EXCLUSIVE), MyDatabaseId, lane_id,
		priorities, count, moment);
	unlock_partition(partition);
}

/*
 * Publish positions that may be claimable again.  Nearby positions of one lane
 * and priority are combined into one span.  Cannot fail.
 */
void
tq_dead_range_lower(const TqLanePosition *places, int count)
{
	Run runs[RUNS];
	int run_count = 0;
	int oldest = 0;

	if (shared == NULL)
		return;
	for (int i = 0; i < count; i++)
	{
		TqPosition position = {places[i].available_at, places[i].task_id};
		Run       *run = run_for(runs, run_count, &places[i]);

		if (run == NULL && run_count < RUNS)
			run = &runs[run_count++];
		else if (run == NULL)
		{
			run = &runs[oldest];
			oldest = (oldest + 1) % RUNS;
			lower_run(run);
		}
		else
		{
			if (tq_dead_range_core_before(&position, &run->range.lo))
				run->range.lo = position;
			if (tq_dead_range_core_before(&run->range.hi, &position))
				run->range.hi = position;
			continue;
		}
		run->lane_id = places[i].lane_id;
		run->priority = places[i].priority;
		run->range = (TqDeadRange){position, position};
	}
	for (int i = 0; i < run_count; i++)
		lower_run(&runs[i]);
}

/*
 * The next lane and priority of this database with dead ranges; false after
 * the last one.  Entries that are created, removed or moved during the pass
 * may be missed, or returned twice.
 */
bool
tq_dead_range_next_to_audit(TqRangeCursor *cursor, TqRangeEntry *entry)
{
	bool found = false;

	while (shared != NULL && !found && cursor->partition < PARTITIONS)
	{
		TqRangeTable *table = lock_partition(cursor->partition, LW_SHARED);

		for (; !found && cursor->index < table->count; cursor->index++)
		{
			const TqRangeCell *cell = &table->cells[cursor->index];

			if (cell->key.database != MyDatabaseId || !has_ranges(cell))
				continue;
			entry->lane_id = cell->key.lane_id;
			entry->priority = (int16) cell->key.priority;
			entry->count = tq_dead_range_core_ranges(cell, entry->ranges);
			entry->moment = pg_atomic_read_u64(&shared->number);
			found = true;
		}
		unlock_partition(cursor->partition);
		if (!found)
		{
			cursor->partition++;
			cursor->index = 0;
		}
	}
	return found;
}

/* Count index entries that the audit has read. */
void
tq_dead_range_audited(int64 entries)
{
	if (shared != NULL)
		pg_atomic_fetch_add_u64(&shared->audited, entries);
}

/* Is the position dead, and has it been so ever since the moment? */
bool
tq_dead_range_still(int64 lane_id, int16 priority, TqPosition position,
					TqDeadRangeMoment moment)
{
	TqRangeKey key = key_of(lane_id, priority);
	int        partition = partition_of(lane_id);
	bool       still;

	if (shared == NULL)
		return false;
	still = tq_dead_range_core_still(lock_partition(partition, LW_SHARED),
									 &key, &position, moment);
	unlock_partition(partition);
	return still;
}

/*
 * A position that tq_dead_range_next_to_audit returned as dead, at the moment
 * that it returned, was claimable for a snapshot taken after that, and for
 * another one taken when all transactions that had ended by then had published
 * their positions.  If it has been dead all the time, it was so by mistake: it
 * is published and counted, and the result is true.
 */
bool
tq_dead_range_repaired(int64 lane_id, int16 priority, TqPosition position,
					   TqDeadRangeMoment moment)
{
	TqRangeKey    key = key_of(lane_id, priority);
	TqDeadRange   range = {position, position};
	int           partition = partition_of(lane_id);
	TqRangeTable *table;
	bool          wrong;

	if (shared == NULL)
		return false;
	table = lock_partition(partition, LW_EXCLUSIVE);
	wrong = tq_dead_range_core_still(table, &key, &position, moment);
	if (wrong)
		tq_dead_range_core_lower(table, &key, &range, next_number());
	unlock_partition(partition);
	if (wrong)
		pg_atomic_fetch_add_u64(&shared->repaired, 1);
	return wrong;
}

/*
 * Do scans skip a position, because it is dead or the lane is known to have no
 * task of that priority?
 */
bool
tq_dead_range_hides(int64 lane_id, int16 priority, TqPosition position)
{
	TqRangeKey    key = key_of(lane_id, priority);
	int           partition = partition_of(lane_id);
	TqRangeTable *table;
	TqDeadRange   ranges[TQ_RANGES];
	int16         priorities[TQ_RANGE_PRIORITIES];
	int           count;
	bool          hides = false;

	if (shared == NULL)
		return false;
	table = lock_partition(partition, LW_SHARED);
	if (tq_dead_range_core_priorities(table, MyDatabaseId, lane_id, priorities,
									  &count))
	{
		hides = true;
		for (int i = 0; i < count; i++)
			hides = hides && priorities[i] != priority;
	}
	count = tq_dead_range_core_read(table, &key, ranges);
	unlock_partition(partition);
	for (int i = 0; i < count; i++)
		hides = hides ||
				(!tq_dead_range_core_before(&position, &ranges[i].lo) &&
				 !tq_dead_range_core_before(&ranges[i].hi, &position));
	return hides;
}

/* Returns false without shared memory. */
bool
tq_dead_range_numbers(TqDeadRangeNumbers *numbers)
{
	memset(numbers, 0, sizeof(*numbers));
	if (shared == NULL)
		return false;
	for (int i = 0; i < PARTITIONS; i++)
	{
		TqRangeTable *table = lock_partition(i, LW_SHARED);
		TqDeadRange   ranges[TQ_RANGES];

		numbers->entries += table->count;
		numbers->learned += table->learned;
		numbers->refused += table->refused;
		numbers->lowered += table->lowered;
		numbers->evicted += table->evicted;
		for (int cell = 0; cell < table->count; cell++)
		{
			if (table->cells[cell].key.priority != TQ_RANGE_LANE)
				numbers->ranges +=
					tq_dead_range_core_ranges(&table->cells[cell], ranges);
		}
		unlock_partition(i);
	}
	numbers->audited = pg_atomic_read_u64(&shared->audited);
	numbers->repaired = pg_atomic_read_u64(&shared->repaired);
	return true;
}

/*
 * The partition of a lane of this database, from hash bits that the table
 * itself uses last.
 */
static int
partition_of(int64 lane_id)
{
	return (int) (tq_dead_range_core_hash(MyDatabaseId, lane_id) >> 48) %
		   PARTITIONS;
}

static TqRangeTable *
lock_partition(int partition, LWLockMode mode)
{
	LWLockAcquire(&shared->locks[partition].lock, mode);
	return &shared->tables[partition];
}

static void
unlock_partition(int partition)
{
	LWLockRelease(&shared->locks[partition].lock);
}

/* Called with the lock of the partition for which the number is drawn. */
static TqDeadRangeMoment
next_number(void)
{
	return pg_atomic_fetch_add_u64(&shared->number, 1) + 1;
}

static TqRangeKey
key_of(int64 lane_id, int16 priority)
{
	return (TqRangeKey){MyDatabaseId, priority, lane_id};
}

/* The run to which a position can be added; NULL if there is none. */
static Run *
run_for(Run *runs, int count, const TqLanePosition *place)
{
	for (int i = 0; i < count; i++)
	{
		Run *run = &runs[i];

		if (run->lane_id == place->lane_id &&
			run->priority == place->priority &&
			(uint64) Max(run->range.hi.at, place->available_at) -
					(uint64) Min(run->range.lo.at, place->available_at) <=
				TQ_RANGE_NEAR)
			return run;
	}
	return NULL;
}

static void
lower_run(const Run *run)
{
	TqRangeKey    key = key_of(run->lane_id, run->priority);
	int           partition = partition_of(run->lane_id);
	TqRangeTable *table = lock_partition(partition, LW_EXCLUSIVE);

	tq_dead_range_core_lower(table, &key, &run->range, next_number());
	unlock_partition(partition);
}

static bool
has_ranges(const TqRangeCell *cell)
{
	return cell->key.priority != TQ_RANGE_LANE &&
		   (cell->u.dead.count > 0 || cell->u.dead.open);
}
