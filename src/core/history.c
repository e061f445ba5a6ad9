/*
 * history.c
 *		What became of tasks, step by step: taskq.history.
 *
 * A queue with the option history writes a row for each change of a task's
 * state, in the transaction that makes it.  Rows go to the leaf with the
 * number of the archive's leaf that is being filled, and are truncated with
 * it (core/retention.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/spi.h"
#include "core/history.h"
#include "core/large.h"
#include "core/queue.h"
#include "core/role.h"

static TqStmt stmt_add = {
	"INSERT INTO taskq.transition (bucket, task_id, queue_id, at, from_state,"
	" to_state, reason, attempt, token, worker_id, role_id, message)"
	" VALUES ($1::smallint, $2, $3, $4, $5::smallint, $6::smallint,"
	" $7::smallint, $8, $9, $10, $11, $12)",
	12,
	{INT4OID, INT8OID, INT4OID, TIMESTAMPTZOID, INT4OID, INT4OID, INT4OID,
	 INT4OID, INT8OID, INT4OID, INT4OID, TEXTOID},
	NULL};

/* The task, as it was written, came from another state; 0: it is new. */
void
tq_history_write(TqTask *task, int from)
{
	Datum args[12];
	bool  nulls[12] = {false};
	TqSpi spi;

	args[0] = Int32GetDatum(tq_queue_bucket());
	args[1] = Int64GetDatum(task->f.task_id);
	args[2] = Int32GetDatum(task->f.queue_id);
	args[3] = TimestampTzGetDatum(tq_clock_wall());
	args[4] = Int32GetDatum(from);
	args[5] = Int32GetDatum(task->f.state);
	args[6] = Int32GetDatum(task->f.reason);
	args[7] = Int32GetDatum(task->f.attempt);
	args[8] = Int64GetDatum(task->f.token);
	args[9] = Int32GetDatum(task->f.worker_id);
	/* a claim waits for nobody, so a role that is new may be left out */
	args[10] = Int32GetDatum(tq_role_intern_now(GetUserId()));
	/* the words of this change, not those that an earlier one left */
	nulls[11] = !task->new_message ||
				!tq_large_get(task, TQ_COL_MESSAGE, &args[11]);
	if (nulls[11])
		args[11] = (Datum) 0;
	tq_spi_enter(&spi);
	tq_spi_run(&stmt_add, args, nulls, SPI_OK_INSERT, 0);
	tq_spi_leave(&spi);
}
