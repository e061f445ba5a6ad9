/*
 * operation_run.c
 *		The duty that carries out operations on all tasks that match.
 *
 * One batch of one operation is one transaction, which also moves the position
 * of the operation behind the last task that it has processed.  So after a
 * crash no task is processed again, and none is left out.  Tasks are processed
 * in the order of their ids, and each as a list of one of taskq_manage_many(),
 * in a savepoint, with the rights of the role that began the operation; these
 * are checked in each batch.
 *
 * The duty does not wait long: a task that another transaction has locked ends
 * the batch, and is tried again after a pause.  An operation makes a limited
 * number of such pauses, and after them counts such tasks as refused, as it
 * does with all tasks that the action does not apply to.  Any other error is
 * tried again after longer pauses, and ends the operation if it persists.  So
 * does a batch that takes too long, as one whose filter has a jsonpath that
 * runs long: other duties wait for it.
 *
 * Operations take turns, batch by batch.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/subxact.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "command/manage_many.h"
#include "engine/call.h"
#include "engine/step_savepoint.h"
#include "operation/operation_run.h"
#include "operation/operation_set.h"

#define EXAMPLES 20                         /* of refused tasks */
#define BUSY_PAUSE (200 * INT64CONST(1000)) /* us */
#define MAX_WAITS 50                        /* such pauses of one operation */
#define MAX_TRIES 6                         /* failed batches in succession */
#define MAX_SECONDS 10                      /* of a batch */

/* A batch that runs. */
typedef struct Batch
{
	TqOperation     op;
	MemoryContext   context; /* of the operation's values */
	TqOperationPage page;
	int64           until;   /* monotonic clock */
	int             tasks;   /* processed */
	bool            stopped; /* before the end of the page */
} Batch;

/* One task. */
typedef struct Change
{
	TqOperation        *op;
	const TqTaskFilter *filter;
	TqWish              wish;
	TqTask              task; /* as it was found */
	TqTask              work;
} Change;

static void  run_batch(void *arg);
static char *find_reason(const TqOperation *op, Oid role);
static void  process_page(Batch *batch);
static bool  is_long_enough(const Batch *batch);
static bool  process_task(Batch *batch, int n);
static bool  survive(Batch *batch, int64 task_id, ErrorData *error);
static void  change_task(void *arg);
static bool  is_member_still(const TqTask *task, void *arg);
static void  refuse(Batch *batch, int64 task_id, int sqlstate);
static void  finish(TqOperation *op, TqOperationState state, char *error);
static void  name_time_limit(ErrorData *error, int64 begun);
static void  note_failure(TqOperation *op, const ErrorData *error);

/*
 * The duty: run one batch of the next operation in turn.  Returns the number
 * of batches.
 */
int64
tq_operation_run(int limit)
{
	static int64 last = 0;
	ErrorData   *error;
	Batch        batch = {0};
	TqOperation  before;
	TqCall       call;
	int64        acted = 0;
	int64        begun;
	/* a session that calls the duty may have a limit of its own */
	bool limited = !get_timeout_active(STATEMENT_TIMEOUT);

	tq_call_begin(&call, "taskq duties");
	if (tq_operation_row_due(last, tq_clock_dispatch(), &batch.op))
	{
		acted = 1;
		last = batch.op.operation_id;
		begun = tq_clock_monotonic();
		before = batch.op;
		if (limited)
			enable_timeout_after(STATEMENT_TIMEOUT, MAX_SECONDS * 1000);
		error = tq_subxact_run(run_batch, &batch);
		if (limited)
			disable_timeout(STATEMENT_TIMEOUT, false);
		tq_step_savepoint_set_alone(false);
		if (error != NULL)
		{
			if (limited)
				name_time_limit(error, begun);
			batch.op = before;
			note_failure(&batch.op, error);
		}
		tq_operation_row_write(&batch.op, true);
	}
	tq_call_end(&call);
	return acted;
}

/* When the duty must run again, on the dispatch clock. */
TimestampTz
tq_operation_run_next(void)
{
	return tq_operation_row_next_due();
}

