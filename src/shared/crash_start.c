/*
 * crash_start.c
 *		Whether the server has recently started after a crash.
 *
 * Work that takes the server down must count as an attempt.  Therefore claims
 * wait for the disk (xact/claim_commit.c) during the first ten minutes after
 * such a start.  The ten minutes begin with the first claim: recovery may take
 * long, and so may the time until workers reconnect.
 *
 * Every start is one after a crash, unless the last shutdown was clean and the
 * server was not a standby then.  A promoted standby usually takes over from a
 * primary that has crashed.
 *
 * A wipe does not concern this part: it is not a hint, but a fact about the
 * start.  If the library is not preloaded nothing is known about the start, so
 * a crash is assumed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <unistd.h>

#include "access/xlog.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "shared/crash_start.h"

#define RECENT (10 * USECS_PER_MINUTE)

typedef struct CrashStart
{
	bool crashed; /* set at the start, then constant */
	/* monotonic time of the first claim after a crash; 0: none yet */
	pg_atomic_uint64 first_claim_at;
} CrashStart;

static CrashStart *start = NULL;

Size
tq_crash_start_size(void)
{
	return MAXALIGN(sizeof(CrashStart));
}

/* Called in the postmaster, before recovery. */
void
tq_crash_start_init(void)
{
	bool found;

	start =
		ShmemInitStruct("taskq crash start", tq_crash_start_size(), &found);
	if (found)
		return;
	start->crashed = tq_crash_start_state() != DB_SHUTDOWNED ||
					 access(STANDBY_SIGNAL_FILE, F_OK) == 0 ||
					 access(RECOVERY_SIGNAL_FILE, F_OK) == 0;
	pg_atomic_init_u64(&start->first_claim_at, 0);
}

/* The state in the server's control file; if it is damaged, DB_STARTUP. */
DBState
tq_crash_start_state(void)
{
	bool             crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	DBState          state = crc_ok ? control->state : DB_STARTUP;

	pfree(control);
	return state;
}

/* Called for a claim: are its ten minutes after a crash not over? */
bool
tq_crash_start_is_recent(void)
{
	uint64 first = 0;
	uint64 now;

	if (start == NULL)
		return true;
	if (!start->crashed)
		return false;
	now = Max(tq_clock_monotonic(), 1);
	if (pg_atomic_compare_exchange_u64(&start->first_claim_at, &first, now))
		return true;
	return now < first + RECENT;
}
