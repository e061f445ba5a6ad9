/*
 * health_queue.c
 *		taskq_health(): overdue duties, and queues without workers.
 *
 * A duty is overdue if work for it has been due for some time, for whatever
 * reason: the checks search for the work, not for the process that does it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/types.h"
#include "diag/health_queue.h"
#include "diag/health_report.h"
#include "shared/counter.h"
#include "shared/heartbeat.h"
#include "shared/running.h"
#include "shared/shmem.h"

/* A duty that is late by this much is overdue. */
#define ARREARS USECS_PER_MINUTE
#define RETENTION_ARREARS (INT64CONST(5) * USECS_PER_MINUTE)

/* A queue with tasks ready for this long should have been claimed from. */
#define NO_CLAIM (INT64CONST(5) * USECS_PER_MINUTE)

#define MAX_NAMED 20      /* queues in one detail */
#define MAX_COUNTED 10000 /* when counting for a report */

static TqStmt stmt_leases = {"SELECT count(*), min(s.lease_until) FROM"
							 " (SELECT lease_until FROM taskq.task"
							 "   WHERE state = " TQ_SQL_STATE_RUNNING
							 " AND lease_until < $1"
							 "   LIMIT 10000) s",
							 {TIMESTAMPTZOID}};

static TqStmt stmt_deadlines = {
	"SELECT count(*), min(s.deadline) FROM"
	" (SELECT deadline FROM taskq.task"
	"   WHERE deadline < $1 AND state IN " TQ_SQL_STATE_WAITING
	"   LIMIT 10000) s",
	{TIMESTAMPTZOID}};

static TqStmt stmt_expired = {
	"SELECT count(*), min(s.expires_at) FROM"
	" (SELECT expires_at FROM taskq.archive_keep"
	"   WHERE expires_at < $1 ORDER BY expires_at LIMIT 10000) s",
	{TIMESTAMPTZOID}};

static TqStmt stmt_newest = {
	"SELECT max(finished_at) FROM taskq.archive WHERE bucket = $1::smallint",
	{INT4OID}};

static TqStmt stmt_bucket = {
	"SELECT bucket::integer FROM taskq.archive_rotation"};

static TqStmt stmt_ended = {"SELECT worker_id FROM taskq.worker"
							" WHERE state IN " TQ_SQL_WORKER_ENDED
							" AND ended_at < $1"
							" ORDER BY worker_id",
							{TIMESTAMPTZOID}};

static TqStmt stmt_pause = {
	"SELECT q.name,"
	"       coalesce(' (' || left(q.pause_reason, 200) || ')', ''),"
	"       coalesce(' until ' || q.paused_until, ''), q.queue_id"
	"  FROM taskq.queue q"
	" WHERE q.paused_at IS NOT NULL"
	"   AND (q.paused_until IS NULL OR q.paused_until > $1)"
	" ORDER BY q.queue_id",
	{TIMESTAMPTZOID}};

/*
 * The queues that are not paused, with their max_running, except those whose
 * workers come and go (expect_workers is false).
 */
static TqStmt stmt_queues = {
	"SELECT q.queue_id, q.name, m.max_running"
	"  FROM taskq.queue q"
	"  LEFT JOIN taskq.queue d ON d.queue_id = 0"
	" CROSS JOIN LATERAL (SELECT coalesce(q.options -> 'max_running',"
	"                                     d.options -> 'max_running') AS v) o"
	" CROSS JOIN LATERAL (SELECT CASE WHEN jsonb_typeof(o.v) = 'number'"
	"            THEN least(o.v::numeric, 2147483647)::bigint END"
	"            AS max_running) m"
	" WHERE q.queue_id <> 0"
	"   AND (q.paused_at IS NULL OR q.paused_until <= $1)"
	"   AND coalesce(q.options -> 'expect_workers',"
	"                d.options -> 'expect_workers', 'true') <> 'false'"
	" ORDER BY q.name",
	{TIMESTAMPTZOID}};

static TqStmt stmt_is_ready = {
	"SELECT EXISTS (SELECT FROM taskq.lane l"
	"   WHERE l.queue_id = $1"
	"     AND EXISTS (SELECT FROM taskq.task t"
	"                  WHERE t.lane_id = l.lane_id AND t.queue_id = $1"
	"                    AND t.state = " TQ_SQL_STATE_PENDING
	"                    AND t.available_at <= $2))",
	{INT4OID, TIMESTAMPTZOID}};

