/*
 * advance_phase.h
 *		Structs that the phases of an advance share; see advance.c for their
 *		order.
 *
 * No phase clears one of these structs as a whole, because most of their
 * members must survive a wait.  tq_advance_wait and tq_advance_look_again
 * reset the rest.
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

/* The instance and access to its rows, the same for all phases. */
typedef struct TqAdvance
{
	TqCall    *call;
	TqFlow     flow;
	TqEdges    edges;
	TqStepRows rows;
} TqAdvance;

/* State of decisions and batches: choose writes it, look_again resets it. */
typedef struct TqAdvanceChoices
{
	TqPlanView *view;    /* valid while the lock is held; NULL: not read yet */
	Bitmapset  *to_come; /* by step index: the choice has not been made yet */
	bool        asked;   /* held_up is valid, until a failure may change it */
	bool        held_up; /* a failure keeps choices from making steps */
	bool        again;   /* repeat the choices that were made before a wait */
	List       *large;   /* decisions to warn about after the unlock */
} TqAdvanceChoices;

/*
 * Work that requires a wait: choose, begin and decide record it, wait waits
 * for it.
 */
typedef struct TqAdvanceBlocked
{
	TqChildLooks  later;       /* children to check after the wait */
	TransactionId xid;         /* transaction to wait for, if task_id is 0 */
	int64         task_id;     /* task whose row or key is busy; 0: none */
	int32         step_id;     /* step of that task */
	bool          by_key;      /* the key is busy, not the row */
	int64         locked_task; /* task whose row was locked by the wait */
	List         *elsewhere;   /* steps that were moved during the wait */
} TqAdvanceBlocked;

/*
 * The outcome for the instance: pass_on, begin, decide and look_again write
 * it, settle acts on it.
 */
typedef struct TqAdvanceOutcome
{
	bool       failed;         /* a step failed in this call */
	bool       revived;        /* the instance had failed, and is live again */
	bool       may_end;        /* a live step moved, or the instance revived */
	bool       left_to_others; /* another live step will decide */
	bool       ends;           /* no step is live after a failure */
	int32      last_step;      /* a step that moved; 0: none */
	Bitmapset *batches;        /* failed batches, by index of their members */
	Bitmapset *returned;       /* indexes of steps that wait again */
	List      *children; /* int64 *: steps whose child instance must start */
} TqAdvanceOutcome;

#endif /* TQ_ADVANCE_PHASE_H */
