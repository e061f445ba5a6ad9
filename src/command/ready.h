/*
 * ready.h
 *		Is there a task to claim?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_READY_H
#define TQ_READY_H

#include "engine/wait.h"
#include "store/table.h"

extern bool tq_ready_task(TqCall *call, const TqQueue *queue,
						  const TqTags *tags, int64 *lane_id);
extern bool tq_ready_room(const TqQueue *queue, const TqWorker *worker,
						  TqNoTask *no_task);

#endif /* TQ_READY_H */
