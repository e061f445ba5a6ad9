/*
 * state.c
 *		The one door: every change of a task's state.
 *
 * A task has ten states.  moves[] says which may follow which; nothing else
 * in the extension writes the column state.  The door also writes what
 * belongs to a state (position, lease, worker, version), puts the row where
 * it belongs (live in taskq.task, finished in the archive, or nowhere), and
 * notes what the transaction's end must tell shared memory.
 *
 * A live task is read by the caller and not locked: tq_state_enter returns
 * false when the row has changed since, and the caller begins again with a
 * new snapshot.  A finished task has been taken out of the archive by the
 * caller (tq_row_take_archived), who therefore owns it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/guc.h"
#include "core/id.h"
#include "core/large.h"
#include "core/state.h"
#include "core/xact.h"

#define TO(state) (1 << (state))

/* The contract's table of moves, each edge once. */
static const int moves[] = {
	[TQ_STATE_PENDING] = TO(TQ_STATE_RUNNING) | TO(TQ_STATE_BLOCKED) |
						 TO(TQ_STATE_SUSPENDED) | TO(TQ_STATE_DEAD) |
						 TO(TQ_STATE_CANCELLED) | TO(TQ_STATE_REDUNDANT) |
						 TO(TQ_STATE_DONE) | TO(TQ_STATE_FILTERED),

	[TQ_STATE_BLOCKED] = TO(TQ_STATE_PENDING) | TO(TQ_STATE_SUSPENDED) |
						 TO(TQ_STATE_DEAD) | TO(TQ_STATE_CANCELLED) |
						 TO(TQ_STATE_REDUNDANT) | TO(TQ_STATE_DONE) |
						 TO(TQ_STATE_FILTERED),

	[TQ_STATE_RUNNING] = TO(TQ_STATE_DONE) | TO(TQ_STATE_PENDING) |
						 TO(TQ_STATE_BLOCKED) | TO(TQ_STATE_DEAD) |
						 TO(TQ_STATE_SUSPENDED) | TO(TQ_STATE_FILTERED) |
						 TO(TQ_STATE_CANCELLED),

	[TQ_STATE_SUSPENDED] = TO(TQ_STATE_PENDING) | TO(TQ_STATE_BLOCKED) |
						   TO(TQ_STATE_DONE) | TO(TQ_STATE_FILTERED) |
						   TO(TQ_STATE_DEAD) | TO(TQ_STATE_CANCELLED) |
						   TO(TQ_STATE_REDUNDANT) | TO(TQ_STATE_RECREATED),

	[TQ_STATE_DONE] = TO(TQ_STATE_PENDING) | TO(TQ_STATE_BLOCKED) |
					  TO(TQ_STATE_SUSPENDED) | TO(TQ_STATE_DEAD) |
					  TO(TQ_STATE_FILTERED) | TO(TQ_STATE_REDUNDANT) |
					  TO(TQ_STATE_RECREATED),

	[TQ_STATE_DEAD] = TO(TQ_STATE_PENDING) | TO(TQ_STATE_BLOCKED) |
					  TO(TQ_STATE_SUSPENDED) | TO(TQ_STATE_DONE) |
					  TO(TQ_STATE_FILTERED) | TO(TQ_STATE_REDUNDANT) |
					  TO(TQ_STATE_RECREATED),

	[TQ_STATE_FILTERED] = TO(TQ_STATE_PENDING) | TO(TQ_STATE_BLOCKED) |
						  TO(TQ_STATE_SUSPENDED) | TO(TQ_STATE_DONE) |
						  TO(TQ_STATE_DEAD) | TO(TQ_STATE_REDUNDANT) |
						  TO(TQ_STATE_RECREATED),

	[TQ_STATE_CANCELLED] = TO(TQ_STATE_PENDING) | TO(TQ_STATE_BLOCKED) |
						   TO(TQ_STATE_RECREATED),

	[TQ_STATE_REDUNDANT] = 0,
	[TQ_STATE_RECREATED] = 0};

TqStateHooks tq_state_hooks = {NULL, NULL};

static void enter_live(TqTask *task, const TqMove *move);
static void enter_running(TqTask *task, const TqMove *move);
static bool enter_finished(const TqQueue *queue, TqTask *task,
						   const TqMove *move);
static int  descent_rank(TqState state);
static bool write_row(TqCall *call, TqTask *task, const TqMove *move,
					  bool was_live, bool leaves_trace);
static void note_intents(const TqQueue *queue, const TqTask *task,
						 TqState from);

bool
tq_state_is_legal(TqState from, TqState to)
{
	return TQ_STATE_IS_VALID(from) && TQ_STATE_IS_VALID(to) &&
		   (moves[from] & TO(to)) != 0;
}

