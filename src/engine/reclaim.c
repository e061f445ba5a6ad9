/*
 * reclaim.c
 *		Reclaiming running tasks: their worker has ended, or their lease or
 *		time limit has expired.
 *
 * Rows of several tasks are locked in id order.  The duties never wait for a
 * task that they reclaim: neither for a transaction that is changing it, nor
 * for transactions on which the consequences of its end depend.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/debug.h"
#include "base/spi.h"
#include "engine/call.h"
#include "engine/failure.h"
#include "engine/key.h"
#include "engine/liveness.h"
#include "engine/reclaim.h"
#include "engine/state.h"
#include "engine/step.h"
#include "engine/step_savepoint.h"
#include "shared/worker_directory.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "store/tuple_lock.h"

static TqStmt stmt_held_by = {
	"SELECT task_id, token, worker_id FROM taskq.task"
	" WHERE worker_id = ANY ($1) AND state = " TQ_SQL_STATE_RUNNING
	" ORDER BY task_id",
	{INT4ARRAYOID}};

static int  held_by(List *workers, TqRunning **found);
static void lock_ahead(TqCall *call, const int64 *ids, const int64 *tokens,
					   int count);
static bool reclaim_one(TqCall *call, void *arg);
static bool reclaim(TqCall *call, int64 task_id, int64 token, int32 worker_id,
					TimestampTz now, bool free_of_charge, bool *busy);
static TqRunning put_running(const TqQueue *queue, const TqTask *task);
static bool      give_back(TqCall *call, TqQueue *queue, TqTask *task);

/*
 * Return the tasks of ended registrations to the queue immediately; return
 * their number. free_of_charge: the attempt does not count.
 */
int64
tq_reclaim_held_by(TqCall *call, List *workers, bool free_of_charge)
{
	TimestampTz now = tq_clock_dispatch();
	TqRunning  *found;
	int         count;
	int64      *ids;
	int64      *tokens;
	int64       returned = 0;

	if (workers == NIL)
		return 0;
	count = held_by(workers, &found);
	ids = palloc(sizeof(int64) * (count + 1));
	tokens = palloc(sizeof(int64) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		ids[i] = found[i].task_id;
		tokens[i] = found[i].token;
	}
	lock_ahead(call, ids, tokens, count);
	for (int i = 0; i < count; i++)
	{
		if (reclaim(call, ids[i], tokens[i], found[i].worker_id, now,
					free_of_charge, NULL))
			returned++;
	}
	return returned;
}

/*
 * Returns the tasks in the order of their ids. taskq.task is scanned only if
 * the table of running tasks in memory may be incomplete.
 */
static int
held_by(List *workers, TqRunning **found)
{
	int    count = list_length(workers);
	int32 *sorted = palloc(sizeof(int32) * count);
	uint64 rows;
	Datum  arg;
	TqSpi  spi;

	for (int i = 0; i < count; i++)
		sorted[i] = list_nth_int(workers, i);
	if (tq_running_complete())
	{
		qsort(sorted, count, sizeof(int32), tq_order_int32);
		*found = palloc(sizeof(TqRunning) * TQ_MAX_CLAIM);
		count = tq_running_of_workers(sorted, count, *found, TQ_MAX_CLAIM);
		qsort(*found, count, sizeof(TqRunning), tq_reclaim_compare);
		return count;
	}
	arg = tq_spi_int4_array(sorted, count);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_held_by, &arg, NULL, 0);
	*found =
		MemoryContextAllocHuge(spi.caller, sizeof(TqRunning) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		(*found)[i].task_id = tq_spi_int8(i, 1, 0);
		(*found)[i].token = tq_spi_int8(i, 2, 0);
		(*found)[i].worker_id = tq_spi_int4(i, 3, 0);
	}
	tq_spi_leave(&spi);
	return (int) rows;
}

/* Lock all workflow instances, then all keys, before any task. */
static void
lock_ahead(TqCall *call, const int64 *ids, const int64 *tokens, int count)
{
	TqInstanceLockKind *kinds = MemoryContextAllocHuge(
		CurrentMemoryContext, sizeof(TqInstanceLockKind) * (count + 1));

	for (int i = 0; i < count; i++)
		kinds[i] = TQ_FLOW_LOCK_FAILURE;
	/* the locks may be those for tasks of another worker */
	tq_call_steps(call)->locked = false;
	if (count > 1)
		tq_step_hooks.moving_all(call, ids, tokens, kinds, count, 0);
	pfree(kinds);
	tq_key_lock_tasks(call, ids, NULL, count, 0);
}

/*
 * Never waits, neither for the task nor for transactions on which the
 * consequences of its end depend.
 */
bool
tq_reclaim_try(TqCall *call, TqReclaim *loss)
{
	TqTask task;

	if (tq_row_find(call, loss->running->task_id, &task) && tq_step_is(&task))
		return tq_step_savepoint_run(reclaim_one, loss, &loss->busy);
	return reclaim_one(call, loss);
}

static bool
reclaim_one(TqCall *call, void *arg)
{
	TqReclaim *loss = arg;

	return reclaim(call, loss->running->task_id, loss->running->token,
				   loss->worker_id, loss->now, false, &loss->busy);
}

