/*
 * failure.c
 *		What follows an unsuccessful attempt: another attempt or a final state;
 *		and the errors that are kept.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/pg_prng.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/span.h"
#include "base/spi.h"
#include "cache/task_options.h"
#include "engine/failure.h"
#include "engine/worker.h"
#include "store/large.h"

/* of SQL tasks, in succession */
#define MAX_CRASHES 3

static TqStmt stmt_add_error = {
	"SELECT coalesce((SELECT jsonb_agg(e.entry ORDER BY e.n)"
	"                   FROM jsonb_array_elements($1)"
	"                        WITH ORDINALITY AS e (entry, n)"
	"                  WHERE e.n > jsonb_array_length($1) - 9), '[]')"
	"    || jsonb_build_array(jsonb_strip_nulls(jsonb_build_object("
	"         'attempt', $2, 'at', $3, 'error', $4, 'worker', $6))"
	"       || CASE WHEN $5 IS NULL THEN '{}'"
	"               ELSE jsonb_build_object('detail', $5) END)",
	{JSONBOID, INT4OID, TIMESTAMPTZOID, TEXTOID, JSONBOID, TEXTOID}};

static bool was_executor(const TqTask *task);
static bool crashes_again(TqTask *task);

/* Record an error of the attempt that is ending; the last ten are kept. */
void
tq_failure_add_error(TqTask *task, const char *error, Jsonb *detail,
					 const char *worker)
{
	TqSpi  spi;
	Datum  args[6];
	bool   nulls[6] = {false};
	Jsonb *errors;

	nulls[0] = !tq_large_get(task, TQ_COL_ERRORS, &args[0]);
	args[1] = Int32GetDatum(task->f.attempt);
	args[2] = TimestampTzGetDatum(tq_clock_wall());
	args[3] = CStringGetTextDatum(error);
	nulls[4] = detail == NULL;
	args[4] = nulls[4] ? (Datum) 0 : JsonbPGetDatum(detail);
	nulls[5] = worker == NULL;
	args[5] = nulls[5] ? (Datum) 0 : CStringGetTextDatum(worker);
	if (!nulls[0] && (!JB_ROOT_IS_ARRAY(DatumGetJsonbP(args[0])) ||
					  JB_ROOT_IS_SCALAR(DatumGetJsonbP(args[0]))))
		nulls[0] = true;
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_add_error, args, nulls, SPI_OK_SELECT, 1);
	errors = tq_spi_jsonb(&spi, 0, 1);
	tq_spi_leave(&spi);
	tq_large_put(task, TQ_COL_ERRORS, JsonbPGetDatum(errors));
}

/*
 * Decide what follows a failed attempt: cancelled if that was requested; dead
 * if no attempts are left or the next one would start after the deadline;
 * otherwise another attempt after retry_in, or after the queue's backoff if
 * retry_in is negative.
 */
void
tq_failure_next(const TqQueue *queue, TqTask *task, TqMove *move,
				TqReason last_reason, int64 retry_in)
{
	double           chance = pg_prng_double(&pg_global_prng_state);
	TqOptions        room;
	const TqOptions *options = tq_task_options(queue, task, &room);

	move->wanted = "fail";
	move->end = TQ_END_FAILURE;
	if (last_reason != TQ_REASON_WORKER_DEAD)
		task->f.flags &= ~TQ_FLAG_CRASHES;
	if (tq_failure_stop_asked(task))
	{
		move->to = TQ_STATE_CANCELLED;
		return;
	}
	if (task->f.max_attempts != -1 && task->f.attempt >= task->f.max_attempts)
	{
		move->to = TQ_STATE_DEAD;
		move->reason = last_reason;
		return;
	}
	if (retry_in < 0)
		retry_in =
			tq_backoff_delay(&options->backoff, task->f.attempt, chance);
	move->to = TQ_STATE_PENDING;
	move->due_at = tq_span_after(tq_clock_dispatch(), retry_in);
	if (move->due_at > TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND))
	{
		move->to = TQ_STATE_DEAD;
		move->reason = TQ_REASON_DEADLINE;
	}
}

