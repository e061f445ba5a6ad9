/*
 * finish.c
 *		The end of an attempt: complete, fail, release, suspend, filter;
 *		and what a worker says while it holds a task.
 *
 * Every function takes (task_id, token) and raises TQ001 unless the task is
 * running under that token, seen with a fresh snapshot and written against
 * just that version of the row.  So a stale worker changes nothing, whatever
 * happens at the same time.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <math.h>

#include "common/pg_prng.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/spi.h"
#include "core/finish.h"
#include "core/large.h"
#include "core/role.h"
#include "core/submit.h"
#include "core/worker.h"
#include "shared/registry.h"
#include "shared/shmem.h"
#include "shared/slot.h"

PG_FUNCTION_INFO_V1(taskq_complete);
PG_FUNCTION_INFO_V1(taskq_fail);
PG_FUNCTION_INFO_V1(taskq_release);
PG_FUNCTION_INFO_V1(taskq_suspend);
PG_FUNCTION_INFO_V1(taskq_filter);
PG_FUNCTION_INFO_V1(taskq_extend);
PG_FUNCTION_INFO_V1(taskq_progress);
PG_FUNCTION_INFO_V1(taskq_checkpoint);

/* A task under its token, for the time of one call. */
typedef struct Held
{
	TqCall   call;
	int64    task_id;
	int64    token;
	TqQueue *queue;
	TqTask   task;
	int32    worker_id; /* who holds it: the call is a sign of life */
} Held;

static TqStmt stmt_add_error = {
	"SELECT coalesce((SELECT jsonb_agg(e.entry ORDER BY e.n)"
	"                   FROM jsonb_array_elements($1)"
	"                        WITH ORDINALITY AS e (entry, n)"
	"                  WHERE e.n > jsonb_array_length($1) - 9), '[]')"
	"    || jsonb_build_array(jsonb_strip_nulls(jsonb_build_object("
	"         'attempt', $2, 'at', $3, 'error', $4, 'worker', $6))"
	"       || CASE WHEN $5 IS NULL THEN '{}'"
	"               ELSE jsonb_build_object('detail', $5) END)",
	6,
	{JSONBOID, INT4OID, TIMESTAMPTZOID, TEXTOID, JSONBOID, TEXTOID},
	NULL};

static void   hold_begin(Held *held, FunctionCallInfo fcinfo,
						 const char *function);
static void   hold(Held *held);
static void   hold_again(Held *held);
static void   hold_end(Held *held);
static void   simple_end(FunctionCallInfo fcinfo, const char *function,
						 TqState to, const char *wanted);
static void   set_message(TqTask *task, const char *message);
static void   set_result(Held *held, Jsonb *result);
static bool   stop_was_asked(const TqTask *task);
static Datum  lease_and_cancel(FunctionCallInfo fcinfo, const Held *held);
static float4 read_progress(FunctionCallInfo fcinfo, int n);

Datum
taskq_complete(PG_FUNCTION_ARGS)
{
	Held   held;
	TqMove move = {0};
	Jsonb *result = tq_arg_jsonb(fcinfo, 2);

	move.to = TQ_STATE_DONE;
	move.wanted = "completed";
	move.trace = PG_ARGISNULL(3)     ? TQ_TRACE_BY_QUEUE
				 : PG_GETARG_BOOL(3) ? TQ_TRACE_KEEP
									 : TQ_TRACE_NONE;
	for (hold_begin(&held, fcinfo, "taskq_complete()");; hold_again(&held))
	{
		set_result(&held, result);
		if (tq_state_enter(&held.call, held.queue, &held.task, &move))
			break;
	}
	hold_end(&held);
	PG_RETURN_VOID();
}

