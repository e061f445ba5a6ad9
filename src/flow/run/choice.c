/*
 * choice.c
 *		Reads the results of decisions and batches.
 *
 * A decision ends with {"create": [names]}, or the engine makes it from the
 * conditions of its branches.  A batch ends with {"batches": [objects]}, one
 * for each member, or with {"total": n, "size": s, "max_workers": m}, which
 * splits n items into at most m parts of about s items.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/error.h"
#include "base/guc.h"
#include "base/json.h"
#include "flow/definition/value.h"
#include "flow/instance/flow_types.h"
#include "flow/instance/results.h"
#include "flow/run/choice.h"

/* A step that a decision may choose. */
typedef struct Child
{
	const char *name; /* not null-terminated */
	int         length;
	int         place;
} Child;

/* A decision that chooses more steps than taskq.warn_decision_steps. */
typedef struct Large
{
	int   place;
	int64 task_id;
	int   count;
} Large;

static char  *too_many(int64 members);
static char  *read_create(const TqTemplate *template, int place, Jsonb *result,
						  TqChoice *choice);
static Child *children_by_name(const TqTemplate *template, const TqStep *step);
static int    compare_names(const void *a, const void *b);
static char  *read_batches(Jsonb *result, TqChoice *choice);
static char  *read_list(const JsonbValue *list, TqChoice *choice);
static char  *read_split(Jsonb *result, TqChoice *choice);
static char  *read_number(Jsonb *result, const char *name, int64 least,
						  int64 if_missing, int64 *number);
static Jsonb *part(int64 index, int64 start, int64 end);
static void   push_number(JsonbParseState **state, const char *name,
						  int64 number);
static JsonbValue *member(Jsonb *result, const char *name);
static void        note(TqStepList *list, bool *noted, int place);

/*
 * Read the steps that a result chooses.  Returns NULL, or a description of
 * what is wrong with the result.  Without a result (the step was filtered or
 * resolved by hand), no step is chosen.  The settings that limit a choice
 * apply only to new choices (tq_choice_exceeds): a choice that was accepted
 * remains valid if the settings are lowered.
 */
char *
tq_choice_read(const TqTemplate *template, int place, Jsonb *result,
			   TqChoice *choice)
{
	memset(choice, 0, sizeof(*choice));
	if (result == NULL)
		return NULL;
	return template->steps[place].type == TQ_STEP_DECISION
			   ? read_create(template, place, result, choice)
			   : read_batches(result, choice);
}

/*
 * Returns NULL if a choice is within the limits, otherwise a description of
 * what is wrong with it.
 */
char *
tq_choice_exceeds(const TqStep *step, const TqChoice *choice)
{
	if (step->type == TQ_STEP_DECISION &&
		choice->steps.count > tq_guc_max_decision_steps)
		return psprintf("a decision chooses %d steps, but "
						"\"taskq.max_decision_steps\" is %d",
						choice->steps.count, tq_guc_max_decision_steps);
	if (step->type == TQ_STEP_BATCH &&
		choice->member_count > tq_guc_max_batch_members)
		return too_many(choice->member_count);
	return NULL;
}

static char *
too_many(int64 members)
{
	return psprintf("a batch has " INT64_FORMAT " members, but "
					"\"taskq.max_batch_members\" is %d",
					members, tq_guc_max_batch_members);
}

/* Raise TQ005 for a result that was given by hand. */
void
tq_choice_refuse(const TqStep *step, int64 task_id, const char *wrong)
{
	ereport(ERROR,
			(errcode(ERRCODE_TQ_INVALID_TRANSITION),
			 errmsg("invalid result for step \"%s\": %s", step->name, wrong),
			 errdetail("{\"task_id\": " INT64_FORMAT "}", task_id)));
}

/* Warn the worker whose result makes its step dead. */
void
tq_choice_warn_wrong(const TqFlow *flow, const TqStep *step, int64 task_id,
					 const char *wrong)
{
	ereport(
		WARNING,
		(errcode(ERRCODE_WARNING),
		 errmsg("invalid result for step \"%s\": %s", step->name, wrong),
		 errdetail("{\"workflow_id\": " INT64_FORMAT
				   ", \"task_id\": " INT64_FORMAT "}",
				   flow->workflow_id, task_id),
		 errhint("The step is dead.  To continue, retry it and complete it "
				 "with another result.")));
}

