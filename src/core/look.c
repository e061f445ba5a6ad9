/*
 * look.c
 *		Looking at tasks: taskq_get, taskq_get_many, taskq_list; what the
 *		filtered views call.
 *
 * Rows come from the view taskq.task_all, which begins with the columns of
 * taskq.task_info and belongs to the extension's owner; rights are checked
 * here first.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/error.h"
#include "base/spi.h"
#include "core/look.h"
#include "core/sign.h"

#define MAX_ROWS 10000 /* of one page of taskq_list */

PG_FUNCTION_INFO_V1(taskq_get);
PG_FUNCTION_INFO_V1(taskq_get_many);
PG_FUNCTION_INFO_V1(taskq_list);
PG_FUNCTION_INFO_V1(taskq_may_read);
PG_FUNCTION_INFO_V1(taskq_may_read_payload);
PG_FUNCTION_INFO_V1(taskq_task_progress);

static TqStmt stmt_get = {
	"SELECT a.* FROM taskq.task_all a WHERE a.task_id = $1",
	1,
	{INT8OID},
	NULL};

static TqStmt stmt_queue_of = {
	"SELECT queue_id FROM taskq.task WHERE task_id = $1"
	" UNION ALL"
	" SELECT queue_id FROM taskq.archive WHERE task_id = $1",
	1,
	{INT8OID},
	NULL};

/*
 * Planned for each call, so that conditions which were not given vanish.
 * Two statements, because the direction decides the plan.
 */
#define LIST_CONDITIONS                                                       \
	"SELECT a.* FROM taskq.task_all a"                                        \
	" WHERE ($1 IS NULL OR a.queue = $1)"                                     \
	"   AND ($2 IS NULL OR a.state = $2)"                                     \
	"   AND ($5 IS NULL OR a.reference = $5)"                                 \
	"   AND ($6 IS NULL OR a.key = $6)"                                       \
	"   AND ($7 IS NULL OR a.correlation_id = $7)"                            \
	"   AND ($8 IS NULL OR a.queue = ANY ($8))"

#define LIST_TYPES                                                            \
	{                                                                         \
		TEXTOID, TEXTOID, INT8OID, INT4OID, TEXTOID, TEXTOID, TEXTOID,        \
			TEXTARRAYOID                                                      \
	}

static TqStmt stmt_list = {
	LIST_CONDITIONS
	" AND ($3 IS NULL OR a.task_id > $3) ORDER BY a.task_id LIMIT $4",
	8, LIST_TYPES, NULL};

static TqStmt stmt_list_newest = {
	LIST_CONDITIONS
	" AND ($3 IS NULL OR a.task_id < $3) ORDER BY a.task_id DESC LIMIT $4",
	8, LIST_TYPES, NULL};

static bool   read_rights(int64 task_id, bool *payload);
static bool   is_monitor(void);
static char **readable_queues(int *count);
static bool   is_in(char **names, int count, const char *name);
static void   read_row(uint64 row, TupleDesc desc, Datum *values, bool *nulls);
static void mask_row(TupleDesc desc, Datum *values, bool *nulls, bool payload);
static void drop_payload(TupleDesc desc, Datum *values, bool *nulls);

/* Columns of taskq.task_info that pg_monitor does not see. */
static const char *const private_columns[] = {
	"payload", "data",   "headers",    "result",
	"error",   "errors", "checkpoint", "message"};

Datum
taskq_get(PG_FUNCTION_ARGS)
{
	Datum         arg = Int64GetDatum(tq_arg_int8(fcinfo, 0, "task_id"));
	int64         task_id = DatumGetInt64(arg);
	HeapTuple     tuple;
	TupleDesc     desc;
	Datum        *values;
	bool         *nulls;
	bool          payload;
	TqSpi         spi;
	MemoryContext mine;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);
	tq_queue_refresh();
	if (!read_rights(task_id, &payload))
		tq_error_no_such_task(task_id);
	values = palloc(sizeof(Datum) * desc->natts);
	nulls = palloc(sizeof(bool) * desc->natts);
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_get, &arg, NULL, SPI_OK_SELECT, 0) == 0)
		tq_error_no_such_task(task_id);
	mine = MemoryContextSwitchTo(spi.caller);
	read_row(0, desc, values, nulls);
	mask_row(desc, values, nulls, payload);
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextSwitchTo(mine);
	tq_spi_leave(&spi);
	return HeapTupleGetDatum(tuple);
}

