/*
 * bgw.c
 *		The background worker of one database.
 *
 * The worker enters itself into the worker directory, connects, checks whether
 * it is wanted, and then performs the duties of the database, turn by turn.
 * Between two turns it sleeps until the time that the last turn returned,
 * until a session wakes it, or for a minute.  It checks again at the start of
 * each turn, and exits if the extension is gone, if the database has become a
 * template, or if the database does not allow connections.
 *
 * Signals.  SIGTERM ends the worker immediately: quietly while it sleeps, by
 * the server's own die() while it works.  SIGINT cancels a turn: a command
 * that waits for this process to exit uses it to shorten a long turn, and
 * pg_cancel_backend sends it.
 *
 * An error in a turn is logged, and the next turn starts after a pause of one
 * second, which doubles with each further error up to a minute.
 *
 * Memory: each turn works in its own context, which is reset afterwards.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/clock.h"
#include "cache/activation.h"
#include "maintenance/duty.h"
#include "process/bgw.h"
#include "shared/running.h"
#include "shared/worker_directory.h"

#define SLEEP_CEILING (60 * 1000) /* ms */
#define PAUSE_FIRST 1000          /* ms, after an error */
#define PAUSE_CEILING (60 * 1000) /* ms */

/* State and results of turns. */
typedef struct Turn
{
	bool        established; /* kept from turn to turn */
	bool        started;     /* kept from turn to turn */
	TimestampTz told; /* kept until a turn has handled it; dispatch clock */
	bool        wanted;
	TimestampTz next; /* dispatch clock */
} Turn;

static volatile sig_atomic_t stop_requested = false;
static volatile sig_atomic_t working = false;

/* For messages; valid for the lifetime of the process. */
static char database_name[NAMEDATALEN] = "";

static void work_end(void);
static void work_begin(void);
static void handle_stop(SIGNAL_ARGS);
static void detach_at_exit(int code, Datum arg);
static void connect_to(Oid dboid);
static void settle(void);
static void work_until_told(void);
static void take_turn(void *arg);
static bool is_wanted(void);
static bool database_lets_in(void);
static void recover(void);
static void add_context(void *arg);

/*
 * Entry point of the worker; the argument is the database's OID.
 */
void
tq_bgw_worker_main(Datum arg)
{
	Oid                  dboid = DatumGetObjectId(arg);
	ErrorContextCallback context;

	tq_bgw_signals();
	before_shmem_exit(detach_at_exit, (Datum) 0);
	BackgroundWorkerUnblockSignals();
	snprintf(database_name, sizeof(database_name), "%u", dboid);
	context.callback = add_context;
	context.arg = NULL;
	context.previous = error_context_stack;
	error_context_stack = &context;

	if (tq_worker_directory_attach(dboid) != TQ_DIRECTORY_ATTACHED)
		proc_exit(0);
	work_begin();
	connect_to(dboid);
	work_end();
	work_until_told();
	proc_exit(0);
}

/* The signal handlers of the worker and the launcher. */
void
tq_bgw_signals(void)
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, handle_stop);

	/* Before the first turn there is nothing to cancel. */
	pqsignal(SIGINT, SIG_IGN);
}

/* Shall this process end? */
bool
tq_bgw_stopping(void)
{
	return stop_requested;
}

/*
 * From here to work_end SIGTERM ends the process at the next check for
 * interrupts.
 */
static void
work_begin(void)
{
	working = true;
	if (stop_requested)
	{
		/* SIGTERM came before work_begin, when die() could not handle it. */
		working = false;
		proc_exit(1);
	}
}

static void
work_end(void)
{
	working = false;
}

/*
 * Run work outside a transaction, in the current memory context.  After an
 * error, log it, abort the transaction and return false.
 */
bool
tq_bgw_try(TqBgwWork work, void *arg)
{
	MemoryContext before = CurrentMemoryContext;
	volatile bool done = false;

	/* ignore a cancel of earlier work */
	QueryCancelPending = false;
	work_begin();
	PG_TRY();
	{
		CHECK_FOR_INTERRUPTS();
		if (work != NULL)
			work(arg);
		done = true;
	}
	PG_CATCH();
	{
		recover();
	}
	PG_END_TRY();
	work_end();
	MemoryContextSwitchTo(before);
	return done;
}

