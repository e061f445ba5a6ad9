/*
 * edge.c
 *		Dependencies between the steps of an instance.
 *
 * A row of taskq.edge says that a step (child) of an instance waits for
 * another step (parent).  When a step is made, the edges to all of its
 * children are written with it, whether or not the children exist yet.  A step
 * on which no other depends, or which decides what other steps there will be,
 * also has an edge to the end of the instance (TQ_EDGE_END).  An edge is
 * deleted only when its parent ends.
 *
 * The transaction that ends the parent checks, under a lock of the instance
 * that it holds only briefly, which edges to each child are left.  If an edge
 * to a child is left, the transaction that deletes it will check later, and
 * the first transaction has finished with the child.  If the only edges left
 * have been deleted by open transactions, those transactions saw the edge that
 * the first transaction deleted; so exactly one transaction has to wait for
 * them, and then checks again.  Transactions that end siblings do not wait
 * while another parent is open.
 *
 * A transaction that has to wait announces the wait (edge_wait.c), and
 * afterwards checks again all children whose edges it has deleted
 * (tq_edge_mine).  In the meantime other transactions do not wait for this
 * transaction, but leave these children to it.  A transaction waits only for a
 * transaction that has advanced the instance.  The latter may advance the
 * instance once more, if a step that it began has ended immediately; it then
 * leaves the children to the transactions that wait for it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/relscan.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "storage/lock.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/error.h"
#include "base/spi.h"
#include "flow/instance/edge.h"
#include "flow/instance/edge_wait.h"
#include "store/tuple_lock.h"

/* Number of index entries to check before the scan changes its direction. */
#define FIRST_STRETCH 8
#define LAST_STRETCH (INT_MAX / 4)

static TqStmt stmt_add = {
	"INSERT INTO taskq.edge (workflow_id, child, parent)"
	" SELECT $1, e.child, e.parent FROM unnest($2, $3) AS e (child, parent)"
	/* a child chosen before its parent was made already has the edge */
	" ON CONFLICT (workflow_id, child, parent) DO NOTHING",
	{INT8OID, INT4ARRAYOID, INT4ARRAYOID},
	.generic = true};

static TqStmt stmt_remove = {
	"DELETE FROM taskq.edge d USING unnest($2, $3) AS e (child, parent)"
	" WHERE d.workflow_id = $1 AND d.child = e.child AND d.parent = e.parent",
	{INT8OID, INT4ARRAYOID, INT4ARRAYOID}};

static void set_tag(LOCKTAG *tag, int64 workflow_id);
static bool find(TqEdges *edges, int64 workflow_id, int32 child, int32 parent);
static TqLeft left_near(TqEdges *edges, int64 workflow_id, int32 child,
						int32 near, StrategyNumber strategy_after,
						TransactionId *other);
static TqLeft look(TqEdges *edges, int64 workflow_id, int32 child,
				   StrategyNumber strategy, int32 parent, int stretch,
				   bool *more, TransactionId *other);
static void   set_keys(ScanKeyData *keys, int64 workflow_id, int32 child,
					   StrategyNumber strategy, int32 parent);
static void   run_for_all(TqStmt *stmt, int expected, int64 workflow_id,
						  const TqNewEdges *all);

/*
 * The lock is held only while edges of an instance are checked.  Two instances
 * with the same lower bits of their ids share a lock.
 */
void
tq_edge_lock(int64 workflow_id)
{
	LOCKTAG tag;

	set_tag(&tag, workflow_id);
	(void) LockAcquire(&tag, ExclusiveLock, false, false);
}

void
tq_edge_unlock(int64 workflow_id)
{
	LOCKTAG tag;

	set_tag(&tag, workflow_id);
	(void) LockRelease(&tag, ExclusiveLock, false);
}

/* Does this session hold the lock of the instance?  For assertions. */
bool
tq_edge_is_locked(int64 workflow_id)
{
	LOCKTAG tag;

	set_tag(&tag, workflow_id);
	return tq_compat_lock_held(&tag, ExclusiveLock);
}

static void
set_tag(LOCKTAG *tag, int64 workflow_id)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, tq_catalog()->edge,
					   (uint32) workflow_id, (uint16) (workflow_id >> 32));
}

void
tq_edge_begin(TqEdges *edges)
{
	edges->rel = tq_catalog_open_table(tq_catalog()->edge, RowExclusiveLock);
	edges->index =
		tq_catalog_open_index(tq_catalog()->edge_pkey, AccessShareLock);
	edges->scan = tq_compat_index_beginscan(edges->rel, edges->index,
											GetActiveSnapshot(), 3);
	edges->slot = table_slot_create(edges->rel, NULL);
}

void
tq_edge_end(TqEdges *edges)
{
	index_endscan(edges->scan);
	ExecDropSingleTupleTableSlot(edges->slot);
	index_close(edges->index, NoLock);
	table_close(edges->rel, NoLock);
}

/*
 * Is there an edge?  Sees the current edges, including those that this call
 * has added, but not those that another transaction is adding.
 */
