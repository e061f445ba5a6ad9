/*
 * state.c
 *		Every change of a task's state.
 *
 * A task has one of ten states. moves[] defines the legal moves; no other code
 * of the extension writes the column state.  tq_state_enter also writes the
 * columns that belong to a state (position, lease, worker, version), stores
 * the row in the right table (live in taskq.task; finished in the archive, or
 * nowhere), and records what the end of the transaction must publish in shared
 * memory.
 *
 * The caller reads a live task without locking it: tq_state_enter returns
 * false if the row has changed since, and the caller starts again with a new
 * snapshot.  A finished task has been taken out of the archive by the caller
 * (tq_archive_take), which therefore owns it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_collation_d.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/span.h"
#include "cache/keep.h"
#include "cache/lane.h"
#include "cache/role.h"
#include "cache/task_options.h"
#include "engine/history.h"
#include "engine/id.h"
#include "engine/state.h"
#include "engine/step.h"
#include "store/large.h"
#include "store/row.h"
#include "xact/count_note.h"
#include "xact/metric_note.h"
#include "xact/position_note.h"
#include "xact/xact.h"

/* Two readings of the clocks by one call differ by less, in microseconds. */
#define SAME_READING 1000

#define TO(state) (1 << (state))

/* The table of moves of the contract, each edge once. */
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

TqStateHooks tq_state_hooks = {NULL, NULL, NULL, NULL, NULL};

static TqMoveAnswer as_wanted(const TqMove *move);
static void         take_lane(TqQueue *queue, TqTask *task);
static void         entering(TqCall *call, TqQueue *queue, TqTask *task,
							 const TqMove *move, TqMoveAnswer *answer);
static void entered(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
					const TqMove *move);
static void not_entered(TqCall *call, TqQueue *queue, TqTask *task,
						const TqMove *move, const TqMoveAnswer *answer);
static TqMoveAnswer replace(TqCall *call, TqQueue *queue, TqTask *task,
							TimestampTz due_at, TqMove *move);
static void replaced(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
					 const TqMove *move);
static void enter_live(TqTask *task, const TqMove *move,
					   const TqMoveAnswer *answer, TimestampTz now);
static void enter_running(TqTask *task, const TqMove *move);
static int  descent_rank(TqState state);
static bool write_row(TqCall *call, TqTask *task, const TqMove *move,
					  bool was_live, bool leaves_trace);
static void note_retry(const TqTask *task, int32 queue_id);
static void note_intents(const TqQueue *queue, TqTask *task, TqState from,
						 int32 held_by);

bool
tq_state_is_legal(TqState from, TqState to)
{
	return TQ_STATE_IS_VALID(from) && TQ_STATE_IS_VALID(to) &&
		   (moves[from] & TO(to)) != 0;
}

/*
 * Move a task to another state; raise TQ005 if that is not a legal move.
 * Changes that the caller has made in *task (attempt, errors, result, message)
 * are written with it.
 */
