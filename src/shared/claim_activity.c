/*
 * claim_activity.c
 *		A mark for the background worker that claims are made.
 *
 * The audit of structures that serve claims runs only while there are claims.
 * Therefore a claim sets a mark, and wakes the worker if it is the first claim
 * since the worker cleared the mark.  Databases may share a mark by chance,
 * which is harmless, and so is a wipe.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#include "shared/claim_activity.h"
#include "shared/worker_directory.h"

#define MARKS 64

static pg_atomic_uint32 *marks = NULL;

static pg_atomic_uint32 *mine(void);

Size
tq_claim_activity_size(void)
{
	return MAXALIGN(sizeof(pg_atomic_uint32) * MARKS);
}

void
tq_claim_activity_init(void)
{
	bool found;

	marks = ShmemInitStruct("taskq claim activity", tq_claim_activity_size(),
							&found);
	for (int i = 0; !found && i < MARKS; i++)
		pg_atomic_init_u32(&marks[i], 0);
}

/* Note a claim in this database. */
void
tq_claim_activity_note(void)
{
	if (marks != NULL && pg_atomic_read_u32(mine()) == 0 &&
		pg_atomic_exchange_u32(mine(), 1) == 0)
		tq_worker_directory_wake();
}

/* Has there been a claim since the last call? */
bool
tq_claim_activity_take(void)
{
	return marks != NULL && pg_atomic_exchange_u32(mine(), 0) != 0;
}

/*
 * Like the function above, but the mark stays: it is cleared from time to time
 * by the audit.
 */
bool
tq_claim_activity_seen(void)
{
	return marks != NULL && pg_atomic_read_u32(mine()) != 0;
}

static pg_atomic_uint32 *
mine(void)
{
	return &marks[MyDatabaseId % MARKS];
}
