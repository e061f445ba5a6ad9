/*
 * operation_sweep.h
 *		Removes operations that have ended.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_OPERATION_SWEEP_H
#define TQ_OPERATION_SWEEP_H

#include "base/compat.h"

extern int64 tq_operation_sweep(int limit);

#endif /* TQ_OPERATION_SWEEP_H */
