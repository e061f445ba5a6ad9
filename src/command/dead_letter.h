/*
 * dead_letter.h
 *		Copies of dead tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEAD_LETTER_H
#define TQ_DEAD_LETTER_H

extern void tq_dead_letter_init(void);

#endif /* TQ_DEAD_LETTER_H */
