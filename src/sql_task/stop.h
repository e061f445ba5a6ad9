/*
 * stop.h
 *		Signals and timers that stop a SQL task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STOP_H
#define TQ_STOP_H

#include "base/compat.h"

extern void tq_stop_init(void);
extern void tq_stop_connected(void);
extern bool tq_stop_requested(void);
extern void tq_stop_arm(int64 time_limit);
extern void tq_stop_disarm(void);
extern bool tq_stop_time_is_up(void);
extern void tq_stop_cancel_forget(void);

#endif /* TQ_STOP_H */
