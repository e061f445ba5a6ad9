/*
 * subxact.c
 *		Work whose errors end only itself.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/resowner.h"

#include "base/subxact.h"

/*
 * Do work in a savepoint.  When it ends with an error all that it did is
 * rolled back, and the error is returned, in the current memory context;
 * else NULL.  Which errors the caller does not want to survive, a cancel at
 * least, it throws again (ReThrowError).
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
