/*
 * explain.c
 *		taskq_explain: why a task does not run, or where it runs.
 *
 * It reports the first reason that applies, in this order:
 *
 * 1. The task is finished: its outcome.
 * 2. It is running: its lease or time limit has expired, its worker is gone,
 *    it was asked to stop, its worker is silent; otherwise, its holder.
 * 3. It is suspended or blocked; for a step of a workflow, the layer above
 *    reports what it waits for.
 * 4. It is pending.  First come reasons that apply to every claim: an open
 *    transaction changes it; its deadline has passed; all queues, or its
 *    queue, are paused; it is not due; limits.  Then come reasons that depend
 *    on registered workers (explain_workers.c): those that could claim it are
 *    dead, there are none, none has its tags, or all are silent, draining, or
 *    full.  These come last because claims by unregistered workers are not
 *    tracked.  Otherwise it waits its turn.
 *
 * If background processing is off (not preloaded, a copy, no background
 * worker), this is added to every reason that background processing would
 * resolve.
 *
 * The cost is some index lookups, one row for each active worker, and at most
 * 10000 entries of the queue's lanes, or for a step of a workflow the rows of
 * all steps of the instance.  It never reads the whole queue, and works
 * without shared memory and on a standby.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/span.h"
#include "base/spi.h"
#include "cache/role.h"
#include "cache/task_options.h"
#include "diag/explain_facts.h"
#include "diag/explain_past.h"
#include "diag/explain_text.h"
#include "diag/explain_workers.h"
#include "engine/call.h"
#include "engine/step.h"
#include "shared/waiter.h"
#include "store/archive.h"
#include "store/tuple_lock.h"

PG_FUNCTION_INFO_V1(taskq_explain);

/*
 * Find the holder of the key under policy $3 (TqKeyPolicy), or else the first
 * pending or running tasks in its key queue.
 */
static TqStmt stmt_in_line = {
	"WITH holding AS ("
	" (SELECT a.task_id, a.state FROM taskq.archive_keep a"
	"   WHERE $3 >= 2 AND a.queue_id = $1 AND a.key = $2"
	"     AND a.state = " TQ_SQL_STATE_DEAD
	"     AND a.reason <> " TQ_SQL_REASON_POISON
	"   ORDER BY a.task_id LIMIT 1)"
	" UNION ALL"
	" (SELECT t.task_id, t.state FROM taskq.task t"
	"   WHERE t.suspended_at IS NOT NULL AND t.queue_id = $1 AND t.key = $2"
	"     AND ($3 = 3"
	"          OR ($3 = 2 AND t.reason = " TQ_SQL_REASON_WORKER_DEAD "))"
	"   ORDER BY t.task_id LIMIT 1)),"
	" opened AS ("
	"  SELECT f.task_id, f.state FROM"
	"   ((SELECT t.task_id, t.state FROM taskq.task t"
	"      WHERE t.queue_id = $1 AND t.key = $2"
	"      ORDER BY t.task_id LIMIT 500)"
	"     UNION"
	"    (SELECT t.task_id, t.state FROM taskq.task t"
	"      WHERE t.queue_id = $1 AND t.key = $2"
	"      ORDER BY t.task_id DESC LIMIT 500)) f"
	"   WHERE f.state IN (" TQ_SQL_STATE_PENDING ", " TQ_SQL_STATE_RUNNING ")"
	"   ORDER BY f.task_id LIMIT 3)"
	"SELECT h.task_id, h.state::integer, true FROM holding h"
	" UNION ALL"
	" SELECT o.task_id, o.state::integer, false FROM opened o"
	"  WHERE NOT EXISTS (SELECT FROM holding)"
	" ORDER BY 1",
	{INT4OID, TEXTOID, INT4OID}};

static TqQueue *find_task(TqExplain *e, int64 task_id, TqTask *task);
static void     explain_done(TqExplain *e, TqTask *task);
static void     explain_dead(TqExplain *e, TqTask *task);
static void     explain_otherwise_finished(TqExplain *e, TqTask *task);
static void explain_running(TqExplain *e, const TqQueue *queue, TqTask *task);
static bool explain_lost(TqExplain *e, const TqTask *task,
						 const TqExplainHolder *holder,
						 TimestampTz            time_until);
