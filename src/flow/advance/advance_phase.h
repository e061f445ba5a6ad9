/*
 * advance_phase.h
 *		What the phases of an advance share; see advance.c for their order.
 *
 * No phase clears one of these structs as a whole: most of what they hold
 * outlives a wait.  tq_advance_wait and tq_advance_look_again reset the rest.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_PHASE_H
#define TQ_ADVANCE_PHASE_H

#include "flow/instance/edge.h"
#include "flow/instance/flow_types.h"
#include "flow/instance/step_rows.h"
#include "flow/run/move_queue.h"
#include "flow/run/step_plan.h"

/* The instance, and how its rows are found: the same for all phases. */
typedef struct TqAdvance
{
	TqCall    *call;
	TqFlow     flow;
	TqEdges    edges;
	TqStepRows rows;
} TqAdvance;

/* Of decisions and batches: choose writes it, look_again resets it. */
typedef struct TqAdvanceChoices
{
	TqPlanView *view;    /* while the lock is held; NULL: not read yet */
	Bitmapset  *to_come; /* choices that are not made yet, by places */
	bool        asked;   /* held_up is known; until a failure may change it */
	bool        held_up; /* a failure keeps choices from making steps */
	bool        again;   /* choices of before a wait are made once more */
	List       *large;   /* decisions to be warned of after the lock */
} TqAdvanceChoices;

/*
 * What cannot be done without waiting: choose, begin and decide write it, wait
 * waits for it.
 */
typedef struct TqAdvanceBlocked
{
	TqChildLooks  later;       /* children to be looked at after the wait */
	TransactionId xid;         /* to be waited for, if task_id is 0 */
	int64         task_id;     /* task whose row or key is busy; 0: none */
	int32         step_id;     /* its step */
	bool          by_key;      /* its key is busy, not its row */
	int64         locked_task; /* task whose row the wait has locked */
	List         *elsewhere;   /* steps that were moved during the wait */
} TqAdvanceBlocked;

/*
 * What becomes of the instance: pass_on, begin, decide and look_again write
 * it, settle acts on it.
 */
typedef struct TqAdvanceOutcome
{
	bool       failed;         /* a step has failed in this call */
	bool       revived;        /* the instance had failed, and is live again */
	bool       left_to_others; /* another live step will decide */
	bool       ends;           /* no step is live after a failure */
	int32      last_step;      /* a step that has moved; 0: none */
	Bitmapset *batches;  /* that have failed, by places of their members */
	Bitmapset *returned; /* places of steps that wait again */
	List      *children; /* int64 *: steps whose instance is to begin */
} TqAdvanceOutcome;

#endif /* TQ_ADVANCE_PHASE_H */