bool
tq_state_enter(TqCall *call, TqQueue *queue, TqTask *task, const TqMove *move)
{
	TqMoveAnswer answer = as_wanted(move);
	TqState      from = (TqState) task->f.state;
	int32        held_by = task->f.worker_id;
	int64        claimed_at = task->f.claimed_at;
	bool         was_live = !task->archived;
	bool         leaves_trace = true;

	if (!tq_state_is_legal(from, move->to))
		tq_error_invalid_transition(task->f.task_id, from, move->wanted);
	if (tq_step_is(task) && tq_step_hooks.moving != NULL)
		tq_step_hooks.moving(call, queue, task, move, &answer);
	if (!answer.refused)
		entering(call, queue, task, move, &answer);
	if (answer.refused)
		return false;

	if (descent_rank(from) > descent_rank((TqState) task->i.descent))
		task->i.descent = (int16) from;
	/* a lease that expires is not a change by a caller */
	if (move->end != TQ_END_LEASE_EXPIRED)
		task->f.version++;
	/* the cancel was requested, whichever call carries it out */
	if (answer.to == TQ_STATE_CANCELLED && answer.reason == TQ_REASON_NONE)
		answer.reason = TQ_REASON_MANUAL;
	task->f.reason = (int16) answer.reason;
	task->f.flags &= ~TQ_FLAG_IN_LINE;
	if (answer.to == TQ_STATE_RUNNING)
		enter_running(task, move);
	else if (TQ_STATE_IS_LIVE(answer.to))
		enter_live(task, move, &answer, tq_clock_dispatch());
	else
		leaves_trace = tq_keep_finished(queue, task, answer.to, move->trace);
	task->f.state = (int16) answer.to;

	if (!was_live && TQ_STATE_IS_LIVE(answer.to))
		take_lane(queue, task);
	TQ_DEBUG_POINT("state_before_write");
	tq_xact_begin();
	tq_position_note_taking(task);
	if (!write_row(call, task, move, was_live, leaves_trace))
	{
		tq_position_note_not_taken(task);
		not_entered(call, queue, task, move, &answer);
		return false;
	}
	TQ_FAULT_POINT("state_after_write");
	tq_count_note_move(queue->queue_id, from, answer.to);
	note_retry(task, queue->queue_id);
	tq_metric_note_moved(task, from, answer.end, claimed_at);
	note_intents(queue, task, from, held_by);
	/* a step that was blocked by its parents may now be blocked by its key */
	if (tq_history_keeps(queue, task, from))
		tq_history_write(call, task, from);
	entered(call, queue, task, from, move);
	if (tq_step_is(task) && tq_step_hooks.moved != NULL)
		tq_step_hooks.moved(call, task, from, &answer);
	return true;
}

/* Find the lane of a finished task that becomes live; it may be gone. */
static void
take_lane(TqQueue *queue, TqTask *task)
{
	TqTags tags = {0};

	/* invalid tags, which a user has written by hand, have no lane */
	if (task->isnull[TQ_COL_TAGS] ||
		tq_arg_tags_read(task->value[TQ_COL_TAGS], &tags))
		task->f.lane_id = tq_lane_again(queue, &tags);
}

/* Write changes that keep the state: lease, checkpoint, a request to stop. */
bool
tq_state_touch(TqCall *call, TqQueue *queue, TqTask *task)
{
	task->f.version++;
	tq_large_plan(task);
	tq_xact_begin();
	tq_position_note_taking(task);
	if (!tq_row_update(call, task, true))
	{
		tq_position_note_not_taken(task);
		return false;
	}
	tq_large_write(task);
	note_intents(queue, task, (TqState) task->f.state, task->f.worker_id);
	if (task->by_hand)
		tq_history_write(call, task, task->f.state);
	return true;
}

/*
 * Write a waiting task whose payload and settings have been replaced; a
 * pending one is due at due_at (0: now).  It stays suspended, or becomes
 * pending or blocked as its key requires.
 */
bool
tq_state_rewrite(TqCall *call, TqQueue *queue, TqTask *task,
				 TimestampTz due_at)
{
	TqState      from = (TqState) task->f.state;
	TqMove       move;
	TqMoveAnswer answer = replace(call, queue, task, due_at, &move);

	tq_large_plan(task);
	tq_xact_begin();
	tq_position_note_taking(task);
	if (!tq_row_update(call, task, true))
	{
		tq_position_note_not_taken(task);
		not_entered(call, queue, task, &move, &answer);
		return false;
	}
	tq_large_write(task);
	replaced(call, queue, task, from, &move);
	return true;
}

/*
 * Like tq_state_rewrite, but the queue may change, and the reference may be
 * new.  If a live task of the queue has the reference, *holder is that task;
 * the row has then been removed, and the caller must end the transaction.
 */
bool
tq_state_relocate(TqCall *call, TqQueue *queue, TqTask *task,
				  TimestampTz due_at, int64 *holder, TqState *holder_state)
{
	TqState      from = (TqState) task->f.state;
	TqMove       move;
	TqMoveAnswer answer = replace(call, queue, task, due_at, &move);

	tq_xact_begin();
	tq_position_note_taking(task);
	if (!tq_row_delete(call, task, true))
	{
		tq_position_note_not_taken(task);
		not_entered(call, queue, task, &move, &answer);
		return false;
	}
	task->f.queue_id = queue->queue_id;
	tq_large_store(task);
	if (tq_row_insert(call, task, !task->isnull[TQ_COL_REFERENCE], holder,
					  holder_state))
		replaced(call, queue, task, from, &move);
	return true;
}

