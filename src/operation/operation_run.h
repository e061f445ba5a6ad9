/*
 * operation_run.h
 *		The duty that carries out operations.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_OPERATION_RUN_H
#define TQ_OPERATION_RUN_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* A transaction of an operation lasts about this long. */
#define TQ_OPERATION_SLICE (20 * INT64CONST(1000)) /* us */

extern int64       tq_operation_run(int limit);
extern TimestampTz tq_operation_run_next(void);

#endif /* TQ_OPERATION_RUN_H */
