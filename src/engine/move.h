/*
 * move.h
 *		A change of a task's state, as the caller requests it and as hooks
 *		change it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MOVE_H
#define TQ_MOVE_H

#include "cache/keep.h"
#include "shared/metric.h"

typedef struct TqMove
{
	TqState     to;
	TqReason    reason;
	const char *wanted;  /* verb for the error: "claim" */
	bool        no_wait; /* give up on a row that is being changed */

	/* to running */
	int32       worker_id;
	TimestampTz claimed_at;
	TimestampTz lease_until; /* DT_NOEND: none */

	/* to pending */
	TimestampTz due_at; /* 0: now */

	/* to a finished state */
	TqTrace trace;

	/* from running: how the attempt ended */
	TqEnd end;

	struct
	{
		bool released : 1;  /* the step has nothing left to wait for */
		bool sent_back : 1; /* it waits again, because a parent waits again */
	} flow;

	struct
	{
		bool is_new : 1;  /* a task that did not exist before */
		bool in_line : 1; /* key_queue.c itself moves it */
		bool waits : 1;   /* to blocked, by others of its key */
	} key;
} TqMove;

/* The move as it is made: initially as the caller requests it. */
typedef struct TqMoveAnswer
{
	TqState  to;
	TqReason reason;
	TqEnd    end;
	bool     refused; /* not moved, since a wait was or would be needed */
	bool     revived; /* the step's workflow had ended, and is live again */
	bool     waits;   /* to blocked, by others of its key */
	bool     cleared; /* other tasks of its key were moved back for it */
} TqMoveAnswer;

#endif /* TQ_MOVE_H */
