/*
 * step.c
 *		Tasks that are steps of a workflow, as far as the engine knows them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/error.h"
#include "engine/step.h"

TqStepHooks tq_step_hooks = {NULL};

/* Raise TQ005 for an action that would remove a step from its workflow. */
void
tq_step_refuse(const TqTask *task, const char *wanted)
{
	if (tq_step_is(task))
		ereport(
			ERROR,
			(errcode(ERRCODE_TQ_INVALID_TRANSITION),
			 errmsg("cannot %s task " INT64_FORMAT
					" because it is a step of a workflow",
					wanted, task->f.task_id),
			 errdetail_internal(
				 "{\"task_id\": " INT64_FORMAT ", \"state\": \"%s\"}",
				 task->f.task_id, tq_state_name((TqState) task->f.state)),
			 errhint(
				 "Retry, resolve or cancel the step, or cancel the workflow.")));
}
