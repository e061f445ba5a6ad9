/*
 * worker.c
 *		Workers: taskq_register, taskq_heartbeat, taskq_deregister; labels.
 *
 * Each registration is a row of taskq.worker with a number of its own, so
 * that what a former process of the same name still holds can be told from
 * what the new one claims.  Names are resolved once in a session and kept
 * until a registration or a death is announced (base/catalog.c).
 *
 * Signs of life are stores into shared memory (shared/slot.c).
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
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "core/duty.h"
#include "core/role.h"
#include "core/worker.h"
#include "core/xact.h"
#include "shared/registry.h"
#include "shared/shmem.h"
#include "shared/slot.h"

PG_FUNCTION_INFO_V1(taskq_register);
PG_FUNCTION_INFO_V1(taskq_heartbeat);
PG_FUNCTION_INFO_V1(taskq_deregister);
PG_FUNCTION_INFO_V1(taskq_worker_seen);
PG_FUNCTION_INFO_V1(taskq_may_see_worker);

/* What a session knows of a name. */
typedef struct KnownWorker
{
	char          name[TQ_MAX_NAME + 1];
	int32         worker_id; /* 0: neither registered nor a label */
	TqWorkerState state;
	Oid           role;
	TqTags        tags;
} KnownWorker;

static MemoryContext known_context = NULL;
static HTAB         *known = NULL;
static uint64        known_generation = 0;

/* The living one, else the newest of the past, else the label. */
static TqStmt stmt_find = {
	"SELECT w.worker_id, w.state::integer, r.oid, w.tags"
	"  FROM taskq.worker w LEFT JOIN taskq.role r USING (role_id)"
	" WHERE w.name = $1"
	" ORDER BY w.state = 1 DESC, w.state <> 3 DESC, w.worker_id DESC"
	" LIMIT 1",
	1,
	{TEXTOID},
	NULL};

static TqStmt stmt_find_label = {
	"SELECT w.worker_id, w.state::integer, NULL::oid, w.tags"
	"  FROM taskq.worker w WHERE w.name = $1 AND w.state = 3"
	" ORDER BY w.worker_id LIMIT 1",
	1,
	{TEXTOID},
	NULL};

