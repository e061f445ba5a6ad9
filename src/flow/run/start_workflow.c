/*
 * start_workflow.c
 *		taskq_start_workflow: starts an instance.
 *
 * The call finds and locks the template, checks the caller's right on each of
 * its queues, validates the input against the schema, locks the keys of the
 * steps, and creates missing queues.  It writes the row of the instance first.
 * The identity has a unique index, so if two calls start instances with the
 * same identity, the second waits for the first.  Then it writes all steps,
 * and all edges, together (step_make.c).
 *
 * An instance that a step of another one waits for is started in the same way,
 * but without waiting for a transaction that uses the same identity or creates
 * a queue (child_start.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/id.h"
#include "engine/key.h"
#include "flow/definition/schema.h"
#include "flow/definition/template.h"
#include "flow/instance/flow_types.h"
#include "flow/instance/identity.h"
#include "flow/run/child.h"
#include "flow/run/instance_end.h"
#include "flow/run/key_preview.h"
#include "flow/run/move_queue.h"
#include "flow/run/start_workflow.h"
#include "flow/run/step_make.h"
#include "flow/run/step_plan.h"

PG_FUNCTION_INFO_V1(taskq_start_workflow);

/* Arguments of the call. */
typedef struct Start
{
	char       *name;
	char       *space;
	char       *version; /* NULL: the latest */
	TqBeginning beginning;
	bool        return_existing;
} Start;

static TqStmt stmt_add = {
	"INSERT INTO taskq.workflow (workflow_id, template_id, state, priority,"
	" started_by, created_at, run_at, identity, key, correlation_id,"
	" parent_correlation_id, input, headers, parent_id, parent_task_id,"
	" depth)"
	" VALUES ($1, $2, " TQ_SQL_FLOW_LIVE ", $3::smallint, $4, $5, $6,"
	" CASE WHEN $7 IS NULL THEN NULL"
	"      ELSE sha256(convert_to($7::text, 'UTF8')) END,"
	" $8, $9, $10, $11, $12, $13, $14, $15::smallint)"
	" ON CONFLICT (identity) WHERE identity IS NOT NULL DO NOTHING",
	{INT8OID, INT4OID, INT4OID, INT4OID, TIMESTAMPTZOID, TIMESTAMPTZOID,
	 JSONBOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID, JSONBOID, INT8OID, INT8OID,
	 INT4OID},
	.generic = true};

static void   begin_steps(TqCall *call, TqFlow *flow, const TqPlan *plan);
static void   check_start(const Start *start, TqFlow *flow);
static void   read_start(FunctionCallInfo fcinfo, Start *start, TqFlow *flow);
static void   require_queues(const TqTemplate *template);
static char **queues_of(const TqTemplate *template, bool given_input,
						int *count);
static bool   is_given_input(const TqStep *step);
static int    compare_names(const void *a, const void *b);
static void   check_input(const TqFlow *flow);
static bool   add_row(const TqFlow *flow, const TqBeginning *beginning,
					  Jsonb *identity);

Datum
taskq_start_workflow(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(tq_start_workflow_run(fcinfo));
}

/* Start an instance with the arguments of taskq_start_workflow. */
int64
tq_start_workflow_run(FunctionCallInfo fcinfo)
{
	Start  start = {0};
	TqFlow flow = {0};
	int64  holder;
	TqCall call;

	read_start(fcinfo, &start, &flow);
	tq_call_begin(&call, "taskq_start_workflow()");
	check_start(&start, &flow);
	flow.start.started_by = tq_role_intern(GetUserId());
	/* nothing has begun, so waits for keys, queues and identities are safe */
	tq_key_preview_note_start(&call, flow.template);
	tq_key_lock_names(&call, NULL, 0);
	tq_start_workflow_queues(flow.template, false);
	holder = tq_start_workflow_row(&flow, &start.beginning,
								   tq_identity(&flow, start.beginning.key));
	if (holder == 0)
		tq_start_workflow_steps(&call, &flow);
	tq_call_end(&call);
	if (holder == 0)
		return flow.workflow_id;
	if (start.return_existing)
		return holder;
	tq_identity_conflict(start.name, holder,
						 "Use on_conflict => 'return' to get its id.");
}

/* Raise the error that a start with these arguments would raise now. */
void
tq_start_workflow_check(FunctionCallInfo fcinfo)
{
	Start  start = {0};
	TqFlow flow = {0};

	read_start(fcinfo, &start, &flow);
	check_start(&start, &flow);
}

static void
check_start(const Start *start, TqFlow *flow)
{
	tq_queue_lock_insertions();
	flow->template =
		tq_template_find(start->space, start->name, start->version);
	if (flow->template == NULL)
		tq_template_missing(start->space, start->name, start->version);
	require_queues(flow->template);
	check_input(flow);
	if (start->beginning.key == NULL &&
		flow->template->identity == TQ_IDENTITY_KEY)
		tq_error_required("key");
}

