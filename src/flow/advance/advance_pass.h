/*
 * advance_pass.h
 *		Deletes the edges of steps that have ended.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_PASS_H
#define TQ_ADVANCE_PASS_H

#include "flow/advance/advance_phase.h"

extern void tq_advance_pass_on(TqAdvance *a, const List *ends,
							   TqAdvanceOutcome *outcome, TqChildLooks *looks);

#endif /* TQ_ADVANCE_PASS_H */
