/*
 * step_fill.h
 *		Evaluates the patterns of a step, and rejects the step if that fails.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_FILL_H
#define TQ_STEP_FILL_H
#include "engine/move.h"
#include "flow/instance/flow_types.h"
#include "store/task.h"

#define TQ_STEP_FILL_TOO_LARGE                                                \
	"the results that its paths refer to are too large"

extern bool tq_step_fill(const TqFlow *flow, const TqStep *step,
						 Jsonb *pattern, Jsonb **result, char **wrong);
extern void tq_step_fill_reject(TqTask *task, TqMove *move, const char *words);

#endif /* TQ_STEP_FILL_H */
