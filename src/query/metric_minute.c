/*
 * metric_minute.c
 *		Numbers of each queue, minute by minute, for a day.
 *
 * Shortly after the end of each minute of the wall clock, the background
 * worker reads the counters and histograms (shared/metric.c) and the gauges of
 * all queues, and writes the differences to the last reading into
 * taskq.metric_minute, in one statement.  That table is a ring of fixed size:
 * a minute takes the place of an earlier one, which is older than a day.
 *
 * A minute in which nothing happened in any queue has no rows of its own, so
 * that an idle server writes nothing (even the commit of a transaction that
 * changes unlogged tables only is written to WAL).  Its rows follow from those
 * of the last written minute: the counters are zero, and the gauges are the
 * same.  How many such minutes followed is stored there when the next rows are
 * written, at the latest after QUIET_MOST of them; until then it is in shared
 * memory, which a clean restart keeps (shared/metric.c).
 *
 * The last reading is kept in the process.  So a minute has rows only if the
 * worker was there at its beginning and at its end: the minute in which it
 * starts has none, nor have minutes that it missed.  The reading is replaced
 * only when the rows are committed.  A number that has become lower was reset
 * (a queue was dropped and created, shared memory was wiped), and counts from
 * zero.
 *
 * The rows of a dropped queue are removed with it.  A row that is written at
 * that moment remains, but no view shows it, and it is removed when its place
 * in the ring is used again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/debug.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/metric_minute.h"
#include "query/queue_gauge.h"
#include "shared/metric.h"

/* At most so many minutes in succession without rows. */
#define QUIET_MOST 60

/* The rows of a day, and those from which quiet minutes of the day follow. */
#define SLOTS (24 * 60 + QUIET_MOST)

PG_FUNCTION_INFO_V1(taskq_metric_minutes);

/* Counters of a queue that have a column, in its order. */
typedef enum Counter
{
	COUNTED_SUBMITTED,
	COUNTED_CLAIMED,
	COUNTED_COMPLETED,
	COUNTED_FAILED,
	COUNTED_DEAD,
	COUNTERS
} Counter;

/* Percentiles are of these histograms. */
static const TqHistogram histograms[] = {TQ_HISTOGRAM_WAIT,
										 TQ_HISTOGRAM_EXECUTION};

#define HISTOGRAMS lengthof(histograms)

/* The numbers of one queue; padding is zero. */
typedef struct Reading
{
	int32 queue_id;
	bool  known;
	int64 counter[COUNTERS];
	int64 bucket[HISTOGRAMS][TQ_BUCKETS];
	int64 ready; /* gauges, if the minute gets rows */
	int64 running;
} Reading;

/* Arguments of stmt_write. */
typedef enum Column
{
	COLUMN_SLOT,
	COLUMN_AT,
	COLUMN_QUEUE,
	COLUMN_COUNTERS,
	COLUMN_READY = COLUMN_COUNTERS + COUNTERS,
	COLUMN_RUNNING,
	COLUMN_OLDEST,
	COLUMN_PERCENTILES,
	COLUMNS = COLUMN_PERCENTILES + 2 * HISTOGRAMS
} Column;

/* The rows of a minute, as arrays of their columns. */
typedef struct Rows
{
	int    count;
	bool   any_ready; /* a queue has a ready task, which gets older */
	Datum *values[COLUMNS];
	bool  *nulls[COLUMNS];
} Rows;

static TqStmt stmt_write = {
	"INSERT INTO taskq.metric_minute AS m (slot, at, queue_id, submitted,"
	"     claimed, completed, failed, dead, ready, running, oldest_ready_age,"
	"     wait_p50, wait_p95, run_p50, run_p95)"
	" SELECT $1::smallint, $2, n.* FROM unnest($3, $4, $5, $6, $7, $8, $9,"
	"     $10, $11, $12, $13, $14, $15) n"
	" ON CONFLICT (slot, queue_id) DO UPDATE SET at = excluded.at,"
	"     submitted = excluded.submitted, claimed = excluded.claimed,"
	"     completed = excluded.completed, failed = excluded.failed,"
	"     dead = excluded.dead, ready = excluded.ready,"
	"     running = excluded.running,"
	"     oldest_ready_age = excluded.oldest_ready_age,"
	"     wait_p50 = excluded.wait_p50, wait_p95 = excluded.wait_p95,"
	"     run_p50 = excluded.run_p50, run_p95 = excluded.run_p95, quiet = 0",
	{INT4OID, TIMESTAMPTZOID, INT4ARRAYOID, INT4ARRAYOID, INT4ARRAYOID,
	 INT4ARRAYOID, INT4ARRAYOID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
	 FLOAT4ARRAYOID, FLOAT4ARRAYOID, FLOAT4ARRAYOID, FLOAT4ARRAYOID,
	 FLOAT4ARRAYOID}};

