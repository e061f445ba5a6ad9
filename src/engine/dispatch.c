/*
 * dispatch.c
 *		How a claim selects tasks.
 *
 * The dispatch index is ordered by (lane, priority descending, available_at,
 * id).  A claim matches some lanes of its queue.  For each priority in use,
 * from the highest, it merges the due tasks of these lanes in the queue's
 * order and tries to set them to running, until it has enough. lane_scan.c
 * describes which entries of a lane are visited and how.
 *
 * Information in shared memory gives a lower bound for the position of the
 * next task of a lane.  A lane is scanned only if its bound comes before
 * everything that was found: of a thousand matching lanes, a claim reads few.
 *
 * A row that another session is changing is skipped without waiting.  A row
 * that has changed since this claim's snapshot is skipped, too; if no other
 * task was found, the walk is repeated with a new snapshot.
 *
 * A claim that scans a lane leaves the entries that come next in a claim ring,
 * where the next claims find them without reading the index
 * (shared/claim_ring.h).
 *
 * tq_dispatch_peek walks the same way to report what a claim would get, but
 * takes no task; it gives up after LOOK_ENTRIES entries.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "common/pg_prng.h"
#include "lib/binaryheap.h"
#include "utils/rel.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/span.h"
#include "cache/lane.h"
#include "cache/task_options.h"
#include "engine/call.h"
#include "engine/dispatch.h"
#include "engine/lane_priority.h"
#include "engine/lane_scan.h"
#include "engine/move.h"
#include "engine/sql_task.h"
#include "engine/state.h"
#include "shared/claim_activity.h"
#include "shared/claim_ring.h"
#include "shared/running.h"
#include "shared/worker_directory.h"
#include "store/row.h"
#include "store/tuple_lock.h"
#include "xact/xact.h"

#define RANDOM_WINDOW 64 /* ready tasks that "random" chooses from */
#define MAX_ROUNDS 5     /* new snapshots after losing every race */
#define LOOK_ENTRIES 10000

/* One matching lane, at one of its priorities. */
typedef struct Cursor
{
	int64       lane_id;
	bool        finished; /* no priority is left */
	int16       priority;
	int         count; /* number of its priorities; -1: unknown */
	int         next;
	int16       priorities[TQ_RANGE_PRIORITIES];
	TqPosition  bound;    /* the next task is at this position or behind it */
	bool        has_head; /* it is there */
	bool        popped;   /* some candidates were taken out of the ring */
	bool        in_ring;  /* in the ring, and not in scan */
	TqLaneScan *scan;     /* NULL: not opened */
} Cursor;

typedef struct Walk
{
	TqCall             *call;
	const TqDispatch   *dispatch;
	TqLaneScanDirection way;
	Cursor             *cursors;
	int                 cursor_count;
	binaryheap         *merge; /* of the cursors at one priority */
	bool                uses_rings;
	TupleTableSlot     *slot; /* for rows found in rings */
	TqTask             *claimed;
	int                 count;
	bool                lost_race;
	TransactionId       writer; /* transaction that changed a skipped row */
	bool                saw_deadline;
	TqReservation       reserved; /* any value but DONE ends the walk */
	TqPeek             *peek;     /* if set, take no task */
} Walk;

