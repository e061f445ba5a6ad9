/*
 * claim_activity.h
 *		A mark for the background worker that claims are made.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_ACTIVITY_H
#define TQ_CLAIM_ACTIVITY_H

#include "base/compat.h"

extern Size tq_claim_activity_size(void);
extern void tq_claim_activity_init(void);

extern void tq_claim_activity_note(void);
extern bool tq_claim_activity_take(void);
extern bool tq_claim_activity_seen(void);

#endif /* TQ_CLAIM_ACTIVITY_H */
