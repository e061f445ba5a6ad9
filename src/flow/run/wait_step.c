/*
 * wait_step.c
 *		Steps that no worker does: they wait, and end by themselves.
 *
 * When the last parent has ended, what the step is there for may have come
 * already: then it ends at once.  Else it is suspended, without a reason (one
 * that somebody has put aside has one), and ends in the transaction of what
 * it waits for: a signal (signal.c), an instance (child.c), or its time.
 *
 * Times stand in taskq.timer, and the background worker sees to them.  A
 * timer belongs to one suspension of its step, by the moment at which that
 * began; when the step has gone on meanwhile it means nothing, and is taken
 * away when its time comes.  One that waits for an instance has none but when
 * that could not begin (child.c): then the worker tries again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/spi.h"
#include "engine/key.h"
#include "engine/step.h"
#include "engine/sweep.h"
#include "flow/instance/flow.h"
#include "flow/run/key_preview.h"
#include "flow/run/wait_step.h"
#include "store/large.h"
#include "xact/xact.h"

#define BUSY_PAUSE (200 * INT64CONST(1000)) /* us */
#define LONGEST_PAUSE (10 * USECS_PER_SEC)

static TqStmt stmt_signal = {
	"SELECT payload FROM taskq.signal WHERE workflow_id = $1 AND name = $2",
	2,
	{INT8OID, TEXTOID},
	NULL};

