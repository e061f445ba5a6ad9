/*
 * bound_worker.h
 *		Workers that are bound to a connection.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BOUND_WORKER_H
#define TQ_BOUND_WORKER_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* the duty, inside a transaction */
extern int64 tq_bound_worker_end_gone(int limit);

/* for the background worker: when it is due */
extern bool        tq_bound_worker_is_due(void);
extern TimestampTz tq_bound_worker_next(void);
extern void        tq_bound_worker_failed(void);

#endif /* TQ_BOUND_WORKER_H */
