/*
 * move.h
 *		A change of a task's state, as a caller wants it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MOVE_H
#define TQ_MOVE_H

#include "shared/metric.h"

typedef enum TqTrace
{
	TQ_TRACE_BY_QUEUE, /* what the queue's retention says */
	TQ_TRACE_KEEP,
	TQ_TRACE_NONE
} TqTrace;

typedef struct TqMove
{
	TqState     to;
	TqReason    reason;
	const char *wanted;  /* words for the error: "claimed" */
	bool        no_wait; /* give up on a row that is being changed */

	/* to running */
	int32       worker_id;
	TimestampTz claimed_at;
	TimestampTz lease_until; /* DT_NOEND: none */

	/* to pending */
	TimestampTz due_at; /* 0: now */

	/* of its workflow */
	bool released;  /* it has nothing to wait for any more */
	bool sent_back; /* it waits again, since a parent does */
	bool revived;   /* its instance had ended, and goes on */

	/* of the queue of its key */
	bool is_new;  /* a task that was not there before */
	bool in_line; /* key_queue.c itself moves it */
	bool waits;   /* to blocked, by others of its key */
	bool refused; /* would have to wait for somebody */
	bool cleared; /* others of the key were moved back for it */

	/* to a finished state */
	TqTrace trace;

	/* from running: how the attempt ended */
	TqEnd end;
} TqMove;

#endif /* TQ_MOVE_H */
