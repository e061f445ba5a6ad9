/*
 * results.c
 *		Results of steps, for the steps that come after them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/spi.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/instance/step_rule.h"
#include "query/contents.h"

/* How results are shown. */
#define WITH_PARTS 1 /* those of batches include the list of parts */
#define REDACTED 2   /* as current_user may see them */

#define RESULT                                                                \
	"CASE WHEN a.large & 8 <> 0"                                              \
	"      THEN (SELECT l.doc FROM taskq.large l"                             \
	"             WHERE l.task_id = a.task_id AND l.part = 3)"                \
	"      ELSE a.result END"
#define LAST_ERROR                                                            \
	"CASE WHEN a.large & 32 <> 0"                                             \
	"     THEN (SELECT l.doc FROM taskq.large l"                              \
	"            WHERE l.task_id = a.task_id AND l.part = 5)"                 \
	"     ELSE a.errors END -> -1 ->> 'error'"
#define COLUMNS                                                               \
	"a.step_id, a.state::integer, " RESULT ","                                \
	" CASE WHEN a.state = " TQ_SQL_STATE_DEAD " THEN " LAST_ERROR " END,"     \
	" a.queue_id"                                                             \
	" FROM taskq.archive_keep a WHERE a.workflow_id = $1"

static TqStmt stmt_members = {"SELECT " COLUMNS " AND a.step_id > 16383"
							  " AND a.step_id & 16383 = $2"
							  " ORDER BY a.step_id",
							  {INT8OID, INT4OID},
							  .generic = true};

static TqStmt stmt_has_ended = {
	"SELECT 1 FROM taskq.archive_keep a WHERE a.workflow_id = $1"
	" AND a.step_id = $2"
	" AND a.state IN (" TQ_SQL_STATE_DONE ", " TQ_SQL_STATE_FILTERED ")",
	{INT8OID, INT4OID},
	.generic = true};

static TqStmt stmt_step = {"SELECT " RESULT
						   " FROM taskq.archive_keep a WHERE a.task_id = $1",
						   {INT8OID},
						   .generic = true};

static TqStmt stmt_error = {"SELECT " LAST_ERROR
							" FROM taskq.archive_keep a WHERE a.task_id = $1",
							{INT8OID},
							.generic = true};

static Jsonb *of_step(int64 task_id, bool of_moment);
static Jsonb *object_of(int64 workflow_id, const TqTemplate *template,
						const TqStepList *steps, int how, Size max);
static void   add_steps(JsonbParseState **state, int64 workflow_id,
						const TqTemplate *template, const TqStepList *steps,
						int how, Size *size, Size max);
static void   add_ended(JsonbParseState **state, int64    workflow_id,
						const TqTemplate *template, Datum places, int how,
						Size *size, Size max);
static void   push_ended(JsonbParseState **state, TupleTableSlot *slot,
						 const TqTemplate *template, int how, Size *size);
static void   add_members(JsonbParseState **state, int64  workflow_id,
						  const TqTemplate *template, int place, int how,
						  Size *size, Size max);
static void   push_member(JsonbParseState **state, TqSpi *spi, uint64 row,
						  int how, Size *size);

static char       *error_of(int64 task_id);
static JsonbValue *push_error(JsonbParseState **state, const char *error);

static bool has_ended(int64 workflow_id, int place);
static void push_result(JsonbParseState **state, Jsonb *result, bool in_list,
						Size *size);
static void push_word(JsonbParseState **state, JsonbIteratorToken token,
					  const char *word);
static void push_document(JsonbParseState **state, JsonbIteratorToken token,
						  Jsonb *document);

/*
 * Returns the result of a step, or NULL if it has no result or has not ended.
 */
Jsonb *
tq_results_of_step(int64 task_id)
{
	return of_step(task_id, false);
}

/* Like tq_results_of_step, but as the active snapshot sees it. */
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
 * The name of a step.  The name of a batch member ends with its number; the
 * name of a compensation begins with "compensate:".
 */
