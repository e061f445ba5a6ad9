/*
 * duty.c
 *		The list of background duties; tasks of dead workers, expired leases
 *		and time limits, deadlines.
 *
 * Retention is in retention.c and forget_worker.c, workers that send no
 * heartbeat are in silent_worker.c, those bound to a connection in
 * bound_worker.c, wake-ups of waiting sessions in wake_turn.c, and the reclaim
 * of a task in reclaim.c.
 *
 * Each duty is a function that works in the current transaction on a bounded
 * number of tasks and returns the number processed.  The background worker
 * calls tq_duty_turn, which runs the duties that are due, each batch in a
 * transaction of its own, and returns when it must be called again.
 * taskq_run_reapers() runs one batch of each duty in the caller's transaction.
 *
 * Every task is read again and moved by tq_state_enter; a task that has
 * changed in the meantime is skipped.
 *
 * If the running-task table of a database is incomplete (after a start, a
 * wipe, an overflow, the end of a prepared transaction), taskq.task is scanned
 * completely, which also completes the table.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/code.h"
#include "base/debug.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/activation.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/leaked_entry.h"
#include "engine/liveness.h"
#include "engine/reclaim.h"
#include "engine/state.h"
#include "engine/step.h"
#include "engine/step_savepoint.h"
#include "engine/sweep.h"
#include "flow/run/expire.h"
#include "flow/run/step_timer.h"
#include "maintenance/batch_run.h"
#include "maintenance/bound_worker.h"
#include "maintenance/dead_range_audit.h"
#include "maintenance/duty.h"
#include "maintenance/forget_change.h"
#include "maintenance/forget_lane.h"
#include "maintenance/forget_worker.h"
#include "maintenance/operation_turn.h"
#include "maintenance/orphan.h"
#include "maintenance/retention.h"
#include "maintenance/silent_worker.h"
#include "maintenance/wake_turn.h"
#include "operation/operation_run.h"
#include "operation/operation_sweep.h"
#include "query/finished_count.h"
#include "query/metric_minute.h"
#include "schedule/fire.h"
#include "shared/running.h"
#include "sql_task/pool.h"
#include "store/row.h"
#include "store/snapshot.h"

#define BATCH 100                           /* tasks of one transaction */
#define BUSY_PAUSE (200 * INT64CONST(1000)) /* us */
#define CLOCK_AHEAD USECS_PER_MINUTE        /* from here on logged */
#define LANES_PAUSE (10 * USECS_PER_SEC)    /* after producers held the lock */
#define AUDIT_BATCH 1000                    /* entries of the dispatch index */

PG_FUNCTION_INFO_V1(taskq_run_reapers);

/* In the background worker: when each duty is due, on the dispatch clock. */
static TimestampTz liveness_due = 0;

static TimestampTz deadline_due = 0;
static TimestampTz retention_due = 0;
static TimestampTz timers_due = 0;
static TimestampTz schedules_due = 0;
static TimestampTz lanes_due = DT_NOEND;

/* Positions after tasks that other transactions are changing. */
static TqSweep sweep_ends;

static TqSweep sweep_orphans;
static TqSweep sweep_deadlines;

/* A waiting task whose deadline has passed. */
typedef struct Overdue
{
	int64 task_id;
	bool  busy;
} Overdue;

/* The earliest end of a running task, as of the last scan. */
static TimestampTz next_end = 0;

/* A duty of this turn failed; the pause after it. */
static bool turn_failed = false;

static int64 failure_pause = TQ_ATTEMPT_PAUSE_FIRST;

static TqStmt stmt_deadline = {
	"SELECT task_id FROM taskq.task"
	" WHERE deadline <= $1 AND state IN " TQ_SQL_STATE_WAITING
	" ORDER BY deadline, task_id LIMIT $2 OFFSET $3",
	{TIMESTAMPTZOID, INT4OID, INT4OID}};

