/*
 * identity.c
 *		The identity of an instance: no two live instances have the same
 *		identity.
 *
 * The template says whether the identity is the input, a key, or not used; a
 * start that gives a key always uses the key.  A unique index covers all
 * versions of the template.  An instance gives up its identity when it ends,
 * or some time later.  A failed instance that becomes live again takes it
 * back.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/span.h"
#include "base/spi.h"
#include "cache/options.h"
#include "flow/definition/template.h"
#include "flow/definition/value.h"
#include "flow/instance/identity.h"

static TqStmt stmt_key = {
	"SELECT key FROM taskq.workflow WHERE workflow_id = $1",
	{INT8OID},
	.generic = true};

static TqStmt stmt_holder = {
	"SELECT w.workflow_id,"
	"       w.state IN " TQ_SQL_FLOW_NOT_ENDED ","
	"       w.finished_at, w.template_id"
	"  FROM taskq.workflow w"
	" WHERE w.identity = sha256(convert_to($1::text, 'UTF8'))",
	{JSONBOID}};

/* has no effect if the instance is live again */
static TqStmt stmt_give_up = {"UPDATE taskq.workflow SET identity = NULL"
							  " WHERE workflow_id = $1"
							  "   AND state NOT IN " TQ_SQL_FLOW_NOT_ENDED,
							  {INT8OID}};

static char *key_of(int64 workflow_id);
static Datum as_stored(Jsonb *identity);

/*
 * Returns the identity of an instance, or NULL if any number of such instances
 * may exist.
 */
Jsonb *
tq_identity(const TqFlow *flow, const char *key)
{
	JsonbParseState *state = NULL;
	JsonbValue       value;
	Jsonb           *input;

	if (key == NULL && flow->template->identity == TQ_IDENTITY_UNIQUE)
		return NULL;
	(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	value.type = jbvString;
	value.val.string.val = flow->template->space;
	value.val.string.len = (int) strlen(flow->template->space);
	(void) pushJsonbValue(&state, WJB_ELEM, &value);
	value.val.string.val = flow->template->name;
	value.val.string.len = (int) strlen(flow->template->name);
	(void) pushJsonbValue(&state, WJB_ELEM, &value);
	if (key != NULL)
	{
		value.val.string.val = (char *) key;
		value.val.string.len = (int) strlen(key);
		(void) pushJsonbValue(&state, WJB_ELEM, &value);
	}
	else
	{
		/* a list of one element, so that an input never equals a key */
		(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
		input = tq_value_canonical(flow->start.input);
		if (!JB_ROOT_IS_SCALAR(input) ||
			!JsonbExtractScalar(&input->root, &value))
		{
			value.type = jbvBinary;
			value.val.binary.data = &input->root;
			value.val.binary.len = VARSIZE_ANY_EXHDR(input);
		}
		(void) pushJsonbValue(&state, WJB_ELEM, &value);
		(void) pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	}
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL));
}

/*
 * Returns the identity that the instance has or had, or NULL if it has no
 * identity.
 */
Jsonb *
tq_identity_of(const TqFlow *flow)
{
	return tq_identity(flow, key_of(flow->workflow_id));
}

/* Returns the key given at the start, or NULL if no key was given. */
static char *
key_of(int64 workflow_id)
{
	Datum arg = Int64GetDatum(workflow_id);
	char *key = NULL;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_key, &arg, NULL, 1) > 0)
		key = tq_spi_text(&spi, 0, 1);
	tq_spi_leave(&spi);
	return key;
}

/*
 * Returns the instance that has the identity, except the instance but; 0 if
 * there is no such instance.  An ended instance keeps its identity for the
 * time that its template says; after that this call releases it.
 */
int64
tq_identity_holder(Jsonb *identity, int64 but)
{
	Datum       arg = JsonbPGetDatum(identity);
	int64       holder = 0;
	bool        live = false;
	TimestampTz finished_at = 0;
	int32       template_id = 0;
	int64       window;
	TqSpi       spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_holder, &arg, NULL, 1) > 0)
	{
		holder = tq_spi_int8(0, 1, 0);
		live = tq_spi_bool(0, 2);
		finished_at = tq_spi_time(0, 3, 0);
		template_id = tq_spi_int4(0, 4, 0);
	}
	tq_spi_leave(&spi);
	if (holder == but)
		return 0;
	if (holder == 0 || live)
		return holder;
	window = tq_template_get(template_id)->identity_window;
	if (window == TQ_FOREVER ||
		tq_span_after(finished_at, window) > tq_clock_wall())
		return holder;
	arg = Int64GetDatum(holder);
	tq_spi_execute(&stmt_give_up, &arg, NULL, SPI_OK_UPDATE);
	return 0;
}

/*
 * Is an open transaction about to take the identity, or changing the instance
 * that has it?
 */
bool
tq_identity_is_busy(Jsonb *identity)
{
	Relation rel =
		tq_catalog_open_table(tq_catalog()->workflow, AccessShareLock);
	Relation index = tq_catalog_open_index(tq_catalog()->workflow_identity,
										   AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	IndexScanDesc   scan;
	SnapshotData    dirty;
	ScanKeyData     key;
	bool            busy;

	InitDirtySnapshot(dirty);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_BYTEAEQ,
				as_stored(identity));
	scan = tq_compat_index_beginscan(rel, index, &dirty, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	busy =
		index_getnext_slot(scan, ForwardScanDirection, slot) &&
		(TransactionIdIsValid(dirty.xmin) || TransactionIdIsValid(dirty.xmax));
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return busy;
}

/* Returns the value of the column identity: sha256 of the text in UTF-8. */
static Datum
as_stored(Jsonb *identity)
{
	char *words = JsonbToCString(NULL, &identity->root, VARSIZE(identity));
	Datum bytes = DirectFunctionCall2(
		pg_convert_to, CStringGetTextDatum(words),
		DirectFunctionCall1(namein, CStringGetDatum("UTF8")));

	return DirectFunctionCall1(sha256_bytea, bytes);
}

/* Raise TQ006. */
void
tq_identity_conflict(const char *name, int64 holder, const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_TQ_ALREADY_EXISTS),
					errmsg("workflow \"%s\" has already been started", name),
					errdetail("{\"workflow_id\": " INT64_FORMAT "}", holder),
					hint == NULL ? 0 : errhint("%s", hint)));
}
