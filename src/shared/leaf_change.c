/*
 * leaf_change.c
 *		How often a leaf of the archive was changed.
 *
 * A transaction that adds rows to a leaf, or removes some, raises the leaf's
 * number when it has the lock that it keeps until it ends.  So a leaf has not
 * changed between an earlier and a later snapshot if two conditions hold
 * (query/finished_count.c): its number is the same when it is read before the
 * earlier and after the later snapshot, and no transaction held that lock
 * between the first reading and the earlier snapshot.
 *
 * Databases share the numbers by chance, which only costs a count.  Numbers
 * begin at random, so that a number from before a start or a wipe, or from
 * another server, is not taken for a current number.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"

#include "base/catalog.h"
#include "shared/leaf_change.h"

#define DATABASES 64
#define LEAVES (TQ_LEAVES + 1)

static pg_atomic_uint64 *numbers = NULL;

static pg_atomic_uint64 *number_of(int leaf);
static uint64            draw(void);

Size
tq_leaf_change_size(void)
{
	return MAXALIGN(sizeof(pg_atomic_uint64) * DATABASES * LEAVES);
}

void
tq_leaf_change_init(void)
{
	bool found;

	numbers =
		ShmemInitStruct("taskq leaf changes", tq_leaf_change_size(), &found);
	for (int i = 0; !found && i < DATABASES * LEAVES; i++)
		pg_atomic_init_u64(&numbers[i], draw());
}

void
tq_leaf_change_wipe(void)
{
	for (int i = 0; i < DATABASES * LEAVES; i++)
		pg_atomic_write_u64(&numbers[i], draw());
}

/* This transaction changes a leaf, whose lock it has. */
void
tq_leaf_change_note(int leaf)
{
	if (numbers != NULL)
		pg_atomic_fetch_add_u64(number_of(leaf), 1);
}

/* The same with all leaves whose bit is set. */
void
tq_leaf_change_note_all(int32 leaves)
{
	for (int leaf = 0; leaf < LEAVES; leaf++)
	{
		if ((leaves & (1 << leaf)) != 0)
			tq_leaf_change_note(leaf);
	}
}

/* 0 when it is not known. */
uint64
tq_leaf_change_count(int leaf)
{
	if (numbers == NULL)
		return 0;
	/* neither before nor after what surrounds it */
	return pg_atomic_fetch_add_u64(number_of(leaf), 0);
}

static pg_atomic_uint64 *
number_of(int leaf)
{
	Assert(leaf >= 0 && leaf < LEAVES);
	return &numbers[(MyDatabaseId % DATABASES) * LEAVES + leaf];
}

static uint64
draw(void)
{
	uint64 drawn;

	if (!pg_strong_random(&drawn, sizeof(drawn)))
		drawn = pg_prng_uint64(&pg_global_prng_state);
	return drawn;
}
