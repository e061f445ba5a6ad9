/*
 * registration.c
 *		Workers: taskq_register, taskq_heartbeat, taskq_drain,
 *		taskq_deregister, taskq_expire.
 *
 * Each registration is a row of taskq.worker with a number of its own, so that
 * tasks that a former process of the same name still holds can be
 * distinguished from those that the new process claims.
 *
 * Names and labels are in worker.c, heartbeats in liveness.c, the binding of a
 * worker to a connection in bound_worker.c, and what a heartbeat returns about
 * tasks that were asked to stop in cancel_request.c.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/role.h"
#include "command/registration.h"
#include "engine/call.h"
#include "engine/cancel_request.h"
#include "engine/change_log.h"
#include "engine/limit.h"
#include "engine/liveness.h"
#include "engine/own_worker.h"
#include "engine/reclaim.h"
#include "engine/worker.h"
#include "query/task_get.h"
#include "shared/counter.h"
#include "shared/heartbeat.h"
#include "shared/reservation.h"
#include "shared/session_end.h"
#include "shared/shmem.h"
#include "store/snapshot.h"
#include "xact/xact.h"

PG_FUNCTION_INFO_V1(taskq_register);
PG_FUNCTION_INFO_V1(taskq_heartbeat);
PG_FUNCTION_INFO_V1(taskq_deregister);
PG_FUNCTION_INFO_V1(taskq_drain);
PG_FUNCTION_INFO_V1(taskq_expire);
PG_FUNCTION_INFO_V1(taskq_worker_seen);

/* The contents of a registration; any of them may be missing. */
typedef struct Registration
{
	Datum  queues; /* text[], 0: null */
	TqTags tags;
	Jsonb *info;
	int    max_running;    /* 0: null */
	int64  bound_instance; /* 0: null */
	int64  bound_session;  /* 0: not bound */
	int64  incarnation;
} Registration;

static TqStmt stmt_add = {
	"INSERT INTO taskq.worker"
	" (name, state, role_id, queues, tags, info, registered_at, max_running,"
	"  bound_instance, bound_session, worker_id, incarnation)"
	" VALUES ($1, " TQ_SQL_WORKER_ACTIVE ", $2, $3, $4, $5, $6, $7, $8, $9,"
	"         $10, $11)"
	" ON CONFLICT DO NOTHING RETURNING worker_id",
	{TEXTOID, INT4OID, TEXTARRAYOID, TEXTARRAYOID, JSONBOID, TIMESTAMPTZOID,
	 INT4OID, INT8OID, INT8OID, INT4OID, INT8OID}};

static TqStmt stmt_keep = {
	"UPDATE taskq.worker SET queues = $2, tags = $3, info = $4,"
	"       max_running = $5, draining = false,"
	"       bound_instance = $6, bound_session = $7"
	" WHERE worker_id = $1 AND state = " TQ_SQL_WORKER_ACTIVE,
	{INT4OID, TEXTARRAYOID, TEXTARRAYOID, JSONBOID, INT4OID, INT8OID,
	 INT8OID}};

static TqStmt stmt_drain = {
	"UPDATE taskq.worker SET draining = true"
	" WHERE worker_id = $1 AND state = " TQ_SQL_WORKER_ACTIVE,
	{INT4OID}};

static TqStmt stmt_others = {
	"SELECT w.worker_id, r.oid"
	"  FROM taskq.worker w LEFT JOIN taskq.known_role r USING (role_id)"
	" WHERE w.state = " TQ_SQL_WORKER_ACTIVE " AND w.worker_id <> $1"
	" ORDER BY w.worker_id",
	{INT4OID}};

static TqStmt stmt_end = {
	"UPDATE taskq.worker SET state = $2::smallint, ended_at = $3"
	" WHERE worker_id = $1 AND state = " TQ_SQL_WORKER_ACTIVE
	" RETURNING queues",
	{INT4OID, INT4OID, TIMESTAMPTZOID}};

