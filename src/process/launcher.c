/*
 * launcher.c
 *		One process per server: sees that each database with the extension
 *		has its background worker.
 *
 * It visits every database once after its start, by starting a worker
 * there, which leaves again when the extension is missing or the database
 * is a copy that nobody has activated; then such a database is left alone
 * until something asks for a visit (shared/station.c): CREATE EXTENSION,
 * taskq_activate(), CREATE DATABASE, the end of a command that wanted the
 * database for itself.  A worker that ends otherwise is started again after
 * a pause of one second, growing to fifteen.
 *
 * It is started when recovery has ended, hence on a standby at promotion.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "base/clock.h"
#include "base/guc.h"
#include "process/process.h"
#include "shared/shmem.h"
#include "shared/station.h"

#define CEILING (60 * USECS_PER_SEC) /* longest sleep */
#define PAUSE_FIRST USECS_PER_SEC
#define PAUSE_LAST (15 * USECS_PER_SEC)
#define SLOT_RETRY (10 * USECS_PER_SEC)

/* What the launcher knows of the worker of a station. */
typedef struct Child
{
	BackgroundWorkerHandle *handle; /* NULL: none */
	bool                    wanted;
	int64                   pause;      /* after the next unexpected end */
	int64                   not_before; /* monotonic clock */
	int64                   started;    /* monotonic clock */
} Child;

static Child *children = NULL;
static bool   no_slot_logged = false;

static void  ask_for_all_visits(void);
static List *connectable_databases(void);
static int64 manage(void);
static void  look_after(int n, List *databases, int64 now);
static void  start_child(int n, Oid database, int64 now);

void
tq_process_init(void)
{
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	tq_utility_init();
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
					   BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 5;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "taskq");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name),
			 "tq_launcher_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "taskq launcher");
	snprintf(worker.bgw_type, BGW_MAXLEN, "taskq launcher");
	RegisterBackgroundWorker(&worker);
}

void
tq_launcher_main(Datum arg)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	tq_station_launcher_attach();
	children = MemoryContextAllocZero(TopMemoryContext,
									  sizeof(Child) * tq_guc_max_databases);
	ask_for_all_visits();

	for (;;)
	{
		int64 sleep;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		sleep = manage();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) (sleep / 1000) + 1, PG_WAIT_EXTENSION);
	}
}

static void
ask_for_all_visits(void)
{
	ListCell *lc;
	List     *databases = connectable_databases();

	if (list_length(databases) > tq_guc_max_databases)
		ereport(LOG,
				(errmsg("taskq: %d databases, but background workers for %d",
						list_length(databases), tq_guc_max_databases),
				 errhint("Increase taskq.max_databases.")));
	foreach (lc, databases)
		tq_station_visit(lfirst_oid(lc));
	list_free(databases);
}

/* Databases that a background worker may connect to. */
static List *
connectable_databases(void)
{
	List         *databases = NIL;
	Relation      rel;
	TableScanDesc scan;
	HeapTuple     tuple;

	StartTransactionCommand();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		Form_pg_database row = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext    mine;

		/* a connection limit of -2 marks a database that is half dropped */
		if (row->datistemplate || !row->datallowconn ||
			row->datconnlimit == -2)
			continue;
		mine = MemoryContextSwitchTo(TopMemoryContext);
		databases = lappend_oid(databases, row->oid);
		MemoryContextSwitchTo(mine);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	return databases;
}

/* Look after all stations; returns how long nothing is to be done. */
static int64
manage(void)
{
	int   count = tq_station_count();
	int64 now = tq_clock_monotonic();
	int64 sleep = CEILING;
	List *databases = NIL;
	bool  visit = false;

	for (int i = 0; i < count; i++)
	{
		if (tq_station_take_visit(i))
		{
			children[i].wanted = true;
			children[i].not_before = 0;
			visit = true;
		}
		visit = visit || (children[i].wanted && children[i].handle == NULL &&
						  children[i].not_before <= now);
	}
	if (visit)
		databases = connectable_databases();
	for (int i = 0; i < count; i++)
	{
		look_after(i, databases, now);
		if (children[i].wanted && children[i].handle == NULL &&
			children[i].not_before > now && !tq_station_is_kept_out(i))
			sleep = Min(sleep, children[i].not_before - now);
	}
	list_free(databases);
	return sleep;
}

static void
look_after(int n, List *databases, int64 now)
{
	Child *child = &children[n];
	Oid    database = tq_station_database(n);
	pid_t  pid;

	if (child->handle != NULL &&
		GetBackgroundWorkerPid(child->handle, &pid) == BGWH_STOPPED)
	{
		TqStationEnd how = tq_station_ended(n);

		pfree(child->handle);
		child->handle = NULL;
		if (how == TQ_STATION_NOT_WANTED)
			child->wanted = false;
		if (now - child->started > 60 * USECS_PER_SEC || child->pause == 0)
			child->pause = PAUSE_FIRST;
		child->not_before = now + child->pause;
		child->pause = Min(child->pause * 2, PAUSE_LAST);
		return;
	}
	if (child->handle != NULL || !child->wanted || child->not_before > now ||
		tq_station_is_kept_out(n))
		return;
	if (!list_member_oid(databases, database))
	{
		child->wanted = false;
		child->pause = 0;
		tq_station_forget(n);
		return;
	}
	start_child(n, database, now);
}

static void
start_child(int n, Oid database, int64 now)
{
	Child        *child = &children[n];
	MemoryContext mine;
	bool          started;

	if (!tq_station_starting(n))
	{
		/* one of a former launcher is there, and asks when it leaves */
		child->wanted = false;
		return;
	}
	mine = MemoryContextSwitchTo(TopMemoryContext);
	started = tq_bgw_start(database, &child->handle);
	MemoryContextSwitchTo(mine);
	child->started = now;
	if (started)
	{
		no_slot_logged = false;
		return;
	}
	child->handle = NULL;
	(void) tq_station_ended(n);
	child->not_before = now + SLOT_RETRY;
	if (!no_slot_logged)
		ereport(LOG, (errmsg("taskq: no free slot for a background worker"),
					  errhint("Increase max_worker_processes.")));
	no_slot_logged = true;
}
