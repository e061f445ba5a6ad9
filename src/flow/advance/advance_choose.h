/*
 * advance_choose.h
 *		Makes the steps that decisions and batches have chosen.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_CHOOSE_H
#define TQ_ADVANCE_CHOOSE_H

#include "flow/advance/advance_phase.h"

extern bool tq_advance_choose(TqAdvance *a, const List *ends,
							  TqAdvanceChoices *choices, TqChildLooks *looks,
							  TransactionId *blocked_by);

#endif /* TQ_ADVANCE_CHOOSE_H */