/* Do rows show a claim since the given time? */
static TqStmt stmt_was_claimed = {
	"SELECT EXISTS (SELECT FROM taskq.task t"
	"   WHERE t.queue_id = $1 AND t.state = " TQ_SQL_STATE_RUNNING
	"     AND t.claimed_at > $2)"
	"    OR EXISTS (SELECT FROM taskq.archive a"
	"   WHERE a.queue_id = $1 AND a.finished_at > $2 AND a.claimed_at > $2)",
	{INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_running = {
	"SELECT count(*) FROM taskq.task"
	" WHERE queue_id = $1 AND state = " TQ_SQL_STATE_RUNNING,
	{INT4OID}};

static TqStmt stmt_ready = {
	"SELECT count(*), min(s.available_at) FROM"
	" (SELECT available_at FROM taskq.task"
	"   WHERE queue_id = $1 AND state = " TQ_SQL_STATE_PENDING
	"     AND available_at <= $2"
	"   LIMIT 10000) s",
	{INT4OID, TIMESTAMPTZOID}};

static int64       count_before(TqStmt *stmt, TimestampTz before,
								TimestampTz *oldest);
static const char *at_least(int64 count);
static bool        duties_are_elsewhere(TqHealth *health);
static bool is_neglected(int32 queue_id, int64 max_running, TimestampTz before,
						 TimestampTz *last);
static int64 running_tasks(int32 queue_id);
static void  tell_neglected(TqHealth *health, int32 queue_id, const char *name,
							TimestampTz last);

/* Running tasks whose lease or time limit has expired. */
void
tq_health_leases(TqHealth *health)
{
	TimestampTz before = health->now - ARREARS;
	TimestampTz oldest = DT_NOEND;
	int64       count;

	if (duties_are_elsewhere(health))
		return;
	if (tq_running_complete())
	{
		TqRunning  *found = palloc(sizeof(TqRunning) * MAX_COUNTED);
		TimestampTz next;

		count = tq_running_due(before, 0, found, MAX_COUNTED, &next);
		for (int i = 0; i < count; i++)
			oldest = Min(oldest, found[i].due_at);
	}
	else
		count = count_before(&stmt_leases, before, &oldest);
	if (count == 0)
		tq_health_say(health,
					  "No running task is past its lease or time limit.");
	else
		tq_health_fail(
			health,
			"%s running tasks are past their lease or time limit and have not been reclaimed, the first for %s. See the check background_worker.",
			at_least(count), tq_health_span(health->now - oldest));
}

/* Waiting tasks past their deadline. */
void
tq_health_deadlines(TqHealth *health)
{
	int64       interval = tq_guc_usecs(tq_guc_deadline_interval);
	TimestampTz oldest;
	int64       count;

	if (duties_are_elsewhere(health))
		return;
	count = count_before(&stmt_deadlines, health->wall - interval - ARREARS,
						 &oldest);
	if (count == 0)
		tq_health_say(health, "No waiting task is past its deadline.");
	else
		tq_health_fail(
			health,
			"%s waiting tasks are past their deadline and not dead yet, the first for %s. See the check background_worker.",
			at_least(count), tq_health_span(health->wall - oldest));
}

/* Finished tasks that should have been removed. */
void
tq_health_retention(TqHealth *health)
{
	int64 slack = (int64) tq_guc_retention_interval * USECS_PER_SEC +
				  RETENTION_ARREARS;
	int64       span = (int64) tq_guc_retention * USECS_PER_SEC;
	TimestampTz oldest;
	int64       count;
	int         current;
	int         leaves = 0;
	TqSpi       spi;

	if (duties_are_elsewhere(health))
		return;
	if (span == 0)
	{
		tq_health_say(
			health, "taskq.retention is 0: finished tasks are never removed.");
		return;
	}
	count = count_before(&stmt_expired, health->wall - slack, &oldest);
	tq_spi_enter(&spi);
	current = tq_spi_look(&stmt_bucket, NULL, NULL, 1) > 0
				  ? tq_spi_int4(0, 1, 0)
				  : 0;
	for (int bucket = 0; bucket < TQ_LEAVES; bucket++)
	{
		Datum arg = Int32GetDatum(bucket);

		if (bucket == current)
			continue;
		tq_spi_look(&stmt_newest, &arg, NULL, 1);
		if (tq_spi_time(0, 1, DT_NOEND) < health->wall - span - slack)
			leaves++;
	}
	tq_spi_leave(&spi);
	if (count > 0)
		tq_health_fail(
			health,
			"%s finished tasks should have been removed, the first %s ago. See the check background_worker.",
			at_least(count), tq_health_span(health->wall - oldest));
	if (leaves > 0)
		tq_health_fail(
			health,
			"%d of %d leaves of the archive should have been emptied. Other sessions may be holding locks on them: see pg_locks.",
			leaves, TQ_LEAVES);
	if (health->ok)
		tq_health_say(health, "Nothing is kept longer than it should be.");
}

/* Silent workers that are not dead, and running tasks of dead workers. */
void
tq_health_silent_workers(TqHealth *health)
{
	int64        slack = tq_guc_usecs(tq_guc_reaper_interval) + ARREARS;
	int64        threshold = tq_guc_usecs(tq_guc_dead_threshold) + slack;
	int64        now = tq_clock_monotonic();
	Datum        arg = TimestampTzGetDatum(health->wall - slack);
	TqHeartbeat *slots;
	TqRunning   *held;
	int32       *ended;
	int          count;
	int          silent = 0;
	uint64       rows;

	if (duties_are_elsewhere(health))
		return;
	if (!tq_shmem_ready())
	{
		tq_health_say(health,
					  "Without shared_preload_libraries this is not known.");
		return;
	}
	slots = palloc(sizeof(TqHeartbeat) * tq_guc_max_workers);
	count = tq_heartbeat_list(slots, tq_guc_max_workers);
	for (int i = 0; i < count; i++)
		silent += now - slots[i].last_seen > threshold ? 1 : 0;
	rows = tq_spi_list_int4(&stmt_ended, &arg, &ended);
	held = palloc(sizeof(TqRunning) * MAX_COUNTED);
	count = rows > 0
				? tq_running_of_workers(ended, (int) rows, held, MAX_COUNTED)
				: 0;
	if (silent > 0)
		tq_health_fail(
			health,
			"%d workers have been silent for longer than \"taskq.dead_threshold\" and have not been declared dead. See the check background_worker.",
			silent);
	if (count > 0)
		tq_health_fail(
			health,
			"%s tasks of dead or deregistered workers have not been reclaimed. See the check background_worker.",
			at_least(count));
	if (health->ok)
		tq_health_say(health, "No silent worker holds a task for too long.");
}

/* Queues with ready tasks from which no worker claims. */
void
tq_health_claims(TqHealth *health)
{
	TimestampTz before = health->now - NO_CLAIM;
	Datum       arg = TimestampTzGetDatum(health->now);
	uint64      rows;
	int32      *ids;
	int64      *limits;
	char      **names;
	int         neglected = 0;
	TqSpi       spi;

	if (health->standby || health->copy)
	{
		tq_health_say(
			health,
			"Tasks cannot be claimed on a standby or in a copy that has not been activated.");
		return;
	}
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_queues, &arg, NULL, 0);
	ids = MemoryContextAlloc(spi.caller, sizeof(int32) * (rows + 1));
	limits = MemoryContextAlloc(spi.caller, sizeof(int64) * (rows + 1));
	names = MemoryContextAlloc(spi.caller, sizeof(char *) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		ids[i] = tq_spi_int4(i, 1, 0);
		names[i] = tq_spi_text(&spi, i, 2);
		limits[i] = tq_spi_int8(i, 3, 0);
	}
	if (tq_spi_look(&stmt_pause, &arg, NULL, 1) > 0 &&
		tq_spi_int4(0, 4, -1) == 0)
		rows = 0; /* all queues are paused, which the check paused reports */
	tq_spi_leave(&spi);
	for (uint64 i = 0; i < rows; i++)
	{
		TimestampTz last;

		CHECK_FOR_INTERRUPTS();
		if (!is_neglected(ids[i], limits[i], before, &last))
			continue;
		if (++neglected <= MAX_NAMED)
			tell_neglected(health, ids[i], names[i], last);
	}
	if (neglected > MAX_NAMED)
		tq_health_fail(health, "And %d more queues.", neglected - MAX_NAMED);
	if (neglected > 0)
		tq_health_say(
			health,
			"Start workers for these queues, with the tags that their tasks require.");
	else
		tq_health_say(health,
					  "No queue has had ready tasks for %s without a claim.",
					  tq_health_span(NO_CLAIM));
}

/* Fails only if all queues are paused. */
void
tq_health_paused(TqHealth *health)
{
	Datum  arg = TimestampTzGetDatum(health->now);
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_pause, &arg, NULL, 0);
	for (uint64 i = 0; i < rows && i < MAX_NAMED; i++)
	{
		char         *name = tq_spi_text(&spi, i, 1);
		char         *reason = tq_spi_text(&spi, i, 2);
		char         *until = tq_spi_text(&spi, i, 3);
		bool          all = tq_spi_int4(i, 4, -1) == 0;
		MemoryContext mine = MemoryContextSwitchTo(spi.caller);

		if (all)
			tq_health_fail(
				health,
				"All queues are paused%s%s: no task is handed out. To resume them, run SELECT taskq_resume('*').",
				until, reason);
		else
			tq_health_say(health, "Queue \"%s\" is paused%s%s.", name, until,
						  reason);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	if (rows > MAX_NAMED)
		tq_health_say(health, "And " UINT64_FORMAT " more queues.",
					  rows - MAX_NAMED);
	if (rows == 0)
		tq_health_say(health, "No queue is paused.");
}

/* A standby and a copy run no duties. */
static bool
duties_are_elsewhere(TqHealth *health)
{
	if (health->standby)
		tq_health_say(health,
					  "This server is a standby; the primary handles this.");
	else if (health->copy)
		tq_health_say(
			health,
			"Background processing is off until this database is activated.");
	return health->standby || health->copy;
}

/*
 * Run a statement that counts what was due before a time and returns the
 * oldest one.
 */
static int64
count_before(TqStmt *stmt, TimestampTz before, TimestampTz *oldest)
{
	Datum arg = TimestampTzGetDatum(before);
	int64 count;
	TqSpi spi;

	tq_spi_enter(&spi);
	tq_spi_look(stmt, &arg, NULL, 1);
	count = tq_spi_int8(0, 1, 0);
	*oldest = tq_spi_time(0, 2, DT_NOEND);
	tq_spi_leave(&spi);
	return count;
}

static const char *
at_least(int64 count)
{
	return psprintf("%s" INT64_FORMAT, count >= MAX_COUNTED ? "At least " : "",
					count);
}

/*
 * Has a queue had ready tasks since before the given time, without a claim
 * since that time?
 * *last is the time of the last claim, 0 if unknown.  A queue that has reached
 * its max_running is not neglected.
 */
static bool
is_neglected(int32 queue_id, int64 max_running, TimestampTz before,
			 TimestampTz *last)
{
	bool  known = tq_counter_last_claim(queue_id, last);
	Datum args[2];
	bool  neglected;
	TqSpi spi;

	if (*last > before || (known && *last == 0 && tq_counter_since() > before))
		return false;
	args[0] = Int32GetDatum(queue_id);
	args[1] = TimestampTzGetDatum(before);
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_is_ready, args, NULL, 1);
	neglected = tq_spi_bool(0, 1);
	if (neglected && max_running > 0)
		neglected = running_tasks(queue_id) < max_running;
	if (neglected && *last == 0)
	{
		tq_spi_look(&stmt_was_claimed, args, NULL, 1);
		neglected = !tq_spi_bool(0, 1);
	}
	tq_spi_leave(&spi);
	return neglected;
}

