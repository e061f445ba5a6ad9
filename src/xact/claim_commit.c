/*
 * claim_commit.c
 *		Whether a commit of claims waits for the disk.
 *
 * A transaction that has only claimed tasks need not wait until its WAL is on
 * disk.  If the server crashes before, the tasks wait again, and the tokens
 * are refused, because tokens continue above a bound that is on disk
 * (engine/id.c).  The commit of a completion flushes the WAL of the claim
 * before it.  So such a transaction commits as with synchronous_commit off,
 * unless
 *
 * - it has written anything else.  A claim call that begins when the
 *   transaction has written no WAL, or none since the previous claim call,
 *   remembers where its own WAL ends; that must still be the end when the
 *   transaction commits.  Pages that a query prunes count as written: then
 *   the commit waits without need;
 * - a claim forbids it: by the queue's option, or because a loss of the claim
 *   would break a promise (command/claim.c);
 * - synchronous_commit is not "on", or standbys are to confirm commits;
 * - the server has recently started after a crash (shared/crash_start.c).
 *
 * The variable of synchronous_commit is changed by itself, not by the server's
 * functions for settings: the change lasts from the last callback before the
 * commit record to the first one after it, nothing reads the setting in
 * between but the commit, and nothing may fail in the second one.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "replication/syncrep.h"

#include "shared/crash_start.h"
#include "xact/claim_commit.h"

/* The transaction has written nothing but claims, up to this position. */
static XLogRecPtr claims_end = InvalidXLogRecPtr;

/* The claim call that is running began when that was true. */
static bool only_claims = false;

/* synchronous_commit is off for the commit that follows. */
static bool deferred = false;

/* Called before a claim call writes. */
void
tq_claim_commit_claim_begin(void)
{
	only_claims = XLogRecPtrIsInvalid(XactLastRecEnd) ||
				  XactLastRecEnd == claims_end;
}

/* Called when a claim call has written all that it writes. */
void
tq_claim_commit_claim_end(bool deferrable)
{
	claims_end = only_claims && deferrable ? XactLastRecEnd
										   : InvalidXLogRecPtr;
}

/* Called as the last thing before a commit. */
void
tq_claim_commit_before(void)
{
	if (XLogRecPtrIsInvalid(claims_end) || XactLastRecEnd != claims_end ||
		synchronous_commit != SYNCHRONOUS_COMMIT_ON ||
		(SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0') ||
		tq_crash_start_is_recent())
		return;
	synchronous_commit = SYNCHRONOUS_COMMIT_OFF;
	deferred = true;
}

/* Called after the transaction's end, whatever its end.  Cannot fail. */
void
tq_claim_commit_after(void)
{
	if (deferred)
		synchronous_commit = SYNCHRONOUS_COMMIT_ON;
	deferred = false;
	claims_end = InvalidXLogRecPtr;
}
