/*
 * results.c
 *		What steps have made, for those that come after them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/spi.h"
#include "flow/flow.h"

#define RESULT                                                                \
	"CASE WHEN a.large & 8 <> 0"                                              \
	"      THEN (SELECT l.doc FROM taskq.large l"                             \
	"             WHERE l.task_id = a.task_id AND l.part = 3)"                \
	"      ELSE a.result END"
#define COLUMNS_WITH(result)                                                  \
	"a.step_id, a.state::integer, " result ","                                \
	" CASE WHEN a.state = 6 THEN"                                             \
	"      CASE WHEN a.large & 32 <> 0"                                       \
	"           THEN (SELECT l.doc FROM taskq.large l"                        \
	"                  WHERE l.task_id = a.task_id AND l.part = 5)"           \
	"           ELSE a.errors END -> -1 ->> 'error' END"                      \
	" FROM taskq.archive_keep a WHERE a.workflow_id = $1"
#define COLUMNS COLUMNS_WITH(RESULT)

static TqStmt stmt_steps = {"SELECT " COLUMNS " AND a.step_id = ANY ($2)"
							" ORDER BY a.step_id",
							2,
							{INT8OID, INT4ARRAYOID},
							NULL,
							true};

/* The same of batches, without the list of all parts. */
static TqStmt stmt_batches = {
	"SELECT " COLUMNS_WITH(
		"(" RESULT
		") - 'batches'::text") " AND a.step_id = ANY ($2) ORDER BY a.step_id",
	2,
	{INT8OID, INT4ARRAYOID},
	NULL,
	true};

static TqStmt stmt_members = {"SELECT " COLUMNS " AND a.step_id > 16383"
							  " AND a.step_id & 16383 = $2"
							  " ORDER BY a.step_id",
							  2,
							  {INT8OID, INT4OID},
							  NULL,
							  true};

/* States 5 and 8 are done and filtered. */
static TqStmt stmt_has_ended = {
	"SELECT 1 FROM taskq.archive_keep a WHERE a.workflow_id = $1"
	" AND a.step_id = $2 AND a.state IN (5, 8)",
	2,
	{INT8OID, INT4OID},
	NULL,
	true};

static TqStmt stmt_step = {"SELECT " RESULT
						   " FROM taskq.archive_keep a WHERE a.task_id = $1",
						   1,
						   {INT8OID},
						   NULL,
						   true};

static Jsonb *of_step(int64 task_id, bool of_moment);
static Jsonb *object_of(TqStmt *stmt, int64 workflow_id,
						const TqTemplate *template, const TqStepList *steps,
						Size max);
static void add_steps(JsonbParseState **state, TqStmt *stmt, int64 workflow_id,
					  const TqTemplate *template, const TqStepList *steps,
					  Size *size, Size max);
static void add_members(JsonbParseState **state, int64  workflow_id,
						const TqTemplate *template, int place, Size *size,
						Size max);
static void push_member(JsonbParseState **state, TqSpi *spi, uint64 row,
						Size *size);
static JsonbValue *push_error(JsonbParseState **state, const char *error);
static bool        has_ended(int64 workflow_id, int place);
static void        push_row(JsonbParseState **state, uint64 row, bool in_list,
							Size *size);
static void        push_word(JsonbParseState **state, JsonbIteratorToken token,
							 const char *word);
static void push_document(JsonbParseState **state, JsonbIteratorToken token,
						  Jsonb *document);

/* Of one step; NULL: it has none, or has not ended. */
Jsonb *
tq_results_of_step(int64 task_id)
{
	return of_step(task_id, false);
}

/* The same, as the active snapshot sees it. */
Jsonb *
tq_results_seen(int64 task_id)
{
	return of_step(task_id, true);
}

static Jsonb *
of_step(int64 task_id, bool of_moment)
{
	Datum  arg = Int64GetDatum(task_id);
	Jsonb *result = NULL;
	TqSpi  spi;

	tq_spi_enter(&spi);
	if ((of_moment ? tq_spi_read(&stmt_step, &arg, NULL, 1)
				   : tq_spi_look(&stmt_step, &arg, NULL, 1)) > 0)
		result = tq_spi_jsonb(&spi, 0, 1);
	tq_spi_leave(&spi);
	return result;
}

