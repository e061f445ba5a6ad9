/*
 * undo_choice.h
 *		Undoes the choice of a decision or batch, for another attempt.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_UNDO_CHOICE_H
#define TQ_UNDO_CHOICE_H

#include "flow/instance/edge.h"
#include "flow/instance/flow_types.h"
#include "store/table.h"

/* Choices that are being undone, and the state in between. */
typedef struct TqUndo
{
	int        count;
	TqStepRow *made;  /* before the undo; NULL: not read yet */
	bool      *again; /* by index: wait again, or are about to */
	bool      *gone;  /* by index: removed */
	TqNewEdges kept;  /* edges from removed steps that had ended */
} TqUndo;

extern bool tq_undo_choice(TqCall *call, TqFlow *flow, TqUndo *all,
						   const bool *below);

#endif /* TQ_UNDO_CHOICE_H */
