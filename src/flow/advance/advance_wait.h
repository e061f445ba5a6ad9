/*
 * advance_wait.h
 *		Waits for another transaction without the edge lock, and checks again.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_WAIT_H
#define TQ_ADVANCE_WAIT_H

#include "flow/advance/advance_phase.h"

extern void tq_advance_wait(TqAdvance *a, TqAdvanceBlocked *blocked,
							TqChildLooks *looks);
extern void tq_advance_look_again(TqAdvance              *a,
								  const TqAdvanceBlocked *blocked,
								  TqAdvanceChoices       *choices,
								  TqAdvanceOutcome       *outcome,
								  TqChildLooks           *looks);

#endif /* TQ_ADVANCE_WAIT_H */