/*
 * The name of a step; that of a member of a batch has its number behind, that
 * of a compensation what it is before.
 */
char *
tq_results_name(const TqTemplate *template, int32 step_id)
{
	int place = TQ_STEP_PLACE(step_id);

	if (place >= template->step_count)
		return NULL;
	if (TQ_STEP_COMPENSATES(step_id))
		return psprintf(
			"compensate:%s",
			tq_results_name(template, TQ_STEP_COMPENSATED(step_id)));
	if (TQ_STEP_MEMBER(step_id) == 0)
		return template->steps[place].name;
	return psprintf("%s_%03d", template->steps[place].name,
					TQ_STEP_MEMBER(step_id));
}

/*
 * Results of steps by their names, as far as they have ended; null of those
 * that were filtered, a list of the members of a batch.  NULL when they are
 * larger than max.
 */
Jsonb *
tq_results_of(int64             workflow_id, const TqTemplate *template,
			  const TqStepList *steps, Size max)
{
	return object_of(&stmt_steps, workflow_id, template, steps, max);
}

/*
 * What is told with a claim of a step: results of its parents.  A member of a
 * batch has its own part as payload, and is not told those of all others.
 */
Jsonb *
tq_results_told(int64         workflow_id, const TqTemplate *template,
				const TqStep *step, Size max)
{
	return object_of(step->type == TQ_STEP_BATCH_WORKER ? &stmt_batches
														: &stmt_steps,
					 workflow_id, template, &step->parents, max);
}

