/*
 * dispatch_task.h
 *		Claiming one given task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DISPATCH_TASK_H
#define TQ_DISPATCH_TASK_H

#include "engine/worker.h"
#include "store/table.h"
#include "store/task.h"

extern const char *tq_dispatch_take(TqCall *call, TqQueue *queue, TqTask *task,
									const TqWorker *worker, int64 lease);

#endif /* TQ_DISPATCH_TASK_H */
