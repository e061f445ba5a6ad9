/*
 * worker.c
 *		Workers: taskq_register, taskq_heartbeat, taskq_drain,
 *		taskq_deregister, taskq_expire; labels.
 *
 * Each registration is a row of taskq.worker with a number of its own, so
 * that what a former process of the same name still holds can be told from
 * what the new one claims.  Names are resolved once in a session and kept
 * until a registration or a death is announced (base/catalog.c).
 *
 * Signs of life are in sign.c, what binds a worker to a connection in bound.c,
 * what a heartbeat says of tasks that are to be stopped in asked.c.
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
#include "core/asked.h"
#include "core/bound.h"
#include "core/duty.h"
#include "core/look.h"
#include "core/metrics.h"
#include "core/queue.h"
#include "core/role.h"
#include "core/sign.h"
#include "core/worker.h"
#include "core/xact.h"
#include "shared/counter.h"
#include "shared/shmem.h"
#include "shared/slot.h"

PG_FUNCTION_INFO_V1(taskq_register);
PG_FUNCTION_INFO_V1(taskq_heartbeat);
PG_FUNCTION_INFO_V1(taskq_deregister);
PG_FUNCTION_INFO_V1(taskq_drain);
PG_FUNCTION_INFO_V1(taskq_expire);
PG_FUNCTION_INFO_V1(taskq_worker_seen);

/* What a session knows of a name. */
typedef struct KnownWorker
{
	char          name[TQ_MAX_NAME + 1];
	int32         worker_id; /* 0: neither registered nor a label */
	TqWorkerState state;
	Oid           role;
	TqTags        tags;
	bool          draining;
	int           max_running;
	char        **queues; /* NULL: all */
	int           queue_count;
	TimestampTz   used_at; /* of a label, as of its row */
} KnownWorker;

/* What a registration says; all of it may be missing. */
typedef struct Registration
{
	Datum  queues; /* text[], 0: null */
	TqTags tags;
	Jsonb *info;
	int    max_running;    /* 0: null */
	int64  bound_instance; /* 0: null */
	int64  bound_session;  /* 0: not bound */
} Registration;

static MemoryContext known_context = NULL;
static HTAB         *known = NULL;
static uint64        known_generation = 0;

/* The living one, else the newest of the past, else the label. */
#define WORKER_COLUMNS                                                        \
	", w.tags, w.draining, w.max_running, w.queues, w.registered_at"

static TqStmt stmt_find = {
	"SELECT w.worker_id, w.state::integer, r.oid" WORKER_COLUMNS
	"  FROM taskq.worker w LEFT JOIN taskq.known_role r USING (role_id)"
	" WHERE w.name = $1"
	" ORDER BY w.state = 1 DESC, w.state <> 3 DESC, w.worker_id DESC"
	" LIMIT 1",
	1,
	{TEXTOID},
	NULL};

static TqStmt stmt_find_label = {
	"SELECT w.worker_id, w.state::integer, NULL::oid" WORKER_COLUMNS
	"  FROM taskq.worker w WHERE w.name = $1 AND w.state = 3"
	" ORDER BY w.registered_at DESC, w.worker_id LIMIT 1",
	1,
	{TEXTOID},
	NULL};

