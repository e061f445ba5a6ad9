/*
 * check.c
 *		taskq_check(): do tables and memory agree?
 *
 * Everything that tables can show about each other is checked by one statement
 * (the view taskq.table_problem), and whatever depends on the clock by another
 * one; each uses a single snapshot.  Sequences, truncated leaves and rights,
 * however, are not read with that snapshot, and an overdue task may be about
 * to be processed.  Therefore each statement runs twice, and only problems
 * found both times are reported.
 *
 * check_rows.c compares what SQL cannot, check_memory.c compares shared memory
 * with the tables, and check_hidden.c searches for tasks that claims skip.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/activation.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "diag/check_hidden.h"
#include "diag/check_memory.h"
#include "diag/check_report.h"
#include "diag/check_rows.h"
#include "shared/running.h"
#include "shared/shmem.h"
#include "shared/worker_directory.h"

/*
 * A task that is overdue by this much is a problem if the background worker
 * does not process it on request.
 */
#define OVERDUE (INT64CONST(10) * USECS_PER_MINUTE)

#define ASK_TRIES 20
#define ASK_PAUSE 100 /* ms */

PG_FUNCTION_INFO_V1(taskq_check);

static TqStmt stmt_problems = {
	"SELECT problem, detail FROM taskq.table_problem"};

/* Uses the dispatch clock. */
static TqStmt stmt_due = {
	"SELECT CASE WHEN t.state = " TQ_SQL_STATE_PENDING
	"             AND t.available_at > $1"
	"            THEN 'pending task has no timer for its due time'"
	"            ELSE 'task has a timer for another time' END,"
	"       concat('task ', t.task_id)"
	"  FROM taskq.task t"
	" WHERE (t.state = " TQ_SQL_STATE_PENDING " AND t.available_at > $1"
	"        AND t.wake_at IS DISTINCT FROM t.available_at)"
	"    OR (t.state IN (" TQ_SQL_STATE_PENDING ", " TQ_SQL_STATE_RUNNING ")"
	"        AND NOT (t.state = " TQ_SQL_STATE_PENDING
	"                 AND t.available_at > $1)"
	"        AND t.wake_at <> t.available_at)"
	"    OR (t.state IN (" TQ_SQL_STATE_BLOCKED ", " TQ_SQL_STATE_SUSPENDED ")"
	"        AND t.wake_at IS NOT NULL)",
	{TIMESTAMPTZOID}};

/*
 * Tasks that a duty should have ended.  Skip rows that another transaction,
 * possibly a prepared one, is changing.  Also skip a waiting step whose
 * instance has a row that is being changed, since its end may wait for that of
 * another step (pg_locks lists the open transactions).
 */
static TqStmt stmt_overdue = {
	"SELECT 'running task outlives its lease', concat('task ', t.task_id)"
	"  FROM taskq.task t"
	" WHERE t.state = " TQ_SQL_STATE_RUNNING
	"   AND t.lease_until < $1 AND t.xmax::text = '0'"
	" UNION ALL "
	"SELECT 'running task outlives its worker', concat('task ', t.task_id)"
	"  FROM taskq.task t JOIN taskq.worker w USING (worker_id)"
	" WHERE t.state = " TQ_SQL_STATE_RUNNING
	"   AND w.state IN " TQ_SQL_WORKER_ENDED
	"   AND w.ended_at < $2 AND t.xmax::text = '0'"
	" UNION ALL "
	"SELECT 'waiting task outlives its deadline', concat('task ', t.task_id)"
	"  FROM taskq.task t"
	" WHERE t.state IN " TQ_SQL_STATE_WAITING
	"   AND t.deadline < $3 AND t.xmax::text = '0'"
	" UNION ALL "
	"SELECT 'waiting step outlives its time', concat('task ', t.task_id)"
	"  FROM taskq.timer r JOIN taskq.task t USING (task_id)"
	" WHERE r.at < $4 AND t.state = " TQ_SQL_STATE_SUSPENDED
	"   AND t.reason = " TQ_SQL_REASON_NONE
	"   AND t.suspended_at = r.since AND t.xmax::text = '0'"
	"   AND NOT EXISTS ("
	"       SELECT FROM (SELECT xmax FROM taskq.task"
	"                     WHERE workflow_id = t.workflow_id"
	"                    UNION ALL SELECT xmax FROM taskq.edge"
	"                     WHERE workflow_id = t.workflow_id) o"
	"         JOIN pg_locks l ON l.transactionid = o.xmax)",
	{TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID, TIMESTAMPTZOID}};

typedef struct Problem
{
	char *problem;
	char *detail;
} Problem;

static uint64 find_problems(TqStmt *stmt, const Datum *args, Problem **found);
static void   check_all(ReturnSetInfo *result);
static void   set_off(const char *name);
static void   check_tables(ReturnSetInfo *result, TqStmt *stmt,
						   const Datum *args);
static void   check_due(ReturnSetInfo *result);
static void   report_both(ReturnSetInfo *result, const Problem *first,
						  uint64 first_count, const Problem *second,
						  uint64 second_count);
