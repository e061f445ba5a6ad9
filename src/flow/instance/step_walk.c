/*
 * step_walk.c
 *		Scans the rows of an instance from a given step on.
 *
 * A caller that looks for one row among many begins two scans near the place
 * where it expects the row, one for each direction, and advances them in turn.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/fmgroids.h"

#include "flow/instance/step_walk.h"

/*
 * index has the columns workflow_id and step_id.  A scan forward begins with
 * the step near, a scan backward with the one before it.
 */
void
tq_step_walk_begin(TqStepWalk *walk, Relation rows, Relation index,
				   Snapshot snapshot, int64 workflow_id, int32 near,
				   ScanDirection way)
{
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(workflow_id));
	if (way == ForwardScanDirection)
		ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT4GE,
					Int32GetDatum(near));
	else
		ScanKeyInit(&keys[1], 2, BTLessStrategyNumber, F_INT4LT,
					Int32GetDatum(near));
	walk->scan = tq_compat_index_beginscan(rows, index, snapshot, 2);
	index_rescan(walk->scan, keys, 2, NULL, 0);
	walk->way = way;
	walk->over = false;
}

/*
 * Advance by one index entry, whose row may be invisible: the caller fetches
 * it with index_fetch_heap.  Returns false at the end.
 */
bool
tq_step_walk_next(TqStepWalk *walk)
{
	if (!walk->over && !walk->scan->xs_heap_continue)
		walk->over = index_getnext_tid(walk->scan, walk->way) == NULL;
	return !walk->over;
}

void
tq_step_walk_end(TqStepWalk *walk)
{
	index_endscan(walk->scan);
}