Datum
taskq_fail(PG_FUNCTION_ARGS)
{
	Held   held;
	TqMove move;
	char  *error = tq_arg_message(fcinfo, 2);
	bool   retryable = tq_arg_bool(fcinfo, 3, true);
	int64  retry_in = tq_arg_span(fcinfo, 4, "retry_in", 0, -1);
	Jsonb *detail = tq_arg_jsonb(fcinfo, 5);

	if (error == NULL)
		tq_error_required("error");
	if (detail != NULL && VARSIZE(detail) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("detail", VARSIZE(detail), TQ_MAX_SMALL_DOC);
	for (hold_begin(&held, fcinfo, "taskq_fail()");; hold_again(&held))
	{
		memset(&move, 0, sizeof(move));
		tq_finish_add_error(&held.task, error, detail,
							tq_worker_name(held.task.f.worker_id));
		if (!retryable && !stop_was_asked(&held.task))
		{
			move.to = TQ_STATE_DEAD;
			move.reason = TQ_REASON_REJECTED;
			move.wanted = "failed";
		}
		else
			tq_finish_failed(held.queue, &held.task, &move,
							 TQ_REASON_EXHAUSTED, retry_in);
		if (tq_state_enter(&held.call, held.queue, &held.task, &move))
			break;
	}
	hold_end(&held);
	PG_RETURN_TEXT_P(
		cstring_to_text(tq_state_name((TqState) held.task.f.state)));
}

Datum
taskq_release(PG_FUNCTION_ARGS)
{
	Held   held;
	TqMove move;
	int64  delay = tq_arg_span(fcinfo, 2, "delay", 0, 0);
	char  *message = tq_arg_message(fcinfo, 3);
	Jsonb *result = tq_arg_jsonb(fcinfo, 4);

	for (hold_begin(&held, fcinfo, "taskq_release()");; hold_again(&held))
	{
		memset(&move, 0, sizeof(move));
		move.wanted = "released";
		move.to = stop_was_asked(&held.task) ? TQ_STATE_CANCELLED
											 : TQ_STATE_PENDING;
		if (delay > 0)
			move.due_at = tq_clock_dispatch() + delay;
		held.task.f.attempt = Max(held.task.f.attempt - 1, 0);
		set_message(&held.task, message);
		set_result(&held, result);
		if (tq_state_enter(&held.call, held.queue, &held.task, &move))
			break;
	}
	hold_end(&held);
	PG_RETURN_VOID();
}

Datum
taskq_suspend(PG_FUNCTION_ARGS)
{
	simple_end(fcinfo, "taskq_suspend()", TQ_STATE_SUSPENDED, "suspended");
	PG_RETURN_VOID();
}

Datum
taskq_filter(PG_FUNCTION_ARGS)
{
	simple_end(fcinfo, "taskq_filter()", TQ_STATE_FILTERED, "filtered");
	PG_RETURN_VOID();
}

Datum
taskq_extend(PG_FUNCTION_ARGS)
{
	Held  held;
	int64 lease = tq_arg_span(fcinfo, 2, "lease", 1, 0);

	for (hold_begin(&held, fcinfo, "taskq_extend()");; hold_again(&held))
	{
		TqTask *task = &held.task;

		if (lease > 0)
			task->f.lease_until = tq_clock_dispatch() + lease;
		else if (task->f.lease_until != DT_NOEND)
			task->f.lease_until = tq_clock_dispatch() +
								  held.queue->options.lease;
		else
			break; /* held as long as its worker lives */
		if (tq_state_touch(&held.call, held.queue, task))
			break;
	}
	hold_end(&held);
	return lease_and_cancel(fcinfo, &held);
}

Datum
taskq_progress(PG_FUNCTION_ARGS)
{
	Held   held;
	float4 progress = read_progress(fcinfo, 2);
	char  *message = tq_arg_message(fcinfo, 3);

	tq_shmem_require("taskq_progress()");
	hold_begin(&held, fcinfo, "taskq_progress()");
	if (message != NULL)
		message = tq_arg_cut(message, TQ_PROGRESS_MESSAGE);
	tq_registry_progress(held.task_id, held.token, progress, message);
	hold_end(&held);
	return lease_and_cancel(fcinfo, &held);
}

Datum
taskq_checkpoint(PG_FUNCTION_ARGS)
{
	Held   held;
	Jsonb *checkpoint = tq_arg_jsonb(fcinfo, 2);
	float4 progress = read_progress(fcinfo, 3);

	if (checkpoint == NULL)
		tq_error_required("checkpoint");
	for (hold_begin(&held, fcinfo, "taskq_checkpoint()");; hold_again(&held))
	{
		tq_submit_check_size(held.queue, "checkpoint", VARSIZE(checkpoint));
		tq_large_put(&held.task, TQ_COL_CHECKPOINT,
					 JsonbPGetDatum(checkpoint));
		if (tq_state_touch(&held.call, held.queue, &held.task))
			break;
	}
	tq_registry_progress(held.task_id, held.token, progress, NULL);
	hold_end(&held);
	return lease_and_cancel(fcinfo, &held);
}

/*
 * Note an error of the attempt that is ending; the last ten are kept.
 */
void
tq_finish_add_error(TqTask *task, const char *error, Jsonb *detail,
					const char *worker)
{
	TqSpi         spi;
	Datum         args[6];
	bool          nulls[6] = {false};
	Datum         errors;
	MemoryContext mine;
	bool          isnull;

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
	errors = tq_spi_get(0, 1, &isnull);
	mine = MemoryContextSwitchTo(spi.caller);
	errors = PointerGetDatum(PG_DETOAST_DATUM_COPY(errors));
	MemoryContextSwitchTo(mine);
	tq_spi_leave(&spi);
	tq_large_put(task, TQ_COL_ERRORS, errors);
}

/*
 * Where a failed attempt leads: cancelled when that was asked for, dead
 * when attempts are used up or the next would come after the deadline, else
 * another attempt after retry_in, or after the queue's backoff if that is
 * negative.
 */
void
tq_finish_failed(const TqQueue *queue, TqTask *task, TqMove *move,
				 TqReason last_reason, int64 retry_in)
{
	double chance = pg_prng_double(&pg_global_prng_state);

	move->wanted = "failed";
	if (stop_was_asked(task))
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
			tq_backoff_delay(&queue->options.backoff, task->f.attempt, chance);
	move->to = TQ_STATE_PENDING;
	move->due_at = tq_clock_dispatch() + retry_in;
	if (move->due_at > TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND))
	{
		move->to = TQ_STATE_DEAD;
		move->reason = TQ_REASON_DEADLINE;
	}
}

