/*
 * lane_scan.c
 *		Scans of the entries of a lane in the dispatch index.
 *
 * A scan walks over one priority of one lane, in the order of positions
 * (available_at, task_id) or backward, and stops at each pending task.  It
 * passes entries of tasks that are running, gone or not committed.  Under load
 * there are many of them, and vacuum cannot remove those that an old snapshot
 * might see.  Therefore a scan skips the ranges that shared memory records as
 * dead (shared/dead_range.h), and records new ones:
 *
 * - A span consists of entries that were passed and of places known to have no
 *   entry: before the first entry, between two, behind the last.
 * - A pending task ends the span before it, and the next span begins behind
 *   it, unless the caller reports that the task was taken or that a
 *   transaction in progress is writing it (tq_lane_scan_pass).  An entry that
 *   is not due ends a span, too.
 * - A span that has new parts is recorded when it ends.  The first span is
 *   also recorded while it is walked; then the ranges are read again, since
 *   concurrent scans record their progress as well.  Thus simultaneous claims
 *   do not all read the entries of tasks that one of them has taken.  Ends of
 *   spans are positions of entries, or positions next to them, or the ends of
 *   all positions, but never a time read from a clock.
 *
 * Recording requires a snapshot that was taken for this walk after
 * call->moment was read, and hence READ COMMITTED.  Skipping is correct with
 * any snapshot: what is dead now cannot be claimed.  However, other sessions
 * do not see tasks that this transaction itself has written, and record their
 * positions as dead; at these positions no range is trusted
 * (xact/position_note.h).
 *
 * If two entries have the same position, at most one leads to a row.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/tableam.h"
#include "catalog/pg_type.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/debug.h"
#include "engine/lane_scan.h"
#include "shared/dead_range.h"
#include "xact/position_note.h"

#define OWN_RANGES (TQ_RANGES + 1) /* one may be cut into two */
#define OWN_MANY 10000             /* positions that are not searched */
#define SHARE_AFTER 8              /* passed entries */

struct TqLaneScan
{
	TqLaneScanDirection *way;
	int64                lane_id;
	int16                priority;
	TqDeadRange          ranges[OWN_RANGES];
	int                  range_count;
	IndexScanDesc        scan;
	TupleTableSlot      *slot;
	ScanKeyData          row[2]; /* the key of positions, read by scan */
	TqPosition           far;    /* the last position to walk */
	TqPosition           position;
	bool                 at_head; /* position is that of a pending task */
	bool                 ended;

	/* the span being walked, in the direction of the walk */
	TqPosition from;
	bool       from_entry; /* from becomes the first entry */
	bool above; /* from is an entry, and positions before it are unknown */
	TqPosition to;
	bool       reaches; /* to is set */
	bool       to_end;  /* there is no entry behind it */
	bool       is_news;
	bool       behind; /* a task was left before it */
	int        told;   /* spans recorded */
	int        passed; /* entries passed since progress was recorded */
};

static int          read_ranges(const TqLaneScanDirection *way, int64 lane_id,
								int16 priority, TqDeadRange *ranges);
static int          cut_own(int64 lane_id, int16 priority, TqDeadRange *ranges,
							int count);
static TqPosition   near_end(const TqLaneScanDirection *way);
static TqPosition   far_end(const TqLaneScanDirection *way);
static TqDeadRange *range_at(TqDeadRange *ranges, int count,
							 TqPosition position);
static TqPosition   edge_of(const TqLaneScanDirection *way,
							const TqDeadRange         *range);
static bool ahead(const TqLaneScanDirection *way, TqPosition a, TqPosition b);
static TqPosition  step(TqPosition position, bool down);
static TqLaneScan *make_scan(TqLaneScanDirection *way, int64 lane_id,
							 int16 priority);
static void        start_behind(TqLaneScan *scan, TqPosition position);
static bool        next_entry(TqLaneScan *scan);
static bool        jump(TqLaneScan *scan);
static bool        is_pending(const TqLaneScan *scan);
static void        pass(TqLaneScan *scan);
static void        reach(TqLaneScan *scan, TqPosition position);
static void        reach_end(TqLaneScan *scan);
static void        leave(TqLaneScan *scan);
static void        tell_span(TqLaneScan *scan);
static void        share(TqLaneScan *scan);
static void        tell(TqLaneScan *scan, TqPosition from, TqPosition to);
static TqPosition  below_next(TqLaneScan *scan);
static void        lane_key(ScanKeyData *key, int64 lane_id);
static TqPosition  entry_position(IndexScanDesc scan);