bool
tq_edge_has(TqEdges *edges, int64 workflow_id, int32 child, int32 parent)
{
	bool found = find(edges, workflow_id, child, parent);

	ExecClearTuple(edges->slot);
	return found;
}

/*
 * Delete the edge of a parent that has ended.  Returns false if there was
 * none.
 */
bool
tq_edge_delete(TqEdges *edges, int64 workflow_id, int32 child, int32 parent)
{
	TM_FailureData  failure;
	ItemPointerData tid;

	if (!find(edges, workflow_id, child, parent))
		return false;
	tid = edges->slot->tts_tid;
	ExecClearTuple(edges->slot);
	if (table_tuple_delete(edges->rel, &tid, GetCurrentCommandId(true),
						   GetActiveSnapshot(), InvalidSnapshot, true,
						   &failure, false) != TM_Ok)
		tq_error_serialization();
	return true;
}

/* Find an edge and store it in the slot.  Returns false if there is none. */
static bool
find(TqEdges *edges, int64 workflow_id, int32 child, int32 parent)
{
	ScanKeyData keys[3];
	bool        found;

	set_keys(keys, workflow_id, child, BTEqualStrategyNumber, parent);
	edges->scan->xs_snapshot = SnapshotSelf;
	index_rescan(edges->scan, keys, 3, NULL, 0);
	found = index_getnext_slot(edges->scan, ForwardScanDirection, edges->slot);
	edges->scan->xs_snapshot = GetActiveSnapshot();
	return found;
}

/*
 * Find out which edges to a child are left.  The scan begins at the edge of
 * one parent, which has ended, and alternates between both directions.
 * Deleted edges leave their index entries behind while there is an old
 * snapshot, but the next edge that is left is never farther away than the
 * shorter run of such entries.  So each scan finds a remaining edge after a
 * few entries, whatever the number of parents that have ended, and in whatever
 * order they have ended.
 */
TqLeft
tq_edge_left(TqEdges *edges, int64 workflow_id, int32 child, int32 near,
			 TransactionId *other)
{
	return left_near(edges, workflow_id, child, near,
					 BTGreaterEqualStrategyNumber, other);
}

/* Does the child wait for a step other than this parent? */
bool
tq_edge_any_other(TqEdges *edges, int64 workflow_id, int32 child, int32 parent)
{
	TransactionId other;

	return left_near(edges, workflow_id, child, parent,
					 BTGreaterStrategyNumber, &other) == TQ_LEFT_OPEN;
}

/* strategy_after says whether the scan forward includes near itself. */
static TqLeft
left_near(TqEdges *edges, int64 workflow_id, int32 child, int32 near,
		  StrategyNumber strategy_after, TransactionId *other)
{
	TqLeft after = TQ_LEFT_NONE;
	TqLeft before = TQ_LEFT_NONE;
	bool   more_after = true;
	bool   more_before = near > 0;

	for (int stretch = FIRST_STRETCH; more_after || more_before;
		 stretch = Min(stretch, LAST_STRETCH) * 4)
	{
		if (more_after)
			after = look(edges, workflow_id, child, strategy_after, near,
						 stretch, &more_after, other);
		if (more_before && after != TQ_LEFT_OPEN)
			before = look(edges, workflow_id, child, BTLessStrategyNumber,
						  near, stretch, &more_before, other);
		if (after == TQ_LEFT_OPEN || before == TQ_LEFT_OPEN)
			return TQ_LEFT_OPEN;
	}
	return after == TQ_LEFT_PASSING ? after : before;
}

/* Is one particular edge left? */
TqLeft
tq_edge_one(TqEdges *edges, int64 workflow_id, int32 child, int32 parent,
			TransactionId *other)
{
	bool more;

	return look(edges, workflow_id, child, BTEqualStrategyNumber, parent,
				LAST_STRETCH, &more, other);
}

/*
 * Check at most stretch index entries.  Sets *more if there may be further
 * entries.  An edge that another transaction is adding counts as left: it is
 * added at the end of a step, which will end again if that is rolled back.  If
 * that transaction has deleted the edge, too, it left the child to this one,
 * whose edge it has seen.
 */
