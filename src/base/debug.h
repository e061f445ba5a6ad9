/*
 * debug.h
 *		Places where the test build can be stopped or made to fail.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEBUG_H
#define TQ_DEBUG_H

#include "base/compat.h"

#ifdef TASKQ_DEBUG
extern void tq_debug_point(const char *name);
extern void tq_debug_fault(const char *name);
extern void tq_debug_init(void);

#define TQ_DEBUG_POINT(name) tq_debug_point(name)
#define TQ_FAULT_POINT(name) tq_debug_fault(name)
#else
#define TQ_DEBUG_POINT(name) ((void) 0)
#define TQ_FAULT_POINT(name) ((void) 0)
#endif

#endif /* TQ_DEBUG_H */
