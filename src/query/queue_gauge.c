/*
 * queue_gauge.c
 *		Numbers of a queue's live tasks, for views and metrics.
 *
 * Live tasks are counted in shared memory (shared/counter.c), running ones are
 * in a table there (shared/running.c).  Without it, or on a standby, rows are
 * read.
 *
 * Data that one scan provides for all queues is read at the beginning, or when
 * it is first needed, and kept for the other queues.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/spi.h"
#include "base/types.h"
#include "engine/dispatch.h"
#include "engine/limit.h"
#include "query/not_due.h"
#include "query/queue_gauge.h"
#include "shared/running.h"
#include "shared/waiter.h"

/* Running tasks of a queue. */
typedef struct Running
{
	int32       queue_id;
	int64       workers;
	TimestampTz first; /* claim */
} Running;

typedef struct LiveNumber
{
	int32 queue_id;
	int64 live[TQ_LIVE_NUMBERS];
} LiveNumber;

/* Each array is sorted by queue. */
struct TqQueueGauges
{
	TimestampTz now;     /* dispatch clock */
	TqNotDue   *not_due; /* only pending tasks have a timer for a due time */
	int         not_due_count;
	Running    *running;
	int         running_count;
	LiveNumber *live; /* from rows; NULL: not needed yet */
	int         live_count;
};

static TqStmt stmt_live = {
	"SELECT queue_id,"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_PENDING "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_BLOCKED "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_RUNNING "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_SUSPENDED "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_PENDING
	"                          AND attempt > 0)"
	"  FROM taskq.task GROUP BY queue_id ORDER BY queue_id"};

static TqStmt stmt_running = {
	"SELECT queue_id, count(DISTINCT nullif(worker_id, 0)), min(claimed_at)"
	"  FROM taskq.task WHERE state = " TQ_SQL_STATE_RUNNING
	" GROUP BY queue_id ORDER BY queue_id"};

static void  read_running(TqQueueGauges *gauges);
static void  read_running_rows(TqQueueGauges *gauges);
static int   compare_running(const void *a, const void *b);
static void  read_live(TqQueueGauges *gauges);
static void  put_live(TqQueueGauges *gauges, int32 queue_id,
					  TqQueueGauge *gauge);
static void  put_oldest(const TqQueueGauges *gauges, const TqQueue *queue,
						TqQueueGauge *gauge);
static void *entry_of(const void *entries, int count, Size width,
					  int32 queue_id);

/* The result is allocated in the current context. */
TqQueueGauges *
tq_queue_gauge_begin(void)
{
	TqQueueGauges *gauges = palloc0(sizeof(TqQueueGauges));

	gauges->now = tq_clock_dispatch();
	gauges->not_due = tq_not_due_count(gauges->now, &gauges->not_due_count);
	if (tq_running_complete())
		read_running(gauges);
	else
		read_running_rows(gauges);
	return gauges;
}

/* The numbers of one queue. */
void
tq_queue_gauge_read(TqQueueGauges *gauges, const TqQueue *queue,
					TqQueueGauge *gauge)
{
	int32    queue_id = queue->queue_id;
	Running *running = entry_of(gauges->running, gauges->running_count,
								sizeof(Running), queue_id);

	memset(gauge, 0, sizeof(*gauge));
	put_live(gauges, queue_id, gauge);
	put_oldest(gauges, queue, gauge);
	gauge->waiters = tq_waiter_count(queue_id, 0);
	if (running != NULL)
	{
		gauge->workers = running->workers;
		gauge->longest_running = Max(tq_clock_dispatch() - running->first, 0);
	}
}

/* From the table of running tasks. */
static void
read_running(TqQueueGauges *gauges)
{
	int        count;
	TqRunning *tasks = tq_running_all(&count);

	qsort(tasks, count, sizeof(TqRunning), compare_running);
	gauges->running = palloc(sizeof(Running) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		Running *running = gauges->running + gauges->running_count - 1;

		if (gauges->running_count == 0 ||
			running->queue_id != tasks[i].queue_id)
		{
			running = &gauges->running[gauges->running_count++];
			running->queue_id = tasks[i].queue_id;
			running->workers = 0;
			running->first = tasks[i].claimed_at;
		}
		running->first = Min(running->first, tasks[i].claimed_at);
		if (tasks[i].worker_id != 0 &&
			(i == 0 || compare_running(&tasks[i], &tasks[i - 1]) != 0))
			running->workers++;
	}
	pfree(tasks);
}

/* By queue, and by worker. */
static int
compare_running(const void *a, const void *b)
{
	const TqRunning *x = a;
	const TqRunning *y = b;

	if (x->queue_id != y->queue_id)
		return tq_compare_int64(x->queue_id, y->queue_id);
	return tq_compare_int64(x->worker_id, y->worker_id);
}

static void
read_running_rows(TqQueueGauges *gauges)
{
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_running, NULL, NULL, 0);
	gauges->running =
		MemoryContextAlloc(spi.caller, sizeof(Running) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		gauges->running[i].queue_id = tq_spi_int4(i, 1, 0);
		gauges->running[i].workers = tq_spi_int8(i, 2, 0);
		gauges->running[i].first = tq_spi_time(i, 3, gauges->now);
	}
	gauges->running_count = (int) rows;
	tq_spi_leave(&spi);
}

static void
put_live(TqQueueGauges *gauges, int32 queue_id, TqQueueGauge *gauge)
{
	TqNotDue *not_due = entry_of(gauges->not_due, gauges->not_due_count,
								 sizeof(TqNotDue), queue_id);

	if (!tq_limit_live(queue_id, gauge->live))
	{
		LiveNumber *number;

		if (gauges->live == NULL)
			read_live(gauges);
		number = entry_of(gauges->live, gauges->live_count, sizeof(LiveNumber),
						  queue_id);
		if (number != NULL)
			memcpy(gauge->live, number->live, sizeof(gauge->live));
		else
			memset(gauge->live, 0, sizeof(gauge->live));
	}
	gauge->ready = Max(gauge->live[TQ_STATE_PENDING - TQ_STATE_FIRST] -
						   (not_due == NULL ? 0 : not_due->count),
					   0);
}

/* Count rows, if numbers are not kept. */
static void
read_live(TqQueueGauges *gauges)
{
	MemoryContext home = GetMemoryChunkContext(gauges);
	uint64        rows;
	TqSpi         spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_live, NULL, NULL, 0);
	gauges->live = MemoryContextAlloc(home, sizeof(LiveNumber) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		gauges->live[i].queue_id = tq_spi_int4(i, 1, 0);
		for (int s = 0; s < TQ_LIVE_NUMBERS; s++)
			gauges->live[i].live[s] = tq_spi_int8(i, s + 2, 0);
	}
	gauges->live_count = (int) rows;
	tq_spi_leave(&spi);
}

static void
put_oldest(const TqQueueGauges *gauges, const TqQueue *queue,
		   TqQueueGauge *gauge)
{
	TqCall      call = {{0}};
	TimestampTz oldest;

	call.task.rel = tq_catalog_open_table(tq_catalog()->task, AccessShareLock);
	gauge->any_ready = tq_dispatch_oldest(&call, queue, &oldest);
	table_close(call.task.rel, AccessShareLock);
	if (gauge->any_ready)
		gauge->oldest_ready = tq_clock_dispatch() - oldest;
}

/* All entries begin with the number that they are sorted by. */
static void *
entry_of(const void *entries, int count, Size width, int32 queue_id)
{
	if (count == 0)
		return NULL;
	return bsearch(&queue_id, entries, count, width, tq_order_int32);
}
