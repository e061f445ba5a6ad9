/*
 * health.c
 *		taskq_health(): is this database's task queue healthy?
 *
 * Each check always returns one row: whether it passed, and a description for
 * operators.  A check that raises an error has failed; since each check runs
 * in a savepoint of its own, the others are not affected.
 *
 * All checks are read-only, and cheap enough for a probe that runs every few
 * seconds: no check scans all of taskq.task as long as there is no problem and
 * the library is preloaded. taskq_health() therefore also works on a standby,
 * in a copy that has not been activated, and without preloading; a check that
 * does not apply there says so in its detail.
 *
 * This file has the checks of processes and of memory, health_queue.c those of
 * duties and queues, health_operation.c those of operations,
 * health_schedule.c those of schedules, and health_server.c those of the
 * server.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "base/clock.h"
#include "base/guc.h"
#include "base/srf.h"
#include "base/subxact.h"
#include "cache/activation.h"
#include "cache/role.h"
#include "diag/health_operation.h"
#include "diag/health_queue.h"
#include "diag/health_report.h"
#include "diag/health_schedule.h"
#include "diag/health_server.h"
#include "shared/counter.h"
#include "shared/executor_slot.h"
#include "shared/heartbeat.h"
#include "shared/running.h"
#include "shared/shmem.h"
#include "shared/waiter.h"
#include "shared/worker_directory.h"

/* The background worker starts a turn at least every minute. */
#define TURN_LATE (INT64CONST(3) * USECS_PER_MINUTE)

typedef void (*Check)(TqHealth *health);

typedef struct Look
{
	TqHealth *health;
	Check     check;
} Look;

PG_FUNCTION_INFO_V1(taskq_health);

static void check_preloaded(TqHealth *health);
static void check_activated(TqHealth *health);
static void check_worker(TqHealth *health);
static void check_launcher(TqHealth *health);
static void check_process_slots(TqHealth *health);
static void check_executors(TqHealth *health);
static void check_databases(TqHealth *health);
static void check_worker_slots(TqHealth *health);
static void check_counters(TqHealth *health);
static void check_running_tasks(TqHealth *health);
static void check_waiting(TqHealth *health);
static int  reserved_connections(void);
static void look(TqHealth *health, Check check);
static void look_at(void *arg);
static void room(TqHealth *health, const char *setting, int used, int max,
				 const char *consequence);

/* The checks in the order of their rows. */
static const struct
{
	const char *name;
	Check       check;
} checks[] = {{"preloaded", check_preloaded},
			  {"activated", check_activated},
			  {"background_worker", check_worker},
			  {"launcher", check_launcher},
			  {"leases", tq_health_leases},
			  {"deadlines", tq_health_deadlines},
			  {"retention", tq_health_retention},
			  {"silent_workers", tq_health_silent_workers},
			  {"claims", tq_health_claims},
			  {"paused", tq_health_paused},
			  {"schedules", tq_health_schedules},
			  {"cron_jobs", tq_health_cron_jobs},
			  {"operations", tq_health_operations},
			  {"process_slots", check_process_slots},
			  {"executors", check_executors},
			  {"databases", check_databases},
			  {"worker_slots", check_worker_slots},
			  {"counters", check_counters},
			  {"running_tasks", check_running_tasks},
			  {"waiting", check_waiting},
			  {"snapshots", tq_health_snapshots},
			  {"prepared_transactions", tq_health_prepared},
			  {"replication_slots", tq_health_replication},
			  {"vacuum", tq_health_vacuum},
			  {"transaction_ids", tq_health_transaction_ids},
			  {"settings", tq_health_settings},
			  {"table_additions", tq_health_additions}};

Datum
taskq_health(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	tq_srf_begin(fcinfo);
	if (!tq_role_is_monitor())
		tq_role_require_all(TQ_RIGHT_MANAGE);
	for (int i = 0; i < lengthof(checks); i++)
	{
		TqHealth health = {0};
		Datum    values[3];
		bool     nulls[3] = {false, false, false};

		CHECK_FOR_INTERRUPTS();
		initStringInfo(&health.detail);
		look(&health, checks[i].check);
		values[0] = CStringGetTextDatum(checks[i].name);
		values[1] = BoolGetDatum(health.ok);
		values[2] = CStringGetTextDatum(health.detail.data);
		tq_srf_add(result, values, nulls);
	}
	return (Datum) 0;
}

