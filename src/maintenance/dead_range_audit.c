/*
 * dead_range_audit.c
 *		Audit of dead ranges: do they contain claimable tasks?
 *
 * Claims skip dead ranges of the dispatch index (engine/lane_scan.c).  A
 * claimable task inside a range is not found until its position is published,
 * so the background worker scans the ranges of its database, repeatedly while
 * claims are made: SLICE index entries at a time, with a PAUSE between two
 * slices (10,000 entries a second in total), and a longer pause between two
 * passes.  No other code depends on the audit; a task that it finds is a
 * defect of this extension, or was changed by hand.
 *
 * A task that a snapshot sees as pending in a range may have been put there by
 * a transaction that has ended and is about to publish the position.  So the
 * task is first a suspect.  The suspect is decided after a moment, for
 * transactions that leave no mark (counter.c), and after all ended
 * transactions have published: the task was missed if its position has still
 * not been published since the range was read.  The process does not wait for
 * that moment, since it has other duties; all suspects of a slice, which ends
 * when there are SUSPECTS of them, are decided together.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "engine/call.h"
#include "engine/lane_scan.h"
#include "maintenance/dead_range_audit.h"
#include "shared/claim_activity.h"
#include "shared/counter.h"
#include "shared/dead_range.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "store/tuple_lock.h"

#define PAUSE (100 * 1000)             /* between slices */
#define PASS_PAUSE (2 * USECS_PER_SEC) /* between passes */
#define TELL_TIME USECS_PER_SEC
#define SUSPECTS 64

/* A task that claims may miss. */
typedef struct Suspect
{
	int64             lane_id;
	int16             priority;
	TqPosition        position;
	TqDeadRangeMoment moment; /* when the range was read */
} Suspect;

/* Position of this process in the current pass. */
static struct
{
	bool          under_way;
	bool          has_entry;
	TqRangeCursor cursor;
	TqRangeEntry  entry;
	int           range; /* of the entry; the next slice starts here: */
	TqPosition    from;
} pass;

/* Suspects, and when they can be decided (monotonic clock). */
static Suspect suspects[SUSPECTS];
static int     suspect_count = 0;
static int64   check_at = 0;

/* When the next slice is due; DT_NOEND: at the next claim. */
static TimestampTz next_slice = DT_NOEND;

static int64 check(void);
static void  look(int limit);
static bool  next_range(TqDeadRange *range);
static void  look_through(TqLaneScanDirection *way, const TqDeadRange *range);
static void  suspect(TqLaneScanDirection *way, TqLaneScan *scan);

#ifdef TASKQ_DEBUG
PG_FUNCTION_INFO_V1(taskq_debug_dead);
#endif

/* Called when the background worker starts. */
void
tq_dead_range_audit_start(void)
{
	memset(&pass, 0, sizeof(pass));
	suspect_count = 0;
	next_slice = DT_NOEND;
}

/* Is a slice due? */
bool
tq_dead_range_audit_due(TimestampTz now)
{
	if (next_slice == DT_NOEND && tq_claim_activity_take())
		next_slice = now;
	return next_slice <= now;
}

/* When the next slice is due. */
TimestampTz
tq_dead_range_audit_next(void)
{
	return next_slice;
}

/*
 * Decide about the suspects, if it is time, then scan up to limit entries.
 * Returns the number of missed tasks.  Called in a transaction.
 */
int64
tq_dead_range_audit_slice(int limit)
{
	int64 left = check_at - tq_clock_monotonic();
	int64 lost = 0;

	if (suspect_count > 0 && left <= 0)
		lost = check();
	if (suspect_count == 0)
	{
		look(limit);
		left = check_at - tq_clock_monotonic();
	}
	if (suspect_count > 0)
		next_slice = tq_clock_dispatch() + Max(left, 0) + 1;
	return lost;
}

/* Which suspects were missed by claims?  They can be claimed from now on. */
static int64
check(void)
{
	int64 lost = 0;

	tq_counter_wait_for_ended();
	for (int i = 0; i < suspect_count; i++)
	{
		const Suspect *found = &suspects[i];

		if (!tq_dead_range_repaired(found->lane_id, found->priority,
									found->position, found->moment))
			continue;
		lost++;
		ereport(LOG,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("taskq: claims skipped claimable task " INT64_FORMAT,
						found->position.task_id),
				 errdetail("The task can be claimed from now on.")));
	}
	suspect_count = 0;
	return lost;
}

