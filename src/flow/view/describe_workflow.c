/*
 * describe_workflow.c
 *		taskq_workflow: an instance in one document, with a verdict.
 *
 * In addition to the data of the views, the document contains the numbers of
 * steps by state, a verdict in words, the blockers (steps that keep the
 * instance from ending), and the calls that help.  Numbers and verdict include
 * all steps; blockers are included if the caller may read their queue.
 * Unknown values are null.
 *
 * The whole document shows one moment, that of the calling statement's
 * snapshot.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/snapmgr.h"

#include "base/arg.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/run/tally.h"
#include "flow/view/blocker.h"

PG_FUNCTION_INFO_V1(taskq_workflow);

#define MAX_BLOCKERS 20 /* listed one by one */

static TqStmt stmt_document = {
	"SELECT jsonb_build_object('workflow_id', w.workflow_id,"
	" 'namespace', w.namespace, 'name', w.name, 'version', w.version,"
	" 'state', w.state, 'reason', w.reason, 'input', w.input,"
	" 'result', w.result,"
	" 'steps_total', w.steps_total, 'steps_done', w.steps_done,"
	" 'steps_dead', w.steps_dead, 'steps_running', w.steps_running,"
	" 'percentage', CASE WHEN w.steps_total > 0"
	"   THEN round(100.0 * w.steps_done / w.steps_total, 1) END,"
	" 'steps', l.steps, 'edges', l.edges) || $2"
	"  FROM taskq.workflows w CROSS JOIN LATERAL ("
	"  WITH s AS MATERIALIZED ("
	"    SELECT * FROM taskq.workflow_step_rows(w.workflow_id))"
	"  SELECT (SELECT coalesce(jsonb_agg(jsonb_build_object("
	"     'step', s.step, 'type', s.type, 'task_id', s.task_id,"
	"     'state', s.state, 'reason', s.reason, 'attempt', s.attempt,"
	"     'parents_left', s.parents_left, 'depends_on', s.depends_on)), '[]')"
	"   FROM s) AS steps, (SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object("
	"     'from', p.parent, 'to', s.step)), '[]')"
	"   FROM s CROSS JOIN LATERAL unnest(s.depends_on) AS p (parent))"
	"   AS edges) l"
	" WHERE w.workflow_id = $1",
	{INT8OID, JSONBOID}};

static TqStmt stmt_origin = {
	"SELECT parent_correlation_id FROM taskq.workflow WHERE workflow_id = $1",
	{INT8OID}};

/* A document being written. */
typedef struct Writing
{
	JsonbParseState *state;
	JsonbValue      *whole;
} Writing;

static Jsonb *description(TqFlow *flow);
static char  *origin(int64 workflow_id);
static Jsonb *read_document(int64 workflow_id, Jsonb *description);
static void   open_part(Writing *w, const char *name, bool array);
static void   close_part(Writing *w, bool array);
static void   put_key(Writing *w, const char *name);
static void   put_words(Writing *w, JsonbIteratorToken as, const char *words);
static void   put_number(Writing *w, const char *name, int64 number);
static void   put_counts(Writing *w, const TqFlowView *sight);
static const char *verdict(const TqFlowView *sight, const TqTally *tally);
static const char *verdict_undone(const TqFlowView *sight, const char *steps);
static int         count_failed(const TqFlowView *sight);
static bool        any_holds(const TqFlowView *sight);
static int         count_undone(const TqFlowView *sight);
static void        put_blockers(Writing *w, const TqFlowView *sight);
static void put_blocker(Writing *w, TqFlow *flow, const TqStepRow *step);
static void put_next(Writing *w, const TqFlowView *sight);
static bool put_advice(Writing *w, TqFlow *flow, const TqStepRow *step);
static const TqStepRow *step_at(const TqFlowView *sight, int i);
static bool is_in_the_way(const TqFlow *flow, const TqStepRow *step);

