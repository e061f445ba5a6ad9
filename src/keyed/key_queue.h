/*
 * key_queue.h
 *		The queue of a key: which of its tasks is next.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_QUEUE_H
#define TQ_KEY_QUEUE_H

extern void tq_key_queue_init(void);

#endif /* TQ_KEY_QUEUE_H */
