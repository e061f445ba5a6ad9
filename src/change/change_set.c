/*
 * change_set.c
 *		The entries of a change: walked, and found by task or name.
 *
 * Lists of entries are sorted by id (tq_change_compare_ids), those of one
 * task in the order in which the caller gave them.  tq_change_each resets its
 * memory context after each entry, so a step must copy what is to outlive it
 * into the context of the change.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "change/change_set.h"

/* The entry of that id in a list sorted by ids; NULL: there is none. */
const TqEntry *
tq_change_find(TqEntry *const *entries, int count, int64 id)
{
	int low = 0;
	int high = count;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (entries[middle]->id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && entries[low]->id == id ? entries[low] : NULL;
}

/* What a step allocates goes with it. */
void
tq_change_each(TqChange *change, TqEntry **entries, int count,
			   TqChangeStep step)
{
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq change", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		step(change, entries[i]);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/* The reference that a task gets; NULL: none. */
char *
tq_change_reference(const TqEntry *entry)
{
	if (entry->part == TQ_PART_ADDS)
		return entry->sub.reference;
	return entry->part == TQ_PART_UPDATES ? entry->changes->sub.reference
										  : NULL;
}

/* By id; then in the order of the lists. */
int
tq_change_compare_ids(const void *a, const void *b)
{
	const TqEntry *x = *(TqEntry *const *) a;
	const TqEntry *y = *(TqEntry *const *) b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x < y ? -1 : x > y;
}
