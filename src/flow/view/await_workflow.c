/*
 * await_workflow.c
 *		CALL taskq_await_workflow: waits for the end of an instance.
 *
 * command/await.c waits; this file checks the instance.  Its row shows whether
 * it has ended, and tq_flow_end wakes the waiting sessions at commit, so the
 * checks do not read the steps of a live instance.  They are read only once,
 * on timeout, for its state.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/arg.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "command/await.h"
#include "engine/wait.h"
#include "flow/instance/flow.h"
#include "flow/instance/flow_contents.h"
#include "flow/run/tally.h"
#include "query/contents.h"

PG_FUNCTION_INFO_V1(taskq_await_workflow);

/* An awaited instance and its outcome. */
typedef struct AwaitedFlow
{
	TqAwait
		await; /* must be the first member: check functions get its address */
	const char *state; /* NULL: not known */
	Jsonb      *result;
} AwaitedFlow;

static TqStmt stmt_outcome = {
	"SELECT state::integer, result FROM taskq.workflow WHERE workflow_id = $1",
	{INT8OID}};

static bool look_at_flow(TqAwait *await);
static bool look(AwaitedFlow *awaited, bool last);
static bool read_flow(AwaitedFlow *awaited, TqFlow *flow);
static bool read_outcome(AwaitedFlow *awaited, TqFlow *flow, bool whole);

Datum
taskq_await_workflow(PG_FUNCTION_ARGS)
{
	AwaitedFlow awaited = {{0}};
	Datum       values[2] = {0};
	bool        nulls[2] = {true, true};
	int64       timeout;

	awaited.await.id = tq_arg_int8(fcinfo, 0, "workflow_id");
	awaited.await.look = look_at_flow;
	timeout = tq_arg_length(fcinfo, 1, "timeout", 0, TQ_AWAIT_TIMEOUT);
	tq_wait_require_top_level(fcinfo, "taskq_await_workflow()");
	if (!tq_await_end(&awaited.await, timeout))
		(void) look(&awaited, true);
	if (awaited.state != NULL)
	{
		values[0] = CStringGetTextDatum(awaited.state);
		nulls[0] = false;
	}
	if (awaited.result != NULL)
	{
		values[1] = JsonbPGetDatum(awaited.result);
		nulls[1] = false;
	}
	return tq_srf_row(fcinfo, values, nulls);
}

static bool
look_at_flow(TqAwait *await)
{
	return look((AwaitedFlow *) await, false);
}

/* The last check, on timeout, also determines the state of a live instance. */
static bool
look(AwaitedFlow *awaited, bool last)
{
	TqTally tally = {0};
	TqFlow  flow = {0};
	bool    found;

	/* for out-of-line values */
	PushActiveSnapshot(GetTransactionSnapshot());
	found = read_flow(awaited, &flow);
	if (!found)
		flow.state = (TqFlowState) tq_waiter_ended();
	else if (last && !tq_flow_has_ended(&flow))
	{
		TqStepRow *made;
		int        count = tq_flow_steps(&flow, &made);

		tq_tally_count(&flow, made, count, &tally);
	}
	if (tq_flow_has_ended(&flow) || (found && last))
		awaited->state = tq_tally_state(&flow, &tally);
	PopActiveSnapshot();
	return !found || tq_flow_has_ended(&flow);
}

/*
 * Returns false if the instance has been removed.  Raises TQ002 if it never
 * existed, and TQ002 or 42501 if current_user must not see it.
 */
static bool
read_flow(AwaitedFlow *awaited, TqFlow *flow)
{
	int64 workflow_id = awaited->await.id;
	int   sight;

	tq_queue_refresh();
	if (!tq_flow_read(workflow_id, flow))
	{
		if (!awaited->await.known)
			tq_flow_missing(workflow_id);
		return false;
	}
	sight = tq_flow_has_started(flow) ? 2 : tq_flow_sight(flow->template);
	if (sight == 0)
		tq_flow_require(flow, TQ_RIGHT_OBSERVE, false);
	return read_outcome(awaited, flow, sight == 2);
}

/* State and result belong together, so one statement reads both. */
static bool
read_outcome(AwaitedFlow *awaited, TqFlow *flow, bool whole)
{
	Datum              arg = Int64GetDatum(awaited->await.id);
	MemoryContext      mine = MemoryContextSwitchTo(awaited->await.home);
	const TqRedaction *hidden = tq_flow_contents_redaction(flow->template);
	Jsonb             *result = NULL;
	bool               found;
	TqSpi              spi;

	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_outcome, &arg, NULL, 1) > 0;
	if (found)
	{
		flow->state = (TqFlowState) tq_spi_int4(0, 1, 0);
		if (whole && tq_flow_has_ended(flow))
			result = tq_spi_jsonb(&spi, 0, 2);
	}
	tq_spi_leave(&spi);
	/* only here, since it makes the document in the current context */
	if (result != NULL)
		awaited->result = tq_contents_redact(hidden, result);
	MemoryContextSwitchTo(mine);
	return found;
}
