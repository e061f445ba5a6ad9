/*
 * subxact.c
 *		Work in a savepoint, so that its errors do not end the transaction.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/resowner.h"

#include "base/subxact.h"

/* Longest wait for a lock if waits are limited. */
#define LONGEST_WAIT_MS 10

/*
 * Run work in a savepoint.  If it raises an error, all its changes are rolled
 * back, and the error is returned in the current memory context.  Otherwise
 * NULL is returned.  The caller rethrows (ReThrowError) errors that it must
 * not survive, at least a cancel.
 */
ErrorData *
tq_subxact_run(void (*work)(void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		work(arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return error;
}

/*
 * Run work in a savepoint, and again with other locks as long as it raises
 * 40001, because what it had read changed while it waited for locks.  Above
 * READ COMMITTED, where it would read the same again, the error is raised.
 */
void
tq_subxact_repeat(void (*work)(void *arg), void *arg)
{
	ErrorData *error;

	while ((error = tq_subxact_run(work, arg)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		if (error->sqlerrcode != ERRCODE_T_R_SERIALIZATION_FAILURE ||
			IsolationUsesXactSnapshot())
			ReThrowError(error);
		FreeErrorData(error);
	}
}

/*
 * Limit lock waits: they fail with 55P03 after a moment, or earlier if
 * lock_timeout is lower, until AtEOXact_GUC is called with the returned level.
 */
int
tq_subxact_limit_waits(void)
{
	int level = NewGUCNestLevel();

	if (LockTimeout > 0 && LockTimeout <= LONGEST_WAIT_MS)
		return level;
	(void) set_config_option("lock_timeout", CppAsString2(LONGEST_WAIT_MS),
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true,
							 0, false);
	return level;
}
