/*
 * edge_wait.c
 *		Announces waits in instances of workflows.
 *
 * A transaction that has deleted edges of an instance, and has to wait for
 * another one, holds a lock while it waits.  Other transactions that see the
 * lock do not wait for this transaction: they leave the children of the
 * deleted edges to it, and commit.
 *
 * The edges may have been deleted before the savepoint in which the
 * transaction waits.  If that savepoint is rolled back, during the wait or
 * later, the edges remain deleted, but what the transaction did for others
 * after the wait is undone.  The instance is therefore kept in a list until
 * the transaction has checked it outside of savepoints, at the latest before
 * it commits or is prepared (flow/advance/advance.c).
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

/* Instances that this transaction still has to check. */
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
 * Called under the edge lock: this transaction is about to wait for another
 * one, and will check again all that concerns it in this instance.
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

/* Called under the edge lock, after the wait and before the check. */
void
tq_edge_wait_ended(int64 workflow_id)
{
	LOCKTAG tag;

	set_tag(&tag, workflow_id);
	(void) LockRelease(&tag, ShareLock, false);
	tq_edge_wait_looked(workflow_id);
}

/*
 * Outside of savepoints, the work of the transaction can no longer be rolled
 * back separately.
 */
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

/* Called under the edge lock: has this open transaction announced a wait? */
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

/* Does this transaction still have to check the instance again? */
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

/* Returns the highest id of these instances, or 0 if the list is empty. */
int64
tq_edge_wait_last_left(void)
{
	int64 last = 0;

	for (int i = 0; i < left_count; i++)
		last = Max(last, left[i]);
	return last;
}

/*
 * A lock on the index of edges announces a wait; a lock on the table is the
 * edge lock.
 */
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
