/*
 * task_page.h
 *		Finding tasks for readers: pages of them, by id.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_PAGE_H
#define TQ_TASK_PAGE_H

#include "executor/tuptable.h"
#include "utils/snapshot.h"

#include "query/id_heap.h"
#include "query/task_filter.h"
#include "store/task.h"

typedef struct TqTaskPage TqTaskPage;

extern TqTaskPage *tq_task_page_begin(Snapshot snapshot);
extern void        tq_task_page_end(TqTaskPage *find);
extern int      tq_task_page_find(TqTaskPage *find, const TqTaskFilter *filter,
								  int max, TqFound **found);
extern bool     tq_task_page_find_one(TqTaskPage *find, int64 task_id,
									  TqTask *task);
extern int64    tq_task_page_count(TqTaskPage *find, int32 queue_id,
								   TqState state, int64 max);
extern void     tq_task_page_read(TqTaskPage *find, const TqFound *found,
								  TqTask *task);
extern Snapshot tq_task_page_snapshot(const TqTaskPage *find);

#endif /* TQ_TASK_PAGE_H */