/* The rows of a minute say how many quiet minutes followed. */
static TqStmt stmt_quiet = {"UPDATE taskq.metric_minute SET quiet = $3"
							" WHERE slot = $1::smallint AND at = $2"
							"   AND quiet < $3",
							{INT4OID, TIMESTAMPTZOID, INT4OID}};

/* Rows of an earlier minute in the same place, of queues that are gone. */
static TqStmt stmt_clear = {"DELETE FROM taskq.metric_minute"
							" WHERE slot = $1::smallint AND at <> $2",
							{INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_read = {
	"SELECT at, submitted::bigint, claimed::bigint, completed::bigint,"
	"       failed::bigint, dead::bigint, ready, running,"
	"       oldest_ready_age * interval '1 s', wait_p50 * interval '1 s',"
	"       wait_p95 * interval '1 s', run_p50 * interval '1 s',"
	"       run_p95 * interval '1 s', quiet"
	"  FROM taskq.metric_minute"
	" WHERE slot = ANY (ARRAY(SELECT generate_series(0, $3 - 1)::smallint))"
	"   AND queue_id = $1 AND at > $2 ORDER BY at",
	{INT4OID, TIMESTAMPTZOID, INT4OID}};

/* Columns of stmt_read, from 1. */
enum
{
	READ_AT = 1,
	READ_COUNTERS,
	READ_READY = READ_COUNTERS + COUNTERS,
	READ_RUNNING,
	READ_OLDEST,
	READ_PERCENTILES,
	READ_QUIET = READ_PERCENTILES + 2 * HISTOGRAMS,
	READ_COLUMNS = READ_QUIET - 1 /* that are returned */
};

/* The last reading, sorted by queue; in this context. */
static MemoryContext last_context = NULL;
static Reading      *last = NULL;
static int           last_count = 0;
static int64         last_minute = 0;    /* in which it was read; 0: none */
static bool          last_early = false; /* at the beginning of it */
static TimestampTz   last_since = 0;
static uint64        last_generation = 0; /* of the queues */

/* The minutes that follow from the rows of a minute; 0: none was written. */
static TqQuietMinutes quiet = {0, 0};

static int64    minute_now(void);
static bool     is_quiet(const Rows *rows, const Reading *readings, int count,
						 int64 minute);
static Reading *read_all(Rows *rows, MemoryContext context, int *count,
						 bool with_rows);
static void     read_one(int32 queue_id, Reading *reading);
static void     put_row(Rows *rows, const Reading *now, TqQueueGauge *gauge);
static const Reading *last_reading(int32 queue_id);
static void           put(Rows *rows, int column, Datum value);
static bool  percentile(const int64 *buckets, double share, float4 *seconds);
static void  write_rows(const Rows *rows, int64 minute);
static void  write_quiet(void);
static int32 slot_of(int64 minute);
static Datum array_of(const Rows *rows, int column);
static void  return_row(ReturnSetInfo *result, uint64 row, TimestampTz since,
						TimestampTz until, const TqQuietMinutes *latest);
static void  keep(MemoryContext context, Reading *readings, int count,
				  int64 minute);

/* The background worker has started. */
void
tq_metric_minute_start(void)
{
	last_minute = 0;
	last_early = false;
	last_count = 0;
	/* of the worker before this one */
	quiet = tq_metric_quiet();
}

/* Has a minute ended since the last reading? */
bool
tq_metric_minute_is_due(void)
{
	return tq_metric_ready() && minute_now() != last_minute;
}

/* When the current minute ends, on the dispatch clock. */
TimestampTz
tq_metric_minute_next(void)
{
	TimestampTz wall = tq_clock_wall();

	if (!tq_metric_ready())
		return DT_NOEND;
	return tq_clock_dispatch() + USECS_PER_MINUTE - wall % USECS_PER_MINUTE;
}

/*
 * Read the numbers of all queues, and write the rows of the minute that has
 * ended if it began with the last reading, unless it was quiet.  Returns 0,
 * since it changes no tasks.
 */
int64
tq_metric_minute_run(int limit)
{
	int64          minute = minute_now();
	bool           follows = minute == last_minute + 1;
	bool           whole = follows && last_early;
	TqQuietMinutes next = quiet;
	MemoryContext  context;
	Reading       *readings;
	Rows           rows = {0};
	int            count;

	if (!tq_metric_minute_is_due())
		return 0;
	context = AllocSetContextCreate(CurTransactionContext, "taskq minute",
									ALLOCSET_DEFAULT_SIZES);
	PushActiveSnapshot(GetTransactionSnapshot());
	tq_queue_refresh();
	if (last_since != tq_metric_since())
		last_count = 0;
	readings = read_all(&rows, context, &count, whole);
	if (whole && is_quiet(&rows, readings, count, minute - 1))
		next.last = minute - 1;
	else
	{
		next.after = next.last = rows.count > 0 ? minute - 1 : 0;
		if (quiet.last > quiet.after)
			write_quiet();
		if (rows.count > 0)
			write_rows(&rows, minute - 1);
	}
	PopActiveSnapshot();
	TQ_DEBUG_POINT("minute_written");
	keep(context, readings, count, minute);
	quiet = next;
	last_early = follows;
	return 0;
}

/* The number of the current minute of the wall clock. */
static int64
minute_now(void)
{
	return tq_clock_wall() / USECS_PER_MINUTE;
}

/*
 * Has nothing happened in a minute, so that its rows follow from those of the
 * last minute that has some?  If so, readers are told.
 */
static bool
is_quiet(const Rows *rows, const Reading *readings, int count, int64 minute)
{
	TqQuietMinutes longer = {quiet.after, minute};

	return quiet.after != 0 && quiet.last == minute - 1 &&
		   minute - quiet.after <= QUIET_MOST && !rows->any_ready &&
		   count > 0 && count == last_count &&
		   last_generation == tq_catalog_queue_generation() &&
		   memcmp(readings, last, sizeof(Reading) * count) == 0 &&
		   tq_metric_put_quiet(longer);
}

/* Read the counters of all queues, and make the rows of the minute. */
static Reading *
read_all(Rows *rows, MemoryContext context, int *count, bool with_rows)
{
	int            names;
	char         **name = tq_queue_names(&names);
	int32         *ids = palloc(sizeof(int32) * (names + 1));
	int            ids_count = 0;
	TqQueueGauges *gauges = with_rows ? tq_queue_gauge_begin() : NULL;
	Reading       *readings =
		MemoryContextAllocHuge(context, sizeof(Reading) * (names + 1));

	for (int i = 0; i < names; i++)
	{
		TqQueue *queue = tq_queue_find(name[i]);

		if (queue != NULL)
			ids[ids_count++] = queue->queue_id;
	}
	qsort(ids, ids_count, sizeof(int32), tq_order_int32);
	for (int i = 0; i < COLUMNS && with_rows; i++)
	{
		rows->values[i] = palloc(sizeof(Datum) * (ids_count + 1));
		rows->nulls[i] = palloc(sizeof(bool) * (ids_count + 1));
		memset(rows->nulls[i], true, sizeof(bool) * (ids_count + 1));
	}
	*count = 0;
	for (int i = 0; i < ids_count; i++)
	{
		TqQueue     *queue = tq_queue_by_id(ids[i]);
		TqQueueGauge gauge;

		CHECK_FOR_INTERRUPTS();
		if (queue == NULL)
			continue;
		read_one(ids[i], &readings[*count]);
		if (with_rows)
		{
			tq_queue_gauge_read(gauges, queue, &gauge);
			readings[*count].ready = gauge.ready;
			readings[*count].running =
				gauge.live[TQ_STATE_RUNNING - TQ_STATE_FIRST];
			rows->any_ready |= gauge.any_ready;
			put_row(rows, &readings[*count], &gauge);
		}
		(*count)++;
	}
	return readings;
}

static void
read_one(int32 queue_id, Reading *reading)
{
	static const TqMetric slots[] = {[COUNTED_SUBMITTED] = TQ_METRIC_SUBMITTED,
									 [COUNTED_CLAIMED] = TQ_METRIC_CLAIMED,
									 [COUNTED_COMPLETED] = TQ_METRIC_COMPLETED,
									 [COUNTED_FAILED] = TQ_METRIC_FAILED};
	TqMetrics             metrics;

	memset(reading, 0, sizeof(*reading));
	reading->queue_id = queue_id;
	reading->known = tq_metric_read(queue_id, &metrics);
	for (int i = 0; i < lengthof(slots); i++)
		reading->counter[i] = metrics.slot[slots[i]];
	for (int reason = TQ_REASON_NONE; reason <= TQ_REASON_LAST; reason++)
		reading->counter[COUNTED_DEAD] +=
			metrics.slot[TQ_METRIC_DEAD + reason];
	for (int h = 0; h < HISTOGRAMS; h++)
	{
		for (int b = 0; b < TQ_BUCKETS; b++)
			reading->bucket[h][b] =
				metrics.slot[TQ_METRIC_BUCKET(histograms[h], b)];
	}
}

/* A queue without an earlier reading was created in this minute. */
static void
put_row(Rows *rows, const Reading *now, TqQueueGauge *gauge)
{
	static const double shares[] = {0.5, 0.95};
	const Reading       zero = {0};
	const Reading      *before = last_reading(now->queue_id);
	int                 column = COLUMN_PERCENTILES;

	for (int i = 0; i < COUNTERS && before != NULL; i++)
	{
		if (now->counter[i] < before->counter[i])
			before = NULL;
	}
	if (before == NULL)
		before = &zero;
	put(rows, COLUMN_QUEUE, Int32GetDatum(now->queue_id));
	for (int i = 0; i < COUNTERS && now->known; i++)
		put(rows, COLUMN_COUNTERS + i,
			Int32GetDatum((int32) Min(now->counter[i] - before->counter[i],
									  PG_INT32_MAX)));
	put(rows, COLUMN_READY, Int64GetDatum(now->ready));
	put(rows, COLUMN_RUNNING, Int64GetDatum(now->running));
	if (gauge->any_ready)
		put(rows, COLUMN_OLDEST,
			Float4GetDatum((float4) Max(gauge->oldest_ready, 0) /
						   USECS_PER_SEC));
	for (int h = 0; h < HISTOGRAMS; h++)
	{
		int64 buckets[TQ_BUCKETS];

		for (int b = 0; b < TQ_BUCKETS; b++)
			buckets[b] = now->bucket[h][b] - before->bucket[h][b];
		for (int s = 0; s < lengthof(shares); s++, column++)
		{
			float4 seconds;

			if (now->known && percentile(buckets, shares[s], &seconds))
				put(rows, column, Float4GetDatum(seconds));
		}
	}
	rows->count++;
}

static const Reading *
last_reading(int32 queue_id)
{
	if (last_count == 0)
		return NULL;
	return bsearch(&queue_id, last, last_count, sizeof(Reading),
				   tq_order_int32);
}

static void
put(Rows *rows, int column, Datum value)
{
	rows->values[column][rows->count] = value;
	rows->nulls[column][rows->count] = false;
}

/*
 * Compute a percentile, evenly within its bucket, as Prometheus does; return
 * false if there is no observation.
 */
static bool
percentile(const int64 *buckets, double share, float4 *seconds)
{
	int64  total = 0;
	double rank;
	int    bucket = 0;
	int64  low;

	for (int i = 0; i < TQ_BUCKETS; i++)
		total += buckets[i];
	if (total <= 0)
		return false;
	rank = share * (double) total;
	while (bucket < TQ_BUCKETS - 1 && rank > (double) buckets[bucket])
		rank -= (double) buckets[bucket++];
	low = bucket == 0 ? 0 : tq_metric_bound(bucket - 1);
	*seconds = (float4) ((double) low / USECS_PER_SEC);
	/* the last bucket has no upper bound */
	if (bucket < TQ_BUCKETS - 1 && buckets[bucket] > 0)
		*seconds += (float4) ((double) (tq_metric_bound(bucket) - low) * rank /
							  (double) buckets[bucket] / USECS_PER_SEC);
	return true;
}

static void
write_rows(const Rows *rows, int64 minute)
{
	Datum args[COLUMNS];
	TqSpi spi;

	args[COLUMN_SLOT] = Int32GetDatum(slot_of(minute));
	args[COLUMN_AT] = TimestampTzGetDatum(minute * USECS_PER_MINUTE);
	for (int i = COLUMN_QUEUE; i < COLUMNS; i++)
		args[i] = array_of(rows, i);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_write, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_run(&stmt_clear, args, NULL, SPI_OK_DELETE, 0);
	tq_spi_leave(&spi);
}

/* Store the quiet minutes in the rows from which they follow. */
static void
write_quiet(void)
{
	Datum args[3];

	args[0] = Int32GetDatum(slot_of(quiet.after));
	args[1] = TimestampTzGetDatum(quiet.after * USECS_PER_MINUTE);
	args[2] = Int32GetDatum((int32) (quiet.last - quiet.after));
	tq_spi_execute(&stmt_quiet, args, NULL, SPI_OK_UPDATE);
}

/* The place of a minute in the ring. */
static int32
slot_of(int64 minute)
{
	return (int32) ((minute % SLOTS + SLOTS) % SLOTS);
}

static Datum
array_of(const Rows *rows, int column)
{
	int  dimension = rows->count;
	int  lower = 1;
	Oid  type = FLOAT4OID;
	int  width = sizeof(float4);
	bool by_value = true;
	char align = TYPALIGN_INT;

	if (column < COLUMN_READY)
		type = INT4OID;
	else if (column <= COLUMN_RUNNING)
	{
		type = INT8OID;
		width = sizeof(int64);
		by_value = FLOAT8PASSBYVAL;
		align = TYPALIGN_DOUBLE;
	}
	return PointerGetDatum(
		construct_md_array(rows->values[column], rows->nulls[column], 1,
						   &dimension, &lower, type, width, by_value, align));
}

/*
 * Keep the reading for the next minute.  The commit that follows writes only
 * to an unlogged table; if it fails nevertheless, one minute has no rows.
 */
static void
keep(MemoryContext context, Reading *readings, int count, int64 minute)
{
	if (last_context != NULL)
		MemoryContextDelete(last_context);
	MemoryContextSetParent(context, TopMemoryContext);
	last_context = context;
	last = readings;
	last_count = count;
	last_minute = minute;
	last_since = tq_metric_since();
	last_generation = tq_catalog_queue_generation();
}

/*
 * taskq.metric_minutes(): the rows of a queue that current_user may read, of
 * the last 24 hours.  A standby cannot read them.
 */
Datum
taskq_metric_minutes(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TqQueue       *queue = NULL;
	TqQuietMinutes latest;
	TimestampTz    since = tq_clock_wall() - USECS_PER_DAY - USECS_PER_MINUTE;
	Datum          args[3];
	uint64         rows;
	TqSpi          spi;

	tq_srf_begin(fcinfo);
	tq_queue_refresh();
	if (!PG_ARGISNULL(0))
		queue = tq_queue_by_id(PG_GETARG_INT32(0));
	if (queue == NULL || RecoveryInProgress() || !tq_role_sees_numbers(queue))
		return (Datum) 0;
	args[0] = Int32GetDatum(queue->queue_id);
	args[1] = TimestampTzGetDatum(since - QUIET_MOST * USECS_PER_MINUTE);
	args[2] = Int32GetDatum(SLOTS);
	/* before the rows, which may be written in the meantime */
	latest = tq_metric_quiet();
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_read, args, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
		return_row(result, i, since,
				   i + 1 < rows ? tq_spi_time(i + 1, READ_AT, DT_NOEND)
								: DT_NOEND,
				   &latest);
	tq_spi_leave(&spi);
	return (Datum) 0;
}

/*
 * Return a row that was read, and the rows of the quiet minutes that follow
 * from it, if they are later than since and earlier than until.
 */
static void
return_row(ReturnSetInfo *result, uint64 row, TimestampTz since,
		   TimestampTz until, const TqQuietMinutes *latest)
{
	Datum       values[READ_COLUMNS];
	bool        nulls[READ_COLUMNS];
	bool        isnull;
	TimestampTz at = tq_spi_time(row, READ_AT, DT_NOBEGIN);
	int64       count = DatumGetInt16(tq_spi_get(row, READ_QUIET, &isnull));

	for (int c = 0; c < READ_COLUMNS; c++)
		values[c] = tq_spi_get(row, c + 1, &nulls[c]);
	if (at == latest->after * USECS_PER_MINUTE)
		count = Max(count, latest->last - latest->after);
	for (int64 i = 0; i <= count && at < until; i++, at += USECS_PER_MINUTE)
	{
		values[READ_AT - 1] = TimestampTzGetDatum(at);
		if (at > since)
			tq_srf_add(result, values, nulls);
		if (i > 0)
			continue;
		for (int c = READ_COUNTERS; c < READ_READY; c++)
			values[c - 1] = Int64GetDatum(0);
		for (int c = READ_OLDEST; c <= READ_COLUMNS; c++)
			nulls[c - 1] = true;
	}
}
