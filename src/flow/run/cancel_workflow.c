/*
 * cancel_workflow.c
 *		taskq_cancel_workflow: an instance ends by hand.
 *
 * Its steps are seen to in the order of their numbers, as their own ends do,
 * and its row last, so that nobody waits in a ring.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/spi.h"
#include "command/manage.h"
#include "engine/key.h"
#include "flow/instance/flow.h"
#include "flow/run/key_preview.h"

PG_FUNCTION_INFO_V1(taskq_cancel_workflow);

/*
 * In one look, and sorted here: a plan that goes from one to the next finds
 * it by the wrong index while nothing is known of the table.
 */
static TqStmt stmt_steps = {"SELECT task_id FROM taskq.task"
							" WHERE workflow_id = $1 AND step_id >= 0",
							1,
							{INT8OID},
							NULL,
							true};

static TqStmt stmt_message = {
	"UPDATE taskq.workflow SET message = $2 WHERE workflow_id = $1",
	2,
	{INT8OID, TEXTOID},
	NULL,
	true};

static void   has_ended(const TqFlow *flow) pg_attribute_noreturn();
static int64 *find_steps(int64 workflow_id, int64 after, int *count);
static bool   cancel_step(TqCall *call, int64 task_id, char *message);

Datum
taskq_cancel_workflow(PG_FUNCTION_ARGS)
{
	int64  workflow_id = tq_arg_int8(fcinfo, 0, "workflow_id");
	char  *message = tq_arg_message(fcinfo, 1);
	bool   requested;
	TqFlow flow;
	TqCall call;

	tq_call_begin(&call, "taskq_cancel_workflow()");
	if (!tq_flow_read(workflow_id, &flow))
		tq_flow_missing(workflow_id);
	tq_flow_require(&flow, TQ_RIGHT_MANAGE, true);
	(void) tq_gate_pass(&call, &flow, NULL, TQ_GATE_ALONE);
	tq_ahead_note_cancel(&call, &flow);
	tq_key_lock_names(&call, NULL, 0);
	call.gated = true;
	if (!tq_flow_read(workflow_id, &flow))
		tq_flow_missing(workflow_id);
	if (flow.state != TQ_FLOW_LIVE && flow.state != TQ_FLOW_CANCELLED)
		has_ended(&flow);
	requested = tq_cancel(&call, &flow, message);
	if (flow.state != TQ_FLOW_CANCELLED)
		has_ended(&flow);
	if (flow.ended)
		tq_child_ended(&call, &flow);
	tq_call_end(&call);
	PG_RETURN_TEXT_P(cstring_to_text(requested ? "requested" : "cancelled"));
}

/*
 * Cancel an instance whose lock is had; flow->state says what has become of
 * it: its last step may have ended while it was waited for.  True: something
 * runs, and was asked to stop.
 */
bool
tq_cancel(TqCall *call, TqFlow *flow, char *message)
{
	int64  workflow_id = flow->workflow_id;
	int64 *ids;
	int64  last = 0;
	int    count;
	bool   requested = false;
	bool   gated = call->gated;
	Datum  args[2] = {Int64GetDatum(workflow_id)};
	TqSpi  spi;

	call->gated = true;
	/* also those that others have made meanwhile */
	while (ids = find_steps(workflow_id, last, &count), count > 0)
	{
		for (int i = 0; i < count; i++)
			requested |= cancel_step(call, ids[i], message);
		last = ids[count - 1];
		pfree(ids);
	}
	call->gated = gated;
	if (flow->state != TQ_FLOW_LIVE)
		return requested;
	if (!tq_flow_end(flow, TQ_FLOW_CANCELLED, NULL))
		(void) tq_flow_read(workflow_id, flow);
	else if (message != NULL)
	{
		args[1] = CStringGetTextDatum(message);
		tq_spi_enter(&spi);
		(void) tq_spi_run(&stmt_message, args, NULL, SPI_OK_UPDATE, 0);
		tq_spi_leave(&spi);
	}
	return requested;
}

/* TQ005.  What takes back what was done is not stopped halfway. */
static void
has_ended(const TqFlow *flow)
{
	int64 workflow_id = flow->workflow_id;

	if (flow->state == TQ_FLOW_COMPENSATING)
		ereport(ERROR,
				(errcode(ERRCODE_TQ_INVALID_TRANSITION),
				 errmsg("workflow " INT64_FORMAT
						" is compensating and cannot be cancelled",
						workflow_id),
				 errdetail("{\"workflow_id\": " INT64_FORMAT "}", workflow_id),
				 errhint("Cancel or resolve the task of its compensation.")));
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_INVALID_TRANSITION),
		 errmsg("workflow " INT64_FORMAT " has ended and cannot be cancelled",
				workflow_id),
		 errdetail("{\"workflow_id\": " INT64_FORMAT "}", workflow_id)));
}

/* Those with higher numbers, in their order. */
static int64 *
find_steps(int64 workflow_id, int64 after, int *count)
{
	Datum  arg = Int64GetDatum(workflow_id);
	int64 *ids;
	uint64 rows;
	int    kept = 0;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_steps, &arg, NULL, 0);
	ids = tq_spi_ids(&spi, rows, 1);
	tq_spi_leave(&spi);
	for (uint64 i = 0; i < rows; i++)
	{
		if (ids[i] > after)
			ids[kept++] = ids[i];
	}
	qsort(ids, kept, sizeof(int64), tq_order_int64);
	*count = kept;
	return ids;
}

/* True when it runs, or one of its child, and was asked to stop. */
static bool
cancel_step(TqCall *call, int64 task_id, char *message)
{
	bool requested = false;

	for (;;)
	{
		TqWish   wish = {TQ_ACTION_CANCEL};
		TqTask   task;
		TqQueue *queue;

		tq_call_snapshot();
		if (!tq_row_find(call, task_id, &task))
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
