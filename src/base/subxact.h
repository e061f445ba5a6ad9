/*
 * subxact.h
 *		Work in a savepoint, so that its errors do not end the transaction.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SUBXACT_H
#define TQ_SUBXACT_H

#include "base/compat.h"

extern ErrorData *tq_subxact_run(void (*work)(void *arg), void *arg);
extern void       tq_subxact_repeat(void (*work)(void *arg), void *arg);
extern int        tq_subxact_limit_waits(void);

#endif /* TQ_SUBXACT_H */