/* Unless a transaction is changing the row. */
static TqStmt stmt_end_free = {
	"UPDATE taskq.worker SET state = $2::smallint, ended_at = $3"
	" WHERE worker_id = (SELECT w.worker_id FROM taskq.worker w"
	"                     WHERE w.worker_id = $1"
	"                       AND w.state = " TQ_SQL_WORKER_ACTIVE
	"                       FOR UPDATE SKIP LOCKED)"
	" RETURNING queues",
	{INT4OID, INT4OID, TIMESTAMPTZOID}};

static bool  keep_registration(const TqWorker *former,
							   Registration   *registration);
static int64 new_incarnation(const char *name, TqWorkerState state,
							 const TqWorker *former, bool keep);
static bool  end_registration(int32 worker_id, TqWorkerState how);
static void  bind_session(int64 *instance, int64 *session);
static int32 add_row(const char *name, const Registration *registration);
static bool  keep_row(int32 worker_id, const Registration *registration);
static bool  end_by(TqStmt *stmt, int32 worker_id, TqWorkerState how);
static Datum tags_or_empty(const TqTags *tags);
static void  check_queues(FunctionCallInfo fcinfo, int n);
static void  read_arguments(FunctionCallInfo fcinfo,
							Registration    *registration);

Datum
taskq_register(PG_FUNCTION_ARGS)
{
	char         *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	Registration  registration = {0};
	TqCall        call;
	TqWorker      former;
	TqWorkerState state;
	bool          bound;
	bool          keep;
	int64         argument;
	const int64  *incarnation = tq_arg_int8_if_given(fcinfo, 7, &argument);
	List         *ended = NIL;
	int64         returned;
	int32         worker_id;

	read_arguments(fcinfo, &registration);
	bound = tq_arg_bool(fcinfo, 4, false);
	keep = tq_arg_bool(fcinfo, 6, false);

	tq_call_begin(&call, "taskq_register()");
	/* for tq_worker_count, before any row */
	if (registration.queues != (Datum) 0)
		tq_queue_lock_insertions();
	if (bound)
		bind_session(&registration.bound_instance,
					 &registration.bound_session);
	for (;;)
	{
		state = tq_worker_look(name, false, &former);
		if (state == TQ_WORKER_ACTIVE)
		{
			if (keep)
				tq_worker_require_process(name, former.incarnation,
										  incarnation);
			if (keep && keep_registration(&former, &registration))
			{
				worker_id = former.worker_id;
				break;
			}
			end_registration(former.worker_id, TQ_WORKER_GONE);
			ended = lappend_int(ended, former.worker_id);
		}
		registration.incarnation =
			incarnation != NULL ? *incarnation
								: new_incarnation(name, state, &former, keep);
		worker_id = add_row(name, &registration);
		if (worker_id != 0)
		{
			tq_xact_note(TQ_NOTE_WORKER_MADE, worker_id);
			tq_worker_count(registration.queues, TQ_METRIC_WORKERS_REGISTERED);
			break;
		}
		/*
		 * Another session was faster: its worker is now the former worker of
		 * the name.
		 */
		tq_snapshot_renew();
		tq_catalog_forget();
	}
	/*
	 * If this rolls back, the next heartbeat of the former worker creates an
	 * entry.
	 */
	if (former.worker_id != 0 && former.worker_id != worker_id)
		tq_heartbeat_remove(former.worker_id);
	TQ_DEBUG_POINT("former_ended");
	/*
	 * The tasks of all registrations together: keys and tasks are locked in
	 * one order.
	 */
	returned = tq_reclaim_held_by(&call, ended, false);
	if (!tq_liveness_alive(worker_id))
		ereport(
			ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("too many registered workers"),
			 errhint(
				 "Increase \"taskq.max_workers\" (currently %d) and restart the server.",
				 tq_guc_max_workers)));
	tq_catalog_announce_worker();
	tq_own_worker_add(name, registration.incarnation);
	tq_call_end(&call);
	PG_RETURN_INT64(returned);
}

