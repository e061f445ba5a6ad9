/*
 * clock.h
 *		The clocks of the extension.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLOCK_H
#define TQ_CLOCK_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"

extern TimestampTz tq_clock_wall(void);
extern TimestampTz tq_clock_dispatch(void);
extern int64       tq_clock_monotonic(void);
extern void        tq_clock_not_before(TimestampTz at);
extern void tq_clock_attach(pg_atomic_uint64 *shared_offset, bool found);
extern void tq_clock_pause(int ms);
extern void tq_clock_init(void);

#endif /* TQ_CLOCK_H */
