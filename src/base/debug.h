/*
 * debug.h
 *		Points where the test build can be stopped or made to fail.
 *
 * The release build contains none of them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEBUG_H
#define TQ_DEBUG_H

#include "base/compat.h"

#ifdef TASKQ_DEBUG

/*
 * The advisory lock for which debug points wait: pg_advisory_lock(74111, 1).
 */
#define TQ_DEBUG_LOCK_CLASS 74111
#define TQ_DEBUG_LOCK_OBJECT 1

extern void tq_debug_init(void);
extern void tq_debug_wait(const char *name);
extern void tq_debug_wait_committed(const char *name);
extern void tq_debug_fail(const char *name);

#define TQ_DEBUG_POINT(name) tq_debug_wait(name)
#define TQ_DEBUG_POINT_COMMITTED(name) tq_debug_wait_committed(name)
#define TQ_FAULT_POINT(name) tq_debug_fail(name)

#else

#define TQ_DEBUG_POINT(name) ((void) 0)
#define TQ_DEBUG_POINT_COMMITTED(name) ((void) 0)
#define TQ_FAULT_POINT(name) ((void) 0)

#endif /* TASKQ_DEBUG */

#endif /* TQ_DEBUG_H */