/* Read and check what the arguments say about the registration. */
static void
read_arguments(FunctionCallInfo fcinfo, Registration *registration)
{
	if (!PG_ARGISNULL(1))
	{
		check_queues(fcinfo, 1);
		registration->queues = PG_GETARG_DATUM(1);
	}
	tq_arg_tags(fcinfo, 2, &registration->tags);
	if (!PG_ARGISNULL(3))
	{
		registration->max_running = PG_GETARG_INT32(3);
		if (registration->max_running < 1)
			tq_error_invalid("max_running", "must be at least 1", NULL);
		tq_shmem_require("max_running");
	}
	if (tq_arg_bool(fcinfo, 4, false))
		tq_shmem_require("bound => true");
	registration->info = tq_arg_jsonb(fcinfo, 5);
	if (registration->info != NULL &&
		VARSIZE(registration->info) > TQ_MAX_SMALL_DOC)
		tq_error_too_large("info", VARSIZE(registration->info),
						   TQ_MAX_SMALL_DOC);
}

/* Register a worker that is bound to this process, for any queue. */
void
tq_registration_bind(const char *name)
{
	LOCAL_FCINFO(inner, 8);

	InitFunctionCallInfoData(*inner, NULL, 8, InvalidOid, NULL, NULL);
	for (int i = 0; i < 8; i++)
		inner->args[i].isnull = true;
	inner->args[0].value = CStringGetTextDatum(name);
	inner->args[4].value = BoolGetDatum(true);
	inner->args[0].isnull = inner->args[4].isnull = false;
	(void) taskq_register(inner);
}

/* End such a registration; it may have ended before. */
void
tq_registration_leave(const char *name, int64 incarnation)
{
	TqCall   call;
	TqWorker worker;

	tq_call_begin(&call, "taskq: an executor");
	if (tq_worker_look(name, true, &worker) == TQ_WORKER_ACTIVE &&
		worker.incarnation == incarnation &&
		end_registration(worker.worker_id, TQ_WORKER_GONE))
	{
		(void) tq_reclaim_held_by(&call, list_make1_int(worker.worker_id),
								  true);
		tq_own_worker_remove(name);
		tq_catalog_announce_worker();
	}
	tq_call_end(&call);
}

/*
 * The same process registers again; returns false if its registration has
 * ended.
 */
static bool
keep_registration(const TqWorker *former, Registration *registration)
{
	if (!keep_row(former->worker_id, registration))
		return false;
	registration->incarnation = former->incarnation;
	/*
	 * before other sessions see the change: max_running may be set or unset
	 */
	if (former->max_running != registration->max_running)
		tq_reservation_invalidate(TQ_OWNER_WORKER, former->worker_id);
	if (former->max_running == 0 && registration->max_running > 0)
		tq_limit_of_worker_is_new(former->worker_id);
	tq_xact_note(TQ_NOTE_WAKE_WORKER, former->worker_id);
	return true;
}

/*
 * Return the incarnation of a process that passes none.  If the same process
 * registers again after it was declared dead, it keeps its number, since its
 * other sessions remember that.  Otherwise draw one of 53 bits, which fits a
 * JSON number.
 */
static int64
new_incarnation(const char *name, TqWorkerState state, const TqWorker *former,
				bool keep)
{
	if (keep && state == TQ_WORKER_DEAD &&
		!tq_own_worker_is_replaced(name, former->incarnation))
		return former->incarnation;
	return (int64) (pg_prng_uint64(&pg_global_prng_state) >> 11);
}

Datum
taskq_heartbeat(PG_FUNCTION_ARGS)
{
	char     *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	TqWorker  worker = {0};
	int64     incarnation;
	Datum     values[5];
	bool      nulls[5] = {false};
	Interval *next;

	tq_worker_registered(name, tq_arg_int8_if_given(fcinfo, 1, &incarnation),
						 &worker);

	next = palloc0(sizeof(Interval));
	next->time = tq_guc_heartbeat_interval();
	values[0] = CStringGetTextDatum("active");
	values[1] = tq_cancel_request_tasks(worker.worker_id);
	values[2] = BoolGetDatum(worker.draining);
	values[3] = IntervalPGetDatum(next);
	values[4] = Int64GetDatum(worker.incarnation);
	return tq_srf_row(fcinfo, values, nulls);
}

