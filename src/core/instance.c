/*
 * instance.c
 *		Which database this is: taskq_activate(), taskq_version(), and what
 *		the test build shows of shared memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/spi.h"
#include "core/options.h"
#include "core/xact.h"
#include "shared/registry.h"
#include "shared/shmem.h"
#include "shared/station.h"

PG_FUNCTION_INFO_V1(taskq_version);
PG_FUNCTION_INFO_V1(taskq_activate);
#ifdef TASKQ_DEBUG
PG_FUNCTION_INFO_V1(taskq_debug_wipe);
PG_FUNCTION_INFO_V1(taskq_debug_timers);
PG_FUNCTION_INFO_V1(taskq_debug_registry);
PG_FUNCTION_INFO_V1(taskq_debug_backoff);
#endif

static TqStmt stmt_forget_copies = {
	"DELETE FROM taskq.instance", 0, {0}, NULL};

static TqStmt stmt_new_instance = {
	"INSERT INTO taskq.instance (instance, database_oid, created_at)"
	" VALUES (gen_random_uuid(), $1, $2)",
	2,
	{OIDOID, TIMESTAMPTZOID},
	NULL};

/*
 * Numbers of roles in a copy are those of another cluster.  A name that
 * exists here is that role (of two rows with one name, the newest); others
 * get a number that no role has, one for each.
 */
static TqStmt stmt_forget_roles = {
	"UPDATE taskq.role SET oid = (4294967295 - role_id)::oid", 0, {0}, NULL};

static TqStmt stmt_find_roles = {
	"UPDATE taskq.role r SET oid = a.oid"
	"  FROM pg_authid a"
	" WHERE a.rolname = r.name"
	"   AND r.role_id = (SELECT max(o.role_id) FROM taskq.role o"
	"                     WHERE o.name = r.name)",
	0,
	{0},
	NULL};

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
		ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
						errmsg("must be superuser to activate a copy")));
	args[0] = ObjectIdGetDatum(MyDatabaseId);
	args[1] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_forget_copies, NULL, NULL, SPI_OK_DELETE, 0);
	tq_spi_run(&stmt_new_instance, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_run(&stmt_forget_roles, NULL, NULL, SPI_OK_UPDATE, 0);
	tq_spi_run(&stmt_find_roles, NULL, NULL, SPI_OK_UPDATE, 0);
	tq_spi_leave(&spi);
	tq_catalog_announce_queue();
	tq_catalog_announce_worker();

	/* Running tasks have been loaded past the registry. */
	tq_xact_rescan();
	tq_xact_visit(MyDatabaseId);
	PG_RETURN_VOID();
}

#ifdef TASKQ_DEBUG
Datum
taskq_debug_wipe(PG_FUNCTION_ARGS)
{
	tq_shmem_wipe();
	tq_station_wake();
	PG_RETURN_VOID();
}

Datum
taskq_debug_timers(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64((int64) tq_registry_timers());
}

Datum
taskq_debug_registry(PG_FUNCTION_ARGS)
{
	TupleDesc desc;
	Datum     values[2];
	bool      nulls[2] = {false, false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = Int32GetDatum(tq_registry_count());
	values[1] = BoolGetDatum(tq_registry_complete());
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
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
