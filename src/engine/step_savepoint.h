/*
 * step_savepoint.h
 *		Workflow steps moved by a duty, each in a savepoint of its own.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_SAVEPOINT_H
#define TQ_STEP_SAVEPOINT_H

#include "store/table.h"

/* Moves one step, in a call of its own; false: it was not moved. */
typedef bool (*TqStepMove)(TqCall *call, void *arg);

extern bool tq_step_savepoint_run(TqStepMove move, void *arg, bool *busy);
extern void tq_step_savepoint_check_wait(void);
extern void tq_step_savepoint_set_alone(bool alone);

#endif /* TQ_STEP_SAVEPOINT_H */
