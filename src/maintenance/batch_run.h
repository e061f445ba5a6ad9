/*
 * batch_run.h
 *		What the background worker tries: one batch, one transaction.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_BATCH_RUN_H
#define TQ_BATCH_RUN_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* After an error; each further one doubles the pause. */
#define TQ_ATTEMPT_PAUSE_FIRST USECS_PER_SEC
#define TQ_ATTEMPT_PAUSE_LAST (60 * USECS_PER_SEC)

/* A duty works on at most limit tasks and returns how many it acted on. */
typedef int64 (*TqDuty)(int limit);

/* outside a transaction */
extern bool tq_batch_run(const char *what, TqDuty duty, int limit,
						 int64 *acted);

#endif /* TQ_BATCH_RUN_H */
