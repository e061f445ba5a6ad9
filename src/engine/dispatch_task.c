/*
 * dispatch_task.c
 *		Claiming one given task.
 *
 * taskq_change claims a task that the caller has chosen and locked.  The same
 * conditions apply as to a task that a claim finds: the state of the worker
 * and of the queue, and the limits.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/span.h"
#include "cache/queue.h"
#include "engine/dispatch_task.h"
#include "engine/limit.h"
#include "engine/move.h"
#include "engine/state.h"

/*
 * Claim this task, which is pending and locked by the caller, if a claim could
 * take it; otherwise return the reason why not.
 */
const char *
tq_dispatch_take(TqCall *call, TqQueue *queue, TqTask *task,
				 const TqWorker *worker, int64 lease)
{
	TqReservation reserved = TQ_RESERVE_UNKNOWN;

	if (worker->draining)
		return "its worker is drained";
	if (TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND) <= tq_clock_wall())
		return "its deadline has passed";
	if (task->f.max_attempts != -1 && task->f.attempt >= task->f.max_attempts)
		return "its attempts are used up";
	for (int i = 0; i < TQ_LIMIT_RECOUNTS && reserved == TQ_RESERVE_UNKNOWN;
		 i++)
	{
		TqQueue now = *queue;
		TqLimit limit = {0};
		TqMove  move = {0};

		limit.queue = &now;
		limit.worker_id = worker->worker_id;
		limit.worker_max = worker->max_running;
		tq_limit_begin(&limit);
		tq_queue_refresh();
		now = *tq_queue_by_id(task->f.queue_id);
		if (tq_queue_is_paused(&now))
		{
			tq_limit_end(&limit);
			return "its queue is paused";
		}
		tq_limit_require(&limit);
		reserved = tq_limit_reserve(&limit, task->f.task_id);
		if (reserved == TQ_RESERVE_DONE)
		{
			move.to = TQ_STATE_RUNNING;
			move.wanted = "claim";
			move.worker_id = worker->worker_id;
			move.claimed_at = tq_clock_dispatch();
			move.lease_until = tq_span_after(move.claimed_at, lease);
			if (!tq_state_enter(call, queue, task, &move))
				tq_error_serialization();
		}
		tq_limit_end(&limit);
		if (reserved == TQ_RESERVE_UNKNOWN)
			tq_limit_know(&limit);
	}
	return reserved == TQ_RESERVE_DONE ? NULL : "a limit does not allow it";
}