/*
 * The latest reading of the dispatch clock before the start: the latest live
 * claim, and the latest pending task that was due when it was submitted, for
 * which no timer is set.  They can be later than any created_at if the wall
 * clock has stepped forward and back.
 */
static TqStmt stmt_newest = {
	"SELECT greatest((SELECT " TQ_SQL_CREATED_AT " FROM taskq.task"
	"                  ORDER BY task_id DESC LIMIT 1),"
	"                (SELECT max(finished_at) FROM taskq.archive"
	"                  WHERE finished_at > now() - interval '1 hour'),"
	"                (SELECT max(CASE WHEN state = " TQ_SQL_STATE_RUNNING
	"                                 THEN claimed_at ELSE available_at END)"
	"                   FROM taskq.task"
	"                  WHERE state = " TQ_SQL_STATE_RUNNING
	"                     OR (state = " TQ_SQL_STATE_PENDING
	"                         AND wake_at IS NULL)))"};

static TqStmt stmt_role_names = {
	"UPDATE taskq.role r SET name = a.rolname"
	"  FROM pg_roles a WHERE a.oid = r.oid AND a.rolname <> r.name"};

/*
 * Except roles that taskq_activate() did not find: they may be created later.
 */
static TqStmt stmt_roles_gone = {
	"UPDATE taskq.role r SET gone = true"
	" WHERE NOT r.gone AND r.oid <> (4294967295 - r.role_id)::oid"
	"   AND NOT EXISTS (SELECT FROM pg_roles a WHERE a.oid = r.oid)"};

static void  start_clock(TimestampTz at);
static void  run_retention(TimestampTz now);
static void  run_lanes(TimestampTz now);
static void  run_schedules(TimestampTz now);
static int64 duty_next_schedule(int limit);
static bool  turn_of(const char *what, TqDuty duty, int limit);
static void  tend_bound(void);
static bool  try_duty(const char *what, TqDuty duty, int limit);
static int64 duty_orphans(int limit);
static int64 duty_ends(int limit);
static int64 duty_deadline(int limit);
static int64 duty_role_names(int limit);
static int64 duty_leaked(int limit);
static bool  is_settled(void);
static bool  end_at_deadline(TqCall *call, void *arg);

/* Called once, when the background worker has started. */
void
tq_duty_start(void)
{
	TqSpi spi;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_newest, NULL, NULL, 1) > 0)
	{
		bool  isnull;
		Datum value = tq_spi_get(0, 1, &isnull);

		if (!isnull)
			start_clock(DatumGetTimestampTz(value));
	}
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	CommitTransactionCommand();
	liveness_due = deadline_due = retention_due = timers_due = 0;
	schedules_due = 0;
	next_end = 0;
	tq_wake_turn_start();
	tq_pool_start();
	tq_operation_turn_start();
	tq_metric_minute_start();
	tq_dead_range_audit_start();
}

/* Let the dispatch clock continue at least from its last reading. */
static void
start_clock(TimestampTz at)
{
	int64 ahead = at - tq_clock_dispatch();

	tq_clock_not_before(at);
	if (ahead >= CLOCK_AHEAD)
		ereport(
			LOG,
			(errmsg("taskq: dispatch clock is " INT64_FORMAT
					" s ahead of the system clock",
					ahead / USECS_PER_SEC),
			 errdetail(
				 "The system clock has been set back since tasks were submitted or claimed.")));
}

/*
 * Run the duties that are due, and return when to be called again (dispatch
 * clock). told is the earliest due time that sessions have reported since the
 * last turn.
 */
