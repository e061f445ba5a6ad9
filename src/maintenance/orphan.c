/*
 * orphan.c
 *		Running tasks whose worker is dead or has deregistered.
 *
 * Rows of ended workers are kept for a long time, and there may be any number
 * of them, but few of them hold running tasks.  So the search begins with the
 * tasks: shared/running.c knows which workers hold them, and the rows of these
 * workers, found by number, say which have ended.  If shared/running.c may be
 * incomplete, taskq.task is scanned.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "lib/qunique.h"
#include "utils/array.h"

#include "base/code.h"
#include "base/compare.h"
#include "base/spi.h"
#include "maintenance/orphan.h"

static TqStmt stmt_ended = {
	"SELECT worker_id FROM taskq.worker"
	" WHERE worker_id = ANY ($1) AND state IN " TQ_SQL_WORKER_ENDED
	" ORDER BY worker_id",
	{INT4ARRAYOID}};

static TqStmt stmt_orphans = {
	"SELECT t.task_id, t.token, t.worker_id"
	"  FROM taskq.task t JOIN taskq.worker w USING (worker_id)"
	" WHERE t.state = " TQ_SQL_STATE_RUNNING
	"   AND w.state IN " TQ_SQL_WORKER_ENDED
	" ORDER BY t.task_id LIMIT $1 OFFSET $2",
	{INT4OID, INT4OID}};

static int find_in_registry(int passed, TqRunning *found, int max);
static int keep_ended(int32 *workers, int count);
static int find_in_table(int passed, TqRunning *found, int max);

/*
 * Find up to max tasks, after the first "passed" ones.  They are hints: each
 * is checked again before it is changed.
 */
int
tq_orphan_find(int passed, TqRunning *found, int max)
{
	return tq_running_complete() ? find_in_registry(passed, found, max)
								 : find_in_table(passed, found, max);
}

/* The workers that hold these tasks, sorted, without duplicates. */
int
tq_orphan_holders(const TqRunning *all, int count, int32 **workers)
{
	int held = 0;

	*workers = palloc_extended(sizeof(int32) * (count + 1), MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
	{
		if (all[i].worker_id != 0)
			(*workers)[held++] = all[i].worker_id;
	}
	qsort(*workers, held, sizeof(int32), tq_order_int32);
	return (int) qunique(*workers, held, sizeof(int32), tq_order_int32);
}

static int
find_in_registry(int passed, TqRunning *found, int max)
{
	int        all_count;
	TqRunning *all = tq_running_all(&all_count);
	int32     *workers;
	int        worker_count = tq_orphan_holders(all, all_count, &workers);
	int        count = 0;

	worker_count = keep_ended(workers, worker_count);
	for (int i = 0; i < all_count && worker_count > 0 && count < max; i++)
	{
		if (bsearch(&all[i].worker_id, workers, worker_count, sizeof(int32),
					tq_order_int32) == NULL)
			continue;
		if (passed > 0)
			passed--;
		else
			found[count++] = all[i];
	}
	pfree(workers);
	pfree(all);
	return count;
}

/* Keep only the workers that have ended. */
static int
keep_ended(int32 *workers, int count)
{
	Datum *numbers;
	Datum  arg;
	int    rows;
	TqSpi  spi;

	if (count == 0)
		return 0;
	tq_spi_enter(&spi);
	numbers = palloc_extended(sizeof(Datum) * count, MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
		numbers[i] = Int32GetDatum(workers[i]);
	arg = PointerGetDatum(construct_array(numbers, count, INT4OID,
										  sizeof(int32), true, TYPALIGN_INT));
	rows = (int) tq_spi_look(&stmt_ended, &arg, NULL, 0);
	for (int i = 0; i < rows; i++)
		workers[i] = tq_spi_int4(i, 1, 0);
	tq_spi_leave(&spi);
	return rows;
}

/* In ascending order of ids. */
static int
find_in_table(int passed, TqRunning *found, int max)
{
	Datum  args[2] = {Int32GetDatum(max), Int32GetDatum(passed)};
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_orphans, args, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		found[i].task_id = tq_spi_int8(i, 1, 0);
		found[i].token = tq_spi_int8(i, 2, 0);
		found[i].worker_id = tq_spi_int4(i, 3, 0);
	}
	tq_spi_leave(&spi);
	return (int) rows;
}