Datum
taskq_deregister(PG_FUNCTION_ARGS)
{
	char  *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	TqCall call;
	int32  worker_id;
	int64  incarnation;
	int64  returned;
	char  *reason = tq_arg_message(fcinfo, 2);
	bool   own;

	tq_call_begin(&call, "taskq_deregister()");
	own = !PG_ARGISNULL(1) || tq_own_worker_is(name);
	worker_id =
		tq_worker_active(name, tq_arg_int8_if_given(fcinfo, 1, &incarnation));
	/* it was declared dead, or replaced, at this very moment */
	if (!end_registration(worker_id, TQ_WORKER_GONE))
		tq_error_no_such_worker(name, true);
	returned = tq_reclaim_held_by(&call, list_make1_int(worker_id), true);
	tq_own_worker_remove(name);
	tq_catalog_announce_worker();
	/* a process that ends its own registration is no news */
	if (!own || reason != NULL)
		tq_change_log_add("deregister", NULL, name,
						  psprintf("{\"tasks\": " INT64_FORMAT "}", returned),
						  reason);
	tq_call_end(&call);
	PG_RETURN_INT64(returned);
}

/* The worker gets no further tasks; its heartbeats report that. */
Datum
taskq_drain(PG_FUNCTION_ARGS)
{
	char  *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	TqCall call;
	int64  incarnation;
	Datum  arg;

	tq_call_begin(&call, "taskq_drain()");
	arg = Int32GetDatum(
		tq_worker_active(name, tq_arg_int8_if_given(fcinfo, 1, &incarnation)));
	if (tq_spi_execute(&stmt_drain, &arg, NULL, SPI_OK_UPDATE) == 0)
		tq_error_no_such_worker(name, true);
	tq_catalog_announce_worker();
	tq_xact_note(TQ_NOTE_WAKE_WORKER, DatumGetInt32(arg));
	tq_change_log_add("drain", NULL, name, NULL, tq_arg_message(fcinfo, 2));
	tq_call_end(&call);
	PG_RETURN_VOID();
}

/*
 * Declare all other workers dead that have been silent for this long, as far
 * as current_user may use their names.  The background worker reclaims their
 * tasks immediately.
 */
Datum
taskq_expire(PG_FUNCTION_ARGS)
{
	char          *name = tq_arg_name(fcinfo, 0, "worker", NULL);
	int64          older_than = tq_arg_length(fcinfo, 1, "older_than", 1, 0);
	TqCall         call;
	int32          worker_id;
	int32         *ids;
	Oid           *roles;
	uint64         rows;
	Datum          arg;
	int64          expired = 0;
	TqSpi          spi;
	StringInfoData names;

	if (older_than == 0)
		tq_error_required("older_than");
	initStringInfo(&names);
	appendStringInfoString(&names, "{\"workers\": [");
	tq_call_begin(&call, "taskq_expire()");
	worker_id = tq_worker_active(name, NULL);
	tq_liveness_heartbeat(worker_id);
	arg = Int32GetDatum(worker_id);
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

		/* a worker without a known heartbeat has its full time from now on */
		if (!tq_worker_may_be(roles[i]) ||
			!tq_liveness_silence(ids[i], &silence) || silence < older_than)
			continue;
		if (!end_registration(ids[i], TQ_WORKER_DEAD))
			continue;
		appendStringInfo(&names, "%s%s", expired > 0 ? ", " : "",
						 tq_change_log_word(tq_worker_name(ids[i])));
		expired++;
	}
	if (expired > 0)
	{
		tq_xact_note(TQ_NOTE_ORPHANS, 0);
		appendStringInfoString(&names, "]}");
		tq_change_log_add("expire", NULL, name, names.data,
						  tq_arg_message(fcinfo, 2));
	}
	tq_call_end(&call);
	PG_RETURN_INT64(expired);
}

