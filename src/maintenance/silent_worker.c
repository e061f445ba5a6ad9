/*
 * silent_worker.c
 *		Declares workers dead that have sent no heartbeat for too long.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/snapmgr.h"

#include "base/clock.h"
#include "base/code.h"
#include "base/guc.h"
#include "base/spi.h"
#include "command/registration.h"
#include "engine/liveness.h"
#include "maintenance/silent_worker.h"
#include "shared/heartbeat.h"
#include "shared/shmem.h"

static TqStmt stmt_active = {
	"SELECT worker_id FROM taskq.worker WHERE state = " TQ_SQL_WORKER_ACTIVE};

static int64 end_by_rows(int limit);

/* Returns the number of workers that are now dead. */
int64
tq_silent_worker_end(int limit)
{
	TqHeartbeat *slots;
	int          slot_count;
	int64        now = tq_clock_monotonic();
	int64        threshold = tq_guc_usecs(tq_guc_dead_threshold);
	uint64       rows;
	int32       *active;
	int64        acted = 0;

	if (!tq_shmem_ready())
		return end_by_rows(limit);
	PushActiveSnapshot(GetTransactionSnapshot());
	rows = tq_spi_list_int4(&stmt_active, NULL, &active);

	/* after a start or a wipe, give every worker a full threshold of time */
	for (uint64 i = 0; i < rows; i++)
	{
		int64 last_seen;

		if (!tq_heartbeat_find(active[i], &last_seen))
			(void) tq_liveness_touch(active[i]);
	}
	slots = palloc(sizeof(TqHeartbeat) * tq_guc_max_workers);
	slot_count = tq_heartbeat_list(slots, tq_guc_max_workers);
	for (int i = 0; i < slot_count && acted < limit; i++)
	{
		if (now - slots[i].last_seen < threshold)
			continue;
		if (tq_registration_end_if_free(slots[i].worker_id, TQ_WORKER_DEAD))
			acted++;
		/* otherwise a transaction is changing the row; do not wait for it */
		else if (!tq_liveness_is_registered(slots[i].worker_id))
			tq_heartbeat_remove(slots[i].worker_id);
	}
	PopActiveSnapshot();
	pfree(slots);
	return acted;
}

/* Without shared memory, by the rows of workers. */
static int64
end_by_rows(int limit)
{
	int32 *silent = palloc(sizeof(int32) * limit);
	int    count;
	int64  acted = 0;

	PushActiveSnapshot(GetTransactionSnapshot());
	count =
		tq_liveness_silent(tq_guc_usecs(tq_guc_dead_threshold), silent, limit);
	for (int i = 0; i < count; i++)
	{
		if (tq_registration_end_if_free(silent[i], TQ_WORKER_DEAD))
			acted++;
	}
	PopActiveSnapshot();
	pfree(silent);
	return acted;
}