static void walk_begin(Walk *walk, TqCall *call, const TqDispatch *dispatch);
static void walk_end(Walk *walk);
static void choose_lanes(Walk *walk, const TqQueue *queue, const TqTags *tags);
static bool wants_more(const Walk *walk);
static bool earliest_head(Walk *walk, TqTaskFixed *earliest);
static bool earliest_of(Walk *walk, Cursor *cursor, TqTaskFixed *earliest);
static void walk_all(Walk *walk);
static void first_priority(Walk *walk, Cursor *cursor);
static void next_priority(Walk *walk, Cursor *cursor);
static bool highest_priority(Walk *walk, int16 *priority);
static void walk_priority(Walk *walk, int16 priority);
static void walk_in_order(Walk *walk);
static bool is_claimed(const Walk *walk, const Cursor *cursor, int64 task_id);
static bool is_being_taken(Walk *walk, TupleTableSlot *slot);
static void try_candidate(Walk *walk, Cursor *cursor);
static void leave_candidates(Walk *walk, Cursor *cursor);
static void walk_random(Walk *walk);
static int  compare_bounds(Datum a, Datum b, void *arg);
static Cursor     *best_head(Walk *walk);
static bool        find_head(Walk *walk, Cursor *cursor);
static TqTaskFixed head_row(const Cursor *cursor);
static bool        read_row(Walk *walk, TupleTableSlot *slot, TqTask *task);
static bool        take(Walk *walk, TqTask *task);
static bool        peek_at(Walk *walk, TqTask *task);
static bool        take_within_limits(Walk *walk, TqTask *task);
static TqTask     *room_for_claimed(Walk *walk);

/*
 * Claim up to dispatch->max_tasks tasks; return their number. *claimed is
 * allocated in the current context.
 */
int
tq_dispatch_claim(TqCall *call, TqDispatch *dispatch, TqTask **claimed)
{
	Walk walk;

	dispatch->unknown = dispatch->full = false;
	tq_claim_activity_note();
	walk_begin(&walk, call, dispatch);
	walk.way.learns = call->moment != 0 && !IsolationUsesXactSnapshot();
	walk.uses_rings = walk.way.learns && !walk.way.own &&
					  dispatch->order == TQ_ORDER_FIFO;
	for (int round = 0; walk.cursor_count > 0; round++)
	{
		walk.lost_race = false;
		walk_all(&walk);
		if (walk.count > 0 || !walk.lost_race || round >= MAX_ROUNDS ||
			walk.reserved != TQ_RESERVE_DONE || IsolationUsesXactSnapshot())
			break;
		tq_call_renew(call);
		/*
		 * The transaction may have rolled back, and published that before the
		 * new moment.
		 */
		walk.writer = InvalidTransactionId;
	}
	walk_end(&walk);
	if (walk.saw_deadline)
	{
		tq_running_ask_duty(TQ_ASK_DEADLINES);
		tq_worker_directory_wake();
	}
	*claimed = walk.claimed;
	dispatch->unknown = walk.reserved == TQ_RESERVE_UNKNOWN;
	dispatch->full = walk.reserved == TQ_RESERVE_FULL;
	return walk.count;
}

/*
 * Find since when the queue's longest waiting claimable task could have been
 * claimed; return false if there is none.
 */
bool
tq_dispatch_oldest(TqCall *call, const TqQueue *queue, TimestampTz *oldest)
{
	TqDispatch  dispatch = {.queue = (TqQueue *) queue};
	Walk        walk;
	TqTaskFixed row;
	bool        found;

	walk_begin(&walk, call, &dispatch);
	walk.way.jumps &= !IsolationUsesXactSnapshot();
	found = earliest_head(&walk, &row);
	if (found)
		*oldest = row.available_at;
	walk_end(&walk);
	return found;
}

/*
 * Find the task that a claim with these tags (NULL: any tags) would get first;
 * or with later, the fixed part of the task that will be due first.  Claims no
 * task, and reads a bounded number of entries unless the caller requests
 * otherwise.
 */
void
tq_dispatch_peek(TqCall *call, const TqQueue *queue, const TqTags *tags,
				 TqOrder order, bool later, TqPeek *peek)
{
	TqDispatch dispatch = {.queue = (TqQueue *) queue,
						   .tags = tags,
						   .order = peek->reach > 0          ? TQ_ORDER_RANDOM
									: order == TQ_ORDER_LIFO ? order
															 : TQ_ORDER_FIFO,
						   .reach = peek->reach,
						   .max_tasks = 1};
	Walk       walk;
	TqPeek     wanted = *peek;

	walk_begin(&walk, call, &dispatch);
	walk.peek = peek;
	walk.way.jumps &= !IsolationUsesXactSnapshot();
	walk.way.later = later;
	walk.way.bounded = !wanted.to_the_end;
	/*
	 * Then do not skip dead ranges, which hide tasks that other transactions
	 * are changing.
	 */
	for (int i = 0; i < 2; i++)
	{
		memset(peek, 0, sizeof(*peek));
		walk.way.budget = LOOK_ENTRIES;
		walk.way.gave_up = false;
		if (later)
			peek->found = earliest_head(&walk, &peek->head.f);
		else
			walk_all(&walk);
		peek->gave_up = walk.way.gave_up;
		if (peek->found || later || wanted.to_the_end || !walk.way.jumps)
			break;
		walk.way.jumps = false;
	}
	walk_end(&walk);
}

