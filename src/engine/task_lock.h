/*
 * task_lock.h
 *		Locks on tasks that are changed together.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_LOCK_H
#define TQ_TASK_LOCK_H

#include "store/table.h"

extern bool tq_task_lock(TqCall *call, int64 task_id, int rights, bool shared);

#endif /* TQ_TASK_LOCK_H */
