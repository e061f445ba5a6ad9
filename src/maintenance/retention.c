/*
 * retention.c
 *		Removal of rows that have exceeded their retention.
 *
 * The rotating leaves of the archive contain the finished tasks that are kept
 * for taskq.retention.  A leaf is filled for a fourteenth of that time, then
 * the next empty leaf.  A leaf whose newest row is old enough is truncated:
 * one operation of constant cost, which leaves no dead rows.  The truncation
 * waits at most 100 ms for its lock, since all transactions that finish a task
 * may queue behind it; if it does not get the lock, the next turn tries again.
 * The leaf of taskq.transition with the same number is truncated with it.  A
 * transaction that still inserts into a leaf that is no longer current is
 * harmless: its row makes the leaf young again.
 *
 * archive_keep is emptied row by row, in the order of expires_at.
 *
 * Rows of taskq.large without a task are removed in the order of ids, each
 * sweep continuing where the last one ended.  Rows of workers are removed in
 * forget_worker.c, workflow instances in flow/run/expire.c.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "maintenance/retention.h"
#include "query/finished_count.h"
#include "shared/leaf_change.h"
#include "xact/metric_note.h"

#define LOCK_TIMEOUT_MS 100
#define COUNT_TIMEOUT_MS 1000
#define ROTATIONS 14 /* leaves filled within one retention period */

static TqStmt stmt_expired = {
	"WITH gone AS (DELETE FROM taskq.archive_keep k"
	"   WHERE k.task_id = ANY (ARRAY(SELECT e.task_id"
	"             FROM taskq.archive_keep e WHERE e.expires_at <= $1"
	"              AND NOT " TQ_HOLDS_KEY(
		"e") "            ORDER BY e.expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))"
			 " RETURNING k.task_id, k.large, k.queue_id),"
			 " parts AS (DELETE FROM taskq.large l USING gone g"
			 "   WHERE g.large <> 0 AND l.task_id = g.task_id)"
			 "SELECT queue_id, count(*) FROM gone GROUP BY queue_id",
	{TIMESTAMPTZOID, INT4OID}};

static TqStmt stmt_rotation = {"SELECT since FROM taskq.archive_rotation"};

