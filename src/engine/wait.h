/*
 * wait.h
 *		Waiting for tasks: look, sleep, look again.
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
	TQ_WAIT_OVER /* there is nothing to wait for any more */
} TqWaitResult;

typedef struct TqWait
{
	TqWaitResult (*look)(struct TqWait *wait);
	void *arg;

	/* begun by tq_wait_begin */
	int64 until;     /* monotonic clock */
	int32 worker_id; /* registered, for which heartbeats are given */
	int64 task_id;   /* 0: tasks to claim are waited for, else its end */

	/* told by each look that found no task, with tq_wait_queue */
	TqWaitFor wait_for;
	int64     look_at; /* by then it may not be any more */
	bool      over;    /* the worker drains */
} TqWait;

/* How a look at a queue found nothing. */
typedef struct TqNoTask
{
	bool full;        /* for a limit of the queue, or of the worker */
	bool worker_full; /* this */
} TqNoTask;

extern int64 tq_wait_span(FunctionCallInfo fcinfo, int n, const char *what,
						  int64 if_null);
extern void  tq_wait_require_unwritten(const char *function);
extern void  tq_wait_require_top_level(FunctionCallInfo fcinfo,
									   const char      *function);
extern void  tq_wait_begin(TqWait *wait, int64 span);
extern TqWaitResult tq_wait_run(TqWait *wait);

/* for looks */
extern void tq_wait_worker(TqWait *wait, const char *name,
						   const TqWorker *worker);
extern void tq_wait_queue(TqWait *wait, const TqQueue *queue,
						  const TqTags *tags, const TqNoTask *no_task);
extern void tq_wait_open(TqWait *wait);

#endif /* TQ_WAIT_H */
