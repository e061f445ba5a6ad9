/*
 * batch_run.c
 *		Run one batch of a background worker's duty in one transaction.
 *
 * An error in a batch is logged, and the transaction of the batch is rolled
 * back.  The background worker continues with its other duties; the caller
 * decides when to retry this one.
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

/* Set by a batch whose end is not logged. */
static bool quiet = false;

static bool still_wanted(void);

/*
 * Run one batch of a duty in its own transaction and set *acted to the number
 * of rows that it processed.  Returns false, with *acted 0, after an error.
 */
bool
tq_batch_run(const char *what, TqDuty duty, int limit, int64 *acted)
{
	MemoryContext  context = CurrentMemoryContext;
	volatile int64 done = 0;
	volatile bool  good = true;

	CHECK_FOR_INTERRUPTS();
	quiet = false;
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
			/* a restore has loaded a copy: undo what was done to its rows */
			AbortCurrentTransaction();
			done = 0;
		}
	}
	PG_CATCH();
	{
		/*
		 * A command that keeps this process out of the database cancelled it.
		 */
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
	if (done > 0 && !quiet)
		ereport(LOG, (errmsg("taskq: duty \"%s\" processed " INT64_FORMAT,
							 what, (int64) done)));
	*acted = done;
	return good;
}

/*
 * Called by a batch that is one of thousands of the same work, whose beginning
 * and end are recorded otherwise.
 */
void
tq_batch_run_quietly(void)
{
	quiet = true;
}

/*
 * Are duties still allowed?  This is checked after a duty.  A restore loads
 * taskq.instance before taskq.task, so if duties are still allowed, the duty
 * has seen no rows of a restored copy.
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
