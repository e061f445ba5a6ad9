/*
 * finished_count.c
 *		Numbers of finished tasks, counted from time to time.
 *
 * Ten million rows cannot be counted for each query of taskq.queues, and a
 * number updated by every finishing call would make each call more expensive.
 * So this duty counts the leaves of the archive into taskq.finished_count, and
 * taskq.queues shows the time of the count. taskq.queues counts small numbers
 * itself (queue_counts.c).
 *
 * All numbers are counted with one snapshot, which is used for all leaves that
 * may have changed.  Most leaves do not change for a long time.  A count of a
 * leaf is still valid if no transaction has changed the leaf since
 * (shared/leaf_change.c), which is checked again when the snapshot is taken.
 * The server's statistics report changes made by other means than the
 * extension, and without preloading all changes; but they lag behind.  They
 * can cause a count, but do not prove that a leaf has not changed: without
 * preloading all leaves are counted if any may have changed.
 *
 * A leaf that a transaction was changing when the snapshot was taken is
 * counted again in the next turn.
 *
 * When retention truncates a leaf, its tasks are subtracted from these
 * numbers, for the metrics, after the changed leaves have been counted.
 *
 * Counting takes at most one hundredth of the time: after a turn, the next one
 * waits a hundred times as long as the turn took.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/spi.h"
#include "query/finished_count.h"
#include "shared/leaf_change.h"
#include "xact/metric_note.h"

#define REST 100 /* multiple of the time that counting took */

/* The state of a leaf in the statistics. */
#define SIGN(leaf)                                                            \
	"concat_ws(' ', pg_relation_filenode(" leaf "),"                          \
	" pg_stat_get_tuples_inserted(" leaf "),"                                 \
	" pg_stat_get_tuples_updated(" leaf "),"                                  \
	" pg_stat_get_tuples_deleted(" leaf "))"

/*
 * Read the current state of a leaf, and whether it differs from that at the
 * last count, or the last count is too old.
 */
static TqStmt stmt_look = {
	"SELECT s.sign, l.sign IS DISTINCT FROM s.sign"
	"            OR ($3 AND l.counted_at < $4 - interval '1 hour')"
	"  FROM (SELECT concat($2, ' ', " SIGN(
		"$1") ") AS sign) s"
			  "  LEFT JOIN taskq.finished_leaf l ON l.bucket = $5::smallint",
	{OIDOID, TEXTOID, BOOLOID, TIMESTAMPTZOID, INT4OID}};

static TqStmt stmt_forget = {
	"DELETE FROM taskq.finished_count WHERE bucket = $1::smallint", {INT4OID}};

/* Reads only that leaf. */
static TqStmt stmt_count = {
	"SELECT coalesce(array_agg(queue_id), '{}'),"
	"       coalesce(array_agg(done), '{}'), coalesce(array_agg(dead), '{}'),"
	"       coalesce(array_agg(total), '{}'),"
	"       coalesce(array_agg(oldest_dead), '{}')"
	"  FROM (SELECT queue_id,"
	"               count(*) FILTER (WHERE state = " TQ_SQL_STATE_DONE ")"
	"                 AS done,"
	"               count(*) FILTER (WHERE state = " TQ_SQL_STATE_DEAD ")"
	"                 AS dead, count(*) AS total,"
	"               min(finished_at)"
	"                 FILTER (WHERE state = " TQ_SQL_STATE_DEAD ")"
	"                 AS oldest_dead"
	"          FROM taskq.archive WHERE bucket = $1::smallint"
	"         GROUP BY queue_id) c",
	{INT4OID}};

static TqStmt stmt_keep = {
	"INSERT INTO taskq.finished_count"
	"   (bucket, queue_id, done, dead, total, oldest_dead)"
	" SELECT $1::smallint, n.* FROM unnest($2, $3, $4, $5, $6) n",
	{INT4OID, INT4ARRAYOID, INT8ARRAYOID, INT8ARRAYOID, INT8ARRAYOID,
	 TIMESTAMPTZARRAYOID}};

