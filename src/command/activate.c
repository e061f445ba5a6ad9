/*
 * activate.c
 *		taskq_activate(), taskq_version(), and the functions of the test build
 *		that show shared memory.
 *
 * Background processing is off in a copy of a database until a superuser
 * activates the copy.  A database is a copy unless taskq.instance has exactly
 * one row and that row has the database's OID.  A dump brings its own row.
 * Since a restore may load other rows before that one, in several sessions,
 * any COPY into a table of the extension changes the row that is present.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "commands/dbcommands.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/options.h"
#include "command/activate.h"
#include "command/grant.h"
#include "engine/change_log.h"
#include "engine/id.h"
#include "shared/running.h"
#include "shared/shmem.h"
#include "shared/token_floor.h"
#include "shared/waiter.h"
#include "shared/worker_directory.h"
#include "xact/xact.h"

PG_FUNCTION_INFO_V1(taskq_version);
PG_FUNCTION_INFO_V1(taskq_activate);
#ifdef TASKQ_DEBUG
PG_FUNCTION_INFO_V1(taskq_debug_wipe);
PG_FUNCTION_INFO_V1(taskq_debug_timers);
PG_FUNCTION_INFO_V1(taskq_debug_registry);
PG_FUNCTION_INFO_V1(taskq_debug_waiters);
PG_FUNCTION_INFO_V1(taskq_debug_backoff);
#endif

static TqStmt stmt_forget_copies = {"DELETE FROM taskq.instance"};

static TqStmt stmt_new_instance = {
	"INSERT INTO taskq.instance (instance, database_oid, created_at)"
	" VALUES (gen_random_uuid(), $1, $2)",
	{OIDOID, TIMESTAMPTZOID}};

/*
 * If this database is not a copy, a number whose role is missing belongs to a
 * dropped role.
 */
static TqStmt stmt_roles_gone = {
	"UPDATE taskq.role r SET gone = true"
	" WHERE NOT r.gone AND r.oid <> (4294967295 - r.role_id)::oid"
	"   AND NOT EXISTS (SELECT FROM pg_roles a WHERE a.oid = r.oid)"
	"   AND (SELECT count(*) = 1 AND bool_and(i.database_oid = $1)"
	"          FROM taskq.instance i)",
	{OIDOID}};

/*
 * Role numbers in a copy are those of another cluster.  If a role of the same
 * name exists here, it takes the number (of two rows with one name, the newer
 * one); each other row gets a number of its own that no role has.
 */
static TqStmt stmt_forget_roles = {
	"UPDATE taskq.role SET oid = (4294967295 - role_id)::oid"};

static TqStmt stmt_mark = {
	"UPDATE taskq.instance SET database_oid = 0 WHERE database_oid = $1",
	{OIDOID}};

static TqStmt stmt_find_roles = {
	"UPDATE taskq.role r SET oid = a.oid"
	"  FROM pg_roles a"
	" WHERE a.rolname = r.name"
	"   AND NOT r.gone"
	"   AND r.role_id = (SELECT max(o.role_id) FROM taskq.role o"
	"                     WHERE o.name = r.name AND NOT o.gone)"};

/*
 * Move the sequences past the numbers in use: a dump brings its sequences, but
 * logical replication does not.
 */
#define RAISE_SEQUENCE(seq, column, relation)                                 \
	{                                                                         \
		"SELECT setval('taskq." seq "', m) FROM taskq." seq                   \
		" s, (SELECT max(" column ")::bigint AS m FROM taskq." relation       \
		") t WHERE m >= s.last_value"                                         \
	}

static TqStmt stmt_raise[] = {
	RAISE_SEQUENCE("queue_id_seq", "queue_id", "queue"),
	RAISE_SEQUENCE("role_id_seq", "role_id", "role"),
	RAISE_SEQUENCE("lane_row_seq", "lane_row", "lane"),
	RAISE_SEQUENCE("worker_id_seq", "worker_id", "worker"),
	RAISE_SEQUENCE("transition_id_seq", "transition_id", "transition"),
	RAISE_SEQUENCE("change_id_seq", "change_id", "change_log"),
	RAISE_SEQUENCE("operation_id_seq", "operation_id", "operation"),
	RAISE_SEQUENCE("template_id_seq", "template_id", "template")};

static TqStmt stmt_raise_task_ids = {
	"SELECT setval('taskq.task_id_seq', m - $1)"
	"  FROM taskq.task_id_seq s,"
	"       (SELECT greatest((SELECT max(task_id) FROM taskq.task"
	"                          WHERE task_id BETWEEN $1 AND $2),"
	"                        (SELECT max(task_id) FROM taskq.archive"
	"                          WHERE task_id BETWEEN $1 AND $2)) AS m) t"
	" WHERE m - $1 > 0 AND m - $1 >= s.last_value",
	{INT8OID, INT8OID}};

/*
 * Move the sequence past any token that the original database may have used.
 */
