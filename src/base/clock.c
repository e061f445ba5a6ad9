/*
 * clock.c
 *		Wall clock, monotonic clock, dispatch clock.
 *
 * The dispatch clock decides what is due: tasks, leases, timers.  It is the
 * monotonic clock plus the largest difference to the wall clock seen so far.
 * So it follows the wall clock's steps forward and ignores its steps backward:
 * a task that was due stays due, and a lease is never extended.  The
 * difference is one atomic number, in shared memory if the library is
 * preloaded, else in the process.
 *
 * All times are microseconds.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <time.h>

#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "base/clock.h"

static pg_atomic_uint64  local_offset;
static pg_atomic_uint64 *offset_at = NULL;

#ifdef TASKQ_DEBUG
/* Shift the wall clock, to test its steps. */
static int debug_skew = 0;
#endif

static void raise_offset(int64 offset);

void
tq_clock_init(void)
{
#ifdef TASKQ_DEBUG
	DefineCustomIntVariable("taskq.debug_clock_skew",
							"Seconds by which the wall clock is shifted.",
							NULL, &debug_skew, 0, -1000000, 1000000,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
#endif
	pg_atomic_init_u64(&local_offset, 0);
	if (offset_at == NULL)
		offset_at = &local_offset;
}

/* From now on use shared memory. */
void
tq_clock_attach(pg_atomic_uint64 *shared_offset, bool found)
{
	if (!found)
		pg_atomic_init_u64(shared_offset, 0);
	offset_at = shared_offset;
}

TimestampTz
tq_clock_wall(void)
{
	TimestampTz now = GetCurrentTimestamp();

#ifdef TASKQ_DEBUG
	now += (int64) debug_skew * USECS_PER_SEC;
#endif
	return now;
}

int64
tq_clock_monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64) ts.tv_sec * USECS_PER_SEC + ts.tv_nsec / 1000;
}

TimestampTz
tq_clock_dispatch(void)
{
	TimestampTz wall = tq_clock_wall();
	int64       monotonic = tq_clock_monotonic();

	/*
	 * Read the wall clock first: if the process is stopped between the two
	 * reads, the difference is too small, which is harmless.
	 */
	raise_offset(wall - monotonic);
	return monotonic + (int64) pg_atomic_read_u64(offset_at);
}

/* Sleep for at most ms before the caller checks a condition again. */
void
tq_clock_pause(int ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* Advance the dispatch clock to at least this time. */
void
tq_clock_not_before(TimestampTz at)
{
	raise_offset(at - tq_clock_monotonic());
}

static void
raise_offset(int64 offset)
{
	uint64 seen = pg_atomic_read_u64(offset_at);

	while ((int64) seen < offset)
	{
		if (pg_atomic_compare_exchange_u64(offset_at, &seen, (uint64) offset))
			break;
	}
}
