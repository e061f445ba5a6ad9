/*
 * definition.c
 *		Reads and checks definitions of workflows.
 *
 * A definition is read member by member.  Each problem is recorded with its
 * path, and reading continues, so that one call reports all problems. graph.c
 * checks what concerns more than one step.  Both take time proportional to the
 * size of the definition.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"

#include "base/json.h"
#include "base/types.h"
#include "flow/definition/compensation_definition.h"
#include "flow/definition/definition.h"
#include "flow/definition/graph.h"
#include "flow/definition/member.h"
#include "flow/definition/problem.h"
#include "flow/definition/schema.h"
#include "flow/definition/step_reference.h"
#include "flow/definition/wait_definition.h"

#define MAX_WORDS 8192 /* bytes of a description */

/* Members of a definition and of a step. */
typedef enum Member
{
	M_NAMESPACE,
	M_NAME,
	M_VERSION,
	M_DESCRIPTION,
	M_IDENTITY,
	M_INPUT_SCHEMA,
	M_QUEUE,
	M_MAX_DURATION,
	M_ON_FAILURE,
	M_IDENTITY_WINDOW,
	M_RETENTION,
	M_STALE_AFTER,
	M_STEPS,
	M_TYPE,
	M_HANDLER,
	M_CONFIG,
	M_DEPENDS_ON,
	M_WHEN,
	M_PAYLOAD,
	M_RETRYABLE,
	M_PRIORITY,
	M_TAGS,
	M_KEY,
	M_COMPENSATE,
	M_WORKFLOW,
	M_SIGNAL,
	M_TIMER,
	M_BRANCHES,
	M_FAILURE_STRATEGY,
	M_CONTINUE_ON_FAILURE,
	M_PUBLISHES,
	M_MAX_ATTEMPTS,
	M_OPTION /* a member of the step's own options */
} Member;

typedef struct Known
{
	const char *name;
	Member      member;
} Known;

static const Known of_template[] = {
	{"namespace", M_NAMESPACE},   {"name", M_NAME},
	{"version", M_VERSION},       {"description", M_DESCRIPTION},
	{"identity", M_IDENTITY},     {"input_schema", M_INPUT_SCHEMA},
	{"queue", M_QUEUE},           {"max_duration", M_MAX_DURATION},
	{"on_failure", M_ON_FAILURE}, {"identity_window", M_IDENTITY_WINDOW},
	{"retention", M_RETENTION},   {"stale_after", M_STALE_AFTER},
	{"steps", M_STEPS},
};

static const Known of_step[] = {
	{"name", M_NAME},
	{"type", M_TYPE},
	{"queue", M_QUEUE},
	{"handler", M_HANDLER},
	{"config", M_CONFIG},
	{"depends_on", M_DEPENDS_ON},
	{"when", M_WHEN},
	{"payload", M_PAYLOAD},
	{"retryable", M_RETRYABLE},
	{"priority", M_PRIORITY},
	{"tags", M_TAGS},
	{"key", M_KEY},
	{"compensate", M_COMPENSATE},
	{"workflow", M_WORKFLOW},
	{"signal", M_SIGNAL},
	{"timer", M_TIMER},
	{"branches", M_BRANCHES},
	{"failure_strategy", M_FAILURE_STRATEGY},
	{"continue_on_failure", M_CONTINUE_ON_FAILURE},
	{"publishes", M_PUBLISHES},
	{"stale_after", M_STALE_AFTER},
	{"max_attempts", M_MAX_ATTEMPTS},
	{"retry", M_OPTION},
	{"retry_base", M_OPTION},
	{"retry_cap", M_OPTION},
	{"retry_list", M_OPTION},
	{"retry_jitter", M_OPTION},
	{"lease", M_OPTION},
	{"time_limit", M_OPTION},
	{"on_worker_death", M_OPTION},
	{"deadline_in", M_OPTION},
};

static const char *const type_names[] = {
	[TQ_STEP_STANDARD] = "standard",
	[TQ_STEP_DECISION] = "decision",
	[TQ_STEP_DEFERRED] = "deferred",
	[TQ_STEP_BATCH] = "batch",
	[TQ_STEP_BATCH_WORKER] = "batch_worker",
	[TQ_STEP_WORKFLOW] = "workflow",
	[TQ_STEP_SIGNAL] = "signal",
	[TQ_STEP_APPROVAL] = "approval",
	[TQ_STEP_TIMER] = "timer"};

