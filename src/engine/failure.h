/*
 * failure.h
 *		What follows an unsuccessful attempt.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FAILURE_H
#define TQ_FAILURE_H

#include "cache/queue.h"
#include "engine/move.h"
#include "store/task.h"

extern void tq_failure_add_error(TqTask *task, const char *error,
								 Jsonb *detail, const char *worker);
extern void tq_failure_next(const TqQueue *queue, TqTask *task, TqMove *move,
							TqReason last_reason, int64 retry_in);
extern void tq_failure_lost(TqQueue *queue, TqTask *task, TqMove *move,
							TqReason reason);
extern TimestampTz tq_failure_place(const TqTask *task);
extern bool        tq_failure_stop_asked(const TqTask *task);

#endif /* TQ_FAILURE_H */
