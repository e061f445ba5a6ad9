/*
 * prepared.c
 *		COMMIT PREPARED and ROLLBACK PREPARED.
 *
 * A transaction that another session prepared may have claimed or finished
 * tasks, or created the extension, so that what shared memory says has to be
 * looked at again when it has ended.  This is told also when the command ends
 * by an error: it changes the state of the transaction in its middle, and
 * what comes after that, of the server or of others' hooks, can fail or end
 * the session.
 *
 * The apply worker of a subscription with two_phase ends prepared transactions
 * without a command.  It does so in a transaction of its own that gets no
 * number, so the end of each such transaction there counts as the end of a
 * prepared one.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "storage/ipc.h"

#include "process/prepared.h"
#include "shared/counter.h"
#include "shared/shmem.h"
#include "shared/worker_directory.h"
#include "xact/xact.h"

/* What this session is doing to a prepared transaction. */
static enum {
	ENDING_NOTHING,
	ENDING_BY_COMMIT,
	ENDING_BY_ROLLBACK
} ending = ENDING_NOTHING;

/* The extension of this database when it began. */
static Oid extension_before = InvalidOid;

static void ended(int code, Datum arg);
static void at_end(XactEvent event, void *arg);
static bool is_refusal(int code);

/* While the library is preloaded. */
void
tq_prepared_init(void)
{
	RegisterXactCallback(at_end, NULL);
}

/*
 * A prepared transaction is going to be ended; the session may end with it.
 * (What PG_ENSURE_ERROR_CLEANUP registers it could not take back: the server
 * registers something inside.)
 */
void
tq_prepared_begin(bool commits)
{
	static bool registered = false;

	if (!registered)
		before_shmem_exit(ended, (Datum) 0);
	registered = true;
	extension_before = get_extension_oid("taskq", true);
	ending = commits ? ENDING_BY_COMMIT : ENDING_BY_ROLLBACK;
}

/*
 * A prepared transaction has ended.  It may have claimed tasks; and it may
 * have created or dropped the extension, or both.
 */
void
tq_prepared_end(void)
{
	bool committed = ending == ENDING_BY_COMMIT;
	Oid  extension = get_extension_oid("taskq", true);
	bool replaced = extension != extension_before;

	/* what others have done with the former one is told before */
	if (replaced)
		tq_counter_wait_for_ended();
	tq_xact_prepared_ended();
	ending = ENDING_NOTHING;
	if (replaced)
		tq_shmem_forget_database(MyDatabaseId);
	if (committed && OidIsValid(extension) &&
		(replaced || !tq_worker_directory_has_worker(MyDatabaseId)))
		tq_worker_directory_visit(MyDatabaseId);
}

/* The command has ended by an error. */
void
tq_prepared_error(int sqlerrcode)
{
	if (!is_refusal(sqlerrcode))
		ended(0, (Datum) 0);
	ending = ENDING_NOTHING;
}

/*
 * The command has ended by an error, or with the session, if it was at work;
 * who knows whether the transaction had ended.  Nothing here may fail: whether
 * the extension is there a worker finds out.
 */
static void
ended(int code, Datum arg)
{
	if (ending == ENDING_NOTHING)
		return;
	tq_xact_prepared_ended();
	if (ending != ENDING_BY_COMMIT)
		return;
	/* it may have dropped the extension */
	tq_shmem_forget_database(MyDatabaseId);
	tq_worker_directory_visit(MyDatabaseId);
}

/* In an apply worker; nothing here may fail. */
static void
at_end(XactEvent event, void *arg)
{
	if ((event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT) &&
		max_prepared_xacts > 0 && IsLogicalWorker() &&
		!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		tq_xact_prepared_ended();
}

/*
 * Errors with which such a command refuses to begin: the transaction is
 * unknown, another one's, being ended, of another database, or the command is
 * in a transaction block or on a standby.  Whoever makes them must not make
 * others forget what they know.
 */
static bool
is_refusal(int code)
{
	return code == ERRCODE_UNDEFINED_OBJECT ||
		   code == ERRCODE_INSUFFICIENT_PRIVILEGE ||
		   code == ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE ||
		   code == ERRCODE_FEATURE_NOT_SUPPORTED ||
		   code == ERRCODE_ACTIVE_SQL_TRANSACTION ||
		   code == ERRCODE_READ_ONLY_SQL_TRANSACTION;
}
