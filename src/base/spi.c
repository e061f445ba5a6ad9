/*
 * spi.c
 *		SQL of the extension itself, run as its owner.
 *
 * Between tq_spi_enter and tq_spi_leave the current user is the owner of
 * taskq.task and search_path is pg_catalog alone, so saved plans need not be
 * analysed again under each caller's path.  In between, no expression of the
 * caller may be evaluated, and no long wait is allowed.  An error needs no
 * care: the server's abort restores user, path and SPI.
 *
 * Rows of the last statement are read with tq_spi_get and similar functions
 * before the next statement runs.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/spi.h"

/* Copies a value into the current memory context. */
typedef void *(*Copier)(Datum value);

static void   prepare(TqStmt *stmt);
static char  *null_map(const TqStmt *stmt, const bool *nulls);
static uint64 check_result(TqStmt *stmt, int result, int expected);
static void  *copy_of(TqSpi *spi, uint64 row, int column, Copier copier);
static void  *copy_text(Datum value);
static void  *copy_jsonb(Datum value);
static void  *copy_array(Datum value);

void
tq_spi_enter(TqSpi *spi)
{
	Oid owner = tq_catalog()->owner;

	spi->caller = CurrentMemoryContext;
	GetUserIdAndSecContext(&spi->userid, &spi->seccontext);
	SetUserIdAndSecContext(owner,
						   spi->seccontext | SECURITY_LOCAL_USERID_CHANGE);
	spi->path = tq_compat_path_enter();
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

void
tq_spi_leave(TqSpi *spi)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	tq_compat_path_leave(spi->path);
	SetUserIdAndSecContext(spi->userid, spi->seccontext);
}

/*
 * Run a statement that may write; it sees all changes of this transaction.
 * expected is an SPI_OK_... code.  Returns the number of rows.
 */
uint64
tq_spi_run(TqStmt *stmt, const Datum *args, const bool *nulls, int expected,
		   long limit)
{
	prepare(stmt);
	return check_result(stmt,
						SPI_execute_plan(stmt->plan, (Datum *) args,
										 null_map(stmt, nulls), false, limit),
						expected);
}

/*
 * Run a SELECT that sees all rows committed by now, whatever the isolation
 * level, and the changes of this transaction.
 */
uint64
tq_spi_look(TqStmt *stmt, const Datum *args, const bool *nulls, long limit)
{
	uint64 rows;

	prepare(stmt);
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	rows = check_result(stmt,
						SPI_execute_plan(stmt->plan, (Datum *) args,
										 null_map(stmt, nulls), true, limit),
						SPI_OK_SELECT);
	PopActiveSnapshot();
	return rows;
}

/*
 * Run a SELECT against the active snapshot.
 */
uint64
tq_spi_read(TqStmt *stmt, const Datum *args, const bool *nulls, long limit)
{
	prepare(stmt);
	return check_result(stmt,
						SPI_execute_plan(stmt->plan, (Datum *) args,
										 null_map(stmt, nulls), true, limit),
						SPI_OK_SELECT);
}

/* A bigint[] argument. */
Datum
tq_spi_int8_array(const int64 *values, int count)
{
	Datum *datums =
		palloc_extended(sizeof(Datum) * (count + 1), MCXT_ALLOC_HUGE);

	for (int i = 0; i < count; i++)
		datums[i] = Int64GetDatum(values[i]);
	return PointerGetDatum(construct_array(datums, count, INT8OID,
										   sizeof(int64), FLOAT8PASSBYVAL,
										   TYPALIGN_DOUBLE));
}

/* An integer[] argument. */
Datum
tq_spi_int4_array(const int32 *values, int count)
{
	Datum *datums =
		palloc_extended(sizeof(Datum) * (count + 1), MCXT_ALLOC_HUGE);

	for (int i = 0; i < count; i++)
		datums[i] = Int32GetDatum(values[i]);
	return PointerGetDatum(construct_array(datums, count, INT4OID,
										   sizeof(int32), true, TYPALIGN_INT));
}

/* Run one statement that may write, for its number of rows only. */
uint64
tq_spi_execute(TqStmt *stmt, const Datum *args, const bool *nulls,
			   int expected)
{
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_run(stmt, args, nulls, expected, 0);
	tq_spi_leave(&spi);
	return rows;
}

/* Is there such a committed row? */
bool
tq_spi_exists(TqStmt *stmt, const Datum *args)
{
	bool  exists;
	TqSpi spi;

	tq_spi_enter(&spi);
	exists = tq_spi_look(stmt, args, NULL, 1) > 0;
	tq_spi_leave(&spi);
	return exists;
}

/*
 * Returns the id in the first column of the first committed row, or 0 if there
 * is no row.
 */
int64
tq_spi_find_id(TqStmt *stmt, const Datum *args)
{
	int64 id = 0;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(stmt, args, NULL, 1) > 0)
		id = tq_spi_int8(0, 1, 0);
	tq_spi_leave(&spi);
	return id;
}

/* Returns the time in the first column of the first committed row. */
TimestampTz
tq_spi_find_time(TqStmt *stmt, const Datum *args, TimestampTz if_none)
{
	TimestampTz at = if_none;
	TqSpi       spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(stmt, args, NULL, 1) > 0)
		at = tq_spi_time(0, 1, if_none);
	tq_spi_leave(&spi);
	return at;
}

