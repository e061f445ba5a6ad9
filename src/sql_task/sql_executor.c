/*
 * sql_executor.c
 *		The process that runs SQL tasks of one role.
 *
 * It connects as the role, so its session is like one of the role: session
 * user, settings, search_path, and no way back to another user.  It registers
 * a worker that is bound to the process, so a task that it runs when it dies
 * is reclaimed at once.
 *
 * The background worker of the database assigns a queue to it
 * (shared/executor_slot.c).  It runs tasks of that queue one after the other,
 * as long as the next task of the queue is SQL of its role.  Then it is idle,
 * and exits after taskq.executor_idle_time.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "command/registration.h"
#include "engine/worker.h"
#include "shared/executor_slot.h"
#include "sql_task/attempt.h"
#include "sql_task/sql_executor.h"
#include "sql_task/stop.h"

static bool enroll(TqAttemptOf *of);
static void leave(const TqAttemptOf *of);
static void run_queue(TqAttemptOf *of, MemoryContext attempts);
static bool rest(void);
static void add_context(void *arg);

/* Entry point of an executor. */
void
tq_sql_executor_main(Datum arg)
{
	ErrorContextCallback context = {0};
	TqExecutor           slot;
	TqAttemptOf          of = {0};
	MemoryContext        attempts;
	int                  number;

	tq_stop_init();
	BackgroundWorkerUnblockSignals();
	if (!tq_executor_slot_attach(arg, &slot, &number))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(slot.database, slot.role, 0);
	tq_stop_connected();
	of.worker = MemoryContextStrdup(
		TopMemoryContext, psprintf(TQ_EXECUTOR_WORKER "%d", number + 1));
	of.role_id = slot.role_id;
	of.role = slot.role;
	of.user = GetOuterUserId();
	of.context = AllocSetContextCreate(TopMemoryContext, "taskq payloads",
									   ALLOCSET_DEFAULT_SIZES);
	attempts = AllocSetContextCreate(TopMemoryContext, "taskq attempt",
									 ALLOCSET_DEFAULT_SIZES);
	context.callback = add_context;
	context.arg = &of;
	context.previous = error_context_stack;
	error_context_stack = &context;

	if (!enroll(&of))
		proc_exit(0);
	/* the commit has left another one */
	MemoryContextSwitchTo(attempts);
	while (!tq_stop_requested())
	{
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		of.queue_id = tq_executor_slot_queue();
		if (of.queue_id == -1)
			break;
		if (of.queue_id != 0)
			run_queue(&of, attempts);
		MemoryContextReset(attempts);
		if (!tq_attempt_session_is_clean(&of))
			break;
		if (of.queue_id != 0)
			tq_executor_slot_idle();
		if (!rest())
			break;
	}
	leave(&of);
	proc_exit(0);
}

/* Run tasks of the queue until the next one is not for this executor. */
static void
run_queue(TqAttemptOf *of, MemoryContext attempts)
{
	TqHeld held = {0};

	if (!tq_attempt_first(of, &held))
		return;
	while (held.task_id != 0)
	{
		tq_executor_slot_running(held.task_id, held.token);
		tq_attempt_run(of, &held);
		MemoryContextReset(attempts);
		pgstat_report_activity(STATE_IDLE, NULL);
	}
}

/* Sleep until there is a queue.  Returns false if it is time to exit. */
static bool
rest(void)
{
	int64 until = tq_clock_monotonic() +
				  tq_guc_usecs(tq_guc_executor_idle_time);

	while (tq_executor_slot_queue() == 0)
	{
		int64 now = tq_clock_monotonic();

		if (tq_stop_requested() || (now >= until && tq_executor_slot_end()))
			return false;
		if (now < until)
			(void) WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 (long) Min((until - now + 999) / 1000, 60000),
							 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		tq_stop_cancel_forget();
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * Register a worker that is bound to this process, as the extension's owner:
 * the role need not have a right to register workers.
 */
static bool
enroll(TqAttemptOf *of)
{
	TqWorker worker;
	Oid      user;
	int      context;

	StartTransactionCommand();
	if (!tq_catalog_present())
	{
		CommitTransactionCommand();
		return false;
	}
	XactReadOnly = false;
	GetUserIdAndSecContext(&user, &context);
	SetUserIdAndSecContext(tq_catalog()->owner,
						   context | SECURITY_LOCAL_USERID_CHANGE);
	tq_registration_bind(of->worker);
	tq_worker_registered(of->worker, NULL, &worker);
	of->incarnation = worker.incarnation;
	SetUserIdAndSecContext(user, context);
	CommitTransactionCommand();
	tq_executor_slot_registered(worker.worker_id);
	return true;
}

/* The worker has ended without a task. */
static void
leave(const TqAttemptOf *of)
{
	Oid user;
	int context;

	tq_stop_cancel_forget();
	StartTransactionCommand();
	if (tq_catalog_present())
	{
		XactReadOnly = false;
		GetUserIdAndSecContext(&user, &context);
		SetUserIdAndSecContext(tq_catalog()->owner,
							   context | SECURITY_LOCAL_USERID_CHANGE);
		tq_registration_leave(of->worker, of->incarnation);
		SetUserIdAndSecContext(user, context);
	}
	CommitTransactionCommand();
}

static void
add_context(void *arg)
{
	errcontext("taskq SQL executor \"%s\"", ((TqAttemptOf *) arg)->worker);
}
