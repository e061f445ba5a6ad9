/*
 * key_insertion.h
 *		The effect of a submit on earlier tasks of its key.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_INSERTION_H
#define TQ_KEY_INSERTION_H

extern void tq_key_insertion_init(void);

#endif /* TQ_KEY_INSERTION_H */