static TqStmt stmt_add = {
	"INSERT INTO taskq.worker"
	" (name, state, role_id, queues, tags, info, registered_at)"
	" VALUES ($1, $2::smallint, $3, $4, $5, $6, $7)"
	" ON CONFLICT DO NOTHING RETURNING worker_id",
	7,
	{TEXTOID, INT4OID, INT4OID, TEXTARRAYOID, TEXTARRAYOID, JSONBOID,
	 TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_end = {
	"UPDATE taskq.worker SET state = $2::smallint, ended_at = $3"
	" WHERE worker_id = $1 AND state = 1",
	3,
	{INT4OID, INT4OID, TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_name = {
	"SELECT name FROM taskq.worker WHERE worker_id = $1", 1, {INT4OID}, NULL};

static TqStmt stmt_asked = {
	"SELECT task_id FROM taskq.task"
	" WHERE task_id = ANY ($1) AND worker_id = $2 AND state = 3"
	"   AND cancel_requested_at IS NOT NULL"
	" ORDER BY task_id",
	2,
	{INT8ARRAYOID, INT4OID},
	NULL};

static KnownWorker *look_up(const char *name);
static void  read_known(KnownWorker *worker, TqStmt *stmt, const char *name);
static int32 add_row(const char *name, TqWorkerState state, Datum queues,
					 bool queues_null, const TqTags *tags, Jsonb *info);
static void  require_name(const KnownWorker *worker);
static KnownWorker *require_active(const char *name);
static void         check_queues(FunctionCallInfo fcinfo, int n);
static Datum        tasks_asked(int32 worker_id);

Datum
taskq_register(PG_FUNCTION_ARGS)
{
	char        *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	Jsonb       *info = tq_arg_jsonb(fcinfo, 5);
	TqTags       tags;
	TqCall       call;
	KnownWorker *former;
	int64        returned = 0;
	int32        worker_id;

	if (!PG_ARGISNULL(1))
		check_queues(fcinfo, 1);
	tq_arg_tags(fcinfo, 2, &tags);
	if (!PG_ARGISNULL(3))
		tq_error_not_built("argument \"max_running\" of taskq_register()");
	if (tq_arg_bool(fcinfo, 4, false))
		tq_error_not_built("bound => true");
	if (info != NULL && VARSIZE(info) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("info", VARSIZE(info), TQ_MAX_SMALL_DOC);
	if (tq_arg_bool(fcinfo, 6, false))
		tq_error_not_built("keep => true");
	tq_shmem_require("taskq_register()");

	tq_call_begin(&call, "taskq_register()");
	for (;;)
	{
		former = look_up(name);
		if (former->worker_id != 0 && (former->state == TQ_WORKER_ACTIVE ||
									   former->state == TQ_WORKER_DEAD))
			require_name(former);
		if (former->worker_id != 0 && former->state == TQ_WORKER_ACTIVE)
		{
			tq_worker_end(former->worker_id, TQ_WORKER_GONE);
			returned += tq_duty_return_tasks(&call, former->worker_id, false);
		}
		worker_id = add_row(name, TQ_WORKER_ACTIVE,
							PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1),
							PG_ARGISNULL(1), &tags, info);
		if (worker_id != 0)
			break;
		/* another session was faster: it is the former one now */
		tq_call_snapshot();
		tq_catalog_forget();
	}
	/* if this rolls back, the former worker's next beat makes it a slot */
	if (former->worker_id != 0)
		tq_slot_remove(former->worker_id);
	if (!tq_slot_put(worker_id))
		ereport(ERROR, (errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
						errmsg("too many registered workers"),
						errhint("Increase taskq.max_workers, now %d.",
								tq_guc_max_workers)));
	tq_catalog_announce_worker();
	tq_call_end(&call);
	PG_RETURN_INT64(returned);
}

Datum
taskq_heartbeat(PG_FUNCTION_ARGS)
{
	char        *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	KnownWorker *worker;
	TupleDesc    desc;
	Datum        values[4];
	bool         nulls[4] = {false};
	Interval    *next;

	tq_shmem_require("taskq_heartbeat()");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	worker = require_active(name);
	if (!tq_slot_beat(worker->worker_id))
		tq_slot_put(worker->worker_id);

	next = palloc0(sizeof(Interval));
	next->time = (int64) tq_guc_stale_threshold * 1000 / 3;
	values[0] = CStringGetTextDatum("active");
	values[1] = tasks_asked(worker->worker_id);
	values[2] = BoolGetDatum(false);
	values[3] = IntervalPGetDatum(next);
	return HeapTupleGetDatum(
		heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

Datum
taskq_deregister(PG_FUNCTION_ARGS)
{
	char        *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	TqCall       call;
	KnownWorker *worker;
	int32        worker_id;
	int64        returned;

	tq_shmem_require("taskq_deregister()");
	tq_call_begin(&call, "taskq_deregister()");
	worker = require_active(name);
	worker_id = worker->worker_id;
	tq_worker_end(worker_id, TQ_WORKER_GONE);
	returned = tq_duty_return_tasks(&call, worker_id, true);
	tq_catalog_announce_worker();
	tq_call_end(&call);
	PG_RETURN_INT64(returned);
}

/*
 * When a registered worker was last seen, for the view of workers; null
 * when that is not known.
 */
Datum
taskq_worker_seen(PG_FUNCTION_ARGS)
{
	int64 last_seen;

	if (PG_ARGISNULL(0) || !tq_slot_find(PG_GETARG_INT32(0), &last_seen))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(tq_clock_wall() -
						  Max(tq_clock_monotonic() - last_seen, 0));
}

/*
 * For the view of workers: those of roles whose privileges current_user
 * has; readers of all queues and pg_monitor see all.
 */
Datum
taskq_may_see_worker(PG_FUNCTION_ARGS)
{
	Oid role;

	if (PG_ARGISNULL(0))
		PG_RETURN_BOOL(false);
	if (has_privs_of_role(GetUserId(), ROLE_PG_MONITOR) ||
		(tq_role_rights_all() & (TQ_RIGHT_READ | TQ_RIGHT_MANAGE)) != 0)
		PG_RETURN_BOOL(true);
	role = tq_role_oid(PG_GETARG_INT32(0));
	PG_RETURN_BOOL(OidIsValid(role) && has_privs_of_role(GetUserId(), role));
}

/*
 * The worker that a claim names.  A registered one must be alive, and
 * current_user must be allowed to use its name; any other name is a label.
 */
void
tq_worker_for_claim(const char *name, TqWorker *result)
{
	KnownWorker *worker = look_up(name);

	if (worker->worker_id != 0 && worker->state == TQ_WORKER_DEAD)
		tq_error_no_such_worker(name, true);
	if (worker->worker_id != 0 && worker->state == TQ_WORKER_ACTIVE)
	{
		require_name(worker);
		tq_shmem_require("claiming as a registered worker");
		if (!tq_slot_beat(worker->worker_id))
			tq_slot_put(worker->worker_id);
		result->registered = true;
		result->tags = worker->tags;
	}
	else if (worker->worker_id == 0 || worker->state == TQ_WORKER_GONE)
	{
		TqTags none = {0};

		read_known(worker, &stmt_find_label, name);
		if (worker->worker_id == 0)
		{
			tq_xact_session_cache_changed();
			if (add_row(name, TQ_WORKER_LABEL, (Datum) 0, true, &none, NULL) ==
				0)
				tq_call_snapshot();
			read_known(worker, &stmt_find_label, name);
			if (worker->worker_id == 0)
				tq_error_serialization();
		}
	}
	result->worker_id = worker->worker_id;
}

/* The name behind a number; NULL if there is none. */
char *
tq_worker_name(int32 worker_id)
{
	TqSpi spi;
	Datum arg = Int32GetDatum(worker_id);
	char *name = NULL;

	if (worker_id == 0)
		return NULL;
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_name, &arg, NULL, 1) > 0)
		name = tq_spi_text(&spi, 0, 1);
	tq_spi_leave(&spi);
	return name;
}

/*
 * A registration ends.  False when it had ended before.
 */
bool
tq_worker_end(int32 worker_id, TqWorkerState how)
{
	TqSpi spi;
	Datum args[3];
	bool  ended;

	args[0] = Int32GetDatum(worker_id);
	args[1] = Int32GetDatum(how);
	args[2] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_enter(&spi);
	ended = tq_spi_run(&stmt_end, args, NULL, SPI_OK_UPDATE, 0) > 0;
	tq_spi_leave(&spi);
	if (ended)
	{
		tq_xact_worker_gone(worker_id);
		tq_catalog_announce_worker();
	}
	return ended;
}

/* What is known of a name; worker_id 0 when it was never used. */
static KnownWorker *
look_up(const char *name)
{
	KnownWorker *worker;
	bool         found;

	if (known == NULL || known_generation != tq_catalog_worker_generation())
	{
		HASHCTL ctl = {0};

		if (known_context == NULL)
			known_context = AllocSetContextCreate(
				TopMemoryContext, "taskq workers", ALLOCSET_SMALL_SIZES);
		known = NULL;
		MemoryContextReset(known_context);
		ctl.keysize = TQ_MAX_NAME + 1;
		ctl.entrysize = sizeof(KnownWorker);
		ctl.hcxt = known_context;
		known = hash_create("taskq workers", 16, &ctl,
							HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
		known_generation = tq_catalog_worker_generation();
	}
	worker = hash_search(known, name, HASH_FIND, NULL);
	if (worker != NULL)
		return worker;

	/* not kept when reading it fails */
	worker = palloc0(sizeof(KnownWorker));
	read_known(worker, &stmt_find, name);
	if (worker->worker_id != 0)
	{
		KnownWorker *kept = hash_search(known, name, HASH_ENTER, &found);
		TqTags       tags = worker->tags;

		kept->worker_id = worker->worker_id;
		kept->state = worker->state;
		kept->role = worker->role;
		kept->tags = tags;
		return kept;
	}
	return worker;
}

static void
read_known(KnownWorker *worker, TqStmt *stmt, const char *name)
{
	TqSpi spi;
	Datum arg = CStringGetTextDatum(name);

	worker->worker_id = 0;
	tq_spi_enter(&spi);
	if (tq_spi_look(stmt, &arg, NULL, 1) > 0)
	{
		MemoryContext mine = MemoryContextSwitchTo(known_context);
		bool          isnull;
		Datum         value;
		Datum        *values;
		bool         *nulls;

		worker->worker_id = tq_spi_int4(0, 1, 0);
		worker->state = (TqWorkerState) tq_spi_int4(0, 2, 0);
		value = tq_spi_get(0, 3, &isnull);
		worker->role = isnull ? InvalidOid : DatumGetObjectId(value);
		deconstruct_array(DatumGetArrayTypeP(tq_spi_get(0, 4, &isnull)),
						  TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls,
						  &worker->tags.count);
		worker->tags.tags = palloc(sizeof(char *) * (worker->tags.count + 1));
		for (int i = 0; i < worker->tags.count; i++)
			worker->tags.tags[i] = nulls[i] ? pstrdup("")
											: TextDatumGetCString(values[i]);
		tq_arg_tags_sort(&worker->tags);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
}

/* The new row's number; 0 when such a row exists already. */
static int32
add_row(const char *name, TqWorkerState state, Datum queues, bool queues_null,
		const TqTags *tags, Jsonb *info)
{
	TqSpi spi;
	Datum args[7];
	bool  nulls[7] = {false};
	int32 worker_id = 0;

	args[0] = CStringGetTextDatum(name);
	args[1] = Int32GetDatum(state);
	args[2] = Int32GetDatum(tq_role_intern(GetUserId()));
	args[3] = queues;
	nulls[3] = queues_null;
	args[4] = tags->count > 0
				  ? tq_arg_tags_datum(tags)
				  : PointerGetDatum(construct_empty_array(TEXTOID));
	args[5] = info != NULL ? JsonbPGetDatum(info) : (Datum) 0;
	nulls[5] = info == NULL;
	args[6] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_add, args, nulls, SPI_OK_INSERT_RETURNING, 0) > 0)
		worker_id = tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);
	return worker_id;
}

/* A worker belongs to the role that registered it, and to managers. */
static void
require_name(const KnownWorker *worker)
{
	if (OidIsValid(worker->role) &&
		has_privs_of_role(GetUserId(), worker->role))
		return;
	if (tq_role_rights_all() & TQ_RIGHT_MANAGE)
		return;
	ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					errmsg("permission denied for this worker's name"),
					errdetail("The worker was registered by another role.")));
}

/* TQ007 unless the worker is registered and not dead. */
static KnownWorker *
require_active(const char *name)
{
	KnownWorker *worker = look_up(name);

	if (worker->worker_id == 0 || worker->state == TQ_WORKER_LABEL ||
		worker->state == TQ_WORKER_GONE)
		tq_error_no_such_worker(name, false);
	require_name(worker);
	if (worker->state == TQ_WORKER_DEAD)
		tq_error_no_such_worker(name, true);
	return worker;
}

static void
check_queues(FunctionCallInfo fcinfo, int n)
{
	int    count;
	Datum *names = tq_arg_array(fcinfo, n, "queues", TEXTOID, &count);

	if (count > 10000)
		tq_error_too_large("list of queues", count, 10000);
	for (int i = 0; i < count; i++)
		tq_arg_check_word(TextDatumGetCString(names[i]), "queue", TQ_MAX_NAME);
}

/*
 * The worker's tasks that were asked to stop, as bigint[].  Tables are read
 * only when shared memory says that there may be one.
 */
static Datum
tasks_asked(int32 worker_id)
{
	TqRunning *running;
	Datum     *ids;
	Datum      args[2];
	int        count;
	ArrayType *result = construct_empty_array(INT8OID);
	TqSpi      spi;
	uint64     rows;

	if (!tq_slot_asked(worker_id, false))
		return PointerGetDatum(result);
	tq_slot_asked(worker_id, true);
	running = palloc(sizeof(TqRunning) * TQ_MAX_CLAIM);
	count = tq_registry_of_workers(&worker_id, 1, running, TQ_MAX_CLAIM);
	ids = palloc(sizeof(Datum) * (count + 1));
	for (int i = 0; i < count; i++)
		ids[i] = Int64GetDatum(running[i].task_id);
	args[0] = PointerGetDatum(construct_array(
		ids, count, INT8OID, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
	args[1] = Int32GetDatum(worker_id);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_asked, args, NULL, 0);
	for (uint64 i = 0; i < rows && i < (uint64) count; i++)
		ids[i] = Int64GetDatum(tq_spi_int8(i, 1, 0));
	tq_spi_leave(&spi);
	if (rows > 0 || !tq_registry_complete())
		tq_slot_ask(worker_id); /* told again until they have stopped */
	if (rows > 0)
		result = construct_array(ids, (int) rows, INT8OID, 8, FLOAT8PASSBYVAL,
								 TYPALIGN_DOUBLE);
	pfree(running);
	return PointerGetDatum(result);
}
