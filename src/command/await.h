/*
 * await.h
 *		Waiting for the end of a task or of a workflow.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_AWAIT_H
#define TQ_AWAIT_H

#include "datatype/timestamp.h"

#define TQ_AWAIT_TIMEOUT (30 * USECS_PER_SEC) /* if not given */

/* A task or workflow instance that is awaited. */
typedef struct TqAwait
{
	int64 id;
	bool  known; /* it exists or existed, and may be read */
	/*
	 * Check once, in a transaction of its own, without a snapshot.  Raises an
	 * error if the object does not exist or the caller may not read it.
	 * Returns true if it has ended or is gone; tq_waiter_ended returns the
	 * final state if that was reported.
	 */
	bool (*look)(struct TqAwait *await);
	MemoryContext home;    /* for results of checks; set by tq_await_end */
	bool          entered; /* likewise */
} TqAwait;

extern bool tq_await_end(TqAwait *await, int64 timeout);

#endif /* TQ_AWAIT_H */
