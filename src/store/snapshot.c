/*
 * snapshot.c
 *		The snapshots that calls take.
 *
 * Each call has one active snapshot of its own.  Under READ COMMITTED
 * tq_snapshot_renew replaces it by one that sees what has been committed
 * meanwhile; above that level it is the transaction's snapshot every time,
 * and only the commands of this transaction become visible.
 *
 * The number of snapshots is counted, so that what was read ahead under one
 * of them (pkey_lookup.c) is not used with another.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/snapmgr.h"

#include "store/snapshot.h"

/* Taken in this session for calls. */
static uint64 snapshots = 0;

/* See what has been committed, as the level of isolation says. */
void
tq_snapshot_push(void)
{
	snapshots++;
	PushActiveSnapshot(GetTransactionSnapshot());
}

/* See what has been committed meanwhile, and what this call did. */
void
tq_snapshot_renew(void)
{
	CHECK_FOR_INTERRUPTS();
	PopActiveSnapshot();
	CommandCounterIncrement();
	tq_snapshot_push();
}

/*
 * See what has been committed by now, whatever the level of isolation, and
 * what this call did, until tq_snapshot_pop.
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

/* How many there were: has a new one been taken since? */
uint64
tq_snapshot_count(void)
{
	return snapshots;
}