/* Scan up to limit entries, or until there are enough suspects. */
static void
look(int limit)
{
	TqCall              call;
	TqLaneScanDirection way;
	TqDeadRange         range;

	if (!pass.under_way)
		memset(&pass, 0, sizeof(pass));
	pass.under_way = true;
	tq_call_begin_look(&call);
	tq_lane_scan_prepare(
		&way, &call,
		tq_catalog_open_index(tq_catalog()->task_dispatch, AccessShareLock));
	way.jumps = false;
	way.bounded = true;
	way.budget = limit;
	while (!way.gave_up && next_range(&range))
	{
		/* the snapshot must be newer than the ranges */
		tq_snapshot_renew();
		look_through(&way, &range);
	}
	tq_dead_range_audited(limit - Max(way.budget, 0));
	index_close(way.index, NoLock);
	tq_call_end(&call);
	if (way.gave_up)
		next_slice = tq_clock_dispatch() + PAUSE;
	else
	{
		pass.under_way = false;
		next_slice = tq_claim_activity_take()
						 ? tq_clock_dispatch() + PASS_PAUSE
						 : DT_NOEND;
	}
}

/* The next range to scan; false at the end of the pass. */
static bool
next_range(TqDeadRange *range)
{
	while (!pass.has_entry || pass.range >= pass.entry.count)
	{
		pass.has_entry =
			tq_dead_range_next_to_audit(&pass.cursor, &pass.entry);
		if (!pass.has_entry)
			return false;
		pass.range = 0;
		pass.from = TQ_DEAD_RANGE_BEGIN;
	}
	*range = pass.entry.ranges[pass.range];
	if (tq_scan_compare(range->lo, pass.from) < 0)
		range->lo = pass.from;
	/* a task at infinity is not pending */
	if (range->hi.at == DT_NOEND)
		range->hi = (TqPosition){DT_NOEND - 1, PG_INT64_MAX};
	return true;
}

/* Scan a range until the slice is full. */
static void
look_through(TqLaneScanDirection *way, const TqDeadRange *range)
{
	TqLaneScan *scan = tq_lane_scan_open_range(way, pass.entry.lane_id,
											   pass.entry.priority, range);

	while (!way->gave_up && tq_lane_scan_next(scan))
		suspect(way, scan);
	if (way->gave_up)
		pass.from = tq_lane_scan_position(scan);
	else
		pass.range++;
	tq_lane_scan_close(scan);
}

/*
 * Add the task at the scan's position to the suspects, if claims may miss it.
 */
static void
suspect(TqLaneScanDirection *way, TqLaneScan *scan)
{
	TqPosition position = tq_lane_scan_position(scan);
	Suspect   *found = &suspects[suspect_count];

	/* another transaction has it, and publishes the position if needed */
	if (tq_tuple_lock_is_lost(way->call, &tq_lane_scan_slot(scan)->tts_tid))
		return;
	/* most positions have been published since the range was read */
	if (!tq_dead_range_still(pass.entry.lane_id, pass.entry.priority, position,
							 pass.entry.moment))
		return;
	found->lane_id = pass.entry.lane_id;
	found->priority = pass.entry.priority;
	found->position = position;
	found->moment = pass.entry.moment;
	check_at = tq_clock_monotonic() + TELL_TIME;
	if (++suspect_count == SUSPECTS)
		way->gave_up = true;
}

#ifdef TASKQ_DEBUG
/* Test function: mark a pending task as dead, which is wrong. */
Datum
taskq_debug_dead(PG_FUNCTION_ARGS)
{
	TqCall     call;
	TqTask     task;
	TqPosition position;

	tq_call_begin(&call, "taskq.debug_dead()");
	if (tq_row_find(&call, PG_GETARG_INT64(0), &task))
	{
		position = (TqPosition){task.f.available_at, task.f.task_id};
		tq_dead_range_learn(task.f.lane_id, task.f.priority, position,
							position, tq_dead_range_moment());
	}
	tq_call_end(&call);
	PG_RETURN_VOID();
}
#endif