/* Nobody waits for whoever else is using it. */
static TqStmt stmt_use_label = {
	"UPDATE taskq.worker SET registered_at = $2"
	" WHERE worker_id = (SELECT w.worker_id FROM taskq.worker w"
	"                     WHERE w.worker_id = $1 AND w.state = 3"
	"                       FOR UPDATE SKIP LOCKED)",
	2,
	{INT4OID, TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_add = {
	"INSERT INTO taskq.worker"
	" (name, state, role_id, queues, tags, info, registered_at, max_running,"
	"  bound_instance, bound_session)"
	" VALUES ($1, $2::smallint, $3, $4, $5, $6, $7, $8, $9, $10)"
	" ON CONFLICT DO NOTHING RETURNING worker_id",
	10,
	{TEXTOID, INT4OID, INT4OID, TEXTARRAYOID, TEXTARRAYOID, JSONBOID,
	 TIMESTAMPTZOID, INT4OID, INT8OID, INT8OID},
	NULL};

static TqStmt stmt_keep = {
	"UPDATE taskq.worker SET queues = $2, tags = $3, info = $4,"
	"       max_running = $5, draining = false,"
	"       bound_instance = $6, bound_session = $7"
	" WHERE worker_id = $1 AND state = 1",
	7,
	{INT4OID, TEXTARRAYOID, TEXTARRAYOID, JSONBOID, INT4OID, INT8OID, INT8OID},
	NULL};

static TqStmt stmt_drain = {"UPDATE taskq.worker SET draining = true"
							" WHERE worker_id = $1 AND state = 1",
							1,
							{INT4OID},
							NULL};

static TqStmt stmt_others = {
	"SELECT w.worker_id, r.oid"
	"  FROM taskq.worker w LEFT JOIN taskq.known_role r USING (role_id)"
	" WHERE w.state = 1 AND w.worker_id <> $1 ORDER BY w.worker_id",
	1,
	{INT4OID},
	NULL};

static TqStmt stmt_end = {
	"UPDATE taskq.worker SET state = $2::smallint, ended_at = $3"
	" WHERE worker_id = $1 AND state = 1",
	3,
	{INT4OID, INT4OID, TIMESTAMPTZOID},
	NULL};

/* Unless a transaction is changing the row. */
static TqStmt stmt_end_free = {
	"UPDATE taskq.worker SET state = $2::smallint, ended_at = $3"
	" WHERE worker_id = (SELECT w.worker_id FROM taskq.worker w"
	"                     WHERE w.worker_id = $1 AND w.state = 1"
	"                       FOR UPDATE SKIP LOCKED)",
	3,
	{INT4OID, INT4OID, TIMESTAMPTZOID},
	NULL};

static TqStmt stmt_name = {
	"SELECT name FROM taskq.worker WHERE worker_id = $1", 1, {INT4OID}, NULL};

static KnownWorker *look_up(const char *name);
static KnownWorker *look_up_caller(const char *name);
static void   read_known(KnownWorker *worker, TqStmt *stmt, const char *name);
static int32  add_row(const char *name, TqWorkerState state,
					  const Registration *registration);
static bool   label_is_fresh(const KnownWorker *worker);
static void   use_label(KnownWorker *worker, const char *name);
static bool   keep_row(int32 worker_id, const Registration *registration);
static bool   end_by(TqStmt *stmt, int32 worker_id, TqWorkerState how);
static void   tell(const KnownWorker *worker, TqWorker *result);
static char **strings_of(Datum array, int *count);
static Datum  tags_or_empty(const TqTags *tags);
static bool   may_use_name(Oid role);
static void   require_name(const KnownWorker *worker);
static KnownWorker *require_active(KnownWorker *worker, const char *name);
static void         check_queues(FunctionCallInfo fcinfo, int n);

Datum
taskq_register(PG_FUNCTION_ARGS)
{
	char        *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	Registration registration = {0};
	TqCall       call;
	KnownWorker *former;
	bool         bound;
	bool         keep;
	int64        returned = 0;
	int32        worker_id;

	if (!PG_ARGISNULL(1))
	{
		check_queues(fcinfo, 1);
		registration.queues = PG_GETARG_DATUM(1);
	}
	tq_arg_tags(fcinfo, 2, &registration.tags);
	if (!PG_ARGISNULL(3))
	{
		registration.max_running = PG_GETARG_INT32(3);
		if (registration.max_running < 1)
			tq_error_invalid("max_running", "must be at least 1", NULL);
		tq_shmem_require("max_running");
	}
	bound = tq_arg_bool(fcinfo, 4, false);
	if (bound)
		tq_shmem_require("bound => true");
	registration.info = tq_arg_jsonb(fcinfo, 5);
	if (registration.info != NULL &&
		VARSIZE(registration.info) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("info", VARSIZE(registration.info),
						   TQ_MAX_SMALL_DOC);
	keep = tq_arg_bool(fcinfo, 6, false);

	tq_call_begin(&call, "taskq_register()");
	if (bound)
		tq_bound_tie(&registration.bound_instance,
					 &registration.bound_session);
	for (;;)
	{
		former = look_up(name);
		if (former->worker_id != 0 && (former->state == TQ_WORKER_ACTIVE ||
									   former->state == TQ_WORKER_DEAD))
			require_name(former);
		if (former->worker_id != 0 && former->state == TQ_WORKER_ACTIVE)
		{
			if (keep && keep_row(former->worker_id, &registration))
			{
				worker_id = former->worker_id;
				/* before others can see it: max_running may come or go */
				if (former->max_running != registration.max_running)
					tq_counter_unknow(TQ_OWNER_WORKER, worker_id);
				tq_xact_wake_worker(worker_id);
				break;
			}
			tq_worker_end(former->worker_id, TQ_WORKER_GONE);
			returned += tq_duty_return_tasks(&call, former->worker_id, false);
		}
		worker_id = add_row(name, TQ_WORKER_ACTIVE, &registration);
		if (worker_id != 0)
		{
			tq_metrics_count(0, TQ_METRIC_WORKERS_REGISTERED, 1);
			break;
		}
		/* another session was faster: it is the former one now */
		tq_call_snapshot();
		tq_catalog_forget();
	}
	/* if this rolls back, the former worker's next beat makes it a slot */
	if (former->worker_id != 0 && former->worker_id != worker_id)
		tq_slot_remove(former->worker_id);
	if (!tq_sign_alive(worker_id))
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

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	worker = require_active(look_up_caller(name), name);

	next = palloc0(sizeof(Interval));
	next->time = (int64) tq_guc_stale_threshold * 1000 / 3;
	values[0] = CStringGetTextDatum("active");
	values[1] = tq_asked_tasks(worker->worker_id);
	values[2] = BoolGetDatum(worker->draining);
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

	tq_call_begin(&call, "taskq_deregister()");
	worker = require_active(look_up(name), name);
	worker_id = worker->worker_id;
	/* declared dead, or registered anew, at this very moment */
	if (!tq_worker_end(worker_id, TQ_WORKER_GONE))
		tq_error_no_such_worker(name, true);
	returned = tq_duty_return_tasks(&call, worker_id, true);
	tq_catalog_announce_worker();
	tq_call_end(&call);
	PG_RETURN_INT64(returned);
}

/* No further claims for the worker; its heartbeats tell it so. */
Datum
taskq_drain(PG_FUNCTION_ARGS)
{
	char        *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	TqCall       call;
	KnownWorker *worker;
	Datum        arg;
	TqSpi        spi;

	tq_call_begin(&call, "taskq_drain()");
	worker = require_active(look_up(name), name);
	arg = Int32GetDatum(worker->worker_id);
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_drain, &arg, NULL, SPI_OK_UPDATE, 0) == 0)
		tq_error_no_such_worker(name, true);
	tq_spi_leave(&spi);
	tq_catalog_announce_worker();
	tq_xact_wake_worker(DatumGetInt32(arg));
	tq_call_end(&call);
	PG_RETURN_VOID();
}

/*
 * Declare every other worker dead that was silent for that long, as far as
 * current_user may use its name.  The background worker takes their tasks
 * back at once.
 */
Datum
taskq_expire(PG_FUNCTION_ARGS)
{
	char        *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	int64        older_than = tq_arg_span(fcinfo, 1, "older_than", 1, 0);
	TqCall       call;
	KnownWorker *worker;
	int32       *ids;
	Oid         *roles;
	uint64       rows;
	Datum        arg;
	int64        expired = 0;
	TqSpi        spi;

	if (older_than == 0)
		tq_error_required("older_than");
	tq_call_begin(&call, "taskq_expire()");
	worker = require_active(look_up(name), name);
	tq_sign_beat(worker->worker_id);
	arg = Int32GetDatum(worker->worker_id);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_others, &arg, NULL, 0);
	ids = MemoryContextAlloc(spi.caller, sizeof(int32) * (rows + 1));
	roles = MemoryContextAlloc(spi.caller, sizeof(Oid) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		bool  isnull;
		Datum value = tq_spi_get(i, 2, &isnull);

		ids[i] = tq_spi_int4(i, 1, 0);
		roles[i] = isnull ? InvalidOid : DatumGetObjectId(value);
	}
	tq_spi_leave(&spi);
	for (uint64 i = 0; i < rows; i++)
	{
		int64 silence;

		/* one of whom nothing is known has its full time from now on */
		if (!may_use_name(roles[i]) || !tq_sign_silence(ids[i], &silence) ||
			silence < older_than)
			continue;
		if (tq_worker_end(ids[i], TQ_WORKER_DEAD))
			expired++;
	}
	if (expired > 0)
		tq_xact_orphans();
	tq_call_end(&call);
	PG_RETURN_INT64(expired);
}