static void
walk_begin(Walk *walk, TqCall *call, const TqDispatch *dispatch)
{
	memset(walk, 0, sizeof(*walk));
	walk->call = call;
	walk->dispatch = dispatch;
	tq_lane_scan_prepare(
		&walk->way, call,
		tq_catalog_open_index(tq_catalog()->task_dispatch, AccessShareLock));
	walk->way.now = tq_clock_dispatch();
	walk->way.backward = dispatch->order == TQ_ORDER_LIFO;
	choose_lanes(walk, dispatch->queue, dispatch->tags);
	walk->merge =
		binaryheap_allocate(walk->cursor_count + 1, compare_bounds, walk);
}

static void
walk_end(Walk *walk)
{
	if (walk->slot != NULL)
		ExecDropSingleTupleTableSlot(walk->slot);
	index_close(walk->way.index, NoLock);
}

/*
 * Create cursors for the lanes of a queue that match the tags, or for all
 * lanes if tags is NULL.
 */
static void
choose_lanes(Walk *walk, const TqQueue *queue, const TqTags *tags)
{
	const TqMatch *match = tq_lane_match(queue, tags);

	walk->cursors = palloc(sizeof(Cursor) * (match->count + 1));
	walk->cursor_count = match->count;
	for (int i = 0; i < match->count; i++)
		walk->cursors[i].lane_id = match->lanes[i];
}

static bool
wants_more(const Walk *walk)
{
	return walk->count < walk->dispatch->max_tasks &&
		   walk->reserved == TQ_RESERVE_DONE && !walk->way.gave_up;
}

/* Find the earliest due time among the heads of all lanes and priorities. */
static bool
earliest_head(Walk *walk, TqTaskFixed *earliest)
{
	bool found = false;

	for (int i = 0; i < walk->cursor_count; i++)
	{
		Cursor *cursor = &walk->cursors[i];

		for (first_priority(walk, cursor); !cursor->finished;
			 next_priority(walk, cursor))
		{
			TqTaskFixed row;

			if (earliest_of(walk, cursor, &row) &&
				(!found || row.available_at < earliest->available_at))
			{
				*earliest = row;
				found = true;
			}
		}
	}
	return found;
}

static bool
earliest_of(Walk *walk, Cursor *cursor, TqTaskFixed *earliest)
{
	bool found = false;

	cursor->scan =
		tq_lane_scan_open(&walk->way, cursor->lane_id, cursor->priority);
	while (!found && tq_lane_scan_next(cursor->scan))
	{
		*earliest = head_row(cursor);
		found = earliest->queue_id == walk->dispatch->queue->queue_id;
	}
	tq_lane_scan_close(cursor->scan);
	return found;
}

static void
walk_all(Walk *walk)
{
	int16 priority = 0;

	walk->way.now = tq_clock_dispatch();
	for (int i = 0; i < walk->cursor_count; i++)
		first_priority(walk, &walk->cursors[i]);
	while (wants_more(walk) && highest_priority(walk, &priority))
		walk_priority(walk, priority);
}

/* Set the cursor to the highest priority of its lane. */
static void
first_priority(Walk *walk, Cursor *cursor)
{
	cursor->finished = false;
	cursor->next = 0;
	if (!tq_lane_priority_list(&walk->way, cursor->lane_id, cursor->priorities,
							   &cursor->count))
		cursor->count = -1;
	next_priority(walk, cursor);
}

