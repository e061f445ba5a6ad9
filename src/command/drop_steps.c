/*
 * drop_steps.c
 *		Workflow steps in a queue that is dropped.
 *
 * Steps are not deleted like other tasks, because their instances need them.
 * Live steps are cancelled by tq_state_enter, which may end their instances;
 * all steps remain until their instances are removed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "storage/proc.h"
#include "utils/guc.h"

#include "base/spi.h"
#include "command/drop_steps.h"
#include "command/manage.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/step.h"
#include "store/row.h"
#include "store/snapshot.h"

static TqStmt stmt_steps = {
	"SELECT task_id FROM taskq.task"
	" WHERE queue_id = $1 AND workflow_id IS NOT NULL ORDER BY task_id",
	{INT4OID}};

static void cancel(TqCall *call, int64 task_id);
static int  wait_no_longer(int patience_ms);

/*
 * Cancel the live steps of a queue, with all consequences.  Raises 55P03 if
 * another transaction would have to be waited for longer than patience_ms.
 */
void
tq_drop_steps(TqCall *call, int32 queue_id, int patience_ms)
{
	int                 level = wait_no_longer(patience_ms);
	Datum               arg = Int32GetDatum(queue_id);
	int64              *ids;
	TqInstanceLockKind *kinds;
	uint64              rows;

	rows = tq_spi_list(&stmt_steps, &arg, &ids);
	kinds = palloc_extended(sizeof(TqInstanceLockKind) * (rows + 1),
							MCXT_ALLOC_HUGE);
	for (uint64 i = 0; i < rows; i++)
		kinds[i] = TQ_FLOW_LOCK_ALONE;
	tq_step_hooks.moving_all(call, ids, NULL, kinds, (int) rows, 0);
	tq_key_lock_names(call, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		cancel(call, ids[i]);
	}
	tq_call_advance(call);
	AtEOXact_GUC(true, level);
	pfree(kinds);
	pfree(ids);
}

/* The step may have ended in the meantime. */
static void
cancel(TqCall *call, int64 task_id)
{
	TqTask   task;
	TqQueue *queue;
	TqWish   wish = {TQ_ACTION_CANCEL};

	wish.message = "its queue was dropped";
	wish.force = true;
	do
	{
		tq_snapshot_renew();
		if (!tq_row_find_shown(call, task_id, &task) ||
			(queue = tq_queue_by_id(task.f.queue_id)) == NULL)
			return;
	} while (!tq_manage_try(call, queue, &task, &wish));
}

/* Effective until AtEOXact_GUC is called with the returned level. */
static int
wait_no_longer(int patience_ms)
{
	int  level = NewGUCNestLevel();
	char limit[16];

	if (LockTimeout > 0 && LockTimeout <= patience_ms)
		return level;
	snprintf(limit, sizeof(limit), "%d", patience_ms);
	(void) set_config_option("lock_timeout", limit, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	return level;
}
