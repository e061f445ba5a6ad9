/*
 * bgw.c
 *		The background worker of a database: a loop around the duties.
 *
 * It sleeps until the next duty is due (shared/station.c says how others
 * shorten that), or 60 s.  An error is logged with its context, and the
 * next turn comes after a pause.  It leaves when the extension is
 * gone, and when a command wants the database for itself.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "base/clock.h"
#include "core/duty.h"
#include "process/process.h"
#include "shared/station.h"

#define CEILING (60 * USECS_PER_SEC) /* longest sleep */
#define PAUSE (5 * USECS_PER_SEC)    /* after an error */

static char *database_name = NULL;

static void        settle_in(Oid database);
static bool        is_wanted(void);
static TimestampTz one_turn(TimestampTz told);
static void        recover(MemoryContext context);
static void        sleep_until(TimestampTz at);
static void        error_context(void *arg);

/* Ask the postmaster for a worker; false when no slot is free. */
bool
tq_bgw_start(Oid database, BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
					   BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker.bgw_library_name, sizeof(worker.bgw_library_name),
			 "taskq");
	snprintf(worker.bgw_function_name, sizeof(worker.bgw_function_name),
			 "tq_bgw_worker_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "taskq worker of database %u",
			 database);
	snprintf(worker.bgw_type, BGW_MAXLEN, "taskq worker");
	worker.bgw_main_arg = ObjectIdGetDatum(database);
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

void
tq_bgw_worker_main(Datum arg)
{
	ErrorContextCallback callback;

	settle_in(DatumGetObjectId(arg));
	callback.callback = error_context;
	callback.arg = NULL;
	callback.previous = error_context_stack;
	error_context_stack = &callback;
	if (is_wanted())
		tq_duty_start();

	for (;;)
	{
		TimestampTz next;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		if (tq_station_must_leave())
			proc_exit(0);
		if (!is_wanted())
		{
			tq_station_end(TQ_STATION_NOT_WANTED);
			proc_exit(0);
		}
		next = one_turn(tq_station_turn_begins());
		if (tq_station_sleep_until(next))
			sleep_until(next);
	}
}

/* Connect, and make the session independent of settings of users. */
static void
settle_in(Oid database)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"application_name", "taskq worker"}};

	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	tq_station_attach();
	for (int i = 0; i < lengthof(settings); i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
						PGC_S_OVERRIDE);
	StartTransactionCommand();
	database_name =
		MemoryContextStrdup(TopMemoryContext, get_database_name(MyDatabaseId));
	CommitTransactionCommand();
}

static bool
is_wanted(void)
{
	volatile bool wanted = true; /* in doubt, the turn meets the error */
	MemoryContext context = CurrentMemoryContext;

	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		wanted = tq_duty_wanted();
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		recover(context);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return wanted;
}

/*
 * Do what is due; returns when to do it again.  Errors of a duty are caught
 * there; what is caught here is the rest.
 */
static TimestampTz
one_turn(TimestampTz told)
{
	MemoryContext        context = CurrentMemoryContext;
	volatile TimestampTz next = 0;

	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		next = tq_duty_turn(told);
	}
	PG_CATCH();
	{
		recover(context);
		next = tq_clock_dispatch() + PAUSE;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return next;
}

/* After an error: as any server process does it. */
static void
recover(MemoryContext context)
{
	HOLD_INTERRUPTS();
	MemoryContextSwitchTo(context);
	EmitErrorReport();
	AbortCurrentTransaction();
	LWLockReleaseAll();
	FlushErrorState();
	pgstat_report_activity(STATE_IDLE, NULL);
	RESUME_INTERRUPTS();
}

static void
sleep_until(TimestampTz at)
{
	TimestampTz now = tq_clock_dispatch();
	int64       sleep = at <= now ? 0 : Min(at - now, CEILING);

	if (sleep == 0)
		return;
	pgstat_report_activity(STATE_IDLE, NULL);
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (long) ((sleep + 999) / 1000), PG_WAIT_EXTENSION);
}

static void
error_context(void *arg)
{
	errcontext("taskq background worker of database \"%s\"", database_name);
}