char *
tq_results_name(const TqTemplate *template, int32 step_id)
{
	int place = TQ_STEP_INDEX(step_id);

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
 * Results of the steps that have ended, by name: null for a filtered step, the
 * error for a dead step that continues, a list for the members of a batch.
 * Returns NULL if the document would be larger than max.
 */
Jsonb *
tq_results_of(int64             workflow_id, const TqTemplate *template,
			  const TqStepList *steps, Size max)
{
	return object_of(workflow_id, template, steps, WITH_PARTS, max);
}

/* The same, as current_user may see them. */
Jsonb *
tq_results_shown(int64             workflow_id, const TqTemplate *template,
				 const TqStepList *steps, Size max)
{
	return object_of(workflow_id, template, steps, WITH_PARTS | REDACTED, max);
}

/*
 * The results returned with a claim: those of the step's parents.  A batch
 * member has its own part as payload, and does not get the parts of other
 * members.
 */
Jsonb *
tq_results_told(int64         workflow_id, const TqTemplate *template,
				const TqStep *step, Size max)
{
	return object_of(workflow_id, template, &step->parents,
					 step->type == TQ_STEP_BATCH_WORKER ? 0 : WITH_PARTS, max);
}

/* Without WITH_PARTS, the list of parts is omitted from results of batches. */
static Jsonb *
object_of(int64             workflow_id, const TqTemplate *template,
		  const TqStepList *steps, int how, Size max)
{
	JsonbParseState *state = NULL;
	Size             size = 0;

	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	add_steps(&state, workflow_id, template, steps, how, &size, max);
	if (size > max)
		return NULL;
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

/*
 * The document that the paths of a step refer to: {"input": ..., "results":
 * {...}}. Returns NULL if it is larger than TQ_MAX_DOCUMENT.
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
	push_document(&state, WJB_VALUE, flow->start.input);
	push_word(&state, WJB_KEY, "results");
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	add_steps(&state, flow->workflow_id, flow->template, &all, WITH_PARTS,
			  &size, TQ_MAX_DOCUMENT);
	if (size > TQ_MAX_DOCUMENT)
		return NULL;
	(void) pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static void
add_steps(JsonbParseState **state, int64                workflow_id,
		  const TqTemplate *template, const TqStepList *steps, int how,
		  Size *size, Size max)
{
	int32 *places = palloc(sizeof(int32) * (steps->count + 1));
	int    count = 0;

	for (int i = 0; i < steps->count; i++)
	{
		if (template->steps[steps->places[i]].type == TQ_STEP_BATCH_WORKER)
			add_members(state, workflow_id, template, steps->places[i], how,
						size, max);
		else
			places[count++] = steps->places[i];
	}
	if (count > 0)
		add_ended(state, workflow_id, template,
				  tq_spi_int4_array(places, count), how, size, max);
}

/*
 * Sees the currently committed rows and the changes of this call.  Each step
 * is read through the index by its step id; otherwise the planner, which
 * expects an instance to have few steps, would read all steps each time a
 * condition is evaluated.
 */
static void
add_ended(JsonbParseState **state, int64    workflow_id,
		  const TqTemplate *template, Datum places, int how, Size *size,
		  Size max)
{
	Relation keep = tq_catalog_open_table(tq_catalog()->leaf[TQ_LEAF_KEEP],
										  AccessShareLock);
	Relation index =
		tq_catalog_open_index(tq_catalog()->keep_workflow, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(keep, NULL);
	ScanKeyData     keys[2];
	IndexScanDesc   scan;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(workflow_id));
	ScanKeyEntryInitialize(&keys[1], SK_SEARCHARRAY, 2, BTEqualStrategyNumber,
						   INT4OID, InvalidOid, F_INT4EQ, places);
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	scan = tq_compat_index_beginscan(keep, index, GetActiveSnapshot(), 2);
	index_rescan(scan, keys, 2, NULL, 0);
	while (*size <= max &&
		   index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		CHECK_FOR_INTERRUPTS();
		push_ended(state, slot, template, how, size);
	}
	index_endscan(scan);
	PopActiveSnapshot();
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(keep, NoLock);
}

static void
push_ended(JsonbParseState **state, TupleTableSlot *slot,
		   const TqTemplate *template, int how, Size *size)
{
	bool   isnull;
	int16  state_of = DatumGetInt16(slot_getattr(slot, TQ_COL_STATE, &isnull));
	Datum  parts = slot_getattr(slot, TQ_COL_LARGE, &isnull);
	int16  large = isnull ? 0 : DatumGetInt16(parts);
	int32  place = DatumGetInt32(slot_getattr(slot, TQ_COL_STEP_ID, &isnull));
	Datum  value = slot_getattr(slot, TQ_COL_RESULT, &isnull);
	Jsonb *result = isnull ? NULL : DatumGetJsonbPCopy(value);

	if (!tq_step_rule_is_passed(template, place, (TqState) state_of))
		return;
	push_word(state, WJB_KEY, template->steps[place].name);
	if (state_of == TQ_STATE_DEAD)
	{
		(void) push_error(state, error_of(DatumGetInt64(slot_getattr(
									 slot, TQ_COL_TASK_ID, &isnull))));
		return;
	}
	if (large & TQ_LARGE_BIT(TQ_COL_RESULT))
		result = tq_results_seen(
			DatumGetInt64(slot_getattr(slot, TQ_COL_TASK_ID, &isnull)));
	if (how & REDACTED)
		result = tq_contents_redact(
			tq_contents_redaction(
				DatumGetInt32(slot_getattr(slot, TQ_COL_QUEUE_ID, &isnull))),
			result);
	if (result != NULL && (how & WITH_PARTS) == 0)
		result = DatumGetJsonbP(
			DirectFunctionCall2(jsonb_delete, JsonbPGetDatum(result),
								CStringGetTextDatum("batches")));
	push_result(state, result, false, size);
}

/*
 * Add the members in the order of their numbers.  A batch without members has
 * an empty list; a skipped batch has no result, like any other skipped step.
 */
static void
add_members(JsonbParseState **state, int64  workflow_id,
			const TqTemplate *template, int place, int how, Size *size,
			Size max)
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
			push_member(state, &spi, i, how, size);
		}
		(void) pushJsonbValue(state, WJB_END_ARRAY, NULL);
	}
	MemoryContextSwitchTo(mine);
	tq_spi_leave(&spi);
}

