/*
 * queue_counts.c
 *		Numbers of tasks of a queue, for the view of queues.
 *
 * Numbers of live tasks come from queue_gauge.c.  Finished tasks are counted
 * here while there are few, otherwise by a duty (finished_count.c).
 *
 * Data that one scan provides for all queues is read at the first call of a
 * statement and kept for its other calls.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/compare.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/finished_count.h"
#include "query/queue_gauge.h"
#include "query/task_get.h"
#include "query/task_page.h"
#include "shared/rate_bucket.h"
#include "shared/running.h"
#include "shared/shmem.h"

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

/* The number of tasks that a worker holds. */
typedef struct Number
{
	int32 worker_id;
	int64 count;
} Number;

/*
 * Data kept between the calls of a statement; each array is sorted by the
 * first member of its entries.
 */
typedef struct Known
{
	TqQueueGauges *gauges;
	TqFinished    *finished;
	int            finished_count;
	TimestampTz    finished_as_of; /* 0: never */
	Number        *workers;
	int            workers_count;
} Known;

static TqStmt stmt_held = {"SELECT worker_id, count(*) FROM taskq.task"
						   " WHERE state = " TQ_SQL_STATE_RUNNING
						   " AND worker_id <> 0"
						   " GROUP BY worker_id"
						   " ORDER BY worker_id"};

static Known *known_of(FunctionCallInfo fcinfo);
static void   put_gauge(const TqQueueGauge *gauge, Datum *values, bool *nulls);
static void   put_finished(Known *known, int32 queue_id, Datum *values,
						   bool *nulls);
static void   count_few(int32 queue_id, int64 *done, int64 *dead,
						TimestampTz *as_of);
static void   put_rates(const TqQueue *queue, Datum *values, bool *nulls);
static void   count_held(Known *known);
static int    compare_worker(const void *a, const void *b);
static void   read_held(Known *known);
static void  *entry_of(const void *entries, int count, Size width, int32 id);

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
	if (queue != NULL && tq_role_sees_numbers(queue))
	{
		Known       *known = known_of(fcinfo);
		int32        queue_id = queue->queue_id;
		TqQueueGauge gauge;

		memset(nulls, false, sizeof(nulls));
		put_rates(queue, values, nulls);
		tq_queue_gauge_read(known->gauges, queue, &gauge);
		put_gauge(&gauge, values, nulls);
		put_finished(known, queue_id, values, nulls);
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
	known->gauges = tq_queue_gauge_begin();
	known->finished =
		tq_finished_count_read(&known->finished_count, &known->finished_as_of);
	MemoryContextSwitchTo(mine);
	fcinfo->flinfo->fn_extra = known;
	return known;
}

static void
put_gauge(const TqQueueGauge *gauge, Datum *values, bool *nulls)
{
	values[RESULT_PENDING] = Int64GetDatum(gauge->live[0]);
	values[RESULT_READY] = Int64GetDatum(gauge->ready);
	values[RESULT_BLOCKED] = Int64GetDatum(gauge->live[1]);
	values[RESULT_RUNNING] = Int64GetDatum(gauge->live[2]);
	values[RESULT_SUSPENDED] = Int64GetDatum(gauge->live[3]);
	values[RESULT_ACTIVE_WORKERS] = Int64GetDatum(gauge->workers);
	nulls[RESULT_OLDEST_READY_AGE] = !gauge->any_ready;
	if (gauge->any_ready)
		values[RESULT_OLDEST_READY_AGE] = DirectFunctionCall2(
			timestamp_mi, TimestampGetDatum(gauge->oldest_ready),
			TimestampGetDatum(0));
	nulls[RESULT_WAITERS] = !tq_shmem_ready();
	values[RESULT_WAITERS] = Int64GetDatum(gauge->waiters);
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

/*
 * Return how many tasks a worker holds, if current_user may see it; read for
 * all workers at the first call.
 */
Datum
taskq_worker_running(PG_FUNCTION_ARGS)
{
	Known  *known = fcinfo->flinfo->fn_extra;
	Number *number;

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
			read_held(known);
		MemoryContextSwitchTo(mine);
		fcinfo->flinfo->fn_extra = known;
	}
	number = entry_of(known->workers, known->workers_count, sizeof(Number),
					  PG_GETARG_INT32(0));
	PG_RETURN_INT64(number == NULL ? 0 : number->count);
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

			number->worker_id = running[i].worker_id;
			number->count = 0;
		}
		known->workers[known->workers_count - 1].count++;
	}
	pfree(running);
}

static int
compare_worker(const void *a, const void *b)
{
	return tq_compare_int64(((const TqRunning *) a)->worker_id,
							((const TqRunning *) b)->worker_id);
}

/* Count rows. */
static void
read_held(Known *known)
{
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_held, NULL, NULL, 0);
	known->workers =
		MemoryContextAlloc(spi.caller, sizeof(Number) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		known->workers[i].worker_id = tq_spi_int4(i, 1, 0);
		known->workers[i].count = tq_spi_int8(i, 2, 0);
	}
	known->workers_count = (int) rows;
	tq_spi_leave(&spi);
}

/* All entries begin with the number that they are sorted by. */
static void *
entry_of(const void *entries, int count, Size width, int32 id)
{
	if (count == 0)
		return NULL;
	return bsearch(&id, entries, count, width, tq_order_int32);
}
