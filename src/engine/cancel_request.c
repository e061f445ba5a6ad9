/*
 * cancel_request.c
 *		Which tasks of a worker were asked to stop, for its heartbeats.
 *
 * A session that requests a stop writes the request into the task's row, and
 * at commit records it in the worker's entry (shared/heartbeat.c).  A
 * heartbeat of a worker without such requests therefore reads no table.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"

#include "base/spi.h"
#include "base/types.h"
#include "engine/cancel_request.h"
#include "shared/heartbeat.h"
#include "shared/running.h"
#include "shared/shmem.h"

static TqStmt stmt_asked_of_all = {
	"SELECT task_id FROM taskq.task"
	" WHERE worker_id = $1 AND state = " TQ_SQL_STATE_RUNNING
	"   AND cancel_requested_at IS NOT NULL"
	" ORDER BY task_id",
	{INT4OID}};

static TqStmt stmt_asked = {"SELECT task_id FROM taskq.task"
							" WHERE task_id = ANY ($1) AND worker_id = $2"
							"   AND state = " TQ_SQL_STATE_RUNNING
							"   AND cancel_requested_at IS NOT NULL"
							" ORDER BY task_id",
							{INT8ARRAYOID, INT4OID}};

static Datum all_tasks_asked(int32 worker_id);

/*
 * Return the worker's tasks that were asked to stop, as bigint[].  If there is
 * shared memory, tables are read only when it says that there may be such a
 * task.
 */
Datum
tq_cancel_request_tasks(int32 worker_id)
{
	TqRunning *running;
	int64     *ids;
	Datum      args[2];
	int        count;
	uint64     rows;
	TqSpi      spi;

	if (!tq_shmem_ready())
		return all_tasks_asked(worker_id);
	if (!tq_heartbeat_asked_to_stop(worker_id, false))
		return tq_spi_int8_array(NULL, 0);
	tq_heartbeat_asked_to_stop(worker_id, true);
	running = palloc(sizeof(TqRunning) * TQ_MAX_CLAIM);
	count = tq_running_of_workers(&worker_id, 1, running, TQ_MAX_CLAIM);
	ids = palloc(sizeof(int64) * (count + 1));
	for (int i = 0; i < count; i++)
		ids[i] = running[i].task_id;
	args[0] = tq_spi_int8_array(ids, count);
	args[1] = Int32GetDatum(worker_id);
	tq_spi_enter(&spi);
	/* keep the given tasks that were asked to stop */
	rows = tq_spi_look(&stmt_asked, args, NULL, 0);
	ids = tq_spi_ids(&spi, rows, 1);
	tq_spi_leave(&spi);
	if (rows > 0 || !tq_running_complete())
		/* report them again until they have stopped */
		tq_heartbeat_ask_to_stop(worker_id);
	pfree(running);
	return tq_spi_int8_array(ids, (int) rows);
}

/* Find the tasks that were asked to stop by reading all tasks. */
static Datum
all_tasks_asked(int32 worker_id)
{
	Datum  arg = Int32GetDatum(worker_id);
	int64 *ids;
	uint64 rows = tq_spi_list(&stmt_asked_of_all, &arg, &ids);

	return tq_spi_int8_array(ids, (int) rows);
}