/*
 * Move a task to another state; TQ005 if that is not a legal move.  What
 * the caller has changed in *task beforehand (attempt, errors, result,
 * message) is written with it.
 */
bool
tq_state_enter(TqCall *call, TqQueue *queue, TqTask *task,
			   const TqMove *wanted)
{
	TqMove  move = *wanted;
	TqState from = (TqState) task->f.state;
	bool    was_live = !task->archived;
	bool    leaves_trace = true;

	if (!tq_state_is_legal(from, move.to))
		tq_error_invalid_transition(task->f.task_id, from, move.wanted);
	if (tq_state_hooks.entering != NULL)
		tq_state_hooks.entering(call, task, &move);

	if (descent_rank(from) > descent_rank((TqState) task->f.descent))
		task->f.descent = (int16) from;
	task->f.version++;
	/* somebody asked for it, whoever carries it out */
	if (move.to == TQ_STATE_CANCELLED && move.reason == TQ_REASON_NONE)
		move.reason = TQ_REASON_MANUAL;
	task->f.reason = (int16) move.reason;
	if (move.to == TQ_STATE_RUNNING)
		enter_running(task, &move);
	else if (TQ_STATE_IS_LIVE(move.to))
		enter_live(task, &move);
	else
		leaves_trace = enter_finished(queue, task, &move);
	task->f.state = (int16) move.to;

	TQ_DEBUG_POINT("state_before_write");
	if (!write_row(call, task, &move, was_live, leaves_trace))
		return false;
	TQ_FAULT_POINT("state_after_write");
	note_intents(queue, task, from);
	if (tq_state_hooks.entered != NULL)
		tq_state_hooks.entered(call, task, from);
	return true;
}

/*
 * Write changes that keep the state: lease, checkpoint, a request to stop.
 */
bool
tq_state_touch(TqCall *call, TqQueue *queue, TqTask *task)
{
	task->f.version++;
	tq_large_store(task);
	if (!tq_row_update(call, task, true))
		return false;
	note_intents(queue, task, (TqState) task->f.state);
	return true;
}

/*
 * A task comes into being, pending, blocked or suspended; the caller has
 * filled in all but what belongs to the state.  False when a live task has
 * the reference: *holder.
 */
bool
tq_state_submit(TqCall *call, TqQueue *queue, TqTask *task, TqState state,
				bool unique_reference, int64 *holder, TqState *holder_state)
{
	TqMove move = {0};

	move.to = state;
	move.due_at = task->f.run_at;
	if (task->f.run_at == 0)
		task->f.run_at = tq_clock_dispatch();
	if (tq_state_hooks.entering != NULL)
		tq_state_hooks.entering(call, task, &move);
	enter_live(task, &move);
	task->f.state = (int16) move.to;
	tq_large_store(task);
	if (!tq_row_insert(call, task, unique_reference, holder, holder_state))
		return false;
	note_intents(queue, task, TQ_STATE_SUSPENDED);
	return true;
}

/* When a running task is to be looked at: its lease or its time is up. */
TimestampTz
tq_state_running_until(const TqQueue *queue, const TqTask *task)
{
	TimestampTz until = task->f.lease_until;

	if (queue->options.time_limit > 0 &&
		!TIMESTAMP_NOT_FINITE(task->f.claimed_at))
		until = Min(until, task->f.claimed_at + queue->options.time_limit);
	return until;
}

/* Pending, blocked or suspended: nobody holds it. */
static void
enter_live(TqTask *task, const TqMove *move)
{
	TimestampTz now = tq_clock_dispatch();

	task->f.claimed_at = DT_NOBEGIN;
	task->f.lease_until = DT_NOEND;
	task->f.worker_id = 0;
	tq_task_clear(task, TQ_COL_WAKE_AT);
	tq_task_clear(task, TQ_COL_CANCEL_REQUESTED_AT);
	if (move->to == TQ_STATE_PENDING)
	{
		task->f.run_at = move->due_at != 0 ? move->due_at : now;
		task->f.available_at = task->f.run_at;
		if (task->f.run_at > now)
			tq_task_set(task, TQ_COL_WAKE_AT,
						TimestampTzGetDatum(task->f.run_at));
	}
	else
		task->f.available_at = DT_NOEND;
}

static void
enter_running(TqTask *task, const TqMove *move)
{
	task->f.token = tq_id_next_token(task->f.token);
	task->f.attempt++;
	task->f.claimed_at = tq_clock_wall();
	task->f.worker_id = move->worker_id;
	task->f.lease_until = move->lease_until;
}

