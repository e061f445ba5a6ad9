/*
 * finish.h
 *		The end of an attempt.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FINISH_H
#define TQ_FINISH_H

#include "core/state.h"

extern void tq_finish_add_error(TqTask *task, const char *error, Jsonb *detail,
								const char *worker);
extern void tq_finish_failed(const TqQueue *queue, TqTask *task, TqMove *move,
							 TqReason last_reason, int64 retry_in);
extern void tq_finish_lost(TqQueue *queue, TqTask *task, TqMove *move,
						   TqReason reason);

#endif /* TQ_FINISH_H */