/*
 * Reclaim a running task from the holder of the token, because the worker's
 * registration has ended (worker_id) or the task's lease or time limit has
 * expired.  Returns false if none of these applies (any longer).
 *
 * If busy is given, the call does not wait for a transaction that is changing
 * the task, since an open transaction must not delay all other tasks; it sets
 * *busy instead.
 */
static bool
reclaim(TqCall *call, int64 task_id, int64 token, int32 worker_id,
		TimestampTz now, bool free_of_charge, bool *busy)
{
	for (;;)
	{
		TqTask   task;
		TqQueue *queue;
		TqMove   move = {0};

		if (!tq_row_find(call, task_id, &task) ||
			task.f.state != TQ_STATE_RUNNING || task.f.token != token)
			return false;
		queue = tq_queue_by_id(task.f.queue_id);
		if (queue == NULL)
			return false;
		if (busy != NULL && (tq_tuple_lock_is_taken(call, &task) ||
							 !tq_key_try_task(call, queue, &task)))
		{
			*busy = true;
			return false;
		}
		if (worker_id != 0 && task.f.worker_id == worker_id)
		{
			if (free_of_charge)
			{
				if (give_back(call, queue, &task))
					return true;
				tq_snapshot_renew();
				continue;
			}
			tq_failure_lost(queue, &task, &move, TQ_REASON_WORKER_DEAD);
		}
		else if (task.f.lease_until <= now)
			tq_failure_lost(queue, &task, &move, TQ_REASON_LEASE_EXPIRED);
		else if (tq_state_running_until(queue, &task) <= now)
			tq_failure_lost(queue, &task, &move, TQ_REASON_TIMEOUT);
		else
		{
			TqRunning running = put_running(queue, &task);

			tq_worker_directory_due(running.due_at);
			return false;
		}
		move.no_wait = busy != NULL;
		if (tq_state_enter(call, queue, &task, &move))
			return true;
		/* it would be read in the same version again, forever */
		if (busy != NULL && IsolationUsesXactSnapshot())
		{
			*busy = true;
			return false;
		}
		tq_snapshot_renew();
	}
}

/* Make the entry of a running task agree with its row. */
static TqRunning
put_running(const TqQueue *queue, const TqTask *task)
{
	TqRunning running;

	running.task_id = task->f.task_id;
	running.token = task->f.token;
	running.version = task->f.version;
	running.worker_id = task->f.worker_id;
	running.queue_id = task->f.queue_id;
	running.tid = task->tid;
	running.due_at = tq_state_running_until(queue, task);
	running.claimed_at = task->f.claimed_at;
	tq_running_put(&running);
	return running;
}

/* Return the task to the queue as if it had not been claimed. */
static bool
give_back(TqCall *call, TqQueue *queue, TqTask *task)
{
	TqMove move = {0};

	move.to = task->isnull[TQ_COL_CANCEL_REQUESTED_AT] ? TQ_STATE_PENDING
													   : TQ_STATE_CANCELLED;
	move.wanted = "return";
	move.due_at = tq_failure_place(task);
	move.end = TQ_END_RELEASED;
	task->f.attempt = Max(task->f.attempt - 1, 0);
	return tq_state_enter(call, queue, task, &move);
}

/*
 * Read every running task: add it to the table of running tasks in memory, and
 * find those that expire by now.  After that the table in memory is complete,
 * provided that settled confirms that the rows read were final.
 */
int
tq_reclaim_scan(TimestampTz now, bool settled, int passed, TqRunning *found,
				int max, TimestampTz *next)
{
	Relation rel = tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	uint64   begun = tq_running_rebuild_begin();
	TableScanDesc scan;
	HeapTuple     tuple;
	int           count = 0;

	*next = DT_NOEND;
	tq_snapshot_renew();
	scan =
		table_beginscan_strat(rel, GetActiveSnapshot(), 0, NULL, true, false);
	while ((tuple = heap_getnext(scan, ForwardScanDirection)) != NULL)
	{
		TqTaskFixed row;
		TqRunning   running;
		TqQueue    *queue;
		TqTask      task;

		CHECK_FOR_INTERRUPTS();
		memcpy(&row, GETSTRUCT(tuple), sizeof(row));
		if (row.state != TQ_STATE_RUNNING)
			continue;
		queue = tq_queue_by_id(row.queue_id);
		if (queue == NULL)
			continue;
		task.f = row;
		task.tid = tuple->t_self;
		task.isnull[TQ_COL_OPTIONS] = true;
		if (!heap_attisnull(tuple, TQ_COL_OPTIONS, RelationGetDescr(rel)))
			tq_row_read(tuple, RelationGetDescr(rel), &task);
		TQ_DEBUG_POINT("registry_scanning");
		running = put_running(queue, &task);
		if (running.due_at > now)
			*next = Min(*next, running.due_at);
		else if (passed > 0)
			passed--;
		else if (count < max)
			found[count++] = running;
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	tq_liveness_load();
	if (settled)
		tq_running_rebuild_end(begun);
	return count;
}

/* Order by task, which is the lock order. */
int
tq_reclaim_compare(const void *a, const void *b)
{
	return tq_compare_int64(((const TqRunning *) a)->task_id,
							((const TqRunning *) b)->task_id);
}
