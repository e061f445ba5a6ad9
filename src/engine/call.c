/*
 * call.c
 *		One SQL call, from its beginning to its end.
 *
 * Every SQL function that changes tasks runs between tq_call_begin and
 * tq_call_end; a function that only reads begins with tq_call_begin_look.  The
 * state of the call (open tables, locked keys, steps that have moved) is in
 * TqCall and is allocated in call->context, the memory context at its
 * beginning.  An error needs no cleanup: the abort releases it.
 *
 * The beginning refreshes the cache of queues (tq_queue_refresh).  A pointer
 * to a queue is valid until the next refresh: code that has waited for a lock
 * refreshes and looks the queue up again.  The moments of dead ranges and
 * claim rings are read before the snapshot is taken, since a claim may only
 * record what a later snapshot has seen.
 *
 * The end of the call processes what the call has recorded, in this order:
 *
 * 1. Workflows advance.  Before that, rows held back for one insertion are
 *    written, since steps are looked up, and dead letters are created: they
 *    may create a queue, and a call that has changed an instance must not wait
 *    for that.
 * 2. Rows held back since then are written.
 * 3. Keys of lists are settled, which may release tasks.
 * 4. Dead letters of tasks that died are created.
 *
 * The layers above do 1, 3 and 4 (tq_call_hooks).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "cache/queue.h"
#include "engine/call.h"
#include "engine/key.h"
#include "shared/claim_ring.h"
#include "shared/dead_range.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "store/table_open.h"

TqCallHooks tq_call_hooks = {NULL};

/*
 * Begin an SQL call that changes tasks.
 */
void
tq_call_begin(TqCall *call, const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandIfParallelMode(function);
	memset(call, 0, sizeof(*call));
	call->context = CurrentMemoryContext;
	tq_table_begin(&call->task, tq_catalog()->task, TQ_TASK_COLUMNS,
				   call->context);
	tq_queue_refresh();
	CommandCounterIncrement();
	call->moment = tq_dead_range_moment();
	call->ring_moment = tq_claim_ring_moment();
	tq_snapshot_push();
}

/* Begin an SQL call that only reads; also works on a standby. */
void
tq_call_begin_look(TqCall *call)
{
	memset(call, 0, sizeof(*call));
	call->context = CurrentMemoryContext;
	call->task.context = CurrentMemoryContext;
	call->task.rel =
		tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	tq_queue_refresh();
	CommandCounterIncrement();
	tq_snapshot_push();
}

/*
 * Take a new snapshot within a call, and new moments for the ranges that it
 * may record.
 */
void
tq_call_renew(TqCall *call)
{
	TqDeadRangeMoment moment = tq_dead_range_moment();
	uint64            ring_moment = tq_claim_ring_moment();

	tq_snapshot_renew();
	call->moment = moment;
	call->ring_moment = ring_moment;
}

TqSteps *
tq_call_steps(TqCall *call)
{
	if (call->steps == NULL)
		call->steps = MemoryContextAllocZero(call->context, sizeof(TqSteps));
	return call->steps;
}

/* Process the consequences of the call in workflows. */
void
tq_call_advance(TqCall *call)
{
	if (call->steps == NULL || call->steps->moved == NIL)
		return;
	tq_row_flush(call);
	call->many = false;
	/* create queues for dead letters before any instance is changed */
	if (call->dead != NIL)
		tq_call_hooks.dead_letters(call);
	tq_call_hooks.advance(call);
}

void
tq_call_end(TqCall *call)
{
	tq_call_advance(call);
	tq_row_flush(call);
	call->many = false;
	if (call->keys != NULL)
		call->keys->settle_later = false;
	if (call->keys != NULL && call->keys->unsettled != NULL)
		tq_call_hooks.settle(call);
	if (call->dead != NIL)
		tq_call_hooks.dead_letters(call);
	tq_key_end(call);
	tq_table_end(&call->history);
	tq_table_end(&call->leaf);
	tq_table_end(&call->task);
	PopActiveSnapshot();
	CommandCounterIncrement();
}
