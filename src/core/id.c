/*
 * id.c
 *		Task ids and fencing tokens that are never given out twice.
 *
 * Servers that share a history, such as a promoted standby and a primary
 * that lives on, are on different timelines.  The first id on a new timeline
 * jumps 2^24 above the last one known, which is more than the old primary
 * will give out before it is stopped; and a token is at least
 * (timeline - 1) * 2^20 + 1.
 *
 * taskq.timeline_seq holds the timeline of the last jump, as a sequence,
 * because both must move on without regard to what becomes of the
 * transaction.  The jump happens under a lock on that sequence as an object
 * (not as a relation: setval holds that to the end), released at once; of
 * its two steps the jump comes first, so a crash in between can only jump
 * twice.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "storage/lmgr.h"

#include "base/catalog.h"
#include "base/guc.h"
#include "base/spi.h"
#include "core/id.h"

#define SEQUENCE_BITS 43
#define ID_JUMP (INT64CONST(1) << 24)
#define TOKEN_SPAN (INT64CONST(1) << 20)

/* Timeline and sequence for which this session knows that all is done. */
static TimeLineID settled_timeline = 0;
static Oid        settled_sequence = InvalidOid;

static TqStmt stmt_timeline = {
	"SELECT last_value FROM taskq.timeline_seq", 0, {0}, NULL};

static TqStmt stmt_jump = {
	"SELECT setval('taskq.task_id_seq', last_value + $1)"
	"  FROM taskq.task_id_seq",
	1,
	{INT8OID},
	NULL};

static TqStmt stmt_settle = {
	"SELECT setval('taskq.timeline_seq', $1)", 1, {INT8OID}, NULL};

static void settle(TimeLineID timeline, Oid sequence);

int64
tq_id_next(void)
{
	const TqCatalog *catalog = tq_catalog();
	TimeLineID       timeline = GetWALInsertionTimeLine();

	if (timeline != settled_timeline ||
		catalog->timeline_seq != settled_sequence)
		settle(timeline, catalog->timeline_seq);
	return ((int64) tq_guc_node_id << SEQUENCE_BITS) |
		   nextval_internal(catalog->task_id_seq, false);
}

/* The ids that this server may give out. */
void
tq_id_range(Datum *lowest, Datum *highest)
{
	int64 base = (int64) tq_guc_node_id << SEQUENCE_BITS;

	*lowest = Int64GetDatum(base);
	*highest = Int64GetDatum(base + (INT64CONST(1) << SEQUENCE_BITS) - 1);
}

/* The token of the next claim of a task. */
int64
tq_id_next_token(int64 previous)
{
	int64 lowest = (int64) (GetWALInsertionTimeLine() - 1) * TOKEN_SPAN + 1;

	return Max(previous + 1, lowest);
}

static void
settle(TimeLineID timeline, Oid sequence)
{
	TqSpi spi;
	Datum arg;
	int64 known;

	LockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_timeline, NULL, NULL, 1);
	known = tq_spi_int8(0, 1, 0);
	if (known != (int64) timeline)
	{
		if (known != 0)
		{
			arg = Int64GetDatum(ID_JUMP);
			tq_spi_run(&stmt_jump, &arg, NULL, SPI_OK_SELECT, 0);
		}
		arg = Int64GetDatum((int64) timeline);
		tq_spi_run(&stmt_settle, &arg, NULL, SPI_OK_SELECT, 0);
	}
	tq_spi_leave(&spi);
	UnlockDatabaseObject(RelationRelationId, sequence, 0, ExclusiveLock);
	settled_timeline = timeline;
	settled_sequence = sequence;
}
