/*
 * pool.h
 *		Starts and stops the executors of a database.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_POOL_H
#define TQ_POOL_H

#include "base/compat.h"

#include "datatype/timestamp.h"

extern void        tq_pool_start(void);
extern bool        tq_pool_is_needed(void);
extern int64       tq_pool_turn(int limit);
extern TimestampTz tq_pool_next(void);

#endif /* TQ_POOL_H */