/*
 * For the view of workers: return when a registered worker was last seen; null
 * if that is unknown, or if current_user may not see the worker.
 */
Datum
taskq_worker_seen(PG_FUNCTION_ARGS)
{
	int64 silence;

	if (PG_ARGISNULL(0) || !tq_task_get_sees_worker(PG_GETARG_INT32(0)) ||
		!tq_liveness_silence(PG_GETARG_INT32(0), &silence))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(tq_clock_wall() - silence);
}

/* End a registration.  Returns false if it had ended before. */
static bool
end_registration(int32 worker_id, TqWorkerState how)
{
	return end_by(&stmt_end, worker_id, how);
}

/*
 * End a registration for a duty, which does not wait for other transactions:
 * also returns false if a transaction is changing the registration.
 */
bool
tq_registration_end_if_free(int32 worker_id, TqWorkerState how)
{
	return end_by(&stmt_end_free, worker_id, how);
}

static bool
end_by(TqStmt *stmt, int32 worker_id, TqWorkerState how)
{
	Datum args[3];
	Datum queues;

	args[0] = Int32GetDatum(worker_id);
	args[1] = Int32GetDatum(how);
	args[2] = TimestampTzGetDatum(tq_clock_wall());
	if (!tq_worker_end_row(stmt, args, &queues))
		return false;
	tq_xact_note(TQ_NOTE_WORKER_GONE, worker_id);
	if (how == TQ_WORKER_DEAD)
		tq_worker_count(queues, TQ_METRIC_WORKERS_DIED);
	tq_catalog_announce_worker();
	return true;
}

static Datum
tags_or_empty(const TqTags *tags)
{
	return tags->count > 0 ? tq_arg_tags_datum(tags)
						   : PointerGetDatum(construct_empty_array(TEXTOID));
}

/* Returns the number of the new row; 0 if such a row exists already. */
static int32
add_row(const char *name, const Registration *registration)
{
	TqSpi spi;
	Datum args[11];
	bool  nulls[11] = {false};
	int32 worker_id = 0;

	args[0] = CStringGetTextDatum(name);
	args[1] = Int32GetDatum(tq_role_intern(GetUserId()));
	args[2] = registration->queues;
	nulls[2] = registration->queues == (Datum) 0;
	args[3] = tags_or_empty(&registration->tags);
	args[4] = JsonbPGetDatum(registration->info);
	nulls[4] = registration->info == NULL;
	args[5] = TimestampTzGetDatum(tq_clock_wall());
	args[6] = Int32GetDatum(registration->max_running);
	nulls[6] = registration->max_running == 0;
	args[7] = Int64GetDatum(registration->bound_instance);
	args[8] = Int64GetDatum(registration->bound_session);
	nulls[7] = nulls[8] = registration->bound_session == 0;
	args[9] = Int32GetDatum(tq_worker_draw_number());
	args[10] = Int64GetDatum(registration->incarnation);
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_add, args, nulls, SPI_OK_INSERT_RETURNING, 0) > 0)
		worker_id = tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);
	return worker_id;
}

/*
 * The same process registers again and keeps its tasks.  Returns false if its
 * registration has ended.
 */
static bool
keep_row(int32 worker_id, const Registration *registration)
{
	Datum args[7];
	bool  nulls[7] = {false};

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
	return tq_spi_execute(&stmt_keep, args, nulls, SPI_OK_UPDATE) > 0;
}

static void
check_queues(FunctionCallInfo fcinfo, int n)
{
	int    count;
	Datum *names = tq_arg_array(fcinfo, n, "queues", TEXTOID, &count);

	if (count > 10000)
		tq_error_too_large("list of queues", count, 10000);
	(void) tq_arg_words(names, count, "queues", "queue", TQ_MAX_NAME);
}

/*
 * The registered worker is bound to this session: get the values for its row.
 * The library must be preloaded.
 */
static void
bind_session(int64 *instance, int64 *session)
{
	*session = tq_session_end_session();
	*instance = tq_session_end_instance();
	tq_xact_note(TQ_NOTE_BOUND, 0);
}
