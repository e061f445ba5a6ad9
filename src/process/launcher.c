/*
 * launcher.c
 *		The process that starts the background workers of the databases.
 *
 * Each server that preloads the library has one launcher.  It starts when
 * recovery has ended, hence after the promotion of a standby, and visits every
 * database once: it starts a worker there, which stays if it finds the
 * extension.  After that the worker directory (shared/worker_directory.c)
 * tells it what to do, and it sleeps until it is woken:
 *
 * - a session asks for a visit to a database (CREATE EXTENSION and others);
 * - a worker has exited.  A worker that was not wanted is forgotten.  A worker
 *   that was kept out is started again when the last such command has ended.
 *   Any other worker is started again after a pause of 1, 2, 4, 8, 15 seconds;
 * - a process that it started has exited and its slot is free (SIGUSR1 by the
 *	 postmaster).
 *
 * If no background worker slot is free, it logs that once and tries again
 * every ten seconds, and whenever one of its own processes exits.
 *
 * Requests that arrive during a round are kept in flags beside its latch,
 * since waiting for a lock or a page may reset the latch: it does not sleep
 * while a flag is set.
 *
 * All its times are of the monotonic clock, so a step of the wall clock has no
 * effect.
 *
 * It keeps no state that cannot be recovered: a new launcher takes over the
 * workers of the previous one, which may have ended by SIGTERM.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <signal.h>

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "datatype/timestamp.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/procsignal.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/clock.h"
#include "base/guc.h"
#include "process/bgw.h"
#include "process/launcher.h"
#include "shared/shmem.h"
#include "shared/worker_directory.h"

#define RESTART_SECONDS 5         /* of the launcher */
#define SLEEP_CEILING (60 * 1000) /* ms */
#define SLOT_RETRY (10 * 1000)    /* ms */
#define PAUSE_CEILING 15          /* s, before a worker is restarted */
#define PAUSE_FORGOTTEN 60        /* s, after which failures are forgotten */
#define MAX_VISITS 3              /* concurrent processes that only visit */

/* A database that may have a worker. */
typedef struct Database
{
	Oid  oid;
	char name[NAMEDATALEN];
} Database;

/*
 * State of a database that the worker directory does not have.
 */
typedef struct Watch
{
	Oid                     dboid;
	BackgroundWorkerHandle *handle;     /* until its slot is free */
	bool                    end_known;  /* has its exit been handled? */
	int64                   started_at; /* monotonic clock */
	int                     failures;   /* in succession */
	int64 not_before; /* monotonic clock: earliest next start */
} Watch;

/* Allocated in launcher_context. */
static MemoryContext launcher_context;
static List         *watches = NIL;  /* of Watch */
static List         *to_visit = NIL; /* of Oid */

/* Set by SIGUSR1: a process may have exited since the round began. */
static volatile sig_atomic_t signalled = false;

static int64 slot_retry_at = 0;  /* monotonic clock */
static bool  lacks_slot = false; /* has this been logged? */

static void            handle_signal(SIGNAL_ARGS);
static void            at_exit(int code, Datum arg);
static void            add_context(void *arg);
static void            warn_of_thresholds(void);
static void            take_round(void *arg);
static void            notice_ends(void);
static void            note_end(Watch *watch, TqWorkerEnd end);
static void            choose_visits(void);
static void            start_wanted(int64 *next);
static bool            start_worker(const Database *database, Watch *watch);
static List           *read_databases(void);
static const Database *find_database(List *databases, Oid oid);
static Watch          *find_watch(Oid dboid);
static Watch          *make_watch(Oid dboid);
static void            drop_idle_watches(void);

/* Called while the library is preloaded. */
void
tq_launcher_init(void)
{
	BackgroundWorker worker = {0};

	if (IsBinaryUpgrade)
		return;
	snprintf(worker.bgw_name, BGW_MAXLEN, "taskq launcher");
	snprintf(worker.bgw_type, BGW_MAXLEN, "taskq launcher");
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "taskq");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "tq_launcher_main");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
					   BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = RESTART_SECONDS;
	RegisterBackgroundWorker(&worker);
}

