/*
 * waiter.h
 *		Who waits in the server, and who is woken.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAITER_H
#define TQ_WAITER_H

#include "base/compat.h"

#include "shared/waiter_types.h"

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
