/*
 * attempt.c
 *		One attempt of a SQL task: its transactions.
 *
 * A transaction resets the session, runs the statement, completes the task and
 * claims the next one.  So a task costs one flush, its effects are there
 * exactly if it is done, and its claim is on disk before it starts.  After an
 * error, the transaction is rolled back, and a second one records the error
 * and claims the next task.
 *
 * The statement runs as the role of the process.  What the executor itself
 * does before and after runs as the extension's owner, and evaluates nothing
 * of the role: completing a task needs the right "work", which a role that
 * submits SQL need not have.
 *
 * What one task leaves in the session, the next one must not find.  Each
 * transaction begins with a reset like DISCARD ALL; if a task has changed the
 * user or has made temporary objects, no further task is claimed, and the
 * process exits.  Advisory locks are released when the task ends: sessions may
 * wait for them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "commands/prepare.h"
#include "commands/sequence.h"
#include "pgstat.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/portal.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "cache/activation.h"
#include "cache/queue.h"
#include "cache/task_options.h"
#include "command/claim.h"
#include "command/finish.h"
#include "engine/call.h"
#include "engine/reclaim.h"
#include "engine/sql_task.h"
#include "engine/state.h"
#include "sql_task/attempt.h"
#include "sql_task/statement.h"
#include "sql_task/stop.h"
#include "store/large.h"

/*
 * A task that terminates its own process comes back without having used an
 * attempt; it must not do so all the time.
 */
#define RELEASE_DELAY (1000 * INT64CONST(1000)) /* us */

/* The user before code that runs as the owner of the extension. */
typedef struct User
{
	Oid  id;
	int  context;
	bool read_only;
} User;

static bool   work(const TqAttemptOf *of, TqHeld *held, TqHeld *next,
				   ErrorData **error, bool *begun);
static void   fail(const TqAttemptOf *of, TqHeld *held, ErrorData *error,
				   bool begun, TqHeld *next);
static void   claim_and_commit(const TqAttemptOf *of, TqCall *call,
							   const User *user, TqHeld *next);
static void   begin(void);
static void   commit(void);
static void   roll_back(MemoryContext caller);
static void   reset_session(const TqAttemptOf *of);
static void   become_owner(User *user);
static void   become_role(const User *user);
static void   claim_next(const TqAttemptOf *of, TqCall *call, TqHeld *next);
static bool   is_permanent(const ErrorData *error, bool begun);
static Jsonb *error_detail(const ErrorData *error);
static void   add_text(JsonbParseState **state, const char *name,
					   const char *value);
static void   note_failure(TqCall *call, TqHeld *held, ErrorData *error,
						   bool begun);

/*
 * Claim the first task, in a transaction of its own.  Returns false, with the
 * error logged, if that is not possible.
 */
bool
tq_attempt_first(const TqAttemptOf *of, TqHeld *held)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		User   user;
		TqCall call;

		begin();
		become_owner(&user);
		if (tq_catalog_present() && tq_activation_allows_duties())
		{
			tq_call_begin(&call, "taskq: a SQL task");
			claim_next(of, &call, held);
			tq_call_end(&call);
		}
		become_role(&user);
		commit();
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		EmitErrorReport();
		roll_back(caller);
		held->task_id = 0;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	return done;
}

/* Run the task, and claim the next one, which takes its place in *held. */
void
tq_attempt_run(const TqAttemptOf *of, TqHeld *held)
{
	TqHeld     next = {0};
	ErrorData *error = NULL;
	bool       begun = false;

	if (!work(of, held, &next, &error, &begun))
	{
		next.task_id = 0;
		fail(of, held, error, begun, &next);
	}
	LockReleaseAll(USER_LOCKMETHOD, true);
	if (held->payload != NULL)
		pfree(held->payload);
	*held = next;
}

static bool
work(const TqAttemptOf *of, TqHeld *held, TqHeld *next, ErrorData **error,
	 bool *begun)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;

	PG_TRY();
	{
		TqDecision decision = {.outcome = TQ_FINISH_COMPLETE};
		User       user;
		TqCall     call;

		begin();
		reset_session(of);
		tq_stop_arm(held->time_limit);
		decision.result =
			tq_statement_run(held->payload, held->max_result, begun);
		tq_stop_disarm();
		TQ_DEBUG_POINT("sql_task_ran");
		become_owner(&user);
		tq_call_begin(&call, "taskq: a SQL task");
		(void) tq_finish_decide(&call, held->task_id, held->token, &decision,
								true, NULL);
		claim_and_commit(of, &call, &user, next);
		done = true;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(caller);
		*error = CopyErrorData();
		tq_stop_disarm();
		roll_back(caller);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
	return done;
}