static TqStmt stmt_rotate = {
	"INSERT INTO taskq.archive_rotation (only_row, bucket, since)"
	" VALUES (true, $1::smallint, $2)"
	" ON CONFLICT (only_row)"
	" DO UPDATE SET bucket = excluded.bucket, since = excluded.since",
	{INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_newest = {
	"SELECT greatest((SELECT max(finished_at) FROM taskq.archive"
	"                  WHERE bucket = $1::smallint),"
	"                (SELECT max(at) FROM taskq.transition"
	"                  WHERE bucket = $1::smallint))",
	{INT4OID}};

static TqStmt stmt_large = {
	"WITH ids AS (SELECT DISTINCT s.task_id FROM"
	"    (SELECT l.task_id FROM taskq.large l WHERE l.task_id > $1"
	"      ORDER BY l.task_id LIMIT $2) s),"
	" lone AS (SELECT s.task_id FROM ids s"
	"   WHERE NOT EXISTS (SELECT FROM taskq.task t"
	"                      WHERE t.task_id = s.task_id)"
	"     AND NOT EXISTS (SELECT FROM taskq.archive a"
	"                      WHERE a.task_id = s.task_id)),"
	" gone AS (DELETE FROM taskq.large l USING lone n"
	"   WHERE l.task_id = n.task_id)"
	"SELECT (SELECT count(*) FROM lone), (SELECT max(task_id) FROM ids),"
	"       (SELECT count(*) FROM ids)",
	{INT8OID, INT4OID}};

static TqStmt stmt_keys = {
	"WITH looked AS MATERIALIZED (SELECT k.queue_id, k.key FROM taskq.key k"
	"   WHERE (k.queue_id, k.key) > ($1, $2)"
	"   ORDER BY k.queue_id, k.key LIMIT $3),"
	" idle AS MATERIALIZED (SELECT l.queue_id, l.key FROM looked l"
	"   WHERE NOT EXISTS (SELECT FROM taskq.task t"
	"                      WHERE t.queue_id = l.queue_id AND t.key = l.key)),"
	" locked AS MATERIALIZED (SELECT k.queue_id, k.key FROM taskq.key k"
	"   JOIN idle i USING (queue_id, key) WHERE k.out_of_order IS NULL"
	"    FOR UPDATE OF k SKIP LOCKED),"
	" gone AS (DELETE FROM taskq.key k USING locked l"
	"   WHERE k.queue_id = l.queue_id AND k.key = l.key"
	"     AND k.out_of_order IS NULL RETURNING 1)"
	"SELECT (SELECT count(*) FROM gone),"
	"       coalesce(n.queue_id, 0), coalesce(n.key, '')"
	"  FROM (SELECT max(l.queue_id) AS queue_id,"
	"               (SELECT m.key FROM looked m"
	"                 ORDER BY m.queue_id DESC, m.key DESC LIMIT 1) AS key"
	"          FROM looked l) n",
	{INT4OID, TEXTOID, INT4OID}};

/* The sweep of taskq.large continues after this id. */
static int64 large_after = 0;

/* The sweep of taskq.key continues after this key. */
static int32 keys_after_queue = 0;
static char  keys_after[TQ_MAX_KEY + 1] = "";

static bool newest_in(int bucket, TimestampTz *newest);
static bool settle_numbers(void);
static bool truncate_leaf(int bucket, TimestampTz before);
static int  next_empty(int bucket);

/* Remove expired tasks from archive_keep, with their large values. */
int64
tq_retention_expired(int limit)
{
	TqSpi  spi;
	Datum  args[2];
	int64  removed = 0;
	uint64 rows;

	/*
	 * conflicts with a change to a key_policy for which dead tasks block
	 * others
	 */
	if (!ConditionalLockRelationOid(tq_catalog()->queue_change,
									RowExclusiveLock))
		return 0;
	PushActiveSnapshot(GetTransactionSnapshot());
	args[0] = TimestampTzGetDatum(tq_clock_wall());
	args[1] = Int32GetDatum(limit);
	tq_spi_enter(&spi);
	rows = tq_spi_run(&stmt_expired, args, NULL, SPI_OK_SELECT, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		int64 count = tq_spi_int8(i, 2, 0);

		tq_metric_note_count(tq_spi_int4(i, 1, 0), TQ_METRIC_CLEANED, count);
		removed += count;
	}
	tq_spi_leave(&spi);
	if (removed > 0)
		tq_leaf_change_note(TQ_LEAF_KEEP);
	PopActiveSnapshot();
	return removed;
}

/*
 * Truncate leaves that are old enough, and switch to the next leaf if the
 * current one has been filled for long enough.  Returns the number of leaves.
 */
int64
tq_retention_rotate(int limit)
{
	int64       span = (int64) tq_guc_retention * USECS_PER_SEC;
	TimestampTz now = tq_clock_wall();
	int         current;
	int         emptied = 0;
	bool        has_row;
	TimestampTz since = 0;
	TimestampTz newest;
	TqSpi       spi;

	PushActiveSnapshot(GetTransactionSnapshot());
	tq_queue_refresh();
	current = tq_queue_bucket();
	for (int bucket = 0; bucket < TQ_LEAVES; bucket++)
	{
		if (bucket == current || !newest_in(bucket, &newest))
			continue;
		if (newest <= now - span && truncate_leaf(bucket, now - span))
			emptied++;
	}

	tq_spi_enter(&spi);
	has_row = tq_spi_look(&stmt_rotation, NULL, NULL, 1) > 0;
	if (has_row)
		since = tq_spi_time(0, 1, 0);

	/*
	 * insert the first row only when the archive contains a task: a database
	 * being restored loads its own row
	 */
	if (has_row ? since <= now - span / ROTATIONS
				: newest_in(current, &newest))
	{
		int   next = has_row ? next_empty(current) : current;
		Datum args[2];

		if (next >= 0)
		{
			args[0] = Int32GetDatum(next);
			args[1] = TimestampTzGetDatum(now);
			tq_spi_run(&stmt_rotate, args, NULL, SPI_OK_INSERT, 0);
			tq_catalog_announce_queue();
		}
	}
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	return emptied;
}

/* Remove large values without a task. */
int64
tq_retention_large(int limit)
{
	TqSpi spi;
	Datum args[2];
	int64 looked;
	int64 last;

	PushActiveSnapshot(GetTransactionSnapshot());
	args[0] = Int64GetDatum(large_after);
	args[1] = Int32GetDatum(limit);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_large, args, NULL, SPI_OK_SELECT, 0);
	last = tq_spi_int8(0, 2, 0);
	looked = tq_spi_int8(0, 3, 0);
	large_after = looked == 0 ? 0 : last;
	if (looked > 0)
		looked = tq_spi_int8(0, 1, 0);
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	return looked;
}

/*
 * Remove keys without live tasks; a session that needs a key again creates it.
 * A key may get a task concurrently, which is harmless: the row is locked, and
 * a row that carries information is kept.
 */
int64
tq_retention_keys(int limit)
{
	TqSpi spi;
	Datum args[3];
	int64 removed;

	PushActiveSnapshot(GetTransactionSnapshot());
	args[0] = Int32GetDatum(keys_after_queue);
	args[1] = CStringGetTextDatum(keys_after);
	args[2] = Int32GetDatum(limit);
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_keys, args, NULL, SPI_OK_SELECT, 0);
	removed = tq_spi_int8(0, 1, 0);
	keys_after_queue = tq_spi_int4(0, 2, 0);
	strlcpy(keys_after, tq_spi_text(&spi, 0, 3), sizeof(keys_after));
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	return removed;
}

