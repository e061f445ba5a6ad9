/*
 * queue_counts.c
 *		Numbers of tasks of a queue, for the view of queues.
 *
 * Live tasks are counted in shared memory (shared/counter.c).  Without it, or
 * on a standby, rows are counted.  Finished tasks are counted here while there
 * are few, otherwise by a duty (finished_count.c).
 *
 * Data that one scan provides for all queues is read at the first call of a
 * statement and kept for its other calls.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "access/xact.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/role.h"
#include "engine/dispatch.h"
#include "engine/limit.h"
#include "query/finished_count.h"
#include "query/not_due.h"
#include "query/task_get.h"
#include "query/task_page.h"
#include "shared/rate_bucket.h"
#include "shared/running.h"
#include "shared/shmem.h"
#include "shared/waiter.h"

#define FEW 50 /* count up to this many done or dead tasks directly */

PG_FUNCTION_INFO_V1(taskq_queue_numbers);
PG_FUNCTION_INFO_V1(taskq_worker_running);

/* Results, in order. */
typedef enum NumberColumn
{
	RESULT_PENDING,
	RESULT_READY,
	RESULT_BLOCKED,
	RESULT_RUNNING,
	RESULT_SUSPENDED,
	RESULT_DONE,
	RESULT_DEAD,
	RESULT_COUNTED_AT,
	RESULT_OLDEST_READY_AGE,
	RESULT_ACTIVE_WORKERS,
	RESULT_RATES,
	RESULT_WAITERS,
	RESULTS
} NumberColumn;

/* A number for a queue or a worker. */
typedef struct Number
{
	int32 id;
	int64 count;
} Number;

typedef struct LiveNumber
{
	int32 queue_id;
	int64 live[TQ_LIVE_STATES];
} LiveNumber;

/*
 * Data kept between the calls of a statement; each array is sorted by queue.
 */
typedef struct Known
{
	TqNotDue   *not_due; /* only pending tasks have a timer for a due time */
	int         not_due_count;
	Number     *workers;
	int         workers_count;
	LiveNumber *live; /* from rows; NULL: not needed yet */
	int         live_count;
	TqFinished *finished;
	int         finished_count;
	TimestampTz finished_as_of; /* 0: never */
} Known;

static TqStmt stmt_live = {
	"SELECT queue_id,"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_PENDING "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_BLOCKED "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_RUNNING "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_SUSPENDED ")"
	"  FROM taskq.task GROUP BY queue_id ORDER BY queue_id"};

static TqStmt stmt_held = {"SELECT worker_id, count(*) FROM taskq.task"
						   " WHERE state = " TQ_SQL_STATE_RUNNING
						   " AND worker_id <> 0"
						   " GROUP BY worker_id"
						   " ORDER BY worker_id"};

static TqStmt stmt_workers = {
	"SELECT queue_id, count(DISTINCT worker_id) FROM taskq.task"
	" WHERE state = " TQ_SQL_STATE_RUNNING " AND worker_id <> 0"
	" GROUP BY queue_id ORDER BY queue_id"};

static Known  *known_of(FunctionCallInfo fcinfo);
static void    put_live(Known *known, int32 queue_id, Datum *values);
static void    put_finished(Known *known, int32 queue_id, Datum *values,
							bool *nulls);
static void    count_few(int32 queue_id, int64 *done, int64 *dead,
						 TimestampTz *as_of);
static void    put_oldest(const TqQueue *queue, Datum *values, bool *nulls);
static void    put_rates(const TqQueue *queue, Datum *values, bool *nulls);
static void    read_live(Known *known);
static void    count_workers(Known *known);
static Number *read_numbers(TqStmt *stmt, const Datum *args, int *count);
static int64   number_of(const Number *numbers, int count, int32 queue_id);
static void   *entry_of(const void *entries, int count, Size width,
						int32 queue_id);
static int     compare_worker(const void *a, const void *b);
static void    count_held(Known *known);
static int     compare_running(const void *a, const void *b);

/*
 * Return the numbers of a queue that current_user may read; otherwise nulls.
 */
Datum
taskq_queue_numbers(PG_FUNCTION_ARGS)
{
	Datum    values[RESULTS] = {0};
	bool     nulls[RESULTS];
	TqQueue *queue = NULL;

	memset(nulls, true, sizeof(nulls));
	tq_queue_refresh();
	if (!PG_ARGISNULL(0))
		queue = tq_queue_by_id(PG_GETARG_INT32(0));
	if (queue != NULL && (tq_role_is_monitor() ||
						  (tq_role_rights(queue) & TQ_RIGHT_OBSERVE) != 0))
	{
		Known *known = known_of(fcinfo);
		int32  queue_id = queue->queue_id;

		memset(nulls, false, sizeof(nulls));
		put_live(known, queue_id, values);
		put_finished(known, queue_id, values, nulls);
		put_oldest(queue, values, nulls);
		values[RESULT_ACTIVE_WORKERS] = Int64GetDatum(
			number_of(known->workers, known->workers_count, queue_id));
		put_rates(queue, values, nulls);
		nulls[RESULT_WAITERS] = !tq_shmem_ready();
		values[RESULT_WAITERS] = Int64GetDatum(tq_waiter_count(queue_id, 0));
	}
	return tq_srf_row(fcinfo, values, nulls);
}

