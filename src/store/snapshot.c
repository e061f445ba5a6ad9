/*
 * snapshot.c
 *		Snapshots of calls.
 *
 * Each call has its own active snapshot.  Under READ COMMITTED
 * tq_snapshot_renew replaces it by a new one, which sees later commits; above
 * that level it is always the transaction's snapshot, and only commands of
 * this transaction become visible.
 *
 * Snapshots are counted, so that entries prefetched under one of them
 * (pkey_lookup.c) are not used with another.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/snapmgr.h"

#include "store/snapshot.h"

/* Number of snapshots taken in this session for calls. */
static uint64 snapshots = 0;

/* Push a snapshot, according to the isolation level. */
void
tq_snapshot_push(void)
{
	snapshots++;
	PushActiveSnapshot(GetTransactionSnapshot());
}

/* Renew the snapshot, to see later commits and the changes of this call. */
void
tq_snapshot_renew(void)
{
	CHECK_FOR_INTERRUPTS();
	PopActiveSnapshot();
	CommandCounterIncrement();
	tq_snapshot_push();
}

/*
 * Push a snapshot that sees all commits so far, whatever the isolation level,
 * and the changes of this call, until tq_snapshot_pop.
 */
void
tq_snapshot_push_latest(void)
{
	CommandCounterIncrement();
	snapshots++;
	PushActiveSnapshot(GetLatestSnapshot());
}

void
tq_snapshot_pop(void)
{
	snapshots++;
	PopActiveSnapshot();
}

/* The number of snapshots: has a new one been taken since? */
uint64
tq_snapshot_count(void)
{
	return snapshots;
}