static TqLeft
look(TqEdges *edges, int64 workflow_id, int32 child, StrategyNumber strategy,
	 int32 parent, int stretch, bool *more, TransactionId *other)
{
	ScanDirection direction = strategy == BTLessStrategyNumber
								  ? BackwardScanDirection
								  : ForwardScanDirection;
	TqLeft        left = TQ_LEFT_NONE;
	TransactionId deleter;
	TransactionId asked = InvalidTransactionId;
	bool          asked_waits = false;
	ScanKeyData   keys[3];
	SnapshotData  dirty;

	InitDirtySnapshot(dirty);
	set_keys(keys, workflow_id, child, strategy, parent);
	edges->scan->xs_snapshot = &dirty;
	index_rescan(edges->scan, keys, 3, NULL, 0);
	*more = true;
	while (left != TQ_LEFT_OPEN && stretch-- > 0)
	{
		CHECK_FOR_INTERRUPTS();
		if (index_getnext_tid(edges->scan, direction) == NULL)
		{
			*more = false;
			break;
		}
		if (!index_fetch_heap(edges->scan, edges->slot))
			continue;
		deleter = TransactionIdIsValid(dirty.xmin)
					  ? tq_tuple_lock_past(edges->slot)
					  : dirty.xmax;
		/* most often one transaction deletes many of them */
		if (deleter != asked && TransactionIdIsValid(deleter))
		{
			asked = deleter;
			asked_waits = tq_edge_waits(workflow_id, asked);
		}
		if (TransactionIdIsValid(deleter) && !asked_waits)
		{
			left = TQ_LEFT_PASSING;
			*other = deleter;
		}
		else
			left = TQ_LEFT_OPEN;
	}
	ExecClearTuple(edges->slot);
	edges->scan->xs_snapshot = GetActiveSnapshot();
	return left;
}

static void
set_keys(ScanKeyData *keys, int64 workflow_id, int32 child,
		 StrategyNumber strategy, int32 parent)
{
	RegProcedure compare = strategy == BTEqualStrategyNumber     ? F_INT4EQ
						   : strategy == BTLessStrategyNumber    ? F_INT4LT
						   : strategy == BTGreaterStrategyNumber ? F_INT4GT
																 : F_INT4GE;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(workflow_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(child));
	ScanKeyInit(&keys[2], 3, strategy, compare, Int32GetDatum(parent));
}

/* Add to mine all edges that this transaction has deleted. */
void
tq_edge_mine(TqEdges *edges, int64 workflow_id, TqNewEdges *mine)
{
	ScanKeyData keys[3];

	/* as many keys as in the other scans */
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(workflow_id));
	for (int i = 1; i < lengthof(keys); i++)
		ScanKeyInit(&keys[i], (AttrNumber) (i + 1),
					BTGreaterEqualStrategyNumber, F_INT4GE,
					Int32GetDatum(PG_INT32_MIN));
	edges->scan->xs_snapshot = SnapshotAny;
	index_rescan(edges->scan, keys, 3, NULL, 0);
	while (index_getnext_slot(edges->scan, ForwardScanDirection, edges->slot))
	{
		HeapTuple tuple;
		bool      should_free;
		bool      isnull;

		CHECK_FOR_INTERRUPTS();
		tuple = ExecFetchSlotHeapTuple(edges->slot, false, &should_free);
		if ((tuple->t_data->t_infomask & HEAP_XMAX_INVALID) == 0 &&
			!HEAP_XMAX_IS_LOCKED_ONLY(tuple->t_data->t_infomask) &&
			TransactionIdIsCurrentTransactionId(
				HeapTupleHeaderGetUpdateXid(tuple->t_data)))
			tq_edge_note(mine,
						 DatumGetInt32(slot_getattr(edges->slot, 2, &isnull)),
						 DatumGetInt32(slot_getattr(edges->slot, 3, &isnull)));
	}
	ExecClearTuple(edges->slot);
	edges->scan->xs_snapshot = GetActiveSnapshot();
}

/* Record an edge to be added. */
void
tq_edge_note(TqNewEdges *added, int32 child, int32 parent)
{
	if (added->count == added->room)
	{
		added->room = Max(64, added->room * 2);
		added->children =
			added->children == NULL
				? palloc(sizeof(int32) * added->room)
				: repalloc_huge(added->children, sizeof(int32) * added->room);
		added->parents =
			added->parents == NULL
				? palloc(sizeof(int32) * added->room)
				: repalloc_huge(added->parents, sizeof(int32) * added->room);
	}
	added->children[added->count] = child;
	added->parents[added->count++] = parent;
}

/* Record the edges of a new step: to all of its children, and to the end. */
void
tq_edge_note_step(TqNewEdges *added, const TqStep *step, int32 step_id)
{
	for (int i = 0; i < step->children.count; i++)
		tq_edge_note(added, step->children.places[i], step_id);
	if (step->ends)
		tq_edge_note(added, TQ_EDGE_END, step_id);
}

/* Add all recorded edges with one statement. */
void
tq_edge_add(int64 workflow_id, const TqNewEdges *added)
{
	run_for_all(&stmt_add, SPI_OK_INSERT, workflow_id, added);
}

/* Delete the edges of removed steps, which no other transaction uses. */
void
tq_edge_remove(int64 workflow_id, const TqNewEdges *gone)
{
	run_for_all(&stmt_remove, SPI_OK_DELETE, workflow_id, gone);
}

static void
run_for_all(TqStmt *stmt, int expected, int64 workflow_id,
			const TqNewEdges *all)
{
	Datum args[3];

	if (all->count == 0)
		return;
	args[0] = Int64GetDatum(workflow_id);
	args[1] = tq_spi_int4_array(all->children, all->count);
	args[2] = tq_spi_int4_array(all->parents, all->count);
	(void) tq_spi_execute(stmt, args, NULL, expected);
}