/* Run one check; an error is its result. */
static void
look(TqHealth *health, Check check)
{
	Look       what = {health, check};
	ErrorData *error = tq_subxact_run(look_at, &what);

	if (error == NULL)
		return;
	/* the call is to be cancelled, or the server is out of resources */
	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
			ERRCODE_OPERATOR_INTERVENTION ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
			ERRCODE_INSUFFICIENT_RESOURCES)
		ReThrowError(error);
	tq_health_fail(health, "This check failed: %s (%s).", error->message,
				   unpack_sql_state(error->sqlerrcode));
}

static void
look_at(void *arg)
{
	Look     *what = arg;
	TqHealth *health = what->health;

	health->ok = true;
	health->standby = RecoveryInProgress();
	health->wall = tq_clock_wall();
	health->now = tq_clock_dispatch();
	health->copy = !tq_activation_allows_duties();
	what->check(health);
}

static void
check_preloaded(TqHealth *health)
{
	if (tq_shmem_ready())
		tq_health_say(health, "taskq is loaded via shared_preload_libraries.");
	else
		tq_health_fail(
			health,
			"taskq is not loaded via shared_preload_libraries, so there is no background processing, and limits cannot be used. Add taskq to shared_preload_libraries and restart the server.");
}

static void
check_activated(TqHealth *health)
{
	if (health->copy)
		tq_health_fail(
			health,
			"This database was restored or copied and has not been activated, so background processing is off. To put it into service, run SELECT taskq_activate().");
	else
		tq_health_say(health,
					  "Background processing is enabled in this database.");
}

/* Is a background worker running, and does it start its turns? */
static void
check_worker(TqHealth *health)
{
	TqWorkerView view;

	if (health->standby)
	{
		tq_health_say(
			health,
			"This server is a standby; the background worker starts after promotion.");
		return;
	}
	(void) tq_worker_directory_look(MyDatabaseId, &view);
	if (view.pid != 0 && health->now - view.turn_at <= TURN_LATE)
		tq_health_say(health,
					  "Process %d is running; its last turn began %s ago.",
					  view.pid, tq_health_span(health->now - view.turn_at));
	else if (view.pid != 0)
		tq_health_fail(
			health,
			"Process %d is running, but %s %s ago, although a turn should begin every minute. Check in pg_stat_activity what it waits for, and see the server log.",
			view.pid,
			view.working ? "its current turn began" : "its last turn began",
			tq_health_span(health->now - view.turn_at));
	else if (!tq_shmem_ready())
		tq_health_fail(
			health,
			"No background worker is running because taskq is not loaded via shared_preload_libraries: expired leases, deadlines and retention are only processed when taskq_run_reapers() is called.");
	else if (health->copy)
		tq_health_fail(
			health,
			"No background worker runs until this database is activated.");
	else if (view.keep_out > 0)
		tq_health_fail(
			health,
			"No background worker runs while a command on this database or on the extension is in progress.");
	else
		tq_health_fail(
			health,
			"No background worker is running: expired leases, deadlines and retention are not processed. See the checks launcher, process_slots and databases, and the server log.");
}

static void
check_launcher(TqHealth *health)
{
	if (health->standby)
		tq_health_say(
			health,
			"This server is a standby; the launcher starts after promotion.");
	else if (tq_worker_directory_has_launcher())
		tq_health_say(health, "The launcher is running.");
	else if (!tq_shmem_ready())
		tq_health_fail(
			health,
			"The launcher is not running because taskq is not loaded via shared_preload_libraries.");
	else
		tq_health_fail(
			health,
			"The launcher is not running, so a background worker that ends is not restarted. The server starts the launcher within seconds if \"max_worker_processes\" (currently %d) allows it.",
			max_worker_processes);
}