static void
run_batch(void *arg)
{
	Batch       *batch = arg;
	TqOperation *op = &batch->op;
	Oid          role = tq_role_oid(op->role_id);
	int64        begun = tq_clock_monotonic();
	char        *reason = find_reason(op, role);
	Oid          user;
	int          context;

	op->error = NULL;
	op->state = TQ_OPERATION_RUNNING;
	if (reason != NULL)
	{
		finish(op, TQ_OPERATION_FAILED, reason);
		return;
	}
	batch->until = begun + TQ_OPERATION_SLICE;
	batch->context = CurrentMemoryContext;
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(role, context | SECURITY_LOCAL_USERID_CHANGE);
	tq_step_savepoint_set_alone(true);
	op->due_at = tq_clock_dispatch();
	process_page(batch);
	SetUserIdAndSecContext(user, context);
	TQ_FAULT_POINT("operation_batch");
	op->tries = 0;
	if (batch->page.last && !batch->stopped)
		finish(op, TQ_OPERATION_DONE, NULL);
}

/*
 * Why can the operation never continue?  Returns NULL if it can.  The rights
 * may have been revoked since the last batch.
 */
static char *
find_reason(const TqOperation *op, Oid role)
{
	TqQueue *queue = tq_queue_by_id(op->queue_id);

	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		return pstrdup("the role that began the operation does not exist");
	if (queue == NULL)
		return psprintf("queue \"%s\" does not exist", op->queue);
	if ((tq_role_rights_of(role, queue) & TQ_RIGHT_MANAGE) == 0)
		return psprintf("role \"%s\" has no right to manage queue \"%s\"",
						GetUserNameFromId(role, false), op->queue);
	return NULL;
}

static void
process_page(Batch *batch)
{
	TqOperation  *op = &batch->op;
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(mine, "taskq operation task",
											  ALLOCSET_DEFAULT_SIZES);

	tq_operation_set_page_begin(op, batch->until, &batch->page);
	op->examined += batch->page.examined;
	TQ_DEBUG_POINT("operation_found");
	for (int i = 0; i < batch->page.count && !batch->stopped; i++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		batch->stopped = is_long_enough(batch) || !process_task(batch, i);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(one);
		if (batch->stopped)
			break;
		op->position = batch->page.found[i].task_id;
		batch->tasks++;
	}
	if (!batch->stopped)
		op->position = batch->page.reached;
	tq_operation_set_page_end(&batch->page);
	MemoryContextDelete(one);
}

static bool
is_long_enough(const Batch *batch)
{
	return batch->tasks > 0 &&
		   (tq_clock_monotonic() >= batch->until ||
			(!batch->op.dry_run && batch->tasks >= batch->op.batch_size));
}

/* Returns false if the batch must end before this task. */
static bool
process_task(Batch *batch, int n)
{
	TqOperation *op = &batch->op;
	int64        task_id = batch->page.found[n].task_id;
	Change       change = {op, &batch->page.filter};
	ErrorData   *error;
	TqMembership member;

	if (!tq_operation_set_page_read(&batch->page, n, &change.task))
		return true;
	member = tq_operation_set_judge(op, &change.task);
	if (member == TQ_MEMBER_NO)
		return true;
	op->counted++;
	if (member == TQ_MEMBER_UNKNOWN)
		refuse(batch, task_id, ERRCODE_T_R_SERIALIZATION_FAILURE);
	if (member == TQ_MEMBER_UNKNOWN || op->dry_run)
		return true;
	change.wish.action = op->action;
	change.wish.in_bulk = true;
	change.wish.message = op->reason;
	change.wish.still = is_member_still;
	change.wish.arg = &change;
	error = tq_subxact_run(change_task, &change);
	if (error != NULL)
		return survive(batch, task_id, error);
	if (change.wish.skipped)
		op->counted--;
	else
		op->done++;
	return true;
}

/*
 * A task was not changed because of an error.  Count it as refused, or return
 * false if it must be tried again.
 */
