/*
 * step_savepoint.c
 *		Workflow steps moved by a duty, each in a savepoint of its own.
 *
 * The consequences of the end of a step may have to wait for another
 * transaction, which is about to end the last other parent of a child.  A duty
 * does not wait for open transactions: instead it rolls the savepoint back,
 * and retries later.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/guc.h"
#include "utils/timestamp.h"

#include "base/subxact.h"
#include "engine/call.h"
#include "engine/step_savepoint.h"

/* How often repeated errors are logged. */
#define LOG_PAUSE (10 * USECS_PER_SEC)

/* A move in a savepoint. */
typedef struct Alone
{
	TqStepMove move;
	void      *arg;
	bool       moved;
} Alone;

static bool is_alone = false;

static void move_alone(void *arg);
static void survive(ErrorData *error);

/*
 * Move a step for a duty, with its consequences.  Returns false, without any
 * effect, if the step was not moved.  Sets *busy if the reason is that the
 * move would have to wait for another transaction, or that an error occurred.
 */
bool
tq_step_savepoint_run(TqStepMove move, void *arg, bool *busy)
{
	Alone      alone = {move, arg};
	ErrorData *error;

	is_alone = true;
	error = tq_subxact_run(move_alone, &alone);
	is_alone = false;
	if (error == NULL)
		return alone.moved;
	if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		survive(error);
	FreeErrorData(error);
	*busy = true;
	return false;
}

/*
 * An error in one workflow must not keep the duty from all others: it is
 * retried later, like a busy one.  Rethrow if the transaction itself or the
 * session must end.
 */
static void
survive(ErrorData *error)
{
	static TimestampTz last = 0;
	TimestampTz        now = GetCurrentTimestamp();
	int                category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	if (category == ERRCODE_OPERATOR_INTERVENTION ||
		category == ERRCODE_TRANSACTION_ROLLBACK)
		ReThrowError(error);
	if (now >= last && now - last < LOG_PAUSE)
		return;
	last = now;
	ereport(
		LOG,
		(errcode(error->sqlerrcode),
		 errmsg("taskq: could not advance a workflow step, "
				"will retry: %s",
				error->message),
		 error->detail == NULL ? 0 : errdetail_internal("%s", error->detail)));
}

static void
move_alone(void *arg)
{
	Alone *alone = arg;
	int    level = tq_subxact_limit_waits();
	TqCall call;

	tq_call_begin(&call, "taskq duties");
	alone->moved = alone->move(&call, alone->arg);
	tq_call_end(&call);
	AtEOXact_GUC(true, level);
}

/*
 * Do not wait for other transactions in moves of steps that the caller makes
 * in a savepoint of its own; it calls this again, after an error too.
 */
void
tq_step_savepoint_set_alone(bool alone)
{
	is_alone = alone;
}

/* Called before a wait for another transaction: a duty does not wait. */
void
tq_step_savepoint_check_wait(void)
{
	if (is_alone)
		ereport(
			ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg(
				 "could not lock workflow: another transaction is modifying it")));
}