/*
 * A finished task goes into the archive, or nowhere (false).  Rows that
 * live as long as taskq.retention says go into the leaf being filled; all
 * others are kept with a time of their own.
 */
static bool
enter_finished(const TqQueue *queue, TqTask *task, const TqMove *move)
{
	const int64 month = 30 * USECS_PER_DAY;
	TqRetention retention = queue->options.retention;
	TimestampTz now = tq_clock_wall();
	bool        none = retention.keep == TQ_KEEP_NONE;

	if (move->trace == TQ_TRACE_NONE)
		return false;
	if (none)
		retention.keep = TQ_KEEP_DEFAULT;
	if (move->to == TQ_STATE_DEAD)
	{
		int64 span = (int64) tq_guc_retention * USECS_PER_SEC;

		if (queue->options.retention_dead.keep != TQ_KEEP_DEFAULT)
			retention = queue->options.retention_dead;
		else if (retention.keep != TQ_KEEP_FOREVER)
		{
			if (retention.keep == TQ_KEEP_SPAN)
				span = retention.span;
			retention.keep = TQ_KEEP_SPAN;
			retention.span = Max(span, month);
		}
	}
	else if (none && move->trace != TQ_TRACE_KEEP)
		return false;

	task->f.lease_until = DT_NOEND;
	tq_task_set(task, TQ_COL_FINISHED_AT, TimestampTzGetDatum(now));
	tq_task_clear(task, TQ_COL_EXPIRES_AT);
	switch (retention.keep)
	{
		case TQ_KEEP_DEFAULT:
		case TQ_KEEP_NONE:
			tq_task_set(task, TQ_COL_BUCKET, Int16GetDatum(tq_queue_bucket()));
			return true;
		case TQ_KEEP_SPAN:
			tq_task_set(task, TQ_COL_EXPIRES_AT,
						TimestampTzGetDatum(now + retention.span));
			break;
		case TQ_KEEP_FOREVER:
			tq_task_set(task, TQ_COL_EXPIRES_AT,
						TimestampTzGetDatum(DT_NOEND));
			break;
	}
	tq_task_set(task, TQ_COL_BUCKET, Int16GetDatum(TQ_LEAF_KEEP));
	return true;
}

/* How bad an outcome is: failure, suspension, filter, success. */
static int
descent_rank(TqState state)
{
	switch (state)
	{
		case TQ_STATE_DEAD:
			return 4;
		case TQ_STATE_SUSPENDED:
			return 3;
		case TQ_STATE_FILTERED:
			return 2;
		case TQ_STATE_DONE:
			return 1;
		case TQ_STATE_PENDING:
		case TQ_STATE_BLOCKED:
		case TQ_STATE_RUNNING:
		case TQ_STATE_CANCELLED:
		case TQ_STATE_REDUNDANT:
		case TQ_STATE_RECREATED:
			break;
	}
	return 0;
}

static bool
write_row(TqCall *call, TqTask *task, const TqMove *move, bool was_live,
		  bool leaves_trace)
{
	int64   holder;
	TqState holder_state;

	if (TQ_STATE_IS_LIVE(move->to))
	{
		tq_large_store(task);
		if (was_live)
			return tq_row_update(call, task, !move->no_wait);
		if (!tq_row_insert(call, task, !task->isnull[TQ_COL_REFERENCE],
						   &holder, &holder_state))
			tq_error_reference_exists(
				TextDatumGetCString(task->value[TQ_COL_REFERENCE]), holder,
				holder_state);
		task->archived = false;
		return true;
	}

	if (was_live && !tq_row_delete(call, task, !move->no_wait))
		return false;
	if (leaves_trace)
	{
		tq_large_store(task);
		tq_row_insert_archive(call, task);
		task->archived = true;
	}
	else if (task->f.large != 0 || task->large_dropped != 0)
		tq_large_remove_all(task->f.task_id);
	return true;
}

/* What the commit must tell shared memory. */
static void
note_intents(const TqQueue *queue, const TqTask *task, TqState from)
{
	if (task->f.state == TQ_STATE_RUNNING)
	{
		TqRunning running;

		running.task_id = task->f.task_id;
		running.token = task->f.token;
		running.due_at = tq_state_running_until(queue, task);
		running.worker_id = task->f.worker_id;
		tq_xact_running(&running);
	}
	else if (from == TQ_STATE_RUNNING)
		tq_xact_stopped(task->f.task_id);
	if (task->f.state == TQ_STATE_PENDING && !task->isnull[TQ_COL_WAKE_AT])
		tq_xact_due(task->f.run_at);
}
