/*
 * waiting_step.c
 *		Is a step waiting for something that no worker does, and until when?
 *
 * Such a step (timer, signal, approval, workflow) is suspended without a
 * reason; one that a person has suspended has a reason.  flow/run/wait_step.c
 * suspends it and ends it; here are the questions that other files ask of
 * it.  A timer in taskq.timer belongs to one suspension, named by its moment,
 * so one that is left over from an earlier suspension is not found.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/spi.h"
#include "flow/instance/waiting_step.h"

static TqStmt stmt_of_step = {
	"SELECT at FROM taskq.timer WHERE task_id = $1 AND since = $2",
	{INT8OID, TIMESTAMPTZOID}};

/* Does one that waits for an instance try again to begin it? */
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
 * When the time of a step is up that has been waiting since a moment, or when
 * it tries again to begin its instance; 0: never.
 */
TimestampTz
tq_waiting_step_until(int64 task_id, TimestampTz since)
{
	Datum args[2] = {Int64GetDatum(task_id), TimestampTzGetDatum(since)};

	return tq_spi_find_time(&stmt_of_step, args, 0);
}