static const char *const on_failure_names[] = {
	[TQ_ON_FAILURE_CONTINUE] = "continue",
	[TQ_ON_FAILURE_STOP] = "stop",
	[TQ_ON_FAILURE_COMPENSATE] = "compensate"};

static const char *const identity_names[] = {[TQ_IDENTITY_UNIQUE] = "unique",
											 [TQ_IDENTITY_STRICT] = "strict",
											 [TQ_IDENTITY_KEY] = "key"};

static const char *const strategy_names[] = {
	[TQ_STRATEGY_FAIL_FAST] = "fail_fast",
	[TQ_STRATEGY_CONTINUE] = "continue_on_failure",
	[TQ_STRATEGY_ISOLATE] = "isolate"};

/* A step while it is read: it refers to other steps by name. */
typedef struct Draft
{
	JsonbValue       depends_on;
	bool             has_name;
	bool             has_depends_on;
	JsonbValue       branches;
	bool             has_branches;
	JsonbValue      *options; /* being built; NULL: has no options */
	JsonbParseState *state;
	List            *wanted; /* names that its paths mention */
	List            *given;  /* members, of Known */
	/* the members workflow, signal and timer */
	JsonbValue waits[M_TIMER - M_WORKFLOW + 1];
} Draft;

/* State of a read. */
typedef struct Reader
{
	TqTemplate *template;
	TqDefinitionProblems *problems;
	HTAB                 *names; /* of steps */
	Draft                *drafts;
	uint32                given; /* members of the template, as bits */
} Reader;

static const Known *known_member(const Known *all, int count,
								 const char *name);
static void read_template(Reader *reader, const Known *known, const char *path,
						  JsonbValue *value);
static void read_steps(Reader *reader, JsonbValue *value);
static void read_step(Reader *reader, int place, JsonbValue *value);
static void read_step_member(Reader *reader, int place, const Known *known,
							 const char *path, JsonbValue *value);
static void unbuilt(TqDefinitionProblems *problems, const char *path);
static void read_boolean(TqDefinitionProblems *problems, const char *path,
						 JsonbValue *value, bool *answer);
static void finish_step(Reader *reader, int place);
static void finish_wait(Reader *reader, int place, const char *path);
static void resolve(Reader *reader, int place);

const char *
tq_definition_step_type(TqStepType type)
{
	return type_names[type];
}

/*
 * Read a definition into a template whose numbers are 0. If there are
 * problems, the template may be used only to find more of them. max_nesting
 * limits how deep decisions and batches may be nested.
 */
TqTemplate *
tq_definition_read(Jsonb *definition, int max_nesting,
				   TqDefinitionProblems *problems)
{
	Reader reader = {0};
	TqTemplate *template = palloc0(sizeof(TqTemplate));
	TqMembers  members;
	JsonbValue value;
	JsonbValue steps = {0};
	bool       has_steps = false;

	if (!JB_ROOT_IS_OBJECT(definition))
	{
		tq_problem(problems, "", "must be an object");
		return template;
	}
	reader.template = template;
	reader.problems = problems;
	reader.names = tq_step_reference_begin();
	template->space = "default";
	template->queue = "default";
	tq_member_list_begin(&members, &definition->root, NULL);
	while (tq_member_list_next(&members, &value))
	{
		const Known *known =
			known_member(of_template, lengthof(of_template), members.name);

		if (known == NULL)
			tq_problem(problems, members.path, "is unknown");
		else if (known->member == M_STEPS)
		{
			steps = value;
			has_steps = true;
		}
		else
		{
			reader.given |= 1U << known->member;
			read_template(&reader, known, members.path, &value);
		}
	}
	if ((reader.given & (1U << M_NAME)) == 0)
		tq_problem(problems, "name", "is missing");
	if ((reader.given & (1U << M_VERSION)) == 0)
		tq_problem(problems, "version", "is missing");
	if (!has_steps)
		tq_problem(problems, "steps", "is missing");
	else
		read_steps(&reader, &steps);
	if (template->step_count > 0 && !problems->no_graph)
		tq_graph_check(template, max_nesting, problems);
	return template;
}

