/*
 * wait_step.c
 *		Steps that no worker does: they wait, and end by themselves.
 *
 * When the last parent has ended, what the step is there for may have come
 * already: then it ends immediately.  Else it is suspended, without a reason
 * (one that an operator has suspended has one), and ends in the transaction of
 * what it waits for: a signal (signal.c), an instance (child.c), or its time.
 *
 * Times stand in taskq.timer, and the background worker handles them.  A
 * timer belongs to one suspension of its step, by the moment at which that
 * began; when the step has moved since, it means nothing, and is removed
 * when its time comes.  One that waits for an instance has none but when
 * that could not begin (child.c): then the worker tries again.
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
 * A step waits only for its own event now.  The caller, which suspends it if
 * move says so, calls tq_wait_step_begun afterwards.
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

/* It was suspended: the timer. */
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
 * An instance could not be begun for it: once more, by a duty, soon, or when a
 * quarter of the time has passed again that it has waited.
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

/* The signal that a step waits for has come: its end. */
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

/* Has the signal of a step come?  As of now, whatever the snapshot. */
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

/* {"approved": true}, with whatever else. */
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
 * When its time is up, if it waits from a moment on, 0: never; false, and
 * words: it says nonsense.
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
	*wrong = psprintf(
		"%s: \"%.*s\" is %s", what,
		pg_mbcliplen(word, (int) strlen(word), TQ_MAX_NAME), word,
		wait->at != NULL ? "no point in time"
						 : "no interval from 0 to 10 years, with a unit");
	return false;
}

/* A pattern that has to give a string; false, and words: it does not. */
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
		*wrong = "is no string";
		return false;
	}
	*word = pnstrdup(value.val.string.val, value.val.string.len);
	return true;
}
