/*
 * drop_steps.h
 *		Workflow steps in a queue that is dropped.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DROP_STEPS_H
#define TQ_DROP_STEPS_H

#include "store/table.h"

extern void tq_drop_steps(TqCall *call, int32 queue_id, int patience_ms);

#endif /* TQ_DROP_STEPS_H */
