/*
 * checkpoint.c
 *		taskq_checkpoints: the most recent checkpoints of a step.
 *
 * A task keeps its newest checkpoint in full.  A step of a workflow also keeps
 * a list of them, in a part of taskq.large: for each checkpoint its time,
 * attempt and size, and its members cursor and items if they are small.  A
 * plain task has no such list and pays nothing for it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "command/checkpoint.h"
#include "engine/call.h"
#include "query/contents.h"
#include "store/archive.h"

PG_FUNCTION_INFO_V1(taskq_checkpoints);

/* The part after those of columns, and its bit. */
#define PART "7"
#define BIT 128

#define MAX_MEMBER 1024 /* bytes of cursor or items */

/* Keeps ten entries, the newest one last. */
static TqStmt stmt_note = {
	"INSERT INTO taskq.large AS l (task_id, part, doc)"
	" VALUES ($1, " PART ", jsonb_build_array(jsonb_build_object("
	"  'at', $2, 'attempt', $3, 'cursor', $4, 'items', $5, 'size', $6)))"
	" ON CONFLICT (task_id, part) DO UPDATE SET doc ="
	"  CASE WHEN jsonb_array_length(l.doc) < 10 THEN l.doc"
	"       ELSE l.doc - 0 END || excluded.doc",
	{INT8OID, TIMESTAMPTZOID, INT4OID, JSONBOID, JSONBOID, INT4OID}};

static TqStmt stmt_look = {
	"SELECT (e.one ->> 'at')::timestamptz, (e.one ->> 'attempt')::integer,"
	"  nullif(e.one -> 'cursor', 'null'), nullif(e.one -> 'items', 'null'),"
	"  (e.one ->> 'size')::integer"
	"  FROM taskq.large l, jsonb_array_elements(l.doc)"
	"       WITH ORDINALITY AS e (one, n)"
	" WHERE l.task_id = $1 AND l.part = " PART " ORDER BY e.n",
	{INT8OID}};

static void show_member(const char *name, bool reads,
						const TqRedaction *redaction, Datum *value,
						bool *isnull);
static bool small_member(Jsonb *checkpoint, const char *name, Datum *value);

/* Call before the row is written with a new checkpoint. */
void
tq_checkpoint_plan(TqTask *task)
{
	task->i.large |= BIT;
}

/* Call after the row is written. */
void
tq_checkpoint_note(const TqTask *task, Jsonb *checkpoint)
{
	Datum args[6] = {Int64GetDatum(task->f.task_id),
					 TimestampTzGetDatum(tq_clock_wall()),
					 Int32GetDatum(task->f.attempt)};
	bool  nulls[6] = {false};

	nulls[3] = !small_member(checkpoint, "cursor", &args[3]);
	nulls[4] = !small_member(checkpoint, "items", &args[4]);
	args[5] = Int32GetDatum((int32) VARSIZE(checkpoint));
	tq_spi_execute(&stmt_note, args, nulls, SPI_OK_INSERT);
}

static bool
small_member(Jsonb *checkpoint, const char *name, Datum *value)
{
	JsonbValue  whole;
	JsonbValue *member;
	Jsonb      *document;

	if (!JB_ROOT_IS_OBJECT(checkpoint))
		return false;
	whole.type = jbvBinary;
	whole.val.binary.data = &checkpoint->root;
	whole.val.binary.len = VARSIZE_ANY_EXHDR(checkpoint);
	member = tq_json_member(&whole, name);
	if (member == NULL)
		return false;
	document = JsonbValueToJsonb(member);
	*value = JsonbPGetDatum(document);
	return VARSIZE(document) <= MAX_MEMBER;
}

Datum
taskq_checkpoints(PG_FUNCTION_ARGS)
{
	ReturnSetInfo     *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int64              task_id = tq_arg_int8(fcinfo, 0, "task_id");
	Datum              arg = Int64GetDatum(task_id);
	TqCall             call;
	TqTask             task;
	uint64             rows;
	TqSpi              spi;
	const TqRedaction *redaction;
	bool               reads;

	tq_srf_begin(fcinfo);
	tq_call_begin_look(&call);
	if (!tq_archive_find_any(&call, task_id, &task))
		tq_error_no_such_task(task_id);
	tq_role_require_task(tq_queue_by_id(task.f.queue_id), task_id,
						 TQ_RIGHT_OBSERVE);
	reads =
		(tq_role_rights(tq_queue_by_id(task.f.queue_id)) & TQ_RIGHT_READ) != 0;
	redaction = tq_contents_redaction(task.f.queue_id);
	tq_spi_enter(&spi);
	rows = (task.i.large & BIT) == 0 ? 0
									 : tq_spi_read(&stmt_look, &arg, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		Datum values[5];
		bool  nulls[5];

		for (int j = 0; j < 5; j++)
			values[j] = tq_spi_get(i, j + 1, &nulls[j]);
		show_member("cursor", reads, redaction, &values[2], &nulls[2]);
		show_member("items", reads, redaction, &values[3], &nulls[3]);
		tq_srf_add(result, values, nulls);
	}
	tq_spi_leave(&spi);
	tq_call_end(&call);
	return (Datum) 0;
}

/*
 * Show a member of a checkpoint as current_user may see it: the paths of the
 * redaction begin at the checkpoint.
 */
static void
show_member(const char *name, bool reads, const TqRedaction *redaction,
			Datum *value, bool *isnull)
{
	JsonbParseState *state = NULL;
	JsonbValue       key;
	JsonbValue       whole;
	JsonbValue      *member;
	Jsonb           *document;

	*isnull = *isnull || !reads;
	if (*isnull || redaction == NULL)
		return;
	key.type = jbvString;
	key.val.string.val = (char *) name;
	key.val.string.len = (int) strlen(name);
	(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	(void) pushJsonbValue(&state, WJB_KEY, &key);
	document = DatumGetJsonbP(*value);
	whole.type = jbvBinary;
	whole.val.binary.data = &document->root;
	whole.val.binary.len = VARSIZE_ANY_EXHDR(document);
	if (JB_ROOT_IS_SCALAR(document))
		(void) JsonbExtractScalar(&document->root, &whole);
	(void) pushJsonbValue(&state, WJB_VALUE, &whole);
	document = tq_redaction_apply(
		redaction,
		JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)));
	if (!JB_ROOT_IS_OBJECT(document))
	{
		*value = JsonbPGetDatum(document);
		return;
	}
	member = getKeyJsonValueFromContainer(&document->root, name,
										  (int) strlen(name), NULL);
	*value = JsonbPGetDatum(JsonbValueToJsonb(member));
}