/*
 * When a registered worker was last seen, for the view of workers; null
 * when that is not known, or current_user may not see the worker.
 */
Datum
taskq_worker_seen(PG_FUNCTION_ARGS)
{
	int64 silence;

	if (PG_ARGISNULL(0) || !tq_look_sees_worker(PG_GETARG_INT32(0)) ||
		!tq_sign_silence(PG_GETARG_INT32(0), &silence))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(tq_clock_wall() - silence);
}

/*
 * The worker that a claim names.  A registered one must be alive, and
 * current_user must be allowed to use its name; any other name is a label.
 */
void
tq_worker_for_claim(const char *name, TqWorker *result)
{
	KnownWorker *worker = look_up_caller(name);

	if (worker->worker_id != 0 && worker->state == TQ_WORKER_DEAD)
		tq_error_no_such_worker(name, true);
	if (worker->worker_id != 0 && worker->state == TQ_WORKER_ACTIVE)
		tell(worker, result);
	else if (!label_is_fresh(worker))
		use_label(worker, name);
	result->worker_id = worker->worker_id;
}

/*
 * The same for a call that claims nothing: a label is of no matter to it, and
 * is not written.
 */
void
tq_worker_if_registered(const char *name, TqWorker *result)
{
	KnownWorker *worker = look_up(name);

	if (worker->worker_id != 0 &&
		(worker->state == TQ_WORKER_ACTIVE || worker->state == TQ_WORKER_DEAD))
		tq_worker_for_claim(name, result);
}