TimestampTz
tq_duty_turn(TimestampTz told)
{
	TimestampTz now = tq_clock_dispatch();
	TimestampTz next;

	turn_failed = false;
	/* apply a shortened interval immediately */
	liveness_due =
		Min(liveness_due, now + tq_guc_usecs(tq_guc_reaper_interval));
	deadline_due =
		Min(deadline_due, now + tq_guc_usecs(tq_guc_deadline_interval));
	retention_due =
		Min(retention_due,
			now + (int64) tq_guc_retention_interval * USECS_PER_SEC);
	next_end = Min(next_end, told);
	timers_due = Min(timers_due, told);
	schedules_due = Min(schedules_due, told);
	if (tq_running_asked_duty(TQ_ASK_DEADLINES))
		timers_due = deadline_due = now;
	tq_wake_turn_run(told);
	tend_bound();
	if (tq_metric_minute_is_due())
		(void) turn_of("metric history", tq_metric_minute_run, 1);
	if (tq_pool_is_needed())
		(void) turn_of("executors", tq_pool_turn, 1);
	if (!tq_running_complete() || next_end <= now)
		while (turn_of("expired leases", duty_ends, BATCH))
			;
	if (now >= timers_due)
	{
		while (turn_of("workflow timers", tq_step_timer_run, BATCH))
			;
		timers_due = Min(tq_step_timer_next(),
						 now + tq_guc_usecs(tq_guc_deadline_interval));
	}
	if (now >= schedules_due)
		run_schedules(now);
	if (now >= liveness_due || tq_running_asked_duty(TQ_ASK_WORKERS))
	{
		while (turn_of("bound workers", tq_bound_worker_end_gone, BATCH))
			;
		while (turn_of("silent workers", tq_silent_worker_end, BATCH))
			;
		do
			(void) turn_of("tasks of dead workers", duty_orphans, BATCH);
		while (!turn_failed && sweep_orphans.more);
		(void) turn_of("finished counts", tq_finished_count, 1);
		liveness_due = now + tq_guc_usecs(tq_guc_reaper_interval);
	}
	if (now >= deadline_due)
	{
		do
			(void) turn_of("deadlines", duty_deadline, BATCH);
		while (!turn_failed && sweep_deadlines.more);
		deadline_due = now + tq_guc_usecs(tq_guc_deadline_interval);
	}
	if (tq_running_asked_duty(TQ_ASK_LEAKED))
		(void) turn_of("shared memory", duty_leaked, 1);
	if (now >= retention_due)
		run_retention(now);
	run_lanes(now);
	if (tq_operation_turn_begin(now, told))
		while (turn_of("operations", tq_operation_turn_batch, 1) &&
			   tq_operation_turn_continue())
			;

	if (tq_dead_range_audit_due(now))
		(void) turn_of("dead range audit", tq_dead_range_audit_slice,
					   AUDIT_BATCH);

	tq_wake_turn_tend();
	next = Min(Min(liveness_due, deadline_due), retention_due);
	next = Min(next, Min(next_end, tq_bound_worker_next()));
	next = Min(next, Min(timers_due, tq_dead_range_audit_next()));
	next = Min(next, Min(lanes_due, schedules_due));
	next = Min(next, tq_operation_turn_next());
	next = Min(next, Min(tq_pool_next(), tq_metric_minute_next()));
	if (turn_failed)
	{
		next = Max(next, tq_clock_dispatch() + failure_pause);
		failure_pause = Min(failure_pause * 2, TQ_ATTEMPT_PAUSE_LAST);
	}
	else
		failure_pause = TQ_ATTEMPT_PAUSE_FIRST;
	return Min(next, tq_wake_turn_next());
}

/* Remove rows that have exceeded their retention. */
static void
run_retention(TimestampTz now)
{
	(void) turn_of("role names", duty_role_names, 1);
	(void) turn_of("shared memory", duty_leaked, 1);
	while (turn_of("heartbeats", tq_liveness_clean, tq_guc_retention_batch))
		;
	if (tq_guc_retention > 0)
	{
		while (
			turn_of("retention", tq_retention_expired, tq_guc_retention_batch))
			;
		while (turn_of("workflows", tq_expire_run, tq_guc_retention_batch))
			;
		(void) turn_of("rotation", tq_retention_rotate, 1);
		while (turn_of("ended operations", tq_operation_sweep,
					   tq_guc_retention_batch))
			;
		while (turn_of("large values", tq_retention_large,
					   tq_guc_retention_batch))
			;
		do
			(void) turn_of("keys", tq_retention_keys, tq_guc_retention_batch);
		while (!turn_failed && tq_retention_more_keys());
		do
			(void) turn_of("ended workers", tq_forget_worker_batch,
						   tq_guc_retention_batch);
		while (!turn_failed && tq_forget_worker_more());
		while (
			turn_of("changes", tq_forget_change_batch, tq_guc_retention_batch))
			;
	}
	lanes_due = now;
	retention_due = now + (int64) tq_guc_retention_interval * USECS_PER_SEC;
}

