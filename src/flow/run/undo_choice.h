/*
 * undo_choice.h
 *		What a decision or batch has chosen is taken back, since that is to be
 *		tried again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_UNDO_CHOICE_H
#define TQ_UNDO_CHOICE_H

#include "flow/instance/flow.h"
#include "store/table.h"

extern bool tq_undo_choice(TqCall *call, TqFlow *flow, TqUndo *all,
						   const bool *below);

#endif /* TQ_UNDO_CHOICE_H */
