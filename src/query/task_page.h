/*
 * task_page.h
 *		Reading tasks with one snapshot: pages of them, single ones.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_PAGE_H
#define TQ_TASK_PAGE_H

#include "executor/tuptable.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "query/id_heap.h"
#include "query/task_filter.h"
#include "shared/running.h"
#include "store/task.h"

/* Indexes of taskq.task and of the leaves of the archive. */
typedef enum TqTaskIndex
{
	TQ_BY_ID,
	TQ_BY_STATE, /* (queue_id, state, task_id), of leaves */
	TQ_BY_STATE_ALONE,
	TQ_BY_REFERENCE,
	TQ_BY_KEY,
	TQ_BY_CORRELATION,
	TQ_BY_WORKFLOW,
	TQ_BY_WORKER, /* (worker_id, task_id), of leaves */
	TQ_BY_FINISHED,
	TQ_BY_RECREATED,
	TQ_BY_WAKE,     /* when a pending task is due, of taskq.task */
	TQ_BY_POSITION, /* the dispatch index, of taskq.task */
	TQ_TASK_INDEXES
} TqTaskIndex;

typedef struct TqTaskTable
{
	Relation        rel;
	Relation        index[TQ_TASK_INDEXES]; /* opened on first use */
	TupleTableSlot *slot;
} TqTaskTable;

/* The tables, read with one snapshot. */
typedef struct TqTaskPage
{
	MemoryContext context; /* lives as long as this */
	MemoryContext scratch; /* values of one row */
	Snapshot      snapshot;
	TqTaskTable   table[TQ_FOUND_TABLES];
	int32        *every_queue; /* read on first use */
	int           every_count;
	TqRunning    *ran; /* running before the snapshot; NULL: not known */
	int           ran_count;
} TqTaskPage;

extern TqTaskPage *tq_task_page_begin(Snapshot snapshot);
extern void        tq_task_page_end(TqTaskPage *find);
extern bool        tq_task_page_find_one(TqTaskPage *find, int64 task_id,
										 TqTask *task);
extern int64       tq_task_page_count(TqTaskPage *find, int32 queue_id,
									  TqState state, int64 max);
extern void        tq_task_page_read(TqTaskPage *find, const TqFound *found,
									 TqTask *task);
extern bool     tq_task_page_read_again(TqTaskPage *find, const TqFound *found,
										TqTask *task);
extern Snapshot tq_task_page_snapshot(const TqTaskPage *find);
extern TqTaskTable *tq_task_page_table(TqTaskPage *find, int table);
extern Relation     tq_task_page_index(TqTaskPage *find, int table,
									   TqTaskIndex which);
extern void tq_task_page_queues(TqTaskPage *find, const TqTaskFilter *filter,
								int32 **queues, int *count);

#endif /* TQ_TASK_PAGE_H */
