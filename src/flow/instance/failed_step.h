/*
 * failed_step.h
 *		Finds out whether a step of an instance has failed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FAILED_STEP_H
#define TQ_FAILED_STEP_H

#include "flow/instance/flow_types.h"

/* Stands for all steps of the instance, in place of the index of a batch. */
#define TQ_ALL_PLACES (-1)

extern bool tq_failed_step_any(const TqFlow *flow, int place, int32 near);

#endif /* TQ_FAILED_STEP_H */
