/*
 * task_page.h
 *		Finding tasks for those who look: pages of them, by id.
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

typedef struct TqFind TqFind;

extern TqFind  *tq_find_begin(Snapshot snapshot);
extern void     tq_find_end(TqFind *find);
extern int      tq_find_page(TqFind *find, const TqFilter *filter, int max,
							 TqFound **found);
extern int64    tq_find_count(TqFind *find, int32 queue_id, TqState state,
							  int64 max);
extern void     tq_find_read(TqFind *find, const TqFound *found, TqTask *task);
extern Snapshot tq_find_snapshot(const TqFind *find);

#endif /* TQ_TASK_PAGE_H */
