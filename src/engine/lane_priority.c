/*
 * lane_priority.c
 *		Which priorities a lane has.
 *
 * They are read from the dispatch index, from the highest to the lowest, and
 * kept in shared memory until a task of another priority is added
 * (shared/dead_range.h).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "engine/lane_priority.h"
#include "shared/dead_range.h"

#define EMPTY_LANES 64
#define EMPTY_PAUSE 1000

/*
 * Lanes with more priorities than can be kept, and for how many more walks
 * this holds.
 */
static struct
{
	int64 lane_id;
	int   pause;
} empty_lanes[EMPTY_LANES];

/*
 * Get the priorities that a lane may have, highest first; return false if they
 * are unknown and must not be read.
 */
bool
tq_lane_priority_list(TqLaneScanDirection *way, int64 lane_id,
					  int16 *priorities, int *count)
{
	int16 priority;
	int   slot = (int) ((uint64) lane_id % EMPTY_LANES);

	/* priorities of this transaction's own tasks are not in shared memory */
	if (!way->jumps || way->own)
		return false;
	if (tq_dead_range_priorities(lane_id, priorities, count))
		return true;
	if (!way->learns)
		return false;
	if (empty_lanes[slot].lane_id == lane_id && empty_lanes[slot].pause > 0)
	{
		empty_lanes[slot].pause--;
		return false;
	}
	*count = 0;
	while (tq_lane_priority_next(way, lane_id, *count > 0, &priority))
	{
		if (*count == TQ_RANGE_PRIORITIES)
		{
			empty_lanes[slot].lane_id = lane_id;
			empty_lanes[slot].pause = EMPTY_PAUSE;
			return false;
		}
		priorities[(*count)++] = priority;
	}
	tq_dead_range_learn_priorities(lane_id, priorities, *count,
								   way->call->moment);
	return true;
}

/*
 * Find the highest priority of a lane, or the highest below *priority.  Reads
 * only the index, whatever its entries point to.
 */
bool
tq_lane_priority_read(Relation table, Relation index, Snapshot snapshot,
					  int64 lane_id, bool below, int16 *priority)
{
	ScanKeyData   keys[2];
	IndexScanDesc scan;
	int           nkeys = below ? 2 : 1;
	bool          found;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(lane_id));
	ScanKeyInit(&keys[1], 2, BTLessStrategyNumber, F_INT2LT,
				Int16GetDatum(*priority));
	scan = tq_compat_index_beginscan(table, index, snapshot, nkeys);
	scan->xs_want_itup = true;
	index_rescan(scan, keys, nkeys, NULL, 0);
	found = index_getnext_tid(scan, ForwardScanDirection) != NULL;
	if (found)
	{
		bool isnull;

		*priority = DatumGetInt16(
			index_getattr(scan->xs_itup, 2, scan->xs_itupdesc, &isnull));
	}
	index_endscan(scan);
	return found;
}

/*
 * Find the highest priority for a walk, unless the walk has read as many
 * entries as it may.
 */
bool
tq_lane_priority_next(TqLaneScanDirection *way, int64 lane_id, bool below,
					  int16 *priority)
{
	return !tq_lane_scan_spent(way) &&
		   tq_lane_priority_read(way->call->task.rel, way->index,
								 GetActiveSnapshot(), lane_id, below,
								 priority);
}
