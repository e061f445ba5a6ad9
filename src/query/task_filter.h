/*
 * task_filter.h
 *		What is looked for, and whether a row of a task is that.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_FILTER_H
#define TQ_TASK_FILTER_H

#include "executor/tuptable.h"
#include "utils/snapshot.h"

#include "store/task.h"

/* What is looked for; all that is given must apply. */
typedef struct TqTaskFilter
{
	bool         all_queues;
	int32       *queues; /* sorted; when not all_queues */
	int          queue_count;
	int          state;     /* a TqState; none: any */
	const char  *reference; /* NULL: any, so of the next two */
	const char  *key;
	const char  *correlation_id;
	int64        recreated_as; /* 0: any; else nothing above applies */
	const int64 *ids;          /* NULL: any */
	int          id_count;
	int64        first; /* ids from here */
	int64        last;  /* to here */
	bool         backward;
} TqTaskFilter;

extern void tq_task_filter_init(TqTaskFilter *filter);
extern void tq_task_filter_after(TqTaskFilter *filter, int64 task_id);
extern bool tq_task_filter_fits(const TqTaskFilter *filter,
								TupleTableSlot *slot, const TqTaskFixed *row);

#endif /* TQ_TASK_FILTER_H */
