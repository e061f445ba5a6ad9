/*
 * dispatch.c
 *		Finding tasks to hand out: a walk over the dispatch index.
 *
 * The index is ordered by (lane, priority descending, available_at, id).  A
 * claim matches some lanes of its queue.  For each priority in use, from the
 * highest, it merges the due entries of these lanes in the queue's order and
 * tries to make them running, until it has enough.  Entries that are not due
 * are never walked, since each priority's scan ends at now, and the next
 * priority is found by one descent of the index, which reads no heap.
 *
 * A row that another session is changing is passed over without waiting;
 * one that has changed since this claim's snapshot is passed over, too, and
 * when nothing else was found the walk is repeated with a new snapshot.
 *
 * Entries of running and deleted tasks are walked from the lane's head.
 * This file is the place for knowing better where to begin: a scan starts
 * at the position (priority, available_at, task_id) that begin_scan sets.
 *
 * tq_dispatch_peek walks in the same way to tell what a claim would get, and
 * takes nothing; it gives up after LOOK_ENTRIES entries.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "core/dispatch.h"
#include "core/xact.h"
#include "shared/registry.h"
#include "shared/station.h"

#define RANDOM_WINDOW 64 /* ready tasks that "random" chooses from */
#define MAX_ROUNDS 5     /* new snapshots after losing every race */
#define LOOK_ENTRIES 10000

/* One matching lane. */
typedef struct Cursor
{
	const TqLane   *lane;
	bool            finished; /* no entries below the last priority */
	int16           priority; /* the one to be walked next */
	IndexScanDesc   scan;     /* open at that priority */
	TupleTableSlot *slot;
	bool            has_head; /* slot holds the next candidate */
} Cursor;

typedef struct Walk
{
	TqCall           *call;
	const TqDispatch *dispatch;
	Relation          index;
	TimestampTz       now;
	Cursor           *cursors;
	int               cursor_count;
	TqTask           *claimed;
	int               count;
	bool              lost_race;
	bool              saw_deadline;
	TqReserve         reserved; /* anything but DONE ends the walk */
	TqPeek           *peek;     /* nothing is taken */
	bool              later;    /* what is not due yet */
	int               budget;   /* entries that a peek may still read */
} Walk;

static void choose_lanes(Walk *walk, const TqQueue *queue, const TqTags *tags);
static bool wants_more(const Walk *walk);
static bool spent(Walk *walk);
static bool earliest_head(Walk *walk, TqTaskFixed *earliest);
static void walk_all(Walk *walk);
static bool highest_priority(Walk *walk, int16 *priority);
static void walk_priority(Walk *walk, int16 priority);
static void walk_random(Walk *walk, int16 priority);
static void seek_priority(Walk *walk, Cursor *cursor, bool below);
static void begin_scan(Walk *walk, Cursor *cursor);
static void end_scan(Cursor *cursor);
static void advance(Walk *walk, Cursor *cursor);
static Cursor *best_head(Walk *walk, int16 priority);
static bool    is_candidate(Walk *walk, Cursor *cursor);
static bool tags_match(const Walk *walk, const Cursor *cursor, TqTask *task);
static bool read_candidate(Walk *walk, Cursor *cursor, TqTask *task);
static void take(Walk *walk, TqTask *task);

/*
 * Claim up to dispatch->max_tasks tasks; returns how many.  *claimed is
 * allocated in the current context.
 */