/*
 * Change the reason of a finished task that the caller has taken out of the
 * archive, with other changes the caller has made.  State and place remain.
 */
void
tq_state_annotate(TqCall *call, TqQueue *queue, TqTask *task, TqReason reason)
{
	TqMove move = {0};

	move.to = (TqState) task->f.state;
	task->f.version++;
	task->f.reason = (int16) reason;
	tq_large_store(task);
	tq_xact_begin();
	tq_row_insert_archive(call, task);
	if (task->by_hand)
		tq_history_write(call, task, task->f.state);
	entered(call, queue, task, move.to, &move);
}

/*
 * Remove a waiting task, which is not a move; return false if it has changed.
 */
bool
tq_state_remove(TqCall *call, TqQueue *queue, TqTask *task)
{
	TqState      from = (TqState) task->f.state;
	TqMove       move = {0};
	TqMoveAnswer answer = {0};

	entering(call, queue, task, &move, &answer);
	tq_xact_begin();
	tq_position_note_taking(task);
	if (!tq_row_delete(call, task, true))
	{
		tq_position_note_not_taken(task);
		return false;
	}
	task->f.state = TQ_STATE_NONE;
	note_retry(task, task->f.queue_id);
	tq_position_note_put(task);
	if (task->i.large != 0)
		tq_large_remove_all(task->f.task_id);
	tq_count_note_move(task->f.queue_id, from, TQ_STATE_NONE);
	tq_xact_ended(task->f.task_id, 0);
	if (task->by_hand)
		tq_history_write(call, task, from);
	entered(call, queue, task, from, &move);
	return true;
}

/*
 * A finished task was removed from the archive for good. queue is NULL if the
 * queue was dropped, in which case no session waits there.
 */
void
tq_state_forget(TqCall *call, TqQueue *queue, TqTask *task)
{
	TqState from = (TqState) task->f.state;
	TqMove  move = {0};

	task->f.state = TQ_STATE_NONE;
	if (task->by_hand)
		tq_history_write(call, task, from);
	if (queue != NULL)
		entered(call, queue, task, from, &move);
}

/*
 * Create a task, pending, blocked or suspended; the caller has filled in all
 * columns except those that belong to the state.  Returns false if a live task
 * has the reference: *holder.
 */
bool
tq_state_submit(TqCall *call, TqQueue *queue, TqTask *task, TqState state,
				bool unique_reference, int64 *holder, TqState *holder_state)
{
	TqMove       move = {0};
	TqMoveAnswer answer;
	TimestampTz  now = tq_clock_dispatch();

	move.to = state;
	move.due_at = task->i.run_at;
	move.key.is_new = true;
	if (task->i.run_at == 0)
		task->i.run_at = now;
	/*
	 * The time of the position of a task that is due at once, so that it is
	 * not stored, unless the wall clock was set back.
	 */
	if (now - task->i.created_at < SAME_READING)
		task->i.created_at = now;
	answer = as_wanted(&move);
	entering(call, queue, task, &move, &answer);
	enter_live(task, &move, &answer, now);
	task->f.state = (int16) answer.to;
	tq_large_plan(task);
	tq_xact_begin();
	tq_position_note_taking(task);
	if (!tq_row_insert(call, task, unique_reference, holder, holder_state))
	{
		tq_position_note_not_taken(task);
		not_entered(call, queue, task, &move, &answer);
		return false;
	}
	tq_large_write(task);
	tq_count_note_move(queue->queue_id, TQ_STATE_NONE, task->f.state);
	tq_metric_note_count(queue->queue_id, TQ_METRIC_SUBMITTED, 1);
	note_intents(queue, task, TQ_STATE_SUSPENDED, 0);
	if (tq_history_keeps(queue, task, TQ_STATE_NONE))
		tq_history_write(call, task, TQ_STATE_NONE);
	entered(call, queue, task, 0, &move);
	return true;
}

