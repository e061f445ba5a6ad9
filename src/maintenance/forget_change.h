/*
 * forget_change.h
 *		Removal of old rows of the log of changes.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FORGET_CHANGE_H
#define TQ_FORGET_CHANGE_H

#include "base/compat.h"

extern int64 tq_forget_change_batch(int limit);

#endif /* TQ_FORGET_CHANGE_H */
