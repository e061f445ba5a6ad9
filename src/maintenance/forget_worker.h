/*
 * forget_worker.h
 *		Removal of unreferenced rows of workers.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FORGET_WORKER_H
#define TQ_FORGET_WORKER_H

#include "base/compat.h"

/* In the current transaction, up to limit rows; returns how many. */
extern int64 tq_forget_worker_batch(int limit);
extern bool  tq_forget_worker_more(void);

#endif /* TQ_FORGET_WORKER_H */
