/*
 * await.c
 *		Waiting for the end of a task: CALL taskq_await, CALL taskq_call, and
 *		the base of flow/view/await_workflow.c.
 *
 * Each check is a transaction of its own, which commits before the session
 * sleeps.  A sleeping session therefore holds no snapshot and does not hold
 * back vacuum.  For this reason these are procedures, which must be able to
 * commit; inside a transaction block, or in a transaction that has written,
 * they raise 25001.
 *
 * A transaction that ends a task reports the end at commit (shared/waiter.c),
 * including the task's final state, because the task may leave no other trace:
 * with retention none it is deleted.  If a task no longer exists and its end
 * was not reported, its final state is unknown, and NULL is returned.
 *
 * A standby receives no such reports, so a session there checks once a second.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/srf.h"
#include "command/await.h"
#include "command/submit.h"
#include "engine/wait.h"
#include "query/task_get.h"

#define STANDBY_PAUSE USECS_PER_SEC

PG_FUNCTION_INFO_V1(taskq_await);
PG_FUNCTION_INFO_V1(taskq_call);

/* Results, from the first INOUT argument that describes the outcome. */
typedef enum ResultColumn
{
	RESULT_STATE,
	RESULT_RESULT,
	RESULT_ERROR,
	RESULTS
} ResultColumn;

/* An awaited task and its outcome. */
typedef struct AwaitedTask
{
	TqAwait await; /* must be the first member: the check gets its address */
	TqTaskOutcome outcome;
} AwaitedTask;

static TqWaitResult look(TqWait *wait);
static void         enter(TqAwait *await);
static bool         look_at_task(TqAwait *await);
static Datum        make_row(FunctionCallInfo fcinfo, int64 task_id,
							 const TqTaskOutcome *outcome);

Datum
taskq_await(PG_FUNCTION_ARGS)
{
	AwaitedTask task = {{0}};
	int64       timeout;

	task.await.id = tq_arg_int8(fcinfo, 0, "task_id");
	task.await.look = look_at_task;
	timeout = tq_arg_length(fcinfo, 1, "timeout", 0, TQ_AWAIT_TIMEOUT);
	tq_wait_require_top_level(fcinfo, "taskq_await()");
	(void) tq_await_end(&task.await, timeout);
	return make_row(fcinfo, 0, &task.outcome);
}

/* Submit, commit, wait. */
Datum
taskq_call(PG_FUNCTION_ARGS)
{
	char       *queue = tq_arg_name(fcinfo, 0, "queue", NULL);
	Jsonb      *payload = tq_arg_jsonb(fcinfo, 1);
	AwaitedTask task = {{0}};
	int64       timeout;

	if (payload == NULL)
		tq_error_required("payload");
	if (PG_ARGISNULL(2))
		tq_error_required("timeout");
	timeout = tq_arg_length(fcinfo, 2, "timeout", 0, 0);
	tq_wait_require_top_level(fcinfo, "taskq_call()");
	task.await.id = tq_submit_plain(queue, payload);
	task.await.known = true;
	task.await.look = look_at_task;
	(void) tq_await_end(&task.await, timeout);
	return make_row(fcinfo, task.await.id, &task.outcome);
}

/*
 * Check, and sleep until the end of the task or instance is reported; this
 * session may have created it just now.  Returns false if time ran out.
 */
bool
tq_await_end(TqAwait *await, int64 timeout)
{
	TqWait       wait = {0};
	TqWaitResult answer;

	await->home = CurrentMemoryContext;
	wait.look = look;
	wait.arg = await;
	tq_wait_begin(&wait, timeout);
	wait.task_id = await->id;
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect_ext failed");
	answer = tq_wait_run(&wait);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	return answer == TQ_WAIT_FOUND;
}

/* Check once, and commit. */
static TqWaitResult
look(TqWait *wait)
{
	TqAwait *await = wait->arg;
	bool     ended;

	if (!await->entered)
		enter(await);
	ended = await->look(await);
	await->known = true;
	SPI_commit();
	if (RecoveryInProgress())
		wait->look_at = tq_clock_monotonic() + STANDBY_PAUSE;
	return ended ? TQ_WAIT_FOUND : TQ_WAIT_NO_TASK;
}

/* Register before the first check, since the task may end at any time. */
static void
enter(TqAwait *await)
{
	tq_waiter_begin_task(await->id);
	await->entered = true;
	if (!await->known)
		return;
	SPI_commit();
	TQ_DEBUG_POINT("call_submitted");
}

static bool
look_at_task(TqAwait *await)
{
	AwaitedTask  *task = (AwaitedTask *) await;
	TqTaskOutcome seen;
	bool          found = tq_task_get_outcome(await->id, &seen);
	MemoryContext mine;

	if (!found && !await->known)
		tq_error_no_such_task(await->id);
	if (!found)
		seen.state = (TqState) tq_waiter_ended();
	mine = MemoryContextSwitchTo(await->home);
	task->outcome = seen;
	if (seen.has_result)
		task->outcome.result =
			PointerGetDatum(PG_DETOAST_DATUM_COPY(seen.result));
	if (seen.has_error)
		task->outcome.error =
			PointerGetDatum(PG_DETOAST_DATUM_COPY(seen.error));
	MemoryContextSwitchTo(mine);
	return !found || !TQ_STATE_IS_LIVE(seen.state);
}

/* The INOUT arguments; the first one is the task's id, if it is given. */
static Datum
make_row(FunctionCallInfo fcinfo, int64 task_id, const TqTaskOutcome *outcome)
{
	int         first = task_id != 0 ? 1 : 0;
	const char *state = tq_state_name(outcome->state);
	Datum       values[1 + RESULTS] = {0};
	bool        nulls[1 + RESULTS] = {false};

	values[0] = Int64GetDatum(task_id);
	nulls[first + RESULT_STATE] = state == NULL;
	if (state != NULL)
		values[first + RESULT_STATE] = CStringGetTextDatum(state);
	nulls[first + RESULT_RESULT] = !outcome->has_result;
	values[first + RESULT_RESULT] = outcome->result;
	nulls[first + RESULT_ERROR] = !outcome->has_error;
	values[first + RESULT_ERROR] = outcome->error;
	return tq_srf_row(fcinfo, values, nulls);
}
