/*
 * health_operation.c
 *		taskq_health(): operations on all tasks that match a filter.
 *
 * The metric operations.stuck has the number of those that are stuck.  The
 * texts of errors are not shown, since they may contain what only readers of
 * the queue may see.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"

#include "base/spi.h"
#include "diag/health_operation.h"
#include "query/metric_set.h"

#define RECENT "interval '1 day'"

static TqStmt stmt_operations = {
	"SELECT count(*) FILTER (WHERE finished_at IS NULL),"
	"       count(*) FILTER (WHERE state = 'paused'),"
	"       (SELECT operation_id FROM taskq.operation"
	"         WHERE " TQ_SQL_OPERATION_STUCK
	"         ORDER BY due_at LIMIT 1),"
	"       (SELECT operation_id FROM taskq.operation"
	"         WHERE finished_at IS NULL AND error IS NOT NULL"
	"         ORDER BY operation_id LIMIT 1),"
	"       (SELECT operation_id FROM taskq.operation"
	"         WHERE state = 'failed' AND finished_at > $2 - " RECENT
	"         ORDER BY operation_id DESC LIMIT 1)"
	"  FROM taskq.operation",
	{TIMESTAMPTZOID, TIMESTAMPTZOID}};

/* Does each operation continue, and has none failed in the last day? */
void
tq_health_operations(TqHealth *health)
{
	Datum args[2] = {TimestampTzGetDatum(health->now),
					 TimestampTzGetDatum(health->wall)};
	int64 live;
	int64 paused;
	int64 stuck;
	int64 trying;
	int64 failed;
	TqSpi spi;

	tq_spi_enter(&spi);
	(void) tq_spi_look(&stmt_operations, args, NULL, 1);
	live = tq_spi_int8(0, 1, 0);
	paused = tq_spi_int8(0, 2, 0);
	stuck = tq_spi_int8(0, 3, 0);
	trying = tq_spi_int8(0, 4, 0);
	failed = tq_spi_int8(0, 5, 0);
	tq_spi_leave(&spi);
	if (stuck != 0 && !health->copy)
		tq_health_fail(
			health,
			"Operation " INT64_FORMAT
			" has not continued for five minutes. See the check \"background_worker\".",
			stuck);
	if (trying != 0)
		tq_health_fail(
			health,
			"The last batch of operation " INT64_FORMAT
			" failed, and is tried again. The column \"error\" of the view taskq.operations says why.",
			trying);
	if (failed != 0)
		tq_health_fail(
			health,
			"Operation " INT64_FORMAT
			" failed within the last day. The column \"error\" of the view taskq.operations says why. Remove the cause, and begin another one with taskq_manage_where().",
			failed);
	if (health->ok)
		tq_health_say(health,
					  INT64_FORMAT " operations have not ended, " INT64_FORMAT
								   " of them are paused.",
					  live, paused);
}
