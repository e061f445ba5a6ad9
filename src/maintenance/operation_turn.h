/*
 * operation_turn.h
 *		When the background worker works on operations.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_OPERATION_TURN_H
#define TQ_OPERATION_TURN_H

#include "base/compat.h"

#include "datatype/timestamp.h"

extern void        tq_operation_turn_start(void);
extern bool        tq_operation_turn_begin(TimestampTz now, TimestampTz told);
extern int64       tq_operation_turn_batch(int limit);
extern bool        tq_operation_turn_continue(void);
extern TimestampTz tq_operation_turn_next(void);

#endif /* TQ_OPERATION_TURN_H */
