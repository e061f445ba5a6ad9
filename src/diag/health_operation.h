/*
 * health_operation.h
 *		taskq_health(): operations.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEALTH_OPERATION_H
#define TQ_HEALTH_OPERATION_H

#include "diag/health_report.h"

extern void tq_health_operations(TqHealth *health);

#endif /* TQ_HEALTH_OPERATION_H */
