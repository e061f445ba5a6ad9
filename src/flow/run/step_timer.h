/*
 * step_timer.h
 *		A duty: steps whose time is up.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_TIMER_H
#define TQ_STEP_TIMER_H

extern void tq_step_timer_init(void);

#endif /* TQ_STEP_TIMER_H */
