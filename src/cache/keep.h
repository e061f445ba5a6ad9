/*
 * keep.h
 *		How long a finished task is kept.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEEP_H
#define TQ_KEEP_H

#include "cache/queue_types.h"
#include "store/task.h"

typedef enum TqTrace
{
	TQ_TRACE_BY_QUEUE, /* as the queue's retention says */
	TQ_TRACE_KEEP,
	TQ_TRACE_NONE
} TqTrace;

extern bool tq_keep_finished(const TqQueue *queue, TqTask *task, TqState to,
							 TqTrace trace);

#endif /* TQ_KEEP_H */
