/*
 * step_make.h
 *		Creates steps, and begins them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_MAKE_H
#define TQ_STEP_MAKE_H

#include "cache/queue.h"
#include "engine/move.h"
#include "flow/instance/flow_types.h"
#include "flow/run/step_plan.h"
#include "store/table.h"

extern void tq_step_make_all(TqCall *call, TqFlow *flow, TqNewStep *new,
							 int count, const TqNewEdges *edges);
extern void tq_step_make_begin(TqFlow *flow, const TqStep *step,
							   TqQueue *queue, TqTask *task, TqMove *move);

#endif /* TQ_STEP_MAKE_H */
