/*
 * task_lock.c
 *		Locks on tasks that are changed together.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "cache/queue.h"
#include "cache/role.h"
#include "engine/task_lock.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "xact/position_note.h"
#include "xact/xact.h"

/*
 * Lock the row of a task, and wait for it if necessary.  Returns false if the
 * row does not exist, or if current_user has none of the rights on its queue,
 * since a role must not block tasks of other roles.
 *
 * Claims skip a locked row, and may record its position as dead: when the
 * transaction has ended, the position must be published again.
 */
bool
tq_task_lock(TqCall *call, int64 task_id, int rights, bool shared)
{
	TqTask         task;
	TqQueue       *queue;
	TqLanePosition before;

	for (;;)
	{
		bool locked;

		if (!tq_row_find(call, task_id, &task))
			return false;
		queue = tq_queue_by_id(task.f.queue_id);
		if (queue == NULL || (tq_role_rights(queue) & rights) == 0)
			return false;
		before = task.place;
		tq_xact_begin();
		tq_position_note_taking(&task);
		locked = tq_row_lock(call, &task, shared);
		if (locked)
			break;
		/* the row has been removed, and may have been inserted elsewhere */
		tq_position_note_not_taken(&task);
		tq_snapshot_renew();
	}
	tq_position_note_put(&task);
	/* it may have moved during the wait */
	if (task.stood && (task.place.lane_id != before.lane_id ||
					   task.place.priority != before.priority ||
					   task.place.available_at != before.available_at))
	{
		tq_position_note_taking(&task);
		tq_position_note_put(&task);
	}
	return true;
}
