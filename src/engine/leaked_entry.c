/*
 * leaked_entry.c
 *		Entries of shared memory whose queue or worker no longer exists.
 *
 * A transaction that drops a queue or ends a worker removes their counters and
 * metrics after it commits.  A prepared transaction does not, since it keeps
 * no intents (xact/xact.c).  A session that does not know yet that a queue was
 * dropped may create an entry for it again.  Such entries are found here: no
 * row of taskq.queue, or of an active worker, has their number.
 *
 * An entry may belong to a row that no snapshot sees yet because its
 * transaction is open, and a row deleted by an open or prepared transaction
 * may come back.  Both count as existing rows.  A row is always older than its
 * entry, so entries are read before rows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/code.h"
#include "base/spi.h"
#include "engine/leaked_entry.h"
#include "shared/counter.h"
#include "shared/metric.h"
#include "store/snapshot.h"

#define WORKER_STATE_COLUMN 3 /* of taskq.worker */

/* Find the numbers that no row has. */
static TqStmt stmt_no_queue = {
	"SELECT n.id FROM unnest($1) n(id)"
	" WHERE NOT EXISTS (SELECT FROM taskq.queue q WHERE q.queue_id = n.id)",
	{INT4ARRAYOID}};

static TqStmt stmt_no_worker = {
	"SELECT n.id FROM unnest($1) n(id)"
	" WHERE NOT EXISTS (SELECT FROM taskq.worker w WHERE w.worker_id = n.id"
	"                      AND w.state = " TQ_SQL_WORKER_ACTIVE ")",
	{INT4ARRAYOID}};

static int  add_gone(TqLeakedEntry *found, TqLeakedKind kind, int32 *ids,
					 int count);
static bool is_open(Oid table, Oid pkey, int32 id, AttrNumber state_column);

/* Find all leaked entries of this database. */
int
tq_leaked_entry_find(TqLeakedEntry **found)
{
	int32 *queues;
	int32 *workers;
	int32 *metrics;
	int    queue_count = tq_counter_list(TQ_OWNER_QUEUE, &queues);
	int    worker_count = tq_counter_list(TQ_OWNER_WORKER, &workers);
	int    metric_count = tq_metric_list(&metrics);
	int    count = 0;

	*found = palloc_extended(
		sizeof(TqLeakedEntry) *
			((Size) queue_count + worker_count + metric_count + 1),
		MCXT_ALLOC_HUGE);
	tq_snapshot_push_latest();
	count +=
		add_gone(*found + count, TQ_LEAKED_QUEUE_COUNTER, queues, queue_count);
	count += add_gone(*found + count, TQ_LEAKED_WORKER_COUNTER, workers,
					  worker_count);
	count += add_gone(*found + count, TQ_LEAKED_QUEUE_METRICS, metrics,
					  metric_count);
	tq_snapshot_pop();
	return count;
}

void
tq_leaked_entry_free(const TqLeakedEntry *entry)
{
	switch (entry->kind)
	{
		case TQ_LEAKED_QUEUE_COUNTER:
			tq_counter_free(TQ_OWNER_QUEUE, entry->id);
			break;
		case TQ_LEAKED_WORKER_COUNTER:
			tq_counter_free(TQ_OWNER_WORKER, entry->id);
			break;
		case TQ_LEAKED_QUEUE_METRICS:
			tq_metric_forget(entry->id);
			break;
	}
}

/* Add the entries without a row, and free the list. */
static int
add_gone(TqLeakedEntry *found, TqLeakedKind kind, int32 *ids, int count)
{
	bool   of_worker = kind == TQ_LEAKED_WORKER_COUNTER;
	Datum  arg = tq_spi_int4_array(ids, count);
	int    added = 0;
	int32 *gone;
	uint64 rows;

	pfree(ids);
	if (count == 0)
		return 0;
	rows = tq_spi_list_int4(of_worker ? &stmt_no_worker : &stmt_no_queue, &arg,
							&gone);
	for (uint64 i = 0; i < rows; i++)
	{
		bool open =
			of_worker
				? is_open(tq_catalog()->worker, tq_catalog()->worker_pkey,
						  gone[i], WORKER_STATE_COLUMN)
				: is_open(tq_catalog()->queue, tq_catalog()->queue_pkey,
						  gone[i], InvalidAttrNumber);

		if (!open)
			found[added++] = (TqLeakedEntry){kind, gone[i]};
	}
	return added;
}

/*
 * Is there a row with that number (for a worker, an active one), or may there
 * be one when the open transactions have ended?
 */
static bool
is_open(Oid table, Oid pkey, int32 id, AttrNumber state_column)
{
	Relation        rel = tq_catalog_open_table(table, AccessShareLock);
	Relation        index = tq_catalog_open_index(pkey, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	IndexScanDesc   scan;
	SnapshotData    dirty;
	ScanKeyData     key;
	bool            open = false;

	CHECK_FOR_INTERRUPTS();
	InitDirtySnapshot(dirty);
	ScanKeyInit(&key, 1, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(id));
	scan = tq_compat_index_beginscan(rel, index, &dirty, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	while (!open && index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool isnull;

		open = state_column == InvalidAttrNumber ||
			   DatumGetInt16(slot_getattr(slot, state_column, &isnull)) ==
				   TQ_WORKER_ACTIVE;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return open;
}
