/*
 * stop.c
 *		Signals and timers that stop a SQL task.
 *
 * SIGTERM and the end of the time limit cancel the statement, as SIGINT does.
 * A function can catch that error: if the statement has not ended after a
 * grace time, the process is terminated.  A timer that fires each
 * second counts that time, since a signal handler cannot start one.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/timeout.h"

#include "sql_task/stop.h"

#define GRACE 5 /* s */

static TimeoutId limit_timer;
static TimeoutId grace_timer;

static volatile sig_atomic_t stop_requested = false;
static volatile sig_atomic_t time_is_up = false;
static volatile sig_atomic_t ticks = 0; /* since one of them became true */

static void handle_stop(SIGNAL_ARGS);
static void cancel_statement(void);
static void at_limit(void);
static void at_tick(void);

/* Called before signals are unblocked. */
void
tq_stop_init(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, handle_stop);
	pqsignal(SIGINT, SIG_IGN);
}

/* Called when the process has connected. */
void
tq_stop_connected(void)
{
	limit_timer = RegisterTimeout(USER_TIMEOUT, at_limit);
	grace_timer = RegisterTimeout(USER_TIMEOUT, at_tick);
	pqsignal(SIGINT, StatementCancelHandler);
}

/* Shall this process exit? */
bool
tq_stop_requested(void)
{
	return stop_requested;
}

/* A statement begins, which may take that long (microseconds; 0: any time). */
void
tq_stop_arm(int64 time_limit)
{
	time_is_up = false;
	ticks = 0;
	if (time_limit > 0)
		enable_timeout_after(limit_timer,
							 (int) Min((time_limit + 999) / 1000, INT_MAX));
	enable_timeout_every(
		grace_timer, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1000),
		1000);
	if (StatementTimeout > 0)
		enable_timeout_after(STATEMENT_TIMEOUT, StatementTimeout);
	/* SIGTERM may have come between two statements */
	if (stop_requested)
		cancel_statement();
}

void
tq_stop_disarm(void)
{
	disable_timeout(limit_timer, false);
	disable_timeout(grace_timer, false);
	disable_timeout(STATEMENT_TIMEOUT, false);
}

/* Has the last statement exceeded its time limit? */
bool
tq_stop_time_is_up(void)
{
	return time_is_up;
}

/* Ignore a cancel that was meant for an earlier transaction. */
void
tq_stop_cancel_forget(void)
{
	QueryCancelPending = false;
}

/* SIGTERM. */
static void
handle_stop(SIGNAL_ARGS)
{
	int save_errno = errno;

	stop_requested = true;
	cancel_statement();
	errno = save_errno;
}

static void
cancel_statement(void)
{
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
}

static void
at_limit(void)
{
	time_is_up = true;
	cancel_statement();
}

static void
at_tick(void)
{
	if (!stop_requested && !time_is_up)
		return;
	ticks = ticks + 1;
	if (ticks < GRACE)
		return;
	InterruptPending = true;
	ProcDiePending = true;
	SetLatch(MyLatch);
}
