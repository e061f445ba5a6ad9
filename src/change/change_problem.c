/*
 * change_problem.c
 *		All problems of a change, in one error.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/array.h"
#include "utils/json.h"

#include "base/error.h"
#include "base/str.h"
#include "change/change_problem.h"

static const char *const names[] = {
	[TQ_PROBLEM_CHANGES] = "changes",
	[TQ_PROBLEM_DELETES] = "deletes",
	[TQ_PROBLEM_DEPENDS] = "depends",
	[TQ_PROBLEM_OWNED] = "owned",
	[TQ_PROBLEM_COLLISIONS] = "collisions",
	[TQ_PROBLEM_BUGS] = "bugs",
	[TQ_PROBLEM_DOC_CHANGES] = "doc_changes",
	[TQ_PROBLEM_DOC_DELETES] = "doc_deletes",
	[TQ_PROBLEM_DOC_DEPENDS] = "doc_depends",
	[TQ_PROBLEM_DOC_OWNED] = "doc_owned",
	[TQ_PROBLEM_DOC_COLLISIONS] = "doc_collisions"};

StaticAssertDecl(lengthof(names) == TQ_PROBLEMS, "every problem has a name");

/* Add a problem, as JSON. */
void
tq_change_problem(TqChange *change, TqChangeProblem which, const char *format,
				  ...)
{
	StringInfo text = &change->problems[which];
	va_list    args;

	if (text->len > 0)
		appendStringInfoString(text, ", ");
	va_start(args, format);
	tq_str_append(text, format, args);
	va_end(args);
	change->any_problem = true;
}

/* Add misuse of an entry; the words need no escaping. */
void
tq_change_bug(TqChange *change, const TqEntry *entry, const char *words)
{
	tq_change_problem(change, TQ_PROBLEM_BUGS, "\"%s[%d] %s\"",
					  tq_change_part_name(entry->part), entry->place, words);
}

/* Add two entries for one task, or one document. */
void
tq_change_twice(TqChange *change, const char *what, const TqEntry *a,
				const TqEntry *b)
{
	tq_change_problem(change, TQ_PROBLEM_BUGS,
					  "\"%s " INT64_FORMAT " is in %s[%d] and in %s[%d]\"",
					  what, a->id, tq_change_part_name(a->part), a->place,
					  tq_change_part_name(b->part), b->place);
}

/* Add a name that another task or document has already. */
void
tq_change_collision(TqChange *change, TqChangeProblem which, const char *name)
{
	StringInfoData word;

	initStringInfo(&word);
	escape_json(&word, name);
	tq_change_problem(change, which, "%s", word.data);
}

/* Raise TQ010 with all problems, if there are any. */
void
tq_change_end_if_any(const TqChange *change)
{
	StringInfoData detail;
	int            count = change->doc_count + change->doc_add_count > 0
							   ? TQ_PROBLEMS
							   : TQ_PROBLEM_DOC_CHANGES;

	if (!change->any_problem)
		return;
	initStringInfo(&detail);
	appendStringInfoChar(&detail, '{');
	for (int i = 0; i < count; i++)
		appendStringInfo(&detail, "%s\"%s\": [%s]", i > 0 ? ", " : "",
						 names[i], change->problems[i].data);
	appendStringInfoChar(&detail, '}');
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_CONFLICT), errmsg("could not apply all changes"),
		 errdetail_internal("%s", detail.data),
		 errhint(
			 "Nothing was changed. Read the tasks named in DETAIL again, and retry.")));
}
