/*
 * step_timer.c
 *		A duty of the background worker: processes due timers of steps.
 *
 * The background worker reads due rows of taskq.timer in batches.  Each step
 * is moved in its own savepoint (tq_step_savepoint_run), so that neither an
 * open transaction nor an error in one workflow delays the other workflows.  A
 * step whose row another transaction has locked is skipped (engine/sweep.h).
 * If the step no longer waits for the timer, the timer is only deleted.
 *
 * A step of type workflow has a timer, too, if its instance could not be
 * started (child_start.c).  For such a timer the duty tries to start the
 * instance.  It takes the instance lock, then locks the keys of the child,
 * then the row of the step.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/clock.h"
#include "base/spi.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/state.h"
#include "engine/step.h"
#include "engine/step_savepoint.h"
#include "engine/sweep.h"
#include "flow/instance/flow.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/child_start.h"
#include "flow/run/instance_lock.h"
#include "flow/run/key_preview.h"
#include "flow/run/step_fill.h"
#include "flow/run/step_timer.h"
#include "flow/run/wait_step.h"
#include "store/row.h"
#include "store/snapshot.h"

static TqStmt stmt_due = {
	"SELECT at, task_id, since FROM taskq.timer WHERE at <= $1"
	" ORDER BY at, task_id LIMIT $2 OFFSET $3",
	{TIMESTAMPTZOID, INT4OID, INT4OID}};

static TqStmt stmt_delete = {
	"DELETE FROM taskq.timer WHERE at = $1 AND task_id = $2 AND since = $3",
	{TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID}};

static TqStmt stmt_next = {"SELECT at FROM taskq.timer ORDER BY at LIMIT 1"};

/* A due timer. */
typedef struct Timer
{
	TimestampTz at;
	int64       task_id;
	TimestampTz since;
	bool        tried; /* tried to start an instance */
} Timer;

/* When the next timer is due, as of the last scan, on the dispatch clock. */
static TimestampTz next_due = DT_NOBEGIN;

/* How many locked timers this session skips at the next scan. */
static TqSweep sweep;

static bool ring(TqCall *call, void *arg);
static bool begin_child(TqCall *call, TqFlow *flow, const TqStep *step,
						TqTask *task, const Timer *timer);

/* Process a batch.  Returns the number of timers processed. */
int64
tq_step_timer_run(int limit)
{
	TimestampTz  now = tq_clock_dispatch();
	Datum        args[3] = {TimestampTzGetDatum(now), Int32GetDatum(limit),
							Int32GetDatum(sweep.passed)};
	TimestampTz *ats;
	TimestampTz *since;
	int64       *ids;
	uint64       rows;
	bool         full;
	int          left = 0;
	int64        acted = 0;
	TqCall       call;
	TqSpi        spi;

	tq_call_begin(&call, "taskq duties");
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_due, args, NULL, 0);
	ats = tq_spi_ids(&spi, rows, 1);
	ids = tq_spi_ids(&spi, rows, 2);
	since = tq_spi_ids(&spi, rows, 3);
	tq_spi_leave(&spi);
	full = rows >= (uint64) limit;
	for (uint64 i = 0; i < rows; i++)
	{
		Timer timer = {ats[i], ids[i], since[i]};
		bool  busy;

		if (!tq_step_savepoint_run(ring, &timer, &busy))
		{
			left++;
			continue;
		}
		args[0] = TimestampTzGetDatum(ats[i]);
		args[1] = Int64GetDatum(ids[i]);
		args[2] = TimestampTzGetDatum(since[i]);
		tq_spi_execute(&stmt_delete, args, NULL, SPI_OK_DELETE);
		acted++;
		/* commit a started instance before waiting for another step's locks */
		if (timer.tried)
		{
			full = true;
			break;
		}
	}
	tq_snapshot_renew();
	next_due = tq_spi_find_time(&stmt_next, NULL, DT_NOEND);
	tq_call_end(&call);
	if (tq_sweep_on(&sweep, full, left, left > 0))
		next_due = Max(next_due, now + TQ_WAIT_STEP_BUSY_PAUSE);
	return acted;
}

/* When the duty must run again, on the dispatch clock. */
TimestampTz
tq_step_timer_next(void)
{
	return next_due;
}

/* Process a timer.  Returns false if the row of its step is locked. */
static bool
ring(TqCall *call, void *arg)
{
	Timer        *timer = arg;
	const TqStep *step;
	TqMove        move = {0};
	TqFlow        flow;
	TqTask        task;
	TqQueue      *queue;

	tq_snapshot_renew();
	if (!tq_row_find(call, timer->task_id, &task) || !tq_step_is(&task) ||
		!tq_waiting_step_is(&task) ||
		TQ_TASK_TIME(&task, TQ_COL_SUSPENDED_AT, 0) != timer->since ||
		(queue = tq_queue_by_id(task.f.queue_id)) == NULL ||
		(step = tq_flow_step_of(&task, &flow)) == NULL || step->wait == NULL)
		return true;
	if (step->type == TQ_STEP_WORKFLOW)
	{
		timer->tried = begin_child(call, &flow, step, &task, timer);
		return timer->tried;
	}
	move.no_wait = true;
	move.wanted = "time out";
	move.to = TQ_STATE_DONE;
	if (step->type != TQ_STEP_TIMER && !step->wait->completes)
	{
		tq_step_fill_reject(&task, &move,
							psprintf("signal \"%s\" did not arrive in time",
									 step->wait->signal));
		move.reason = TQ_REASON_TIMEOUT;
	}
	return tq_state_enter(call, queue, &task, &move);
}

/*
 * Start the instance that could not be started before.  The locks keep other
 * transactions from moving the step or starting its instance.  Returns false
 * if another transaction has changed the step.
 */
static bool
begin_child(TqCall *call, TqFlow *flow, const TqStep *step, TqTask *task,
			const Timer *timer)
{
	int64 version = task->f.version;

	(void) tq_instance_lock_acquire(call, flow, step, TQ_FLOW_LOCK_END);
	tq_key_preview_note_inside(call, step);
	tq_key_lock_names(call, NULL, 0);
	if (!tq_row_lock(call, task, false) || task->f.version != version)
		return false;
	if (tq_waiting_step_until(timer->task_id, timer->since) == timer->at)
		tq_child_begin(call, flow, task->f.task_id);
	return true;
}
