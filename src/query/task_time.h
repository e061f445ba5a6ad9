/*
 * task_time.h
 *		Where the tasks of a time are: bounds of ids, leaves of the archive.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_TIME_H
#define TQ_TASK_TIME_H

#include "query/task_page.h"
#include "query/task_walk.h"

/* Which rows of a leaf finished at the times of a filter. */
typedef enum TqLeafTime
{
	TQ_LEAF_TIME_UNKNOWN,
	TQ_LEAF_TIME_OUTSIDE, /* none */
	TQ_LEAF_TIME_PARTLY,
	TQ_LEAF_TIME_LARGE, /* some, too many to be read by time */
	TQ_LEAF_TIME_ALL    /* or the filter has no such times */
} TqLeafTime;

extern void tq_task_time_bounds(TqTaskPage *find, const TqTaskFilter *filter,
								int64 *first, int64 *last);
extern TqLeafTime tq_task_time_leaf(TqTaskPage         *find,
									const TqTaskFilter *filter, int leaf);
extern void tq_task_time_range(const TqTaskFilter *filter, TqRange *range);

#endif /* TQ_TASK_TIME_H */