/*
 * Write the row of an instance.  Returns 0, or the id of another instance with
 * the same identity.
 */
int64
tq_start_workflow_row(TqFlow *flow, const TqBeginning *beginning,
					  Jsonb *identity)
{
	int64 holder;

	flow->start.created_at = tq_clock_wall();
	do
	{
		holder = 0;
		flow->workflow_id = tq_id_next();
	} while (!add_row(flow, beginning, identity) &&
			 (holder = tq_identity_holder(identity, 0)) == 0);
	return holder;
}

/* Write the steps of an instance. */
void
tq_start_workflow_steps(TqCall *call, TqFlow *flow)
{
	TqPlan plan = {0};

	tq_step_plan_start(flow, &plan);
	tq_step_make_all(call, flow, plan.steps, plan.count, &plan.edges);
	begin_steps(call, flow, &plan);
}

static void
read_start(FunctionCallInfo fcinfo, Start *start, TqFlow *flow)
{
	char *word;

	start->name = tq_arg_name(fcinfo, TQ_START_NAME, "name", NULL);
	start->space =
		tq_arg_name(fcinfo, TQ_START_NAMESPACE, "namespace", "default");
	if (!PG_ARGISNULL(TQ_START_VERSION))
		start->version =
			tq_arg_name(fcinfo, TQ_START_VERSION, "version", NULL);
	start->beginning.key =
		tq_arg_word(fcinfo, TQ_START_KEY, "key", TQ_MAX_KEY);
	flow->start.input = tq_arg_jsonb(fcinfo, TQ_START_INPUT);
	if (flow->start.input == NULL)
		flow->start.input = DatumGetJsonbP(
			DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	if (!PG_ARGISNULL(TQ_START_PRIORITY))
	{
		flow->start.has_priority = true;
		flow->start.priority = PG_GETARG_INT32(TQ_START_PRIORITY);
		if (flow->start.priority < PG_INT16_MIN ||
			flow->start.priority > PG_INT16_MAX)
			tq_error_invalid("priority", "must be from -32768 to 32767", NULL);
	}
	(void) tq_arg_time(fcinfo, TQ_START_RUN_AT, "run_at", &flow->start.run_at);
	flow->start.correlation_id = tq_arg_word(fcinfo, TQ_START_CORRELATION_ID,
											 "correlation_id", TQ_MAX_KEY);
	start->beginning.parent_correlation_id =
		tq_arg_word(fcinfo, TQ_START_PARENT_CORRELATION_ID,
					"parent_correlation_id", TQ_MAX_KEY);
	flow->start.headers = tq_arg_jsonb(fcinfo, TQ_START_HEADERS);
	if (flow->start.headers != NULL && !JB_ROOT_IS_OBJECT(flow->start.headers))
		tq_error_invalid("headers", "must be a JSON object", NULL);
	if (flow->start.headers != NULL &&
		VARSIZE(flow->start.headers) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("headers", VARSIZE(flow->start.headers),
						   TQ_MAX_SMALL_DOC);
	word = tq_arg_keyword(fcinfo, TQ_START_ON_CONFLICT, "on_conflict");
	start->return_existing = word != NULL && strcmp(word, "return") == 0;
	if (word != NULL && !start->return_existing && strcmp(word, "error") != 0)
		tq_error_invalid("on_conflict", "has an unknown value",
						 "Allowed: error, return.");
}

/* Check the right on each existing queue that the template names. */
static void
require_queues(const TqTemplate *template)
{
	int    count;
	char **names = queues_of(template, false, &count);

	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL)
			tq_role_require(queue, TQ_RIGHT_SUBMIT);
	}
	pfree(names);
}

/*
 * Create the missing queues, in one order, since other transactions may be
 * creating them.
 */
void
tq_start_workflow_queues(const TqTemplate *template, bool by_extension)
{
	int    count;
	char **names = queues_of(template, false, &count);

	for (int i = 0; i < count; i++)
	{
		if (tq_queue_find(names[i]) == NULL)
			(void) tq_queue_for_submit(names[i], by_extension);
	}
	pfree(names);
}

/*
 * Returns the name of a queue that does not exist, or NULL if all queues
 * exist.
 */
const char *
tq_start_workflow_missing_queue(const TqTemplate *template)
{
	const char *missing = NULL;
	int         count;
	char      **names = queues_of(template, false, &count);

	for (int i = 0; i < count && missing == NULL; i++)
	{
		if (tq_queue_find(names[i]) == NULL)
			missing = names[i];
	}
	pfree(names);
	return missing;
}

/*
 * Returns the sorted names, without duplicates, of the queues of the template,
 * or only of steps that get the input.
 */