/*
 * Decide what follows if a task has lost its worker (worker_dead), its lease
 * (lease_expired) or exceeded its time limit (timeout).  The first two follow
 * the option on_worker_death if attempts are left: the task becomes pending at
 * its former position (due immediately, or after a backoff if this happens a
 * second time), suspended, or dead.  A timeout counts as a failure.
 */
void
tq_failure_lost(TqQueue *queue, TqTask *task, TqMove *move, TqReason reason)
{
	static const char *const words[] = {
		[TQ_REASON_WORKER_DEAD] = "the worker died",
		[TQ_REASON_LEASE_EXPIRED] = "the lease expired",
		[TQ_REASON_TIMEOUT] = "the time limit was exceeded"};
	static const TqEnd ends[] = {
		[TQ_REASON_WORKER_DEAD] = TQ_END_WORKER_DEAD,
		[TQ_REASON_LEASE_EXPIRED] = TQ_END_LEASE_EXPIRED,
		[TQ_REASON_TIMEOUT] = TQ_END_TIMEOUT};
	int64            retry_in = 0;
	TqOptions        room;
	const TqOptions *options = tq_task_options(queue, task, &room);

	tq_failure_add_error(task, words[reason], NULL,
						 tq_worker_name(task->f.worker_id));
	if (reason == TQ_REASON_TIMEOUT)
		retry_in = -1;
	else if (reason == TQ_REASON_WORKER_DEAD)
	{
		if (task->f.flags & TQ_FLAG_WORKER_DIED)
			retry_in = -1;
		task->f.flags |= TQ_FLAG_WORKER_DIED;
	}
	tq_failure_next(queue, task, move, reason, retry_in);
	move->end = ends[reason];
	if (reason == TQ_REASON_TIMEOUT || move->to != TQ_STATE_PENDING)
		return;
	if (reason == TQ_REASON_WORKER_DEAD && was_executor(task) &&
		crashes_again(task))
	{
		move->to = TQ_STATE_DEAD;
		move->reason = reason;
		return;
	}
	switch (options->on_death)
	{
		case TQ_ON_DEATH_REQUEUE:
			if (retry_in == 0)
				move->due_at = tq_failure_place(task);
			break;
		case TQ_ON_DEATH_HOLD:
			move->to = TQ_STATE_SUSPENDED;
			move->reason = reason;
			break;
		case TQ_ON_DEATH_KILL:
			move->to = TQ_STATE_DEAD;
			move->reason = reason;
			break;
	}
}

/* Did an executor of SQL tasks run the task? */
static bool
was_executor(const TqTask *task)
{
	char *name;

	if ((task->f.flags & TQ_FLAG_SQL) == 0)
		return false;
	name = tq_worker_name(task->f.worker_id);
	return name != NULL &&
		   strncmp(name, TQ_EXECUTOR_WORKER, strlen(TQ_EXECUTOR_WORKER)) == 0;
}

/*
 * Count a crash.  SQL that crashes its process crashes the server: the third
 * time in succession ends the task, even if it has more attempts.
 */
static bool
crashes_again(TqTask *task)
{
	task->f.flags += TQ_FLAG_CRASH;
	if ((task->f.flags & TQ_FLAG_CRASHES) < MAX_CRASHES * TQ_FLAG_CRASH)
		return false;
	task->f.flags &= ~TQ_FLAG_CRASHES;
	return true;
}

/*
 * Return the due time of a running task that returns to the queue without a
 * failure of its own, so that it keeps its position; 0 means now.
 */
TimestampTz
tq_failure_place(const TqTask *task)
{
	return task->f.available_at <= tq_clock_dispatch() ? task->f.available_at
													   : 0;
}

/* Was the task asked to stop? */
bool
tq_failure_stop_asked(const TqTask *task)
{
	return !task->isnull[TQ_COL_CANCEL_REQUESTED_AT];
}