static void   check_overdue(ReturnSetInfo *result);
static int    compare_problems(const void *a, const void *b);

Datum
taskq_check(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	int            level;

	tq_srf_begin(fcinfo);
	tq_queue_refresh();
	tq_role_require_all(TQ_RIGHT_MANAGE);

	/* compiling these statements takes far longer than running them */
	level = NewGUCNestLevel();
	set_off("jit");
	check_all(result);
	AtEOXact_GUC(true, level);
	return (Datum) 0;
}

static void
check_all(ReturnSetInfo *result)
{
	int level = NewGUCNestLevel();

	/*
	 * The planner cannot estimate how many rows a condition leaves.  If it
	 * expects one row, it picks a nested loop, which reads the other set once
	 * for each row.
	 */
	set_off("enable_nestloop");
	check_tables(result, &stmt_problems, NULL);
	AtEOXact_GUC(true, level);
	check_due(result);
	tq_check_options(result);
	tq_check_lanes(result);
	tq_check_history(result);
	tq_check_indexes(result);
	if (!tq_shmem_ready() || RecoveryInProgress())
		return;
	tq_check_registry(result);
	tq_check_numbers(result);
	tq_check_reserved(result);
	tq_check_hidden(result);
	tq_check_leaked(result);
	if (tq_activation_allows_duties())
	{
		tq_check_slots(result);
		tq_check_bound(result);
		check_overdue(result);
	}
}

/* Effective until AtEOXact_GUC. */
static void
set_off(const char *name)
{
	(void) set_config_option(name, "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/* Return the rows of a statement, sorted. */
static uint64
find_problems(TqStmt *stmt, const Datum *args, Problem **found)
{
	TqSpi  spi;
	uint64 rows;

	tq_spi_enter(&spi);
	rows = tq_spi_look(stmt, args, NULL, 0);
	*found = MemoryContextAllocHuge(spi.caller, sizeof(Problem) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		(*found)[i].problem = tq_spi_text(&spi, i, 1);
		(*found)[i].detail = tq_spi_text(&spi, i, 2);
	}
	tq_spi_leave(&spi);
	qsort(*found, rows, sizeof(Problem), compare_problems);
	return rows;
}

/* Report the problems that are found twice. */
static void
check_tables(ReturnSetInfo *result, TqStmt *stmt, const Datum *args)
{
	Problem *first;
	Problem *second;
	uint64   count = find_problems(stmt, args, &first);
	uint64   again;

	if (count == 0)
		return;
	again = find_problems(stmt, args, &second);
	report_both(result, first, count, second, again);
}

/*
 * Check due times.  The clock is read again for the second run: a task that
 * was added during the first run is not due later than the time of the second
 * run.
 */
static void
check_due(ReturnSetInfo *result)
{
	Datum    now = TimestampTzGetDatum(tq_clock_dispatch());
	Problem *first;
	Problem *second;
	uint64   count = find_problems(&stmt_due, &now, &first);
	uint64   again;

	if (count == 0)
		return;
	now = TimestampTzGetDatum(tq_clock_dispatch());
	again = find_problems(&stmt_due, &now, &second);
	report_both(result, first, count, second, again);
}

/* Report the problems that occur in both of two sorted lists. */
static void
report_both(ReturnSetInfo *result, const Problem *first, uint64 first_count,
			const Problem *second, uint64 second_count)
{
	for (uint64 i = 0; i < second_count; i++)
	{
		if (bsearch(&second[i], first, first_count, sizeof(Problem),
					compare_problems) != NULL)
			tq_check_report(result, second[i].problem, "%s", second[i].detail);
	}
}

/*
 * Report overdue tasks that the background worker does not process on request
 * either.
 */
static void
check_overdue(ReturnSetInfo *result)
{
	Datum    args[4];
	Problem *found;
	uint64   rows;

	args[0] = TimestampTzGetDatum(tq_clock_dispatch() - OVERDUE);
	args[1] = TimestampTzGetDatum(tq_clock_wall() - OVERDUE -
								  tq_guc_usecs(tq_guc_reaper_interval));
	args[2] = TimestampTzGetDatum(tq_clock_wall() - OVERDUE -
								  tq_guc_usecs(tq_guc_deadline_interval));
	args[3] = TimestampTzGetDatum(tq_clock_dispatch() - OVERDUE -
								  tq_guc_usecs(tq_guc_deadline_interval));
	rows = find_problems(&stmt_overdue, args, &found);
	for (int i = 0; rows > 0 && i < ASK_TRIES; i++)
	{
		tq_running_ask_duty(TQ_ASK_WORKERS | TQ_ASK_DEADLINES);
		tq_worker_directory_wake();
		tq_clock_pause(ASK_PAUSE);
		rows = find_problems(&stmt_overdue, args, &found);
	}
	if (rows > 0)
		check_tables(result, &stmt_overdue, args);
}

static int
compare_problems(const void *a, const void *b)
{
	const Problem *x = a;
	const Problem *y = b;
	int            order = strcmp(x->problem, y->problem);

	return order != 0 ? order : strcmp(x->detail, y->detail);
}
