/*
 * flow_view.c
 *		Functions behind the views of workflows, and taskq_step_levels.
 *
 * An instance is shown as it was at one moment: its row, its steps, their
 * results and edges are all read with the snapshot of the statement that reads
 * the view.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "flow/definition/definition.h"
#include "flow/definition/template.h"
#include "flow/instance/flow.h"
#include "flow/instance/flow_contents.h"
#include "flow/instance/results.h"
#include "flow/run/compensation.h"
#include "flow/run/tally.h"
#include "query/contents.h"

#define UNKNOWN (-1) /* number of parents left */

PG_FUNCTION_INFO_V1(taskq_step_levels);
PG_FUNCTION_INFO_V1(taskq_workflow_look);
PG_FUNCTION_INFO_V1(taskq_workflow_step_rows);

static TqStmt stmt_left = {
	"SELECT e.child, count(*)::integer FROM taskq.edge e"
	" WHERE e.workflow_id = $1 AND e.child >= 0 GROUP BY e.child",
	{INT8OID}};

static bool  see(int64 workflow_id, TqFlow *flow, int *sight);
static bool  has_parents(const TqStep *step, const bool *exists,
						 const bool *skipped);
static void  add_compensation_rows(ReturnSetInfo *result, const TqFlow *flow);
static void  add_step_row(ReturnSetInfo *result, const TqFlow *flow,
						  const TqStepRow *made, int left);
static Datum depends_on(const TqTemplate *template, int32 step_id);
static void  read_left(int64 workflow_id, int *left, int count);

/* Read the instance if current_user may see something of it. */
static bool
see(int64 workflow_id, TqFlow *flow, int *sight)
{
	tq_queue_refresh();
	if (!tq_flow_see(workflow_id, flow))
		return false;
	*sight = tq_flow_sight(flow->template);
	return *sight > 0;
}

Datum
taskq_workflow_look(PG_FUNCTION_ARGS)
{
	Datum       values[8] = {0};
	bool        nulls[8] = {true, true, true, true, true, true, true, true};
	TimestampTz started_at = DT_NOEND;
	TqReason    reason;
	TqTally     tally;
	TqStepRow  *made;
	int         sight;
	int         count;
	TqFlow      flow;

	if (!PG_ARGISNULL(0) && see(PG_GETARG_INT64(0), &flow, &sight))
	{
		count = tq_flow_steps(&flow, &made);
		tq_tally_count(&flow, made, count, &tally);
		for (int i = 0; i < count; i++)
		{
			if (made[i].claimed_at != DT_NOBEGIN)
				started_at = Min(started_at, made[i].claimed_at);
		}
		values[0] = CStringGetTextDatum(tq_tally_state(&flow, &tally));
		values[1] = Int64GetDatum(tally.total +
								  tq_tally_uncreated(&flow, made, count));
		values[2] = Int64GetDatum(tally.done);
		values[3] = Int64GetDatum(tally.dead);
		values[4] = Int64GetDatum(tally.running);
		values[5] = TimestampTzGetDatum(started_at);
		memset(nulls, false, sizeof(nulls));
		nulls[5] = started_at == DT_NOEND;
		reason = tq_tally_reason(&flow, &tally);
		nulls[6] = reason == TQ_REASON_NONE;
		if (!nulls[6])
			values[6] = CStringGetTextDatum(tq_reason_name(reason));
		if (sight == 2 && tq_flow_contents_redaction(flow.template) == NULL)
			sight = 3;
		values[7] = Int32GetDatum(sight);
	}
	return tq_srf_row(fcinfo, values, nulls);
}

/* Existing steps, and those that will, may or will not be made. */
Datum
taskq_workflow_step_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const TqTemplate *template;
	int       *left;
	bool      *exists;
	bool      *skipped;
	TqStepRow *made;
	int        sight;
	int        count;
	TqFlow     flow;

	tq_srf_begin(fcinfo);
	if (PG_ARGISNULL(0) || !see(PG_GETARG_INT64(0), &flow, &sight))
		return (Datum) 0;
	template = flow.template;
	count = tq_flow_steps(&flow, &made);
	left = palloc0(sizeof(int) * (template->step_count + 1));
	exists = palloc0(sizeof(bool) * (template->step_count + 1));
	skipped = tq_tally_skipped(&flow, made, count);
	read_left(flow.workflow_id, left, template->step_count);
	for (int i = 0; i < count; i++)
	{
		int place = TQ_STEP_INDEX(made[i].step_id);

		exists[place] = true;
		add_step_row(result, &flow, &made[i], left[place]);
	}
	for (int i = 0; i < template->step_count; i++)
	{
		TqStepRow none = {0};

		if (exists[i])
			continue;
		none.step_id = i;
		none.attempt = skipped[i] ? -1 : 0;
		if (!has_parents(&template->steps[i], exists, skipped))
			left[i] = UNKNOWN;
		add_step_row(result, &flow, &none, left[i]);
	}
	add_compensation_rows(result, &flow);
	return (Datum) 0;
}

/*
 * Is it known which parents of the step will be made?  If not, a choice still
 * decides.
 */
