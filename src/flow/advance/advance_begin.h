/*
 * advance_begin.h
 *		Begins steps that no longer wait for a parent.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_BEGIN_H
#define TQ_ADVANCE_BEGIN_H

#include "flow/advance/advance_phase.h"

extern void tq_advance_begin(TqAdvance *a, TqChildLooks *looks,
							 TqAdvanceBlocked *blocked,
							 TqAdvanceOutcome *outcome);

#endif /* TQ_ADVANCE_BEGIN_H */
