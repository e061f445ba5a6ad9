/*
 * operation_turn.c
 *		When the background worker works on operations.
 *
 * Operations may last for minutes.  In each turn they are worked on for a
 * short time, so that other duties are not late, and then they rest: as long
 * as they were worked on, and longer while sessions claim tasks, from which
 * they take at most an eighth of a processor.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <sys/resource.h>

#include "utils/snapmgr.h"

#include "base/clock.h"
#include "base/guc.h"
#include "maintenance/batch_run.h"
#include "maintenance/operation_turn.h"
#include "operation/operation_run.h"
#include "shared/claim_activity.h"

/* Until the next attempt, if other sessions have locked what is due. */
#define LOCKED_PAUSE (200 * INT64CONST(1000)) /* us */

/* Times as long as they were worked on. */
#define REST 1
#define REST_WHILE_CLAIMS 7

static TimestampTz due = 0;  /* dispatch clock; so is the next */
static TimestampTz rest = 0; /* its end */
static int64       begun;    /* the work of this turn; monotonic clock */
static int64       used;     /* processor time when it began; us */

static int64 processor_time(void);

/* Called once, when the worker has started. */
void
tq_operation_turn_start(void)
{
	due = rest = 0;
}

/*
 * Is there work in this turn?  told is the earliest due time that sessions
 * have reported.
 */
bool
tq_operation_turn_begin(TimestampTz now, TimestampTz told)
{
	due = Min(due, told);
	if (now < Max(due, rest))
		return false;
	begun = tq_clock_monotonic();
	used = processor_time();
	return true;
}

/* The duty: one batch of one operation. */
int64
tq_operation_turn_batch(int limit)
{
	int64 acted = tq_operation_run(limit);

	tq_batch_run_quietly();
	if (acted == 0)
	{
		TimestampTz now = tq_clock_dispatch();

		PushActiveSnapshot(GetTransactionSnapshot());
		due = Min(tq_operation_run_next(),
				  now + tq_guc_usecs(tq_guc_deadline_interval));
		if (due <= now)
			due = now + LOCKED_PAUSE;
		PopActiveSnapshot();
	}
	return acted;
}

/* After a batch: may another one follow in this turn? */
bool
tq_operation_turn_continue(void)
{
	int64 worked;

	if (tq_clock_monotonic() - begun < TQ_OPERATION_SLICE)
		return true;
	worked = processor_time() - used;
	rest = tq_clock_dispatch() +
		   worked * (tq_claim_activity_seen() ? REST_WHILE_CLAIMS : REST);
	return false;
}

/* When there will be work. */
TimestampTz
tq_operation_turn_next(void)
{
	return Max(due, rest);
}

/*
 * The processor time of this process.  On a busy machine it is much less than
 * the time that has passed.
 */
static int64
processor_time(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (int64) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
			   USECS_PER_SEC +
		   usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}