/* Read from memory, or count rows; SPI is connected. */
static int64
running_tasks(int32 queue_id)
{
	int64 live[TQ_LIVE_NUMBERS];
	Datum arg = Int32GetDatum(queue_id);

	if (tq_counter_read(queue_id, live))
		return live[TQ_STATE_RUNNING - TQ_STATE_FIRST];
	tq_spi_look(&stmt_running, &arg, NULL, 1);
	return tq_spi_int8(0, 1, 0);
}

static void
tell_neglected(TqHealth *health, int32 queue_id, const char *name,
			   TimestampTz last)
{
	Datum       args[2];
	int64       count;
	TimestampTz oldest;
	TqSpi       spi;

	args[0] = Int32GetDatum(queue_id);
	args[1] = TimestampTzGetDatum(health->now);
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_ready, args, NULL, 1);
	count = tq_spi_int8(0, 1, 0);
	oldest = tq_spi_time(0, 2, health->now);
	tq_spi_leave(&spi);
	tq_health_fail(
		health, "Queue \"%s\": %s tasks are ready, the first for %s, and %s.",
		name, at_least(count), tq_health_span(health->now - oldest),
		last != 0 ? psprintf("the last claim was %s ago",
							 tq_health_span(health->now - last))
				  : psprintf("no task has been claimed for %s or longer",
							 tq_health_span(NO_CLAIM)));
}
