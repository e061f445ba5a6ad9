/*
 * problem.c
 *		Problems of a definition.
 *
 * Reading a definition continues after a problem, so that one call reports all
 * of them, each with its path.  Only the first TQ_MAX_PROBLEMS are kept, in
 * the current memory context; the others are counted.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/json.h"

#include "base/array.h"
#include "base/error.h"
#include "base/str.h"
#include "flow/definition/problem.h"

/* Raise TQ011 with all problems. */
void
tq_problem_raise(const TqDefinitionProblems *problems, const char *message)
{
	ereport(ERROR,
			(errcode(ERRCODE_TQ_INVALID_WORKFLOW), errmsg("%s", message),
			 errdetail_internal("%s", tq_problem_detail(problems))));
}

char *
tq_problem_detail(const TqDefinitionProblems *problems)
{
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfoString(&detail, "{\"problems\": [");
	for (int i = 0; i < Min(problems->count, TQ_MAX_PROBLEMS); i++)
	{
		appendStringInfoString(&detail,
							   i > 0 ? ", {\"path\": " : "{\"path\": ");
		escape_json(&detail, problems->all[i].path);
		appendStringInfoString(&detail, ", \"problem\": ");
		escape_json(&detail, problems->all[i].words);
		appendStringInfoChar(&detail, '}');
	}
	appendStringInfoString(&detail, "]}");
	return detail.data;
}

/* Record a problem.  Only the first TQ_MAX_PROBLEMS are kept. */
void
tq_problem(TqDefinitionProblems *problems, const char *path,
		   const char *format, ...)
{
	StringInfoData text;
	va_list        args;

	if (problems->count++ >= TQ_MAX_PROBLEMS)
		return;
	TQ_ARRAY_RESERVE(problems->all, problems->count - 1, problems->room,
					 CurrentMemoryContext);
	initStringInfo(&text);
	va_start(args, format);
	tq_str_append(&text, format, args);
	va_end(args);
	problems->all[problems->count - 1].path = pstrdup(path);
	problems->all[problems->count - 1].words = text.data;
}