Datum
taskq_workflow(PG_FUNCTION_ARGS)
{
	int64  workflow_id = tq_arg_int8(fcinfo, 0, "workflow_id");
	Jsonb *document;
	TqFlow flow;

	tq_queue_refresh();
	tq_flow_push_moment();
	if (!tq_flow_see(workflow_id, &flow))
		tq_flow_missing(workflow_id);
	(void) tq_flow_require_sight(&flow);
	document = read_document(workflow_id, description(&flow));
	PopActiveSnapshot();
	if (document == NULL)
		tq_flow_missing(workflow_id);
	PG_RETURN_JSONB_P(document);
}

/*
 * Reads the views with the caller's privileges, and finds functions only in
 * pg_catalog.
 */
static Jsonb *
read_document(int64 workflow_id, Jsonb *description)
{
	Datum  args[2] = {Int64GetDatum(workflow_id), JsonbPGetDatum(description)};
	Jsonb *document = NULL;
	int    path = tq_compat_path_enter();

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args(stmt_document.text, 2, stmt_document.types, args,
							  NULL, true, 1) == SPI_OK_SELECT &&
		SPI_processed > 0)
	{
		bool  isnull;
		Datum value = SPI_getbinval(SPI_tuptable->vals[0],
									SPI_tuptable->tupdesc, 1, &isnull);

		document = DatumGetJsonbP(SPI_datumTransfer(value, false, -1));
	}
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	tq_compat_path_leave(path);
	return document;
}

/*
 * {"correlation_id", "parent_correlation_id", "counts", "verdict",
 * "blocked_by", "blocked_by_more", "next"}
 */
static Jsonb *
description(TqFlow *flow)
{
	Writing    w = {0};
	TqFlowView sight;
	TqTally    tally;

	tq_blocker_look(&sight, flow);
	tq_tally_count(flow, sight.made, sight.count, &tally);
	open_part(&w, NULL, false);
	put_key(&w, "correlation_id");
	put_words(&w, WJB_VALUE, flow->start.correlation_id);
	put_key(&w, "parent_correlation_id");
	put_words(&w, WJB_VALUE, origin(flow->workflow_id));
	put_counts(&w, &sight);
	put_key(&w, "verdict");
	put_words(&w, WJB_VALUE, verdict(&sight, &tally));
	put_blockers(&w, &sight);
	put_next(&w, &sight);
	close_part(&w, false);
	return JsonbValueToJsonb(w.whole);
}

/*
 * Returns the parent_correlation_id of the instance, or NULL if it was not
 * given.
 */
static char *
origin(int64 workflow_id)
{
	Datum arg = Int64GetDatum(workflow_id);

	return tq_spi_read_text(&stmt_origin, &arg);
}

static void
open_part(Writing *w, const char *name, bool array)
{
	if (name != NULL)
		put_key(w, name);
	(void) pushJsonbValue(&w->state,
						  array ? WJB_BEGIN_ARRAY : WJB_BEGIN_OBJECT, NULL);
}

static void
close_part(Writing *w, bool array)
{
	w->whole = pushJsonbValue(&w->state,
							  array ? WJB_END_ARRAY : WJB_END_OBJECT, NULL);
}

static void
put_key(Writing *w, const char *name)
{
	put_words(w, WJB_KEY, name);
}

/* A null pointer becomes null. */
static void
put_words(Writing *w, JsonbIteratorToken as, const char *words)
{
	JsonbValue value;

	value.type = words == NULL ? jbvNull : jbvString;
	if (words != NULL)
	{
		value.val.string.val = (char *) words;
		value.val.string.len = (int) strlen(words);
	}
	(void) pushJsonbValue(&w->state, as, &value);
}

static void
put_number(Writing *w, const char *name, int64 number)
{
	JsonbValue value;

	put_key(w, name);
	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	(void) pushJsonbValue(&w->state, WJB_VALUE, &value);
}

/*
 * Add the numbers of steps by state, of steps that do not exist, and of
 * compensations.
 */
