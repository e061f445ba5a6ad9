/*
 * reclaim.h
 *		Reclaiming running tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RECLAIM_H
#define TQ_RECLAIM_H

#include "nodes/pg_list.h"

#include "shared/running.h"
#include "store/table.h"

/* A running task to reclaim. */
typedef struct TqReclaim
{
	const TqRunning *running;
	int32            worker_id; /* whose registration has ended, or 0 */
	TimestampTz      now;
	bool             busy; /* another transaction is deciding about it */
} TqReclaim;

extern bool  tq_reclaim_try(TqCall *call, TqReclaim *loss);
extern int64 tq_reclaim_held_by(TqCall *call, List *workers,
								bool free_of_charge);
extern int   tq_reclaim_scan(TimestampTz now, bool settled, int passed,
							 TqRunning *found, int max, TimestampTz *next);
extern int   tq_reclaim_compare(const void *a, const void *b);

#endif /* TQ_RECLAIM_H */