static TqStmt stmt_raise_tokens = {
	"SELECT setval('taskq.token_bound_seq',"
	"              greatest(b.last_value, t.m, a.m) + $1)"
	"  FROM taskq.token_bound_seq b,"
	"       (SELECT max(token) AS m FROM taskq.task WHERE token < $2) t,"
	"       (SELECT max(token) AS m FROM taskq.archive WHERE token < $2) a",
	{INT8OID, INT8OID}};

/* Called at the end of taskq_activate(). */
void (*tq_activate_hook)(void) = NULL;

static void raise_sequences(void);

Datum
taskq_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text("1.0"));
}

Datum
taskq_activate(PG_FUNCTION_ARGS)
{
	TqSpi spi;
	Datum args[2];

	PreventCommandIfReadOnly("taskq_activate()");
	if (!superuser())
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to activate taskq in this database"),
			 errhint("Must be superuser.")));
	args[0] = ObjectIdGetDatum(MyDatabaseId);
	args[1] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_roles_gone, args, NULL, SPI_OK_UPDATE, 0);
	tq_spi_run(&stmt_forget_copies, NULL, NULL, SPI_OK_DELETE, 0);
	tq_spi_run(&stmt_new_instance, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_run(&stmt_forget_roles, NULL, NULL, SPI_OK_UPDATE, 0);
	tq_spi_run(&stmt_find_roles, NULL, NULL, SPI_OK_UPDATE, 0);
	raise_sequences();
	tq_spi_leave(&spi);
	tq_grant_execute_again();
	tq_catalog_announce_identity();

	/* Tasks may have arrived without an entry in shared memory. */
	tq_xact_note(TQ_NOTE_ROWS_CHANGED, 0);
	tq_xact_note(TQ_NOTE_VISIT, 0);
	if (tq_activate_hook != NULL)
		tq_activate_hook();
	tq_change_log_add("activate", NULL, get_database_name(MyDatabaseId), NULL,
					  tq_arg_message(fcinfo, 0));
	PG_RETURN_VOID();
}

static void
raise_sequences(void)
{
	Datum args[2];

	for (int i = 0; i < lengthof(stmt_raise); i++)
		tq_spi_run(&stmt_raise[i], NULL, NULL, SPI_OK_SELECT, 0);
	tq_id_range(&args[0], &args[1]);
	tq_spi_run(&stmt_raise_task_ids, args, NULL, SPI_OK_SELECT, 0);
	args[0] = Int64GetDatum(TQ_TOKEN_JUMP);
	args[1] = Int64GetDatum(TQ_TOKEN_LAST);
	tq_spi_run(&stmt_raise_tokens, args, NULL, SPI_OK_SELECT, 0);
	tq_token_floor_renew();
}

/*
 * Rows have been loaded, of which sessions and shared memory do not know.
 * Once this commits, the database is a copy.  Returns true unless the database
 * was a copy before.
 */
bool
tq_activate_rows_loaded(void)
{
	Datum arg = ObjectIdGetDatum(MyDatabaseId);
	bool  marked;

	marked = tq_spi_execute(&stmt_mark, &arg, NULL, SPI_OK_UPDATE) > 0;
	tq_catalog_announce_identity();
	tq_xact_note(TQ_NOTE_ROWS_CHANGED, 0);
	if (marked)
		ereport(
			NOTICE,
			(errmsg(
				 "taskq data was loaded with COPY, so this database is now marked as a copy"),
			 errhint(
				 "Background processing is disabled until a superuser calls taskq_activate().")));
	return marked;
}

#ifdef TASKQ_DEBUG
Datum
taskq_debug_wipe(PG_FUNCTION_ARGS)
{
	tq_shmem_wipe();
	tq_worker_directory_wake();
	PG_RETURN_VOID();
}

Datum
taskq_debug_timers(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) tq_running_timers());
}

Datum
taskq_debug_waiters(PG_FUNCTION_ARGS)
{
	TqWaiterNumbers numbers;
	Datum           values[4];
	bool            nulls[4] = {false};

	tq_waiter_numbers(&numbers);
	values[0] = Int32GetDatum(tq_waiter_count(0, 0));
	values[1] = Int64GetDatum(numbers.sleeps);
	values[2] = Int64GetDatum(numbers.wakes);
	values[3] = Int64GetDatum(numbers.passed_on);
	return tq_srf_row(fcinfo, values, nulls);
}

Datum
taskq_debug_registry(PG_FUNCTION_ARGS)
{
	Datum values[2];
	bool  nulls[2] = {false, false};

	values[0] = Int32GetDatum(tq_running_count());
	values[1] = BoolGetDatum(tq_running_complete());
	return tq_srf_row(fcinfo, values, nulls);
}

Datum
taskq_debug_backoff(PG_FUNCTION_ARGS)
{
	TqOptions options;
	Interval *wait = palloc0(sizeof(Interval));

	tq_options_default(&options);
	tq_options_read(&options, PG_GETARG_JSONB_P(0));
	wait->time = tq_backoff_delay(&options.backoff, PG_GETARG_INT32(1),
								  PG_GETARG_FLOAT8(2));
	PG_RETURN_INTERVAL_P(wait);
}
#endif
