/*
 * history.h
 *		The state changes of tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HISTORY_H
#define TQ_HISTORY_H

#include "store/table.h"
#include "store/task.h"

extern void tq_history_write(TqCall *call, TqTask *task, int from);

#endif /* TQ_HISTORY_H */
