/*
 * operation.c
 *		taskq_manage_where: begin an operation on all tasks that match a
 *		filter.  taskq_pause_operation, taskq_resume_operation,
 *		taskq_cancel_operation.
 *
 * The background worker carries operations out (operation_run.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/guc.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "command/manage_many.h"
#include "engine/call.h"
#include "engine/id.h"
#include "operation/operation_row.h"
#include "operation/operation_set.h"
#include "operation/operation_sweep.h"
#include "query/task_filter_read.h"
#include "shared/shmem.h"

#define MAX_LIVE 1000 /* operations that have not ended */

/*
 * More savepoints than the server keeps in memory for one transaction make
 * snapshots of other sessions more expensive: a default below this number.
 */
#define DEFAULT_BATCH 50
#define MAX_BATCH 1000

PG_FUNCTION_INFO_V1(taskq_manage_where);
PG_FUNCTION_INFO_V1(taskq_pause_operation);
PG_FUNCTION_INFO_V1(taskq_resume_operation);
PG_FUNCTION_INFO_V1(taskq_cancel_operation);

static void read_arguments(FunctionCallInfo fcinfo, TqOperation *op);
static void check_room(void);
static bool change_state(FunctionCallInfo fcinfo, const char *function,
						 TqOperationState to);
static void require_owner(const TqOperation *op);

Datum
taskq_manage_where(PG_FUNCTION_ARGS)
{
	TqOperation op = {0};
	TqQueue    *queue;
	TqCall      call;

	read_arguments(fcinfo, &op);
	tq_call_begin(&call, "taskq_manage_where()");
	if (strcmp(op.queue, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	queue = tq_queue_find(op.queue);
	if (queue == NULL)
		tq_error_no_such_queue(op.queue);
	tq_role_require(queue, TQ_RIGHT_MANAGE);
	op.queue_id = queue->queue_id;
	tq_operation_set_check(&op);
	op.filter = tq_task_filter_fix_times(op.filter);
	if (!tq_shmem_ready())
		tq_error_not_preloaded("taskq_manage_where()");
	check_room();
	op.role_id = tq_role_intern(GetUserId());
	op.system_id = (int64) GetSystemIdentifier();
	op.last_id = tq_id_next();
	op.called_at = tq_clock_wall();
	op.called_at_dispatch = tq_clock_dispatch();
	(void) tq_operation_row_add(&op);
	tq_call_end(&call);
	PG_RETURN_INT64(op.operation_id);
}

static void
read_arguments(FunctionCallInfo fcinfo, TqOperation *op)
{
	op->action = tq_manage_many_read_action(fcinfo, 0);
	op->action_word = tq_arg_keyword(fcinfo, 0, "action");
	op->queue = tq_arg_name(fcinfo, 1, "queue", NULL);
	op->filter = tq_arg_jsonb(fcinfo, 2);
	op->reason = tq_arg_message(fcinfo, 3);
	op->dry_run = tq_arg_bool(fcinfo, 4, false);
	op->batch_size = PG_ARGISNULL(5) ? DEFAULT_BATCH : PG_GETARG_INT32(5);
	if (op->batch_size < 1 || op->batch_size > MAX_BATCH)
		tq_error_invalid("batch_size",
						 psprintf("must be from 1 to %d", MAX_BATCH), NULL);
	op->actor = tq_guc_actor_text();
}

/* Keep the number of operations bounded. */
static void
check_room(void)
{
	if (tq_operation_row_count_live() >= MAX_LIVE)
		ereport(
			ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many operations that have not ended"),
			 errdetail("There can be at most %d of them.", MAX_LIVE),
			 errhint(
				 "Wait until some have ended, or cancel some with taskq_cancel_operation().")));
	(void) tq_operation_sweep(1);
}

Datum
taskq_pause_operation(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(
		change_state(fcinfo, "taskq_pause_operation()", TQ_OPERATION_PAUSED));
}

Datum
taskq_resume_operation(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(change_state(fcinfo, "taskq_resume_operation()",
								TQ_OPERATION_RUNNING));
}

Datum
taskq_cancel_operation(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(change_state(fcinfo, "taskq_cancel_operation()",
								TQ_OPERATION_CANCELLED));
}

/*
 * Wait for the batch that runs, and change the state of the operation.
 * Returns false if it has ended.
 */
static bool
change_state(FunctionCallInfo fcinfo, const char *function,
			 TqOperationState to)
{
	int64       operation_id = tq_arg_int8(fcinfo, 0, "operation_id");
	TqOperation op;
	TqCall      call;
	bool        live;

	tq_call_begin(&call, function);
	if (!tq_operation_row_find(operation_id, &op))
		ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
						errmsg("operation " INT64_FORMAT " does not exist",
							   operation_id),
						errhint("See the view taskq.operations.")));
	require_owner(&op);
	if (to == TQ_OPERATION_RUNNING && !tq_shmem_ready())
		tq_error_not_preloaded(function);
	live = !TQ_OPERATION_HAS_ENDED(&op);
	if (live && to != TQ_OPERATION_RUNNING)
	{
		op.state = to;
		op.due_at = DT_NOEND;
		tq_operation_row_write(&op, false);
	}
	else if (live && op.state == TQ_OPERATION_PAUSED)
	{
		op.state = op.position == PG_INT64_MIN ? TQ_OPERATION_PENDING
											   : TQ_OPERATION_RUNNING;
		op.due_at = tq_clock_dispatch();
		op.tries = 0;
		op.waits = 0;
		tq_operation_row_write(&op, false);
	}
	tq_call_end(&call);
	return live;
}

/* Raise 42501 unless the caller may change the operation. */
static void
require_owner(const TqOperation *op)
{
	Oid      owner = tq_role_oid(op->role_id);
	TqQueue *queue = tq_queue_by_id(op->queue_id);
	int rights = queue == NULL ? tq_role_rights_all() : tq_role_rights(queue);

	if ((rights & TQ_RIGHT_MANAGE) == 0 &&
		!(OidIsValid(owner) && has_privs_of_role(GetUserId(), owner)))
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for operation " INT64_FORMAT,
					op->operation_id),
			 errhint(
				 "It needs the privileges of the role that began the operation, or the right manage on its queue.")));
}
