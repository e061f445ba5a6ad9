/*
 * pool.c
 *		Starts and stops the executors of a database.
 *
 * The background worker calls tq_pool_turn in each of its turns.  For each
 * queue with an executor that has room, it peeks at the next task, and gives
 * the queue to an idle executor of the role that the task runs as, or starts
 * one.  If there is no slot, it ends an executor of another role that is idle.
 *
 * Tasks start in the order of their queue, whatever their roles.  An executor
 * stops at a task of another role, and becomes idle; so no role can keep
 * another one waiting by a long backlog, and none walks past tasks that it may
 * not run.  One executor of a queue looks for a task at a time: until it has
 * found one, the peek would show the same task again.
 *
 * A task that no executor may run is moved out of the way: it is dead if its
 * role cannot connect any longer, and suspended if no role has decided that it
 * is SQL (a dead letter, or a task that was submitted before its queue had an
 * executor).
 *
 * The background worker also sends the heartbeats of executors, which run SQL
 * and cannot do so, and cancels tasks that were asked to stop.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "postmaster/bgworker.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/dispatch.h"
#include "engine/failure.h"
#include "engine/sql_task.h"
#include "engine/state.h"
#include "engine/step.h"
#include "shared/executor_slot.h"
#include "shared/heartbeat.h"
#include "sql_task/pool.h"
#include "sql_task/sql_executor.h"
#include "store/large.h"
#include "store/row.h"

#define TEND (1000 * INT64CONST(1000))            /* us: cancels, heartbeats */
#define START_TIME (10 * 1000 * INT64CONST(1000)) /* us: to attach */
#define FAILED_PAUSE (1000 * INT64CONST(1000))    /* us: of a role */
#define VAIN_FIRST INT64CONST(10000)              /* us */
#define VAIN_LAST (1000 * INT64CONST(1000))       /* us */

/* A queue with an executor; kept until the queues change. */
typedef struct PoolQueue
{
	int32       queue_id;
	int64       vain_pause;  /* after a look that found no task */
	TimestampTz vain_until;  /* dispatch clock */
	bool        was_looking; /* in the last turn */
} PoolQueue;

static PoolQueue *queues = NULL;
static int        queue_count = 0;
static uint64     queues_generation = 0;

/* When the next turn is due without an event (dispatch clock). */
static TimestampTz next_turn = DT_NOEND;

/* No background worker slot was free: in this turn, and in the last one. */
static bool lacks_slot = false;
static bool lacked_slot = false;

static void read_queues(void);
static void serve(TqCall *call, PoolQueue *queue, TqExecutor *executors,
				  int count);
static bool has_room(const PoolQueue *of, const TqQueue *queue,
					 const TqExecutor *executors, int count, bool *looking);
static bool find_task(TqCall *call, PoolQueue *of, TqTask *task);
static bool move_away(TqCall *call, TqQueue *queue, TqTask *task);
static void find_executor(PoolQueue *of, const TqTask *task,
						  const TqExecutor *executors, int count);
static void start_executor(PoolQueue *of, const TqTask *task,
						   const TqExecutor *executors, int count);
static bool has_failed(int32 role_id, const TqExecutor *executors, int count);
static void tend(TqCall *call, const TqExecutor *executors, int count);
static void turn_by(int64 pause);

/* Called once, when the background worker has started. */
void
tq_pool_start(void)
{
	queues_generation = 0;
	next_turn = DT_NOEND;
}

/* Is there a queue with an executor, or must the queues be read again? */
bool
tq_pool_is_needed(void)
{
	return queue_count > 0 ||
		   queues_generation != tq_catalog_queue_generation();
}

TimestampTz
tq_pool_next(void)
{
	return next_turn;
}

/* A duty: see the head of this file. */
int64
tq_pool_turn(int limit)
{
	TqExecutor *executors;
	TqCall      call;
	int         count;

	next_turn = DT_NOEND;
	lacks_slot = false;
	tq_call_begin(&call, "taskq: executors");
	read_queues();
	for (int i = 0; i < queue_count; i++)
	{
		executors = tq_executor_slot_list(&count);
		serve(&call, &queues[i], executors, count);
		pfree(executors);
	}
	TQ_DEBUG_POINT("pool_served");
	executors = tq_executor_slot_list(&count);
	tend(&call, executors, count);
	if (lacks_slot != lacked_slot)
		tq_executor_slot_lack(lacks_slot);
	lacked_slot = lacks_slot;
	tq_call_end(&call);
	return 0; /* nothing to log */
}

