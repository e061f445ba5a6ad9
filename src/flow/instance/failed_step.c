/*
 * failed_step.c
 *		Finds out whether a step of an instance has failed.
 *
 * A failed step is dead, or a call has cancelled it or made it redundant.  A
 * dead step that passes on does not count, since it holds nothing up, nor does
 * a step that was cancelled because another one had failed.
 *
 * Many steps may have failed, and be repaired one after the other.  The search
 * therefore begins at the step that has moved, and proceeds in both directions
 * by turns: it reads twice as many index entries as there are up to the next
 * failed step.  Repaired steps leave their entries behind while there is an
 * old snapshot, but each repair joins two runs of entries without a failed
 * step, and costs no more than the shorter one.  So whatever the order of the
 * repairs, all of them together read about n log n entries.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "flow/instance/failed_step.h"
#include "flow/instance/step_rule.h"
#include "flow/instance/step_walk.h"
#include "store/task.h"

static bool is_failed(const TqTemplate *template, int place,
					  TupleTableSlot *slot);

/*
 * Has a step failed, or is a member of the batch dead whose members have the
 * index place?  Sees what is committed now, and what this call did.  The
 * search begins at the step near.
 */
bool
tq_failed_step_any(const TqFlow *flow, int place, int32 near)
{
	Relation keep = tq_catalog_open_table(tq_catalog()->leaf[TQ_LEAF_KEEP],
										  AccessShareLock);
	Relation index =
		tq_catalog_open_index(tq_catalog()->keep_workflow, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(keep, NULL);
	bool            found = false;
	Snapshot        snapshot;
	TqStepWalk      walks[2];

	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	tq_step_walk_begin(&walks[0], keep, index, snapshot, flow->workflow_id,
					   near, ForwardScanDirection);
	tq_step_walk_begin(&walks[1], keep, index, snapshot, flow->workflow_id,
					   near, BackwardScanDirection);
	for (int i = 0; !found && !(walks[0].over && walks[1].over); i = 1 - i)
	{
		CHECK_FOR_INTERRUPTS();
		found = tq_step_walk_next(&walks[i]) &&
				index_fetch_heap(walks[i].scan, slot) &&
				is_failed(flow->template, place, slot);
	}
	for (int i = 0; i < lengthof(walks); i++)
		tq_step_walk_end(&walks[i]);
	UnregisterSnapshot(snapshot);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(keep, NoLock);
	return found;
}

static bool
is_failed(const TqTemplate *template, int place, TupleTableSlot *slot)
{
	bool  isnull;
	int32 step_id = DatumGetInt32(slot_getattr(slot, TQ_COL_STEP_ID, &isnull));
	int   index = TQ_STEP_INDEX(step_id);
	TqState state =
		(TqState) DatumGetInt16(slot_getattr(slot, TQ_COL_STATE, &isnull));
	TqReason reason =
		(TqReason) DatumGetInt16(slot_getattr(slot, TQ_COL_REASON, &isnull));

	/* rows written by hand may have any step_id */
	if (TQ_STEP_COMPENSATES(step_id) || index >= template->step_count)
		return false;
	if (place != TQ_ALL_PLACES && place != index)
		return false;
	if (state == TQ_STATE_DEAD)
		return !tq_step_rule_passes_on(template, step_id);
	return place == TQ_ALL_PLACES &&
		   (state == TQ_STATE_CANCELLED || state == TQ_STATE_REDUNDANT) &&
		   reason != TQ_REASON_DEPENDENCY_FAILED;
}
