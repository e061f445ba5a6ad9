/*
 * large.h
 *		Columns of a task that do not fit into its row.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LARGE_H
#define TQ_LARGE_H

#include "store/task.h"

extern void tq_large_put(TqTask *task, TqColumn col, Datum value);
extern void tq_large_drop(TqTask *task, TqColumn col);
extern bool tq_large_get(TqTask *task, TqColumn col, Datum *value);
extern bool tq_large_look(TqTask *task, TqColumn col, Datum *value);
extern void tq_large_load(TqTask *task, TqColumn first, TqColumn last);
extern void tq_large_store(TqTask *task);
extern void tq_large_plan(TqTask *task);
extern void tq_large_write(TqTask *task);
extern void tq_large_remove_all(int64 task_id);

#endif /* TQ_LARGE_H */
