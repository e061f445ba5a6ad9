/*
 * own_worker.h
 *		The workers that this session has registered.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_OWN_WORKER_H
#define TQ_OWN_WORKER_H

#include "base/compat.h"

extern void tq_own_worker_add(const char *name, int64 incarnation);
extern void tq_own_worker_remove(const char *name);
extern bool tq_own_worker_is(const char *name);
extern bool tq_own_worker_is_replaced(const char *name, int64 incarnation);
extern void tq_own_worker_forget(void);
extern void tq_own_worker_init(void);

#endif /* TQ_OWN_WORKER_H */