/* Record the error, and claim the next task. */
static void
fail(const TqAttemptOf *of, TqHeld *held, ErrorData *error, bool begun,
	 TqHeld *next)
{
	MemoryContext caller = CurrentMemoryContext;

	PG_TRY();
	{
		User   user;
		TqCall call;

		begin();
		become_owner(&user);
		tq_call_begin(&call, "taskq: a SQL task");
		note_failure(&call, held, error, begun);
		claim_and_commit(of, &call, &user, next);
	}
	PG_CATCH();
	{
		/* the end of this process returns the task */
		MemoryContextSwitchTo(caller);
		EmitErrorReport();
		roll_back(caller);
		ereport(
			FATAL,
			(errcode(error->sqlerrcode),
			 errmsg(
				 "taskq: could not record the end of SQL task " INT64_FORMAT,
				 held->task_id)));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(caller);
}

/* The end of the task is written: claim the next one, and commit both. */
static void
claim_and_commit(const TqAttemptOf *of, TqCall *call, const User *user,
				 TqHeld *next)
{
	tq_call_advance(call);
	if (tq_attempt_session_is_clean(of) && !tq_stop_requested())
	{
		tq_call_renew(call);
		claim_next(of, call, next);
	}
	tq_call_end(call);
	become_role(user);
	commit();
}

/*
 * A task whose time is up is reclaimed as any other.  A task that was stopped
 * because the process must exit has not failed.
 */
static void
note_failure(TqCall *call, TqHeld *held, ErrorData *error, bool begun)
{
	TqDecision decision = {.outcome = TQ_FINISH_FAIL, .retry_in = -1};
	bool       canceled = error->sqlerrcode == ERRCODE_QUERY_CANCELED;

	if (canceled && tq_stop_time_is_up())
	{
		TqRunning running = {.task_id = held->task_id, .token = held->token};
		TqReclaim loss = {.running = &running, .now = tq_clock_dispatch()};

		if (tq_reclaim_try(call, &loss))
			return;
	}
	if (canceled && tq_stop_requested())
	{
		decision.outcome = TQ_FINISH_RELEASE;
		decision.delay = RELEASE_DELAY;
	}
	else
	{
		decision.error = tq_arg_cut(error->message, TQ_MAX_ERROR_TEXT);
		decision.detail = error_detail(error);
		decision.retryable = !is_permanent(error, begun);
	}
	/* not if the task has been taken back */
	(void) tq_finish_decide(call, held->task_id, held->token, &decision, false,
							NULL);
}

/* Would another attempt end in the same way? */
static bool
is_permanent(const ErrorData *error, bool begun)
{
	int class = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	if (error->sqlerrcode == ERRCODE_TQ_TOO_LARGE ||
		error->sqlerrcode == ERRCODE_UNDEFINED_PARAMETER)
		return true;
	if (begun)
		return false;
	return class == ERRCODE_TO_CATEGORY(ERRCODE_INVALID_PARAMETER_VALUE) ||
		   class == ERRCODE_FEATURE_NOT_SUPPORTED ||
		   error->sqlerrcode == ERRCODE_SYNTAX_ERROR ||
		   error->sqlerrcode == ERRCODE_INVALID_NAME;
}

/* SQLSTATE, detail, hint and context, each cut at 8 kB. */
static Jsonb *
error_detail(const ErrorData *error)
{
	JsonbParseState *state = NULL;
	const char      *hint = error->hint;

	if (error->sqlerrcode == ERRCODE_INVALID_TRANSACTION_TERMINATION &&
		hint == NULL)
		hint = "A SQL task is one transaction, which ends with the task. "
			   "Submit a task for each transaction.";
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	add_text(&state, "sqlstate", unpack_sql_state(error->sqlerrcode));
	add_text(&state, "detail", error->detail);
	add_text(&state, "hint", hint);
	add_text(&state, "context", error->context);
	return JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL));
}

