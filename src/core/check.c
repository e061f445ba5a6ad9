/*
 * check.c
 *		taskq_check(): do tables and memory agree?
 *
 * What tables can show about each other is one statement (the view
 * taskq.table_problem); what memory must show is compared here, in a way that
 * work going on is not reported:
 *
 * - A running task has an entry in the registry, if that says that it is
 *   complete.  The entry is put when the claim's commit is over, so one that
 *   is missing is looked for again when every transaction that is over has
 *   told what it did.
 * - Numbers of live tasks are those of the tables, if they are known.  They
 *   are read before and after the rows; what differs must do so again when
 *   nothing moves meanwhile.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/types.h"
#include "core/queue.h"
#include "core/role.h"
#include "core/xact.h"
#include "shared/counter.h"
#include "shared/registry.h"
#include "shared/shmem.h"

#define NUMBER_TRIES 5

PG_FUNCTION_INFO_V1(taskq_check);

static TqStmt stmt_problems = {
	"SELECT problem, detail FROM taskq.table_problem", 0, {0}, NULL};

static TqStmt stmt_running = {
	"SELECT task_id, token FROM taskq.task WHERE state = 3 ORDER BY task_id",
	0,
	{0},
	NULL};

static TqStmt stmt_still_running = {
	"SELECT xmin::text::bigint FROM taskq.task"
	" WHERE task_id = $1 AND token = $2 AND state = 3",
	2,
	{INT8OID, INT8OID},
	NULL};

static TqStmt stmt_queues = {
	"SELECT queue_id FROM taskq.queue WHERE queue_id <> 0 ORDER BY queue_id",
	0,
	{0},
	NULL};

static TqStmt stmt_live = {"SELECT count(*) FILTER (WHERE state = 1),"
						   "       count(*) FILTER (WHERE state = 2),"
						   "       count(*) FILTER (WHERE state = 3),"
						   "       count(*) FILTER (WHERE state = 4)"
						   "  FROM taskq.task WHERE queue_id = $1",
						   1,
						   {INT4OID},
						   NULL};

static void report(ReturnSetInfo *result, const char *problem,
				   const char *detail);
static void check_tables(ReturnSetInfo *result);
static void check_registry(ReturnSetInfo *result);
static void check_numbers(ReturnSetInfo *result);
static bool still_running(int64 task_id, int64 token);
static int  compare_task_ids(const void *a, const void *b);

Datum
taskq_check(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	tq_queue_refresh();
	tq_role_require_all(TQ_RIGHT_MANAGE);
	check_tables(result);
	if (tq_shmem_ready() && tq_registry_complete())
		check_registry(result);
	if (tq_shmem_ready())
		check_numbers(result);
	return (Datum) 0;
}

static void
report(ReturnSetInfo *result, const char *problem, const char *detail)
{
	Datum values[2];
	bool  nulls[2] = {false, false};

	values[0] = CStringGetTextDatum(problem);
	values[1] = CStringGetTextDatum(detail);
	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
}

static void
check_tables(ReturnSetInfo *result)
{
	TqSpi  spi;
	uint64 rows;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_problems, NULL, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
		report(result, tq_spi_text(&spi, i, 1), tq_spi_text(&spi, i, 2));
	tq_spi_leave(&spi);
}

/* Every running task has an entry, while the registry says it is complete. */
static void
check_registry(ReturnSetInfo *result)
{
	TqRunning *entries;
	int        count;
	int64     *ids;
	int64     *tokens;
	uint64     rows;
	TqSpi      spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_running, NULL, NULL, 0);
	ids = MemoryContextAlloc(spi.caller, sizeof(int64) * (rows + 1));
	tokens = MemoryContextAlloc(spi.caller, sizeof(int64) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		ids[i] = tq_spi_int8(i, 1, 0);
		tokens[i] = tq_spi_int8(i, 2, 0);
	}
	tq_spi_leave(&spi);

	entries = palloc_extended(sizeof(TqRunning) * tq_guc_max_running_tracked,
							  MCXT_ALLOC_HUGE);
	count = tq_registry_list(entries, tq_guc_max_running_tracked);
	qsort(entries, count, sizeof(TqRunning), compare_task_ids);
	for (uint64 i = 0; i < rows; i++)
	{
		TqRunning wanted = {0};

		CHECK_FOR_INTERRUPTS();
		wanted.task_id = ids[i];
		if (bsearch(&wanted, entries, count, sizeof(TqRunning),
					compare_task_ids) != NULL)
			continue;
		tq_counter_wait_for_ended();
		if (!tq_registry_find(ids[i], &wanted) && tq_registry_complete() &&
			still_running(ids[i], tokens[i]))
			report(result, "running task is not in the registry",
				   psprintf("task " INT64_FORMAT, ids[i]));
	}
}

