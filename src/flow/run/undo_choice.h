/*
 * undo_choice.h
 *		What a decision or batch has chosen is taken back, since that is to be
 *		tried again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_UNDO_CHOICE_H
#define TQ_UNDO_CHOICE_H

#include "flow/instance/edge.h"
#include "flow/instance/flow_types.h"
#include "store/table.h"

/* Choices that are undone, and what exists in the meantime. */
typedef struct TqUndo
{
	int        count;
	TqStepRow *made;  /* as it was; NULL: not read yet */
	bool      *again; /* by places: steps that wait again, or are about to */
	bool      *gone;  /* by places: what was taken back */
	TqNewEdges kept;  /* to what stays, from what has ended and is gone */
} TqUndo;

extern bool tq_undo_choice(TqCall *call, TqFlow *flow, TqUndo *all,
						   const bool *below);

#endif /* TQ_UNDO_CHOICE_H */
