/*
 * state_hook.h
 *		Moves of steps: what may not be, what is turned elsewhere, and what
 *		the call has to handle when it ends.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STATE_HOOK_H
#define TQ_STATE_HOOK_H

extern void tq_state_hook_init(void);

#endif /* TQ_STATE_HOOK_H */
