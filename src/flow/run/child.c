/*
 * child.c
 *		Ends of instances that a step of another instance waits for.
 *
 * A step of type workflow is suspended while the instance that was started for
 * it, its child, is live (child_start.c).  If it has had several children,
 * only the newest counts.  The transaction that ends the child also ends the
 * step, and a transaction that revives the child makes the step wait again.  A
 * step that is cancelled cancels its child, and with it the child's steps and
 * their children.
 *
 * A call that ends both the child and the step ends the child first, even if
 * it cancels the step, so that two calls do not wait for each other.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/compare.h"
#include "base/error.h"
#include "base/spi.h"
#include "command/manage.h"
#include "engine/call.h"
#include "engine/state.h"
#include "flow/instance/flow.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/child.h"
#include "flow/run/instance_lock.h"
#include "flow/run/step_fill.h"
#include "store/archive.h"
#include "store/large.h"
#include "store/row.h"
#include "store/snapshot.h"

static void decide_end(const TqFlow *child, const TqQueue *queue, TqTask *task,
					   TqMove *move);

/*
 * One scan, whose result is sorted here.  A plan that fetches the rows in
 * order would use the wrong index while the table has no statistics.
 */
static TqStmt stmt_steps = {"SELECT task_id FROM taskq.task"
							" WHERE workflow_id = $1 AND step_id >= 0",
							{INT8OID},
							.generic = true};

static TqStmt stmt_message = {
	"UPDATE taskq.workflow SET message = $2 WHERE workflow_id = $1",
	{INT8OID, TEXTOID},
	.generic = true};

static int64 *find_steps(int64 workflow_id, int64 after, int *count);
static bool   cancel_step(TqCall *call, int64 task_id, char *message);

/* An instance has ended in this call; end the step that waits for it. */
void
tq_child_ended(TqCall *call, const TqFlow *flow)
{
	TqFlow newest;

	if (flow->parent_task_id != 0 &&
		tq_flow_find_child(flow->parent_task_id, &newest) &&
		newest.workflow_id == flow->workflow_id)
		tq_child_end_step(call, flow->parent_task_id, flow);
}

/* A failed instance is live again; its step waits for it again. */
void
tq_child_revived(TqCall *call, const TqFlow *flow)
{
	TqMove   move = {0};
	TqTask   task;
	TqQueue *queue;
	TqFlow   newest;

	if (flow->parent_task_id == 0 ||
		!tq_flow_find_child(flow->parent_task_id, &newest) ||
		newest.workflow_id != flow->workflow_id)
		return;
	tq_snapshot_renew();
	if (!tq_archive_find(flow->parent_task_id, &task) ||
		task.f.state != TQ_STATE_DEAD ||
		task.f.reason != TQ_REASON_DEPENDENCY_FAILED ||
		(queue = tq_queue_by_id(task.f.queue_id)) == NULL)
		return;
	if (!tq_archive_take(&task))
		tq_error_serialization();
	move.to = TQ_STATE_SUSPENDED;
	move.wanted = "bring back";
	move.flow.released = true;
	if (!tq_state_enter(call, queue, &task, &move))
		tq_error_serialization();
}

/*
 * Cancel the child of a step that is about to be cancelled, if it has one.
 * Returns true if one of its tasks is running and was asked to stop.
 */
bool
tq_child_cancel(TqCall *call, int64 task_id)
{
	TqFlow child;

	check_stack_depth();
	if (!tq_flow_find_child(task_id, &child) || child.state != TQ_FLOW_LIVE)
		return false;
	tq_instance_lock_exclusive(child.workflow_id);
	return tq_flow_read(child.workflow_id, &child) &&
		   child.state == TQ_FLOW_LIVE &&
		   tq_child_cancel_instance(call, &child, NULL);
}

/* End the step if it still waits. */
void
tq_child_end_step(TqCall *call, int64 task_id, const TqFlow *child)
{
	for (;;)
	{
		TqMove   move = {0};
		TqTask   task;
		TqQueue *queue;

		CHECK_FOR_INTERRUPTS();
		tq_snapshot_renew();
		if (!tq_row_find_shown(call, task_id, &task) ||
			!tq_waiting_step_is(&task) ||
			(queue = tq_queue_by_id(task.f.queue_id)) == NULL)
			return;
		decide_end(child, queue, &task, &move);
		if (tq_state_enter(call, queue, &task, &move))
			return;
	}
}