/*
 * Where it leads that a task lost its worker (worker_dead), its lease
 * (lease_expired) or its time (timeout).  The first two hand it out again
 * at once, but a second death waits its backoff; a timeout is a failure.
 */
void
tq_finish_lost(TqQueue *queue, TqTask *task, TqMove *move, TqReason reason)
{
	static const char *const words[] = {
		[TQ_REASON_WORKER_DEAD] = "the worker died",
		[TQ_REASON_LEASE_EXPIRED] = "the lease expired",
		[TQ_REASON_TIMEOUT] = "the time limit was exceeded"};
	int64 retry_in = 0;

	tq_finish_add_error(task, words[reason], NULL,
						tq_worker_name(task->f.worker_id));
	if (reason == TQ_REASON_TIMEOUT)
		retry_in = -1;
	else if (reason == TQ_REASON_WORKER_DEAD)
	{
		if (task->f.flags & TQ_FLAG_WORKER_DIED)
			retry_in = -1;
		task->f.flags |= TQ_FLAG_WORKER_DIED;
	}
	tq_finish_failed(queue, task, move, reason, retry_in);
}

/* suspend and filter */
static void
simple_end(FunctionCallInfo fcinfo, const char *function, TqState to,
		   const char *wanted)
{
	Held   held;
	TqMove move;
	char  *message = tq_arg_message(fcinfo, 2);

	for (hold_begin(&held, fcinfo, function);; hold_again(&held))
	{
		memset(&move, 0, sizeof(move));
		move.wanted = wanted;
		move.to = stop_was_asked(&held.task) ? TQ_STATE_CANCELLED : to;
		if (to == TQ_STATE_SUSPENDED)
			held.task.f.attempt = Max(held.task.f.attempt - 1, 0);
		set_message(&held.task, message);
		if (tq_state_enter(&held.call, held.queue, &held.task, &move))
			break;
	}
	hold_end(&held);
}

static void
hold_begin(Held *held, FunctionCallInfo fcinfo, const char *function)
{
	held->task_id = tq_arg_int8(fcinfo, 0, "task_id");
	held->token = tq_arg_int8(fcinfo, 1, "token");
	tq_call_begin(&held->call, function);
	hold(held);
}

/* Somebody changed the row: look again. */
static void
hold_again(Held *held)
{
	tq_call_snapshot();
	hold(held);
}

static void
hold_end(Held *held)
{
	tq_call_end(&held->call);
	tq_slot_beat(held->worker_id);
}

/*
 * Read the task; TQ001 unless it is running under the token, in the same
 * words for a caller without any right on its queue.
 */
static void
hold(Held *held)
{
	TqTask *task = &held->task;
	int     rights;

	TQ_DEBUG_POINT("finish_before_read");
	if (!tq_row_find(&held->call, held->task_id, task))
		tq_error_lease_lost(held->task_id);
	held->queue = tq_queue_by_id(task->f.queue_id);
	rights = held->queue == NULL ? 0 : tq_role_rights(held->queue);
	if (rights == 0)
		tq_error_lease_lost(held->task_id);
	if ((rights & TQ_RIGHT_WORK) == 0)
		tq_error_task_right(TQ_RIGHT_WORK);
	if (task->f.state != TQ_STATE_RUNNING || task->f.token != held->token)
		tq_error_lease_lost(held->task_id);
	held->worker_id = task->f.worker_id;
}

static void
set_message(TqTask *task, const char *message)
{
	if (message != NULL)
		tq_large_put(task, TQ_COL_MESSAGE, CStringGetTextDatum(message));
}

static void
set_result(Held *held, Jsonb *result)
{
	if (result == NULL)
		return;
	tq_submit_check_size(held->queue, "result", VARSIZE(result));
	tq_large_put(&held->task, TQ_COL_RESULT, JsonbPGetDatum(result));
}

static bool
stop_was_asked(const TqTask *task)
{
	return !task->isnull[TQ_COL_CANCEL_REQUESTED_AT];
}

/* (lease_until, cancel) */
static Datum
lease_and_cancel(FunctionCallInfo fcinfo, const Held *held)
{
	TupleDesc desc;
	Datum     values[2];
	bool      nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = TimestampTzGetDatum(held->task.f.lease_until);
	nulls[0] = held->task.f.lease_until == DT_NOEND;
	values[1] = BoolGetDatum(stop_was_asked(&held->task));
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* 0 to 1, or -1 for not given. */
static float4
read_progress(FunctionCallInfo fcinfo, int n)
{
	float4 progress;

	if (PG_ARGISNULL(n))
		return -1;
	progress = PG_GETARG_FLOAT4(n);
	if (isnan(progress) || progress < 0 || progress > 1)
		tq_error_invalid("progress", "must be from 0 to 1", NULL);
	return progress;
}
