/*
 * advance_settle.h
 *		Settles the instance, and the instances inside and around it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_SETTLE_H
#define TQ_ADVANCE_SETTLE_H

#include "flow/advance/advance_phase.h"

extern bool tq_advance_decide(TqAdvance *a, TqAdvanceOutcome *outcome,
							  TransactionId *blocked_by);
extern void tq_advance_settle(TqAdvance *a, const List *large,
							  const TqAdvanceOutcome *outcome);

#endif /* TQ_ADVANCE_SETTLE_H */