static const Known *
known_member(const Known *all, int count, const char *name)
{
	for (int i = 0; i < count; i++)
	{
		if (strcmp(all[i].name, name) == 0)
			return &all[i];
	}
	return NULL;
}

static void
read_template(Reader *reader, const Known *known, const char *path,
			  JsonbValue *value)
{
	TqTemplate *template = reader->template;
	TqDefinitionProblems *problems = reader->problems;
	int64                 span;

	switch (known->member)
	{
		case M_NAMESPACE:
			template->space =
				tq_member_word(problems, path, value, TQ_MAX_NAME);
			break;
		case M_NAME:
			template->name =
				tq_member_word(problems, path, value, TQ_MAX_NAME);
			break;
		case M_VERSION:
			template->version =
				tq_member_word(problems, path, value, TQ_MAX_NAME);
			break;
		case M_DESCRIPTION:
			if (value->type != jbvString)
				tq_problem(problems, path, "must be a string");
			else if (value->val.string.len > MAX_WORDS)
				tq_problem(problems, path, "is longer than %d bytes",
						   MAX_WORDS);
			break;
		case M_IDENTITY:
			template->identity = (TqIdentity) tq_member_choice(
				problems, path, value, identity_names,
				lengthof(identity_names));
			break;
		case M_INPUT_SCHEMA:
			template->input_schema = JsonbValueToJsonb(value);
			tq_schema_check(template->input_schema, problems);
			break;
		case M_QUEUE:
			template->queue = tq_member_queue(problems, path, value);
			break;
		case M_ON_FAILURE:
			template->on_failure = (TqOnFailure) tq_member_choice(
				problems, path, value, on_failure_names,
				lengthof(on_failure_names));
			break;
		case M_IDENTITY_WINDOW:
			if (tq_member_span(problems, path, value, true, &span))
				template->identity_window = span;
			break;
		case M_RETENTION:
			template->has_retention = tq_member_span(
				problems, path, value, true, &template->retention);
			break;
		default:
			unbuilt(problems, path);
			break;
	}
}

/* Record a member that is not supported. */
static void
unbuilt(TqDefinitionProblems *problems, const char *path)
{
	tq_problem(problems, path, "is not supported");
	problems->unbuilt++;
}

static void
read_steps(Reader *reader, JsonbValue *value)
{
	TqTemplate *template = reader->template;
	JsonbIterator *it;
	JsonbValue     entry;
	int            count;

	if (!tq_json_is_list(value))
	{
		tq_problem(reader->problems, "steps", "must be a list");
		return;
	}
	count = JsonContainerSize(value->val.binary.data);
	if (count > TQ_MAX_STEPS)
	{
		tq_problem(reader->problems, "steps", "has more than %d members",
				   TQ_MAX_STEPS);
		return;
	}
	template->steps = palloc0(sizeof(TqStep) * (count + 1));
	template->step_count = count;
	reader->drafts = palloc0(sizeof(Draft) * (count + 1));
	it = JsonbIteratorInit(value->val.binary.data);
	(void) JsonbIteratorNext(&it, &entry, false);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		(void) JsonbIteratorNext(&it, &entry, true);
		read_step(reader, i, &entry);
	}
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		resolve(reader, i);
		tq_compensation_definition_finish(template, i, reader->problems);
	}
}

static void
read_step(Reader *reader, int place, JsonbValue *value)
{
	TqStep    *step = &reader->template->steps[place];
	char      *path = psprintf("steps[%d]", place);
	TqMembers  members;
	JsonbValue member;

	step->retryable = true;
	if (!tq_json_is_object(value))
	{
		reader->problems->no_graph = true;
		tq_problem(reader->problems, path, "must be an object");
		return;
	}
	tq_member_list_begin(&members, value->val.binary.data, path);
	while (tq_member_list_next(&members, &member))
	{
		const Known *known =
			known_member(of_step, lengthof(of_step), members.name);

		if (known == NULL)
			tq_problem(reader->problems, members.path, "is unknown");
		else
			read_step_member(reader, place, known, members.path, &member);
		if (known != NULL)
			reader->drafts[place].given =
				lappend(reader->drafts[place].given, (void *) known);
	}
	finish_step(reader, place);
}

