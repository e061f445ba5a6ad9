/*
 * task_time.c
 *		Where the tasks of a time are: bounds of ids, leaves of the archive.
 *
 * The time of creation has no index, but ids rise with it, nearly: the
 * sessions of a server draw ids and read the clock one after the other, and
 * the clock may be set back.  So bounds of ids are searched for a time that is
 * SLACK earlier or later, and are SLACK_IDS wider than found.  If the times of
 * two tasks differ from the order of their ids by no more than SLACK, no task
 * beyond the bounds matches: of two neighbours where the search ends, one is
 * before the time and one is not, and a task on the wrong side of them would
 * be more than SLACK off.
 *
 * The upper ten bits of an id are the number of its server.  The ids of each
 * server rise with time, so they are searched separately.
 *
 * Rows are read whether or not they are visible: a task has the same time of
 * creation in all of its versions, and many dead rows would have to be passed
 * over.  Bounds that are too wide are harmless: each row is compared with the
 * filter.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/stratnum.h"
#include "common/int.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "engine/id.h"
#include "query/task_time.h"

#define SLACK (10 * USECS_PER_MINUTE)
#define SLACK_IDS 10000

static bool  look_up(TqTaskPage *find, int64 id, bool backward, int64 *task_id,
					 TimestampTz *created_at);
static bool  first_of_server(TqTaskPage *find, int64 begin, int64 end,
							 TimestampTz moment, int64 *task_id);
static int64 first_since(TqTaskPage *find, TimestampTz moment);
static int64 last_before(TqTaskPage *find, TimestampTz moment);
static bool  end_of_leaf(TqTaskPage *find, int leaf, bool latest,
						 TimestampTz *finished_at);
static TqTimeRange finished_range(const TqTaskFilter *filter);

/*
 * Restrict bounds of ids to tasks that may have been created at the times of
 * the filter.  A task is created before it is claimed or finishes.
 */
void
tq_task_time_bounds(TqTaskPage *find, const TqTaskFilter *filter, int64 *first,
					int64 *last)
{
	TimestampTz from = filter->times[TQ_TIME_CREATED].from;
	TimestampTz to = Min(Min(filter->times[TQ_TIME_CREATED].to,
							 filter->times[TQ_TIME_FINISHED].to),
						 filter->times[TQ_TIME_CLAIMED].to);
	int64       id;

	if (from != DT_NOBEGIN && from - SLACK > DT_NOBEGIN)
	{
		id = first_since(find, from - SLACK);
		if (!pg_sub_s64_overflow(id, SLACK_IDS, &id))
			*first = Max(*first, id);
	}
	if (to != DT_NOEND && to + SLACK < DT_NOEND)
	{
		id = last_before(find, to + SLACK);
		if (!pg_add_s64_overflow(id, SLACK_IDS, &id))
			*last = Min(*last, id);
	}
}

/* Compare the times at which the rows of a leaf finished with the filter. */
TqLeafTime
tq_task_time_leaf(TqTaskPage *find, const TqTaskFilter *filter, int leaf)
{
	TqTimeRange range = finished_range(filter);
	TimestampTz earliest;
	TimestampTz latest;

	if (range.from == DT_NOBEGIN && range.to == DT_NOEND)
		return TQ_LEAF_TIME_ALL;
	if (!end_of_leaf(find, leaf, false, &earliest) ||
		!end_of_leaf(find, leaf, true, &latest) || latest < range.from ||
		earliest >= range.to)
		return TQ_LEAF_TIME_OUTSIDE;
	return earliest >= range.from && latest < range.to ? TQ_LEAF_TIME_ALL
													   : TQ_LEAF_TIME_PARTLY;
}

/* The rows of a leaf that may have finished at the times of the filter. */
void
tq_task_time_range(const TqTaskFilter *filter, TqRange *range)
{
	TqTimeRange times = finished_range(filter);

	ScanKeyInit(&range->keys[range->nkeys++], 1, BTGreaterEqualStrategyNumber,
				F_TIMESTAMPTZ_GE, TimestampTzGetDatum(times.from));
	ScanKeyInit(&range->keys[range->nkeys++], 1, BTLessStrategyNumber,
				F_TIMESTAMPTZ_LT, TimestampTzGetDatum(times.to));
}

/* A task is claimed before it finishes. */
static TqTimeRange
finished_range(const TqTaskFilter *filter)
{
	TqTimeRange range = filter->times[TQ_TIME_FINISHED];
	TimestampTz claimed = filter->times[TQ_TIME_CLAIMED].from;

	if (claimed != DT_NOBEGIN && claimed - SLACK > DT_NOBEGIN)
		range.from = Max(range.from, claimed - SLACK);
	return range;
}