/*
 * Would a claim by that name have to write a row first?  It is not registered
 * then, and no label that was used lately.
 */
bool
tq_worker_is_new(const char *name)
{
	KnownWorker *worker = look_up(name);

	if (worker->worker_id != 0 &&
		(worker->state == TQ_WORKER_ACTIVE || worker->state == TQ_WORKER_DEAD))
		return false;
	if (!label_is_fresh(worker))
		read_known(worker, &stmt_find_label, name);
	return !label_is_fresh(worker);
}

/*
 * The names of all queues of a registered worker, in turn.  They are copies:
 * what the session knows may be read anew from queue to queue.
 */
char **
tq_worker_queues(const TqWorker *worker, uint32 turn, int *count)
{
	char **names = worker->queues;
	char **copies;

	*count = worker->queue_count;
	if (names == NULL)
		names = tq_queue_names(count);
	copies = palloc(sizeof(char *) * (*count + 1));
	for (int i = 0; i < *count; i++)
		copies[i] = pstrdup(names[(turn + (uint32) i) % (uint32) *count]);
	return copies;
}

/* A worker that must be registered and alive: TQ007 otherwise. */
void
tq_worker_registered(const char *name, TqWorker *result)
{
	KnownWorker *worker = require_active(look_up_caller(name), name);

	tell(worker, result);
	result->worker_id = worker->worker_id;
}

/*
 * What is known of a name, which is no sign of life; 0 when it was never
 * used.  Somebody's registration is for who may use its name, or may_read.
 */
TqWorkerState
tq_worker_look(const char *name, bool may_read, TqWorker *result)
{
	KnownWorker *worker = look_up(name);

	memset(result, 0, sizeof(*result));
	if (worker->worker_id == 0)
		return (TqWorkerState) 0;
	if (!may_read &&
		(worker->state == TQ_WORKER_ACTIVE || worker->state == TQ_WORKER_DEAD))
		require_name(worker);
	if (worker->state == TQ_WORKER_ACTIVE)
		tell(worker, result);
	result->worker_id = worker->worker_id;
	return worker->state;
}

