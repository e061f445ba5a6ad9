/*
 * child_start.h
 *		Starts an instance for a step of another one.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHILD_START_H
#define TQ_CHILD_START_H

#include "flow/instance/flow_types.h"
#include "store/table.h"

extern void tq_child_begin(TqCall *call, TqFlow *flow, int64 task_id);

#endif /* TQ_CHILD_START_H */