static void explain_held(TqExplain *e, const TqTask *task,
						 const TqExplainHolder *holder,
						 TimestampTz            time_until);
static void explain_suspended(TqExplain *e, TqTask *task);
static void explain_blocked(TqExplain *e, const TqQueue *queue,
							const TqTask *task);
static void say_in_line(TqExplain *e, const TqQueue *queue,
						const TqTask *task);
static void explain_pending(TqExplain *e, const TqQueue *queue, TqTask *task);
static void say_attempt(TqExplain *e, const TqTask *task);
static void say_retry(TqExplain *e, const TqTask *task, const char *also);
static void say_deadline(TqExplain *e, const TqTask *task);

Datum
taskq_explain(PG_FUNCTION_ARGS)
{
	int64     task_id = tq_arg_int8(fcinfo, 0, "task_id");
	TqExplain e = {{0}};
	TqTask    task;
	TqQueue  *queue;

	tq_call_begin_look(&e.call);
	queue = find_task(&e, task_id, &task);
	initStringInfo(&e.text);
	appendStringInfo(&e.text, "Task " INT64_FORMAT " of queue \"%s\"", task_id,
					 queue->name);
	tq_explain_which(&e, &task);
	switch ((TqState) task.f.state)
	{
		case TQ_STATE_DONE:
			explain_done(&e, &task);
			break;
		case TQ_STATE_DEAD:
			explain_dead(&e, &task);
			break;
		case TQ_STATE_CANCELLED:
		case TQ_STATE_FILTERED:
		case TQ_STATE_REDUNDANT:
		case TQ_STATE_RECREATED:
			explain_otherwise_finished(&e, &task);
			break;
		case TQ_STATE_RUNNING:
			explain_running(&e, queue, &task);
			break;
		case TQ_STATE_SUSPENDED:
			explain_suspended(&e, &task);
			break;
		case TQ_STATE_BLOCKED:
			explain_blocked(&e, queue, &task);
			break;
		case TQ_STATE_PENDING:
			explain_pending(&e, queue, &task);
			break;
	}
	tq_call_end(&e.call);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(e.text.data, e.text.len));
}

/*
 * Find the task, and whether its messages may be shown.  Raises TQ002 if there
 * is none, with the same message for a role without any right on its queue;
 * 42501 for a role that has some right, but not read.  If the task moves
 * between the two tables while they are read, the second look-up finds it.
 */
static TqQueue *
find_task(TqExplain *e, int64 task_id, TqTask *task)
{
	TqQueue *queue;
	int      rights;

	queue = tq_archive_find_any(&e->call, task_id, task)
				? tq_queue_by_id(task->f.queue_id)
				: NULL;
	if (queue == NULL)
		tq_error_no_such_task(task_id);
	rights = tq_role_rights(queue);
	e->words = (rights & TQ_RIGHT_OBSERVE) != 0;
	e->names = true;
	if (!e->words && !tq_role_is_monitor())
	{
		if (rights == 0)
			tq_error_no_such_task(task_id);
		tq_error_task_right(task_id, TQ_RIGHT_OBSERVE);
	}
	return queue;
}

static void
explain_done(TqExplain *e, TqTask *task)
{
	TqExplainHolder holder;
	TqExplainChange change;

	tq_explain_because(TQ_WHY_DONE);
	tq_explain_read_holder(task, &holder);
	tq_explain_read_change(task, &change);
	appendStringInfo(
		&e->text, "has been done since %s",
		tq_explain_time(TQ_TASK_TIME(task, TQ_COL_FINISHED_AT, 0)));
	if (holder.name != NULL)
	{
		appendStringInfoString(&e->text, ", completed by ");
		tq_explain_whom(e, &holder);
	}
	tq_explain_role(e, &change);
	if (task->f.reason != TQ_REASON_NONE)
	{
		appendStringInfo(&e->text, " (%s)",
						 tq_reason_name((TqReason) task->f.reason));
		tq_explain_words(e, ", with message ",
						 change.known ? change.message
									  : tq_explain_message(task));
	}
	appendStringInfoString(&e->text, ", after ");
	say_attempt(e, task);
	appendStringInfoChar(&e->text, '.');
	say_retry(e, task, " runs it again.");
}

