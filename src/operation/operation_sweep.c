/*
 * operation_sweep.c
 *		Removes operations that have ended.
 *
 * They are kept as long as finished tasks, but not more than 10,000 of them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/clock.h"
#include "base/guc.h"
#include "engine/call.h"
#include "operation/operation_row.h"
#include "operation/operation_sweep.h"

#define KEEP 10000

/* Remove operations, at most limit of them; returns their number. */
int64
tq_operation_sweep(int limit)
{
	TimestampTz before = DT_NOBEGIN;
	TqCall      call;
	int64       removed;

	if (tq_guc_retention > 0)
		before = tq_clock_wall() - (int64) tq_guc_retention * USECS_PER_SEC;
	tq_call_begin(&call, "taskq duties");
	removed = tq_operation_row_sweep(KEEP, before, limit);
	tq_call_end(&call);
	return removed;
}