static bool
survive(Batch *batch, int64 task_id, ErrorData *error)
{
	TqOperation *op = &batch->op;
	int          sqlstate = error->sqlerrcode;
	int          category = ERRCODE_TO_CATEGORY(sqlstate);
	bool         busy = category == ERRCODE_TRANSACTION_ROLLBACK ||
				sqlstate == ERRCODE_LOCK_NOT_AVAILABLE;

	if (category == ERRCODE_OPERATOR_INTERVENTION)
		ReThrowError(error);
	if (busy && op->waits < MAX_WAITS)
	{
		op->waits++;
		op->counted--;
		op->due_at = tq_clock_dispatch() + BUSY_PAUSE;
		return false;
	}
	if (!busy && !tq_manage_many_is_problem(sqlstate))
	{
		if (batch->tasks == 0)
			ReThrowError(error);
		/* keep what has been done; the next batch meets the error first */
		op->counted--;
		return false;
	}
	refuse(batch, task_id, sqlstate);
	return true;
}

static void
change_task(void *arg)
{
	Change     *change = arg;
	const char *actor = change->op->actor == NULL ? "" : change->op->actor;
	int         level = tq_subxact_limit_waits();

	/* also without one: this session may claim another */
	(void) set_config_option("taskq.actor", actor, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	/* its values change, and is_member_still() compares with those found */
	change->work = change->task;
	tq_manage_many_one(&change->work, &change->wish);
	AtEOXact_GUC(true, level);
}

/*
 * Is the task, as the change has read it, still one of the operation?  It is
 * if it has not changed since it was found.
 */
static bool
is_member_still(const TqTask *task, void *arg)
{
	Change *change = arg;
	TqTask  again;

	if (task->f.version == change->task.f.version &&
		task->f.state == change->task.f.state &&
		task->archived == change->task.archived)
		return true;
	if (!tq_operation_set_find(change->filter, task->f.task_id, &again) ||
		tq_operation_set_judge(change->op, &again) != TQ_MEMBER_YES)
		return false;
	/* if it has changed again, its write fails, and this is called again */
	change->task = again;
	return true;
}

static void
refuse(Batch *batch, int64 task_id, int sqlstate)
{
	TqOperation  *op = &batch->op;
	MemoryContext mine = MemoryContextSwitchTo(batch->context);

	op->refused++;
	if (op->refused <= EXAMPLES)
	{
		char *text = psprintf("[{\"task_id\": " INT64_FORMAT
							  ", \"error_code\": \"%s\"}]",
							  task_id, unpack_sql_state(sqlstate));

		op->examples = DatumGetJsonbP(DirectFunctionCall2(
			jsonb_concat, JsonbPGetDatum(op->examples),
			DirectFunctionCall1(jsonb_in, CStringGetDatum(text))));
	}
	MemoryContextSwitchTo(mine);
}

static void
finish(TqOperation *op, TqOperationState state, char *error)
{
	op->state = state;
	op->due_at = DT_NOEND;
	op->error = error;
	ereport(LOG,
			(errmsg("taskq: operation " INT64_FORMAT
					" (%s tasks of queue \"%s\") %s",
					op->operation_id, op->action_word, op->queue,
					state == TQ_OPERATION_DONE ? "is done" : "has failed"),
			 errdetail_log("Changed " INT64_FORMAT
						   " tasks, refused " INT64_FORMAT ".",
						   op->done, op->refused)));
}

/* If a batch was cancelled by its time limit, that is an error of its own. */
static void
name_time_limit(ErrorData *error, int64 begun)
{
	if (error->sqlerrcode != ERRCODE_QUERY_CANCELED ||
		tq_clock_monotonic() - begun < MAX_SECONDS * USECS_PER_SEC)
		return;
	error->sqlerrcode = ERRCODE_PROGRAM_LIMIT_EXCEEDED;
	error->message =
		psprintf("a batch has taken longer than %d s", MAX_SECONDS);
}

/* A batch has failed: try it again later, or give up. */
static void
note_failure(TqOperation *op, const ErrorData *error)
{
	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
		ERRCODE_OPERATOR_INTERVENTION)
		ReThrowError((ErrorData *) error);
	op->state = TQ_OPERATION_RUNNING;
	op->tries++;
	if (op->tries >= MAX_TRIES ||
		error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE)
		finish(op, TQ_OPERATION_FAILED, error->message);
	else
	{
		op->error = error->message;
		op->due_at = tq_clock_dispatch() + (USECS_PER_SEC << (op->tries - 1));
	}
}
