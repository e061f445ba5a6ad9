/*
 * pulse.h
 *		Word for the background worker that claims are made.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PULSE_H
#define TQ_PULSE_H

#include "base/compat.h"

extern Size tq_pulse_size(void);
extern void tq_pulse_init(void);

extern void tq_pulse_beat(void);
extern bool tq_pulse_take(void);

#endif /* TQ_PULSE_H */