static TqStmt stmt_add = {
	"INSERT INTO taskq.timer (at, task_id, since) VALUES ($1, $2, $3)",
	3,
	{TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_due = {
	"SELECT at, task_id, since FROM taskq.timer WHERE at <= $1"
	" ORDER BY at, task_id LIMIT $2 OFFSET $3",
	3,
	{TIMESTAMPTZOID, INT4OID, INT4OID},
	NULL};

static TqStmt stmt_of_step = {
	"SELECT at FROM taskq.timer WHERE task_id = $1 AND since = $2",
	2,
	{INT8OID, TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_delete = {
	"DELETE FROM taskq.timer WHERE at = $1 AND task_id = $2 AND since = $3",
	3,
	{TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_next = {
	"SELECT at FROM taskq.timer ORDER BY at LIMIT 1", 0, {0}, NULL};

/* One that is due. */
typedef struct Timer
{
	TimestampTz at;
	int64       task_id;
	TimestampTz since;
	bool        tried; /* to begin an instance */
} Timer;

/* When a timer is due, as of the last look; dispatch clock. */
static TimestampTz next_due = DT_NOBEGIN;

/* Where this session is among those that somebody is at. */
static TqSweep sweep;

static bool  find_time(TqFlow *flow, const TqStep *step, TimestampTz from,
					   TimestampTz *at, char **wrong);
static bool  add_span(TimestampTz from, int64 span, TimestampTz *at);
static int64 ring_timers(int limit);
static bool  ring(TqCall *call, void *arg);
static bool  begin_child(TqCall *call, TqFlow *flow, const TqStep *step,
						 TqTask *task, const Timer *timer);
static TimestampTz next_timer(void);

void
tq_passive_init(void)
{
	tq_step_hooks.ring_timers = ring_timers;
	tq_step_hooks.next_timer = next_timer;
}

/*
 * A step has nothing to wait for any more but what it is there for; who
 * suspends it, as move then says, calls tq_passive_begun afterwards.
 */
void
tq_passive_begin(TqFlow *flow, const TqStep *step, TqTask *task, TqMove *move)
{
	TimestampTz at = 0;
	Jsonb      *payload;
	char       *wrong;

	move->due_at = 0;
	move->to = TQ_STATE_SUSPENDED;
	if (tq_passive_takes_signal(step) &&
		tq_passive_signal(flow->workflow_id, step->wait->signal, &payload))
	{
		tq_passive_end(step, task, payload, move);
		return;
	}
	if (!find_time(flow, step, tq_clock_dispatch(), &at, &wrong))
		tq_make_reject(task, move, wrong);
	else if (step->type == TQ_STEP_TIMER && at <= tq_clock_dispatch())
		move->to = TQ_STATE_DONE;
	else
	{
		move->due_at = at;
		task->f.flags |= TQ_FLAG_WAITED;
	}
}

/* It was suspended: the timer. */
void
tq_passive_begun(const TqTask *task, const TqMove *move)
{
	Datum args[3];
	TqSpi spi;

	if (move->due_at == 0)
		return;
	args[0] = TimestampTzGetDatum(move->due_at);
	args[1] = Int64GetDatum(task->f.task_id);
	args[2] = task->value[TQ_COL_SUSPENDED_AT];
	tq_spi_enter(&spi);
	(void) tq_spi_run(&stmt_add, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_leave(&spi);
	tq_xact_due(move->due_at);
}

/*
 * An instance could not be begun for it: once more, by a duty, soon, or when a
 * quarter of the time has passed again that it has waited.
 */
void
tq_passive_again(const TqTask *task)
{
	TimestampTz now = tq_clock_dispatch();
	int64       waited = now - TQ_TASK_TIME(task, TQ_COL_SUSPENDED_AT, now);
	TqMove      move = {0};

	move.due_at = now + Min(Max(waited / 4, BUSY_PAUSE), LONGEST_PAUSE);
	tq_passive_begun(task, &move);
}

/* Does one that waits for an instance try again to begin it? */
bool
tq_passive_is_put_off(const TqTask *task)
{
	return tq_passive_until(task->f.task_id,
							TQ_TASK_TIME(task, TQ_COL_SUSPENDED_AT, 0)) != 0;
}

/* The signal that a step waits for has come: its end. */
void
tq_passive_end(const TqStep *step, TqTask *task, Jsonb *payload, TqMove *move)
{
	if (step->type == TQ_STEP_APPROVAL && !tq_passive_approves(payload))
	{
		tq_make_reject(task, move, "it was not approved");
		return;
	}
	move->to = TQ_STATE_DONE;
	if (payload != NULL)
		tq_large_put(task, TQ_COL_RESULT, JsonbPGetDatum(payload));
}

/* Does an instance have this signal?  As of now, whatever the snapshot. */
bool
tq_passive_signal(int64 workflow_id, const char *name, Jsonb **payload)
{
	Datum args[2] = {Int64GetDatum(workflow_id), CStringGetTextDatum(name)};
	bool  found;
	TqSpi spi;

	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_signal, args, NULL, 1) > 0;
	if (found)
		*payload = tq_spi_jsonb(&spi, 0, 1);
	tq_spi_leave(&spi);
	return found;
}

/* {"approved": true}, with whatever else. */
bool
tq_passive_approves(Jsonb *payload)
{
	JsonbValue value;

	return payload != NULL && JB_ROOT_IS_OBJECT(payload) &&
		   getKeyJsonValueFromContainer(&payload->root, "approved", 8,
										&value) != NULL &&
		   value.type == jbvBool && value.val.boolean;
}

/* Has it been suspended to wait, and not been put aside? */
bool
tq_passive_waits(const TqTask *task)
{
	return task->f.state == TQ_STATE_SUSPENDED &&
		   task->f.reason == TQ_REASON_NONE;
}

/*
 * When the time of a step is up that has been waiting since a moment, or when
 * it tries again to begin its instance; 0: never.
 */
TimestampTz
tq_passive_until(int64 task_id, TimestampTz since)
{
	Datum       args[2] = {Int64GetDatum(task_id), TimestampTzGetDatum(since)};
	TimestampTz at = 0;
	TqSpi       spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_of_step, args, NULL, 1) > 0)
		at = tq_spi_time(0, 1, 0);
	tq_spi_leave(&spi);
	return at;
}

/*
 * When its time is up, if it waits from a moment on, 0: never; false, and
 * words: it says nonsense.
 */
static bool
find_time(TqFlow *flow, const TqStep *step, TimestampTz from, TimestampTz *at,
		  char **wrong)
{
	const TqPassive *wait = step->wait;
	const char      *what = wait->at != NULL              ? "at"
							: step->type == TQ_STEP_TIMER ? "after"
														  : "timeout";
	char            *word;
	int64            span;

	*at = 0;
	if (wait->at == NULL && wait->after == NULL)
		return true;
	if (!tq_passive_word(flow, step, wait->at != NULL ? wait->at : wait->after,
						 &word, wrong))
	{
		*wrong = psprintf("%s: %s", what, *wrong);
		return false;
	}
	if (wait->at != NULL && tq_value_time(word, at))
		return true;
	if (wait->at == NULL && tq_value_span(word, &span) &&
		add_span(Max(from, flow->run_at), span, at))
		return true;
	*wrong = psprintf(
		"%s: \"%.*s\" is %s", what,
		pg_mbcliplen(word, (int) strlen(word), TQ_MAX_NAME), word,
		wait->at != NULL ? "no point in time"
						 : "no interval from 0 to 10 years, with a unit");
	return false;
}

static bool
add_span(TimestampTz from, int64 span, TimestampTz *at)
{
	return !pg_add_s64_overflow(from, span, at) && IS_VALID_TIMESTAMP(*at);
}

/* A pattern that has to give a string; false, and words: it does not. */
bool
tq_passive_word(TqFlow *flow, const TqStep *step, Jsonb *pattern, char **word,
				char **wrong)
{
	JsonbValue value;

	if (!tq_make_fill(flow, step, pattern, &pattern, wrong))
		return false;
	if (!JB_ROOT_IS_SCALAR(pattern) ||
		!JsonbExtractScalar(&pattern->root, &value) || value.type != jbvString)
	{
		*wrong = "is no string";
		return false;
	}
	*word = pnstrdup(value.val.string.val, value.val.string.len);
	return true;
}

/* A duty: steps whose time is up. */
static int64
ring_timers(int limit)
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

		if (!tq_step_alone(ring, &timer, &busy))
		{
			left++;
			continue;
		}
		args[0] = TimestampTzGetDatum(ats[i]);
		args[1] = Int64GetDatum(ids[i]);
		args[2] = TimestampTzGetDatum(since[i]);
		tq_spi_enter(&spi);
		(void) tq_spi_run(&stmt_delete, args, NULL, SPI_OK_DELETE, 0);
		tq_spi_leave(&spi);
		acted++;
		/* who waits for one of two instances could have begun the other */
		if (timer.tried)
		{
			full = true;
			break;
		}
	}
	tq_call_snapshot();
	tq_spi_enter(&spi);
	next_due = tq_spi_look(&stmt_next, NULL, NULL, 1) > 0
				   ? tq_spi_time(0, 1, DT_NOEND)
				   : DT_NOEND;
	tq_spi_leave(&spi);
	tq_call_end(&call);
	if (tq_sweep_on(&sweep, full, left, left > 0))
		next_due = Max(next_due, now + BUSY_PAUSE);
	return acted;
}

static TimestampTz
next_timer(void)
{
	return next_due;
}

/* False: somebody is at its row. */
static bool
ring(TqCall *call, void *arg)
{
	Timer        *timer = arg;
	const TqStep *step;
	TqMove        move = {0};
	TqFlow        flow;
	TqTask        task;
	TqQueue      *queue;

	tq_call_snapshot();
	if (!tq_row_find(call, timer->task_id, &task) || !tq_step_is(&task) ||
		!tq_passive_waits(&task) ||
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
	move.wanted = "ended by its timer";
	move.to = TQ_STATE_DONE;
	if (step->type != TQ_STEP_TIMER && !step->wait->completes)
	{
		tq_make_reject(&task, &move,
					   psprintf("signal \"%s\" has not come in time",
								step->wait->signal));
		move.reason = TQ_REASON_TIMEOUT;
	}
	return tq_state_enter(call, queue, &task, &move);
}

/*
 * If it could not be begun before; beside nobody who moves the step, nor
 * another one who does this.  False: somebody has changed the step.
 */
static bool
begin_child(TqCall *call, TqFlow *flow, const TqStep *step, TqTask *task,
			const Timer *timer)
{
	int64 version = task->f.version;

	(void) tq_gate_pass(call, flow, step, TQ_GATE_END);
	tq_ahead_note_inside(call, step);
	tq_key_lock_names(call, NULL, 0);
	if (!tq_row_lock(call, task, false) || task->f.version != version)
		return false;
	if (tq_passive_until(timer->task_id, timer->since) == timer->at)
		tq_child_begin(call, flow, task->f.task_id);
	return true;
}