static Jsonb *
object_of(TqStmt *stmt, int64 workflow_id, const TqTemplate *template,
		  const TqStepList *steps, Size max)
{
	JsonbParseState *state = NULL;
	Size             size = 0;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	add_steps(&state, stmt, workflow_id, template, steps, &size, max);
	if (size > max)
		return NULL;
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/*
 * What the paths of a step look at: {"input": ..., "results": {...}}; NULL
 * when that is larger than TQ_MAX_DOCUMENT.
 */
Jsonb *
tq_results_document(const TqFlow *flow, const TqStep *step)
{
	JsonbParseState *state = NULL;
	TqStepList       all = {0};
	Size             size = 0;

	all.places =
		palloc(sizeof(int) * (step->parents.count + step->wants.count + 1));
	for (int i = 0; i < step->parents.count; i++)
		all.places[all.count++] = step->parents.places[i];
	for (int i = 0; i < step->wants.count; i++)
		all.places[all.count++] = step->wants.places[i];
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	push_word(&state, WJB_KEY, "input");
	push_document(&state, WJB_VALUE, flow->input);
	push_word(&state, WJB_KEY, "results");
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	add_steps(&state, &stmt_steps, flow->workflow_id, flow->template, &all,
			  &size, TQ_MAX_DOCUMENT);
	if (size > TQ_MAX_DOCUMENT)
		return NULL;
	(void) pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static void
add_steps(JsonbParseState **state, TqStmt *stmt, int64 workflow_id,
		  const TqTemplate *template, const TqStepList *steps, Size *size,
		  Size max)
{
	Datum *places = palloc(sizeof(Datum) * (steps->count + 1));
	int    count = 0;
	Datum  args[2];
	uint64 rows;
	TqSpi  spi;

	for (int i = 0; i < steps->count; i++)
	{
		if (template->steps[steps->places[i]].type == TQ_STEP_BATCH_WORKER)
			add_members(state, workflow_id, template, steps->places[i], size,
						max);
		else
			places[count++] = Int32GetDatum(steps->places[i]);
	}
	if (count == 0)
		return;
	args[0] = Int64GetDatum(workflow_id);
	args[1] = PointerGetDatum(construct_array(
		places, count, INT4OID, sizeof(int32), true, TYPALIGN_INT));
	tq_spi_enter(&spi);
	rows = tq_spi_look(stmt, args, NULL, 0);
	for (uint64 i = 0; i < rows && *size <= max; i++)
	{
		TqState       state_of = (TqState) tq_spi_int4(i, 2, 0);
		MemoryContext mine;

		if (state_of != TQ_STATE_DONE && state_of != TQ_STATE_FILTERED)
			continue;
		mine = MemoryContextSwitchTo(spi.caller);
		push_word(state, WJB_KEY, template->steps[tq_spi_int4(i, 1, 0)].name);
		push_row(state, i, false, size);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
}

/*
 * In the order of their numbers.  A batch that has made none has an empty
 * list, one that was skipped has nothing, as any step.
 */
static void
add_members(JsonbParseState **state, int64  workflow_id,
			const TqTemplate *template, int place, Size *size, Size max)
{
	Datum         args[2] = {Int64GetDatum(workflow_id), Int32GetDatum(place)};
	uint64        rows;
	TqSpi         spi;
	MemoryContext mine;
	const TqStep *step = &template->steps[place];

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_members, args, NULL, 0);
	mine = MemoryContextSwitchTo(spi.caller);
	if (rows > 0 || has_ended(workflow_id, step->parents.places[0]))
	{
		push_word(state, WJB_KEY, step->name);
		(void) pushJsonbValue(state, WJB_BEGIN_ARRAY, NULL);
		for (uint64 i = 0; i < rows && *size <= max; i++)
		{
			CHECK_FOR_INTERRUPTS();
			push_member(state, &spi, i, size);
		}
		(void) pushJsonbValue(state, WJB_END_ARRAY, NULL);
	}
	MemoryContextSwitchTo(mine);
	tq_spi_leave(&spi);
}

/* What is told in place of the result of a member that died. */
Jsonb *
tq_results_error(const char *error)
{
	JsonbParseState *state = NULL;

	return JsonbValueToJsonb(push_error(&state, error));
}

static void
push_member(JsonbParseState **state, TqSpi *spi, uint64 row, Size *size)
{
	if (tq_spi_int4(row, 2, 0) == TQ_STATE_DEAD)
		(void) push_error(state, tq_spi_text(spi, row, 4));
	else
		push_row(state, row, true, size);
}

/* NULL: nobody has said what was wrong. */
static JsonbValue *
push_error(JsonbParseState **state, const char *error)
{
	(void) pushJsonbValue(state, WJB_BEGIN_OBJECT, NULL);
	push_word(state, WJB_KEY, "error");
	push_word(state, WJB_VALUE, error == NULL ? "" : error);
	return pushJsonbValue(state, WJB_END_OBJECT, NULL);
}

/* Has the step succeeded, or was it filtered? */
static bool
has_ended(int64 workflow_id, int place)
{
	Datum args[2] = {Int64GetDatum(workflow_id), Int32GetDatum(place)};
	bool  found;
	TqSpi spi;

	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_has_ended, args, NULL, 1) > 0;
	tq_spi_leave(&spi);
	return found;
}

/* The result in a row; in the memory of the parse state, not that of SPI. */
static void
push_row(JsonbParseState **state, uint64 row, bool in_list, Size *size)
{
	bool       isnull;
	Datum      value = tq_spi_get(row, 3, &isnull);
	JsonbValue nothing;

	if (isnull)
	{
		nothing.type = jbvNull;
		(void) pushJsonbValue(state, in_list ? WJB_ELEM : WJB_VALUE, &nothing);
	}
	else
	{
		Jsonb *document = DatumGetJsonbPCopy(value);

		*size += VARSIZE(document);
		push_document(state, in_list ? WJB_ELEM : WJB_VALUE, document);
	}
}

static void
push_word(JsonbParseState **state, JsonbIteratorToken token, const char *word)
{
	JsonbValue value;

	value.type = jbvString;
	value.val.string.val = (char *) word;
	value.val.string.len = (int) strlen(word);
	(void) pushJsonbValue(state, token, &value);
}

static void
push_document(JsonbParseState **state, JsonbIteratorToken token,
			  Jsonb *document)
{
	JsonbValue value;

	if (!JB_ROOT_IS_SCALAR(document) ||
		!JsonbExtractScalar(&document->root, &value))
	{
		value.type = jbvBinary;
		value.val.binary.data = &document->root;
		value.val.binary.len = VARSIZE_ANY_EXHDR(document);
	}
	(void) pushJsonbValue(state, token, &value);
}
