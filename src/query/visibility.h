/*
 * visibility.h
 *		The queues whose tasks current_user may see.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_VISIBILITY_H
#define TQ_VISIBILITY_H

#include "query/task_filter.h"

/* The queues whose tasks current_user may see. */
typedef struct TqVisibility
{
	bool   all;         /* every task */
	bool   all_payload; /* and its contents */
	int32 *queues;      /* else those whose tasks it may read, sorted */
	int    queue_count;
} TqVisibility;

extern void tq_visibility_take(TqVisibility *sight);
extern bool tq_visibility_reads(const TqVisibility *sight, int32 queue_id);
extern void tq_visibility_filter(const TqVisibility *sight,
								 TqTaskFilter       *filter);

#endif /* TQ_VISIBILITY_H */
