/*
 * schedule_flow.c
 *		Schedules that start workflows: the member "workflow" of options.
 *
 * An instance has no reference.  The number of the planned time, which is
 * written in the transaction that starts the instance, keeps a planned time
 * from firing twice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"

#include "base/error.h"
#include "base/json.h"
#include "engine/call.h"
#include "flow/instance/flow.h"
#include "flow/run/cancel_workflow.h"
#include "flow/run/start_workflow.h"
#include "schedule/schedule_flow.h"

static JsonbValue *find_workflow(const Jsonb *options, JsonbValue *root);
static void read_start(const TqSchedule *schedule, FunctionCallInfo start);
static void read_workflow(FunctionCallInfo start, JsonbValue *workflow);
static void read_option(FunctionCallInfo start, const char *name,
						JsonbValue *value);
static void give(FunctionCallInfo start, TqStartArg arg, Datum value);

/* Does the schedule start a workflow? */
bool
tq_schedule_flow_given(const TqSchedule *schedule)
{
	JsonbValue root;

	return find_workflow(schedule->options, &root) != NULL;
}

static JsonbValue *
find_workflow(const Jsonb *options, JsonbValue *root)
{
	if (options == NULL || !JB_ROOT_IS_OBJECT(options))
		return NULL;
	root->type = jbvBinary;
	root->val.binary.data = (JsonbContainer *) &options->root;
	root->val.binary.len = VARSIZE(options) - VARHDRSZ;
	return tq_json_member(root, "workflow");
}

/* Raise the error that a start would raise now. */
void
tq_schedule_flow_check(const TqSchedule *schedule)
{
	LOCAL_FCINFO(start, TQ_START_COUNT);

	read_start(schedule, start);
	tq_start_workflow_check(start);
}

/*
 * Deal with the instance of an earlier planned time, if it is live.  Returns
 * false if it keeps this one from being started.
 */
bool
tq_schedule_flow_clear(const TqSchedule *schedule)
{
	TqFlow flow;
	TqCall call;
	bool   clear = true;

	if (schedule->last_workflow_id == 0 ||
		strcmp(schedule->overlap, "allow") == 0)
		return true;
	tq_call_begin(&call, "taskq schedules");
	if (tq_flow_read(schedule->last_workflow_id, &flow) &&
		!tq_flow_has_ended(&flow))
	{
		clear = strcmp(schedule->overlap, "replace") == 0;
		if (clear)
			(void) tq_cancel_workflow_run(&call, &flow, NULL);
	}
	tq_call_end(&call);
	return clear;
}

/* Start an instance, with further headers.  Returns its id. */
int64
tq_schedule_flow_start(const TqSchedule *schedule, Jsonb *headers)
{
	LOCAL_FCINFO(start, TQ_START_COUNT);
	Datum all = JsonbPGetDatum(headers);

	read_start(schedule, start);
	if (!start->args[TQ_START_HEADERS].isnull)
		all = DirectFunctionCall2(jsonb_concat,
								  start->args[TQ_START_HEADERS].value, all);
	give(start, TQ_START_HEADERS, all);
	return tq_start_workflow_run(start);
}

/* Read the options as arguments of taskq_start_workflow. */
static void
read_start(const TqSchedule *schedule, FunctionCallInfo start)
{
	JsonbValue         root;
	JsonbValue        *workflow = find_workflow(schedule->options, &root);
	JsonbIterator     *it;
	JsonbIteratorToken token;
	JsonbValue         key;
	JsonbValue         value;

	InitFunctionCallInfoData(*start, NULL, TQ_START_COUNT, InvalidOid, NULL,
							 NULL);
	for (int i = 0; i < TQ_START_COUNT; i++)
		start->args[i].isnull = true;
	if (!tq_json_is_object(workflow))
		tq_error_invalid("member \"workflow\" of options",
						 "must be a JSON object", NULL);
	read_workflow(start, workflow);
	if (schedule->payload != NULL)
		give(start, TQ_START_INPUT, JsonbPGetDatum(schedule->payload));
	it = JsonbIteratorInit(root.val.binary.data);
	(void) JsonbIteratorNext(&it, &key, false);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		char *name = pnstrdup(key.val.string.val, key.val.string.len);

		(void) JsonbIteratorNext(&it, &value, true);
		if (strcmp(name, "workflow") != 0)
			read_option(start, name, &value);
	}
}

static void
read_workflow(FunctionCallInfo start, JsonbValue *workflow)
{
	static const struct
	{
		const char *name;
		TqStartArg  arg;
	} members[] = {{"name", TQ_START_NAME},
				   {"namespace", TQ_START_NAMESPACE},
				   {"version", TQ_START_VERSION},
				   {"key", TQ_START_KEY}};
	JsonbIterator *it = JsonbIteratorInit(workflow->val.binary.data);
	JsonbValue     key;
	JsonbValue     value;

	(void) JsonbIteratorNext(&it, &key, false);
	while (JsonbIteratorNext(&it, &key, true) == WJB_KEY)
	{
		char *name = pnstrdup(key.val.string.val, key.val.string.len);
		int   n = 0;

		(void) JsonbIteratorNext(&it, &value, true);
		while (n < lengthof(members) && strcmp(members[n].name, name) != 0)
			n++;
		if (n == lengthof(members))
			tq_error_invalid(psprintf("member \"%s\" of workflow", name),
							 "does not exist",
							 "Allowed: name, namespace, version, key.");
		if (value.type != jbvNull)
			give(start, members[n].arg,
				 CStringGetTextDatum(tq_json_string(name, &value)));
	}
}

static void
read_option(FunctionCallInfo start, const char *name, JsonbValue *value)
{
	if (strcmp(name, "priority") != 0 && strcmp(name, "headers") != 0 &&
		strcmp(name, "correlation_id") != 0)
		tq_error_invalid(
			psprintf("member \"%s\" of options", name),
			"is not allowed together with a workflow",
			"Allowed: workflow, priority, headers, correlation_id.");
	if (value->type == jbvNull)
		return;
	if (strcmp(name, "priority") == 0)
		give(start, TQ_START_PRIORITY,
			 Int32GetDatum(tq_json_int4(name, value)));
	else if (strcmp(name, "headers") == 0)
		give(start, TQ_START_HEADERS,
			 JsonbPGetDatum(JsonbValueToJsonb(value)));
	else
		give(start, TQ_START_CORRELATION_ID,
			 CStringGetTextDatum(tq_json_string(name, value)));
}

static void
give(FunctionCallInfo start, TqStartArg arg, Datum value)
{
	start->args[arg].value = value;
	start->args[arg].isnull = false;
}