/*
 * Fire the schedules that are due, each in a transaction of its own.  Then
 * look for the next one, at the latest when a step of the wall clock could
 * have made one due.
 */
static void
run_schedules(TimestampTz now)
{
	schedules_due = now + tq_guc_usecs(tq_guc_deadline_interval);
	while (turn_of("schedules", tq_fire_run, 1))
		;
	(void) turn_of("next schedule", duty_next_schedule, 1);
}

static int64
duty_next_schedule(int limit)
{
	PushActiveSnapshot(GetTransactionSnapshot());
	schedules_due = Min(schedules_due, tq_fire_next());
	PopActiveSnapshot();
	return 0;
}

/* Remove sets of tags without live tasks. */
static void
run_lanes(TimestampTz now)
{
	if (tq_running_asked_duty(TQ_ASK_LANES))
		lanes_due = now;
	if (now >= lanes_due)
	{
		while (turn_of("sets of tags", tq_forget_lane_batch, BATCH))
			;
		lanes_due = tq_forget_lane_was_busy() ? now + LANES_PAUSE : DT_NOEND;
	}
}

/*
 * Run one batch of a duty.  Returns true if there may be more to do.  Batches
 * are short (some 20 ms), and urgent work is done before each one.
 */
static bool
turn_of(const char *what, TqDuty duty, int limit)
{
	tq_wake_turn_tend();
	tend_bound();
	return try_duty(what, duty, limit);
}

/*
 * Declare workers dead whose session has ended, and reclaim their tasks
 * immediately.
 */
static void
tend_bound(void)
{
	bool failed = turn_failed;

	if (!tq_bound_worker_is_due())
		return;
	turn_failed = false;
	while (try_duty("bound workers", tq_bound_worker_end_gone, BATCH))
		;
	/* after a start or a wipe, find the running tasks first */
	while (!tq_running_complete() &&
		   try_duty("expired leases", duty_ends, BATCH))
		;
	do
		(void) try_duty("tasks of dead workers", duty_orphans, BATCH);
	while (!turn_failed && sweep_orphans.more);
	if (turn_failed)
		tq_bound_worker_failed();
	turn_failed |= failed;
}

/* An error ends the turn of this duty, but not of other duties. */
static bool
try_duty(const char *what, TqDuty duty, int limit)
{
	int64 acted;

	turn_failed |= !tq_batch_run(what, duty, limit, &acted);
	return acted >= limit;
}

/*
 * taskq_run_reapers(): one batch of each duty in this transaction, and none in
 * a copy that has not been activated.
 */
