/*
 * operation_row.c
 *		Reads and writes rows of taskq.operation.
 *
 * A row that was read is locked until the transaction ends, so only one
 * session at a time works on an operation or changes it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/spi.h"
#include "command/manage_many.h"
#include "operation/operation_row.h"
#include "store/snapshot.h"
#include "xact/xact.h"

#define COLUMNS                                                               \
	"operation_id, action, queue_id, queue, filter, role_id, actor, reason,"  \
	" dry_run, batch_size, last_id, called_at, called_at_dispatch,"           \
	" xid_before, system_id, state, counted, done, refused, examples,"        \
	" examined, position, due_at, tries, waits, error"

static const char *const state_words[] = {
	[TQ_OPERATION_PENDING] = "pending",     [TQ_OPERATION_RUNNING] = "running",
	[TQ_OPERATION_PAUSED] = "paused",       [TQ_OPERATION_DONE] = "done",
	[TQ_OPERATION_CANCELLED] = "cancelled", [TQ_OPERATION_FAILED] = "failed"};

static TqStmt stmt_find = {"SELECT " COLUMNS " FROM taskq.operation"
						   " WHERE operation_id = $1 FOR UPDATE",
						   {INT8OID}};

/* The next one in turn, so that each operation gets its share. */
static TqStmt stmt_due = {"SELECT " COLUMNS " FROM taskq.operation"
						  " WHERE finished_at IS NULL AND due_at <= $1"
						  " ORDER BY operation_id <= $2, operation_id LIMIT 1"
						  " FOR UPDATE SKIP LOCKED",
						  {TIMESTAMPTZOID, INT8OID}};

static TqStmt stmt_next = {"SELECT min(due_at) FROM taskq.operation"
						   " WHERE finished_at IS NULL"};

static TqStmt stmt_live = {
	"SELECT count(*) FROM taskq.operation WHERE finished_at IS NULL"};

static TqStmt stmt_add = {
	"INSERT INTO taskq.operation (operation_id, action, queue_id, queue,"
	" filter, role_id, actor, reason, dry_run, batch_size, state, position,"
	" last_id, called_at, called_at_dispatch, xid_before, system_id, due_at)"
	" VALUES (nextval('taskq.operation_id_seq'), $1, $2, $3, $4, $5, $6, $7,"
	" $8, $9, 'pending', $10, greatest($11,"
	"  (SELECT max(t.task_id) FROM taskq.task t WHERE t.task_id > $11),"
	"  (SELECT max(a.task_id) FROM taskq.archive a WHERE a.task_id > $11)),"
	" $12, $13,"
	" pg_snapshot_xmin(pg_current_snapshot())::text::bigint, $14, $13)"
	" RETURNING operation_id",
	{TEXTOID, INT4OID, TEXTOID, JSONBOID, INT4OID, TEXTOID, TEXTOID, BOOLOID,
	 INT4OID, INT8OID, INT8OID, TIMESTAMPTZOID, TIMESTAMPTZOID, INT8OID}};

static TqStmt stmt_write = {
	"UPDATE taskq.operation SET state = $2, counted = $3, done = $4,"
	" refused = $5, examples = $6, examined = $7, position = $8, due_at = $9,"
	" tries = $10, waits = $11, error = $12,"
	" started_at = CASE WHEN $14 THEN coalesce(started_at, $15)"
	"                   ELSE started_at END,"
	" last_batch_at = CASE WHEN $14 THEN $15 ELSE last_batch_at END,"
	" finished_at = CASE WHEN $13 THEN $15 END"
	" WHERE operation_id = $1",
	{INT8OID, TEXTOID, INT8OID, INT8OID, INT8OID, JSONBOID, INT8OID, INT8OID,
	 TIMESTAMPTZOID, INT4OID, INT4OID, TEXTOID, BOOLOID, BOOLOID,
	 TIMESTAMPTZOID}};

