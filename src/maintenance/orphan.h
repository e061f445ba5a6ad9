/*
 * orphan.h
 *		Running tasks whose worker is dead or has deregistered.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ORPHAN_H
#define TQ_ORPHAN_H

#include "base/compat.h"

#include "shared/running.h"

extern int tq_orphan_find(int passed, TqRunning *found, int max);
extern int tq_orphan_holders(const TqRunning *all, int count, int32 **workers);

#endif /* TQ_ORPHAN_H */