static void
add_text(JsonbParseState **state, const char *name, const char *value)
{
	JsonbValue pushed;

	if (value == NULL)
		return;
	pushed.type = jbvString;
	pushed.val.string.val = (char *) name;
	pushed.val.string.len = (int) strlen(name);
	pushJsonbValue(state, WJB_KEY, &pushed);
	pushed.val.string.val = tq_arg_cut(value, TQ_MAX_ERROR_TEXT);
	pushed.val.string.len = (int) strlen(pushed.val.string.val);
	pushJsonbValue(state, WJB_VALUE, &pushed);
}

static void
begin(void)
{
	tq_stop_cancel_forget();
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
}

/*
 * The commit waits for the disk, whatever the role or the task has set: the
 * next task is claimed with it.
 */
static void
commit(void)
{
	if (synchronous_commit < SYNCHRONOUS_COMMIT_LOCAL_FLUSH)
		(void) set_config_option("synchronous_commit", "local", PGC_USERSET,
								 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0,
								 false);
	CommitTransactionCommand();
	pgstat_report_stat(false);
}

static void
roll_back(MemoryContext caller)
{
	HOLD_INTERRUPTS();
	AbortOutOfAnyTransaction();
	LWLockReleaseAll();
	pgstat_report_wait_end();
	FlushErrorState();
	MemoryContextSwitchTo(caller);
	RESUME_INTERRUPTS();
}

/*
 * What DISCARD ALL does.  A deferred trigger may have changed the user, or
 * made temporary objects, when the task was already claimed.
 */
static void
reset_session(const TqAttemptOf *of)
{
	if (!tq_attempt_session_is_clean(of))
	{
		SetPGVariable("session_authorization", NIL, false);
		PushActiveSnapshot(GetTransactionSnapshot());
		ResetTempTableNamespace();
		PopActiveSnapshot();
	}
	PortalHashTableDeleteAll();
	ResetAllOptions();
	DropAllPreparedStatements();
	ResetSequenceCaches();
}

/* Is there nothing left that reset_session does not remove? */
bool
tq_attempt_session_is_clean(const TqAttemptOf *of)
{
	Oid temporary;
	Oid toast;

	GetTempNamespaceState(&temporary, &toast);
	return GetSessionUserId() == of->role && GetOuterUserId() == of->user &&
		   !OidIsValid(temporary);
}

static void
become_owner(User *user)
{
	GetUserIdAndSecContext(&user->id, &user->context);
	user->read_only = XactReadOnly;
	SetUserIdAndSecContext(tq_catalog()->owner,
						   user->context | SECURITY_LOCAL_USERID_CHANGE);
	/* only the statement is to be read only */
	XactReadOnly = false;
}

static void
become_role(const User *user)
{
	SetUserIdAndSecContext(user->id, user->context);
	XactReadOnly = user->read_only;
}

/* Claim the next task, if the executor's role may run it. */
static void
claim_next(const TqAttemptOf *of, TqCall *call, TqHeld *next)
{
	TqQueue      *queue = tq_queue_by_id(of->queue_id);
	MemoryContext mine;
	TqTask        task;
	TqOptions     room;
	Datum         payload;
	TqClaim       claim = {.max_tasks = 1,
						   .task = &task,
						   .sql_of = of->role_id,
						   .worker_name = of->worker,
						   .incarnation = &of->incarnation};

	next->task_id = 0;
	/* the role may have lost its right to log in */
	if (queue == NULL || queue->options.executors == 0 ||
		tq_sql_task_bar(of->role) != NULL)
		return;
	claim.queue_name = pstrdup(queue->name);
	if (tq_claim_run(call, &claim, NULL) == 0)
		return;
	queue = tq_queue_by_id(of->queue_id);
	next->time_limit = tq_task_options(queue, &task, &room)->time_limit;
	if (next->time_limit > 0)
		next->time_limit = tq_state_running_until(queue, &task) -
						   task.f.claimed_at;
	next->max_result = queue->options.max_payload;
	next->token = task.f.token;
	next->payload = NULL;
	if (tq_large_get(&task, TQ_COL_PAYLOAD, &payload))
	{
		mine = MemoryContextSwitchTo(of->context);
		next->payload = DatumGetJsonbPCopy(payload);
		MemoryContextSwitchTo(mine);
	}
	next->task_id = task.f.task_id;
}
