/*
 * id.h
 *		Numbers that are never used twice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ID_H
#define TQ_ID_H

#include "base/compat.h"

/*
 * The part of an id that the server counts; the upper bits are its number.
 */
#define TQ_ID_SEQUENCE_BITS 43
#define TQ_ID_SEQUENCE_MASK ((INT64CONST(1) << TQ_ID_SEQUENCE_BITS) - 1)

/* How far tokens jump above numbers that may be unknown here. */
#define TQ_TOKEN_JUMP (INT64CONST(1) << 32)

/* Tokens do not come near this, unless a user has written one by hand. */
#define TQ_TOKEN_LAST (INT64CONST(1) << 61)

extern int64 tq_id_next(void);
extern int64 tq_id_next_token(int64 task_id, int64 previous);
extern void  tq_id_range(Datum *lowest, Datum *highest);

#endif /* TQ_ID_H */