int
tq_dispatch_claim(TqCall *call, TqDispatch *dispatch, TqTask **claimed)
{
	const TqQueue *queue = dispatch->queue;
	Walk           walk = {0};

	walk.call = call;
	walk.dispatch = dispatch;
	choose_lanes(&walk, queue, dispatch->tags);
	dispatch->unknown = dispatch->full = false;
	if (walk.cursor_count == 0)
		return 0;

	walk.index =
		tq_catalog_open_index(tq_catalog()->task_dispatch, AccessShareLock);
	for (int round = 0;; round++)
	{
		walk.lost_race = false;
		walk.now = tq_clock_dispatch();
		walk_all(&walk);
		if (walk.count > 0 || !walk.lost_race || round >= MAX_ROUNDS ||
			walk.reserved != TQ_RESERVE_DONE || IsolationUsesXactSnapshot())
			break;
		tq_call_snapshot();
	}
	index_close(walk.index, NoLock);
	if (walk.saw_deadline)
	{
		tq_registry_ask(TQ_ASK_DEADLINES);
		tq_station_wake();
	}
	*claimed = walk.claimed;
	dispatch->unknown = walk.reserved == TQ_RESERVE_UNKNOWN;
	dispatch->full = walk.reserved == TQ_RESERVE_FULL;
	return walk.count;
}

/*
 * Since when the longest waiting task of a queue that can be claimed has
 * been able to be; false when there is none.
 */
bool
tq_dispatch_oldest(TqCall *call, const TqQueue *queue, TimestampTz *oldest)
{
	TqDispatch  dispatch = {0};
	Walk        walk = {0};
	TqTaskFixed row;
	bool        found;

	dispatch.queue = (TqQueue *) queue;
	walk.call = call;
	walk.dispatch = &dispatch;
	choose_lanes(&walk, queue, NULL);
	walk.index =
		tq_catalog_open_index(tq_catalog()->task_dispatch, AccessShareLock);
	walk.now = tq_clock_dispatch();
	found = earliest_head(&walk, &row);
	if (found)
		*oldest = row.available_at;
	index_close(walk.index, NoLock);
	return found;
}

/*
 * What a claim with these tags (NULL: with all) would get first; or later,
 * of what is not due yet, the fixed part of what will be due first.  Takes
 * nothing, and reads a bounded number of entries unless told otherwise.
 */
void
tq_dispatch_peek(TqCall *call, const TqQueue *queue, const TqTags *tags,
				 TqOrder order, bool later, TqPeek *peek)
{
	TqDispatch dispatch = {0};
	Walk       walk = {0};

	memset(peek, 0, sizeof(*peek));
	dispatch.queue = (TqQueue *) queue;
	dispatch.tags = tags;
	dispatch.order = order == TQ_ORDER_LIFO ? order : TQ_ORDER_FIFO;
	dispatch.max_tasks = 1;
	walk.call = call;
	walk.dispatch = &dispatch;
	walk.peek = peek;
	walk.later = later;
	walk.budget = LOOK_ENTRIES;
	choose_lanes(&walk, queue, tags);
	walk.index =
		tq_catalog_open_index(tq_catalog()->task_dispatch, AccessShareLock);
	walk.now = tq_clock_dispatch();
	if (later)
		peek->found = earliest_head(&walk, &peek->head.f);
	else
		walk_all(&walk);
	index_close(walk.index, NoLock);
}

/* Which of the heads of all lanes and priorities has come, or comes, first */
static bool
earliest_head(Walk *walk, TqTaskFixed *earliest)
{
	bool  found = false;
	int16 priority = 0;

	for (int i = 0; i < walk->cursor_count; i++)
		seek_priority(walk, &walk->cursors[i], false);
	while (highest_priority(walk, &priority))
	{
		for (int i = 0; i < walk->cursor_count; i++)
		{
			Cursor     *cursor = &walk->cursors[i];
			TqTaskFixed row;
			bool        should_free;

			if (cursor->finished || cursor->priority != priority)
				continue;
			begin_scan(walk, cursor);
			if (cursor->has_head)
			{
				memcpy(&row,
					   GETSTRUCT(ExecFetchSlotHeapTuple(cursor->slot, false,
														&should_free)),
					   sizeof(row));
				if (!found || row.available_at < earliest->available_at)
					*earliest = row;
				found = true;
			}
			end_scan(cursor);
			seek_priority(walk, cursor, true);
		}
	}
	return found;
}