/* Set the cursor to its next priority that may have a task. */
static void
next_priority(Walk *walk, Cursor *cursor)
{
	cursor->scan = NULL;
	cursor->has_head = cursor->in_ring = cursor->popped = false;
	do
	{
		if (cursor->count < 0)
			cursor->finished =
				!tq_lane_priority_next(&walk->way, cursor->lane_id,
									   cursor->next++ > 0, &cursor->priority);
		else if (cursor->next < cursor->count)
			cursor->priority = cursor->priorities[cursor->next++];
		else
			cursor->finished = true;
	} while (!cursor->finished &&
			 !tq_lane_scan_bound(&walk->way, cursor->lane_id, cursor->priority,
								 &cursor->bound));
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

/* Claim tasks of one priority, then continue with the next priority. */
static void
walk_priority(Walk *walk, int16 priority)
{
	binaryheap_reset(walk->merge);
	for (int i = 0; i < walk->cursor_count; i++)
	{
		Cursor *cursor = &walk->cursors[i];

		if (!cursor->finished && cursor->priority == priority)
			binaryheap_add_unordered(walk->merge, PointerGetDatum(cursor));
	}
	binaryheap_build(walk->merge);
	if (walk->dispatch->order == TQ_ORDER_RANDOM)
		walk_random(walk);
	else
		walk_in_order(walk);
	for (int i = 0; i < walk->cursor_count; i++)
	{
		Cursor *cursor = &walk->cursors[i];

		if (cursor->finished || cursor->priority != priority)
			continue;
		if (cursor->scan != NULL)
		{
			if (walk->uses_rings && !wants_more(walk))
				leave_candidates(walk, cursor);
			tq_lane_scan_close(cursor->scan);
		}
		if (wants_more(walk))
			next_priority(walk, cursor);
	}
}

static void
walk_in_order(Walk *walk)
{
	Cursor *cursor;

	while (wants_more(walk) && (cursor = best_head(walk)) != NULL)
	{
		TqTask task;

		cursor->has_head = false;
		if (cursor->in_ring)
			try_candidate(walk, cursor);
		else if (is_claimed(walk, cursor,
							tq_lane_scan_position(cursor->scan).task_id) ||
				 is_being_taken(walk, tq_lane_scan_slot(cursor->scan)) ||
				 (read_row(walk, tq_lane_scan_slot(cursor->scan), &task) &&
				  take(walk, &task)))
			tq_lane_scan_pass(cursor->scan);
	}
}

/*
 * Has this claim taken the task from the ring already?  Its snapshot does not
 * see its own writes.
 */
static bool
is_claimed(const Walk *walk, const Cursor *cursor, int64 task_id)
{
	for (int i = 0; i < walk->count && cursor->popped; i++)
	{
		if (walk->claimed[i].f.task_id == task_id)
			return true;
	}
	return false;
}

/*
 * Is another transaction taking or changing the task?  Under load this is
 * frequent, and such rows need not be read.
 */
static bool
is_being_taken(Walk *walk, TupleTableSlot *slot)
{
	if (walk->peek != NULL || !tq_tuple_lock_is_writing(slot, &walk->writer))
		return false;
	walk->lost_race = true;
	return true;
}

/*
 * Try the next task in the ring, which need not be the task that was seen
 * before.
 */
static void
try_candidate(Walk *walk, Cursor *cursor)
{
	TqCandidate candidate;
	TqTask      task;
	uint64      moment;

	cursor->in_ring = false;
	cursor->popped = true;
	TQ_DEBUG_POINT("ring_before_pop");
	if (!tq_claim_ring_pop(cursor->lane_id, cursor->priority, &candidate,
						   &moment))
		return;
	/* put into the ring again by a session that only knows the index */
	if (is_claimed(walk, cursor, candidate.position.task_id))
		return;
	if (walk->slot == NULL)
		walk->slot = table_slot_create(walk->call->task.rel, NULL);
	if (!tq_lane_scan_fetch(&walk->way, cursor->lane_id, cursor->priority,
							&candidate, walk->slot))
	{
		/*
		 * the session that added it may have seen rows that this snapshot does
		 * not see
		 */
		if (moment > walk->call->ring_moment)
			tq_claim_ring_empty(cursor->lane_id, cursor->priority);
		return;
	}
	/* do not hide tasks behind it that other claims could take */
	if (!read_row(walk, walk->slot, &task) || !take(walk, &task))
		tq_claim_ring_empty(cursor->lane_id, cursor->priority);
}

/* Leave the entries that come next to other claims. */
static void
leave_candidates(Walk *walk, Cursor *cursor)
{
	TqCandidate candidates[TQ_RING_SIZE];
	int         count;

	if (walk->reserved != TQ_RESERVE_DONE)
		return;
	count = tq_claim_ring_wanted(cursor->lane_id, cursor->priority);
	if (count > 0)
		count = tq_lane_scan_ahead(cursor->scan, candidates, count);
	if (count > 0)
		tq_claim_ring_fill(cursor->lane_id, cursor->priority, candidates,
						   count, walk->call->ring_moment);
}

/*
 * Claim some of the first due tasks.  If there are more tasks than the window
 * can hold, each is in the window with the same probability.
 */
static void
walk_random(Walk *walk)
{
	TqTask *window = palloc(sizeof(TqTask) * RANDOM_WINDOW);
	int     reach = Max(walk->dispatch->reach, RANDOM_WINDOW);
	int     seen;

	do
	{
		Cursor *cursor;
		int     count = 0;

		for (seen = 0; seen < reach && (cursor = best_head(walk)) != NULL;
			 seen++)
		{
			int    place = count;
			TqTask task;

			cursor->has_head = false;
			if (count == RANDOM_WINDOW)
				place =
					(int) pg_prng_uint64_range(&pg_global_prng_state, 0, seen);
			if (place >= RANDOM_WINDOW ||
				!read_row(walk, tq_lane_scan_slot(cursor->scan), &task))
				continue;
			window[place] = task;
			count = Max(count, place + 1);
		}
		for (int i = count - 1; i >= 0 && wants_more(walk); i--)
		{
			int chosen =
				(int) pg_prng_uint64_range(&pg_global_prng_state, 0, i);

			(void) take(walk, &window[chosen]);
			window[chosen] = window[i];
		}
	} while (seen == reach && wants_more(walk));
	pfree(window);
}

/* The cursor whose next task can come first is on top. */
static int
compare_bounds(Datum a, Datum b, void *arg)
{
	const Walk   *walk = arg;
	const Cursor *left = (const Cursor *) DatumGetPointer(a);
	const Cursor *right = (const Cursor *) DatumGetPointer(b);
	int           order = tq_scan_compare(left->bound, right->bound);

	return walk->way.backward ? order : -order;
}

/*
 * Return the cursor whose head comes first in the queue's order, or NULL if
 * all cursors are at their ends.  A lane is scanned only if no better head is
 * known.
 */
static Cursor *
best_head(Walk *walk)
{
	while (!binaryheap_empty(walk->merge))
	{
		Cursor *cursor =
			(Cursor *) DatumGetPointer(binaryheap_first(walk->merge));

		if (cursor->has_head)
			return cursor;
		if (find_head(walk, cursor))
			binaryheap_replace_first(walk->merge, PointerGetDatum(cursor));
		else
			(void) binaryheap_remove_first(walk->merge);
	}
	return NULL;
}

/* Find the cursor's next task: in the ring, or else in the index. */
static bool
find_head(Walk *walk, Cursor *cursor)
{
	if (cursor->scan == NULL)
	{
		cursor->in_ring = walk->uses_rings &&
						  tq_claim_ring_look(cursor->lane_id, cursor->priority,
											 &cursor->bound);
		if (cursor->in_ring)
			return cursor->has_head = true;
		cursor->scan =
			tq_lane_scan_open(&walk->way, cursor->lane_id, cursor->priority);
	}
	cursor->has_head = tq_lane_scan_next(cursor->scan);
	if (cursor->has_head)
		cursor->bound = tq_lane_scan_position(cursor->scan);
	return cursor->has_head;
}

static TqTaskFixed
head_row(const Cursor *cursor)
{
	bool      should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(tq_lane_scan_slot(cursor->scan),
											 false, &should_free);

	return *(TqTaskFixed *) GETSTRUCT(tuple);
}

/* Read a pending task.  Returns false if it must not be claimed. */
static bool
read_row(Walk *walk, TupleTableSlot *slot, TqTask *task)
{
	bool      should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);

	/* two queues may have the same hash */
	if (((TqTaskFixed *) GETSTRUCT(tuple))->queue_id !=
		walk->dispatch->queue->queue_id)
		return false;
	tq_row_read(tuple, RelationGetDescr(walk->call->task.rel), task);
	task->tid = slot->tts_tid;
	if (!task->isnull[TQ_COL_DEADLINE] &&
		TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND) <= tq_clock_wall())
	{
		walk->saw_deadline = true;
		if (walk->peek != NULL && walk->peek->past++ == 0)
			walk->peek->past_id = task->f.task_id;
		return false;
	}
	return tq_lane_fits(task, walk->dispatch->tags);
}