/*
 * Entry point of the launcher.
 */
void
tq_launcher_main(Datum arg)
{
	MemoryContext        round_context;
	ErrorContextCallback context;

	context.callback = add_context;
	context.arg = NULL;
	context.previous = error_context_stack;
	error_context_stack = &context;
	tq_bgw_signals();
	pqsignal(SIGUSR1, handle_signal);
	before_shmem_exit(at_exit, (Datum) 0);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	SetConfigOption("application_name", "taskq launcher", PGC_SUSET,
					PGC_S_OVERRIDE);
	launcher_context = AllocSetContextCreate(
		TopMemoryContext, "taskq launcher", ALLOCSET_DEFAULT_SIZES);
	round_context = AllocSetContextCreate(
		TopMemoryContext, "taskq launcher round", ALLOCSET_DEFAULT_SIZES);
	tq_worker_directory_set_lacks_slot(false);
	tq_worker_directory_launcher_attach();

	while (!tq_bgw_stopping())
	{
		int64 next = PG_INT64_MAX;
		int64 ms = SLEEP_CEILING;

		tq_bgw_reload();
		signalled = false;
		tq_worker_directory_round_begin();
		MemoryContextSwitchTo(round_context);
		warn_of_thresholds();
		if (!tq_bgw_try(take_round, &next))
		{
			next = tq_clock_monotonic() + SLOT_RETRY * INT64CONST(1000);

			/* requests accepted by the round must not be lost */
			tq_worker_directory_launcher_attach();
		}
		MemoryContextReset(round_context);
		if (next != PG_INT64_MAX)
			ms = Min(ms, (next - tq_clock_monotonic() + 999) / 1000);
		if (!tq_bgw_stopping() && !signalled &&
			!tq_worker_directory_told_launcher())
			tq_bgw_sleep(ms);
	}

	/* not 0: the postmaster would not start it again */
	proc_exit(1);
}

/*
 * SIGUSR1: the postmaster reports the exit of a process, among others.  The
 * latch alone is not enough: a wait for a lock in a round resets it.
 */
static void
handle_signal(SIGNAL_ARGS)
{
	signalled = true;
	procsignal_sigusr1_handler(postgres_signal_arg);
}

static void
at_exit(int code, Datum arg)
{
	tq_worker_directory_launcher_detach();
}

static void
add_context(void *arg)
{
	errcontext("taskq launcher");
}

/* Warn once for each change of the settings, for the whole server. */
static void
warn_of_thresholds(void)
{
	static double stale = 0;
	static double dead = 0;
	const char   *problem;

	if (stale == tq_guc_stale_threshold && dead == tq_guc_dead_threshold)
		return;
	stale = tq_guc_stale_threshold;
	dead = tq_guc_dead_threshold;
	problem = tq_guc_threshold_problem();
	if (problem != NULL)
		ereport(WARNING, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						  errmsg("%s", problem)));
}

/*
 * One round over the worker directory; sets the latest time of the next one.
 */
