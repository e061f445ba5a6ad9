/*
 * claim_activity.h
 *		Word for the background worker that claims are made.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_ACTIVITY_H
#define TQ_CLAIM_ACTIVITY_H

#include "base/compat.h"

extern Size tq_pulse_size(void);
extern void tq_pulse_init(void);

extern void tq_pulse_beat(void);
extern bool tq_pulse_take(void);

#endif /* TQ_CLAIM_ACTIVITY_H */
