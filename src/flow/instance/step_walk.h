/*
 * step_walk.h
 *		Scans the rows of an instance from a given step on.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_WALK_H
#define TQ_STEP_WALK_H

#include "base/compat.h"

#include "access/relscan.h"
#include "utils/snapshot.h"

/* A scan in one direction. */
typedef struct TqStepWalk
{
	IndexScanDesc scan;
	ScanDirection way;
	bool          over;
} TqStepWalk;

extern void tq_step_walk_begin(TqStepWalk *walk, Relation rows, Relation index,
							   Snapshot snapshot, int64 workflow_id,
							   int32 near, ScanDirection way);
extern bool tq_step_walk_next(TqStepWalk *walk);
extern void tq_step_walk_end(TqStepWalk *walk);

#endif /* TQ_STEP_WALK_H */
