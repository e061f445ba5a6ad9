/*
 * submit.h
 *		The beginning of a task's way.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SUBMIT_H
#define TQ_SUBMIT_H

#include "core/queue.h"

extern void tq_submit_check_size(const TqQueue *queue, const char *what,
								 int64 size);

#endif /* TQ_SUBMIT_H */