/* Ended ones, the oldest first: those that are too old or too many. */
static TqStmt stmt_sweep = {
	"DELETE FROM taskq.operation WHERE operation_id IN"
	" (SELECT o.operation_id FROM taskq.operation o"
	"   WHERE o.finished_at < $2"
	"      OR (o.finished_at IS NOT NULL AND o.operation_id <="
	"          (SELECT k.operation_id FROM taskq.operation k"
	"            ORDER BY k.operation_id DESC OFFSET $1 LIMIT 1))"
	"   ORDER BY o.operation_id LIMIT $3 FOR UPDATE SKIP LOCKED)",
	{INT8OID, TIMESTAMPTZOID, INT4OID}};

static bool read_row(TqStmt *stmt, const Datum *args, TqOperation *op);
static TqOperationState state_of(const char *word);
static void give(Datum *args, bool *nulls, int n, bool given, Datum value);
static void give_text(Datum *args, bool *nulls, int n, const char *text);

/*
 * Add an operation, which is due immediately; set its number and return it.
 */
int64
tq_operation_row_add(TqOperation *op)
{
	Datum args[14];
	bool  nulls[14] = {false};
	TqSpi spi;

	give_text(args, nulls, 0, op->action_word);
	args[1] = Int32GetDatum(op->queue_id);
	give_text(args, nulls, 2, op->queue);
	give(args, nulls, 3, op->filter != NULL, JsonbPGetDatum(op->filter));
	args[4] = Int32GetDatum(op->role_id);
	give_text(args, nulls, 5, op->actor);
	give_text(args, nulls, 6, op->reason);
	args[7] = BoolGetDatum(op->dry_run);
	args[8] = Int32GetDatum(op->batch_size);
	args[9] = Int64GetDatum(PG_INT64_MIN);
	args[10] = Int64GetDatum(op->last_id);
	args[11] = TimestampTzGetDatum(op->called_at);
	args[12] = TimestampTzGetDatum(op->called_at_dispatch);
	args[13] = Int64GetDatum(op->system_id);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_add, args, nulls, SPI_OK_INSERT_RETURNING, 0);
	op->operation_id = tq_spi_int8(0, 1, 0);
	tq_spi_leave(&spi);
	tq_xact_due(op->called_at_dispatch);
	return op->operation_id;
}

/* Lock and read an operation.  Returns false if it does not exist. */
bool
tq_operation_row_find(int64 operation_id, TqOperation *op)
{
	Datum arg = Int64GetDatum(operation_id);

	return read_row(&stmt_find, &arg, op);
}

/*
 * Lock and read the operation that is due and follows another in turn.  Rows
 * that other sessions have locked are skipped.
 */
bool
tq_operation_row_due(int64 after, TimestampTz now, TqOperation *op)
{
	Datum args[2] = {TimestampTzGetDatum(now), Int64GetDatum(after)};

	return read_row(&stmt_due, args, op);
}

