/*
 * change_set.h
 *		The entries of a change: walked, and found by task or name.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHANGE_SET_H
#define TQ_CHANGE_SET_H

#include "change/change.h"

extern void tq_change_each(TqChange *change, TqEntry **entries, int count,
						   TqChangeStep step);
extern const TqEntry *tq_change_find(TqEntry *const *entries, int count,
									 int64 id);
extern int            tq_change_compare_ids(const void *a, const void *b);
extern char          *tq_change_reference(const TqEntry *entry);

#endif /* TQ_CHANGE_SET_H */
