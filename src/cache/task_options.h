/*
 * task_options.h
 *		The options of a task: its own over those of its queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_OPTIONS_H
#define TQ_TASK_OPTIONS_H

#include "cache/queue_types.h"
#include "store/task.h"

extern const TqOptions *tq_task_options(const TqQueue *queue,
										const TqTask *task, TqOptions *room);

#endif /* TQ_TASK_OPTIONS_H */