static char **
queues_of(const TqTemplate *template, bool given_input, int *count)
{
	char **names = palloc(sizeof(char *) * (2 * template->step_count + 1));
	int    named = 0;

	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];

		if (given_input && !is_given_input(step))
			continue;
		if (named == 0 || strcmp(step->queue, names[named - 1]) != 0)
			names[named++] = step->queue;
		if (!given_input && step->compensate != NULL)
			names[named++] = step->compensate->queue;
	}
	if (named > 1)
		qsort(names, named, sizeof(char *), compare_names);
	*count = 0;
	for (int i = 0; i < named; i++)
	{
		if (i == 0 || strcmp(names[i], names[*count - 1]) != 0)
			names[(*count)++] = names[i];
	}
	return names;
}

static bool
is_given_input(const TqStep *step)
{
	return step->payload == NULL && step->wait == NULL &&
		   step->branch_count == 0 && step->type != TQ_STEP_BATCH_WORKER;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Raise 22023 with all problems if the input does not match the schema. */
static void
check_input(const TqFlow *flow)
{
	char *wrong;
	int   largest = tq_start_workflow_largest_input(flow->template);

	if (VARSIZE(flow->start.input) > largest)
		tq_error_too_large("input", VARSIZE(flow->start.input), largest);
	wrong = tq_start_workflow_wrong_input(flow);
	if (wrong != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("input does not match the schema of workflow \"%s\"",
						flow->template->name),
				 errdetail_internal("%s.", wrong)));
}

/*
 * Each queue limits the size of payloads.  The input is the payload of steps
 * without their own payload; if there are none, the default limit of queues
 * applies.
 */
int
tq_start_workflow_largest_input(const TqTemplate *template)
{
	int    largest = 0;
	int    count;
	char **names = queues_of(template, true, &count);

	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);
		int      allowed = queue != NULL ? queue->options.max_payload
										 : tq_queue_defaults()->max_payload;

		if (largest == 0 || allowed < largest)
			largest = allowed;
	}
	pfree(names);
	return largest > 0 ? largest : tq_queue_defaults()->max_payload;
}

/* Returns where the input does not match its schema, or NULL if it matches. */
char *
tq_start_workflow_wrong_input(const TqFlow *flow)
{
	TqDefinitionProblems problems = {0};
	StringInfoData       words;

	if (flow->template->input_schema == NULL)
		return NULL;
	tq_schema_apply(flow->template->input_schema, flow->start.input,
					&problems);
	if (problems.count == 0)
		return NULL;
	initStringInfo(&words);
	for (int i = 0; i < Min(problems.count, TQ_MAX_PROBLEMS); i++)
		appendStringInfo(&words, "%s%s %s", i > 0 ? "; " : "",
						 problems.all[i].path, problems.all[i].words);
	return words.data;
}

/* Returns false if another instance has the identity. */
static bool
add_row(const TqFlow *flow, const TqBeginning *beginning, Jsonb *identity)
{
	const char *key = beginning->key;
	const char *correlation = beginning->parent_correlation_id;
	Datum       args[15];
	bool        nulls[15] = {false};

	args[0] = Int64GetDatum(flow->workflow_id);
	args[1] = Int32GetDatum(flow->template->template_id);
	nulls[2] = !flow->start.has_priority;
	args[2] = Int32GetDatum(flow->start.priority);
	args[3] = Int32GetDatum(flow->start.started_by);
	args[4] = TimestampTzGetDatum(flow->start.created_at);
	nulls[5] = flow->start.run_at == 0;
	args[5] = TimestampTzGetDatum(flow->start.run_at);
	nulls[6] = identity == NULL;
	args[6] = nulls[6] ? (Datum) 0 : JsonbPGetDatum(identity);
	nulls[7] = key == NULL;
	args[7] = nulls[7] ? (Datum) 0 : CStringGetTextDatum(key);
	nulls[8] = flow->start.correlation_id == NULL;
	args[8] = nulls[8] ? (Datum) 0
					   : CStringGetTextDatum(flow->start.correlation_id);
	nulls[9] = correlation == NULL;
	args[9] = nulls[9] ? (Datum) 0 : CStringGetTextDatum(correlation);
	args[10] = JsonbPGetDatum(flow->start.input);
	nulls[11] = flow->start.headers == NULL;
	args[11] = nulls[11] ? (Datum) 0 : JsonbPGetDatum(flow->start.headers);
	nulls[12] = nulls[13] = flow->parent_task_id == 0;
	args[12] = Int64GetDatum(beginning->parent_id);
	args[13] = Int64GetDatum(flow->parent_task_id);
	args[14] = Int32GetDatum(flow->depth);
	return tq_spi_execute(&stmt_add, args, nulls, SPI_OK_INSERT) == 1;
}

/* Begin those steps of a new instance that need an evaluation first. */
static void
begin_steps(TqCall *call, TqFlow *flow, const TqPlan *plan)
{
	for (int i = 0; i < plan->count; i++)
	{
		if (plan->steps[i].decides)
			tq_move_queue_note(call, flow->workflow_id, 0,
							   plan->steps[i].step_id, TQ_STATE_BLOCKED,
							   TQ_STATE_BLOCKED, false);
	}
	if (plan->count == 0)
	{
		(void) tq_instance_end_if_done(flow);
		tq_child_ended(call, flow);
	}
}