static void
read_step_member(Reader *reader, int place, const Known *known,
				 const char *path, JsonbValue *value)
{
	TqDefinitionProblems *problems = reader->problems;
	TqStep               *step = &reader->template->steps[place];
	Draft                *draft = &reader->drafts[place];
	JsonbValue            key;

	switch (known->member)
	{
		case M_NAME:
			draft->has_name = true;
			step->name = tq_member_word(problems, path, value, TQ_MAX_NAME);
			break;
		case M_TYPE:
			step->type = (TqStepType) tq_member_choice(
				problems, path, value, type_names, lengthof(type_names));
			break;
		case M_QUEUE:
			step->queue = tq_member_queue(problems, path, value);
			break;
		case M_HANDLER:
			step->handler = tq_member_word(problems, path, value, TQ_MAX_NAME);
			break;
		case M_CONFIG:
			step->config = JsonbValueToJsonb(value);
			break;
		case M_DEPENDS_ON:
			draft->depends_on = *value;
			draft->has_depends_on = true;
			break;
		case M_WHEN:
			step->when = tq_member_path(problems, path, value, &draft->wanted);
			break;
		case M_PAYLOAD:
			step->payload =
				tq_member_pattern(problems, path, value, &draft->wanted);
			break;
		case M_RETRYABLE:
			read_boolean(problems, path, value, &step->retryable);
			break;
		case M_PRIORITY:
			step->priority = tq_member_integer(problems, path, value,
											   PG_INT16_MIN, PG_INT16_MAX);
			step->has_priority = true;
			break;
		case M_TAGS:
			tq_member_tags(problems, path, value, &step->tags);
			break;
		case M_KEY:
			step->key = tq_member_word(problems, path, value, TQ_MAX_KEY);
			break;
		case M_BRANCHES:
			draft->branches = *value;
			draft->has_branches = true;
			break;
		case M_WORKFLOW:
		case M_SIGNAL:
		case M_TIMER:
			draft->waits[known->member - M_WORKFLOW] = *value;
			break;
		case M_COMPENSATE:
			step->compensate =
				tq_compensation_definition_read(problems, path, value);
			break;
		case M_FAILURE_STRATEGY:
			step->strategy = (TqStrategy) tq_member_choice(
				problems, path, value, strategy_names,
				lengthof(strategy_names));
			break;
		case M_CONTINUE_ON_FAILURE:
			read_boolean(problems, path, value, &step->continues);
			break;
		case M_MAX_ATTEMPTS:
			step->max_attempts =
				tq_member_integer(problems, path, value, -1, PG_INT32_MAX);
			if (step->max_attempts == 0 && value->type == jbvNumeric)
				tq_problem(problems, path,
						   "must be at least 1, or -1 for any number");
			break;
		case M_OPTION:
			if (draft->options == NULL)
				draft->options =
					pushJsonbValue(&draft->state, WJB_BEGIN_OBJECT, NULL);
			key.type = jbvString;
			key.val.string.val = (char *) known->name;
			key.val.string.len = (int) strlen(known->name);
			(void) pushJsonbValue(&draft->state, WJB_KEY, &key);
			(void) pushJsonbValue(&draft->state, WJB_VALUE, value);
			break;
		default:
			unbuilt(problems, path);
			break;
	}
}

static void
read_boolean(TqDefinitionProblems *problems, const char *path,
			 JsonbValue *value, bool *answer)
{
	if (value->type != jbvBool)
		tq_problem(problems, path, "must be true or false");
	else
		*answer = value->val.boolean;
}

