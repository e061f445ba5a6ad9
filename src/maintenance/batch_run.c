/*
 * batch_run.c
 *		Run one batch of a background worker's duty in one transaction.
 *
 * An error of a batch is logged and rolls that batch back.  It ends neither
 * the worker nor its turn; the caller decides when to retry.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lwlock.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "cache/activation.h"
#include "maintenance/batch_run.h"
#include "shared/worker_directory.h"

static bool still_wanted(void);

/*
 * One batch of a duty in a transaction of its own.  False after an error; then
 * *acted is 0.
 */
bool
tq_batch_run(const char *what, TqDuty duty, int limit, int64 *acted)
{
	MemoryContext  context = CurrentMemoryContext;
	volatile int64 done = 0;
	volatile bool  good = true;

	CHECK_FOR_INTERRUPTS();
	PG_TRY();
	{
		StartTransactionCommand();
		if (tq_catalog_present())
		{
			pgstat_report_activity(STATE_RUNNING, what);
			done = duty(limit);
		}
		if (done == 0 || still_wanted())
			CommitTransactionCommand();
		else
		{
			/* a copy has been loaded concurrently: undo what was done to it */
			AbortCurrentTransaction();
			done = 0;
		}
	}
	PG_CATCH();
	{
		/* cancelled by a command that keeps this process out */
		if (tq_worker_directory_kept_out())
			PG_RE_THROW();
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(context);
		errcontext("taskq duty \"%s\"", what);
		EmitErrorReport();
		AbortCurrentTransaction();
		LWLockReleaseAll();
		FlushErrorState();
		good = false;
		done = 0;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	pgstat_report_activity(STATE_IDLE, NULL);
	if (done > 0)
		ereport(LOG, (errmsg("taskq: duty \"%s\" processed " INT64_FORMAT,
							 what, (int64) done)));
	*acted = done;
	return good;
}

/*
 * Checked after a duty: a restore of a copy loads taskq.instance before
 * taskq.task, so if this is still true the duty has seen no rows of a copy.
 */
static bool
still_wanted(void)
{
	bool wanted;

	PushActiveSnapshot(GetTransactionSnapshot());
	wanted = tq_activation_allows_duties();
	PopActiveSnapshot();
	return wanted;
}
