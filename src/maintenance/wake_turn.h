/*
 * wake_turn.h
 *		In the background worker: who waits or listens is told in time.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAKE_TURN_H
#define TQ_WAKE_TURN_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* outside a transaction */
extern void        tq_wakes_start(void);
extern void        tq_wakes_turn(TimestampTz told);
extern void        tq_wakes_tend(void);
extern TimestampTz tq_wakes_next(void);

#endif /* TQ_WAKE_TURN_H */
