/*
 * metric_minute.h
 *		Numbers of each queue, minute by minute, for a day.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_METRIC_MINUTE_H
#define TQ_METRIC_MINUTE_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* for the background worker */
extern void        tq_metric_minute_start(void);
extern bool        tq_metric_minute_is_due(void);
extern TimestampTz tq_metric_minute_next(void);
extern int64       tq_metric_minute_run(int limit);

#endif /* TQ_METRIC_MINUTE_H */
