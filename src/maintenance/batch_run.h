/*
 * batch_run.h
 *		Run one batch of a background worker's duty in one transaction.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BATCH_RUN_H
#define TQ_BATCH_RUN_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* The pause after an error, doubled with each further one. */
#define TQ_ATTEMPT_PAUSE_FIRST USECS_PER_SEC
#define TQ_ATTEMPT_PAUSE_LAST (60 * USECS_PER_SEC)

/* A duty works on at most limit tasks and returns the number processed. */
typedef int64 (*TqDuty)(int limit);

/* called outside a transaction */
extern bool tq_batch_run(const char *what, TqDuty duty, int limit,
						 int64 *acted);

extern void tq_batch_run_quietly(void);

#endif /* TQ_BATCH_RUN_H */