/* Check what concerns several members of one step. */
static void
finish_step(Reader *reader, int place)
{
	TqDefinitionProblems *problems = reader->problems;
	TqStep               *step = &reader->template->steps[place];
	Draft                *draft = &reader->drafts[place];
	char                 *path = psprintf("steps[%d]", place);

	if (step->name != NULL)
		tq_step_reference_note(reader->names, problems, step->name, place);
	else
		problems->no_graph = true;
	if (!draft->has_name)
		tq_problem(problems, psprintf("%s.name", path), "is missing");
	if (step->type == TQ_STEP_BATCH_WORKER && step->payload != NULL)
		tq_problem(problems, psprintf("%s.payload", path),
				   "is not allowed for type batch_worker, whose members get "
				   "their payloads from the batch");
	finish_wait(reader, place, path);
	if (step->queue == NULL)
		step->queue = reader->template->queue;
	if (draft->options != NULL)
	{
		step->options = JsonbValueToJsonb(
			pushJsonbValue(&draft->state, WJB_END_OBJECT, NULL));
		tq_member_check_options(problems, path, step->options);
	}
	if (draft->has_branches && step->type != TQ_STEP_DECISION)
		tq_problem(problems, psprintf("%s.branches", path),
				   "is allowed only for type decision");
	if (step->strategy != TQ_STRATEGY_FAIL_FAST && step->type != TQ_STEP_BATCH)
		tq_problem(problems, psprintf("%s.failure_strategy", path),
				   "is allowed only for type batch");
	/*
	 * The steps below a choice depend on its result, and members of a batch
	 * have their own strategy.
	 */
	if (step->continues &&
		(tq_step_chooses(step->type) || step->type == TQ_STEP_BATCH_WORKER))
		tq_problem(problems, psprintf("%s.continue_on_failure", path),
				   "is not allowed for type %s", type_names[step->type]);
}

/*
 * A step without a worker must say what it waits for, and must not have the
 * members that apply to workers.
 */
static void
finish_wait(Reader *reader, int place, const char *path)
{
	TqDefinitionProblems *problems = reader->problems;
	TqStep               *step = &reader->template->steps[place];
	Draft                *draft = &reader->drafts[place];
	const char           *type = type_names[step->type];
	Member                member = step->type == TQ_STEP_WORKFLOW ? M_WORKFLOW
								   : step->type == TQ_STEP_TIMER  ? M_TIMER
																  : M_SIGNAL;
	const char           *name = step->type == TQ_STEP_WORKFLOW ? "workflow"
								 : step->type == TQ_STEP_TIMER  ? "timer"
																: "signal";
	bool                  waits = tq_step_waits(step->type);
	bool                  found = false;
	ListCell             *cell;

	foreach (cell, draft->given)
	{
		const Known *known = lfirst(cell);
		bool         wrong;

		if (known->member == M_WORKFLOW || known->member == M_SIGNAL ||
			known->member == M_TIMER)
		{
			wrong = !waits || known->member != member;
			found |= !wrong;
		}
		else
			wrong =
				waits &&
				(known->member == M_HANDLER || known->member == M_CONFIG ||
				 known->member == M_PAYLOAD || known->member == M_RETRYABLE ||
				 known->member == M_PRIORITY || known->member == M_TAGS ||
				 known->member == M_KEY || known->member == M_MAX_ATTEMPTS ||
				 known->member == M_OPTION);
		if (wrong)
			tq_problem(problems, psprintf("%s.%s", path, known->name),
					   "is not allowed for type %s", type);
	}
	if (waits && !found)
		tq_problem(problems, psprintf("%s.%s", path, name), "is missing");
	else if (waits)
		step->wait = tq_wait_definition_read(
			step->type, problems, psprintf("%s.%s", path, name),
			&draft->waits[member - M_WORKFLOW], &draft->wanted);
}

/* Resolve the names of other steps, once all are known. */
static void
resolve(Reader *reader, int place)
{
	TqDefinitionProblems *problems = reader->problems;
	TqStep               *step = &reader->template->steps[place];
	Draft                *draft = &reader->drafts[place];

	if (draft->has_depends_on)
		tq_step_reference_list(reader->names, problems,
							   psprintf("steps[%d].depends_on", place),
							   &draft->depends_on, &step->parents);
	if (draft->has_branches && step->type == TQ_STEP_DECISION)
		tq_step_reference_branches(reader->names, problems, step, place,
								   &draft->branches, &draft->wanted);
	tq_step_reference_wants(reader->names, step, place, draft->wanted);
}
