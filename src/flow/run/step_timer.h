/*
 * step_timer.h
 *		A duty of the background worker: processes due timers of steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_TIMER_H
#define TQ_STEP_TIMER_H

#include "datatype/timestamp.h"

extern int64       tq_step_timer_run(int limit);
extern TimestampTz tq_step_timer_next(void);

#endif /* TQ_STEP_TIMER_H */