/* Slots for background processes, which all extensions share. */
static void
check_process_slots(TqHealth *health)
{
	if (tq_worker_directory_lacks_slot())
		tq_health_fail(
			health,
			"No background worker slot was free for at least one database. Increase \"max_worker_processes\" (currently %d) and restart the server.",
			max_worker_processes);
	else
		tq_health_say(
			health,
			"No database is waiting for a slot of \"max_worker_processes\" (%d).",
			max_worker_processes);
}

/* Processes that run SQL tasks, in all databases. */
static void
check_executors(TqHealth *health)
{
	int         count;
	int         used = 0;
	TqExecutor *executors = tq_executor_slot_list(&count);

	for (int i = 0; i < count; i++)
		used += executors[i].state != TQ_EXECUTOR_NONE;
	if (tq_executor_slot_lacks())
		tq_health_fail(
			health,
			"No background worker slot was free for an executor of SQL tasks. Increase \"max_worker_processes\" (currently %d) and restart the server.",
			max_worker_processes);
	else
		tq_health_say(
			health,
			"%d of \"taskq.max_executors\" (%d) run or wait for SQL tasks.",
			used, tq_guc_max_executors);
}

static void
check_databases(TqHealth *health)
{
	if (tq_worker_directory_lacks_room())
		tq_health_fail(
			health,
			"More databases use taskq than can have a background worker. Increase \"taskq.max_databases\" (currently %d) and restart the server.",
			tq_guc_max_databases);
	else
		tq_health_say(
			health,
			"%d of \"taskq.max_databases\" (%d) have a background worker.",
			tq_worker_directory_places(), tq_guc_max_databases);
}

static void
check_worker_slots(TqHealth *health)
{
	room(health, "taskq.max_workers", tq_heartbeat_count(), tq_guc_max_workers,
		 "further workers cannot register (53400)");
}

static void
check_counters(TqHealth *health)
{
	room(
		health, "taskq.max_counters", tq_counter_room(), tq_guc_max_counters,
		"claims and submits under limits are refused (53400), and the live tasks of a queue are counted by reading tables");
}

static void
check_running_tasks(TqHealth *health)
{
	room(health, "taskq.max_running_tracked", tq_running_count_all(),
		 tq_guc_max_running_tracked,
		 "expired leases are found by repeated scans of taskq.task");
}

/*
 * Every session can wait, since each has its place; but waiting sessions may
 * leave no connection for producers.
 */
static void
check_waiting(TqHealth *health)
{
	int waiting = tq_waiter_count_all();
	int most = MaxConnections - reserved_connections();

	if (!tq_shmem_ready())
		tq_health_say(
			health,
			"Without shared_preload_libraries, waiting sessions poll once a second and are not counted.");
	else if (waiting * 10 > most * 9)
		tq_health_fail(
			health,
			"%d sessions wait in the server, which has %d connections (max_connections without reserved connections): other clients will soon be unable to connect. Let fewer sessions wait, or increase \"max_connections\" and restart the server.",
			waiting, most);
	else
		tq_health_say(
			health,
			"%d sessions wait in the server, which has %d connections.",
			waiting, most);
}

/* Some server versions lack some of these settings. */
static int
reserved_connections(void)
{
	static const char *const settings[] = {"superuser_reserved_connections",
										   "reserved_connections"};
	int                      reserved = 0;

	for (int i = 0; i < lengthof(settings); i++)
	{
		const char *value = GetConfigOption(settings[i], true, false);

		if (value != NULL)
			reserved += atoi(value);
	}
	return reserved;
}

/* Warn if more than nine tenths of the entries in memory are in use. */
static void
room(TqHealth *health, const char *setting, int used, int max,
	 const char *consequence)
{
	if (!tq_shmem_ready())
		tq_health_say(
			health,
			"Without shared_preload_libraries there is no such memory.");
	else if ((int64) used * 10 > (int64) max * 9)
		tq_health_fail(
			health,
			"%d of \"%s\" (%d) are in use. When all are in use, %s. Increase the setting and restart the server.",
			used, setting, max, consequence);
	else
		tq_health_say(health, "%d of \"%s\" (%d) are in use.", used, setting,
					  max);
}
