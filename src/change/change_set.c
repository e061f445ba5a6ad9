/*
 * change_set.c
 *		The entries of a change: loops over them, and search by task or name.
 *
 * Lists of entries are sorted by id (tq_change_compare_ids), entries of one
 * task in the order in which the caller gave them.  tq_change_each resets its
 * memory context after each entry, so a step must copy what must survive it
 * into the context of the change.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/place.h"
#include "change/change_set.h"
#include "store/row.h"

const char *
tq_change_part_name(TqPart part)
{
	static const char *const names[] = {[TQ_PART_ADDS] = "adds",
										[TQ_PART_UPDATES] = "updates",
										[TQ_PART_DELETES] = "deletes",
										[TQ_PART_DEPENDS] = "depends",
										[TQ_PART_DOC_ADDS] = "doc_adds",
										[TQ_PART_DOC_UPDATES] = "doc_updates",
										[TQ_PART_DOC_DELETES] = "doc_deletes",
										[TQ_PART_DOC_DEPENDS] = "doc_depends",
										[TQ_PART_MAKES_WAY] = "adds"};

	return names[part];
}

/*
 * Find the entry with that id in a list sorted by id; NULL if there is none.
 */
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

/* Memory that a step allocates is released after it. */
void
tq_change_each(TqChange *change, TqEntry **entries, int count,
			   TqChangeStep step)
{
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq change", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < count; i++)
	{
		TqPlace place;

		CHECK_FOR_INTERRUPTS();
		tq_place_begin(&place, tq_change_part_name(entries[i]->part));
		place.index = entries[i]->place;
		MemoryContextSwitchTo(one);
		step(change, entries[i]);
		MemoryContextSwitchTo(mine);
		tq_place_end(&place);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/* Return the reference that a task gets, or NULL. */
char *
tq_change_reference(const TqEntry *entry)
{
	if (entry->part == TQ_PART_ADDS)
		return entry->sub.reference;
	if (entry->part != TQ_PART_UPDATES)
		return NULL;
	return entry->changes->named[TQ_SUBMIT_REFERENCE]
			   ? entry->changes->sub.reference
			   : entry->brings;
}

/* Record the reference that a task keeps when it moves to another queue. */
void
tq_change_note_brought(TqChange *change)
{
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq change", ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < change->by_id_count; i++)
	{
		TqEntry *entry = change->by_id[i];
		TqTask   task;

		entry->brings = NULL;
		if (entry->part != TQ_PART_UPDATES ||
			!entry->changes->named[TQ_SUBMIT_QUEUE] ||
			entry->changes->named[TQ_SUBMIT_REFERENCE])
			continue;
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		if (tq_row_find(change->call, entry->id, &task) &&
			!task.isnull[TQ_COL_REFERENCE])
			entry->brings = MemoryContextStrdup(
				mine, TextDatumGetCString(task.value[TQ_COL_REFERENCE]));
		MemoryContextSwitchTo(mine);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/* Order by id; then by list order. */
int
tq_change_compare_ids(const void *a, const void *b)
{
	const TqEntry *x = *(TqEntry *const *) a;
	const TqEntry *y = *(TqEntry *const *) b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x < y ? -1 : x > y;
}
