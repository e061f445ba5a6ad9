/*
 * waiter.h
 *		Who waits in the server, and who is woken.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAITER_H
#define TQ_WAITER_H

#include "base/compat.h"

/* What a waiter can name; beyond that it is woken for more than it needs. */
#define TQ_WAITER_QUEUES 16
#define TQ_WAITER_LANES 64

/* What a claim that finds nothing waits for. */
typedef struct TqWaitFor
{
	int   queue_count; /* -1: any queue of the database */
	int32 queues[TQ_WAITER_QUEUES];
	int   lane_count; /* -1: any lane of these queues */
	int64 lanes[TQ_WAITER_LANES];
	int32 worker_id;   /* who is told of its drain or end; 0: nobody */
	bool  worker_full; /* the worker runs as many tasks as it may */
	int32 hindered;    /* a queue that has tasks, but a limit of which lets
						* none be claimed; 0: none, -1: several */
	bool  open; /* a queue or lane that is made later may belong to it */
} TqWaitFor;

/* Since the start of shared memory, in all databases together. */
typedef struct TqWaiterNumbers
{
	int64 sleeps;    /* how often a waiter went to sleep */
	int64 wakes;     /* how often one was woken */
	int64 passed_on; /* how often a wake was passed on to another */
} TqWaiterNumbers;

extern Size tq_waiter_size(void);
extern void tq_waiter_init(void);
extern void tq_waiter_wipe(void);

/*
 * A backend waits for one thing at a time: begin, look, and if that found
 * nothing say so and sleep.  After that begin again before the next look.
 */
extern void tq_waiter_begin_claim(const TqWaitFor *wait_for);
extern void tq_waiter_begin_task(int64 task_id);
extern void tq_waiter_took(int32 queue_id, int64 lane_id);
extern void tq_waiter_looked(void);
extern bool tq_waiter_sleep(int64 until_monotonic);
extern void tq_waiter_end(bool satisfied);
extern int  tq_waiter_ended(void);
extern int  tq_waiter_ahead(int32 queue_id);

/* for ends of transactions: cannot fail */

/* gauges */
extern int  tq_waiter_count(int32 queue_id, int64 lane_id);
extern int  tq_waiter_count_all(void);
extern void tq_waiter_numbers(TqWaiterNumbers *numbers);

#endif /* TQ_WAITER_H */
