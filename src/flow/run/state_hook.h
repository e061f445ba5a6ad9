/*
 * state_hook.h
 *		Hooks of moves of steps: they refuse or redirect a move, and note work
 *		for the end of the call.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STATE_HOOK_H
#define TQ_STATE_HOOK_H

extern void tq_state_hook_init(void);

#endif /* TQ_STATE_HOOK_H */
