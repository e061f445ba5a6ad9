/*
 * discard.h
 *		DISCARD ALL.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DISCARD_H
#define TQ_DISCARD_H

#include "base/compat.h"

extern void tq_discard_init(void);

#endif /* TQ_DISCARD_H */