static void
read_queues(void)
{
	uint64     generation = tq_catalog_queue_generation();
	char     **names;
	int        count;
	PoolQueue *found;
	int        found_count = 0;

	if (queues_generation == generation)
		return;
	names = tq_queue_names(&count);
	found = MemoryContextAllocZero(TopMemoryContext,
								   sizeof(PoolQueue) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL && queue->options.executors > 0)
			found[found_count++].queue_id = queue->queue_id;
	}
	if (queues != NULL)
		pfree(queues);
	queues = found;
	queue_count = found_count;
	queues_generation = generation;
}

/* Find an executor for the next task of the queue. */
static void
serve(TqCall *call, PoolQueue *of, TqExecutor *executors, int count)
{
	TqQueue    *queue = tq_queue_by_id(of->queue_id);
	TimestampTz now = tq_clock_dispatch();
	TqTask      task;
	bool        looking = false;

	if (queue == NULL || tq_queue_is_paused(queue))
		return;
	if (!has_room(of, queue, executors, count, &looking))
	{
		of->was_looking = looking;
		if (looking)
			turn_by(TEND);
		return;
	}
	/* it has looked, and nothing runs: do not ask it at once again */
	if (of->was_looking)
	{
		bool runs = false;

		for (int i = 0; i < count; i++)
			runs |= executors[i].state == TQ_EXECUTOR_RUNNING &&
					executors[i].database == MyDatabaseId &&
					executors[i].queue_id == of->queue_id;
		of->vain_pause =
			runs ? 0 : Min(Max(of->vain_pause * 2, VAIN_FIRST), VAIN_LAST);
		of->vain_until = now + of->vain_pause;
		of->was_looking = false;
	}
	if (!find_task(call, of, &task))
		return;
	if (of->vain_until > now)
	{
		turn_by(of->vain_until - now);
		return;
	}
	find_executor(of, &task, executors, count);
}

/* May another task of the queue begin now? */
static bool
has_room(const PoolQueue *of, const TqQueue *queue,
		 const TqExecutor *executors, int count, bool *looking)
{
	int busy = 0;

	for (int i = 0; i < count; i++)
	{
		const TqExecutor *one = &executors[i];

		if (one->database != MyDatabaseId || one->queue_id != of->queue_id)
			continue;
		if (one->state == TQ_EXECUTOR_STARTING && one->pid == 0 &&
			tq_clock_monotonic() - one->since > START_TIME)
			tq_executor_slot_give_up(i);
		*looking |= one->state == TQ_EXECUTOR_LOOKING ||
					one->state == TQ_EXECUTOR_STARTING;
		busy += one->state == TQ_EXECUTOR_RUNNING;
	}
	return !*looking && busy < queue->options.executors;
}

/* The next task that an executor may run; moves others out of its way. */
static bool
find_task(TqCall *call, PoolQueue *of, TqTask *task)
{
	static const TqTags no_tags = {0};

	for (int i = 0; i < 100; i++)
	{
		TqQueue *queue = tq_queue_by_id(of->queue_id);
		TqPeek   peek = {.to_the_end = true};

		CHECK_FOR_INTERRUPTS();
		tq_call_renew(call);
		tq_dispatch_peek(call, queue, &no_tags, queue->options.order, false,
						 &peek);
		if (!peek.found)
			return false;
		*task = peek.head;
		if (tq_sql_task_run_as(task) != 0 &&
			tq_sql_task_bar(tq_role_oid(task->i.run_as)) == NULL)
			return true;
		if (!move_away(call, queue, task))
			break;
	}
	turn_by(VAIN_LAST);
	return false;
}

static bool
move_away(TqCall *call, TqQueue *queue, TqTask *task)
{
	TqMove      move = {.no_wait = true};
	const char *why = tq_step_is(task)
						  ? "The SQL of a step must be a literal of its "
							"template."
						  : "The task was submitted before its queue had an "
							"executor.";

	if (tq_sql_task_run_as(task) != 0)
	{
		Oid         role = tq_role_oid(task->i.run_as);
		const char *bar = tq_sql_task_bar(role);
		const char *name = OidIsValid(role) ? GetUserNameFromId(role, true)
											: NULL;

		move.to = TQ_STATE_DEAD;
		move.reason = TQ_REASON_REJECTED;
		tq_failure_add_error(
			task,
			name == NULL
				? psprintf("the role of the SQL task cannot run it, "
						   "because %s",
						   bar)
				: psprintf("role \"%s\" cannot run the SQL task, because %s",
						   name, bar),
			NULL, NULL);
	}
	else
	{
		move.to = TQ_STATE_SUSPENDED;
		move.reason = TQ_REASON_HELD;
		if ((task->f.flags & TQ_FLAG_DEAD_LETTER) != 0)
			why = "A dead letter is never executed.";
		tq_large_put(task, TQ_COL_MESSAGE, CStringGetTextDatum(why));
	}
	move.wanted = "move";
	return tq_state_enter(call, queue, task, &move);
}

