/*
 * visibility.c
 *		The queues whose tasks current_user may see.
 *
 * pg_monitor sees all tasks, but their contents (payload, result, messages)
 * are only visible to roles with the right read on the queue.  The answer is
 * determined once for each call or scan, so that all rows of a page are
 * filtered alike.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/compare.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/visibility.h"

/* What may current_user see? */
void
tq_visibility_take(TqVisibility *sight)
{
	int    count;
	char **names;

	memset(sight, 0, sizeof(*sight));
	sight->all_payload = (tq_role_rights_all() & TQ_RIGHT_READ) != 0;
	sight->all = sight->all_payload || tq_role_is_monitor();
	if (sight->all_payload)
		return;
	names = tq_queue_names(&count);
	sight->queues = palloc(sizeof(int32) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL && (tq_role_rights(queue) & TQ_RIGHT_READ) != 0)
			sight->queues[sight->queue_count++] = queue->queue_id;
	}
	qsort(sight->queues, sight->queue_count, sizeof(int32), tq_order_int32);
}

/* May current_user also see the contents of tasks of the queue? */
bool
tq_visibility_reads(const TqVisibility *sight, int32 queue_id)
{
	return sight->all_payload ||
		   (sight->queue_count > 0 &&
			bsearch(&queue_id, sight->queues, sight->queue_count,
					sizeof(int32), tq_order_int32) != NULL);
}

/* Restrict the filter to visible tasks. */
void
tq_visibility_filter(const TqVisibility *sight, TqTaskFilter *filter)
{
	filter->all_queues = sight->all;
	filter->queues = sight->queues;
	filter->queue_count = sight->queue_count;
	filter->all_contents = sight->all_payload;
	filter->readable = sight->queues;
	filter->readable_count = sight->queue_count;
}
