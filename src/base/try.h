/*
 * try.h
 *		Parsing input, with its errors returned as a result.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TRY_H
#define TQ_TRY_H

#include "base/compat.h"

extern ErrorData *tq_try(void (*work)(void *arg), void *arg);

#endif /* TQ_TRY_H */