static void
tell(const KnownWorker *worker, TqWorker *result)
{
	result->registered = true;
	result->role = worker->role;
	result->tags = worker->tags;
	result->draining = worker->draining;
	result->max_running = worker->max_running;
	result->queues = worker->queues;
	result->queue_count = worker->queue_count;
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
	return end_by(&stmt_end, worker_id, how);
}

/*
 * The same for duties, which wait for nobody's transaction: also false when
 * one is changing the registration.
 */
bool
tq_worker_end_free(int32 worker_id, TqWorkerState how)
{
	return end_by(&stmt_end_free, worker_id, how);
}

static bool
end_by(TqStmt *stmt, int32 worker_id, TqWorkerState how)
{
	TqSpi spi;
	Datum args[3];
	bool  ended;

	args[0] = Int32GetDatum(worker_id);
	args[1] = Int32GetDatum(how);
	args[2] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_enter(&spi);
	ended = tq_spi_run(stmt, args, NULL, SPI_OK_UPDATE, 0) > 0;
	tq_spi_leave(&spi);
	if (ended)
	{
		tq_xact_worker_gone(worker_id);
		if (how == TQ_WORKER_DEAD)
			tq_metrics_count(0, TQ_METRIC_WORKERS_DIED, 1);
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

		memcpy((char *) kept + sizeof(kept->name),
			   (char *) worker + sizeof(worker->name),
			   sizeof(KnownWorker) - sizeof(worker->name));
		return kept;
	}
	return worker;
}

/*
 * The same; if it is a registered worker, which current_user must be allowed
 * to be, this is a sign of its life.
 */
static KnownWorker *
look_up_caller(const char *name)
{
	for (;;)
	{
		KnownWorker *worker = look_up(name);

		if (worker->worker_id == 0 || worker->state != TQ_WORKER_ACTIVE)
			return worker;
		require_name(worker);
		if (tq_sign_call(worker->worker_id))
			return worker;
		/* it has ended, which this session did not know */
		tq_catalog_forget();
	}
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

		worker->worker_id = tq_spi_int4(0, 1, 0);
		worker->state = (TqWorkerState) tq_spi_int4(0, 2, 0);
		value = tq_spi_get(0, 3, &isnull);
		worker->role = isnull ? InvalidOid : DatumGetObjectId(value);
		worker->tags.tags =
			strings_of(tq_spi_get(0, 4, &isnull), &worker->tags.count);
		tq_arg_tags_sort(&worker->tags);
		worker->draining = tq_spi_bool(0, 5);
		worker->max_running = tq_spi_int4(0, 6, 0);
		value = tq_spi_get(0, 7, &isnull);
		worker->queues = isnull ? NULL
								: strings_of(value, &worker->queue_count);
		value = tq_spi_get(0, 8, &isnull);
		worker->used_at = DatumGetTimestampTz(value);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
}

/*
 * May a claim use the label as it is known?  Its row tells to the hour when
 * it was last used, and is removed only two hours after that, when no older
 * transaction goes on (forget.c): so it is there until the claim can be seen.
 */
static bool
label_is_fresh(const KnownWorker *worker)
{
	return worker->worker_id != 0 && worker->state == TQ_WORKER_LABEL &&
		   tq_clock_wall() - worker->used_at < USECS_PER_HOUR;
}

/*
 * Make a label one that is used now, or a new one when there is none or
 * somebody else has locked it, who may be removing it.
 */
static void
use_label(KnownWorker *worker, const char *name)
{
	Registration none = {0};
	TimestampTz  now = tq_clock_wall();
	Datum        args[2];
	bool         used;
	TqSpi        spi;

	read_known(worker, &stmt_find_label, name);
	if (label_is_fresh(worker))
		return;
	tq_xact_session_cache_changed();
	if (worker->worker_id != 0)
	{
		args[0] = Int32GetDatum(worker->worker_id);
		args[1] = TimestampTzGetDatum(now);
		tq_spi_enter(&spi);
		used = tq_spi_run(&stmt_use_label, args, NULL, SPI_OK_UPDATE, 0) > 0;
		tq_spi_leave(&spi);
		if (used)
			worker->used_at = now;

		/* whoever has locked it uses it, too: there is time to try again */
		if (used || now - worker->used_at < TQ_LABEL_KEPT)
			return;
	}
	if (add_row(name, TQ_WORKER_LABEL, &none) == 0)
		tq_call_snapshot();
	read_known(worker, &stmt_find_label, name);
	if (worker->worker_id == 0)
		tq_error_serialization();
}

