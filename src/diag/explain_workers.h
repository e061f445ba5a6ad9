/*
 * explain_workers.h
 *		Which workers could claim a ready task, and which task comes before it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXPLAIN_WORKERS_H
#define TQ_EXPLAIN_WORKERS_H

#include "cache/queue.h"
#include "diag/explain_text.h"
#include "store/task.h"

extern void tq_explain_turn(TqExplain *e, const TqQueue *queue,
							const TqTask *task);

#endif /* TQ_EXPLAIN_WORKERS_H */