/* Stands in place of the result of a dead member. */
Jsonb *
tq_results_error(const char *error)
{
	JsonbParseState *state = NULL;

	return JsonbValueToJsonb(push_error(&state, error));
}

static void
push_member(JsonbParseState **state, TqSpi *spi, uint64 row, int how,
			Size *size)
{
	Jsonb *result;

	if (tq_spi_int4(row, 2, 0) == TQ_STATE_DEAD)
		(void) push_error(state, tq_spi_text(spi, row, 4));
	else
	{
		result = tq_spi_jsonb(spi, row, 3);
		if (how & REDACTED)
			result = tq_contents_redact(
				tq_contents_redaction_of(spi->userid, tq_spi_int4(row, 5, 0)),
				result);
		push_result(state, result, true, size);
	}
}

/* The error of a dead step, as the active snapshot sees it. */
static char *
error_of(int64 task_id)
{
	Datum arg = Int64GetDatum(task_id);

	return tq_spi_read_text(&stmt_error, &arg);
}

/* NULL: no error was given. */
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

	return tq_spi_exists(&stmt_has_ended, args);
}

/* result is NULL if the step has none. */
static void
push_result(JsonbParseState **state, Jsonb *result, bool in_list, Size *size)
{
	JsonbValue nothing;

	if (result == NULL)
	{
		nothing.type = jbvNull;
		(void) pushJsonbValue(state, in_list ? WJB_ELEM : WJB_VALUE, &nothing);
	}
	else
	{
		*size += VARSIZE(result);
		push_document(state, in_list ? WJB_ELEM : WJB_VALUE, result);
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