/* In the order of the ids; a row of nulls for each that is not to be seen. */
Datum
taskq_get_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum         *ids;
	int            count;
	Datum         *values;
	bool          *nulls;

	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(0))
		tq_error_required("task_ids");
	ids = tq_arg_array(fcinfo, 0, "task_ids", INT8OID, &count);
	tq_queue_refresh();
	values = palloc(sizeof(Datum) * result->setDesc->natts);
	nulls = palloc(sizeof(bool) * result->setDesc->natts);
	for (int i = 0; i < count; i++)
	{
		TqSpi spi;
		bool  payload;

		CHECK_FOR_INTERRUPTS();
		memset(nulls, true, sizeof(bool) * result->setDesc->natts);
		if (read_rights(DatumGetInt64(ids[i]), &payload))
		{
			tq_spi_enter(&spi);
			if (tq_spi_run(&stmt_get, &ids[i], NULL, SPI_OK_SELECT, 0) > 0)
			{
				read_row(0, result->setDesc, values, nulls);
				mask_row(result->setDesc, values, nulls, payload);
			}
			tuplestore_putvalues(result->setResult, result->setDesc, values,
								 nulls);
			tq_spi_leave(&spi);
		}
		else
			tuplestore_putvalues(result->setResult, result->setDesc, values,
								 nulls);
	}
	return (Datum) 0;
}

Datum
taskq_list(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char          *queue_name = NULL;
	char          *state_word = tq_arg_keyword(fcinfo, 1, "state");
	char          *reference = tq_arg_word(fcinfo, 4, "reference", TQ_MAX_KEY);
	char          *key = tq_arg_word(fcinfo, 5, "key", TQ_MAX_KEY);
	char   *correlation = tq_arg_word(fcinfo, 7, "correlation_id", TQ_MAX_KEY);
	bool    newest_first = tq_arg_bool(fcinfo, 6, false);
	bool    with_payload = tq_arg_bool(fcinfo, 8, true);
	int     max_rows = PG_ARGISNULL(3) ? 100 : PG_GETARG_INT32(3);
	bool    monitor = is_monitor();
	bool    all = (tq_role_rights_all() & TQ_RIGHT_READ) != 0;
	char  **readable = NULL;
	int     readable_count = 0;
	Datum   args[8];
	bool    nulls_in[8] = {false};
	Datum  *values;
	bool   *nulls;
	uint64  rows;
	TqState state;
	int     queue_column;
	TqSpi   spi;

	InitMaterializedSRF(fcinfo, 0);
	if (!PG_ARGISNULL(0))
		queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	if (state_word != NULL && !tq_state_parse(state_word, &state))
		tq_error_invalid("state", "is unknown",
						 psprintf("Allowed: %s.", tq_state_words()));
	if (max_rows < 1 || max_rows > MAX_ROWS)
		tq_error_invalid("max_rows",
						 psprintf("must be from 1 to %d", MAX_ROWS), NULL);
	tq_queue_refresh();
	if (queue_name != NULL)
	{
		TqQueue *queue = tq_queue_find(queue_name);

		if (queue == NULL)
			tq_error_no_such_queue(queue_name);
		if (!monitor)
			tq_role_require(queue, TQ_RIGHT_READ);
	}
	if (!all)
		readable = readable_queues(&readable_count);

#define TEXT_ARG(n, word)                                                     \
	(nulls_in[n] = (word) == NULL,                                            \
	 args[n] = (word) == NULL ? (Datum) 0 : CStringGetTextDatum(word))
	TEXT_ARG(0, queue_name);
	TEXT_ARG(1, state_word);
	nulls_in[2] = PG_ARGISNULL(2);
	args[2] = PG_GETARG_DATUM(2);
	args[3] = Int32GetDatum(max_rows);
	TEXT_ARG(4, reference);
	TEXT_ARG(5, key);
	TEXT_ARG(6, correlation);
#undef TEXT_ARG
	nulls_in[7] = all || monitor;
	args[7] = (Datum) 0;
	if (!nulls_in[7])
	{
		Datum *names = palloc(sizeof(Datum) * (readable_count + 1));

		for (int i = 0; i < readable_count; i++)
			names[i] = CStringGetTextDatum(readable[i]);
		args[7] = PointerGetDatum(construct_array(
			names, readable_count, TEXTOID, -1, false, TYPALIGN_INT));
	}

	values = palloc(sizeof(Datum) * result->setDesc->natts);
	nulls = palloc(sizeof(bool) * result->setDesc->natts);
	tq_spi_enter(&spi);
	rows = tq_spi_once(newest_first ? &stmt_list_newest : &stmt_list, args,
					   nulls_in, false);
	queue_column = SPI_fnumber(SPI_tuptable->tupdesc, "queue");
	for (uint64 i = 0; i < rows; i++)
	{
		read_row(i, result->setDesc, values, nulls);
		if (!all && (nulls[queue_column - 1] ||
					 !is_in(readable, readable_count,
							TextDatumGetCString(values[queue_column - 1]))))
			mask_row(result->setDesc, values, nulls, false);
		if (!with_payload)
			drop_payload(result->setDesc, values, nulls);
		tuplestore_putvalues(result->setResult, result->setDesc, values,
							 nulls);
	}
	tq_spi_leave(&spi);
	return (Datum) 0;
}