/* Read the configuration again if it has changed. */
void
tq_bgw_reload(void)
{
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* Sleep for at most ms; a latch or a signal ends the sleep earlier. */
void
tq_bgw_sleep(int64 ms)
{
	if (ms > 0)
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 (long) ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
}

/* SIGTERM. */
static void
handle_stop(SIGNAL_ARGS)
{
	int save_errno = errno;

	stop_requested = true;
	if (working)
		die(postgres_signal_arg);
	else
		SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * Detach when the process exits without a reason; no effect after
 * tq_worker_directory_detach.
 */
static void
detach_at_exit(int code, Datum arg)
{
	tq_worker_directory_detach(TQ_WORKER_END_FAILED);
}

static void
connect_to(Oid dboid)
{
	BackgroundWorkerInitializeConnectionByOid(dboid, InvalidOid, 0);
	settle();
	StartTransactionCommand();
	strlcpy(database_name, get_database_name(dboid), NAMEDATALEN);
	CommitTransactionCommand();
	pgstat_report_activity(STATE_IDLE, NULL);
	pqsignal(SIGINT, StatementCancelHandler);
}

/*
 * Override what ALTER DATABASE and ALTER ROLE set for ordinary sessions, so
 * that the work can rely on its settings.
 */
static void
settle(void)
{
	static const char *const settings[][2] = {
		{"application_name", "taskq worker"},
		{"role", "none"},
		{"taskq.actor", ""},
		{"search_path", "pg_catalog, pg_temp"},
		{"statement_timeout", "0"},
		{"lock_timeout", "0"},
		{"idle_in_transaction_session_timeout", "0"},
		{"idle_session_timeout", "0"},
		{"transaction_timeout", "0"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"session_replication_role", "origin"},
		{"max_parallel_workers_per_gather", "0"},
		{"jit", "off"}};

	for (int i = 0; i < lengthof(settings); i++)
	{
		/* not every server version has all of them */
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET,
							PGC_S_OVERRIDE);
	}
}

static void
work_until_told(void)
{
	MemoryContext turn_context = AllocSetContextCreate(
		TopMemoryContext, "taskq turn", ALLOCSET_DEFAULT_SIZES);
	Turn        turn = {.told = DT_NOEND};
	int64       pause = 0;        /* ms */
	TimestampTz paused_until = 0; /* dispatch clock */

	for (;;)
	{
		TimestampTz now;

		if (tq_bgw_stopping())
			return;
		tq_bgw_reload();
		if (tq_worker_directory_kept_out())
		{
			tq_worker_directory_detach(TQ_WORKER_END_KEPT_OUT);
			return;
		}

		MemoryContextSwitchTo(turn_context);
		if (tq_clock_dispatch() < paused_until && !tq_worker_directory_asked())
		{
			/* process the server's barriers during a pause, too */
			(void) tq_bgw_try(NULL, NULL);
			turn.next = paused_until;
		}
		else if (tq_bgw_try(take_turn, &turn))
		{
			pause = 0;
			paused_until = 0;
			if (!turn.wanted)
			{
				tq_worker_directory_detach(TQ_WORKER_END_NOT_WANTED);
				return;
			}
		}
		else
		{
			pause = Min(Max(pause * 2, PAUSE_FIRST), PAUSE_CEILING);
			paused_until = tq_clock_dispatch() + pause * 1000;
			turn.next = paused_until;
		}
		MemoryContextReset(turn_context);

		/* a wait in the turn may have reset the latch */
		if (tq_bgw_stopping() || tq_worker_directory_kept_out() ||
			tq_worker_directory_asked())
			continue;
		now = tq_clock_dispatch();
		if (turn.next > now)
		{
			int64 ms = SLEEP_CEILING;

			if (turn.next < now + (int64) SLEEP_CEILING * 1000)
				ms = (turn.next - now + 999) / 1000;
			tq_bgw_sleep(ms);
		}
		else
			tq_bgw_sleep(0);
	}
}

/*
 * One turn: check whether the worker is wanted, and run the duties that are
 * due.
 */
static void
take_turn(void *arg)
{
	Turn       *turn = arg;
	TimestampTz told;

	told = tq_worker_directory_turn_begin();
	turn->told = Min(turn->told, told);
	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, "taskq: checking for work");
	turn->wanted = is_wanted();
	if (turn->wanted && !turn->established)
		turn->established = turn->wanted = tq_worker_directory_establish();
	if (!turn->wanted)
		return;
	if (!turn->started)
	{
		tq_duty_start();
		turn->started = true;
	}
	turn->next = tq_worker_directory_turn_end(tq_duty_turn(turn->told));
	turn->told = DT_NOEND;
	pgstat_report_stat(false);
	pgstat_report_activity(STATE_IDLE, NULL);
}

/*
 * Does this database need a background worker?
 *
 * A session that drops the extension locks it first.  This process waits for
 * that lock, and not for a lock on a table, so it sees afterwards that the
 * extension no longer exists.  (Normally it has been kept out before, but not
 * while the drop is a prepared transaction.)  If another extension has been
 * created, another process serves it.
 */
static bool
is_wanted(void)
{
	/* the extension whose state this process keeps */
	static Oid served = InvalidOid;
	bool       wanted = false;
	Oid        extension;
	Oid        found;

	StartTransactionCommand();
	extension = get_extension_oid("taskq", true);
	if (OidIsValid(extension) && database_lets_in())
	{
		LockDatabaseObject(ExtensionRelationId, extension, 0, AccessShareLock);
		PushActiveSnapshot(GetTransactionSnapshot());
		found = get_extension_oid("taskq", true);
		if (found == extension && (!OidIsValid(served) || served == extension))
		{
			served = extension;
			wanted = tq_activation_allows_duties();
			/*
			 * counts scanned while the database became a copy are not
			 * maintained
			 */
			if (!wanted)
				tq_running_flag();
		}
		else if (OidIsValid(found))
			tq_worker_directory_visit(MyDatabaseId);
		PopActiveSnapshot();
	}
	CommitTransactionCommand();
	return wanted;
}

/* No worker serves templates, or databases that do not allow connections. */
static bool
database_lets_in(void)
{
	HeapTuple tuple =
		SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	bool lets_in = false;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		lets_in = form->datallowconn && !form->datistemplate;
		ReleaseSysCache(tuple);
	}
	return lets_in;
}

/*
 * After an error: log it and restore the state before the work.  A cancel by a
 * command that keeps this process out is not logged.
 */
static void
recover(void)
{
	HOLD_INTERRUPTS();
	if (geterrcode() != ERRCODE_QUERY_CANCELED ||
		!tq_worker_directory_kept_out())
		EmitErrorReport();
	AbortOutOfAnyTransaction();
	LWLockReleaseAll();
	pgstat_report_wait_end();
	pgstat_report_activity(STATE_IDLE, NULL);
	FlushErrorState();
	QueryCancelPending = false;
	RESUME_INTERRUPTS();
}

static void
add_context(void *arg)
{
	errcontext("taskq background worker of database \"%s\"", database_name);
}