static bool
has_parents(const TqStep *step, const bool *exists, const bool *skipped)
{
	for (int i = 0; i < step->parents.count; i++)
	{
		int parent = step->parents.places[i];

		if (!exists[parent] && !skipped[parent])
			return false;
	}
	return true;
}

/* Existing compensations, and those still to be made. */
static void
add_compensation_rows(ReturnSetInfo *result, const TqFlow *flow)
{
	TqStepRow *made;
	int32     *left;
	int        count = tq_flow_compensations(flow, &made);

	for (int i = 0; i < count; i++)
		add_step_row(result, flow, &made[i], 0);
	if (count == 0)
		return;
	count = tq_compensation_left(flow, &left);
	for (int i = 0; i < count; i++)
	{
		TqStepRow none = {0};

		none.step_id = TQ_STEP_COMPENSATION(left[i]);
		add_step_row(result, flow, &none, 0);
	}
}

/*
 * Add a row if the queue of the step may be observed.  Without a row in
 * taskq.task, only columns from the template are set.
 */
static void
add_step_row(ReturnSetInfo *result, const TqFlow *flow, const TqStepRow *made,
			 int left)
{
	const TqStep *step = tq_template_at(flow->template, made->step_id);
	Jsonb        *outcome = NULL;
	Datum         values[12] = {0};
	bool          nulls[12];

	if (!tq_flow_sees(step))
		return;
	memset(nulls, true, sizeof(nulls));
	values[0] =
		CStringGetTextDatum(tq_results_name(flow->template, made->step_id));
	values[1] = CStringGetTextDatum(TQ_STEP_COMPENSATES(made->step_id)
										? "compensation"
										: tq_definition_step_type(step->type));
	values[6] = Int32GetDatum(left);
	nulls[6] = left == UNKNOWN;
	values[7] = depends_on(flow->template, made->step_id);
	nulls[0] = nulls[1] = nulls[7] = false;
	if (made->task_id == 0)
	{
		if (made->attempt < 0)
		{
			values[3] = CStringGetTextDatum("skipped");
			nulls[3] = false;
		}
		tq_srf_add(result, values, nulls);
		return;
	}
	values[2] = Int64GetDatum(made->task_id);
	if ((tq_flow_rights(step) & TQ_RIGHT_READ) != 0)
		outcome = tq_contents_redact(tq_contents_redaction(made->queue_id),
									 tq_results_seen(made->task_id));
	values[3] = CStringGetTextDatum(tq_state_name(made->state));
	nulls[2] = nulls[3] = false;
	if (made->reason != TQ_REASON_NONE)
	{
		values[4] = CStringGetTextDatum(tq_reason_name(made->reason));
		nulls[4] = false;
	}
	values[5] = Int32GetDatum(made->attempt);
	nulls[5] = false;
	if (outcome != NULL)
	{
		values[8] = JsonbPGetDatum(outcome);
		nulls[8] = false;
	}
	values[9] = TimestampTzGetDatum(made->created_at);
	nulls[9] = false;
	values[10] = TimestampTzGetDatum(made->claimed_at);
	nulls[10] = made->claimed_at == DT_NOBEGIN;
	values[11] = TimestampTzGetDatum(made->finished_at);
	nulls[11] = made->finished_at == 0;
	tq_srf_add(result, values, nulls);
}

/*
 * The steps that a step depends on in the template; for a compensation, the
 * step that it compensates.
 */
static Datum
depends_on(const TqTemplate *template, int32 step_id)
{
	const TqStepList *list = &tq_template_at(template, step_id)->parents;
	Datum            *names = palloc(sizeof(Datum) * (list->count + 1));
	int               count = 0;

	if (TQ_STEP_COMPENSATES(step_id))
		names[count++] = CStringGetTextDatum(
			tq_results_name(template, TQ_STEP_COMPENSATED(step_id)));
	else
	{
		for (; count < list->count; count++)
			names[count] =
				CStringGetTextDatum(template->steps[list->places[count]].name);
	}
	return PointerGetDatum(
		construct_array(names, count, TEXTOID, -1, false, TYPALIGN_INT));
}

static void
read_left(int64 workflow_id, int *left, int count)
{
	Datum  arg = Int64GetDatum(workflow_id);
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_read(&stmt_left, &arg, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		int place = TQ_STEP_INDEX(tq_spi_int4(i, 1, 0));

		if (place < count)
			left[place] = tq_spi_int4(i, 2, 0);
	}
	tq_spi_leave(&spi);
}

Datum
taskq_step_levels(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64          workflow_id = tq_arg_int8(fcinfo, 0, "workflow_id");
	TqFlow         flow;

	tq_srf_begin(fcinfo);
	tq_queue_refresh();
	if (!tq_flow_read(workflow_id, &flow))
		tq_flow_missing(workflow_id);
	(void) tq_flow_require_sight(&flow);
	for (int i = 0; i < flow.template->step_count; i++)
	{
		const TqStep *step = &flow.template->steps[flow.template->order[i]];
		Datum         values[2] = {CStringGetTextDatum(step->name),
								   Int32GetDatum(step->level)};
		bool          nulls[2] = {false, false};

		tq_srf_add(result, values, nulls);
	}
	return (Datum) 0;
}
