/*
 * step_rows.c
 *		Finds the tasks of an instance by their step ids.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "flow/instance/step_rows.h"
#include "store/row.h"

static void set_keys(const TqStepRows *rows, int32 step_id, ScanKeyData *keys);

void
tq_step_rows_begin(TqStepRows *rows, TqCall *call, int64 workflow_id)
{
	Relation index =
		tq_catalog_open_index(tq_catalog()->task_workflow, AccessShareLock);

	rows->call = call;
	rows->workflow_id = workflow_id;
	rows->scan = tq_compat_index_beginscan(call->task.rel, index,
										   GetActiveSnapshot(), 2);
}

void
tq_step_rows_end(TqStepRows *rows)
{
	Relation index = rows->scan->indexRelation;

	index_endscan(rows->scan);
	index_close(index, NoLock);
}

/*
 * Find the task of a step.  Returns false if it does not exist or the snapshot
 * does not see it.
 */
bool
tq_step_rows_find(TqStepRows *rows, int32 step_id, TqTask *task)
{
	Relation        rel = rows->call->task.rel;
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	ScanKeyData     keys[2];
	bool            should_free;
	bool            found;

	set_keys(rows, step_id, keys);
	rows->scan->xs_snapshot = GetActiveSnapshot();
	index_rescan(rows->scan, keys, 2, NULL, 0);
	found = index_getnext_slot(rows->scan, ForwardScanDirection, slot);
	if (found)
		tq_row_read(ExecFetchSlotHeapTuple(slot, false, &should_free),
					RelationGetDescr(rel), task);
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

/*
 * Is there a row of a step that the snapshot does not see?  Sets *other to the
 * transaction that is creating the row, if it is still open.
 */
bool
tq_step_rows_is_made(TqStepRows *rows, int32 step_id, TransactionId *other)
{
	TupleTableSlot *slot = table_slot_create(rows->call->task.rel, NULL);
	SnapshotData    dirty;
	ScanKeyData     keys[2];
	bool            found;

	InitDirtySnapshot(dirty);
	set_keys(rows, step_id, keys);
	rows->scan->xs_snapshot = &dirty;
	index_rescan(rows->scan, keys, 2, NULL, 0);
	found = index_getnext_slot(rows->scan, ForwardScanDirection, slot);
	if (found)
		*other = dirty.xmin;
	ExecDropSingleTupleTableSlot(slot);
	rows->scan->xs_snapshot = GetActiveSnapshot();
	return found;
}

static void
set_keys(const TqStepRows *rows, int32 step_id, ScanKeyData *keys)
{
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(rows->workflow_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(step_id));
}
