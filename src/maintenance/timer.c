/*
 * timer.c
 *		Due times of tasks, and ends of pauses.
 *
 * The background worker sleeps until the first task becomes due (the first
 * entry of the index on wake_at) or the first pause ends.  Then it wakes as
 * many waiting sessions as there are due tasks, and raises notify flags.
 *
 * Everything due at told_until or before has been announced; a turn announces
 * what became due between that and now.  No task is missed: if this turn's
 * snapshot does not show a task, the transaction of the task commits later.
 * If the task is due by then, its commit wakes the sessions; if not, its
 * commit reports the due time to the worker (tq_worker_directory_due).  A
 * reported time may be before told_until, if the turn was faster than the
 * commit.  All tasks that become due from that time on are then announced
 * again, which at worst wakes sessions unnecessarily.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/debug.h"
#include "base/spi.h"
#include "maintenance/timer.h"
#include "shared/notify_flag.h"
#include "shared/running.h"
#include "shared/wake.h"
#include "shared/worker_directory.h"

/* If more tasks become due at the same time, wake all sessions. */
#define TELL_AT_ONCE 1000

/* In the background worker; dispatch clock. */
static TimestampTz told_until = 0;
static TimestampTz named = DT_NOEND;       /* by sessions, not handled yet */
static TimestampTz next_task = DT_NOBEGIN; /* DT_NOBEGIN: unknown */
static TimestampTz next_pause_end = DT_NOEND;

/* Pauses are known as of this announcement. */
static uint64 pauses_generation = 0;

static TqStmt stmt_due = {
	"SELECT lane_id, available_at, task_id, queue_id, priority::integer"
	"  FROM taskq.task"
	" WHERE wake_at > $1 AND wake_at <= $2 AND state = " TQ_SQL_STATE_PENDING
	" ORDER BY wake_at LIMIT $3",
	{TIMESTAMPTZOID, TIMESTAMPTZOID, INT4OID}};

static TqStmt stmt_next = {"SELECT wake_at FROM taskq.task WHERE wake_at > $1"
						   " ORDER BY wake_at LIMIT 1",
						   {TIMESTAMPTZOID}};

static TqStmt stmt_pauses = {
	"SELECT queue_id, paused_until FROM taskq.queue"
	" WHERE paused_at IS NOT NULL AND paused_until > $1"
	" ORDER BY paused_until",
	{TIMESTAMPTZOID}};

static void        tell_tasks(TimestampTz from, TimestampTz now);
static TimestampTz first_task(TimestampTz now);
static void        tell_pauses(TimestampTz from, TimestampTz now);

/*
 * Called once, when the worker has started: nothing that became due before has
 * been announced.
 */
void
tq_timer_start(void)
{
	told_until = tq_clock_dispatch();
	named = next_pause_end = DT_NOEND;
	next_task = DT_NOBEGIN;
	pauses_generation = 0;
	tq_wake_database();
	tq_notify_flag_raise_all();
}

/* Sessions have reported this time. */
void
tq_timer_told(TimestampTz at)
{
	named = Min(named, at);
}

/* Is any task or pause to be announced now? Also called within a long turn. */
bool
tq_timer_is_due(void)
{
	tq_timer_told(tq_worker_directory_told());
	return Min(tq_timer_next(), named) <= tq_clock_dispatch();
}

/*
 * A duty: announce tasks and pauses that have become due, and find the next
 * due time.
 */
int64
tq_timer_tell(int limit)
{
	TimestampTz now = tq_clock_dispatch();
	TimestampTz from = Min(told_until, named - 1);
	bool        due = Min(next_task, named) <= now;
	uint64      generation = tq_catalog_queue_generation();

	TQ_FAULT_POINT("timer_tell");
	PushActiveSnapshot(GetTransactionSnapshot());
	if (next_task <= now && next_task != DT_NOBEGIN)
		tq_running_timer_fired();
	if (due)
		tell_tasks(from, now);
	next_task = first_task(now);
	if (due || next_pause_end <= now || pauses_generation != generation)
		tell_pauses(from, now);
	pauses_generation = generation; /* the time before the queries */
	PopActiveSnapshot();
	told_until = now;
	named = DT_NOEND;
	return 0; /* nothing to log */
}

/* When the next task or pause must be announced. */
TimestampTz
tq_timer_next(void)
{
	return Min(next_task, next_pause_end);
}

/* Announce tasks that have become due. */
static void
tell_tasks(TimestampTz from, TimestampTz now)
{
	static TqLanePosition places[TELL_AT_ONCE];

	Datum  args[3];
	uint64 rows;
	TqSpi  spi;

	args[0] = TimestampTzGetDatum(from);
	args[1] = TimestampTzGetDatum(now);
	args[2] = Int32GetDatum(TELL_AT_ONCE);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_due, args, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		places[i].lane_id = tq_spi_int8(i, 1, 0);
		places[i].available_at = tq_spi_time(i, 2, DT_NOEND);
		places[i].task_id = tq_spi_int8(i, 3, 0);
		places[i].queue_id = tq_spi_int4(i, 4, 0);
		places[i].priority = (int16) tq_spi_int4(i, 5, 0);
	}
	tq_spi_leave(&spi);
	if (rows >= TELL_AT_ONCE)
	{
		tq_wake_database();
		tq_notify_flag_raise_all();
		return;
	}
	tq_wake_positions(places, (int) rows);
	tq_notify_flag_raise_positions(places, (int) rows);
}

/* When the next task becomes due. */
static TimestampTz
first_task(TimestampTz now)
{
	Datum arg = TimestampTzGetDatum(now);

	return tq_spi_find_time(&stmt_next, &arg, DT_NOEND);
}

/*
 * Announce pauses that have ended, and find the next end.  After an error the
 * known end is kept, so it is announced later.
 */
static void
tell_pauses(TimestampTz from, TimestampTz now)
{
	Datum       arg = TimestampTzGetDatum(from);
	TimestampTz next = DT_NOEND;
	uint64      rows;
	TqSpi       spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_pauses, &arg, NULL, 0);
	for (uint64 i = 0; i < rows && next == DT_NOEND; i++)
	{
		int32 queue_id = tq_spi_int4(i, 1, 0);

		if (tq_spi_time(i, 2, DT_NOEND) > now)
			next = tq_spi_time(i, 2, DT_NOEND);
		else if (queue_id == 0)
		{
			tq_wake_database();
			tq_notify_flag_raise_all();
		}
		else
		{
			tq_wake_queue(queue_id);
			tq_notify_flag_raise(queue_id);
		}
	}
	tq_spi_leave(&spi);
	next_pause_end = next;
}