static void
explain_dead(TqExplain *e, TqTask *task)
{
	StringInfo  text = &e->text;
	TqWhy       why = TQ_WHY_DEAD_OTHERWISE;
	const char *ending = "";
	bool        never_begun = tq_step_is(task) && task->f.token == 0;

	switch ((TqReason) task->f.reason)
	{
		case TQ_REASON_EXHAUSTED:
			why = TQ_WHY_DEAD_EXHAUSTED;
			ending = " failed, and no attempts are left";
			break;
		case TQ_REASON_REJECTED:
			why = TQ_WHY_DEAD_REJECTED;
			ending = " failed with an error that is not retried";
			break;
		case TQ_REASON_DEADLINE:
			why = TQ_WHY_DEAD_DEADLINE;
			ending = " when its deadline passed at ";
			break;
		case TQ_REASON_WORKER_DEAD:
			why = TQ_WHY_DEAD_WORKER;
			ending = " ended because its worker died";
			break;
		case TQ_REASON_LEASE_EXPIRED:
			why = TQ_WHY_DEAD_LEASE;
			ending = " ended because its lease expired";
			break;
		case TQ_REASON_TIMEOUT:
			why = TQ_WHY_DEAD_TIMEOUT;
			ending = " exceeded its time_limit";
			break;
		default:
			break;
	}
	tq_explain_because(why);
	appendStringInfo(
		text, "has been dead since %s (%s): ",
		tq_explain_time(TQ_TASK_TIME(task, TQ_COL_FINISHED_AT, 0)),
		task->f.reason == TQ_REASON_NONE
			? "no reason recorded"
			: tq_reason_name((TqReason) task->f.reason));
	if (never_begun)
		appendStringInfoString(text, "it was never claimed");
	else
	{
		if (why == TQ_WHY_DEAD_OTHERWISE || why == TQ_WHY_DEAD_DEADLINE)
			appendStringInfoString(text, "it was at ");
		say_attempt(e, task);
		appendStringInfoString(text, ending);
	}
	if (why == TQ_WHY_DEAD_DEADLINE)
		appendStringInfoString(
			text, tq_explain_time(TQ_TASK_TIME(task, TQ_COL_DEADLINE, 0)));
	else if (why == TQ_WHY_DEAD_OTHERWISE)
		tq_explain_words(e, ", with message ", tq_explain_message(task));
	tq_explain_words(e, "; its last error: ", tq_explain_error(task));
	appendStringInfoChar(text, '.');
	say_retry(e, task, " runs it again, with all its attempts.");
}

/* Cancelled, filtered, redundant or recreated. */
static void
explain_otherwise_finished(TqExplain *e, TqTask *task)
{
	StringInfo      text = &e->text;
	TqExplainHolder holder;
	TqExplainChange change;

	tq_explain_read_holder(task, &holder);
	tq_explain_read_change(task, &change);
	appendStringInfo(
		text, "has been %s since %s", tq_state_name((TqState) task->f.state),
		tq_explain_time(TQ_TASK_TIME(task, TQ_COL_FINISHED_AT, 0)));
	if (task->f.state == TQ_STATE_FILTERED && holder.name != NULL)
	{
		appendStringInfoString(text, ", by ");
		tq_explain_whom(e, &holder);
	}
	tq_explain_role(e, &change);
	if (task->f.reason != TQ_REASON_NONE && task->f.reason != TQ_REASON_MANUAL)
		appendStringInfo(text, " (%s)",
						 tq_reason_name((TqReason) task->f.reason));
	tq_explain_words(e, ", with message ",
					 change.known ? change.message : tq_explain_message(task));
	switch ((TqState) task->f.state)
	{
		case TQ_STATE_REDUNDANT:
			tq_explain_because(TQ_WHY_REDUNDANT);
			appendStringInfoString(
				text, ": a newer task of its key takes its place.");
			return;
		case TQ_STATE_RECREATED:
			tq_explain_because(TQ_WHY_RECREATED);
			if (!task->isnull[TQ_COL_RECREATED_AS])
				appendStringInfo(
					text, ": it runs again as task " INT64_FORMAT,
					DatumGetInt64(task->value[TQ_COL_RECREATED_AS]));
			appendStringInfoChar(text, '.');
			return;
		case TQ_STATE_FILTERED:
			tq_explain_because(TQ_WHY_FILTERED);
			break;
		default:
			tq_explain_because(TQ_WHY_CANCELLED);
			break;
	}
	appendStringInfoChar(text, '.');
	say_retry(e, task, " runs it after all.");
}

