/*
 * utility_hook.h
 *		Utility commands that affect the background workers.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_UTILITY_HOOK_H
#define TQ_UTILITY_HOOK_H

#include "base/compat.h"

extern void tq_utility_hook_init(void);

#endif /* TQ_UTILITY_HOOK_H */