static Known *
known_of(FunctionCallInfo fcinfo)
{
	Known        *known = fcinfo->flinfo->fn_extra;
	MemoryContext mine;

	if (known != NULL)
		return known;
	mine = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
	known = palloc0(sizeof(Known));
	known->not_due =
		tq_not_due_count(tq_clock_dispatch(), &known->not_due_count);
	if (tq_running_complete())
		count_workers(known);
	else
		known->workers =
			read_numbers(&stmt_workers, NULL, &known->workers_count);
	known->finished =
		tq_finished_count_read(&known->finished_count, &known->finished_as_of);
	MemoryContextSwitchTo(mine);
	fcinfo->flinfo->fn_extra = known;
	return known;
}

static void
put_live(Known *known, int32 queue_id, Datum *values)
{
	int64     live[TQ_LIVE_STATES] = {0};
	TqNotDue *not_due = entry_of(known->not_due, known->not_due_count,
								 sizeof(TqNotDue), queue_id);

	if (!tq_limit_live(queue_id, live))
	{
		LiveNumber *number;

		if (known->live == NULL)
			read_live(known);
		number = entry_of(known->live, known->live_count, sizeof(LiveNumber),
						  queue_id);
		if (number != NULL)
			memcpy(live, number->live, sizeof(live));
	}
	values[RESULT_PENDING] = Int64GetDatum(live[0]);
	values[RESULT_READY] = Int64GetDatum(
		Max(live[0] - (not_due == NULL ? 0 : not_due->count), 0));
	values[RESULT_BLOCKED] = Int64GetDatum(live[1]);
	values[RESULT_RUNNING] = Int64GetDatum(live[2]);
	values[RESULT_SUSPENDED] = Int64GetDatum(live[3]);
}

/* Count while there are few tasks; otherwise use the numbers counted last. */
static void
put_finished(Known *known, int32 queue_id, Datum *values, bool *nulls)
{
	TqFinished *last = entry_of(known->finished, known->finished_count,
								sizeof(TqFinished), queue_id);
	int64       done = last == NULL ? 0 : last->done;
	int64       dead = last == NULL ? 0 : last->dead;
	TimestampTz as_of = known->finished_as_of;

	if (done <= FEW && dead <= FEW)
		count_few(queue_id, &done, &dead, &as_of);
	nulls[RESULT_DONE] = nulls[RESULT_DEAD] = nulls[RESULT_COUNTED_AT] =
		as_of == 0;
	values[RESULT_DONE] = Int64GetDatum(done);
	values[RESULT_DEAD] = Int64GetDatum(dead);
	values[RESULT_COUNTED_AT] = TimestampTzGetDatum(as_of);
}

/* Count the current rows, if both numbers are small. */
static void
count_few(int32 queue_id, int64 *done, int64 *dead, TimestampTz *as_of)
{
	Snapshot    snapshot = RegisterSnapshot(GetLatestSnapshot());
	TimestampTz now = tq_clock_wall();
	TqTaskPage *find = tq_task_page_begin(snapshot);
	int64       done_now =
		tq_task_page_count(find, queue_id, TQ_STATE_DONE, FEW + 1);
	int64 dead_now =
		tq_task_page_count(find, queue_id, TQ_STATE_DEAD, FEW + 1);

	tq_task_page_end(find);
	UnregisterSnapshot(snapshot);
	if (done_now > FEW || dead_now > FEW)
		return;
	*done = done_now;
	*dead = dead_now;
	*as_of = now;
}

static void
put_oldest(const TqQueue *queue, Datum *values, bool *nulls)
{
	TqCall      call = {{0}};
	TimestampTz oldest;

	call.task.rel = tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	nulls[RESULT_OLDEST_READY_AGE] =
		!tq_dispatch_oldest(&call, queue, &oldest);
	table_close(call.task.rel, AccessShareLock);
	if (!nulls[RESULT_OLDEST_READY_AGE])
		values[RESULT_OLDEST_READY_AGE] = DirectFunctionCall2(
			timestamp_mi, TimestampTzGetDatum(tq_clock_dispatch()),
			TimestampTzGetDatum(oldest));
}

/*
 * Return the tokens in the bucket of rate_limit; null if there is none or it
 * is unknown.
 */