/* Did the last sweep of keys end before the last key? */
bool
tq_retention_more_keys(void)
{
	return keys_after_queue != 0;
}

/*
 * Find when the newest task of a leaf finished.  Returns false if the leaf is
 * empty.
 */
static bool
newest_in(int bucket, TimestampTz *newest)
{
	TqSpi spi;
	Datum arg = Int32GetDatum(bucket);
	Datum value;
	bool  isnull;

	tq_spi_enter(&spi);
	tq_spi_look(&stmt_newest, &arg, NULL, 1);
	value = tq_spi_get(0, 1, &isnull);
	if (!isnull)
		*newest = DatumGetTimestampTz(value);
	tq_spi_leave(&spi);
	return !isnull;
}

/*
 * Add the rows to be removed to the metrics, but not while finished tasks are
 * being counted; false if another transaction keeps counting.
 */
static bool
settle_numbers(void)
{
	int64 give_up = tq_clock_monotonic() + COUNT_TIMEOUT_MS * 1000;

	while (!tq_finished_count_settle())
	{
		if (tq_clock_monotonic() >= give_up)
			return false;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(5000);
	}
	return true;
}

/*
 * Truncate a leaf, if its lock is available soon and all its rows are still
 * old.
 */
static bool
truncate_leaf(int bucket, TimestampTz before)
{
	char        text[96];
	char        name[NAMEDATALEN];
	TimestampTz newest;
	int64       give_up;
	Oid         history;
	TqSpi       spi;

	snprintf(name, sizeof(name), "transition_%02d", bucket);
	history = get_relname_relid(name, tq_catalog()->schema);
	if (!OidIsValid(history))
		return false;
	/* before the lock, since other sessions may queue behind it */
	if (!settle_numbers())
		return false;
	give_up = tq_clock_monotonic() + LOCK_TIMEOUT_MS * 1000;
	while (!ConditionalLockRelationOid(tq_catalog()->leaf[bucket],
									   AccessExclusiveLock) ||
		   !ConditionalLockRelationOid(history, AccessExclusiveLock))
	{
		if (tq_clock_monotonic() >= give_up)
			return false;
		CHECK_FOR_INTERRUPTS();
		pg_usleep(5000);
	}
	if (!newest_in(bucket, &newest) || newest > before)
		return false;
	/* the number comes from a loop over the leaves, not from a user */
	snprintf(text, sizeof(text),
			 "TRUNCATE taskq.archive_%02d, taskq.transition_%02d", bucket,
			 bucket);
	tq_spi_enter(&spi);
	if (SPI_execute(text, false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not truncate a leaf of the archive");
	tq_spi_leave(&spi);
	tq_leaf_change_note(bucket);
	tq_finished_count_cleaned(bucket);
	return true;
}

/* Returns the next empty leaf after this leaf, or -1 if there is none. */
static int
next_empty(int bucket)
{
	for (int i = 1; i < TQ_LEAVES; i++)
	{
		int         candidate = (bucket + i) % TQ_LEAVES;
		TimestampTz newest;

		if (!newest_in(candidate, &newest))
			return candidate;
	}
	return -1;
}
