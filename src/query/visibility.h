/*
 * visibility.h
 *		Which queues' tasks current_user may see.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_VISIBILITY_H
#define TQ_VISIBILITY_H

#include "query/task_filter.h"


/* Which queues' tasks current_user may see. */
typedef struct TqSight
{
	bool   all;         /* every task */
	bool   all_payload; /* and what it carries */
	int32 *queues;      /* else those whose tasks it may read, sorted */
	int    queue_count;
} TqSight;

extern void tq_sight_take(TqSight *sight);
extern bool tq_sight_reads(const TqSight *sight, int32 queue_id);
extern void tq_sight_filter(const TqSight *sight, TqFilter *filter);

#endif /* TQ_VISIBILITY_H */