static void
put_counts(Writing *w, const TqFlowView *sight)
{
	static const TqState states[] = {
		TQ_STATE_PENDING,   TQ_STATE_BLOCKED,   TQ_STATE_RUNNING,
		TQ_STATE_SUSPENDED, TQ_STATE_DONE,      TQ_STATE_FILTERED,
		TQ_STATE_DEAD,      TQ_STATE_CANCELLED, TQ_STATE_REDUNDANT};
	const TqTemplate *template = sight->flow->template;
	int skipped = 0;
	int uncreated = tq_tally_uncreated(sight->flow, sight->made, sight->count);

	for (int i = 0; i < template->step_count; i++)
		skipped += !sight->exists[i];
	open_part(w, "counts", false);
	for (int i = 0; i < lengthof(states); i++)
	{
		int64 count = 0;

		for (int j = 0; j < sight->count; j++)
			count += sight->made[j].state == states[i];
		put_number(w, tq_state_name(states[i]), count);
	}
	put_number(w, "not_created", uncreated);
	put_number(w, "skipped", skipped - uncreated);
	put_number(w, "compensated", count_undone(sight));
	put_number(w, "to_compensate",
			   sight->undone_count + sight->undone_left - count_undone(sight));
	close_part(w, false);
}

/* The verdict in words. */
static const char *
verdict(const TqFlowView *sight, const TqTally *tally)
{
	int failed = count_failed(sight);
	int goes = tally->ready + tally->running;
	int waits = tally->backoff + tally->waiting + tally->awaiting +
				tally->in_line + tally->suspended;

	switch (sight->flow->state)
	{
		case TQ_FLOW_DONE:
			return "completed successfully";
		case TQ_FLOW_RESOLVED:
			return "completed, with steps that were resolved by hand";
		case TQ_FLOW_CANCELLED:
			return "cancelled";
		default:
			break;
	}
	if (failed > 0)
	{
		const char *steps =
			psprintf("%d %s", failed, failed == 1 ? "step has" : "steps have");

		if (sight->flow->template->on_failure == TQ_ON_FAILURE_COMPENSATE)
			return verdict_undone(sight, steps);
		if (goes + waits > 0 && !any_holds(sight))
			return psprintf("%s failed; the workflow ends in error when its "
							"live steps have ended, unless %s repaired",
							steps, failed == 1 ? "it is" : "they are");
		return psprintf("%s failed; %s until %s retried or resolved", steps,
						goes + waits > 0 ? "the workflow does not end"
										 : "nothing more runs",
						failed == 1 ? "it is" : "they are");
	}
	if (goes > 0)
		return "running";
	if (waits > tally->suspended)
		return "waiting for a signal, a timer or another workflow";
	if (waits > 0)
		return "suspended: retry the suspended steps to continue";
	return NULL;
}

/* The verdict on an instance that compensates. */
static const char *
verdict_undone(const TqFlowView *sight, const char *steps)
{
	int all = sight->undone_count + sight->undone_left;

	if (sight->flow->state == TQ_FLOW_LIVE)
		return psprintf("%s failed; what was done is compensated when no step "
						"is live",
						steps);
	if (sight->flow->state == TQ_FLOW_COMPENSATING)
		return psprintf("%s failed; compensating what was done: %d of %d",
						steps, count_undone(sight), all);
	if (sight->flow->end.reason == TQ_REASON_COMPENSATION_FAILED)
		return psprintf(
			"%s failed, and a compensation has failed, too: %d of "
			"%d are done; nothing more runs until it is retried or "
			"resolved",
			steps, count_undone(sight), all);
	return psprintf("%s failed; %s", steps,
					all > 0 ? "what was done has been compensated"
							: "there was nothing to compensate");
}

static int
count_undone(const TqFlowView *sight)
{
	int count = 0;

	for (int i = 0; i < sight->undone_count; i++)
		count += sight->undone[i].state == TQ_STATE_DONE ||
				 sight->undone[i].state == TQ_STATE_FILTERED;
	return count;
}

/* Does not count steps that were cancelled because of others. */
static int
count_failed(const TqFlowView *sight)
{
	int failed = 0;

	for (int i = 0; i < sight->count; i++)
		failed += tq_blocker_is(sight->flow, &sight->made[i]) &&
				  tq_blocker_has_failed(sight->flow, &sight->made[i]);
	return failed;
}

/* Has a step failed that does not continue? */
static bool
any_holds(const TqFlowView *sight)
{
	bool hidden;

	return tq_blocker_root(sight, NULL, &hidden) != NULL || hidden;
}

