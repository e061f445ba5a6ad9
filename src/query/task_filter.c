/*
 * task_filter.c
 *		A filter on tasks, and whether a row matches it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/compare.h"
#include "query/task_filter.h"

static bool text_is(TupleTableSlot *slot, int column, const char *value);

/* All tasks. */
void
tq_task_filter_init(TqTaskFilter *filter)
{
	memset(filter, 0, sizeof(*filter));
	filter->all_queues = true;
	filter->first = PG_INT64_MIN;
	filter->last = PG_INT64_MAX;
}

/* Continue after a task.  After the last possible id no task matches. */
void
tq_task_filter_after(TqTaskFilter *filter, int64 task_id)
{
	if (filter->backward)
	{
		if (task_id == PG_INT64_MIN)
			filter->first = PG_INT64_MAX;
		filter->last = Min(filter->last, task_id - (task_id != PG_INT64_MIN));
	}
	else
	{
		if (task_id == PG_INT64_MAX)
			filter->last = PG_INT64_MIN;
		filter->first =
			Max(filter->first, task_id + (task_id != PG_INT64_MAX));
	}
}

/* Does the row match the whole filter except its bounds of ids? */
bool
tq_task_filter_fits(const TqTaskFilter *filter, TupleTableSlot *slot,
					const TqTaskFixed *row)
{
	if (filter->state != TQ_STATE_NONE && row->state != filter->state)
		return false;
	if (!filter->all_queues &&
		(filter->queue_count == 0 ||
		 bsearch(&row->queue_id, filter->queues, filter->queue_count,
				 sizeof(int32), tq_order_int32) == NULL))
		return false;
	return text_is(slot, TQ_COL_REFERENCE, filter->reference) &&
		   text_is(slot, TQ_COL_KEY, filter->key) &&
		   text_is(slot, TQ_COL_CORRELATION_ID, filter->correlation_id);
}

static bool
text_is(TupleTableSlot *slot, int column, const char *value)
{
	bool  isnull;
	Datum found;
	text *word;
	bool  same;

	if (value == NULL)
		return true;
	found = slot_getattr(slot, column, &isnull);
	if (isnull)
		return false;
	word = DatumGetTextPP(found);
	same = VARSIZE_ANY_EXHDR(word) == strlen(value) &&
		   memcmp(VARDATA_ANY(word), value, strlen(value)) == 0;
	if ((Pointer) word != DatumGetPointer(found))
		pfree(word);
	return same;
}