/* The step takes over the result or the failure of its child. */
static void
decide_end(const TqFlow *child, const TqQueue *queue, TqTask *task,
		   TqMove *move)
{
	Jsonb *result = child->end.result;

	move->wanted = "end";
	if (child->state != TQ_FLOW_DONE && child->state != TQ_FLOW_RESOLVED)
	{
		tq_step_fill_reject(
			task, move,
			psprintf("workflow " INT64_FORMAT " %s", child->workflow_id,
					 child->state == TQ_FLOW_CANCELLED ? "was cancelled"
													   : "has failed"));
		move->reason = TQ_REASON_DEPENDENCY_FAILED;
		return;
	}
	if (result != NULL && (int64) VARSIZE(result) > queue->options.max_payload)
	{
		tq_step_fill_reject(task, move,
							psprintf("result of workflow " INT64_FORMAT
									 " of %u bytes exceeds the limit of %d "
									 "bytes",
									 child->workflow_id, VARSIZE(result),
									 queue->options.max_payload));
		return;
	}
	move->to = TQ_STATE_DONE;
	if (result != NULL)
		tq_large_put(task, TQ_COL_RESULT, JsonbPGetDatum(result));
}

/*
 * Cancel an instance that the caller has locked.  On return flow->state is its
 * new state: if its last step ended while this call waited, another
 * transaction may have ended the instance.  Returns true if one of its tasks
 * is running and was asked to stop.
 */
bool
tq_child_cancel_instance(TqCall *call, TqFlow *flow, char *message)
{
	int64  workflow_id = flow->workflow_id;
	int64 *ids;
	int64  last = 0;
	int    count;
	bool   requested = false;
	bool   locked = tq_call_steps_are_locked(call);
	Datum  args[2] = {Int64GetDatum(workflow_id)};

	tq_call_steps(call)->locked = true;
	/* includes steps that other transactions have created since */
	while (ids = find_steps(workflow_id, last, &count), count > 0)
	{
		for (int i = 0; i < count; i++)
			requested |= cancel_step(call, ids[i], message);
		last = ids[count - 1];
		pfree(ids);
	}
	tq_call_steps(call)->locked = locked;
	if (flow->state != TQ_FLOW_LIVE)
		return requested;
	if (!tq_flow_end(flow, TQ_FLOW_CANCELLED, NULL))
		(void) tq_flow_read(workflow_id, flow);
	else if (message != NULL)
	{
		args[1] = CStringGetTextDatum(message);
		tq_spi_execute(&stmt_message, args, NULL, SPI_OK_UPDATE);
	}
	return requested;
}

/* Returns the sorted task ids that are greater than after. */
static int64 *
find_steps(int64 workflow_id, int64 after, int *count)
{
	Datum  arg = Int64GetDatum(workflow_id);
	int64 *ids;
	uint64 rows;
	int    kept = 0;

	rows = tq_spi_list(&stmt_steps, &arg, &ids);
	for (uint64 i = 0; i < rows; i++)
	{
		if (ids[i] > after)
			ids[kept++] = ids[i];
	}
	qsort(ids, kept, sizeof(int64), tq_order_int64);
	*count = kept;
	return ids;
}

/*
 * Returns true if the task, or a task of its child instance, is running and
 * was asked to stop.
 */
static bool
cancel_step(TqCall *call, int64 task_id, char *message)
{
	bool requested = false;

	for (;;)
	{
		TqWish   wish = {TQ_ACTION_CANCEL};
		TqTask   task;
		TqQueue *queue;

		tq_snapshot_renew();
		if (!tq_row_find_shown(call, task_id, &task))
			return false;
		queue = tq_queue_by_id(task.f.queue_id);
		if (queue == NULL)
			return false;
		wish.message = message;
		requested |= task.f.state == TQ_STATE_SUSPENDED &&
					 tq_child_cancel(call, task_id);
		if (tq_manage_try(call, queue, &task, &wish))
			return requested || wish.requested;
	}
}
