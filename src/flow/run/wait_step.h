/*
 * wait_step.h
 *		Steps without a worker: they wait, and end by themselves.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAIT_STEP_H
#define TQ_WAIT_STEP_H

#include "engine/move.h"
#include "flow/instance/flow_types.h"
#include "store/task.h"

#define TQ_WAIT_STEP_BUSY_PAUSE (200 * INT64CONST(1000)) /* us */

static inline bool
tq_passive_takes_signal(const TqStep *step)
{
	return step->type == TQ_STEP_SIGNAL || step->type == TQ_STEP_APPROVAL;
}

extern void tq_wait_step_begin(TqFlow *flow, const TqStep *step, TqTask *task,
							   TqMove *move);
extern void tq_wait_step_again(const TqTask *task);
extern void tq_wait_step_begun(const TqTask *task, const TqMove *move);
extern void tq_wait_step_end(const TqStep *step, TqTask *task, Jsonb *payload,
							 TqMove *move);
extern bool tq_wait_step_word(TqFlow *flow, const TqStep *step, Jsonb *pattern,
							  char **word, char **wrong);

#endif /* TQ_WAIT_STEP_H */