static void
put_rates(const TqQueue *queue, Datum *values, bool *nulls)
{
	double tokens;

	nulls[RESULT_RATES] =
		queue->options.rate.count <= 0 ||
		!tq_rate_bucket_tokens(queue->queue_id, &queue->options.rate, &tokens);
	if (!nulls[RESULT_RATES])
		values[RESULT_RATES] = DirectFunctionCall1(
			jsonb_in, CStringGetDatum(psprintf("{\"tokens\": %.3f}", tokens)));
}

/* Count rows, if numbers are not kept. */
static void
read_live(Known *known)
{
	MemoryContext home = GetMemoryChunkContext(known);
	uint64        rows;
	TqSpi         spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_live, NULL, NULL, 0);
	known->live = MemoryContextAlloc(home, sizeof(LiveNumber) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		known->live[i].queue_id = tq_spi_int4(i, 1, 0);
		for (int s = 0; s < TQ_LIVE_STATES; s++)
			known->live[i].live[s] = tq_spi_int8(i, s + 2, 0);
	}
	known->live_count = (int) rows;
	tq_spi_leave(&spi);
}

/* Count the workers that hold a task, for each queue. */
static void
count_workers(Known *known)
{
	int        count;
	TqRunning *running = tq_running_all(&count);

	qsort(running, count, sizeof(TqRunning), compare_running);
	known->workers = palloc(sizeof(Number) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		Number *number = known->workers + known->workers_count - 1;

		if (running[i].worker_id == 0 ||
			(i > 0 && compare_running(&running[i], &running[i - 1]) == 0))
			continue;
		if (known->workers_count == 0 || number->id != running[i].queue_id)
		{
			number = &known->workers[known->workers_count++];
			number->id = running[i].queue_id;
			number->count = 0;
		}
		number->count++;
	}
	pfree(running);
}

/*
 * Return how many tasks a worker holds, if current_user may see it; read for
 * all workers at the first call.
 */
Datum
taskq_worker_running(PG_FUNCTION_ARGS)
{
	Known *known = fcinfo->flinfo->fn_extra;

	if (PG_ARGISNULL(0) || !tq_task_get_sees_worker(PG_GETARG_INT32(0)))
		PG_RETURN_NULL();
	if (known == NULL)
	{
		MemoryContext mine = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);

		known = palloc0(sizeof(Known));
		/* entries do not include tasks that this transaction has claimed */
		if (tq_running_complete() &&
			!TransactionIdIsValid(GetTopTransactionIdIfAny()))
			count_held(known);
		else
			known->workers =
				read_numbers(&stmt_held, NULL, &known->workers_count);
		MemoryContextSwitchTo(mine);
		fcinfo->flinfo->fn_extra = known;
	}
	PG_RETURN_INT64(
		number_of(known->workers, known->workers_count, PG_GETARG_INT32(0)));
}

/* Count the tasks that each worker holds. */
static void
count_held(Known *known)
{
	int        count;
	TqRunning *running = tq_running_all(&count);

	qsort(running, count, sizeof(TqRunning), compare_worker);
	known->workers = palloc(sizeof(Number) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		if (i == 0 || running[i].worker_id != running[i - 1].worker_id)
		{
			Number *number = &known->workers[known->workers_count++];

			number->id = running[i].worker_id;
			number->count = 0;
		}
		known->workers[known->workers_count - 1].count++;
	}
	pfree(running);
}

/* Read rows of an id and a number, sorted by id. */
static Number *
read_numbers(TqStmt *stmt, const Datum *args, int *count)
{
	Number *numbers;
	uint64  rows;
	TqSpi   spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(stmt, args, NULL, 0);
	numbers = MemoryContextAlloc(spi.caller, sizeof(Number) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		numbers[i].id = tq_spi_int4(i, 1, 0);
		numbers[i].count = tq_spi_int8(i, 2, 0);
	}
	*count = (int) rows;
	tq_spi_leave(&spi);
	return numbers;
}

static int64
number_of(const Number *numbers, int count, int32 queue_id)
{
	Number *number = entry_of(numbers, count, sizeof(Number), queue_id);

	return number == NULL ? 0 : number->count;
}

/* All entries begin with the number that they are sorted by. */
static void *
entry_of(const void *entries, int count, Size width, int32 queue_id)
{
	if (count == 0)
		return NULL;
	return bsearch(&queue_id, entries, count, width, tq_order_int32);
}

static int
compare_running(const void *a, const void *b)
{
	const TqRunning *x = a;
	const TqRunning *y = b;

	if (x->queue_id != y->queue_id)
		return tq_compare_int64(x->queue_id, y->queue_id);
	return compare_worker(a, b);
}

static int
compare_worker(const void *a, const void *b)
{
	return tq_compare_int64(((const TqRunning *) a)->worker_id,
							((const TqRunning *) b)->worker_id);
}
