/*
 * history.h
 *		The state changes of tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HISTORY_H
#define TQ_HISTORY_H

#include "cache/queue.h"
#include "engine/step.h"
#include "store/table.h"
#include "store/task.h"

/*
 * Does the history keep the change of a task, as it was written, from another
 * state or the same one?  A manual change is always kept.
 */
static inline bool
tq_history_keeps(const TqQueue *queue, const TqTask *task, int from)
{
	if (task->by_hand)
		return true;
	return task->f.state != from &&
		   (queue->options.history || tq_step_is(task));
}

extern void tq_history_mark(TqTask *task, const char *message);
extern void tq_history_write(TqCall *call, TqTask *task, int from);

#endif /* TQ_HISTORY_H */
