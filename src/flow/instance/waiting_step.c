/*
 * waiting_step.c
 *		Is a step waiting for something other than a worker, and until when?
 *
 * Such a step (timer, signal, approval, workflow) is suspended without a
 * reason; a step that an operator has suspended has a reason.
 * flow/run/wait_step.c suspends and ends these steps; this file answers the
 * questions of other files.  A timer in taskq.timer belongs to one suspension,
 * identified by its time, so a timer left over from an earlier suspension is
 * not found.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/spi.h"
#include "flow/instance/waiting_step.h"

static TqStmt stmt_of_step = {
	"SELECT at FROM taskq.timer WHERE task_id = $1 AND since = $2",
	{INT8OID, TIMESTAMPTZOID}};

/* Is it a step that waits for an instance, and will try again to start it? */
bool
tq_waiting_step_is_put_off(const TqTask *task)
{
	return tq_waiting_step_until(task->f.task_id,
								 TQ_TASK_TIME(task, TQ_COL_SUSPENDED_AT, 0)) !=
		   0;
}

/* Was it suspended to wait, and not by an operator? */
bool
tq_waiting_step_is(const TqTask *task)
{
	return task->f.state == TQ_STATE_SUSPENDED &&
		   task->f.reason == TQ_REASON_NONE;
}

/*
 * Returns the time of the timeout of a step that has been waiting since the
 * given time, or the time at which it tries again to start its instance; 0 if
 * there is neither.
 */
TimestampTz
tq_waiting_step_until(int64 task_id, TimestampTz since)
{
	Datum args[2] = {Int64GetDatum(task_id), TimestampTzGetDatum(since)};

	return tq_spi_find_time(&stmt_of_step, args, 0);
}
