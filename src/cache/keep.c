/*
 * keep.c
 *		How long a finished task is kept.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/span.h"
#include "cache/keep.h"
#include "cache/queue.h"
#include "cache/task_options.h"

/*
 * Set where in the archive a finished task is stored and until when, or return
 * false if it is not kept.  Rows that are kept as long as taskq.retention says
 * are stored in the current leaf.  Rows with a retention of their own, and
 * rows whose reference stays reserved for some time, are stored in
 * archive_keep.
 */
bool
tq_keep_finished(const TqQueue *queue, TqTask *task, TqState to, TqTrace trace)
{
	const int64      month = 30 * USECS_PER_DAY;
	TqOptions        room;
	const TqOptions *options = tq_task_options(queue, task, &room);
	TqRetention      retention = options->retention;
	TimestampTz      now = tq_clock_wall();
	int64            server = (int64) tq_guc_retention * USECS_PER_SEC;
	int64            window = 0;
	bool             step = !task->isnull[TQ_COL_WORKFLOW_ID];

	/* it stays as long as its workflow */
	if (step)
		retention.keep = TQ_KEEP_FOREVER;
	else if (trace == TQ_TRACE_NONE)
		return false;
	if (!task->isnull[TQ_COL_REFERENCE])
		window = options->reference_window;
	if (to == TQ_STATE_DEAD && !step)
	{
		if (retention.keep == TQ_KEEP_NONE)
			retention.keep = TQ_KEEP_DEFAULT;
		if (options->retention_dead.keep != TQ_KEEP_DEFAULT)
			retention = options->retention_dead;
		else if (retention.keep != TQ_KEEP_FOREVER)
		{
			if (retention.keep == TQ_KEEP_DEFAULT)
				retention.span = server;
			retention.keep = TQ_KEEP_SPAN;
			retention.span = tq_span_longer(now, retention.span, month);
		}
	}
	else if (retention.keep == TQ_KEEP_NONE)
	{
		if (trace == TQ_TRACE_KEEP)
			retention.keep = TQ_KEEP_DEFAULT;
		else if (window == 0)
			return false;
		else
		{
			retention.keep = TQ_KEEP_SPAN;
			retention.span = 0;
		}
	}
	if (window == TQ_FOREVER)
		retention.keep = TQ_KEEP_FOREVER;
	else if (window > 0 && retention.keep != TQ_KEEP_FOREVER)
	{
		if (retention.keep == TQ_KEEP_DEFAULT)
			retention.span = server;
		retention.keep = TQ_KEEP_SPAN;
		retention.span = tq_span_longer(now, retention.span, window);
	}

	task->f.lease_until = DT_NOEND;
	tq_task_clear(task, TQ_COL_SUSPENDED_AT);
	tq_task_set(task, TQ_COL_FINISHED_AT, TimestampTzGetDatum(now));
	tq_task_clear(task, TQ_COL_EXPIRES_AT);
	if (retention.keep == TQ_KEEP_DEFAULT)
	{
		tq_task_set(task, TQ_COL_BUCKET, Int16GetDatum(tq_queue_bucket()));
		return true;
	}
	tq_task_set(task, TQ_COL_EXPIRES_AT,
				TimestampTzGetDatum(retention.keep == TQ_KEEP_FOREVER
										? DT_NOEND
										: tq_span_after(now, retention.span)));
	tq_task_set(task, TQ_COL_BUCKET, Int16GetDatum(TQ_LEAF_KEEP));
	return true;
}
