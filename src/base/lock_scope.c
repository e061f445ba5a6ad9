/*
 * lock_scope.c
 *		Work whose locks can be released before the transaction ends.
 *
 * The locks of a transaction belong to a resource owner and are released with
 * it.  Work in a scope has its own owner, without the cost of a savepoint.  At
 * its end the locks are released or transferred to the outer owner.  They must
 * be kept if the work has written: other transactions would consider it
 * finished, or rewrite the table under it.
 *
 * The work must itself release everything else that it acquires (buffers,
 * relations, plans).  An error needs no care: the owner is a child of the
 * outer one, and the abort releases both.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "access/xlog.h"

#include "base/lock_scope.h"

void
tq_lock_scope_begin(TqLockScope *scope)
{
	scope->outside = CurrentResourceOwner;
	scope->own = ResourceOwnerCreate(scope->outside, "taskq locks");
	scope->written = XactLastRecEnd;
	CurrentResourceOwner = scope->own;
}

/* Release the locks, unless the caller keeps them or the work has written. */
void
tq_lock_scope_end(TqLockScope *scope, bool keep)
{
	keep = keep || (TransactionIdIsValid(GetTopTransactionIdIfAny()) &&
					XactLastRecEnd != scope->written);
	CurrentResourceOwner = scope->outside;
	ResourceOwnerRelease(scope->own, RESOURCE_RELEASE_BEFORE_LOCKS, keep,
						 false);
	ResourceOwnerRelease(scope->own, RESOURCE_RELEASE_LOCKS, keep, false);
	ResourceOwnerRelease(scope->own, RESOURCE_RELEASE_AFTER_LOCKS, keep,
						 false);
	ResourceOwnerDelete(scope->own);
}
