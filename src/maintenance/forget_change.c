/*
 * forget_change.c
 *		Removal of old rows of the log of changes.
 *
 * A row is kept for taskq.retention, and at least for 30 days, but only while
 * it is one of the newest KEPT_ROWS.  Rows are counted, since numbers also
 * rise with transactions that roll back.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "maintenance/forget_change.h"

#define KEPT_ROWS 100000
#define KEPT_TIME (30 * USECS_PER_DAY)

static TqStmt stmt_forget = {
	"DELETE FROM taskq.change_log WHERE change_id = ANY (ARRAY("
	" SELECT c.change_id FROM taskq.change_log c"
	"  WHERE c.at < $1"
	"     OR c.change_id <= (SELECT n.change_id FROM taskq.change_log n"
	"                         ORDER BY n.change_id DESC OFFSET $2 LIMIT 1)"
	"  ORDER BY c.change_id LIMIT $3 FOR UPDATE SKIP LOCKED))",
	{TIMESTAMPTZOID, INT4OID, INT4OID}};

int64
tq_forget_change_batch(int limit)
{
	int64 kept = Max((int64) tq_guc_retention * USECS_PER_SEC, KEPT_TIME);
	Datum args[3];
	int64 removed;

	PushActiveSnapshot(GetTransactionSnapshot());
	args[0] = TimestampTzGetDatum(tq_clock_wall() - kept);
	args[1] = Int32GetDatum(KEPT_ROWS);
	args[2] = Int32GetDatum(limit);
	removed = (int64) tq_spi_execute(&stmt_forget, args, NULL, SPI_OK_DELETE);
	PopActiveSnapshot();
	return removed;
}
