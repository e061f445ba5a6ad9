/*
 * edge_wait.c
 *		Announcements of waits in instances of workflows.
 *
 * A transaction that has deleted edges of an instance, and has to wait for
 * another one, holds a lock while it waits.  Others that see the lock do not
 * wait for the transaction: they leave to it what depends on the edges that it
 * has deleted, and commit.
 *
 * The edges may have been deleted before a savepoint that the wait is in.
 * When that savepoint is rolled back, during the wait or later, the deletions
 * stay, and what was done for others after the wait is gone.  So the instance
 * is kept in a list until the transaction has looked at it outside of
 * savepoints, at the latest before it commits or is prepared
 * (flow/advance/advance.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/subtrans.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "storage/procarray.h"
#include "utils/memutils.h"

#include "base/array.h"
#include "base/catalog.h"
#include "flow/instance/edge_wait.h"

/* Instances that this transaction has still to look at. */
static int64 *left = NULL; /* in the top transaction's memory */
static int    left_count = 0;
static int    left_room = 0;

static void set_tag(LOCKTAG *tag, int64 workflow_id);
static void forget(XactEvent event, void *arg);

void
tq_edge_wait_init(void)
{
	RegisterXactCallback(forget, NULL);
}

/*
 * Under the edge lock: this transaction is about to wait for another one, and
 * will look again at all that concerns it in this instance.
 */
void
tq_edge_wait(int64 workflow_id)
{
	LOCKTAG tag;

	if (!tq_edge_wait_is_left(workflow_id))
	{
		TQ_ARRAY_RESERVE(left, left_count, left_room, TopTransactionContext);
		left[left_count++] = workflow_id;
	}
	set_tag(&tag, workflow_id);
	(void) LockAcquire(&tag, ShareLock, false, false);
}

/* Under the edge lock: it has waited, and looks. */
void
tq_edge_wait_ended(int64 workflow_id)
{
	LOCKTAG tag;

	set_tag(&tag, workflow_id);
	(void) LockRelease(&tag, ShareLock, false);
	tq_edge_wait_looked(workflow_id);
}

/* What it does now can no longer be rolled back by itself. */
void
tq_edge_wait_looked(int64 workflow_id)
{
	if (GetCurrentTransactionNestLevel() > 1)
		return;
	for (int i = 0; i < left_count; i++)
	{
		if (left[i] == workflow_id)
		{
			left[i] = left[--left_count];
			break;
		}
	}
}

/* Under the lock: does that open transaction wait in this way? */
bool
tq_edge_waits(int64 workflow_id, TransactionId xid)
{
	int                   pid;
	int                   count;
	bool                  any = false;
	VirtualTransactionId *who;
	LOCKTAG               tag;

	set_tag(&tag, workflow_id);
	who = GetLockConflicts(&tag, ExclusiveLock, &count);
	pid = count == 0 ? 0
					 : BackendXidGetPid(SubTransGetTopmostTransaction(xid));
	for (int i = 0; i < count && pid != 0; i++)
		any = any || tq_compat_vxid_pid(who[i]) == pid;
	pfree(who);
	return any;
}

/* Must this transaction look again at what it has deleted in the instance? */
bool
tq_edge_wait_is_left(int64 workflow_id)
{
	for (int i = 0; i < left_count; i++)
	{
		if (left[i] == workflow_id)
			return true;
	}
	return false;
}

/* Of these instances the one with the highest id; 0: none. */
int64
tq_edge_wait_last_left(void)
{
	int64 last = 0;

	for (int i = 0; i < left_count; i++)
		last = Max(last, left[i]);
	return last;
}

/* The index of edges stands for waits, as the table does for looks. */
static void
set_tag(LOCKTAG *tag, int64 workflow_id)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, tq_catalog()->edge_pkey,
					   (uint32) workflow_id, (uint16) (workflow_id >> 32));
}

static void
forget(XactEvent event, void *arg)
{
	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
		event != XACT_EVENT_PREPARE)
		return;
	left = NULL;
	left_count = 0;
}
