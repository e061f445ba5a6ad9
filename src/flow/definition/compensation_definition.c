/*
 * compensation_definition.c
 *		Reads the compensation of a step from a definition.
 *
 * A compensation is stored as a separate TqStep, attached to the step that it
 * compensates.  It is not one of the template's steps: it depends on no step,
 * and no step depends on it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/json.h"
#include "base/types.h"
#include "flow/definition/compensation_definition.h"
#include "flow/definition/member.h"
#include "flow/definition/problem.h"

#define PREFIX "compensate:"

/* Reads {handler, queue, config}. Never returns NULL. */
TqStep *
tq_compensation_definition_read(TqDefinitionProblems *problems,
								const char *path, const JsonbValue *value)
{
	TqStep    *step = palloc0(sizeof(TqStep));
	bool       has_handler = false;
	TqMembers  members;
	JsonbValue member;

	if (!tq_json_is_object(value))
	{
		tq_problem(problems, path, "must be an object");
		return step;
	}
	tq_member_list_begin(&members, value->val.binary.data, path);
	while (tq_member_list_next(&members, &member))
	{
		if (strcmp(members.name, "handler") == 0)
		{
			has_handler = true;
			step->handler =
				tq_member_word(problems, members.path, &member, TQ_MAX_NAME);
		}
		else if (strcmp(members.name, "queue") == 0)
			step->queue = tq_member_queue(problems, members.path, &member);
		else if (strcmp(members.name, "config") == 0)
			step->config = JsonbValueToJsonb(&member);
		else
			tq_problem(problems, members.path, "is unknown");
	}
	if (!has_handler)
		tq_problem(problems, psprintf("%s.handler", path), "is missing");
	return step;
}

/*
 * Complete a compensation once its step has been read.  If it names no queue,
 * it uses the queue of the step.  It has the tags of the step, and its workers
 * get the same results of parents as the workers of the step.
 */
void
tq_compensation_definition_finish(TqTemplate *template, int place,
								  TqDefinitionProblems *problems)
{
	const TqStep *step = &template->steps[place];
	TqStep       *compensate = step->compensate;

	if (template->on_failure != TQ_ON_FAILURE_COMPENSATE)
	{
		if (compensate != NULL)
			tq_problem(problems, psprintf("steps[%d].compensate", place),
					   "is allowed only with on_failure compensate");
		return;
	}
	if (step->name != NULL && strncmp(step->name, PREFIX, strlen(PREFIX)) == 0)
		tq_problem(problems, psprintf("steps[%d].name", place),
				   "must not begin with " PREFIX);
	if (compensate == NULL)
		return;
	compensate->name = step->name;
	compensate->type = TQ_STEP_STANDARD;
	compensate->retryable = true;
	if (compensate->queue == NULL)
		compensate->queue = step->queue;
	compensate->parents = step->parents;
	compensate->has_priority = step->has_priority;
	compensate->priority = step->priority;
	compensate->tags = step->tags;
}