static void
take_round(void *arg)
{
	int64 *next = arg;

	pgstat_report_activity(STATE_RUNNING, "taskq: checking workers");
	notice_ends();
	choose_visits();
	start_wanted(next);
	drop_idle_watches();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* Handle the exit of workers. */
static void
notice_ends(void)
{
	int           count;
	TqWorkerItem *items = tq_worker_directory_list(&count);
	ListCell     *cell;

	for (int i = 0; i < count; i++)
		if (items[i].end != TQ_WORKER_END_NONE)
			note_end(make_watch(items[i].dboid),
					 tq_worker_directory_take_end(items[i].dboid));

	foreach (cell, watches)
	{
		Watch          *watch = lfirst(cell);
		BgwHandleStatus status;
		pid_t           pid;

		if (watch->handle == NULL)
			continue;
		status = GetBackgroundWorkerPid(watch->handle, &pid);
		if (status == BGWH_POSTMASTER_DIED)
			proc_exit(1);
		if (status != BGWH_STOPPED)
			continue;
		note_end(watch, tq_worker_directory_take_end(watch->dboid));
		if (!watch->end_known)
		{
			/* it never attached itself, or was kept out */
			note_end(watch, TQ_WORKER_END_FAILED);
		}
		pfree(watch->handle);
		watch->handle = NULL;
		slot_retry_at = 0;
	}
}

static void
note_end(Watch *watch, TqWorkerEnd end)
{
	int64 now = tq_clock_monotonic();

	if (end == TQ_WORKER_END_NONE)
		return;
	watch->end_known = true;
	if (end != TQ_WORKER_END_FAILED)
	{
		watch->failures = 0;
		watch->not_before = 0;
		return;
	}
	if (now - watch->started_at > PAUSE_FORGOTTEN * USECS_PER_SEC)
		watch->failures = 0;
	watch->not_before = now + Min(1 << watch->failures, PAUSE_CEILING) *
								  USECS_PER_SEC;
	watch->failures = Min(watch->failures + 1, 10);
}

/* If every database needs a visit, choose a few at a time. */
static void
choose_visits(void)
{
	TqWorkerItem *items;
	int           count;
	int           visits = 0;

	if (tq_worker_directory_take_rescan())
	{
		List         *databases = read_databases();
		MemoryContext before = MemoryContextSwitchTo(launcher_context);
		ListCell     *cell;

		list_free(to_visit);
		to_visit = NIL;
		foreach (cell, databases)
			to_visit = lappend_oid(to_visit, ((Database *) lfirst(cell))->oid);
		MemoryContextSwitchTo(before);
	}
	if (to_visit == NIL)
		return;

	items = tq_worker_directory_list(&count);
	for (int i = 0; i < count; i++)
		if (!items[i].established)
			visits++;
	while (to_visit != NIL && visits < MAX_VISITS)
	{
		tq_worker_directory_visit(linitial_oid(to_visit));
		to_visit = list_delete_first(to_visit);
		visits++;
	}
}

/*
 * Start workers that are wanted and not running.
 */
static void
start_wanted(int64 *next)
{
	int           count;
	TqWorkerItem *items = tq_worker_directory_list(&count);
	int64         now = tq_clock_monotonic();
	List         *databases = NIL;
	bool          databases_read = false;
	bool          waiting = false; /* does a database wait for a slot? */
	int           visits = 0;

	for (int i = 0; i < count; i++)
	{
		Watch *watch = find_watch(items[i].dboid);

		if (!items[i].established && watch != NULL && watch->handle != NULL)
			visits++;
	}

	for (int i = 0; i < count; i++)
	{
		TqWorkerItem   *item = &items[i];
		const Database *database;
		Watch          *watch;

		if (item->pid != 0 || item->keep_out > 0 ||
			!(item->established || item->asked))
			continue;
		watch = make_watch(item->dboid);
		if (watch->handle != NULL ||
			(!item->established && visits >= MAX_VISITS))
			continue; /* its exit wakes the launcher */
		if (watch->not_before > now || slot_retry_at > now)
		{
			*next = Min(*next, Max(watch->not_before, slot_retry_at));
			waiting = waiting || slot_retry_at > now;
			continue;
		}
		if (!databases_read)
		{
			databases = read_databases();
			databases_read = true;
		}
		database = find_database(databases, item->dboid);
		if (database == NULL)
		{
			tq_shmem_forget_database(item->dboid);
			tq_worker_directory_forget(item->dboid, item->ask_count);
		}
		else if (!start_worker(database, watch))
		{
			*next = Min(*next, slot_retry_at);
			waiting = true;
		}
		else if (!item->established)
			visits++;
	}
	if (!waiting && lacks_slot)
	{
		lacks_slot = false;
		tq_worker_directory_set_lacks_slot(false);
	}
}

/* Returns false if no slot is free. */
static bool
start_worker(const Database *database, Watch *watch)
{
	BackgroundWorker        worker = {0};
	BackgroundWorkerHandle *handle;
	MemoryContext           before;
	bool                    started;

	snprintf(worker.bgw_name, BGW_MAXLEN, "taskq worker of database %s",
			 database->name);
	snprintf(worker.bgw_type, BGW_MAXLEN, "taskq worker");
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "taskq");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "tq_bgw_worker_main");
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
					   BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(database->oid);
	worker.bgw_notify_pid = MyProcPid;

	before = MemoryContextSwitchTo(launcher_context);
	started = RegisterDynamicBackgroundWorker(&worker, &handle);
	MemoryContextSwitchTo(before);

	if (started)
	{
		watch->handle = handle;
		watch->end_known = false;
		watch->started_at = tq_clock_monotonic();
	}
	else
	{
		slot_retry_at = tq_clock_monotonic() + SLOT_RETRY * INT64CONST(1000);
		if (!lacks_slot)
			ereport(
				LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg(
					 "taskq: could not start background worker for database \"%s\": no free slot",
					 database->name),
				 errdetail(
					 "Clients can still submit and claim, but expired leases, deadlines and retention are not processed."),
				 errhint(
					 "Increase \"max_worker_processes\" and restart the server.")));
		lacks_slot = true;
		tq_worker_directory_set_lacks_slot(true);
	}
	return started;
}

