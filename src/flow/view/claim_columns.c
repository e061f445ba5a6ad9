/*
 * claim_columns.c
 *		Data that workers get with a step: the columns of taskq_claim,
 *		taskq_dependency_results, taskq_ancestor_results.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/step.h"
#include "flow/instance/flow.h"
#include "flow/instance/flow_contents.h"
#include "flow/instance/results.h"
#include "flow/view/claim_columns.h"
#include "query/contents.h"
#include "store/archive.h"

PG_FUNCTION_INFO_V1(taskq_dependency_results);
PG_FUNCTION_INFO_V1(taskq_ancestor_results);

static TqStmt stmt_page = {
	"SELECT a.step_id, a.task_id,"
	" CASE WHEN a.large & 8 <> 0"
	"      THEN (SELECT l.doc FROM taskq.large l"
	"             WHERE l.task_id = a.task_id AND l.part = 3)"
	"      ELSE a.result END,"
	" CASE WHEN a.state = " TQ_SQL_STATE_DEAD " THEN"
	"      coalesce(CASE WHEN a.large & 32 <> 0"
	"                    THEN (SELECT l.doc FROM taskq.large l"
	"                           WHERE l.task_id = a.task_id AND l.part = 5)"
	"                    ELSE a.errors END -> -1 ->> 'error', '') END,"
	" a.queue_id"
	"  FROM taskq.archive_keep a"
	" WHERE a.workflow_id = $1 AND a.step_id >= 0"
	"   AND a.step_id & 16383 = ANY ($2)"
	"   AND a.state IN (" TQ_SQL_STATE_DONE ", " TQ_SQL_STATE_DEAD ","
	"                   " TQ_SQL_STATE_FILTERED ")"
	"   AND a.task_id > $3"
	" ORDER BY a.task_id LIMIT $4",
	{INT8OID, INT4ARRAYOID, INT8OID, INT4OID}};

static void          carry(TqTask *task, Datum *values, bool *nulls);
static Datum         payload(const TqTask *task, bool whole, bool *isnull);
static char         *name(const TqTask *task);
static const TqStep *find_step(FunctionCallInfo fcinfo, TqFlow *flow,
							   bool *held);
static bool          is_held(const TqTask *task);
static bool          may_read(const TqFlow *flow, int place, bool held);
static void          put(Datum *values, bool *nulls, TqStepClaimColumn column,
						 Datum value);

void
tq_claim_columns_init(void)
{
	tq_step_hooks.carry = carry;
	tq_step_hooks.payload = payload;
	tq_step_hooks.name = name;
}

/* Results are null if they are too large, or the workflow no longer exists. */
static void
carry(TqTask *task, Datum *values, bool *nulls)
{
	int64         workflow_id = DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]);
	int32         step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	const TqStep *step;
	Jsonb        *results;
	TqFlow        flow;

	step = tq_flow_step_of(task, &flow);
	if (step == NULL)
		return;
	put(values, nulls, TQ_CARRY_WORKFLOW_ID, Int64GetDatum(workflow_id));
	put(values, nulls, TQ_CARRY_WORKFLOW,
		CStringGetTextDatum(flow.template->name));
	put(values, nulls, TQ_CARRY_STEP,
		CStringGetTextDatum(tq_results_name(flow.template, step_id)));
	if (step->handler != NULL)
		put(values, nulls, TQ_CARRY_HANDLER,
			CStringGetTextDatum(step->handler));
	if (step->config != NULL)
		put(values, nulls, TQ_CARRY_CONFIG, JsonbPGetDatum(step->config));
	put(values, nulls, TQ_CARRY_INPUT, JsonbPGetDatum(flow.start.input));
	results = tq_results_told(workflow_id, flow.template, step,
							  (Size) tq_guc_max_dependency_results * 1024);
	if (results != NULL)
		put(values, nulls, TQ_CARRY_DEPENDENCY_RESULTS,
			JsonbPGetDatum(results));
}

static void
put(Datum *values, bool *nulls, TqStepClaimColumn column, Datum value)
{
	values[column] = value;
	nulls[column] = false;
}

/* The payload of a step that has no payload of its own. */
static Datum
payload(const TqTask *task, bool whole, bool *isnull)
{
	TqFlow flow;

	*isnull =
		!tq_flow_read(DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]), &flow);
	if (*isnull)
		return (Datum) 0;
	if (whole)
		return JsonbPGetDatum(flow.start.input);
	return JsonbPGetDatum(tq_contents_redact(
		tq_flow_contents_redaction(flow.template), flow.start.input));
}

static char *
name(const TqTask *task)
{
	TqFlow flow;

	if (!tq_flow_read(DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]), &flow))
		return NULL;
	return tq_results_name(flow.template,
						   DatumGetInt32(task->value[TQ_COL_STEP_ID]));
}

/*
 * Returns results in pages, since they may be too large to be returned by the
 * claim.
 */
