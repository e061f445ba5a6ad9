/*
 * taskq.c
 *		The library's magic block and initialization.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/guc.h"
#include "cache/role.h"
#include "command/dead_letter.h"
#include "engine/own_worker.h"
#include "flow/advance/advance.h"
#include "flow/definition/template.h"
#include "flow/run/state_hook.h"
#include "flow/view/claim_columns.h"
#include "flow/view/explain_step.h"
#include "keyed/key_insertion.h"
#include "keyed/key_queue.h"
#include "process/process.h"
#include "schedule/cron_schedule.h"
#include "shared/shmem.h"
#include "store/index_entry.h"
#include "xact/xact.h"

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

void
_PG_init(void)
{
	tq_guc_init();
#ifdef TASKQ_DEBUG
	tq_debug_init();
#endif
	tq_clock_init();
	tq_catalog_init();
	tq_index_entry_init();
	/* end-of-transaction callbacks run in the reverse order */
	tq_process_init();
	tq_xact_init();
	tq_own_worker_init();
	tq_role_init();
	tq_dead_letter_init();
	tq_key_queue_init();
	tq_key_insertion_init();
	tq_template_init();
	tq_state_hook_init();
	tq_advance_init();
	tq_explain_step_init();
	tq_claim_columns_init();
	tq_cron_schedule_init();
	tq_shmem_init();
	MarkGUCPrefixReserved("taskq");
}
