/*
 * task_filter.h
 *		A filter on tasks, and whether a row matches it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_FILTER_H
#define TQ_TASK_FILTER_H

#include "executor/tuptable.h"
#include "utils/snapshot.h"

#include "store/task.h"

/* Search conditions; all that are given must match. */
typedef struct TqTaskFilter
{
	bool         all_queues;
	int32       *queues; /* sorted; unless all_queues */
	int          queue_count;
	int          state;     /* a TqState; TQ_STATE_NONE: any */
	const char  *reference; /* NULL: any; so are the next two */
	const char  *key;
	const char  *correlation_id;
	int64        recreated_as; /* 0: any; else excludes all above */
	const int64 *ids;          /* NULL: any */
	int          id_count;
	int64        first; /* lowest id */
	int64        last;  /* highest id */
	bool         backward;
} TqTaskFilter;

extern void tq_task_filter_init(TqTaskFilter *filter);
extern void tq_task_filter_after(TqTaskFilter *filter, int64 task_id);
extern bool tq_task_filter_fits(const TqTaskFilter *filter,
								TupleTableSlot *slot, const TqTaskFixed *row);

#endif /* TQ_TASK_FILTER_H */
