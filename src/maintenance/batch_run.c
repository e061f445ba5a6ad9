/*
 * batch_run.c
 *		What the background worker tries: one batch, one transaction.
 *
 * An error of a batch is logged and rolls that batch back.  It ends neither
 * the worker nor its turn; the caller decides when to try again.
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
 * One batch of a duty in a transaction of its own.  False: it met an error,
 * and *acted is 0.
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
			/* A copy has been loaded meanwhile: this was not ours to do. */
			AbortCurrentTransaction();
			done = 0;
		}
	}
	PG_CATCH();
	{
		/* Cancelled by a command that wants this process out. */
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
		ereport(LOG, (errmsg("taskq: %s: acted on " INT64_FORMAT, what,
							 (int64) done)));
	*acted = done;
	return good;
}

/*
 * Asked after a duty: whoever restores a copy loads taskq.instance before
 * taskq.task, so what the duty has seen is ours if this is true now.
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