/* Prepare a walk that begins now, with the active snapshot. */
void
tq_lane_scan_prepare(TqLaneScanDirection *way, TqCall *call, Relation index)
{
	memset(way, 0, sizeof(*way));
	way->call = call;
	way->index = index;
	way->own = tq_position_note_offered() > 0;
	way->jumps = tq_position_note_offered() <= OWN_MANY;
}

/*
 * Find *bound: no entry before it, in the direction of the walk, leads to a
 * claimable task.  Returns false if no entry does.  Does not read the index.
 */
bool
tq_lane_scan_bound(const TqLaneScanDirection *way, int64 lane_id,
				   int16 priority, TqPosition *bound)
{
	TqDeadRange  ranges[OWN_RANGES];
	int          count = read_ranges(way, lane_id, priority, ranges);
	TqDeadRange *first = range_at(ranges, count, near_end(way));

	*bound = first != NULL ? edge_of(way, first) : near_end(way);
	return ahead(way, far_end(way), *bound);
}

/* Open a scan; it is positioned before its first entry. */
TqLaneScan *
tq_lane_scan_open(TqLaneScanDirection *way, int64 lane_id, int16 priority)
{
	TqLaneScan  *scan = make_scan(way, lane_id, priority);
	TqDeadRange *first;

	scan->range_count = read_ranges(way, lane_id, priority, scan->ranges);
	first = range_at(scan->ranges, scan->range_count, near_end(way));
	scan->far = far_end(way);
	if (first != NULL)
	{
		scan->from = scan->to = edge_of(way, first);
		scan->reaches = true;
		scan->ended = !ahead(way, scan->far, scan->to);
		if (!scan->ended)
			start_behind(scan, scan->to);
		return scan;
	}
	scan->from = near_end(way);
	scan->from_entry = way->backward;
	start_behind(scan, way->backward ? step(scan->from, false) : scan->from);
	return scan;
}

/* Open a scan over everything that a range records as dead. */
TqLaneScan *
tq_lane_scan_open_range(TqLaneScanDirection *way, int64 lane_id,
						int16 priority, const TqDeadRange *range)
{
	TqLaneScan *scan = make_scan(way, lane_id, priority);

	Assert(!way->backward && !way->learns);
	scan->far = range->hi;
	scan->from = range->lo;
	start_behind(scan, step(range->lo, true));
	return scan;
}

/*
 * Move to the next pending task; return false at the end.  The task before it
 * ends a span, unless it was passed.
 */
bool
tq_lane_scan_next(TqLaneScan *scan)
{
	if (scan->at_head)
		leave(scan);
	while (!scan->ended && next_entry(scan))
	{
		CHECK_FOR_INTERRUPTS();
		if (tq_lane_scan_spent(scan->way))
		{
			scan->ended = true;
			break;
		}
		if (jump(scan))
			continue;
		if (index_fetch_heap(scan->scan, scan->slot) && is_pending(scan))
		{
			scan->at_head = true;
			return true;
		}
		pass(scan);
	}
	return false;
}

/*
 * The current task cannot be claimed until its position is published again.
 */
void
tq_lane_scan_pass(TqLaneScan *scan)
{
	Assert(scan->at_head);
	scan->at_head = false;
	pass(scan);
}

/*
 * Get the entries that come next, for other claims.  If the scan has left a
 * task, there are no such entries.  Reads only the index; the scan cannot be
 * continued.
 */
int
tq_lane_scan_ahead(TqLaneScan *scan, TqCandidate *candidates, int max)
{
	int count = 0;

	if (scan->at_head || scan->behind || scan->ended)
		return 0;
	scan->ended = true;
	while (count < max &&
		   index_getnext_tid(scan->scan, ForwardScanDirection) != NULL)
	{
		TqPosition position = entry_position(scan->scan);

		if (ahead(scan->way, position, scan->far))
			break;
		if (range_at(scan->ranges, scan->range_count, position) != NULL)
			continue;
		candidates[count].position = position;
		candidates[count++].tid = scan->scan->xs_heaptid;
	}
	return count;
}

/*
 * Fetch the row of a candidate into the slot; return false if it does not
 * exist, or is not a pending task at the candidate's position.
 */
