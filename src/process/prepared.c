/*
 * prepared.c
 *		COMMIT PREPARED and ROLLBACK PREPARED.
 *
 * A transaction prepared by another session may have claimed or finished
 * tasks, or created the extension, so shared memory must be checked again
 * after it has ended.  That is also announced if the command fails: it changes
 * the state of the transaction midway, and a later action of the server or of
 * another hook can fail or end the session.
 *
 * The apply worker of a subscription with two_phase ends prepared transactions
 * without a command.  It does so in a transaction of its own that is assigned
 * no XID, so the end of each such transaction in an apply worker counts as the
 * end of a prepared transaction.
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

/* What this session is doing with a prepared transaction. */
static enum {
	ENDING_NOTHING,
	ENDING_BY_COMMIT,
	ENDING_BY_ROLLBACK
} ending = ENDING_NOTHING;

/* The extension in this database when the command began. */
static Oid extension_before = InvalidOid;

static void ended(int code, Datum arg);
static void at_end(XactEvent event, void *arg);
static bool is_refusal(int code);

/* Called while the library is preloaded. */
void
tq_prepared_init(void)
{
	RegisterXactCallback(at_end, NULL);
}

/*
 * The session is about to end a prepared transaction, and may itself end
 * during the command.  (PG_ENSURE_ERROR_CLEANUP cannot be used: the server
 * registers a callback in between.)
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
 * A prepared transaction has ended.  It may have claimed tasks, and it may
 * have created or dropped the extension, or both.
 */
void
tq_prepared_end(void)
{
	bool committed = ending == ENDING_BY_COMMIT;
	Oid  extension = get_extension_oid("taskq", true);
	bool replaced = extension != extension_before;

	/* changes of others to the former extension are counted first */
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

/* The command has failed. */
void
tq_prepared_error(int sqlerrcode)
{
	if (!is_refusal(sqlerrcode))
		ended(0, (Datum) 0);
	ending = ENDING_NOTHING;
}

/*
 * The command has failed, or the session ends during it; the transaction may
 * have ended or not.  Nothing here may fail: a worker will find out whether
 * the extension still exists.
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
 * unknown, belongs to another role or database, or is being ended, or the
 * command runs in a transaction block or on a standby.  These errors must not
 * make other sessions discard their caches.
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
