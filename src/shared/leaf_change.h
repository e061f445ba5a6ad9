/*
 * leaf_change.h
 *		How often a leaf of the archive was changed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LEAF_CHANGE_H
#define TQ_LEAF_CHANGE_H

#include "base/compat.h"

extern Size tq_leaf_change_size(void);
extern void tq_leaf_change_init(void);
extern void tq_leaf_change_wipe(void);

extern void   tq_leaf_change_note(int leaf);
extern void   tq_leaf_change_note_all(int32 leaves);
extern uint64 tq_leaf_change_count(int leaf);

#endif /* TQ_LEAF_CHANGE_H */