/* For views: may current_user see tasks of the queue? */
Datum
taskq_may_read(PG_FUNCTION_ARGS)
{
	TqQueue *queue;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	tq_queue_refresh();
	queue = tq_queue_by_id(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(is_monitor() || (queue != NULL && (tq_role_rights(queue) &
													  TQ_RIGHT_READ) != 0));
}

/* For views: and what they carry? */
Datum
taskq_may_read_payload(PG_FUNCTION_ARGS)
{
	TqQueue *queue;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	tq_queue_refresh();
	queue = tq_queue_by_id(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(queue != NULL &&
				   (tq_role_rights(queue) & TQ_RIGHT_READ) != 0);
}

/*
 * How far a running task is: (progress, message), nulls
 * when nothing was told.
 */
Datum
taskq_task_progress(PG_FUNCTION_ARGS)
{
	TupleDesc desc;
	Datum     values[2] = {0};
	bool      nulls[2] = {true, true};
	float4    progress;
	char      message[TQ_PROGRESS_MESSAGE + 1];

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!PG_ARGISNULL(0) && !PG_ARGISNULL(1) &&
		tq_sign_read_progress(PG_GETARG_INT64(0), PG_GETARG_INT64(1),
							  &progress, message))
	{
		values[0] = Float4GetDatum(progress);
		nulls[0] = progress < 0;
		values[1] = CStringGetTextDatum(message);
		nulls[1] = message[0] == '\0';
	}
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/*
 * 42501 unless current_user has the right on the task's queue; for one
 * without any right there the task does not exist (TQ002).
 */
void
tq_look_require(const TqQueue *queue, int64 task_id, TqRight right)
{
	int rights = queue == NULL ? 0 : tq_role_rights(queue);

	if (rights == 0)
		tq_error_no_such_task(task_id);
	if ((rights & right) == 0)
		tq_error_task_right(right);
}

/*
 * May current_user see the task, and its payload?  42501 for a role with
 * another right on the queue.
 */
static bool
read_rights(int64 task_id, bool *payload)
{
	TqSpi    spi;
	Datum    arg = Int64GetDatum(task_id);
	int32    queue_id = 0;
	TqQueue *queue;
	int      rights;

	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_queue_of, &arg, NULL, SPI_OK_SELECT, 1) > 0)
		queue_id = tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);
	queue = tq_queue_by_id(queue_id);
	if (queue == NULL)
		return false;
	rights = tq_role_rights(queue);
	*payload = (rights & TQ_RIGHT_READ) != 0;
	if (*payload || is_monitor())
		return true;
	if (rights != 0)
		tq_error_task_right(TQ_RIGHT_READ);
	return false;
}

static bool
is_monitor(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
}

/* Queues whose tasks current_user may read. */
static char **
readable_queues(int *count)
{
	int    all;
	char **names = tq_queue_names(&all);
	char **readable = palloc(sizeof(char *) * (all + 1));

	*count = 0;
	for (int i = 0; i < all; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL && (tq_role_rights(queue) & TQ_RIGHT_READ) != 0)
			readable[(*count)++] = names[i];
	}
	return readable;
}

static bool
is_in(char **names, int count, const char *name)
{
	for (int i = 0; i < count; i++)
	{
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

/*
 * A row that was found, as the columns of desc.  The view has more behind
 * them.
 */
static void
read_row(uint64 row, TupleDesc desc, Datum *values, bool *nulls)
{
	TupleDesc found = SPI_tuptable->tupdesc;
	Datum    *all_values = palloc(sizeof(Datum) * found->natts);
	bool     *all_nulls = palloc(sizeof(bool) * found->natts);

	Assert(found->natts >= desc->natts);
	heap_deform_tuple(SPI_tuptable->vals[row], found, all_values, all_nulls);
	memcpy(values, all_values, sizeof(Datum) * desc->natts);
	memcpy(nulls, all_nulls, sizeof(bool) * desc->natts);
	pfree(all_values);
	pfree(all_nulls);
}

static void
mask_row(TupleDesc desc, Datum *values, bool *nulls, bool payload)
{
	if (payload)
		return;
	for (int c = 0; c < desc->natts; c++)
	{
		for (int i = 0; i < lengthof(private_columns); i++)
		{
			if (strcmp(NameStr(TupleDescAttr(desc, c)->attname),
					   private_columns[i]) == 0)
				nulls[c] = true;
		}
	}
}

/* with_payload => false */
static void
drop_payload(TupleDesc desc, Datum *values, bool *nulls)
{
	for (int c = 0; c < desc->natts; c++)
	{
		const char *name = NameStr(TupleDescAttr(desc, c)->attname);

		if (strcmp(name, "payload") == 0 || strcmp(name, "data") == 0)
			nulls[c] = true;
	}
}
