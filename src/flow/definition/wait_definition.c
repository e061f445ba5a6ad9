/*
 * wait_definition.c
 *		Reads what a step without a worker waits for, from the members
 *		workflow, signal and timer.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/json.h"
#include "base/types.h"
#include "flow/definition/member.h"
#include "flow/definition/problem.h"
#include "flow/definition/value.h"
#include "flow/definition/wait_definition.h"

/* One of these members, and the state of its read. */
typedef struct Reading
{
	TqWaitDefinition     *wait;
	TqDefinitionProblems *problems;
	List                **wanted;
	const char           *path; /* path of the member */
	JsonbValue           *value;
	/* members that are present, whether right or wrong */
	bool has_name;
	bool has_on_timeout;
	bool has_role;
	bool has_escalate_after;
	bool has_escalate_to;
} Reading;

typedef bool (*ReadMember)(Reading *reading, TqStepType type,
						   const char *name);

static bool read_workflow(Reading *reading, TqStepType type, const char *name);
static bool read_signal(Reading *reading, TqStepType type, const char *name);
static bool read_timer(Reading *reading, TqStepType type, const char *name);
static Jsonb *read_span(const Reading *reading);
static Jsonb *read_time(const Reading *reading);
static bool   is_selected(const Reading *reading);
static void   check_whole(Reading *reading, TqStepType type, const char *path);

/* Never returns NULL.  If there are problems, the result must not be used. */
TqWaitDefinition *
tq_wait_definition_read(TqStepType type, TqDefinitionProblems *problems,
						const char *path, const JsonbValue *value,
						List **wanted)
{
	ReadMember        read = type == TQ_STEP_WORKFLOW ? read_workflow
							 : type == TQ_STEP_TIMER  ? read_timer
													  : read_signal;
	TqWaitDefinition *wait = palloc0(sizeof(TqWaitDefinition));
	Reading           reading = {wait, problems, wanted};
	TqMembers         members;
	JsonbValue        member;

	if (!tq_json_is_object(value))
	{
		tq_problem(problems, path, "must be an object");
		return wait;
	}
	tq_member_list_begin(&members, value->val.binary.data, path);
	while (tq_member_list_next(&members, &member))
	{
		reading.path = members.path;
		reading.value = &member;
		reading.has_name |= strcmp(members.name, "name") == 0;
		if (!read(&reading, type, members.name))
			tq_problem(problems, members.path, "is unknown");
	}
	check_whole(&reading, type, path);
	return wait;
}

static bool
read_workflow(Reading *reading, TqStepType type, const char *name)
{
	TqWaitDefinition     *wait = reading->wait;
	TqDefinitionProblems *problems = reading->problems;

	if (strcmp(name, "name") == 0)
		wait->name = tq_member_word(problems, reading->path, reading->value,
									TQ_MAX_NAME);
	else if (strcmp(name, "namespace") == 0)
		wait->space = tq_member_word(problems, reading->path, reading->value,
									 TQ_MAX_NAME);
	else if (strcmp(name, "version") == 0)
		wait->version = tq_member_word(problems, reading->path, reading->value,
									   TQ_MAX_NAME);
	else if (strcmp(name, "input") == 0)
		wait->input = tq_member_pattern(problems, reading->path,
										reading->value, reading->wanted);
	else if (strcmp(name, "key") == 0)
	{
		if (!is_selected(reading))
			(void) tq_member_word(problems, reading->path, reading->value,
								  TQ_MAX_KEY);
		wait->key = tq_member_pattern(problems, reading->path, reading->value,
									  reading->wanted);
	}
	else
		return false;
	return true;
}

