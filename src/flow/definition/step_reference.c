/*
 * step_reference.c
 *		Resolves references between the steps of a definition: in depends_on,
 *		in the branches of decisions and in paths.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/json.h"
#include "base/types.h"
#include "flow/definition/member.h"
#include "flow/definition/step_reference.h"

/* A step by name. */
typedef struct Named
{
	char name[TQ_MAX_NAME + 1];
	int  place;
} Named;

static void read_branch(HTAB *names, TqDefinitionProblems *problems,
						const char *path, JsonbValue *value, TqBranch *branch,
						List **wanted);

/* Create an empty table of step names. */
HTAB *
tq_step_reference_begin(void)
{
	HASHCTL ctl = {0};

	ctl.keysize = TQ_MAX_NAME + 1;
	ctl.entrysize = sizeof(Named);
	ctl.hcxt = CurrentMemoryContext;
	return hash_create("taskq steps", 64, &ctl,
					   HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
}

void
tq_step_reference_note(HTAB *names, TqDefinitionProblems *problems,
					   const char *step_name, int place)
{
	char   name[TQ_MAX_NAME + 1];
	bool   found;
	Named *named;

	strlcpy(name, step_name, sizeof(name));
	named = hash_search(names, name, HASH_ENTER, &found);
	if (found)
	{
		problems->no_graph = true;
		tq_problem(problems, psprintf("steps[%d].name", place),
				   "is also the name of steps[%d]", named->place);
	}
	else
		named->place = place;
}

/* Read a list of step names without duplicates. */
void
tq_step_reference_list(HTAB *names, TqDefinitionProblems *problems,
					   const char *path, const JsonbValue *value,
					   TqStepList *list)
{
	JsonbIterator *it;
	JsonbValue     entry;
	Bitmapset     *seen = NULL;
	int            count;

	if (!tq_json_is_list(value))
	{
		tq_problem(problems, path, "must be a list of names");
		return;
	}
	count = JsonContainerSize(value->val.binary.data);
	list->places = palloc(sizeof(int) * (count + 1));
	it = JsonbIteratorInit(value->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	for (int i = 0; i < count; i++)
	{
		char   name[TQ_MAX_NAME + 1];
		Named *named = NULL;

		CHECK_FOR_INTERRUPTS();
		(void) JsonbIteratorNext(&it, &entry, true);
		if (entry.type != jbvString)
		{
			tq_problem(problems, psprintf("%s[%d]", path, i),
					   "must be a name");
			continue;
		}
		if (entry.val.string.len <= TQ_MAX_NAME)
		{
			memcpy(name, entry.val.string.val, entry.val.string.len);
			name[entry.val.string.len] = '\0';
			named = hash_search(names, name, HASH_FIND, NULL);
		}
		if (named == NULL)
			tq_problem(problems, psprintf("%s[%d]", path, i),
					   "is not a step of this workflow");
		else if (bms_is_member(named->place, seen))
			tq_problem(problems, psprintf("%s[%d]", path, i),
					   "is listed twice");
		else
		{
			seen = bms_add_member(seen, named->place);
			list->places[list->count++] = named->place;
		}
	}
	bms_free(seen);
}

/*
 * Read the branches of a decision.  Adds the names that their conditions
 * mention to wanted.
 */
void
tq_step_reference_branches(HTAB *names, TqDefinitionProblems *problems,
						   TqStep *step, int place, const JsonbValue *branches,
						   List **wanted)
{
	JsonbIterator *it;
	JsonbValue     entry;
	int            count;

	if (!tq_json_is_list(branches))
	{
		tq_problem(problems, psprintf("steps[%d].branches", place),
				   "must be a list of objects");
		return;
	}
	count = JsonContainerSize(branches->val.binary.data);
	step->branches = palloc0(sizeof(TqBranch) * (count + 1));
	step->branch_count = count;
	it = JsonbIteratorInit(branches->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	for (int i = 0; i < count; i++)
	{
		(void) JsonbIteratorNext(&it, &entry, true);
		read_branch(names, problems,
					psprintf("steps[%d].branches[%d]", place, i), &entry,
					&step->branches[i], wanted);
	}
}

static void
read_branch(HTAB *names, TqDefinitionProblems *problems, const char *path,
			JsonbValue *value, TqBranch *branch, List **wanted)
{
	TqMembers  members;
	JsonbValue member;
	bool       has_steps = false;

	if (!tq_json_is_object(value))
	{
		tq_problem(problems, path, "must be an object");
		return;
	}
	tq_member_list_begin(&members, value->val.binary.data, path);
	while (tq_member_list_next(&members, &member))
	{
		if (strcmp(members.name, "when") == 0)
			branch->when =
				tq_member_path(problems, members.path, &member, wanted);
		else if (strcmp(members.name, "steps") == 0)
		{
			has_steps = true;
			tq_step_reference_list(names, problems, members.path, &member,
								   &branch->steps);
		}
		else
			tq_problem(problems, members.path, "is unknown");
	}
	if (!has_steps)
		tq_problem(problems, psprintf("%s.steps", path), "is missing");
}

/*
 * Resolve the steps that paths name.  A name that no step has is ignored: no
 * result belongs to it.
 */
void
tq_step_reference_wants(HTAB *names, TqStep *step, int place,
						const List *wanted)
{
	Bitmapset *seen = NULL;
	ListCell  *cell;

	step->wants.places = palloc(sizeof(int) * (list_length(wanted) + 1));
	foreach (cell, wanted)
	{
		char  *word = lfirst(cell);
		char   name[TQ_MAX_NAME + 1];
		Named *named;

		if (strlen(word) > TQ_MAX_NAME)
			continue;
		strlcpy(name, word, sizeof(name));
		named = hash_search(names, name, HASH_FIND, NULL);
		if (named == NULL || named->place == place ||
			bms_is_member(named->place, seen))
			continue;
		seen = bms_add_member(seen, named->place);
		step->wants.places[step->wants.count++] = named->place;
	}
	bms_free(seen);
}
