/*
 * wake_turn.h
 *		Wake-ups of waiting and listening sessions by the background worker.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAKE_TURN_H
#define TQ_WAKE_TURN_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* called outside a transaction */
extern void        tq_wake_turn_start(void);
extern void        tq_wake_turn_run(TimestampTz told);
extern void        tq_wake_turn_tend(void);
extern TimestampTz tq_wake_turn_next(void);

#endif /* TQ_WAKE_TURN_H */
