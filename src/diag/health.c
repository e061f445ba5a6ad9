/*
 * health.c
 *		taskq_health(): is this database's task queue well?
 *
 * A list of checks, each of which gives one row, always: well or not, and a
 * detail in plain words.  A check that ends with an error is not well, and
 * the others are not touched by that: each runs in a savepoint of its own.
 *
 * Everything is read only, and cheap enough for a probe that comes every few
 * seconds: no check reads taskq.task from end to end while all is well and
 * the library preloaded.  So it works on a standby, in a copy that nobody
 * has activated, and without preloading; checks then say what does not
 * apply.
 *
 * Here are the checks of processes and of memory; health_queue.c has those
 * of duties and queues, health_server.c those of the server.
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
#include "diag/health_queue.h"
#include "diag/health_report.h"
#include "diag/health_server.h"
#include "shared/counter.h"
#include "shared/heartbeat.h"
#include "shared/running.h"
#include "shared/shmem.h"
#include "shared/waiter.h"
#include "shared/worker_directory.h"

/* The background worker takes a turn every minute at least. */
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

/* In the order of the rows.  Names are never used for anything else. */
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
			  {"process_slots", check_process_slots},
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

/* One check; an error of it is its result. */
static void
look(TqHealth *health, Check check)
{
	Look       what = {health, check};
	ErrorData *error = tq_subxact_run(look_at, &what);

	if (error == NULL)
		return;
	/* somebody wants this call to end */
	if (ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
			ERRCODE_OPERATOR_INTERVENTION ||
		ERRCODE_TO_CATEGORY(error->sqlerrcode) ==
			ERRCODE_INSUFFICIENT_RESOURCES)
		ReThrowError(error);
	tq_health_fail(health, "This could not be looked at: %s (%s).",
				   error->message, unpack_sql_state(error->sqlerrcode));
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
		tq_health_say(health, "The library is preloaded.");
	else
		tq_health_fail(
			health,
			"The library is not preloaded: nothing happens by itself, and there are no limits. Add taskq to shared_preload_libraries and restart the server.");
}

static void
check_activated(TqHealth *health)
{
	if (health->copy)
		tq_health_fail(
			health,
			"This database is a restored or copied one that nobody has activated: nothing happens by itself in it. When it is to serve, run SELECT taskq_activate().");
	else
		tq_health_say(health, "This database may run its duties.");
}

/* Is there a background worker, and does it take its turns? */
static void
check_worker(TqHealth *health)
{
	TqWorkerView view;

	if (health->standby)
	{
		tq_health_say(
			health,
			"This server is a standby: its background worker comes with the promotion.");
		return;
	}
	(void) tq_worker_directory_look(MyDatabaseId, &view);
	if (view.pid != 0 && health->now - view.turn_at <= TURN_LATE)
		tq_health_say(health,
					  "Process %d is there; its last turn began %s ago.",
					  view.pid, tq_health_span(health->now - view.turn_at));
	else if (view.pid != 0)
		tq_health_fail(
			health,
			"Process %d is there, but %s %s ago, and turns should come every minute. See what it waits for in pg_stat_activity, and the server's log.",
			view.pid,
			view.working ? "has been at one turn since"
						 : "its last turn began",
			tq_health_span(health->now - view.turn_at));
	else if (!tq_shmem_ready())
		tq_health_fail(
			health,
			"There is none, because the library is not preloaded. Leases, deadlines and retention wait for somebody to call taskq_run_reapers().");
	else if (health->copy)
		tq_health_fail(health,
					   "There is none until this database is activated.");
	else if (view.keep_out > 0)
		tq_health_fail(
			health,
			"There is none while a command on this database or on the extension is at work.");
	else
		tq_health_fail(
			health,
			"There is none: leases do not end, deadlines and retention are not looked after. See the checks launcher, process_slots and databases, and the server's log.");
}

static void
check_launcher(TqHealth *health)
{
	if (health->standby)
		tq_health_say(
			health,
			"This server is a standby: the launcher comes with the promotion.");
	else if (tq_worker_directory_has_launcher())
		tq_health_say(health,
					  "It is there, to start a worker in each database.");
	else if (!tq_shmem_ready())
		tq_health_fail(health,
					   "There is none, because the library is not preloaded.");
	else
		tq_health_fail(
			health,
			"There is none, so a background worker that ends is not started again. The server starts the launcher within seconds if max_worker_processes (now %d) allows it.",
			max_worker_processes);
}

/* Slots for background processes, which all extensions share. */
static void
check_process_slots(TqHealth *health)
{
	if (tq_worker_directory_lacks_slot())
		tq_health_fail(
			health,
			"No background worker slot was free for some database: increase max_worker_processes, now %d.",
			max_worker_processes);
	else
		tq_health_say(
			health,
			"No database waits for a slot of max_worker_processes, %d.",
			max_worker_processes);
}

static void
check_databases(TqHealth *health)
{
	if (tq_worker_directory_lacks_room())
		tq_health_fail(
			health,
			"More databases have the extension than may have a background worker: increase taskq.max_databases, now %d.",
			tq_guc_max_databases);
	else
		tq_health_say(health, "%d of taskq.max_databases, %d, have a worker.",
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
		"claims and submits under limits are refused (53400), and numbers of queues are counted by reading tables");
}

static void
check_running_tasks(TqHealth *health)
{
	room(
		health, "taskq.max_running_tracked", tq_running_count_all(),
		tq_guc_max_running_tracked,
		"the ends of leases are found by reading taskq.task from end to end, again and again");
}

/*
 * Every session has a place to wait, so none is turned away; but those that
 * wait may leave no connection to those that bring tasks.
 */
static void
check_waiting(TqHealth *health)
{
	int waiting = tq_waiter_count_all();
	int most = MaxConnections - reserved_connections();

	if (!tq_shmem_ready())
		tq_health_say(
			health,
			"Without preloading sessions that wait look once a second, and are not counted.");
	else if (waiting * 10 > most * 9)
		tq_health_fail(
			health,
			"%d sessions wait in the server, which has %d connections (max_connections without those that are reserved): soon nobody else can connect. Let fewer sessions wait, or increase max_connections and restart the server.",
			waiting, most);
	else
		tq_health_say(
			health,
			"%d sessions wait in the server, which has %d connections.",
			waiting, most);
}

/* Not every server version has them all. */
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

/* Of what memory has room for, nine tenths may be in use. */
static void
room(TqHealth *health, const char *setting, int used, int max,
	 const char *consequence)
{
	if (!tq_shmem_ready())
		tq_health_say(health, "Without preloading there is no such memory.");
	else if ((int64) used * 10 > (int64) max * 9)
		tq_health_fail(
			health,
			"%d of %s, %d, are in use. When it is full, %s. Increase it and restart the server.",
			used, setting, max, consequence);
	else
		tq_health_say(health, "%d of %s, %d, are in use.", used, setting, max);
}
