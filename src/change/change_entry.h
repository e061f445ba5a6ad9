/*
 * change_entry.h
 *		Reading the lists of a change.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHANGE_ENTRY_H
#define TQ_CHANGE_ENTRY_H

#include "change/change_set.h"

extern void tq_change_begin(TqChange *change, TqCall *call, char *worker);
extern void tq_change_read(TqChange *change, Jsonb *const *lists);

#endif /* TQ_CHANGE_ENTRY_H */