/* Numbers of live tasks, unless they are changing all the time. */
static void
check_numbers(ReturnSetInfo *result)
{
	int64 *before;
	int64 *counted;
	int32 *ids;
	uint64 rows;
	TqSpi  spi;

	for (int attempt = 0; attempt < NUMBER_TRIES; attempt++)
	{
		bool moved = false;

		tq_counter_wait_for_ended();
		tq_spi_enter(&spi);
		rows = tq_spi_look(&stmt_queues, NULL, NULL, 0);
		ids = MemoryContextAlloc(spi.caller, sizeof(int32) * (rows + 1));
		for (uint64 i = 0; i < rows; i++)
			ids[i] = tq_spi_int4(i, 1, 0);
		tq_spi_leave(&spi);
		before = palloc(sizeof(int64) * TQ_LIVE_STATES * (rows + 1));
		counted = palloc(sizeof(int64) * TQ_LIVE_STATES * (rows + 1));
		for (uint64 i = 0; i < rows; i++)
		{
			if (!tq_counter_read(ids[i], &before[i * TQ_LIVE_STATES]))
				return;
		}
		PushActiveSnapshot(GetLatestSnapshot());
		tq_spi_enter(&spi);
		for (uint64 i = 0; i < rows; i++)
		{
			Datum arg = Int32GetDatum(ids[i]);

			tq_spi_look(&stmt_live, &arg, NULL, 1);
			for (int s = 0; s < TQ_LIVE_STATES; s++)
				counted[i * TQ_LIVE_STATES + s] =
					tq_spi_int8(0, s + 1, 0) -
					tq_xact_counted(ids[i], (TqState) (TQ_STATE_FIRST + s));
		}
		tq_spi_leave(&spi);
		PopActiveSnapshot();
		tq_counter_wait_for_ended();
		for (uint64 i = 0; i < rows; i++)
		{
			int64 after[TQ_LIVE_STATES];

			if (!tq_counter_read(ids[i], after))
				return;
			moved = moved || memcmp(after, &before[i * TQ_LIVE_STATES],
									sizeof(after)) != 0;
		}
		if (moved || (attempt < NUMBER_TRIES - 1 &&
					  memcmp(before, counted,
							 sizeof(int64) * TQ_LIVE_STATES * rows) != 0))
			continue;
		for (uint64 i = 0; i < rows * TQ_LIVE_STATES; i++)
		{
			if (before[i] != counted[i])
				report(result, "number of live tasks is wrong",
					   psprintf("queue %d, %s: " INT64_FORMAT
								" in memory, " INT64_FORMAT " rows",
								ids[i / TQ_LIVE_STATES],
								tq_state_name((TqState) (TQ_STATE_FIRST +
														 i % TQ_LIVE_STATES)),
								before[i], counted[i]));
		}
		return;
	}
}

/* Was the claim committed, and has the task not ended since? */
static bool
still_running(int64 task_id, int64 token)
{
	TqSpi spi;
	Datum args[2];
	bool  found;

	args[0] = Int64GetDatum(task_id);
	args[1] = Int64GetDatum(token);
	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_still_running, args, NULL, 1) > 0 &&
			!TransactionIdIsCurrentTransactionId(
				(TransactionId) tq_spi_int8(0, 1, 0));
	tq_spi_leave(&spi);
	return found;
}

static int
compare_task_ids(const void *a, const void *b)
{
	int64 x = ((const TqRunning *) a)->task_id;
	int64 y = ((const TqRunning *) b)->task_id;

	return x < y ? -1 : x > y;
}