static bool
read_signal(Reading *reading, TqStepType type, const char *name)
{
	static const char *const words[] = {"fail", "complete"};

	TqWaitDefinition     *wait = reading->wait;
	TqDefinitionProblems *problems = reading->problems;

	if (strcmp(name, "name") == 0)
		wait->signal = tq_member_word(problems, reading->path, reading->value,
									  TQ_MAX_NAME);
	else if (strcmp(name, "timeout") == 0)
		wait->after = read_span(reading);
	else if (strcmp(name, "on_timeout") == 0)
	{
		reading->has_on_timeout = true;
		wait->completes = tq_member_choice(problems, reading->path,
										   reading->value, words,
										   lengthof(words)) == 1;
	}
	else if (type != TQ_STEP_APPROVAL)
		return false;
	else if (strcmp(name, "role") == 0)
	{
		reading->has_role = true;
		wait->role = tq_member_word(problems, reading->path, reading->value,
									NAMEDATALEN - 1);
	}
	else if (strcmp(name, "escalate_to") == 0)
	{
		reading->has_escalate_to = true;
		wait->escalate_to = tq_member_word(problems, reading->path,
										   reading->value, NAMEDATALEN - 1);
	}
	else if (strcmp(name, "escalate_after") == 0)
	{
		reading->has_escalate_after = true;
		(void) tq_member_span(problems, reading->path, reading->value, false,
							  &wait->escalate_after);
	}
	else
		return false;
	return true;
}

static bool
read_timer(Reading *reading, TqStepType type, const char *name)
{
	if (strcmp(name, "after") == 0)
		reading->wait->after = read_span(reading);
	else if (strcmp(name, "at") == 0)
		reading->wait->at = read_time(reading);
	else
		return false;
	return true;
}

/* An interval, or the {"$": path} of one. */
static Jsonb *
read_span(const Reading *reading)
{
	int64 span;

	if (!is_selected(reading))
		(void) tq_member_span(reading->problems, reading->path, reading->value,
							  false, &span);
	return tq_member_pattern(reading->problems, reading->path, reading->value,
							 reading->wanted);
}

/* A time, or the {"$": path} of one. */
static Jsonb *
read_time(const Reading *reading)
{
	const JsonbValue *value = reading->value;
	TimestampTz       time;

	if (!is_selected(reading) &&
		(value->type != jbvString ||
		 !tq_value_time(pnstrdup(value->val.string.val, value->val.string.len),
						&time)))
		tq_problem(reading->problems, reading->path,
				   "must be a point in time, as text");
	return tq_member_pattern(reading->problems, reading->path, reading->value,
							 reading->wanted);
}

/* Is it an object that contains only a path? */
static bool
is_selected(const Reading *reading)
{
	const JsonbValue *value = reading->value;
	JsonbValue        path;

	return tq_json_is_object(value) &&
		   JsonContainerSize(value->val.binary.data) == 1 &&
		   getKeyJsonValueFromContainer(value->val.binary.data, "$", 1,
										&path) != NULL &&
		   path.type == jbvString;
}

/* Check what concerns several members. */
static void
check_whole(Reading *reading, TqStepType type, const char *path)
{
	TqWaitDefinition *wait = reading->wait;

	if (type != TQ_STEP_TIMER && !reading->has_name)
		tq_problem(reading->problems, psprintf("%s.name", path), "is missing");
	if (type == TQ_STEP_WORKFLOW)
	{
		if (wait->space == NULL)
			wait->space = "default";
		return;
	}
	if (type == TQ_STEP_TIMER)
	{
		if ((wait->at == NULL) == (wait->after == NULL))
			tq_problem(reading->problems, path,
					   "must have one of the members after and at");
		return;
	}
	if (reading->has_on_timeout && wait->after == NULL)
		tq_problem(reading->problems, path, "has on_timeout without timeout");
	if (reading->has_escalate_after != reading->has_escalate_to)
		tq_problem(
			reading->problems, path,
			"must have both escalate_after and escalate_to, or neither");
	else if (reading->has_escalate_to && !reading->has_role)
		tq_problem(
			reading->problems, path,
			"has escalate_to without role, which lets every role approve");
}
