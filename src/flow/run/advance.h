/*
 * advance.h
 *		What follows in a workflow from the moves of its steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_H
#define TQ_ADVANCE_H

#include "lib/pairingheap.h"

#include "store/table.h"

extern void tq_advance(TqCall *call);

#endif /* TQ_ADVANCE_H */