/*
 * Try to get the task.  Returns true if this claim has it now, or if another
 * transaction has it, which publishes when it becomes claimable again.
 */
static bool
take(Walk *walk, TqTask *task)
{
	if (walk->peek != NULL)
		return peek_at(walk, task);
	if (walk->dispatch->sql_of != 0 &&
		tq_sql_task_run_as(task) != walk->dispatch->sql_of)
	{
		/* another executor takes it, and what comes after it waits */
		walk->reserved = TQ_RESERVE_FULL;
		return false;
	}
	if (take_within_limits(walk, task))
		return true;
	if (walk->reserved != TQ_RESERVE_DONE)
		return false;
	walk->lost_race = true;
	return tq_tuple_lock_is_lost(walk->call, &task->tid);
}

static bool
peek_at(Walk *walk, TqTask *task)
{
	if (tq_tuple_lock_is_taken(walk->call, task))
		walk->peek->busy++;
	else
	{
		walk->peek->found = true;
		walk->peek->head = *task;
		walk->count++;
	}
	return true;
}

/* Try to set the task to running, within the limits. */
static bool
take_within_limits(Walk *walk, TqTask *task)
{
	const TqDispatch *dispatch = walk->dispatch;
	TqMove            move = {0};
	TqOptions         room;
	int64             lease = dispatch->lease;
	TqTask           *claimed;

	if (lease == 0 && !dispatch->while_alive)
		lease = tq_task_options(dispatch->queue, task, &room)->lease;
	move.to = TQ_STATE_RUNNING;
	move.wanted = "claim";
	move.no_wait = true;
	move.worker_id = dispatch->worker_id;
	move.claimed_at = tq_clock_dispatch();
	move.lease_until = lease > 0 ? tq_span_after(move.claimed_at, lease)
								 : DT_NOEND;
	claimed = room_for_claimed(walk);
	walk->reserved = tq_limit_reserve(dispatch->limit, task->f.task_id);
	if (walk->reserved != TQ_RESERVE_DONE)
		return false;
	TQ_DEBUG_POINT("claim_before_take");
	if (!tq_state_enter(walk->call, dispatch->queue, task, &move))
	{
		tq_xact_not_claimed();
		return false;
	}
	*claimed = *task;
	walk->count++;
	return true;
}

/* Return the place for the next claimed task. */
static TqTask *
room_for_claimed(Walk *walk)
{
	int count = walk->count;

	if (walk->claimed == NULL)
		walk->claimed = palloc(sizeof(TqTask) * 8);
	else if (count >= 8 && (count & (count - 1)) == 0)
		walk->claimed =
			repalloc_huge(walk->claimed, sizeof(TqTask) * count * 2);
	return &walk->claimed[count];
}