static TqStmt stmt_numbers = {
	"SELECT queue_id, sum(done)::bigint, sum(dead)::bigint, min(oldest_dead)"
	"  FROM taskq.finished_count GROUP BY queue_id ORDER BY queue_id"};

/* Null if any leaf was never counted. */
static TqStmt stmt_as_of = {"SELECT CASE WHEN count(*) = $1"
							"            THEN max(counted_at) END"
							"  FROM taskq.finished_leaf",
							{INT4OID}};

static TqStmt stmt_counted = {
	"INSERT INTO taskq.finished_leaf (bucket, counted_at, sign)"
	" VALUES ($1::smallint, $2, $3) ON CONFLICT (bucket) DO UPDATE"
	"    SET counted_at = excluded.counted_at, sign = excluded.sign",
	{INT4OID, TIMESTAMPTZOID, TEXTOID}};

/* Excludes queues that were dropped. */
static TqStmt stmt_leaf = {
	"SELECT c.queue_id, c.total FROM taskq.finished_count c"
	" WHERE c.bucket = $1::smallint"
	"   AND EXISTS (SELECT FROM taskq.queue q WHERE q.queue_id = c.queue_id)",
	{INT4OID}};

/* What a count knows about a leaf. */
typedef struct Leaf
{
	uint64 changes; /* 0: unknown */
	char  *sign;    /* empty: must be counted again */
	bool   changed; /* since it was counted */
} Leaf;

/* Do not count before this time; monotonic clock. */
static int64 rest_until = 0;

static bool        lock_numbers(void);
static void        count_changed(void);
static bool        is_behind(void);
static void        look_at(int number, Leaf *leaf);
static bool        is_being_changed(int number);
static void        count_leaf(int number, TimestampTz now, const Leaf *leaf);
static TimestampTz read_as_of(void);

/*
 * Count the leaves that may have changed, in the current transaction.  Returns
 * 0, since it changes no tasks.
 */
int64
tq_finished_count(int limit)
{
	int64 begun = tq_clock_monotonic();

	/* another session is counting */
	if (begun < rest_until || !lock_numbers())
		return 0;
	PushActiveSnapshot(GetTransactionSnapshot());
	count_changed();
	PopActiveSnapshot();
	rest_until = tq_clock_monotonic() + (tq_clock_monotonic() - begun) * REST;
	return 0;
}

/*
 * Call before a leaf is truncated: keep other sessions from counting, since a
 * snapshot does not see the earlier rows, and count for the metrics.  Returns
 * false if another transaction is counting.
 */
bool
tq_finished_count_settle(void)
{
	if (!lock_numbers())
		return false;
	if (tq_metric_ready())
		count_changed();
	return true;
}

/* All tasks of a leaf are removed. */
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

/*
 * Lock until the end of the transaction; return false if another session is
 * counting.
 */
static bool
lock_numbers(void)
{
	Oid table = get_relname_relid("finished_leaf", tq_catalog()->schema);

	return OidIsValid(table) &&
		   ConditionalLockRelationOid(table, ShareUpdateExclusiveLock);
}

/* Count the leaves that may have changed, all with the current snapshot. */
static void
count_changed(void)
{
	Leaf        leaves[TQ_LEAF_KEEP + 1];
	bool        changed = false;
	TimestampTz now;

	if (IsolationUsesXactSnapshot() && is_behind())
		return;
	for (int i = 0; i < lengthof(leaves); i++)
	{
		look_at(i, &leaves[i]);
		changed |= leaves[i].changed;
	}
	if (!changed)
		return;
	PushCopiedSnapshot(GetLatestSnapshot());
	now = tq_clock_wall();
	/* exclude this transaction's own changes, which are not committed then */
	GetActiveSnapshot()->curcid = FirstCommandId;
	for (int i = 0; i < lengthof(leaves); i++)
	{
		Leaf *leaf = &leaves[i];

		CHECK_FOR_INTERRUPTS();
		if (!leaf->changed)
		{
			if (leaf->changes != 0 && tq_leaf_change_count(i) == leaf->changes)
				continue;
			if (leaf->changes != 0)
				leaf->sign = "";
		}
		count_leaf(i, now, leaf);
	}
	PopActiveSnapshot();
}