/* The first blockers with their reasons, and the number of the others. */
static void
put_blockers(Writing *w, const TqFlowView *sight)
{
	int told = 0;
	int more = 0;

	open_part(w, "blocked_by", true);
	for (int i = 0; i < sight->count + sight->undone_count; i++)
	{
		const TqStepRow *step = step_at(sight, i);

		if (!is_in_the_way(sight->flow, step))
			continue;
		if (told == MAX_BLOCKERS || !tq_flow_sees(tq_template_at(
										sight->flow->template, step->step_id)))
		{
			more++;
			continue;
		}
		told++;
		put_blocker(w, sight->flow, step);
	}
	close_part(w, true);
	put_number(w, "blocked_by_more", more);
}

static void
put_blocker(Writing *w, TqFlow *flow, const TqStepRow *step)
{
	StringInfoData text;

	initStringInfo(&text);
	tq_blocker_why(&text, flow, step);
	open_part(w, NULL, false);
	put_key(w, "step");
	put_words(w, WJB_VALUE, tq_results_name(flow->template, step->step_id));
	put_number(w, "task_id", step->task_id);
	put_key(w, "state");
	put_words(w, WJB_VALUE, tq_state_name(step->state));
	put_key(w, "reason");
	put_words(w, WJB_VALUE,
			  step->reason == TQ_REASON_NONE ? NULL
											 : tq_reason_name(step->reason));
	put_key(w, "why");
	put_words(w, WJB_VALUE, text.data);
	close_part(w, false);
}

/* Add what to do next: calls, each with its effect. */
static void
put_next(Writing *w, const TqFlowView *sight)
{
	TqFlow *flow = sight->flow;
	bool    ready = false;
	int     told = 0;

	open_part(w, "next", true);
	for (int i = 0;
		 i < sight->count + sight->undone_count && told < MAX_BLOCKERS; i++)
	{
		const TqStepRow *step = step_at(sight, i);

		if ((!is_in_the_way(flow, step) && (ready || !step->is.ready)) ||
			!tq_flow_sees(tq_template_at(flow->template, step->step_id)))
			continue;
		/* one step that workers can take is enough */
		ready = ready || step->is.ready;
		told += put_advice(w, flow, step);
	}
	if (!tq_flow_has_ended(flow))
		put_words(w, WJB_ELEM,
				  psprintf("CALL taskq_await_workflow(" INT64_FORMAT
						   ") waits until it ends",
						   flow->workflow_id));
	if (flow->state == TQ_FLOW_LIVE)
		put_words(w, WJB_ELEM,
				  psprintf("taskq_cancel_workflow(" INT64_FORMAT
						   ") cancels it",
						   flow->workflow_id));
	close_part(w, true);
}

/* Returns false if there is nothing to advise. */
static bool
put_advice(Writing *w, TqFlow *flow, const TqStepRow *step)
{
	StringInfoData text;
	int            before;

	initStringInfo(&text);
	appendStringInfo(&text, "step \"%s\": ",
					 tq_results_name(flow->template, step->step_id));
	before = text.len;
	tq_blocker_do(&text, flow, step);
	if (text.len > before)
		put_words(w, WJB_ELEM, text.data);
	return text.len > before;
}

/* The steps, then the compensations. */
static const TqStepRow *
step_at(const TqFlowView *sight, int i)
{
	return i < sight->count ? &sight->made[i]
							: &sight->undone[i - sight->count];
}

/* Is it a blocker that has not ended, or can be repaired? */
static bool
is_in_the_way(const TqFlow *flow, const TqStepRow *step)
{
	if (!tq_blocker_is(flow, step))
		return false;
	if (TQ_STEP_COMPENSATES(step->step_id))
		return flow->state == TQ_FLOW_COMPENSATING ||
			   flow->state == TQ_FLOW_ERROR;
	return flow->state == TQ_FLOW_LIVE ||
		   (flow->state == TQ_FLOW_ERROR &&
			flow->template->on_failure != TQ_ON_FAILURE_COMPENSATE);
}
