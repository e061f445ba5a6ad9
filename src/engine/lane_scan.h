/*
 * lane_scan.h
 *		Scans of the entries of a lane in the dispatch index.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LANE_SCAN_H
#define TQ_LANE_SCAN_H

#include "shared/claim_ring.h"
#include "shared/dead_range_core.h"
#include "store/table.h"

/* The common state of all scans of one walk. */
typedef struct TqLaneScanDirection
{
	TqCall     *call;
	Relation    index;    /* the dispatch index */
	TimestampTz now;      /* a task is due if available_at is not after it */
	bool        backward; /* last entry first */
	bool        later;    /* tasks that are not due, instead of due ones */
	bool        jumps;    /* skips dead ranges */
	bool        learns;
	bool        own;     /* this transaction has written tasks */
	BlockNumber blocks;  /* of the table, for tq_lane_scan_fetch */
	bool        bounded; /* maximum number of entries to read: */
	int         budget;
	bool        gave_up; /* there were more */
} TqLaneScanDirection;

typedef struct TqLaneScan TqLaneScan;

extern void tq_lane_scan_prepare(TqLaneScanDirection *way, TqCall *call,
								 Relation index);

/* entries of one priority */
extern bool tq_lane_scan_bound(const TqLaneScanDirection *way, int64 lane_id,
							   int16 priority, TqPosition *bound);
extern TqLaneScan *tq_lane_scan_open(TqLaneScanDirection *way, int64 lane_id,
									 int16 priority);
extern TqLaneScan *tq_lane_scan_open_range(TqLaneScanDirection *way,
										   int64 lane_id, int16 priority,
										   const TqDeadRange *range);
extern bool        tq_lane_scan_next(TqLaneScan *scan);
extern void        tq_lane_scan_pass(TqLaneScan *scan);
extern int  tq_lane_scan_ahead(TqLaneScan *scan, TqCandidate *found, int max);
extern bool tq_lane_scan_fetch(TqLaneScanDirection *way, int64 lane_id,
							   int16 priority, const TqCandidate *at,
							   TupleTableSlot *slot);
extern void tq_lane_scan_close(TqLaneScan *scan);

extern TqPosition      tq_lane_scan_position(const TqLaneScan *scan);
extern TupleTableSlot *tq_lane_scan_slot(const TqLaneScan *scan);

static inline int
tq_scan_compare(TqPosition a, TqPosition b)
{
	if (a.at != b.at)
		return a.at < b.at ? -1 : 1;
	return a.task_id < b.task_id ? -1 : a.task_id > b.task_id;
}

/* Has a bounded walk read as many entries as it may? */
static inline bool
tq_lane_scan_spent(TqLaneScanDirection *way)
{
	if (!way->bounded || way->budget-- > 0)
		return false;
	way->gave_up = true;
	return true;
}

#endif /* TQ_LANE_SCAN_H */