Datum
taskq_dependency_results(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int            max_rows = PG_ARGISNULL(2) ? 100 : PG_GETARG_INT32(2);
	const TqStep  *step;
	int32         *places;
	int            count = 0;
	Datum          args[4];
	uint64         rows;
	TqFlow         flow;
	TqSpi          spi;
	bool           held;

	tq_srf_begin(fcinfo);
	if (max_rows < 1 || max_rows > 10000)
		tq_error_invalid("max_rows", "must be from 1 to 10000", NULL);
	step = find_step(fcinfo, &flow, &held);
	places = palloc(sizeof(int32) * (step->parents.count + 1));
	for (int i = 0; i < step->parents.count; i++)
	{
		if (may_read(&flow, step->parents.places[i], held))
			places[count++] = step->parents.places[i];
	}
	args[0] = Int64GetDatum(flow.workflow_id);
	args[1] = tq_spi_int4_array(places, count);
	args[2] = Int64GetDatum(PG_ARGISNULL(1) ? 0 : PG_GETARG_INT64(1));
	args[3] = Int32GetDatum(max_rows);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_page, args, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		Datum values[3];
		bool  nulls[3] = {false};
		char *error;

		values[0] = CStringGetTextDatum(
			tq_results_name(flow.template, tq_spi_int4(i, 1, 0)));
		values[1] = Int64GetDatum(tq_spi_int8(i, 2, 0));
		error = tq_spi_text(&spi, i, 4);
		values[2] = error == NULL ? tq_spi_get(i, 3, &nulls[2])
								  : JsonbPGetDatum(tq_results_error(error));
		if (!held && error == NULL && !nulls[2])
			values[2] = JsonbPGetDatum(tq_contents_redact(
				tq_contents_redaction_of(spi.userid, tq_spi_int4(i, 5, 0)),
				DatumGetJsonbP(values[2])));
		tq_srf_add(result, values, nulls);
	}
	tq_spi_leave(&spi);
	return (Datum) 0;
}

Datum
taskq_ancestor_results(PG_FUNCTION_ARGS)
{
	TqStepList    all = {0};
	int           shown = 0;
	Jsonb        *results;
	const TqStep *step;
	bool         *marked;
	bool          held;
	TqFlow        flow;

	step = find_step(fcinfo, &flow, &held);
	marked = palloc0(sizeof(bool) * (flow.template->step_count + 1));
	all.places = palloc(sizeof(int) * (flow.template->step_count + 1));
	for (int seen = -1; seen < all.count; seen++)
	{
		const TqStepList *parents =
			seen < 0 ? &step->parents
					 : &flow.template->steps[all.places[seen]].parents;

		for (int i = 0; i < parents->count; i++)
		{
			if (marked[parents->places[i]])
				continue;
			marked[parents->places[i]] = true;
			all.places[all.count++] = parents->places[i];
		}
	}
	for (int i = 0; i < all.count; i++)
	{
		if (may_read(&flow, all.places[i], held))
			all.places[shown++] = all.places[i];
	}
	all.count = shown;
	results = held ? tq_results_of(flow.workflow_id, flow.template, &all,
								   TQ_MAX_DOCUMENT)
				   : tq_results_shown(flow.workflow_id, flow.template, &all,
									  TQ_MAX_DOCUMENT);
	if (results == NULL)
		tq_error_too_large("results", TQ_MAX_DOCUMENT + 1, TQ_MAX_DOCUMENT);
	PG_RETURN_JSONB_P(results);
}

/*
 * Find a step that current_user holds, or whose queue it may read.  The holder
 * has the results of the parents, and may see the results of all ancestors;
 * other roles see the results of steps whose queues they may read, redacted as
 * the options of these queues say.
 */
static const TqStep *
find_step(FunctionCallInfo fcinfo, TqFlow *flow, bool *held)
{
	int64         task_id = tq_arg_int8(fcinfo, 0, "task_id");
	int           rights = 0;
	const TqStep *step = NULL;
	TqQueue      *queue;
	TqCall        call;
	TqTask        task;

	tq_call_begin_look(&call);
	queue = tq_archive_find_any(&call, task_id, &task)
				? tq_queue_by_id(task.f.queue_id)
				: NULL;
	if (queue != NULL)
		rights = tq_role_rights(queue);
	if (rights == 0)
		tq_error_no_such_task(task_id);
	*held = (rights & TQ_RIGHT_WORK) != 0 && is_held(&task);
	if (!*held && (rights & TQ_RIGHT_READ) == 0)
		tq_error_task_right(task_id, TQ_RIGHT_READ);
	if (tq_step_is(&task))
		step = tq_flow_step_of(&task, flow);
	if (step == NULL)
		tq_error_invalid("task_id", "is not a step of a workflow", NULL);
	tq_call_end(&call);
	return step;
}

/* Does current_user hold the claim? */
static bool
is_held(const TqTask *task)
{
	Oid role = tq_role_oid(task->f.claimed_by);

	return task->f.state == TQ_STATE_RUNNING && OidIsValid(role) &&
		   has_privs_of_role(GetUserId(), role);
}

static bool
may_read(const TqFlow *flow, int place, bool held)
{
	TqQueue *queue = tq_queue_find(flow->template->steps[place].queue);
	int rights = queue == NULL ? tq_role_rights_all() : tq_role_rights(queue);

	return held || (rights & TQ_RIGHT_READ) != 0;
}
