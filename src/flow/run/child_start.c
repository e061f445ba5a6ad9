/*
 * child_start.c
 *		Starts an instance for a step of another one.
 *
 * The child takes priority, role, correlation id and headers from the outer
 * instance; the role that started the outer instance needs the rights on the
 * child's queues.  Errors (no such workflow, invalid input, nesting too deep)
 * make the step dead, since there is no caller to report them to.
 *
 * The step's transaction holds locks of the outer instance.  It therefore does
 * not wait for a transaction that takes or gives up the same identity, or
 * creates a queue: the row is added in a savepoint with a lock_timeout of 10
 * ms, and if that fails the step gets a timer, and a duty tries again
 * (step_timer.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/syscache.h"

#include "base/debug.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/subxact.h"
#include "cache/role.h"
#include "engine/state.h"
#include "flow/instance/flow.h"
#include "flow/instance/identity.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/child.h"
#include "flow/run/child_start.h"
#include "flow/run/key_preview.h"
#include "flow/run/start_workflow.h"
#include "flow/run/step_fill.h"
#include "flow/run/wait_step.h"
#include "store/row.h"
#include "store/snapshot.h"

static TqStmt stmt_leave = {"UPDATE taskq.workflow SET parent_task_id = NULL"
							" WHERE parent_task_id = $1",
							{INT8OID}};

/* A row to be added without waiting. */
typedef struct Adding
{
	TqFlow            *child;
	const TqBeginning *beginning;
	Jsonb             *identity;
	int64              holder; /* instance that has the identity */
} Adding;

static void  leave(int64 task_id);
static void  start(TqCall *call, TqFlow *flow, const TqStep *step,
				   const TqTask *task);
static bool  add_row(TqFlow *child, const TqBeginning *beginning,
					 int64 *holder);
static void  add_alone(void *arg);
static char *prepare(TqFlow *flow, const TqStep *step, TqFlow *child,
					 TqBeginning *beginning);
static char *missing_right(const TqFlow *child);
static bool  may_submit(Oid role, const char *name);
static void  reject_step(TqCall *call, int64 task_id, const char *wrong);

/*
 * A step begins to wait in this call.  If it already has a child that is live
 * or completed, the child is kept; if the child has failed, a new child is
 * started.
 */
void
tq_child_begin(TqCall *call, TqFlow *flow, int64 task_id)
{
	const TqStep *step;
	TqTask        task;
	TqFlow        child;

	tq_snapshot_renew();
	if (!tq_row_find(call, task_id, &task) || !tq_waiting_step_is(&task))
		return;
	step =
		&flow->template
			 ->steps[TQ_STEP_INDEX(DatumGetInt32(task.value[TQ_COL_STEP_ID]))];
	if (!tq_flow_find_child(task_id, &child) || child.state == TQ_FLOW_ERROR ||
		child.state == TQ_FLOW_CANCELLED)
		start(call, flow, step, &task);
	else if (tq_flow_has_ended(&child))
		tq_child_end_step(call, task_id, &child);
}

/* Detach a failed child from its step. */
static void
leave(int64 task_id)
{
	Datum arg = Int64GetDatum(task_id);

	tq_spi_execute(&stmt_leave, &arg, NULL, SPI_OK_UPDATE);
}

static void
start(TqCall *call, TqFlow *flow, const TqStep *step, const TqTask *task)
{
	int64       task_id = task->f.task_id;
	TqFlow      child = {0};
	TqBeginning beginning = {0};
	char       *wrong = prepare(flow, step, &child, &beginning);

	if (wrong == NULL)
	{
		int64 holder;

		child.parent_task_id = task_id;
		beginning.parent_id = flow->workflow_id;
		if (!add_row(&child, &beginning, &holder))
		{
			leave(task_id);
			tq_wait_step_again(task);
		}
		else if (holder == 0)
			tq_start_workflow_steps(call, &child);
		else
			wrong = psprintf(
				"workflow \"%s\" has already been started as workflow " INT64_FORMAT,
				step->wait->name, holder);
	}
	if (wrong != NULL)
		reject_step(call, task_id, wrong);
}

/*
 * Add the row of the child.  Returns false if another transaction is about to
 * take or give up its identity, or to create a queue of its steps.
 */
static bool
add_row(TqFlow *child, const TqBeginning *beginning, int64 *holder)
{
	Jsonb     *identity = tq_identity(child, beginning->key);
	Adding     adding = {child, beginning, identity, 0};
	ErrorData *error;

	if (identity == NULL &&
		tq_start_workflow_missing_queue(child->template) == NULL)
	{
		*holder = tq_start_workflow_row(child, beginning, NULL);
		return true;
	}
	if (identity != NULL && tq_identity_is_busy(identity))
		return false;
	TQ_DEBUG_POINT("identity_free");
	error = tq_subxact_run(add_alone, &adding);
	if (error != NULL && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
		error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED)
		ReThrowError(error);
	if (error != NULL)
	{
		FreeErrorData(error);
		return false;
	}
	*holder = adding.holder;
	return true;
}

