/*
 * crash_start.h
 *		Whether the server has recently started after a crash.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CRASH_START_H
#define TQ_CRASH_START_H

#include "base/compat.h"

#include "catalog/pg_control.h"

extern Size    tq_crash_start_size(void);
extern void    tq_crash_start_init(void);
extern DBState tq_crash_start_state(void);

extern bool tq_crash_start_is_recent(void);

#endif /* TQ_CRASH_START_H */