static void
explain_running(TqExplain *e, const TqQueue *queue, TqTask *task)
{
	StringInfo       text = &e->text;
	TqOptions        room;
	const TqOptions *options = tq_task_options(queue, task, &room);
	TimestampTz      time_until = DT_NOEND;
	TimestampTz      asked_at;
	TqExplainHolder  holder;

	if (options->time_limit > 0 && !TIMESTAMP_NOT_FINITE(task->f.claimed_at))
		time_until = tq_span_after(task->f.claimed_at, options->time_limit);
	tq_explain_read_holder(task, &holder);
	appendStringInfo(text, "has been running since %s, ",
					 tq_explain_time(task->f.claimed_at));
	say_attempt(e, task);
	if (explain_lost(e, task, &holder, time_until))
		return;
	appendStringInfoString(text, ": ");
	asked_at = TQ_TASK_TIME(task, TQ_COL_CANCEL_REQUESTED_AT, DT_NOBEGIN);
	if (asked_at != DT_NOBEGIN)
	{
		tq_explain_because(TQ_WHY_CANCEL_REQUESTED);
		appendStringInfo(text, "it was asked to stop at %s; ",
						 tq_explain_time(asked_at));
		tq_explain_whom(e, &holder);
		appendStringInfo(text,
						 " holds it, and any outcome except success makes it"
						 " cancelled; taskq_cancel(" INT64_FORMAT
						 ", force => true) cancels it now.",
						 task->f.task_id);
	}
	else
		explain_held(e, task, &holder, time_until);
	tq_explain_last_error(e, task);
	(void) tq_explain_upkeep(
		e, " If its worker is lost, it is not reclaimed automatically: ");
}

/*
 * Has it exceeded its lease or time limit, or lost its worker, and not been
 * reclaimed yet?
 */
static bool
explain_lost(TqExplain *e, const TqTask *task, const TqExplainHolder *holder,
			 TimestampTz time_until)
{
	TimestampTz now = tq_clock_dispatch();
	StringInfo  text = &e->text;

	if (task->f.lease_until <= now)
	{
		tq_explain_because(TQ_WHY_LOST_LEASE);
		appendStringInfo(text, ": its lease expired at %s",
						 tq_explain_time(task->f.lease_until));
	}
	else if (time_until <= now)
	{
		tq_explain_because(TQ_WHY_LOST_TIME);
		appendStringInfo(text, ": it exceeded its time_limit at %s",
						 tq_explain_time(time_until));
	}
	else if (holder->name != NULL && (holder->state == TQ_WORKER_DEAD ||
									  holder->state == TQ_WORKER_GONE))
	{
		tq_explain_because(TQ_WHY_LOST_WORKER);
		appendStringInfo(text, ": its worker \"%s\" %s at %s", holder->name,
						 holder->state == TQ_WORKER_DEAD ? "was declared dead"
														 : "deregistered",
						 tq_explain_time(holder->ended_at));
	}
	else
		return false;
	if (!tq_explain_upkeep(e, ", and it is not reclaimed: "))
	{
		appendStringInfoString(
			text, "; the background worker is about to reclaim it.");
		return true;
	}
	appendStringInfo(text, " taskq_retry(" INT64_FORMAT ", %sforce => true)",
					 task->f.task_id,
					 task->f.max_attempts != -1 &&
							 task->f.attempt >= task->f.max_attempts
						 ? "reset_attempts => true, "
						 : "");
	appendStringInfoString(text, " reclaims it immediately.");
	return true;
}

