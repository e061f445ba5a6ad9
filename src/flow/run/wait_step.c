/*
 * wait_step.c
 *		Steps without a worker: they wait, and end by themselves.
 *
 * When the last parent has ended, the event for which the step waits may have
 * happened already; then the step ends immediately.  Otherwise the step is
 * suspended without a reason (a step that an operator has suspended has a
 * reason), and ends in the transaction of its event: a signal (signal.c), the
 * end of an instance (child.c), or its time.
 *
 * Times are stored in taskq.timer and handled by the background worker.  A
 * timer belongs to one suspension of its step, identified by the time at which
 * that began.  If the step has moved since, the timer has no effect and is
 * removed when it is due.  A step that waits for an instance has a timer only
 * if the instance could not be started (child_start.c); the background worker
 * then tries again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/span.h"
#include "base/spi.h"
#include "flow/definition/value.h"
#include "flow/instance/flow_types.h"
#include "flow/run/step_fill.h"
#include "flow/run/wait_step.h"
#include "store/large.h"
#include "xact/xact.h"

#define LONGEST_PAUSE (10 * USECS_PER_SEC)

static TqStmt stmt_signal = {
	"SELECT payload FROM taskq.signal WHERE workflow_id = $1 AND step_id = $2",
	{INT8OID, INT4OID}};

static TqStmt stmt_add = {
	"INSERT INTO taskq.timer (at, task_id, since) VALUES ($1, $2, $3)",
	{TIMESTAMPTZOID, INT8OID, TIMESTAMPTZOID}};

static bool take_signal(int64 workflow_id, int place, Jsonb **payload);
static bool approves(Jsonb *payload);
static bool find_time(TqFlow *flow, const TqStep *step, TimestampTz from,
					  TimestampTz *at, char **wrong);

/*
 * A step now waits only for its own event.  If move says so, the caller
 * suspends it and afterwards calls tq_wait_step_begun.
 */
void
tq_wait_step_begin(TqFlow *flow, const TqStep *step, TqTask *task,
				   TqMove *move)
{
	TimestampTz at = 0;
	Jsonb      *payload;
	char       *wrong;

	move->due_at = 0;
	move->to = TQ_STATE_SUSPENDED;
	if (tq_passive_takes_signal(step) &&
		take_signal(flow->workflow_id, (int) (step - flow->template->steps),
					&payload))
	{
		tq_wait_step_end(step, task, payload, move);
		return;
	}
	if (!find_time(flow, step, tq_clock_dispatch(), &at, &wrong))
		tq_step_fill_reject(task, move, wrong);
	else if (step->type == TQ_STEP_TIMER && at <= tq_clock_dispatch())
		move->to = TQ_STATE_DONE;
	else
	{
		move->due_at = at;
		task->f.flags |= TQ_FLAG_WAITED;
	}
}

/* Add the timer of a step that was suspended. */
void
tq_wait_step_begun(const TqTask *task, const TqMove *move)
{
	Datum args[3];

	if (move->due_at == 0)
		return;
	args[0] = TimestampTzGetDatum(move->due_at);
	args[1] = Int64GetDatum(task->f.task_id);
	args[2] = task->value[TQ_COL_SUSPENDED_AT];
	tq_spi_execute(&stmt_add, args, NULL, SPI_OK_INSERT);
	tq_xact_due(move->due_at);
}

/*
 * The child instance of a step could not be started: let the duty try again,
 * soon at first, later after a quarter of the time that the step has waited.
 */
void
tq_wait_step_again(const TqTask *task)
{
	TimestampTz now = tq_clock_dispatch();
	int64       waited = now - TQ_TASK_TIME(task, TQ_COL_SUSPENDED_AT, now);
	TqMove      move = {0};

	move.due_at = now +
				  Min(Max(waited / 4, TQ_WAIT_STEP_BUSY_PAUSE), LONGEST_PAUSE);
	tq_wait_step_begun(task, &move);
}

/* End a step whose signal has arrived. */
void
tq_wait_step_end(const TqStep *step, TqTask *task, Jsonb *payload,
				 TqMove *move)
{
	if (step->type == TQ_STEP_APPROVAL && !approves(payload))
	{
		tq_step_fill_reject(task, move, "it was not approved");
		return;
	}
	move->to = TQ_STATE_DONE;
	if (payload != NULL)
		tq_large_put(task, TQ_COL_RESULT, JsonbPGetDatum(payload));
}

/*
 * Has the signal of a step arrived?  Sees the current state, regardless of the
 * snapshot.
 */
static bool
take_signal(int64 workflow_id, int place, Jsonb **payload)
{
	Datum args[2] = {Int64GetDatum(workflow_id), Int32GetDatum(place)};
	bool  found;
	TqSpi spi;

	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_signal, args, NULL, 1) > 0;
	if (found)
		*payload = tq_spi_jsonb(&spi, 0, 1);
	tq_spi_leave(&spi);
	return found;
}

/* Is it {"approved": true}, with any other members? */
static bool
approves(Jsonb *payload)
{
	JsonbValue value;

	return payload != NULL && JB_ROOT_IS_OBJECT(payload) &&
		   getKeyJsonValueFromContainer(&payload->root, "approved", 8,
										&value) != NULL &&
		   value.type == jbvBool && value.val.boolean;
}

/*
 * Sets *at to the time at which the wait of a step times out, if it begins at
 * from; 0 if it never times out.  Returns false and sets *wrong if the
 * definition gives no valid time.
 */
static bool
find_time(TqFlow *flow, const TqStep *step, TimestampTz from, TimestampTz *at,
		  char **wrong)
{
	const TqWaitDefinition *wait = step->wait;
	const char             *what = wait->at != NULL              ? "at"
								   : step->type == TQ_STEP_TIMER ? "after"
																 : "timeout";
	char                   *word;
	int64                   span;

	*at = 0;
	if (wait->at == NULL && wait->after == NULL)
		return true;
	if (!tq_wait_step_word(flow, step,
						   wait->at != NULL ? wait->at : wait->after, &word,
						   wrong))
	{
		*wrong = psprintf("%s: %s", what, *wrong);
		return false;
	}
	if (wait->at != NULL && tq_value_time(word, at))
		return true;
	if (wait->at == NULL && tq_value_span(word, &span))
	{
		*at = tq_span_after(Max(from, flow->start.run_at), span);
		return true;
	}
	/* the value may come from contents, which errors must not quote */
	*wrong = psprintf("%s: is not %s", what,
					  wait->at != NULL
						  ? "a point in time"
						  : "an interval from 0 to 10 years with a unit");
	return false;
}

/*
 * Fill a pattern that must give a string.  Returns false and sets *wrong if it
 * does not.
 */
bool
tq_wait_step_word(TqFlow *flow, const TqStep *step, Jsonb *pattern,
				  char **word, char **wrong)
{
	JsonbValue value;

	if (!tq_step_fill(flow, step, pattern, &pattern, wrong))
		return false;
	if (!JB_ROOT_IS_SCALAR(pattern) ||
		!JsonbExtractScalar(&pattern->root, &value) || value.type != jbvString)
	{
		*wrong = "is not a string";
		return false;
	}
	*word = pnstrdup(value.val.string.val, value.val.string.len);
	return true;
}
