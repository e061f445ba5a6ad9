/*
 * snapshot.c
 *		The snapshots that calls take.
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