/* Has another transaction counted since the snapshot of this one? */
static bool
is_behind(void)
{
	TimestampTz seen = read_as_of();
	TimestampTz last;

	PushActiveSnapshot(GetLatestSnapshot());
	last = read_as_of();
	PopActiveSnapshot();
	return seen != last;
}

/* Call before taking the snapshot for counting: see leaf_change.c. */
static void
look_at(int number, Leaf *leaf)
{
	Datum args[5];
	TqSpi spi;

	leaf->changes = tq_leaf_change_count(number);
	args[0] = ObjectIdGetDatum(tq_catalog()->leaf[number]);
	args[1] = CStringGetTextDatum(psprintf(UINT64_FORMAT, leaf->changes));
	args[2] = BoolGetDatum(leaf->changes == 0);
	args[3] = TimestampTzGetDatum(tq_clock_wall());
	args[4] = Int32GetDatum(number);
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_look, args, NULL, 1);
	leaf->sign = tq_spi_text(&spi, 0, 1);
	leaf->changed = tq_spi_bool(0, 2);
	tq_spi_leave(&spi);
	if (leaf->changed && is_being_changed(number))
		leaf->sign = "";
}

/* Is an open transaction changing it: this one, another, or a prepared one? */
static bool
is_being_changed(int number)
{
	LOCKTAG tag;
	int     count;

	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return true;
	SET_LOCKTAG_RELATION(tag, MyDatabaseId, tq_catalog()->leaf[number]);
	(void) GetLockConflicts(&tag, ShareLock, &count);
	return count > 0;
}

/* Count a leaf as the active snapshot sees it. */
static void
count_leaf(int number, TimestampTz now, const Leaf *leaf)
{
	Datum args[6];
	TqSpi spi;

	tq_spi_enter(&spi);
	args[0] = Int32GetDatum(number);
	tq_spi_read(&stmt_count, args, NULL, 1);
	for (int i = 1; i < lengthof(args); i++)
		args[i] = tq_spi_array(&spi, 0, i);
	tq_spi_run(&stmt_forget, args, NULL, SPI_OK_DELETE, 0);
	tq_spi_run(&stmt_keep, args, NULL, SPI_OK_INSERT, 0);
	args[1] = TimestampTzGetDatum(now);
	args[2] = CStringGetTextDatum(leaf->sign);
	tq_spi_run(&stmt_counted, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_leave(&spi);
}

/*
 * Return the time for which the numbers seen by the active snapshot are
 * correct, or 0 if there is no such time.
 */
static TimestampTz
read_as_of(void)
{
	Datum       arg = Int32GetDatum(TQ_LEAF_KEEP + 1);
	TimestampTz as_of;
	TqSpi       spi;

	tq_spi_enter(&spi);
	tq_spi_read(&stmt_as_of, &arg, NULL, 1);
	as_of = tq_spi_time(0, 1, 0);
	tq_spi_leave(&spi);
	return as_of;
}

/*
 * Read the numbers of the last count, by queue; *as_of is 0 if they are
 * unknown.
 */
TqFinished *
tq_finished_count_read(int *count, TimestampTz *as_of)
{
	TqFinished *numbers;
	uint64      rows;
	TqSpi       spi;

	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	*as_of = read_as_of();
	tq_spi_enter(&spi);
	rows = tq_spi_read(&stmt_numbers, NULL, NULL, 0);
	numbers = MemoryContextAlloc(spi.caller, sizeof(TqFinished) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		numbers[i].queue_id = tq_spi_int4(i, 1, 0);
		numbers[i].done = tq_spi_int8(i, 2, 0);
		numbers[i].dead = tq_spi_int8(i, 3, 0);
		numbers[i].oldest_dead = tq_spi_time(i, 4, DT_NOEND);
	}
	*count = (int) rows;
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	return numbers;
}