static void
add_alone(void *arg)
{
	Adding *adding = arg;
	int     level = tq_subxact_limit_waits();

	tq_start_workflow_queues(adding->child->template, true);
	adding->holder = tq_start_workflow_row(adding->child, adding->beginning,
										   adding->identity);
	AtEOXact_GUC(true, level);
}

/*
 * Prepare the child.  Returns NULL, or the reason why it cannot be started,
 * which makes the step dead.
 */
static char *
prepare(TqFlow *flow, const TqStep *step, TqFlow *child,
		TqBeginning *beginning)
{
	const TqWaitDefinition *wait = step->wait;
	const char             *missing = NULL;
	int                     largest;
	char                   *wrong;

	if (flow->depth >= TQ_MAX_NESTING)
		return psprintf("workflows are nested more than %d deep",
						TQ_MAX_NESTING);
	child->template = tq_key_preview_template(wait);
	if (child->template == NULL)
		return psprintf("workflow \"%s\" is not defined", wait->name);
	child->depth = flow->depth + 1;
	child->start.started_by = flow->start.started_by;
	child->start.has_priority = flow->start.has_priority;
	child->start.priority = flow->start.priority;
	child->start.correlation_id = flow->start.correlation_id;
	child->start.headers = flow->start.headers;
	child->start.input = flow->start.input;
	child->start.run_at = flow->start.run_at;
	beginning->parent_correlation_id = flow->start.correlation_id;
	wrong = missing_right(child);
	if (wrong != NULL)
		return wrong;
	if (!tq_guc_auto_create_queues)
		missing = tq_start_workflow_missing_queue(child->template);
	if (missing != NULL)
		return psprintf("queue \"%s\" does not exist", missing);
	if (wait->input != NULL &&
		!tq_step_fill(flow, step, wait->input, &child->start.input, &wrong))
		return psprintf("input: %s", wrong);
	largest = tq_start_workflow_largest_input(child->template);
	if (VARSIZE(child->start.input) > largest)
		return psprintf("input of %u bytes exceeds the limit of %d bytes",
						VARSIZE(child->start.input), largest);
	wrong = tq_start_workflow_wrong_input(child);
	if (wrong != NULL)
		return psprintf("invalid input: %s", wrong);
	if (wait->key != NULL)
	{
		if (!tq_wait_step_word(flow, step, wait->key, &beginning->key, &wrong))
			return psprintf("key: %s", wrong);
		if (!tq_arg_word_is_valid(beginning->key, TQ_MAX_KEY))
			return psprintf("key: must have 1 to %d bytes, and no control "
							"characters",
							TQ_MAX_KEY);
	}
	else if (child->template->identity == TQ_IDENTITY_KEY)
		return psprintf("workflow \"%s\" requires a key", wait->name);
	return NULL;
}

/* Rights of the role that started the outer instance. */
static char *
missing_right(const TqFlow *child)
{
	Oid role = tq_role_oid(child->start.started_by);

	for (int i = 0; i < child->template->step_count; i++)
	{
		const TqStep *step = &child->template->steps[i];
		const TqStep *compensate = step->compensate;
		const char   *name = NULL;

		if (!may_submit(role, step->queue))
			name = step->queue;
		else if (compensate != NULL && !may_submit(role, compensate->queue))
			name = compensate->queue;
		if (name != NULL)
			return psprintf(
				"the role that started the workflow has no privilege \"submit\" "
				"on queue \"%s\"",
				name);
	}
	return NULL;
}

static bool
may_submit(Oid role, const char *name)
{
	TqQueue *queue = tq_queue_find(name);
	int      rights = 0;

	/* a dropped role has no rights */
	if (SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		rights = queue != NULL ? tq_role_rights_of(role, queue)
							   : tq_role_rights_all_of(role);
	return (rights & TQ_RIGHT_SUBMIT) != 0;
}

static void
reject_step(TqCall *call, int64 task_id, const char *wrong)
{
	TqMove   move = {0};
	TqTask   task;
	TqFlow   child;
	TqQueue *queue;

	tq_snapshot_renew();
	if (!tq_row_find(call, task_id, &task) ||
		(queue = tq_queue_by_id(task.f.queue_id)) == NULL)
		return;
	/* the step has no instance to wait for */
	if (!tq_flow_find_child(task_id, &child))
		task.f.flags &= ~TQ_FLAG_WAITED;
	tq_step_fill_reject(&task, &move, wrong);
	move.wanted = "reject";
	(void) tq_state_enter(call, queue, &task, &move);
	TQ_DEBUG_POINT("child_rejected");
}