Datum
taskq_run_reapers(PG_FUNCTION_ARGS)
{
	static const struct
	{
		const char *name;
		TqDuty      duty;
		int         limit;
		bool        removes; /* finished tasks and their rows */
	} duties[] = {{"leases", duty_ends, 10 * BATCH, false},
				  {"bound", tq_bound_worker_end_gone, 10 * BATCH, false},
				  {"liveness", tq_silent_worker_end, 10 * BATCH, false},
				  {"orphans", duty_orphans, 10 * BATCH, false},
				  {"deadline", duty_deadline, 10 * BATCH, false},
				  {"timers", tq_step_timer_run, 10 * BATCH, false},
				  {"schedules", tq_fire_run, 10 * BATCH, false},
				  {"operations", tq_operation_run, 1, false},
				  {"roles", duty_role_names, 1, false},
				  {"signs", tq_liveness_clean, 10 * BATCH, false},
				  {"retention", tq_retention_expired, 10 * BATCH, true},
				  {"workflows", tq_expire_run, 10 * BATCH, true},
				  {"rotation", tq_retention_rotate, 1, true},
				  {"ended", tq_operation_sweep, 10 * BATCH, true},
				  {"large", tq_retention_large, 10 * BATCH, true},
				  {"keys", tq_retention_keys, 10 * BATCH, true},
				  {"workers", tq_forget_worker_batch, 10 * BATCH, true},
				  {"changes", tq_forget_change_batch, 10 * BATCH, true},
				  {"lanes", tq_forget_lane_batch, BATCH, false}};
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	bool           active;

	tq_srf_begin(fcinfo);
	PreventCommandIfReadOnly("taskq_run_reapers()");
	tq_queue_refresh();
	tq_role_require_all(TQ_RIGHT_MANAGE);
	active = tq_activation_allows_duties();
	if (!active)
		ereport(
			NOTICE,
			(errmsg(
				 "taskq_run_reapers() does nothing, because this database is a copy that has not been activated"),
			 errhint(
				 "Background processing is disabled until a superuser calls taskq_activate().")));
	for (int i = 0; i < lengthof(duties); i++)
	{
		Datum values[2];
		bool  nulls[2] = {false, false};

		if (duties[i].removes && tq_guc_retention == 0)
			continue;
		values[0] = CStringGetTextDatum(duties[i].name);
		values[1] =
			Int64GetDatum(active ? duties[i].duty(duties[i].limit) : 0);
		tq_srf_add(result, values, nulls);
	}
	if (active)
		(void) tq_finished_count(1);
	return (Datum) 0;
}

/* Reclaim tasks held by workers that are dead or have left. */
static int64
duty_orphans(int limit)
{
	TqRunning  *found = palloc(sizeof(TqRunning) * limit);
	TimestampTz now = tq_clock_dispatch();
	bool        settled = is_settled();
	int         count;
	int         left = 0;
	int64       acted = 0;
	TqCall      call;

	tq_call_begin(&call, "taskq duties");
	TQ_DEBUG_POINT("orphans_begun");
	count = tq_orphan_find(sweep_orphans.passed, found, limit);
	tq_snapshot_renew();
	qsort(found, count, sizeof(TqRunning), tq_reclaim_compare);
	for (int i = 0; i < count; i++)
	{
		TqReclaim loss = {&found[i], found[i].worker_id, now};

		if (tq_reclaim_try(&call, &loss))
			acted++;
		else if (loss.busy || !settled)
			left++;
		else
			tq_running_drop(&found[i]);
	}
	tq_call_end(&call);
	(void) tq_sweep_on(&sweep_orphans, count >= limit && acted + left > 0,
					   left, false);
	return acted;
}

/* Reclaim tasks with expired leases and time limits. */
static int64
duty_ends(int limit)
{
	TqRunning  *found = palloc(sizeof(TqRunning) * limit);
	TimestampTz now = tq_clock_dispatch();
	TimestampTz next;
	bool        settled = is_settled();
	TqSweep    *sweep = &sweep_ends;
	int         count;
	int         left = 0;
	bool        busy = false;
	int64       acted = 0;
	TqCall      call;

	tq_call_begin(&call, "taskq duties");
	TQ_DEBUG_POINT("ends_begun");
	if (tq_running_complete())
		count = tq_running_due(now, sweep->passed, found, limit, &next);
	else
		count =
			tq_reclaim_scan(now, settled, sweep->passed, found, limit, &next);
	tq_snapshot_renew();
	qsort(found, count, sizeof(TqRunning), tq_reclaim_compare);
	for (int i = 0; i < count; i++)
	{
		TqReclaim loss = {&found[i], 0, now};

		TQ_FAULT_POINT("duty_ends");
		if (tq_reclaim_try(&call, &loss))
			acted++;
		else if (loss.busy || !settled)
		{
			left++;
			busy |= loss.busy;
		}
		else
			tq_running_drop(&found[i]);
	}
	tq_call_end(&call);
	/*
	 * Set only now, so that after an error the same tasks are processed again.
	 */
	busy = tq_sweep_on(sweep, count >= limit && acted + left > 0, left, busy);
	next_end = sweep->more ? now : next;
	if (busy)
		next_end = Min(next_end, tq_clock_dispatch() + BUSY_PAUSE);
	return acted;
}