/* Cursors for the lanes of a queue that match the tags; NULL: all lanes. */
static void
choose_lanes(Walk *walk, const TqQueue *queue, const TqTags *tags)
{
	walk->cursors = palloc0(sizeof(Cursor) * (queue->lane_count + 1));
	for (int i = 0; i < queue->lane_count; i++)
	{
		TqLane *lane = &queue->lanes[i];

		/* sets of tags with one hash are one lane, to be walked once */
		if (walk->cursor_count > 0 &&
			walk->cursors[walk->cursor_count - 1].lane->lane_id ==
				lane->lane_id)
			continue;
		if (tags == NULL || tq_arg_tags_subset(&lane->tags, tags))
			walk->cursors[walk->cursor_count++].lane = lane;
	}
}

static bool
wants_more(const Walk *walk)
{
	return walk->count < walk->dispatch->max_tasks &&
		   walk->reserved == TQ_RESERVE_DONE &&
		   (walk->peek == NULL || !walk->peek->gave_up);
}

/* Has a peek read as much as it may? */
static bool
spent(Walk *walk)
{
	if (walk->peek == NULL || walk->peek->to_the_end)
		return false;
	if (walk->budget-- > 0)
		return false;
	walk->peek->gave_up = true;
	return true;
}

static void
walk_all(Walk *walk)
{
	int16 priority = 0;

	for (int i = 0; i < walk->cursor_count; i++)
	{
		walk->cursors[i].finished = false;
		seek_priority(walk, &walk->cursors[i], false);
	}
	while (wants_more(walk) && highest_priority(walk, &priority))
	{
		if (walk->dispatch->order == TQ_ORDER_RANDOM)
			walk_random(walk, priority);
		else
			walk_priority(walk, priority);
		for (int i = 0; i < walk->cursor_count; i++)
		{
			Cursor *cursor = &walk->cursors[i];

			if (cursor->scan == NULL)
				continue;
			end_scan(cursor);
			if (wants_more(walk))
				seek_priority(walk, cursor, true);
		}
	}
}

static bool
highest_priority(Walk *walk, int16 *priority)
{
	bool found = false;

	for (int i = 0; i < walk->cursor_count; i++)
	{
		Cursor *cursor = &walk->cursors[i];

		if (cursor->finished)
			continue;
		if (!found || cursor->priority > *priority)
			*priority = cursor->priority;
		found = true;
	}
	return found;
}

/* Hand out the due tasks of one priority, in order. */
static void
walk_priority(Walk *walk, int16 priority)
{
	Cursor *cursor;

	while (wants_more(walk) && (cursor = best_head(walk, priority)) != NULL)
	{
		TqTask task;
		bool   fits = read_candidate(walk, cursor, &task);

		cursor->has_head = false;
		if (fits)
			take(walk, &task);
	}
}

/* Hand out some of the first due tasks of one priority. */
static void
walk_random(Walk *walk, int16 priority)
{
	TqTask *window = palloc(sizeof(TqTask) * RANDOM_WINDOW);
	int     count;

	do
	{
		Cursor *cursor;

		count = 0;
		while (count < RANDOM_WINDOW &&
			   (cursor = best_head(walk, priority)) != NULL)
		{
			if (read_candidate(walk, cursor, &window[count]))
				count++;
			cursor->has_head = false;
		}
		for (int i = count - 1; i >= 0 && wants_more(walk); i--)
		{
			int chosen =
				(int) pg_prng_uint64_range(&pg_global_prng_state, 0, i);

			take(walk, &window[chosen]);
			window[chosen] = window[i];
		}
	} while (count == RANDOM_WINDOW && wants_more(walk));
	pfree(window);
}

/*
 * Set the cursor to the highest priority of its lane, or to the highest
 * below its present one.  Only the index is read, whatever its entries
 * point to.
 */
