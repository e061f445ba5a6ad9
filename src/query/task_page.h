/*
 * task_page.h
 *		Finding tasks for those who look: pages of them, by id.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_PAGE_H
#define TQ_TASK_PAGE_H

#include "store/task.h"

#include "executor/tuptable.h"
#include "utils/snapshot.h"

/* What is looked for; all that is given must apply. */
typedef struct TqFilter
{
	bool         all_queues;
	int32       *queues; /* sorted; when not all_queues */
	int          queue_count;
	int          state;     /* a TqState; 0: any */
	const char  *reference; /* NULL: any, so of the next two */
	const char  *key;
	const char  *correlation_id;
	int64        recreated_as; /* 0: any; else nothing above applies */
	const int64 *ids;          /* NULL: any */
	int          id_count;
	int64        first; /* ids from here */
	int64        last;  /* to here */
	bool         backward;
} TqFilter;

/* Where a task was found: a leaf's number, or TQ_FOUND_LIVE. */
typedef struct TqFound
{
	int64           task_id;
	int             table;
	ItemPointerData tid;
} TqFound;

#define TQ_FOUND_LIVE (TQ_LEAF_KEEP + 1)
#define TQ_FOUND_TABLES (TQ_FOUND_LIVE + 1)

typedef struct TqFind TqFind;

extern TqFind  *tq_find_begin(Snapshot snapshot);
extern void     tq_find_end(TqFind *find);
extern void     tq_filter_init(TqFilter *filter);
extern void     tq_filter_after(TqFilter *filter, int64 task_id);
extern bool     tq_filter_fits(const TqFilter *filter, TupleTableSlot *slot,
							   const TqTaskFixed *row);
extern int      tq_find_page(TqFind *find, const TqFilter *filter, int max,
							 TqFound **found);
extern int64    tq_find_count(TqFind *find, int32 queue_id, TqState state,
							  int64 max);
extern void     tq_find_read(TqFind *find, const TqFound *found, TqTask *task);
extern Snapshot tq_find_snapshot(const TqFind *find);

#endif /* TQ_TASK_PAGE_H */