/* Make waiting tasks past their deadline dead. */
static int64
duty_deadline(int limit)
{
	TqCall call;
	Datum  args[3];
	int64 *ids;
	uint64 rows;
	int    left = 0;
	int64  acted = 0;

	tq_call_begin(&call, "taskq duties");
	args[0] = TimestampTzGetDatum(tq_clock_wall());
	args[1] = Int32GetDatum(limit);
	args[2] = Int32GetDatum(sweep_deadlines.passed);
	rows = tq_spi_list(&stmt_deadline, args, &ids);
	for (uint64 i = 0; i < rows; i++)
	{
		Overdue one = {ids[i]};
		TqTask  task;

		/* moving an earlier task may have moved this one */
		tq_snapshot_renew();
		if (tq_row_find(&call, ids[i], &task) &&
			(tq_step_is(&task)
				 ? tq_step_savepoint_run(end_at_deadline, &one, &one.busy)
				 : end_at_deadline(&call, &one)))
			acted++;
		left += one.busy;
	}
	tq_call_end(&call);
	(void) tq_sweep_on(&sweep_deadlines,
					   (int) rows >= limit && acted + left > 0, left, false);
	return acted;
}

static bool
end_at_deadline(TqCall *call, void *arg)
{
	Overdue *one = arg;
	TqMove   move = {0};
	TqTask   task;
	TqQueue *queue;

	if (!tq_row_find(call, one->task_id, &task) ||
		(task.f.state != TQ_STATE_PENDING &&
		 task.f.state != TQ_STATE_BLOCKED) ||
		TQ_TASK_TIME(&task, TQ_COL_DEADLINE, DT_NOEND) > tq_clock_wall())
		return false;
	queue = tq_queue_by_id(task.f.queue_id);
	if (queue == NULL)
		return false;
	move.to = TQ_STATE_DEAD;
	move.reason = TQ_REASON_DEADLINE;
	move.wanted = "expire";
	move.no_wait = true;
	one->busy = !tq_key_try_task(call, queue, &task) ||
				!tq_state_enter(call, queue, &task, &move);
	return !one->busy;
}

/* Update the names of renamed roles. */
static int64
duty_role_names(int limit)
{
	TqSpi spi;
	int64 changed;

	PushActiveSnapshot(GetTransactionSnapshot());
	tq_spi_enter(&spi);
	changed =
		(int64) tq_spi_run(&stmt_role_names, NULL, NULL, SPI_OK_UPDATE, 0);
	changed +=
		(int64) tq_spi_run(&stmt_roles_gone, NULL, NULL, SPI_OK_UPDATE, 0);
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	return changed;
}

/* Free all entries of shared memory whose queue or worker is gone. */
static int64
duty_leaked(int limit)
{
	TqLeakedEntry *found;
	int            count = tq_leaked_entry_find(&found);

	TQ_DEBUG_POINT("leaked_found");
	for (int i = 0; i < count; i++)
		tq_leaked_entry_free(&found[i]);
	return count;
}

/*
 * May this transaction change shared memory, which a rollback does not undo,
 * because of rows that it sees?  Its snapshot must be taken after shared
 * memory was read, and it must not have written any row itself.
 */
static bool
is_settled(void)
{
	return !IsolationUsesXactSnapshot() &&
		   !TransactionIdIsValid(GetTopTransactionIdIfAny());
}
