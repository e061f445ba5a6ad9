/*
 * step.h
 *		Tasks that are steps of a workflow: what the layer of workflows does
 *		where they pass, and what may not be done with them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_H
#define TQ_STEP_H

#include "cache/queue.h"
#include "engine/move.h"
#include "store/table.h"
#include "store/task.h"

/* Columns that a claim of a step has and that of a plain task leaves null. */
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
	TQ_FLOW_LOCK_END, /* a step ends, well as far as is known */
	/* or not; or it goes back, and may be asked to stop */
	TQ_FLOW_LOCK_FAILURE,
	/* a signal comes, the instance or a list is cancelled */
	TQ_FLOW_LOCK_ALONE,
	/* what has failed goes on, in those around as well */
	TQ_FLOW_LOCK_REPAIR
} TqInstanceLockKind;

struct TqExplain;

/* The layer of workflows fills these in at load. */
typedef struct TqStepHooks
{
	/* a step is about to be repaired, or put aside, if it lets that happen */
	void (*returning)(TqCall *call, const TqTask *task);
	/* some of a list of tasks may be steps, and are about to be moved */
	void (*moving_all)(TqCall *call, const int64 *ids, const int64 *tokens,
					   const TqInstanceLockKind *kinds, int count, int right);
	/* a step is about to be moved: where to may be changed, or refused when
	 * somebody would have to be waited for */
	void (*moving)(TqCall *call, TqQueue *queue, TqTask *task,
				   const TqMove *move, TqMoveAnswer *answer);
	/* a step was moved */
	void (*moved)(TqCall *call, TqTask *task, TqState from,
				  const TqMoveAnswer *answer);
	/* what a worker is told of a step beside the task; its payload, if it
	 * has none of its own */
	void (*carry)(TqTask *task, Datum *values, bool *nulls);
	Datum (*payload)(const TqTask *task, bool *isnull);
	/* its name; NULL: the workflow is gone */
	char *(*name)(const TqTask *task);
	/* in words, after its state: why it is in it and what to do, as far as
	 * that is for its workflow to say; false: nothing was said */
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