bool
tq_lane_scan_fetch(TqLaneScanDirection *way, int64 lane_id, int16 priority,
				   const TqCandidate *at, TupleTableSlot *slot)
{
	Relation             rel = way->call->task.rel;
	ItemPointerData      tid = at->tid;
	IndexFetchTableData *fetch;
	bool                 again = false;
	bool                 found;
	bool                 should_free;
	const TqTaskFixed   *row;

	/*
	 * The table may have been truncated before it was opened, but not while it
	 * is open.
	 */
	if (way->blocks == 0)
		way->blocks = RelationGetNumberOfBlocks(rel);
	if (ItemPointerGetBlockNumber(&tid) >= way->blocks)
		return false;
	fetch = table_index_fetch_begin(rel);
	found = table_index_fetch_tuple(fetch, &tid, GetActiveSnapshot(), slot,
									&again, NULL);
	table_index_fetch_end(fetch);
	if (!found)
		return false;
	row = (TqTaskFixed *) GETSTRUCT(
		ExecFetchSlotHeapTuple(slot, false, &should_free));
	return row->state == TQ_STATE_PENDING && row->lane_id == lane_id &&
		   row->priority == priority && row->task_id == at->position.task_id &&
		   row->available_at == at->position.at &&
		   row->available_at <= way->now;
}

/* End the scan, and record its spans. */
void
tq_lane_scan_close(TqLaneScan *scan)
{
	if (scan->at_head)
		leave(scan);
	else
		tell_span(scan);
	if (scan->scan != NULL)
		index_endscan(scan->scan);
	ExecDropSingleTupleTableSlot(scan->slot);
	pfree(scan);
}

TqPosition
tq_lane_scan_position(const TqLaneScan *scan)
{
	return scan->position;
}

/* Return the row of the current task. */
TupleTableSlot *
tq_lane_scan_slot(const TqLaneScan *scan)
{
	return scan->slot;
}

/* Read the dead ranges that this transaction may trust, sorted. */
static int
read_ranges(const TqLaneScanDirection *way, int64 lane_id, int16 priority,
			TqDeadRange *ranges)
{
	int count;

	if (!way->jumps)
		return 0;
	count = tq_dead_range_read(lane_id, priority, ranges);
	if (way->own && count > 0)
		count = cut_own(lane_id, priority, ranges, count);
	return count;
}

/* Cut the positions where this transaction has put tasks out of the ranges. */
static int
cut_own(int64 lane_id, int16 priority, TqDeadRange *ranges, int count)
{
	TqDeadRange    cut[OWN_RANGES];
	TqLanePosition first;
	TqLanePosition last;
	TqPosition     lo;
	TqPosition     hi;
	int            kept = 0;

	if (!tq_position_note_first(lane_id, priority, false, &first) ||
		!tq_position_note_first(lane_id, priority, true, &last))
		return count;
	lo = step((TqPosition){first.available_at, first.task_id}, true);
	hi = step((TqPosition){last.available_at, last.task_id}, false);
	for (int i = 0; i < count && kept < OWN_RANGES; i++)
	{
		TqDeadRange below = ranges[i];
		TqDeadRange above = ranges[i];

		if (tq_scan_compare(lo, below.hi) < 0)
			below.hi = lo;
		if (tq_scan_compare(above.lo, hi) < 0)
			above.lo = hi;
		if (tq_scan_compare(below.lo, below.hi) <= 0)
			cut[kept++] = below;
		if (kept < OWN_RANGES && tq_scan_compare(above.lo, above.hi) <= 0)
			cut[kept++] = above;
	}
	memcpy(ranges, cut, sizeof(TqDeadRange) * kept);
	return kept;
}

/*
 * Return the first position to walk; it comes from the clock, so it is never
 * recorded.
 */
static TqPosition
near_end(const TqLaneScanDirection *way)
{
	if (way->backward || way->later)
		return (TqPosition){way->now, PG_INT64_MAX};
	return TQ_DEAD_RANGE_BEGIN;
}

/* Return the last position to walk; it comes from the clock, too. */
static TqPosition
far_end(const TqLaneScanDirection *way)
{
	if (way->backward)
		return TQ_DEAD_RANGE_BEGIN;
	if (way->later)
		return (TqPosition){DT_NOEND, PG_INT64_MIN};
	return (TqPosition){way->now, PG_INT64_MAX};
}

static TqDeadRange *
range_at(TqDeadRange *ranges, int count, TqPosition position)
{
	for (int i = 0; i < count; i++)
	{
		if (tq_scan_compare(ranges[i].lo, position) <= 0 &&
			tq_scan_compare(position, ranges[i].hi) <= 0)
			return &ranges[i];
	}
	return NULL;
}

/* Return where a walk leaves a range. */
static TqPosition
edge_of(const TqLaneScanDirection *way, const TqDeadRange *range)
{
	return way->backward ? range->lo : range->hi;
}

