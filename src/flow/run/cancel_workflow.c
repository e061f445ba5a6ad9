/*
 * cancel_workflow.c
 *		taskq_cancel_workflow: cancels an instance.
 *
 * Its steps are cancelled in the order of their ids, as when they end by
 * themselves, and its row is changed last, so that no deadlock is possible.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/error.h"
#include "engine/call.h"
#include "engine/key.h"
#include "flow/instance/flow.h"
#include "flow/run/cancel_workflow.h"
#include "flow/run/child.h"
#include "flow/run/instance_lock.h"
#include "flow/run/key_preview.h"

PG_FUNCTION_INFO_V1(taskq_cancel_workflow);

static void has_ended(const TqFlow *flow) pg_attribute_noreturn();

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
	requested = tq_cancel_workflow_run(&call, &flow, message);
	tq_call_end(&call);
	PG_RETURN_TEXT_P(cstring_to_text(requested ? "requested" : "cancelled"));
}

/*
 * Cancel an instance that was read.  Returns true if one of its tasks is
 * running and was asked to stop.
 */
bool
tq_cancel_workflow_run(TqCall *call, TqFlow *flow, char *message)
{
	int64 workflow_id = flow->workflow_id;
	bool  requested;

	(void) tq_instance_lock_acquire(call, flow, NULL, TQ_FLOW_LOCK_ALONE);
	tq_key_preview_note_cancel(call, flow);
	tq_key_lock_names(call, NULL, 0);
	tq_call_steps(call)->locked = true;
	if (!tq_flow_read(workflow_id, flow))
		tq_flow_missing(workflow_id);
	if (flow->state != TQ_FLOW_LIVE && flow->state != TQ_FLOW_CANCELLED)
		has_ended(flow);
	requested = tq_child_cancel_instance(call, flow, message);
	if (flow->state != TQ_FLOW_CANCELLED)
		has_ended(flow);
	if (flow->end.ended)
		tq_child_ended(call, flow);
	return requested;
}

/* Raise TQ005.  A compensation is not stopped halfway. */
static void
has_ended(const TqFlow *flow)
{
	int64 workflow_id = flow->workflow_id;

	if (flow->state == TQ_FLOW_COMPENSATING)
		ereport(ERROR,
				(errcode(ERRCODE_TQ_INVALID_TRANSITION),
				 errmsg("cannot cancel workflow " INT64_FORMAT
						" because it is compensating",
						workflow_id),
				 errdetail("{\"workflow_id\": " INT64_FORMAT "}", workflow_id),
				 errhint("Cancel or resolve the task of its compensation.")));
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_INVALID_TRANSITION),
		 errmsg("cannot cancel workflow " INT64_FORMAT " because it has ended",
				workflow_id),
		 errdetail("{\"workflow_id\": " INT64_FORMAT "}", workflow_id)));
}
