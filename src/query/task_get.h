/*
 * task_get.h
 *		Reading tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_GET_H
#define TQ_TASK_GET_H

#include "base/code.h"

/* The outcome of a task. */
typedef struct TqTaskOutcome
{
	TqState state;
	bool    has_result;
	bool    has_error;
	Datum   result; /* jsonb */
	Datum   error;  /* text */
} TqTaskOutcome;

extern bool tq_task_get_outcome(int64 task_id, TqTaskOutcome *outcome);
extern bool tq_task_get_sees_worker(int32 worker_id);

#endif /* TQ_TASK_GET_H */