static void
explain_held(TqExplain *e, const TqTask *task, const TqExplainHolder *holder,
			 TimestampTz time_until)
{
	StringInfo text = &e->text;
	bool       registered = holder->name != NULL &&
					  holder->state == TQ_WORKER_ACTIVE;
	TimestampTz seen_at = tq_clock_wall() - holder->silent;

	tq_explain_whom(e, holder);
	if (registered && holder->seen &&
		holder->silent >= tq_guc_usecs(tq_guc_stale_threshold))
	{
		tq_explain_because(TQ_WHY_WORKER_STALE);
		appendStringInfo(
			text,
			" holds it, but is silent: it was last seen at %s, and is"
			" declared dead after %s of silence.",
			tq_explain_time(seen_at),
			tq_explain_span(tq_guc_usecs(tq_guc_dead_threshold)));
		return;
	}
	tq_explain_because(registered             ? TQ_WHY_RUNS_BY_WORKER
					   : holder->name != NULL ? TQ_WHY_RUNS_BY_LABEL
											  : TQ_WHY_RUNS_BY_NOBODY);
	appendStringInfoString(text, " holds it");
	if (registered)
		appendStringInfoString(text, holder->bound
										 ? " as long as its connection lasts"
										 : " as long as it sends heartbeats");
	if (task->f.lease_until != DT_NOEND)
		appendStringInfo(text, "%s until %s at the latest",
						 registered ? ", but" : "",
						 tq_explain_time(task->f.lease_until));
	if (registered && holder->seen)
		appendStringInfo(text, "; it was last seen at %s",
						 tq_explain_time(seen_at));
	appendStringInfoChar(text, '.');
	if (time_until != DT_NOEND)
		appendStringInfo(text, " Its time_limit ends at %s.",
						 tq_explain_time(time_until));
}

static void
explain_suspended(TqExplain *e, TqTask *task)
{
	StringInfo      text = &e->text;
	TqExplainChange change;

	tq_explain_read_change(task, &change);
	if (change.known)
		appendStringInfo(text, "has been suspended since %s",
						 tq_explain_time(change.at));
	else
		appendStringInfoString(text, "is suspended");
	if (tq_explain_step(e, task))
		return;
	tq_explain_because(TQ_WHY_SUSPENDED);
	tq_explain_role(e, &change);
	if (task->f.reason != TQ_REASON_NONE)
		appendStringInfo(text, " (%s)",
						 tq_reason_name((TqReason) task->f.reason));
	tq_explain_words(e, ", with message ",
					 change.known ? change.message : tq_explain_message(task));
	appendStringInfoString(text, ", until it is resumed.");
	say_retry(e, task, " makes it pending.");
}

static void
explain_blocked(TqExplain *e, const TqQueue *queue, const TqTask *task)
{
	if ((task->f.flags & TQ_FLAG_IN_LINE) == 0 && tq_explain_step(e, task))
	{
		say_deadline(e, task);
		return;
	}
	tq_explain_because(TQ_WHY_BLOCKED);
	if ((task->f.flags & TQ_FLAG_IN_LINE) != 0 && !task->isnull[TQ_COL_KEY])
	{
		char *key = TextDatumGetCString(task->value[TQ_COL_KEY]);

		appendStringInfo(&e->text,
						 "is blocked: it waits for other tasks of its "
						 "key \"%s\"",
						 key);
		say_in_line(e, queue, task);
	}
	else
		appendStringInfoString(&e->text,
							   "is blocked: it waits for other tasks, and "
							   "becomes pending when they have finished.");
	say_deadline(e, task);
}