static void
seek_priority(Walk *walk, Cursor *cursor, bool below)
{
	ScanKeyData   keys[2];
	IndexScanDesc scan;
	int           nkeys = below ? 2 : 1;

	if (spent(walk))
	{
		cursor->finished = true;
		return;
	}
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(cursor->lane->lane_id));
	ScanKeyInit(&keys[1], 2, BTLessStrategyNumber, F_INT2LT,
				Int16GetDatum(cursor->priority));
	scan = tq_compat_index_beginscan(walk->call->task.rel, walk->index,
									 GetActiveSnapshot(), nkeys);
	scan->xs_want_itup = true;
	index_rescan(scan, keys, nkeys, NULL, 0);
	if (index_getnext_tid(scan, ForwardScanDirection) != NULL)
	{
		bool isnull;

		cursor->priority = DatumGetInt16(
			index_getattr(scan->xs_itup, 2, scan->xs_itupdesc, &isnull));
	}
	else
		cursor->finished = true;
	index_endscan(scan);
}

/* Begin to walk the due entries of the cursor's priority. */
static void
begin_scan(Walk *walk, Cursor *cursor)
{
	ScanKeyData keys[4];
	int         nkeys = walk->later ? 4 : 3;

	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(cursor->lane->lane_id));
	ScanKeyInit(&keys[1], 2, BTEqualStrategyNumber, F_INT2EQ,
				Int16GetDatum(cursor->priority));
	if (walk->later)
	{
		ScanKeyInit(&keys[2], 3, BTGreaterStrategyNumber, F_TIMESTAMPTZ_GT,
					TimestampTzGetDatum(walk->now));
		ScanKeyInit(&keys[3], 3, BTLessStrategyNumber, F_TIMESTAMPTZ_LT,
					TimestampTzGetDatum(DT_NOEND));
	}
	else
		ScanKeyInit(&keys[2], 3, BTLessEqualStrategyNumber, F_TIMESTAMPTZ_LE,
					TimestampTzGetDatum(walk->now));
	cursor->scan = tq_compat_index_beginscan(walk->call->task.rel, walk->index,
											 GetActiveSnapshot(), nkeys);
	index_rescan(cursor->scan, keys, nkeys, NULL, 0);
	cursor->slot = table_slot_create(walk->call->task.rel, NULL);
	cursor->has_head = false;
	advance(walk, cursor);
}

static void
end_scan(Cursor *cursor)
{
	index_endscan(cursor->scan);
	ExecDropSingleTupleTableSlot(cursor->slot);
	cursor->scan = NULL;
	cursor->slot = NULL;
	cursor->has_head = false;
}