/* Does a walk reach a after b? */
static bool
ahead(const TqLaneScanDirection *way, TqPosition a, TqPosition b)
{
	int order = tq_scan_compare(a, b);

	return way->backward ? order < 0 : order > 0;
}

/* Return the position next to another one. */
static TqPosition
step(TqPosition position, bool down)
{
	if (down)
	{
		if (position.task_id > PG_INT64_MIN)
			position.task_id--;
		else if (position.at > PG_INT64_MIN)
		{
			position.at--;
			position.task_id = PG_INT64_MAX;
		}
	}
	else if (position.task_id < PG_INT64_MAX)
		position.task_id++;
	else if (position.at < PG_INT64_MAX)
	{
		position.at++;
		position.task_id = PG_INT64_MIN;
	}
	return position;
}

static TqLaneScan *
make_scan(TqLaneScanDirection *way, int64 lane_id, int16 priority)
{
	TqLaneScan *scan = palloc0(sizeof(TqLaneScan));

	scan->way = way;
	scan->lane_id = lane_id;
	scan->priority = priority;
	scan->slot = table_slot_create(way->call->task.rel, NULL);
	return scan;
}

/* Set the index scan to the first entry behind a position. */
static void
start_behind(TqLaneScan *scan, TqPosition position)
{
	TqLaneScanDirection *way = scan->way;
	StrategyNumber       strategy = way->backward ? BTLessStrategyNumber
												  : BTGreaterStrategyNumber;
	ScanKeyData          keys[3];

	lane_key(&keys[0], scan->lane_id);
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(scan->priority));
	ScanKeyEntryInitialize(&scan->row[0], SK_ROW_MEMBER, 3, strategy,
						   TIMESTAMPTZOID, InvalidOid, F_TIMESTAMPTZ_CMP,
						   TimestampTzGetDatum(position.at));
	ScanKeyEntryInitialize(&scan->row[1], SK_ROW_MEMBER | SK_ROW_END, 4,
						   strategy, INT8OID, InvalidOid, F_BTINT8CMP,
						   Int64GetDatum(position.task_id));
	memset(&keys[2], 0, sizeof(ScanKeyData));
	keys[2].sk_flags = SK_ROW_HEADER;
	keys[2].sk_attno = 3;
	keys[2].sk_strategy = strategy;
	keys[2].sk_argument = PointerGetDatum(scan->row);
	if (scan->scan == NULL)
	{
		scan->scan = tq_compat_index_beginscan(way->call->task.rel, way->index,
											   GetActiveSnapshot(), 3);
		scan->scan->xs_want_itup = true;
	}
	index_rescan(scan->scan, keys, 3, NULL, 0);
}

/*
 * Move to the next entry.  At the end of the walk return false; the span then
 * ends where the search for entries ended.
 */
static bool
next_entry(TqLaneScan *scan)
{
	TqLaneScanDirection *way = scan->way;

	if (index_getnext_tid(scan->scan, way->backward
										  ? BackwardScanDirection
										  : ForwardScanDirection) == NULL)
	{
		reach_end(scan);
		return false;
	}
	scan->position = entry_position(scan->scan);
	if (scan->from_entry)
	{
		scan->from = scan->position;
		scan->from_entry = false;
		scan->above = true;
	}
	if (!ahead(way, scan->position, scan->far))
		return true;
	if (scan->position.at == DT_NOEND)
		reach_end(scan);
	else
		reach(scan, step(scan->position, true));
	scan->ended = true;
	return false;
}

/*
 * Skip the dead range that contains the entry; return false if there is none.
 */
static bool
jump(TqLaneScan *scan)
{
	TqDeadRange *range =
		range_at(scan->ranges, scan->range_count, scan->position);

	if (range == NULL)
		return false;
	reach(scan, edge_of(scan->way, range));
	scan->is_news = true; /* joins the range with the entries passed before */
	if (!ahead(scan->way, scan->far, edge_of(scan->way, range)))
		scan->ended = true;
	else if (tq_scan_compare(range->lo, range->hi) != 0)
		start_behind(scan, edge_of(scan->way, range));
	return true;
}

static bool
is_pending(const TqLaneScan *scan)
{
	bool      should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(scan->slot, false, &should_free);

	return ((TqTaskFixed *) GETSTRUCT(tuple))->state == TQ_STATE_PENDING;
}

/* The current entry leads to no row. */
static void
pass(TqLaneScan *scan)
{
	reach(scan, scan->position);
	scan->is_news = true;
	if (++scan->passed >= SHARE_AFTER)
		share(scan);
}