static void
find_executor(PoolQueue *of, const TqTask *task, const TqExecutor *executors,
			  int count)
{
	for (int i = 0; i < count; i++)
	{
		const TqExecutor *one = &executors[i];

		if (one->state == TQ_EXECUTOR_IDLE && one->database == MyDatabaseId &&
			one->role_id == task->i.run_as &&
			one->role == tq_role_oid(one->role_id) &&
			tq_executor_slot_assign(i, of->queue_id))
		{
			of->was_looking = true;
			turn_by(TEND);
			return;
		}
	}
	if (has_failed(task->i.run_as, executors, count))
		turn_by(FAILED_PAUSE);
	else
		start_executor(of, task, executors, count);
}

/* Start an executor, or make room for it. */
static void
start_executor(PoolQueue *of, const TqTask *task, const TqExecutor *executors,
			   int count)
{
	BackgroundWorker worker = {0};
	Oid              role = tq_role_oid(task->i.run_as);
	int              number;
	Datum            arg =
		tq_executor_slot_reserve(task->i.run_as, role, of->queue_id, &number);

	if (arg == (Datum) 0)
	{
		for (int i = 0; i < count; i++)
			if (tq_executor_slot_end_idle(i))
				break;
		turn_by(VAIN_FIRST);
		return;
	}
	snprintf(worker.bgw_name, BGW_MAXLEN, "taskq executor of role %s",
			 GetUserNameFromId(role, false));
	snprintf(worker.bgw_type, BGW_MAXLEN, "taskq executor");
	snprintf(worker.bgw_library_name, BGW_MAXLEN, "taskq");
	snprintf(worker.bgw_function_name, BGW_MAXLEN, TQ_SQL_EXECUTOR_MAIN);
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
					   BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = arg;
	worker.bgw_notify_pid = MyProcPid;
	if (RegisterDynamicBackgroundWorker(&worker, NULL))
	{
		of->was_looking = true;
		turn_by(TEND);
		return;
	}
	tq_executor_slot_give_up(number);
	lacks_slot = true;
	if (!lacked_slot)
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("taskq: could not start an executor of SQL tasks: no "
						"free slot"),
				 errhint("Increase \"max_worker_processes\" and restart the "
						 "server.")));
	turn_by(VAIN_LAST);
}

/* Has an executor of the role just failed to begin? */
static bool
has_failed(int32 role_id, const TqExecutor *executors, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (executors[i].failed_role == role_id &&
			executors[i].failed_database == MyDatabaseId &&
			tq_clock_monotonic() - executors[i].failed_at < FAILED_PAUSE)
			return true;
	}
	return false;
}

/* Heartbeats of executors, and cancels of tasks that must stop. */
static void
tend(TqCall *call, const TqExecutor *executors, int count)
{
	static int64 last = 0; /* monotonic clock */
	int64        now = tq_clock_monotonic();
	bool         any = false;
	bool         due = now - last >= TEND;

	/* the claims of tasks that the executors run are to be seen */
	if (due)
		tq_call_renew(call);
	for (int i = 0; i < count; i++)
	{
		const TqExecutor *one = &executors[i];
		TqTask            task;

		if (one->state == TQ_EXECUTOR_NONE || one->database != MyDatabaseId)
			continue;
		any = true;
		if (!due)
			continue;
		if (one->worker_id != 0)
			(void) tq_heartbeat_beat(one->worker_id);
		if (one->state != TQ_EXECUTOR_RUNNING)
			continue;
		if (!tq_row_find(call, one->task_id, &task) ||
			task.f.state != TQ_STATE_RUNNING || task.f.token != one->token ||
			tq_failure_stop_asked(&task))
			tq_executor_slot_cancel(i, one->task_id, one->token);
	}
	if (due)
		last = now;
	if (any)
		turn_by(TEND);
}

/* Take another turn after this time, at the latest. */
static void
turn_by(int64 pause)
{
	next_turn = Min(next_turn, tq_clock_dispatch() + pause);
}
