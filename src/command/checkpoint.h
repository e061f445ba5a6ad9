/*
 * checkpoint.h
 *		The most recent checkpoints of a step.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHECKPOINT_H
#define TQ_CHECKPOINT_H

#include "store/task.h"

extern void tq_checkpoint_plan(TqTask *task);
extern void tq_checkpoint_note(const TqTask *task, Jsonb *checkpoint);

#endif /* TQ_CHECKPOINT_H */
