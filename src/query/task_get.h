/*
 * task_get.h
 *		Looking at tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_TASK_GET_H
#define TQ_TASK_GET_H

#include "base/types.h"


/* What has become of a task. */
typedef struct TqOutcome
{
	TqState state;
	bool    has_result;
	bool    has_error;
	Datum   result; /* jsonb */
	Datum   error;  /* text */
} TqOutcome;

extern bool tq_look_outcome(int64 task_id, TqOutcome *outcome);
extern bool tq_look_sees_worker(int32 worker_id);

#endif /* TQ_TASK_GET_H */
