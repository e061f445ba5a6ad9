/*
 * change_lock.h
 *		Locks of a change, and their order.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHANGE_LOCK_H
#define TQ_CHANGE_LOCK_H

#include "change/change_set.h"

extern void tq_change_lock_all(TqChange *change);
extern void tq_change_lock(TqChange *change);

#endif /* TQ_CHANGE_LOCK_H */