/* The text in the first column of the first row visible to the snapshot. */
char *
tq_spi_read_text(TqStmt *stmt, const Datum *args)
{
	char *text = NULL;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_read(stmt, args, NULL, 1) > 0)
		text = tq_spi_text(&spi, 0, 1);
	tq_spi_leave(&spi);
	return text;
}

/* The ids in the first column of all committed rows; returns their number. */
uint64
tq_spi_list(TqStmt *stmt, const Datum *args, int64 **ids)
{
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(stmt, args, NULL, 0);
	*ids = tq_spi_ids(&spi, rows, 1);
	tq_spi_leave(&spi);
	return rows;
}

/* Returns the integers in the first column of all committed rows. */
uint64
tq_spi_list_int4(TqStmt *stmt, const Datum *args, int32 **ids)
{
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(stmt, args, NULL, 0);
	*ids = MemoryContextAllocHuge(spi.caller, sizeof(int32) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
		(*ids)[i] = tq_spi_int4(i, 1, 0);
	tq_spi_leave(&spi);
	return rows;
}

/*
 * Run a SELECT planned for these arguments: for statements whose conditions
 * depend on arguments.
 */
uint64
tq_spi_once(TqStmt *stmt, const Datum *args, const bool *nulls, bool read_only)
{
	return check_result(
		stmt,
		SPI_execute_with_args(stmt->text, tq_spi_arg_count(stmt), stmt->types,
							  (Datum *) args, null_map(stmt, nulls), read_only,
							  0),
		SPI_OK_SELECT);
}

Datum
tq_spi_get(uint64 row, int column, bool *isnull)
{
	return SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc,
						 column, isnull);
}

int64
tq_spi_int8(uint64 row, int column, int64 if_null)
{
	bool  isnull;
	Datum value = tq_spi_get(row, column, &isnull);

	return isnull ? if_null : DatumGetInt64(value);
}

/* A column of ids or tokens, of all rows, in the caller's memory context. */
int64 *
tq_spi_ids(TqSpi *spi, uint64 rows, int column)
{
	int64 *ids =
		MemoryContextAllocHuge(spi->caller, sizeof(int64) * (rows + 1));

	for (uint64 i = 0; i < rows; i++)
		ids[i] = tq_spi_int8(i, column, 0);
	return ids;
}

int32
tq_spi_int4(uint64 row, int column, int32 if_null)
{
	bool  isnull;
	Datum value = tq_spi_get(row, column, &isnull);

	return isnull ? if_null : DatumGetInt32(value);
}

bool
tq_spi_bool(uint64 row, int column)
{
	bool  isnull;
	Datum value = tq_spi_get(row, column, &isnull);

	return !isnull && DatumGetBool(value);
}

TimestampTz
tq_spi_time(uint64 row, int column, TimestampTz if_null)
{
	bool  isnull;
	Datum value = tq_spi_get(row, column, &isnull);

	return isnull ? if_null : DatumGetTimestampTz(value);
}

/*
 * Returns a text column as a string in the caller's memory context, or NULL
 * for null.
 */
char *
tq_spi_text(TqSpi *spi, uint64 row, int column)
{
	return copy_of(spi, row, column, copy_text);
}

/* Returns a document in the caller's memory context, or NULL for null. */
Jsonb *
tq_spi_jsonb(TqSpi *spi, uint64 row, int column)
{
	return copy_of(spi, row, column, copy_jsonb);
}

/* Returns an array in the caller's memory context, or 0 for null. */
Datum
tq_spi_array(TqSpi *spi, uint64 row, int column)
{
	return PointerGetDatum(copy_of(spi, row, column, copy_array));
}

static void *
copy_of(TqSpi *spi, uint64 row, int column, Copier copier)
{
	bool          isnull;
	Datum         value = tq_spi_get(row, column, &isnull);
	MemoryContext mine;
	void         *result;

	if (isnull)
		return NULL;
	mine = MemoryContextSwitchTo(spi->caller);
	result = copier(value);
	MemoryContextSwitchTo(mine);
	return result;
}

static void *
copy_text(Datum value)
{
	return TextDatumGetCString(value);
}

static void *
copy_jsonb(Datum value)
{
	return DatumGetJsonbPCopy(value);
}

static void *
copy_array(Datum value)
{
	return DatumGetArrayTypePCopy(value);
}

int
tq_spi_arg_count(const TqStmt *stmt)
{
	int count = 0;

	while (OidIsValid(stmt->types[count]))
		count++;
	return count;
}

static void
prepare(TqStmt *stmt)
{
	if (stmt->plan != NULL)
		return;
	stmt->plan =
		SPI_prepare_cursor(stmt->text, tq_spi_arg_count(stmt), stmt->types,
						   stmt->generic ? CURSOR_OPT_GENERIC_PLAN : 0);
	if (stmt->plan == NULL)
		elog(ERROR, "SPI_prepare failed for \"%s\": %s", stmt->text,
			 SPI_result_code_string(SPI_result));
	SPI_keepplan(stmt->plan);
}

static char *
null_map(const TqStmt *stmt, const bool *nulls)
{
	int   count = tq_spi_arg_count(stmt);
	char *map;

	if (nulls == NULL)
		return NULL;
	map = palloc(count + 1);
	for (int i = 0; i < count; i++)
		map[i] = nulls[i] ? 'n' : ' ';
	map[count] = '\0';
	return map;
}

static uint64
check_result(TqStmt *stmt, int result, int expected)
{
	if (result != expected)
		elog(ERROR, "statement \"%s\" ended with %s, not %s", stmt->text,
			 SPI_result_code_string(result), SPI_result_code_string(expected));
	return SPI_processed;
}
