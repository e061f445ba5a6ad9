/*
 * step.h
 *		Tasks that are steps of a workflow: hooks of the workflow layer, and
 *		actions that are refused for steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_H
#define TQ_STEP_H

#include "cache/queue.h"
#include "engine/move.h"
#include "store/table.h"
#include "store/task.h"

/* Columns of a claimed step that are null for a plain task. */
typedef enum TqStepClaimColumn
{
	TQ_CARRY_WORKFLOW_ID,
	TQ_CARRY_WORKFLOW,
	TQ_CARRY_STEP,
	TQ_CARRY_HANDLER,
	TQ_CARRY_CONFIG,
	TQ_CARRY_INPUT,
	TQ_CARRY_DEPENDENCY_RESULTS,
	TQ_CARRY_COLUMNS
} TqStepClaimColumn;

/* What a move of a step may do to its instance. */
typedef enum TqInstanceLockKind
{
	TQ_FLOW_LOCK_END, /* a step finishes, as far as known with success */
	/* a step fails, or returns to its queue, and may be asked to stop */
	TQ_FLOW_LOCK_FAILURE,
	/* a signal arrives, or the instance or a list is cancelled */
	TQ_FLOW_LOCK_ALONE,
	/* a failed step is continued, in enclosing instances as well */
	TQ_FLOW_LOCK_REPAIR
} TqInstanceLockKind;

struct TqExplain;

/* The workflow layer sets these at load time. */
typedef struct TqStepHooks
{
	/* a step is about to be repaired or suspended: lock its instance */
	void (*returning)(TqCall *call, const TqTask *task);
	/* some tasks of a list may be steps, and are about to be moved */
	void (*moving_all)(TqCall *call, const int64 *ids, const int64 *tokens,
					   const TqInstanceLockKind *kinds, int count, int right);
	/*
	 * a step is about to be moved: may change the target, or refuse if another
	 * transaction would have to be waited for
	 */
	void (*moving)(TqCall *call, TqQueue *queue, TqTask *task,
				   const TqMove *move, TqMoveAnswer *answer);
	/* a step was moved */
	void (*moved)(TqCall *call, TqTask *task, TqState from,
				  const TqMoveAnswer *answer);
	/*
	 * what a worker gets with a step in addition to the task; its payload, if
	 * it has none of its own, whole or as current_user may see it
	 */
	void (*carry)(TqTask *task, Datum *values, bool *nulls);
	Datum (*payload)(const TqTask *task, bool whole, bool *isnull);
	/* its name; NULL: the workflow no longer exists */
	char *(*name)(const TqTask *task);
	/*
	 * explains, after its state, why it is in that state and what to do, as
	 * far as its workflow knows; false: no explanation
	 */
	bool (*explain)(struct TqExplain *e, const TqTask *task);
} TqStepHooks;

extern PGDLLIMPORT TqStepHooks tq_step_hooks;

static inline bool
tq_step_is(const TqTask *task)
{
	return !task->isnull[TQ_COL_WORKFLOW_ID];
}

extern void tq_step_refuse(const TqTask *task, const char *wanted);

#endif /* TQ_STEP_H */