/*
 * Return when a running task must be checked: its lease or time limit expires.
 */
TimestampTz
tq_state_running_until(const TqQueue *queue, const TqTask *task)
{
	TimestampTz      until = task->f.lease_until;
	TqOptions        room;
	const TqOptions *options = tq_task_options(queue, task, &room);

	if (options->time_limit > 0 && !TIMESTAMP_NOT_FINITE(task->f.claimed_at))
		until =
			Min(until, tq_span_after(task->f.claimed_at, options->time_limit));
	return until;
}

static TqMoveAnswer
as_wanted(const TqMove *move)
{
	TqMoveAnswer answer = {move->to, move->reason, move->end};

	answer.waits = move->key.waits;
	return answer;
}

/* Let the queue of its key decide where a task moves. */
static void
entering(TqCall *call, TqQueue *queue, TqTask *task, const TqMove *move,
		 TqMoveAnswer *answer)
{
	if (tq_state_hooks.entering != NULL)
		tq_state_hooks.entering(call, queue, task, move, answer);
}

static void
entered(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
		const TqMove *move)
{
	if (tq_state_hooks.entered != NULL)
		tq_state_hooks.entered(call, queue, task, from, move);
}

/* The row was not written: other tasks of the key keep their places. */
static void
not_entered(TqCall *call, TqQueue *queue, TqTask *task, const TqMove *move,
			const TqMoveAnswer *answer)
{
	if (tq_state_hooks.left != NULL && !move->key.in_line &&
		(answer->to == TQ_STATE_PENDING || answer->cleared) &&
		!task->isnull[TQ_COL_KEY])
		tq_state_hooks.left(call, queue, task->value[TQ_COL_KEY]);
}

/*
 * The common part of tq_state_rewrite and tq_state_relocate before the write.
 */
static TqMoveAnswer
replace(TqCall *call, TqQueue *queue, TqTask *task, TimestampTz due_at,
		TqMove *move)
{
	TqMoveAnswer answer;

	memset(move, 0, sizeof(*move));
	Assert(TQ_STATE_IS_LIVE(task->f.state) &&
		   task->f.state != TQ_STATE_RUNNING);
	move->to = (TqState) task->f.state;
	if (task->f.flags & TQ_FLAG_IN_LINE)
		move->to = TQ_STATE_PENDING;
	move->due_at = due_at;
	answer = as_wanted(move);
	entering(call, queue, task, move, &answer);
	task->f.flags &= ~TQ_FLAG_IN_LINE;
	enter_live(task, move, &answer, tq_clock_dispatch());
	task->f.state = (int16) answer.to;
	task->f.version++;
	return answer;
}

/* The common part after the write. */
static void
replaced(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
		 const TqMove *move)
{
	Datum key = task->isnull[TQ_COL_KEY] ? (Datum) 0 : task->value[TQ_COL_KEY];

	tq_count_note_move(task->queue_before, from, TQ_STATE_NONE);
	tq_count_note_move(queue->queue_id, TQ_STATE_NONE, task->f.state);
	note_retry(task, queue->queue_id);
	note_intents(queue, task, TQ_STATE_SUSPENDED, 0);
	if (task->by_hand)
		tq_history_write(call, task, from);
	entered(call, queue, task, from, move);
	if (task->key_before != (Datum) 0 && tq_state_hooks.left != NULL &&
		(task->queue_before != queue->queue_id || key == (Datum) 0 ||
		 !DatumGetBool(DirectFunctionCall2Coll(texteq, C_COLLATION_OID, key,
											   task->key_before))))
		tq_state_hooks.left(call, tq_queue_by_id(task->queue_before),
							task->key_before);
}

