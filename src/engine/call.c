/*
 * call.c
 *		One SQL call, from its beginning to its end.
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
#include "store/table.h"

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
	tq_table_begin(&call->task, tq_catalog()->task, call->context);
	tq_queue_refresh();
	CommandCounterIncrement();
	call->moment = tq_dead_range_moment();
	call->ring_moment = tq_claim_ring_moment();
	tq_snapshot_push();
}

/* Begin an SQL call that only looks, also on a standby. */
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

/* The same for a call that may learn what is dead. */
void
tq_call_renew(TqCall *call)
{
	TqDeadRangeMoment moment = tq_dead_range_moment();
	uint64            ring_moment = tq_claim_ring_moment();

	tq_snapshot_renew();
	call->moment = moment;
	call->ring_moment = ring_moment;
}

/* See to what follows in workflows from what the call has done. */
void
tq_call_advance(TqCall *call)
{
	if (call->steps == NIL)
		return;
	tq_row_flush(call);
	call->many = false;
	/* who makes a queue for a dead letter has done nothing in instances yet */
	if (call->at_end != NULL)
		call->at_end(call);
	call->advance(call);
}

void
tq_call_end(TqCall *call)
{
	tq_call_advance(call);
	tq_row_flush(call);
	call->many = false;
	call->lines_later = false;
	if (call->unsettled != NULL)
		call->settle(call);
	if (call->at_end != NULL)
		call->at_end(call);
	tq_key_end(call);
	tq_table_end(&call->history);
	tq_table_end(&call->leaf);
	tq_table_end(&call->task);
	PopActiveSnapshot();
	CommandCounterIncrement();
}