/* The databases that may have a worker, in the current memory context. */
static List *
read_databases(void)
{
	MemoryContext context = CurrentMemoryContext;
	List         *databases = NIL;
	Relation      rel;
	TableScanDesc scan;
	HeapTuple     tuple;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		Database        *database;
		MemoryContext    before;

		if (!form->datallowconn || form->datistemplate ||
			form->datconnlimit == DATCONNLIMIT_INVALID_DB)
			continue;
		before = MemoryContextSwitchTo(context);
		database = palloc(sizeof(Database));
		database->oid = form->oid;
		strlcpy(database->name, NameStr(form->datname), NAMEDATALEN);
		databases = lappend(databases, database);
		MemoryContextSwitchTo(before);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return databases;
}

static const Database *
find_database(List *databases, Oid oid)
{
	ListCell *cell;

	foreach (cell, databases)
	{
		const Database *database = lfirst(cell);

		if (database->oid == oid)
			return database;
	}
	return NULL;
}

static Watch *
find_watch(Oid dboid)
{
	ListCell *cell;

	foreach (cell, watches)
	{
		Watch *watch = lfirst(cell);

		if (watch->dboid == dboid)
			return watch;
	}
	return NULL;
}

static Watch *
make_watch(Oid dboid)
{
	Watch        *watch = find_watch(dboid);
	MemoryContext before;

	if (watch != NULL)
		return watch;
	before = MemoryContextSwitchTo(launcher_context);
	watch = palloc0(sizeof(Watch));
	watch->dboid = dboid;
	watches = lappend(watches, watch);
	MemoryContextSwitchTo(before);
	return watch;
}

/* Remove databases that are no longer in the worker directory. */
static void
drop_idle_watches(void)
{
	int           count;
	TqWorkerItem *items = tq_worker_directory_list(&count);
	ListCell     *cell;

	foreach (cell, watches)
	{
		Watch *watch = lfirst(cell);
		bool   known = false;

		for (int i = 0; i < count && !known; i++)
			known = items[i].dboid == watch->dboid;
		if (known || watch->handle != NULL)
			continue;
		watches = foreach_delete_current(watches, cell);
		pfree(watch);
	}
}