/* The first id of a task created since the moment, or beyond all ids. */
static int64
first_since(TqTaskPage *find, TimestampTz moment)
{
	int64       id;
	TimestampTz created_at;

	for (int64 begin = PG_INT64_MIN;
		 look_up(find, begin, false, &id, &created_at);)
	{
		int64 end = id | TQ_ID_SEQUENCE_MASK;

		if (first_of_server(find, id, end, moment, &id))
			return id;
		if (end == PG_INT64_MAX)
			break;
		begin = end + 1;
	}
	return PG_INT64_MAX;
}

/* The last id of a task created before the moment, or below all ids. */
static int64
last_before(TqTaskPage *find, TimestampTz moment)
{
	int64       id;
	TimestampTz created_at;

	for (int64 end = PG_INT64_MAX; look_up(find, end, true, &id, &created_at);)
	{
		int64 begin = id & ~TQ_ID_SEQUENCE_MASK;
		int64 since;
		int64 last = id;

		if (!first_of_server(find, begin, id, moment, &since))
			return last;
		if (look_up(find, begin, false, &id, &created_at) && id < since)
			return since - 1;
		if (begin == PG_INT64_MIN)
			break;
		end = begin - 1;
	}
	return PG_INT64_MIN;
}

/*
 * Find by bisection a task of one server, created since the moment, before
 * which there is none or one created before the moment.
 */
static bool
first_of_server(TqTaskPage *find, int64 begin, int64 end, TimestampTz moment,
				int64 *task_id)
{
	int64       high = end;
	int64       id;
	TimestampTz created_at;
	bool        found = false;

	if (look_up(find, end, true, &id, &created_at))
		high = id;
	while (begin <= high)
	{
		int64 middle = begin + (high - begin) / 2;

		CHECK_FOR_INTERRUPTS();
		if (!look_up(find, middle, false, &id, &created_at) || id > high)
			high = middle - 1;
		else if (created_at >= moment)
		{
			*task_id = id;
			found = true;
			high = middle - 1;
		}
		else
			begin = id + 1;
	}
	return found;
}

/* Find the first task from an id on in all tables, or the last up to it. */
static bool
look_up(TqTaskPage *find, int64 id, bool backward, int64 *task_id,
		TimestampTz *created_at)
{
	bool found = false;

	for (int t = 0; t < TQ_FOUND_TABLES; t++)
	{
		TqTaskTable  *table = tq_task_page_table(find, t);
		ScanKeyData   key;
		IndexScanDesc scan;

		if (RelationGetNumberOfBlocks(table->rel) == 0)
			continue;
		ScanKeyInit(&key, 1,
					backward ? BTLessEqualStrategyNumber
							 : BTGreaterEqualStrategyNumber,
					backward ? F_INT8LE : F_INT8GE, Int64GetDatum(id));
		scan = tq_compat_index_beginscan(
			table->rel, tq_task_page_index(find, t, TQ_BY_ID), SnapshotAny, 1);
		index_rescan(scan, &key, 1, NULL, 0);
		if (index_getnext_slot(
				scan, backward ? BackwardScanDirection : ForwardScanDirection,
				table->slot))
		{
			bool         should_free;
			TqTaskFixed *row = (TqTaskFixed *) GETSTRUCT(
				ExecFetchSlotHeapTuple(table->slot, false, &should_free));

			if (!found ||
				(backward ? row->task_id > *task_id : row->task_id < *task_id))
			{
				*task_id = row->task_id;
				*created_at = row->created_at;
			}
			found = true;
		}
		ExecClearTuple(table->slot);
		index_endscan(scan);
	}
	return found;
}

/* When the first or the last row of a leaf finished. */
static bool
end_of_leaf(TqTaskPage *find, int leaf, bool latest, TimestampTz *finished_at)
{
	TqTaskTable  *table = tq_task_page_table(find, leaf);
	IndexScanDesc scan;
	bool          found;
	bool          isnull;

	scan = tq_compat_index_beginscan(
		table->rel, tq_task_page_index(find, leaf, TQ_BY_FINISHED),
		find->snapshot, 0);
	scan->xs_want_itup = true;
	index_rescan(scan, NULL, 0, NULL, 0);
	found = index_getnext_tid(scan, latest ? BackwardScanDirection
										   : ForwardScanDirection) != NULL;
	if (found)
		*finished_at = DatumGetTimestampTz(
			index_getattr(scan->xs_itup, 1, scan->xs_itupdesc, &isnull));
	index_endscan(scan);
	return found;
}
