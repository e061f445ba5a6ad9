/*
 * waiter.h
 *		Sessions that wait in the server, and wakes.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAITER_H
#define TQ_WAITER_H

#include "base/compat.h"

#include "shared/waiter_types.h"

/* Since the start of shared memory, in all databases. */
typedef struct TqWaiterNumbers
{
	int64 sleeps;    /* number of sleeps */
	int64 wakes;     /* number of wakes */
	int64 passed_on; /* number of wakes passed on to another waiter */
} TqWaiterNumbers;

extern Size tq_waiter_size(void);
extern void tq_waiter_init(void);
extern void tq_waiter_wipe(void);

/*
 * A backend waits for one thing at a time: begin, check, and if the check
 * found nothing report that and sleep.  Then begin again before the next
 * check.
 */
extern void tq_waiter_begin_claim(const TqWaitFor *wait_for);
extern void tq_waiter_begin_task(int64 task_id);
extern void tq_waiter_took(int32 queue_id, int64 lane_id);
extern void tq_waiter_looked(void);
extern bool tq_waiter_sleep(int64 until_monotonic);
extern void tq_waiter_end(bool satisfied);
extern int  tq_waiter_ended(void);
extern int  tq_waiter_ahead(int32 queue_id);

/* for ends of transactions; these cannot fail */

/* gauges */
extern int  tq_waiter_count(int32 queue_id, int64 lane_id);
extern int  tq_waiter_count_all(void);
extern void tq_waiter_numbers(TqWaiterNumbers *numbers);

#endif /* TQ_WAITER_H */