/* Fill in a pending, blocked or suspended task, which no worker holds. */
static void
enter_live(TqTask *task, const TqMove *move, const TqMoveAnswer *answer,
		   TimestampTz now)
{
	task->f.claimed_at = DT_NOBEGIN;
	task->f.lease_until = DT_NOEND;
	task->f.worker_id = 0;
	task->f.claimed_by = 0;
	tq_task_clear(task, TQ_COL_WAKE_AT);
	tq_task_clear(task, TQ_COL_CANCEL_REQUESTED_AT);
	if (answer->to != TQ_STATE_SUSPENDED)
		tq_task_clear(task, TQ_COL_SUSPENDED_AT);
	else if (task->isnull[TQ_COL_SUSPENDED_AT])
		tq_task_set(task, TQ_COL_SUSPENDED_AT,
					TimestampTzGetDatum(tq_clock_wall()));
	if (answer->to == TQ_STATE_PENDING)
	{
		task->i.run_at = move->due_at != 0 ? move->due_at : now;
		task->f.available_at = task->i.run_at;
		if (task->i.run_at > now)
			tq_task_set(task, TQ_COL_WAKE_AT,
						TimestampTzGetDatum(task->i.run_at));
		return;
	}
	if (move->due_at != 0)
		task->i.run_at = move->due_at;
	if (answer->waits)
		task->f.flags |= TQ_FLAG_IN_LINE;
	task->f.available_at = DT_NOEND;
}

static void
enter_running(TqTask *task, const TqMove *move)
{
	task->f.token = tq_id_next_token(task->f.task_id, task->f.token);
	/* it may have any number of them */
	if (task->f.attempt < PG_INT32_MAX)
		task->f.attempt++;
	task->f.claimed_at = move->claimed_at;
	task->f.worker_id = move->worker_id;
	/* a claim does not wait, so it may leave out a new role */
	task->f.claimed_by = tq_step_is(task) ? tq_role_intern_now(GetUserId())
										  : 0;
	task->f.lease_until = move->lease_until;
}

/* Rank outcomes by how bad they are: failure, suspension, filter, success. */
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

	if (TQ_STATE_IS_LIVE(task->f.state))
	{
		tq_large_plan(task);
		if (was_live)
		{
			if (!tq_row_update(call, task, !move->no_wait))
				return false;
			tq_large_write(task);
			return true;
		}
		if (!tq_row_insert(call, task, !task->isnull[TQ_COL_REFERENCE],
						   &holder, &holder_state))
			tq_error_reference_exists(
				TextDatumGetCString(task->value[TQ_COL_REFERENCE]), holder,
				holder_state);
		tq_large_write(task);
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
	else if (task->i.large != 0 || task->large_dropped != 0)
		tq_large_remove_all(task->f.task_id);
	return true;
}

/*
 * Count a task that waits for another attempt, or no longer does.  Call this
 * before its new position is noted.
 */
static void
note_retry(const TqTask *task, int32 queue_id)
{
	if (task->was_retry)
		tq_count_note_retry(task->place.queue_id, -1);
	if (task->f.state == TQ_STATE_PENDING && task->f.attempt > 0)
		tq_count_note_retry(queue_id, 1);
}

/*
 * Record what the end of the transaction must publish in shared memory;
 * held_by is the worker that a running task had.
 */
static void
note_intents(const TqQueue *queue, TqTask *task, TqState from, int32 held_by)
{
	tq_position_note_put(task);
	if (task->f.state == TQ_STATE_RUNNING)
	{
		TqRunning running;

		running.task_id = task->f.task_id;
		running.token = task->f.token;
		running.version = task->f.version;
		running.due_at = tq_state_running_until(queue, task);
		running.claimed_at = task->f.claimed_at;
		running.worker_id = task->f.worker_id;
		running.queue_id = task->f.queue_id;
		running.tid = task->tid;
		tq_xact_running(&running);
	}
	else if (from == TQ_STATE_RUNNING)
		tq_xact_stopped(task->f.task_id, task->f.version, task->f.queue_id,
						held_by);
	if (from == TQ_STATE_RUNNING && queue->options.notify &&
		queue->options.max_running > 0)
		tq_xact_note(TQ_NOTE_NOTIFY, queue->queue_id);
	if (!TQ_STATE_IS_LIVE(task->f.state))
		tq_xact_ended(task->f.task_id, (TqState) task->f.state);
	if (task->f.state == TQ_STATE_PENDING && !task->isnull[TQ_COL_WAKE_AT])
		tq_xact_due(task->i.run_at);
}