static bool
read_row(TqStmt *stmt, const Datum *args, TqOperation *op)
{
	TqSpi spi;
	bool  found;

	memset(op, 0, sizeof(*op));
	tq_snapshot_renew();
	tq_spi_enter(&spi);
	found = tq_spi_run(stmt, args, NULL, SPI_OK_SELECT, 1) > 0;
	if (found)
	{
		op->operation_id = tq_spi_int8(0, 1, 0);
		op->action_word = tq_spi_text(&spi, 0, 2);
		(void) tq_manage_many_parse_action(op->action_word, &op->action);
		op->queue_id = tq_spi_int4(0, 3, 0);
		op->queue = tq_spi_text(&spi, 0, 4);
		op->filter = tq_spi_jsonb(&spi, 0, 5);
		op->role_id = tq_spi_int4(0, 6, 0);
		op->actor = tq_spi_text(&spi, 0, 7);
		op->reason = tq_spi_text(&spi, 0, 8);
		op->dry_run = tq_spi_bool(0, 9);
		op->batch_size = tq_spi_int4(0, 10, 1);
		op->last_id = tq_spi_int8(0, 11, 0);
		op->called_at = tq_spi_time(0, 12, DT_NOBEGIN);
		op->called_at_dispatch = tq_spi_time(0, 13, DT_NOBEGIN);
		op->xid_before = tq_spi_int8(0, 14, 0);
		op->system_id = tq_spi_int8(0, 15, 0);
		op->state = state_of(tq_spi_text(&spi, 0, 16));
		op->counted = tq_spi_int8(0, 17, 0);
		op->done = tq_spi_int8(0, 18, 0);
		op->refused = tq_spi_int8(0, 19, 0);
		op->examples = tq_spi_jsonb(&spi, 0, 20);
		op->examined = tq_spi_int8(0, 21, 0);
		op->position = tq_spi_int8(0, 22, 0);
		op->due_at = tq_spi_time(0, 23, DT_NOEND);
		op->tries = tq_spi_int4(0, 24, 0);
		op->waits = tq_spi_int4(0, 25, 0);
		op->error = tq_spi_text(&spi, 0, 26);
	}
	tq_spi_leave(&spi);
	return found;
}

static TqOperationState
state_of(const char *word)
{
	for (int i = 0; i < lengthof(state_words); i++)
	{
		if (word != NULL && strcmp(state_words[i], word) == 0)
			return (TqOperationState) i;
	}
	return TQ_OPERATION_FAILED; /* written by hand */
}

/*
 * Write what changes in an operation whose row is locked.  batch says whether
 * a batch has changed it.
 */
void
tq_operation_row_write(const TqOperation *op, bool batch)
{
	Datum args[15];
	bool  nulls[15] = {false};

	args[0] = Int64GetDatum(op->operation_id);
	give_text(args, nulls, 1, state_words[op->state]);
	args[2] = Int64GetDatum(op->counted);
	args[3] = Int64GetDatum(op->done);
	args[4] = Int64GetDatum(op->refused);
	args[5] = JsonbPGetDatum(op->examples);
	args[6] = Int64GetDatum(op->examined);
	args[7] = Int64GetDatum(op->position);
	give(args, nulls, 8, op->due_at != DT_NOEND,
		 TimestampTzGetDatum(op->due_at));
	args[9] = Int32GetDatum(op->tries);
	args[10] = Int32GetDatum(op->waits);
	give_text(args, nulls, 11, op->error);
	args[12] = BoolGetDatum(TQ_OPERATION_HAS_ENDED(op));
	args[13] = BoolGetDatum(batch);
	args[14] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_execute(&stmt_write, args, nulls, SPI_OK_UPDATE);
	if (op->due_at != DT_NOEND)
		tq_xact_due(op->due_at);
}

/* When the next operation is due, on the dispatch clock. */
TimestampTz
tq_operation_row_next_due(void)
{
	return tq_spi_find_time(&stmt_next, NULL, DT_NOEND);
}

/* The number of operations that have not ended. */
int64
tq_operation_row_count_live(void)
{
	return tq_spi_find_id(&stmt_live, NULL);
}

/*
 * Remove operations that ended before a time, and the oldest that have ended
 * if there are more than keep.  Returns their number, at most limit.
 */
int64
tq_operation_row_sweep(int64 keep, TimestampTz before, int limit)
{
	Datum args[3] = {Int64GetDatum(keep), TimestampTzGetDatum(before),
					 Int32GetDatum(limit)};

	return (int64) tq_spi_execute(&stmt_sweep, args, NULL, SPI_OK_DELETE);
}

/* Set an argument, or null if it is not given. */
static void
give(Datum *args, bool *nulls, int n, bool given, Datum value)
{
	args[n] = given ? value : (Datum) 0;
	nulls[n] = !given;
}

static void
give_text(Datum *args, bool *nulls, int n, const char *text)
{
	give(args, nulls, n, text != NULL,
		 text == NULL ? (Datum) 0 : CStringGetTextDatum(text));
}
