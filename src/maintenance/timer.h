/*
 * timer.h
 *		Due times of tasks, and ends of pauses.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TIMER_H
#define TQ_TIMER_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* for the background worker */
extern void        tq_timer_start(void);
extern void        tq_timer_told(TimestampTz at);
extern bool        tq_timer_is_due(void);
extern int64       tq_timer_tell(int limit);
extern TimestampTz tq_timer_next(void);

#endif /* TQ_TIMER_H */