/* Record a large decision, even if a failure keeps it from making steps. */
void
tq_choice_note_large(List **all, const TqTemplate *template, int place,
					 int64 task_id)
{
	const TqStep *step = &template->steps[place];
	Large        *large;
	TqChoice      choice;

	/* most often the step has too few children, and its result is not read */
	if (tq_guc_warn_decision_steps == 0 || step->type != TQ_STEP_DECISION ||
		step->children.count <= tq_guc_warn_decision_steps ||
		tq_choice_read(template, place, tq_results_of_step(task_id),
					   &choice) != NULL ||
		choice.steps.count <= tq_guc_warn_decision_steps)
		return;
	large = palloc(sizeof(Large));
	large->place = place;
	large->task_id = task_id;
	large->count = choice.steps.count;
	*all = lappend(*all, large);
}

void
tq_choice_warn(const TqFlow *flow, const List *all)
{
	ListCell *cell;

	foreach (cell, all)
	{
		const Large *large = lfirst(cell);

		ereport(
			WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("decision \"%s\" of workflow \"%s\" chooses %d "
					"steps, which exceeds \"taskq.warn_decision_steps\" (%d)",
					flow->template->steps[large->place].name,
					flow->template->name, large->count,
					tq_guc_warn_decision_steps),
			 errdetail("{\"workflow_id\": " INT64_FORMAT
					   ", \"task_id\": " INT64_FORMAT ", \"steps\": %d}",
					   flow->workflow_id, large->task_id, large->count)));
	}
}

/*
 * A step that is named several times is chosen once.  The text must not quote
 * the result: errors are visible to roles that may not see contents.
 */
