/*
 * wait.h
 *		Waiting for tasks: check, sleep, check again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAIT_H
#define TQ_WAIT_H

#include "cache/queue.h"
#include "engine/worker.h"
#include "shared/waiter.h"

typedef enum TqWaitResult
{
	TQ_WAIT_NO_TASK,
	TQ_WAIT_FOUND,
	TQ_WAIT_OVER /* no event can end the wait */
} TqWaitResult;

typedef struct TqWait
{
	TqWaitResult (*look)(struct TqWait *wait);
	void *arg;

	/* set by tq_wait_begin */
	int64 until;     /* monotonic clock */
	int32 worker_id; /* registered, for which heartbeats are sent */
	int64 task_id;   /* task whose end is awaited; 0: waits to claim */

	/* set by each check that found no task, with tq_wait_queue */
	TqWaitFor wait_for;
	int64     look_at; /* by then it may no longer be current */
	bool      over;    /* the worker is draining */
} TqWait;

/* How a check of a queue found no task. */
typedef struct TqNoTask
{
	bool full;        /* because of a limit of the queue, or */
	bool worker_full; /* of the worker */
} TqNoTask;

extern int64 tq_wait_span(FunctionCallInfo fcinfo, int n, const char *what,
						  int64 if_null);
extern void  tq_wait_require_unwritten(const char *function);
extern void  tq_wait_require_top_level(FunctionCallInfo fcinfo,
									   const char      *function);
extern void  tq_wait_begin(TqWait *wait, int64 span);
extern TqWaitResult tq_wait_run(TqWait *wait);

/* for checks */
extern void tq_wait_worker(TqWait *wait, const char *name,
						   const TqWorker *worker);
extern void tq_wait_queue(TqWait *wait, const TqQueue *queue,
						  const TqTags *tags, const TqNoTask *no_task);
extern void tq_wait_open(TqWait *wait);

#endif /* TQ_WAIT_H */
