/*
 * task_options.c
 *		The options of a task: its own over those of its queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/jsonb.h"

#include "base/debug.h"
#include "base/try.h"
#include "cache/task_options.h"

/* A task's own options, and the options of the queue that they override. */
typedef struct OwnOptions
{
	TqOptions *options;
	Jsonb     *own;
} OwnOptions;

static void read_own(void *arg);

/*
 * Return the options of a task.  Those that a user has written by hand may be
 * invalid: then use the queue's alone, so that the task can still be ended.
 */
const TqOptions *
tq_task_options(const TqQueue *queue, const TqTask *task, TqOptions *room)
{
	OwnOptions reading = {room};

	if (task->isnull[TQ_COL_OPTIONS])
		return &queue->options;
	/* may read the TOAST table: not in tq_try() */
	reading.own = DatumGetJsonbP(task->value[TQ_COL_OPTIONS]);
	*room = queue->options;
	if (tq_try(read_own, &reading) != NULL)
		*room = queue->options;
	return room;
}

static void
read_own(void *arg)
{
	const OwnOptions *reading = arg;

	TQ_FAULT_POINT("task_options");
	tq_options_read_task(reading->options, reading->own);
}
