/*
 * await.h
 *		Waiting for an end.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_AWAIT_H
#define TQ_AWAIT_H

#include "datatype/timestamp.h"

#define TQ_AWAIT_TIMEOUT (30 * USECS_PER_SEC) /* when none is given */

/* What is awaited: a task, or an instance of a workflow. */
typedef struct TqAwait
{
	int64 id;
	bool  known; /* it is, or was, there, and may be seen */
	/*
	 * One look, in a transaction of its own, without a snapshot; an error
	 * when it is not known and not to be seen.  True: it has ended, or is
	 * gone; tq_waiter_ended tells how it ended, if anybody has told.
	 */
	bool (*look)(struct TqAwait *await);
	MemoryContext home; /* for what looks leave behind; set by tq_await_end */
	bool          entered; /* the same */
} TqAwait;

extern bool tq_await_end(TqAwait *await, int64 timeout);

#endif /* TQ_AWAIT_H */
