/*
 * wake_turn.c
 *		Wake-ups of waiting and listening sessions by the background worker.
 *
 * Timers (timer.c) wake sessions that wait, NOTIFY (notify.c) sessions that
 * listen.  A long turn must not delay them, so both run between any two
 * batches of duties.  A failure of a duty, or of one of the two, must not
 * delay the other either: each has its own pause after an error.  Until the
 * pause has ended it does not run, however often the worker is woken; events
 * that were not announced are announced afterwards.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/clock.h"
#include "maintenance/batch_run.h"
#include "maintenance/notify.h"
#include "maintenance/timer.h"
#include "maintenance/wake_turn.h"

typedef struct Teller
{
	const char *what;
	TqDuty      tell;
	int64       pause; /* after the next error */
	TimestampTz again; /* end of the pause after an error; dispatch clock */
} Teller;

static Teller timers = {"timers", tq_timer_tell};
static Teller notify = {"notify", tq_notify_send};

/* When there is more to NOTIFY. */
static TimestampTz next_notify = DT_NOEND;

static void reset(Teller *teller);
static bool may_try(const Teller *teller);
static bool try_to_tell(Teller *teller);

/* Called once, when the worker has started. */
void
tq_wake_turn_start(void)
{
	tq_timer_start();
	tq_notify_start();
	reset(&timers);
	reset(&notify);
	next_notify = DT_NOEND;
}

/*
 * A turn begins; sessions have reported this time.  Timers run in any case,
 * since pauses may have changed.
 */
void
tq_wake_turn_run(TimestampTz told)
{
	tq_timer_told(told);
	if (may_try(&timers))
		(void) try_to_tell(&timers);
}

/* Announce what is due now.  Also called within a long turn. */
void
tq_wake_turn_tend(void)
{
	if (may_try(&timers) && tq_timer_is_due())
		(void) try_to_tell(&timers);
	if (may_try(&notify))
		next_notify =
			tq_notify_sent(!tq_notify_is_due() || try_to_tell(&notify));
}

/* When there will be something to announce. */
TimestampTz
tq_wake_turn_next(void)
{
	return Min(may_try(&timers) ? tq_timer_next() : timers.again,
			   may_try(&notify) ? next_notify : notify.again);
}

static void
reset(Teller *teller)
{
	teller->pause = TQ_ATTEMPT_PAUSE_FIRST;
	teller->again = DT_NOBEGIN;
}

static bool
may_try(const Teller *teller)
{
	return teller->again <= tq_clock_dispatch();
}

/* Returns false after an error, which begins a pause. */
static bool
try_to_tell(Teller *teller)
{
	int64 acted;

	if (tq_batch_run(teller->what, teller->tell, 1, &acted))
	{
		reset(teller);
		return true;
	}
	teller->again = tq_clock_dispatch() + teller->pause;
	teller->pause = Min(teller->pause * 2, TQ_ATTEMPT_PAUSE_LAST);
	return false;
}
