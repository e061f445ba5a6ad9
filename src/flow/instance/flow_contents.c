/*
 * flow_contents.c
 *		Contents of instances, as current_user may see them.
 *
 * The input and the result of an instance belong to all queues of its steps:
 * reading them requires the right to read all of these, and what the option
 * redact of any of them selects is replaced for a role that may not manage
 * that queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "cache/queue.h"
#include "flow/instance/flow.h"
#include "flow/instance/flow_contents.h"
#include "query/contents.h"

PG_FUNCTION_INFO_V1(taskq_workflow_contents);

static void add(TqRedaction **all, const TqStep *step);

/*
 * What is hidden from current_user in the input and the result of instances?
 * NULL: nothing.  Instances without steps belong to no queue.
 */
const TqRedaction *
tq_flow_contents_redaction(const TqTemplate *template)
{
	TqRedaction *all = NULL;

	if (template->step_count == 0)
		return tq_contents_redaction(0);
	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];

		add(&all, step);
		if (step->compensate != NULL)
			add(&all, step->compensate);
	}
	return all;
}

/* The queue of a step exists, unless it has been dropped. */
static void
add(TqRedaction **all, const TqStep *step)
{
	TqQueue           *queue = tq_queue_find(step->queue);
	const TqRedaction *more = queue == NULL
								  ? tq_contents_redaction_dropped()
								  : tq_contents_redaction(queue->queue_id);

	if (more == NULL)
		return;
	if (*all == NULL)
		*all = tq_redaction_make();
	tq_redaction_add(*all, more, NULL, 0);
}

/* Would any member of the document be hidden? */
bool
tq_flow_contents_hides(const TqRedaction *redaction, const char *document)
{
	Jsonb *doc;

	if (redaction == NULL)
		return false;
	doc = DatumGetJsonbP(
		DirectFunctionCall1(jsonb_in, CStringGetDatum(document)));
	return tq_redaction_apply(redaction, doc) != doc;
}

/*
 * For the view of instances: the input or the result of an instance that
 * current_user may see.
 */
Datum
taskq_workflow_contents(PG_FUNCTION_ARGS)
{
	TqFlow flow;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	tq_queue_refresh();
	if (!tq_flow_see(PG_GETARG_INT64(0), &flow) ||
		tq_flow_sight(flow.template) < 2)
		PG_RETURN_NULL();
	PG_RETURN_JSONB_P(tq_contents_redact(
		tq_flow_contents_redaction(flow.template), PG_GETARG_JSONB_P(1)));
}