/* Report which tasks of its key it waits for, and what resolves that. */
static void
say_in_line(TqExplain *e, const TqQueue *queue, const TqTask *task)
{
	Datum  args[3];
	uint64 rows;
	TqSpi  spi;

	args[0] = Int32GetDatum(queue->queue_id);
	args[1] = task->value[TQ_COL_KEY];
	args[2] = Int32GetDatum(queue->options.key_policy);
	tq_spi_enter(&spi);
	rows = tq_spi_read(&stmt_in_line, args, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
		appendStringInfo(&e->text, "%s task " INT64_FORMAT " is %s",
						 i == 0 ? ":" : ",", tq_spi_int8(i, 1, 0),
						 tq_state_name((TqState) tq_spi_int4(i, 2, 0)));
	if (rows > 0 && tq_spi_bool(0, 3))
		appendStringInfoString(&e->text,
							   ", which holds the key until it is "
							   "retried, resolved, poisoned or cancelled.");
	else
		appendStringInfoString(&e->text,
							   "; when one of them has finished, the first "
							   "waiting task becomes pending.");
	tq_spi_leave(&spi);
}

static void
explain_pending(TqExplain *e, const TqQueue *queue, TqTask *task)
{
	StringInfo  text = &e->text;
	TimestampTz deadline = TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND);

	appendStringInfoString(text, "is pending: ");
	if (tq_tuple_lock_is_taken(&e->call, task))
	{
		tq_explain_because(TQ_WHY_BUSY);
		appendStringInfoString(
			text,
			"an open transaction is changing it, for example one that has"
			" claimed it; try again when that transaction has ended.");
		return;
	}
	if (deadline <= tq_clock_wall())
	{
		tq_explain_because(TQ_WHY_DEADLINE_PAST);
		appendStringInfo(text,
						 "its deadline, %s, has passed, so it cannot"
						 " be claimed",
						 tq_explain_time(deadline));
		if (!tq_explain_upkeep(e, ", and nothing processes the deadline: "))
			tq_explain_deadline_duty(e);
		return;
	}
	if (tq_explain_paused(e, queue))
		;
	else if (task->f.available_at > tq_clock_dispatch())
	{
		char *error = task->f.attempt > 0 ? tq_explain_error(task) : NULL;

		if (error != NULL)
		{
			tq_explain_because(TQ_WHY_RETRY_LATER);
			say_attempt(e, task);
			appendStringInfoString(text, " has failed");
			tq_explain_words(e, " with ", error);
			appendStringInfoString(text, "; the next attempt can start at ");
		}
		else
		{
			tq_explain_because(TQ_WHY_NOT_DUE);
			appendStringInfoString(text, "it is due at ");
		}
		appendStringInfo(text, "%s.", tq_explain_time(task->f.available_at));
	}
	else
	{
		if (!tq_explain_limited(e, queue))
		{
			tq_explain_turn(e, queue, task);
			if (tq_explain_waiters(
					e, tq_waiter_count(queue->queue_id, task->f.lane_id),
					"such a task"))
				tq_explain_because(TQ_WHY_WAITERS);
		}
		tq_explain_last_error(e, task);
	}
	say_deadline(e, task);
}

static void
say_attempt(TqExplain *e, const TqTask *task)
{
	appendStringInfo(&e->text, "attempt %d", task->f.attempt);
	if (task->f.max_attempts == -1)
		appendStringInfoString(&e->text, " (unlimited)");
	else
		appendStringInfo(&e->text, " of %d", task->f.max_attempts);
}

/*
 * Report the call that makes it pending again.  A suspended task keeps its
 * attempts unless it has used them up.
 */
static void
say_retry(TqExplain *e, const TqTask *task, const char *also)
{
	bool reset = task->f.state == TQ_STATE_SUSPENDED &&
				 task->f.max_attempts != -1 &&
				 task->f.attempt >= task->f.max_attempts;

	if (!TQ_STATE_IS_LIVE((TqState) task->f.state) && tq_explain_step(e, task))
		return;
	appendStringInfo(&e->text, " taskq_retry(" INT64_FORMAT "%s)%s",
					 task->f.task_id, reset ? ", reset_attempts => true" : "",
					 also);
}

static void
say_deadline(TqExplain *e, const TqTask *task)
{
	if (task->isnull[TQ_COL_DEADLINE])
		return;
	tq_explain_because(TQ_WHY_DEADLINE_AHEAD);
	appendStringInfo(
		&e->text,
		" If it is not claimed before its deadline, %s, it becomes dead.",
		tq_explain_time(TQ_TASK_TIME(task, TQ_COL_DEADLINE, 0)));
}
