/*
 * finished_count.c
 *		How many finished tasks there are: counted now and then.
 *
 * Ten million rows cannot be counted for each look at taskq.queues, and a
 * number that every finishing call keeps would cost each of them.  So this
 * duty counts the leaves of the archive, one after the other, into
 * taskq.finished_count, and taskq.queues says as of when.  It counts small
 * numbers itself (queue_counts.c).
 *
 * Most leaves do not change for long.  One is counted anew when the server's
 * statistics say that rows were added or removed, or that it was truncated;
 * and once an hour in any case.  Sessions tell their statistics within a
 * minute of their commit: so a leaf that seems unchanged is as it was counted
 * as of a minute ago.
 *
 * What the leaf had that retention truncates is taken from these numbers, for
 * the metrics: it has not been written to for long, so they are of now.
 *
 * Counting takes at most one hundredth of the time: after a turn, the next
 * one waits a hundred times as long as that has taken.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "query/finished_count.h"
#include "xact/metric_note.h"

#define REST 100 /* times as long as counting has taken */

/* Shorter than this: statistics may lag behind what a leaf has. */
#define SHORT_RETENTION (10 * SECS_PER_MINUTE)

/* What the statistics say of a leaf. */
#define SIGN(leaf)                                                            \
	"concat_ws(' ', pg_relation_filenode(" leaf "),"                          \
	" pg_stat_get_tuples_inserted(" leaf "),"                                 \
	" pg_stat_get_tuples_updated(" leaf "),"                                  \
	" pg_stat_get_tuples_deleted(" leaf "))"

/* That, whether it has changed, and whether it was counted long ago. */
static TqStmt stmt_look = {
	"SELECT s.sign, l.sign IS NULL OR l.sign <> s.sign,"
	"       l.counted_at < $2 - interval '1 hour'"
	"  FROM (SELECT " SIGN(
		"$1") " AS sign) s"
			  "  LEFT JOIN taskq.finished_leaf l ON l.bucket = $3::smallint",
	{OIDOID, TIMESTAMPTZOID, INT4OID}};

static TqStmt stmt_forget = {
	"DELETE FROM taskq.finished_count WHERE bucket = $1::smallint", {INT4OID}};

/* Of the leaves only that one is read. */
static TqStmt stmt_count = {
	"INSERT INTO taskq.finished_count (bucket, queue_id, done, dead, total)"
	" SELECT $1::smallint, queue_id,"
	"        count(*) FILTER (WHERE state = " TQ_SQL_STATE_DONE "),"
	"        count(*) FILTER (WHERE state = " TQ_SQL_STATE_DEAD "), count(*)"
	"   FROM taskq.archive WHERE bucket = $1::smallint GROUP BY queue_id",
	{INT4OID}};

static TqStmt stmt_numbers = {
	"SELECT queue_id, sum(done)::bigint, sum(dead)::bigint"
	"  FROM taskq.finished_count GROUP BY queue_id ORDER BY queue_id"};

/* Null when a leaf was never counted. */
static TqStmt stmt_as_of = {
	"SELECT min(CASE WHEN l.sign = " SIGN(
		"c.oid") "                THEN greatest(l.counted_at, $1 - interval '1 min')"
				 "                ELSE l.counted_at END)"
				 "  FROM taskq.finished_leaf l"
				 "  JOIN pg_class c ON c.oid = ($2::oid[])[l.bucket + 1]"
				 "HAVING count(*) = cardinality($2::oid[])",
	{TIMESTAMPTZOID, OIDARRAYOID}};

static TqStmt stmt_counted = {
	"INSERT INTO taskq.finished_leaf (bucket, counted_at, sign)"
	" VALUES ($1::smallint, $2, $3) ON CONFLICT (bucket) DO UPDATE"
	"    SET counted_at = excluded.counted_at, sign = excluded.sign",
	{INT4OID, TIMESTAMPTZOID, TEXTOID}};

/* Not of queues that were dropped. */
static TqStmt stmt_leaf = {
	"SELECT c.queue_id, c.total FROM taskq.finished_count c"
	" WHERE c.bucket = $1::smallint"
	"   AND EXISTS (SELECT FROM taskq.queue q WHERE q.queue_id = c.queue_id)",
	{INT4OID}};

/* Not before this time again; monotonic clock. */
static int64 rest_until = 0;

static bool lock_numbers(void);
static bool look_at(int leaf, TimestampTz now, bool hourly, char **sign);
static void count_leaf(int leaf, TimestampTz now, const char *sign);

/*
 * Count what may have changed, in the current transaction.  It acts on no
 * tasks: returns 0.
 */
