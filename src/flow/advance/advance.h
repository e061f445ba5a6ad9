/*
 * advance.h
 *		Advances a workflow after its steps have moved.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ADVANCE_H
#define TQ_ADVANCE_H

extern void tq_advance_init(void);

#endif /* TQ_ADVANCE_H */