/* The strings of a text[]. */
static char **
strings_of(Datum array, int *count)
{
	Datum *values;
	bool  *nulls;
	char **strings;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false,
					  TYPALIGN_INT, &values, &nulls, count);
	strings = palloc(sizeof(char *) * (*count + 1));
	for (int i = 0; i < *count; i++)
		strings[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(values[i]);
	return strings;
}

static Datum
tags_or_empty(const TqTags *tags)
{
	return tags->count > 0 ? tq_arg_tags_datum(tags)
						   : PointerGetDatum(construct_empty_array(TEXTOID));
}

/* The new row's number; 0 when such a row exists already. */
static int32
add_row(const char *name, TqWorkerState state,
		const Registration *registration)
{
	TqSpi spi;
	Datum args[10];
	bool  nulls[10] = {false};
	int32 worker_id = 0;

	args[0] = CStringGetTextDatum(name);
	args[1] = Int32GetDatum(state);
	/* a label belongs to nobody, and a claim waits for nobody */
	args[2] = Int32GetDatum(
		state == TQ_WORKER_LABEL ? 0 : tq_role_intern(GetUserId()));
	args[3] = registration->queues;
	nulls[3] = registration->queues == (Datum) 0;
	args[4] = tags_or_empty(&registration->tags);
	args[5] = JsonbPGetDatum(registration->info);
	nulls[5] = registration->info == NULL;
	args[6] = TimestampTzGetDatum(tq_clock_wall());
	args[7] = Int32GetDatum(registration->max_running);
	nulls[7] = registration->max_running == 0;
	args[8] = Int64GetDatum(registration->bound_instance);
	args[9] = Int64GetDatum(registration->bound_session);
	nulls[8] = nulls[9] = registration->bound_session == 0;
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_add, args, nulls, SPI_OK_INSERT_RETURNING, 0) > 0)
		worker_id = tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);
	return worker_id;
}

/* The same process again: it keeps its tasks.  False when it has ended. */
static bool
keep_row(int32 worker_id, const Registration *registration)
{
	TqSpi spi;
	Datum args[7];
	bool  nulls[7] = {false};
	bool  kept;

	args[0] = Int32GetDatum(worker_id);
	args[1] = registration->queues;
	nulls[1] = registration->queues == (Datum) 0;
	args[2] = tags_or_empty(&registration->tags);
	args[3] = JsonbPGetDatum(registration->info);
	nulls[3] = registration->info == NULL;
	args[4] = Int32GetDatum(registration->max_running);
	nulls[4] = registration->max_running == 0;
	args[5] = Int64GetDatum(registration->bound_instance);
	args[6] = Int64GetDatum(registration->bound_session);
	nulls[5] = nulls[6] = registration->bound_session == 0;
	tq_spi_enter(&spi);
	kept = tq_spi_run(&stmt_keep, args, nulls, SPI_OK_UPDATE, 0) > 0;
	tq_spi_leave(&spi);
	return kept;
}

/* A worker belongs to the role that registered it, and to managers. */
static bool
may_use_name(Oid role)
{
	if (OidIsValid(role) && has_privs_of_role(GetUserId(), role))
		return true;
	return (tq_role_rights_all() & TQ_RIGHT_MANAGE) != 0;
}

static void
require_name(const KnownWorker *worker)
{
	if (may_use_name(worker->role))
		return;
	ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					errmsg("permission denied for this worker's name"),
					errdetail("The worker was registered by another role.")));
}

/* TQ007 unless the worker is registered and not dead. */
static KnownWorker *
require_active(KnownWorker *worker, const char *name)
{
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