/* Go on to the lane's next candidate; has_head stays false at the end. */
static void
advance(Walk *walk, Cursor *cursor)
{
	ScanDirection direction = walk->dispatch->order == TQ_ORDER_LIFO
								  ? BackwardScanDirection
								  : ForwardScanDirection;

	while (index_getnext_slot(cursor->scan, direction, cursor->slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (is_candidate(walk, cursor))
		{
			cursor->has_head = true;
			return;
		}
		if (spent(walk))
			break;
	}
	/* at the end: such a cursor is never advanced again */
	cursor->has_head = false;
	ExecClearTuple(cursor->slot);
}

/*
 * The cursor whose head comes first in the queue's order; NULL when all are
 * at their ends.  Cursors of this priority are opened, and advanced after
 * their head was used.
 */
static Cursor *
best_head(Walk *walk, int16 priority)
{
	bool        lifo = walk->dispatch->order == TQ_ORDER_LIFO;
	Cursor     *best = NULL;
	TqTaskFixed best_row = {0};

	for (int i = 0; i < walk->cursor_count; i++)
	{
		Cursor     *cursor = &walk->cursors[i];
		TqTaskFixed row;
		bool        should_free;
		int         order;

		if (cursor->finished || cursor->priority != priority)
			continue;
		if (cursor->scan == NULL)
			begin_scan(walk, cursor);
		else if (!cursor->has_head && !TTS_EMPTY(cursor->slot))
			advance(walk, cursor);
		if (!cursor->has_head)
			continue;
		memcpy(&row,
			   GETSTRUCT(
				   ExecFetchSlotHeapTuple(cursor->slot, false, &should_free)),
			   sizeof(row));
		if (best != NULL)
		{
			order = row.available_at < best_row.available_at   ? -1
					: row.available_at > best_row.available_at ? 1
					: row.task_id < best_row.task_id           ? -1
															   : 1;
			if (lifo ? order < 0 : order > 0)
				continue;
		}
		best = cursor;
		best_row = row;
	}
	return best;
}

/* Is the row in the cursor's slot waiting to be claimed from this queue? */
static bool
is_candidate(Walk *walk, Cursor *cursor)
{
	bool      should_free;
	HeapTuple tuple =
		ExecFetchSlotHeapTuple(cursor->slot, false, &should_free);
	TqTaskFixed *row = (TqTaskFixed *) GETSTRUCT(tuple);

	return row->state == TQ_STATE_PENDING &&
		   (row->available_at <= walk->now) != walk->later &&
		   row->queue_id == walk->dispatch->queue->queue_id;
}

/* Read the cursor's head; false when it must not be handed out. */
static bool
read_candidate(Walk *walk, Cursor *cursor, TqTask *task)
{
	bool      should_free;
	HeapTuple tuple =
		ExecFetchSlotHeapTuple(cursor->slot, false, &should_free);

	tq_row_read(tuple, RelationGetDescr(walk->call->task.rel), task);
	task->tid = cursor->slot->tts_tid;
	if (TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND) <= tq_clock_wall())
	{
		walk->saw_deadline = true;
		if (walk->peek != NULL && walk->peek->past++ == 0)
			walk->peek->past_id = task->f.task_id;
		return false;
	}
	return tags_match(walk, cursor, task);
}

/* Lanes are hashes: look at the row's own tags, too. */
static bool
tags_match(const Walk *walk, const Cursor *cursor, TqTask *task)
{
	TqTags tags;

	if (task->isnull[TQ_COL_TAGS] || walk->dispatch->tags == NULL)
		return true;
	return tq_arg_tags_read(task->value[TQ_COL_TAGS], &tags) &&
		   tq_arg_tags_subset(&tags, walk->dispatch->tags);
}

/* Try to make the task running, within the limits. */
static void
take(Walk *walk, TqTask *task)
{
	const TqDispatch *dispatch = walk->dispatch;
	TqMove            move = {0};
	TqOptions         room;
	int64             lease = dispatch->lease;

	if (walk->peek != NULL)
	{
		if (tq_row_is_busy(walk->call, task))
			walk->peek->busy++;
		else
		{
			walk->peek->found = true;
			walk->peek->head = *task;
			walk->count++;
		}
		return;
	}
	if (walk->claimed == NULL)
		walk->claimed = palloc(sizeof(TqTask) * 8);
	else if (walk->count >= 8 && (walk->count & (walk->count - 1)) == 0)
		walk->claimed =
			repalloc_huge(walk->claimed, sizeof(TqTask) * walk->count * 2);
	if (lease == 0 && !dispatch->while_alive)
		lease = tq_state_options(dispatch->queue, task, &room)->lease;
	move.to = TQ_STATE_RUNNING;
	move.wanted = "claimed";
	move.no_wait = true;
	move.worker_id = dispatch->worker_id;
	move.lease_until = lease > 0 ? tq_clock_dispatch() + lease : DT_NOEND;
	walk->reserved = tq_limit_reserve(dispatch->limit, task->f.task_id);
	if (walk->reserved != TQ_RESERVE_DONE)
		return;
	TQ_DEBUG_POINT("claim_before_take");
	if (tq_state_enter(walk->call, dispatch->queue, task, &move))
		walk->claimed[walk->count++] = *task;
	else
	{
		tq_xact_not_claimed();
		walk->lost_race = true;
	}
}