/* There is no claimable task up to this position. */
static void
reach(TqLaneScan *scan, TqPosition position)
{
	/* another entry at the position of a task that was left is not new */
	if (ahead(scan->way, scan->from, position))
		return;
	if (scan->reaches && !ahead(scan->way, position, scan->to))
		return;
	/* the first span is more useful if it ends nearer to the next task */
	if (!scan->behind)
		scan->is_news = true;
	scan->to = position;
	scan->reaches = true;
}

/* There is no entry from here on. */
static void
reach_end(TqLaneScan *scan)
{
	scan->ended = true;
	if (scan->way->backward)
		reach(scan, TQ_DEAD_RANGE_BEGIN);
	else
		scan->to_end = true;
}

/* The current task can still be claimed. */
static void
leave(TqLaneScan *scan)
{
	bool       down = scan->way->backward;
	TqPosition limit = step(scan->position, !down);

	scan->at_head = false;
	reach(scan, limit);
	/* a dead entry at the task's own position may have come first */
	if (scan->reaches && ahead(scan->way, scan->to, limit))
		scan->to = limit;
	tell_span(scan);
	if (scan->above && !scan->reaches && scan->way->learns)
		tell(scan, below_next(scan), step(scan->position, !down));
	scan->from = step(scan->position, down);
	scan->behind = true;
	scan->reaches = scan->is_news = scan->above = false;
}

/*
 * The span ends.  The positions behind the last entry are recorded separately,
 * since the next task invalidates that range.
 */
static void
tell_span(TqLaneScan *scan)
{
	if (!scan->way->learns || scan->told >= TQ_RANGES ||
		!(scan->to_end || (scan->reaches && scan->is_news)))
		return;
	TQ_DEBUG_POINT("scan_before_learn");
	scan->told++;
	if (scan->reaches && scan->is_news && !scan->from_entry)
		tell(scan, scan->from, scan->to);
	if (scan->to_end)
		tell(scan, scan->reaches ? scan->to : scan->from, TQ_DEAD_RANGE_END);
	if (scan->above || scan->from_entry)
		tell(scan, below_next(scan), scan->above ? scan->from : scan->to);
}

/*
 * Record the progress of the first span, and read the progress of other scans.
 * Positions of tasks that this transaction has taken are included: if it rolls
 * back, they are published afterwards.  The last position is excluded: a task
 * may be there behind a dead entry.
 */
static void
share(TqLaneScan *scan)
{
	TqPosition to = step(scan->to, !scan->way->backward);

	scan->passed = 0;
	if (!scan->way->learns || scan->behind || scan->from_entry)
		return;
	if (!ahead(scan->way, scan->from, to))
		tell(scan, scan->from, to);
	scan->range_count =
		read_ranges(scan->way, scan->lane_id, scan->priority, scan->ranges);
}

static void
tell(TqLaneScan *scan, TqPosition from, TqPosition to)
{
	TqDeadRangeMoment moment = scan->way->call->moment;

	if (scan->way->backward)
		tq_dead_range_learn(scan->lane_id, scan->priority, to, from, moment);
	else
		tq_dead_range_learn(scan->lane_id, scan->priority, from, to, moment);
}

/*
 * For a backward walk from now: return the position from which there is no
 * entry up to the first one that is due later.
 */
static TqPosition
below_next(TqLaneScan *scan)
{
	TqLaneScanDirection way = *scan->way;
	TqLaneScan         *above;
	TqPosition          position = TQ_DEAD_RANGE_END;

	way.backward = false;
	above = make_scan(&way, scan->lane_id, scan->priority);
	start_behind(above, near_end(scan->way));
	if (index_getnext_tid(above->scan, ForwardScanDirection) != NULL)
	{
		position = entry_position(above->scan);
		position = position.at == DT_NOEND ? TQ_DEAD_RANGE_END
										   : step(position, true);
	}
	index_endscan(above->scan);
	ExecDropSingleTupleTableSlot(above->slot);
	pfree(above);
	return position;
}

static void
lane_key(ScanKeyData *key, int64 lane_id)
{
	ScanKeyInit(key, 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(lane_id));
}

static TqPosition
entry_position(IndexScanDesc scan)
{
	TqPosition position;
	bool       isnull;

	position.at = DatumGetTimestampTz(
		index_getattr(scan->xs_itup, 3, scan->xs_itupdesc, &isnull));
	position.task_id = DatumGetInt64(
		index_getattr(scan->xs_itup, 4, scan->xs_itupdesc, &isnull));
	return position;
}