static char *
read_create(const TqTemplate *template, int place, Jsonb *result,
			TqChoice *choice)
{
	const TqStep  *step = &template->steps[place];
	JsonbValue    *list = member(result, "create");
	JsonbIterator *it;
	JsonbValue     entry;
	Child         *children;
	bool          *noted;
	int            count;

	if (list == NULL || !tq_json_is_list(list))
		return "the result of a decision must be {\"create\": [names of steps]}";
	count = JsonContainerSize(list->val.binary.data);
	if (count > TQ_MAX_STEPS)
		return psprintf(
			"a decision names %d steps, but at most %d are allowed", count,
			TQ_MAX_STEPS);
	choice->steps.places = palloc(sizeof(int) * (step->children.count + 1));
	noted = palloc0(sizeof(bool) * template->step_count);
	children = children_by_name(template, step);
	it = JsonbIteratorInit(list->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	for (int index = 0; JsonbIteratorNext(&it, &entry, true) == WJB_ELEM;
		 index++)
	{
		const Child *chosen;
		Child        key = {0};

		if (entry.type != jbvString)
			return "a decision must choose steps by their names";
		key.name = entry.val.string.val;
		key.length = entry.val.string.len;
		chosen = bsearch(&key, children, step->children.count, sizeof(Child),
						 compare_names);
		if (chosen == NULL)
			return psprintf("create[%d] is not the name of a step that "
							"depends on it",
							index);
		note(&choice->steps, noted, chosen->place);
	}
	return NULL;
}

/* The children of a step, sorted by name. */
static Child *
children_by_name(const TqTemplate *template, const TqStep *step)
{
	Child *children = palloc(sizeof(Child) * (step->children.count + 1));

	for (int i = 0; i < step->children.count; i++)
	{
		Child *child = &children[i];

		child->place = step->children.places[i];
		child->name = template->steps[child->place].name;
		child->length = (int) strlen(child->name);
	}
	qsort(children, step->children.count, sizeof(Child), compare_names);
	return children;
}

static int
compare_names(const void *a, const void *b)
{
	const Child *one = a;
	const Child *other = b;
	int          order =
		memcmp(one->name, other->name, Min(one->length, other->length));

	return order != 0 ? order : one->length - other->length;
}

/*
 * Choose the branches whose conditions are true.  Returns NULL and sets *wrong
 * on failure.
 */
Jsonb *
tq_choice_branches(const TqStep *step, const TqTemplate *template,
				   Jsonb *document, char **wrong)
{
	JsonbParseState *state = NULL;
	TqStepList       chosen = {0};
	JsonbValue       value;
	bool            *noted;

	chosen.places = palloc(sizeof(int) * (template->step_count + 1));
	noted = palloc0(sizeof(bool) * (template->step_count + 1));
	for (int i = 0; i < step->branch_count; i++)
	{
		const TqBranch *branch = &step->branches[i];
		bool            taken = true;

		if (branch->when != NULL &&
			!tq_value_match(branch->when, document, &taken, wrong))
		{
			*wrong = psprintf("branches[%d].when: %s", i, *wrong);
			return NULL;
		}
		for (int j = 0; taken && j < branch->steps.count; j++)
			note(&chosen, noted, branch->steps.places[j]);
	}
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	value.type = jbvString;
	value.val.string.val = "create";
	value.val.string.len = 6;
	(void) pushJsonbValue(&state, WJB_KEY, &value);
	(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < chosen.count; i++)
	{
		value.val.string.val = template->steps[chosen.places[i]].name;
		value.val.string.len = (int) strlen(value.val.string.val);
		(void) pushJsonbValue(&state, WJB_ELEM, &value);
	}
	(void) pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static char *
read_batches(Jsonb *result, TqChoice *choice)
{
	JsonbValue *list = member(result, "batches");

	if (!JB_ROOT_IS_OBJECT(result))
		return "the result of a batch must be an object";
	if (list != NULL)
		return read_list(list, choice);
	if (member(result, "total") != NULL)
		return read_split(result, choice);
	if (JB_ROOT_COUNT(result) > 0)
		return "the result of a batch must have batches, or total and size";
	return NULL;
}

static char *
read_list(const JsonbValue *list, TqChoice *choice)
{
	JsonbIterator *it;
	JsonbValue     entry;
	int            count;

	if (!tq_json_is_list(list))
		return "batches must be a list of objects";
	count = JsonContainerSize(list->val.binary.data);
	if (count > TQ_GUC_MOST_MEMBERS)
		return too_many(count);
	choice->members = palloc(sizeof(Jsonb *) * (count + 1));
	it = JsonbIteratorInit(list->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
	{
		if (!tq_json_is_object(&entry))
			return "batches must be a list of objects";
		choice->members[choice->member_count++] = JsonbValueToJsonb(&entry);
	}
	return NULL;
}

/* Split into parts whose sizes differ by at most 1, the larger ones first. */
static char *
read_split(Jsonb *result, TqChoice *choice)
{
	int64 total;
	int64 size;
	int64 most;
	int64 parts;
	int64 start = 0;
	char *wrong = read_number(result, "total", 0, -1, &total);

	if (wrong == NULL)
		wrong = read_number(result, "size", 1, -1, &size);
	if (wrong == NULL)
		wrong = read_number(result, "max_workers", 1, PG_INT64_MAX, &most);
	if (wrong != NULL)
		return wrong;
	parts = total / size + (total % size > 0);
	parts = Min(parts, most);
	if (parts > TQ_GUC_MOST_MEMBERS)
		return too_many(parts);
	choice->members = palloc(sizeof(Jsonb *) * (parts + 1));
	for (int64 i = 0; i < parts; i++)
	{
		int64 end = start + total / parts + (i < total % parts);

		choice->members[choice->member_count++] = part(i + 1, start, end);
		start = end;
	}
	return NULL;
}

static char *
read_number(Jsonb *result, const char *name, int64 least, int64 if_missing,
			int64 *number)
{
	JsonbValue *value = member(result, name);

	if (value == NULL && if_missing >= 0)
	{
		*number = if_missing;
		return NULL;
	}
	if (value == NULL || value->type != jbvNumeric ||
		!tq_value_whole(value->val.numeric, number) || *number < least)
		return psprintf(
			"%s of a batch must be a whole number from " INT64_FORMAT
			" to " INT64_FORMAT,
			name, least, TQ_LARGEST_WHOLE);
	return NULL;
}

static Jsonb *
part(int64 index, int64 start, int64 end)
{
	JsonbParseState *state = NULL;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_number(&state, "index", index);
	push_number(&state, "start", start);
	push_number(&state, "end", end);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static void
push_number(JsonbParseState **state, const char *name, int64 number)
{
	JsonbValue value;

	value.type = jbvString;
	value.val.string.val = (char *) name;
	value.val.string.len = (int) strlen(name);
	(void) pushJsonbValue(state, WJB_KEY, &value);
	value.type = jbvNumeric;
	value.val.numeric = int64_to_numeric(number);
	(void) pushJsonbValue(state, WJB_VALUE, &value);
}

static JsonbValue *
member(Jsonb *result, const char *name)
{
	JsonbValue value;

	value.type = jbvBinary;
	value.val.binary.data = &result->root;
	value.val.binary.len = VARSIZE_ANY_EXHDR(result);
	return tq_json_member(&value, name);
}

/* Add a step, unless it is in the list already. */
static void
note(TqStepList *list, bool *noted, int place)
{
	if (noted[place])
		return;
	noted[place] = true;
	list->places[list->count++] = place;
}