int64
tq_finished_count(int limit)
{
	int64 begun = tq_clock_monotonic();

	/* somebody else is counting: no need to do it twice */
	if (begun < rest_until || !lock_numbers())
		return 0;
	PushActiveSnapshot(GetTransactionSnapshot());
	for (int leaf = 0; leaf <= TQ_LEAF_KEEP; leaf++)
	{
		TimestampTz now = tq_clock_wall();
		char       *sign;

		CHECK_FOR_INTERRUPTS();
		if (look_at(leaf, now, true, &sign))
			count_leaf(leaf, now, sign);
	}
	PopActiveSnapshot();
	rest_until = tq_clock_monotonic() + (tq_clock_monotonic() - begun) * REST;
	return 0;
}

/*
 * See to it that the numbers of a leaf to which nobody writes any more are
 * right; false when that is not possible now.
 */
bool
tq_finished_count_settle(int leaf)
{
	TimestampTz now = tq_clock_wall();
	char       *sign;

	if (!lock_numbers())
		return false;
	if (look_at(leaf, now, false, &sign) || tq_guc_retention < SHORT_RETENTION)
		count_leaf(leaf, now, sign);
	return true;
}

/* The tasks of a leaf are removed, all of them. */
void
tq_finished_count_cleaned(int leaf)
{
	Datum  arg = Int32GetDatum(leaf);
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_run(&stmt_leaf, &arg, NULL, SPI_OK_SELECT, 0);
	for (uint64 i = 0; i < rows; i++)
		tq_metric_note_count(tq_spi_int4(i, 1, 0), TQ_METRIC_CLEANED,
							 tq_spi_int8(i, 2, 0));
	tq_spi_leave(&spi);
}

/* To the end of the transaction; false when somebody else counts. */
static bool
lock_numbers(void)
{
	Oid table = get_relname_relid("finished_leaf", tq_catalog()->schema);

	return OidIsValid(table) &&
		   ConditionalLockRelationOid(table, ShareUpdateExclusiveLock);
}

/* Must the leaf be counted? */
static bool
look_at(int leaf, TimestampTz now, bool hourly, char **sign)
{
	Datum args[3];
	bool  changed;
	TqSpi spi;

	args[0] = ObjectIdGetDatum(tq_catalog()->leaf[leaf]);
	args[1] = TimestampTzGetDatum(now);
	args[2] = Int32GetDatum(leaf);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_look, args, NULL, SPI_OK_SELECT, 1);
	*sign = tq_spi_text(&spi, 0, 1);
	changed = tq_spi_bool(0, 2) || (hourly && tq_spi_bool(0, 3));
	tq_spi_leave(&spi);
	return changed;
}

static void
count_leaf(int leaf, TimestampTz now, const char *sign)
{
	Datum args[3];
	TqSpi spi;

	args[0] = Int32GetDatum(leaf);
	args[1] = TimestampTzGetDatum(now);
	args[2] = CStringGetTextDatum(sign);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_forget, args, NULL, SPI_OK_DELETE, 0);
	tq_spi_run(&stmt_count, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_run(&stmt_counted, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_leave(&spi);
}

/*
 * The numbers as they were counted last, by queue; *as_of is 0 when they are
 * not known.
 */
TqFinished *
tq_finished_count_read(int *count, TimestampTz *as_of)
{
	Datum       leaves[TQ_LEAF_KEEP + 1];
	Datum       args[2];
	TqFinished *numbers;
	uint64      rows;
	TqSpi       spi;

	for (int leaf = 0; leaf <= TQ_LEAF_KEEP; leaf++)
		leaves[leaf] = ObjectIdGetDatum(tq_catalog()->leaf[leaf]);
	args[0] = TimestampTzGetDatum(tq_clock_wall());
	args[1] = PointerGetDatum(construct_array(
		leaves, lengthof(leaves), OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	tq_spi_enter(&spi);
	*as_of = 0;
	if (tq_spi_look(&stmt_as_of, args, NULL, 1) > 0)
		*as_of = tq_spi_time(0, 1, 0);
	rows = tq_spi_look(&stmt_numbers, NULL, NULL, 0);
	numbers = MemoryContextAlloc(spi.caller, sizeof(TqFinished) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		numbers[i].queue_id = tq_spi_int4(i, 1, 0);
		numbers[i].done = tq_spi_int8(i, 2, 0);
		numbers[i].dead = tq_spi_int8(i, 3, 0);
	}
	*count = (int) rows;
	tq_spi_leave(&spi);
	return numbers;
}
