/*
 * forget_lane.c
 *		Removal of sets of tags without live tasks.
 *
 * A lane is removed under the lock that blocks insertions into taskq.task
 * (tq_queue_lock_insertions): a producer that gets the lock later processes
 * the announcement and creates the lane again.  Since every producer waits for
 * the lock, one short attempt is made to acquire it, and it is held briefly:
 * empty lanes are found before, without the lock, and checked again under it,
 * for at most LOCKED_MS.
 *
 * Queues with few lanes are skipped: their lanes are reused, and each lane
 * that is created again makes all sessions read their queues again.
 *
 * A lane is empty if its first entries in the dispatch index lead to no row
 * that the snapshot sees.  A lane with more than ENTRIES dead entries is left
 * until vacuum has removed them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "command/queue_admin.h"
#include "engine/call.h"
#include "maintenance/forget_lane.h"
#include "store/snapshot.h"

#define FEW (tq_guc_max_lanes / 10) /* lanes of a queue */
#define ENTRIES 1000                /* of a lane that are checked */
#define LOCKED_MS 50

static TqStmt stmt_lanes = {
	"SELECT DISTINCT lane_id FROM taskq.lane"
	" WHERE queue_id IN (SELECT queue_id FROM taskq.lane GROUP BY queue_id"
	"                    HAVING count(DISTINCT lane_id) > $1)",
	{INT4OID}};

static TqStmt stmt_forget = {"DELETE FROM taskq.lane WHERE lane_id = ANY ($1)",
							 {INT8ARRAYOID}};

static bool was_busy = false;

static int64 find_empty(TqCall *call, int64 *lanes, int64 count, int64 limit,
						int64 until);
static bool  is_empty(Relation table, Relation index, int64 lane_id);
static int64 forget(const int64 *lanes, int64 count);

/* Remove up to limit lanes in the current transaction; returns the number. */
int64
tq_forget_lane_batch(int limit)
{
	Datum  arg = Int32GetDatum(FEW);
	int64 *lanes;
	int64  count;
	int64  removed = 0;
	TqCall call;

	was_busy = false;
	/* taskq_run_reapers(): the lock might be held for an unknown time */
	if (IsTransactionBlock() || IsolationUsesXactSnapshot())
		return 0;
	tq_call_begin(&call, "taskq duties");
	count = (int64) tq_spi_list(&stmt_lanes, &arg, &lanes);
	count = find_empty(&call, lanes, count, limit, PG_INT64_MAX);
	was_busy = count > 0 && !tq_queue_admin_lock_out_briefly();
	if (count > 0 && !was_busy)
	{
		tq_snapshot_renew();
		count = find_empty(&call, lanes, count, limit,
						   tq_clock_monotonic() + LOCKED_MS * 1000);
		if (count > 0)
			removed = forget(lanes, count);
	}
	tq_call_end(&call);
	return removed;
}

/* Were there empty lanes whose removal other transactions prevented? */
bool
tq_forget_lane_was_busy(void)
{
	return was_busy;
}

/* Keep the empty lanes and return their number; stop at until (monotonic). */
static int64
find_empty(TqCall *call, int64 *lanes, int64 count, int64 limit, int64 until)
{
	Relation index =
		tq_catalog_open_index(tq_catalog()->task_dispatch, AccessShareLock);
	int64 kept = 0;

	for (int64 i = 0; i < count && kept < limit; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (tq_clock_monotonic() >= until)
			break;
		if (is_empty(call->task.rel, index, lanes[i]))
			lanes[kept++] = lanes[i];
	}
	index_close(index, NoLock);
	return kept;
}

static bool
is_empty(Relation table, Relation index, int64 lane_id)
{
	TupleTableSlot *slot = table_slot_create(table, NULL);
	ScanKeyData     key;
	IndexScanDesc   scan;
	bool            found = false;

	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(lane_id));
	scan = tq_compat_index_beginscan(table, index, GetActiveSnapshot(), 1);
	index_rescan(scan, &key, 1, NULL, 0);
	for (int i = 0; !found && index_getnext_tid(scan, ForwardScanDirection);
		 i++)
		found = i >= ENTRIES || index_fetch_heap(scan, slot);
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	return !found;
}

static int64
forget(const int64 *lanes, int64 count)
{
	Datum arg = tq_spi_int8_array(lanes, (int) count);

	tq_spi_execute(&stmt_forget, &arg, NULL, SPI_OK_DELETE);
	tq_catalog_announce_queue();
	return count;
}
