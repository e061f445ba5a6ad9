/*
 * visibility.c
 *		The queues whose tasks current_user may see.
 *
 * pg_monitor sees all tasks, but neither their contents nor what callers have
 * written (messages, errors).  The right observe on a queue shows what callers
 * have written, and the right read the contents as well (query/contents.c).
 * The answer is determined once for each call or scan, so that all rows of a
 * page are filtered alike.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/compare.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/visibility.h"

static int place_of(const TqVisibility *sight, int32 queue_id);

/* What may current_user see? */
void
tq_visibility_take(TqVisibility *sight)
{
	int    rights = tq_role_rights_all();
	int    count;
	char **names;

	memset(sight, 0, sizeof(*sight));
	sight->context = CurrentMemoryContext;
	sight->all_payload = (rights & TQ_RIGHT_READ) != 0;
	sight->all_words = (rights & TQ_RIGHT_OBSERVE) != 0;
	sight->all = sight->all_words || tq_role_is_monitor();
	if (sight->all_payload)
		return;
	names = tq_queue_names(&count);
	sight->queues = palloc(sizeof(int32) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL && (tq_role_rights(queue) & TQ_RIGHT_OBSERVE) != 0)
			sight->queues[sight->queue_count++] = queue->queue_id;
	}
	qsort(sight->queues, sight->queue_count, sizeof(int32), tq_order_int32);
	sight->reads = palloc(sizeof(bool) * (count + 1));
	for (int i = 0; i < sight->queue_count; i++)
	{
		TqQueue *queue = tq_queue_by_id(sight->queues[i]);

		sight->reads[i] = queue != NULL &&
						  (tq_role_rights(queue) & TQ_RIGHT_READ) != 0;
	}
}

/*
 * Show everything: the call has checked a right that includes the contents, as
 * that of a worker.
 */
void
tq_visibility_open(TqVisibility *sight)
{
	sight->all = sight->all_words = true;
	sight->all_payload = sight->all_whole = true;
}

/*
 * May current_user see tasks of the queue, with their messages and errors?
 */
bool
tq_visibility_observes(const TqVisibility *sight, int32 queue_id)
{
	return sight->all_words || place_of(sight, queue_id) >= 0;
}

/* May current_user also see the contents of tasks of the queue? */
bool
tq_visibility_reads(const TqVisibility *sight, int32 queue_id)
{
	int place;

	if (sight->all_payload)
		return true;
	place = place_of(sight, queue_id);
	return place >= 0 && sight->reads[place];
}

/* Returns the place of the queue in the list, or -1. */
static int
place_of(const TqVisibility *sight, int32 queue_id)
{
	int32 *found;

	if (sight->queue_count == 0)
		return -1;
	found = bsearch(&queue_id, sight->queues, sight->queue_count,
					sizeof(int32), tq_order_int32);
	return found == NULL ? -1 : (int) (found - sight->queues);
}
