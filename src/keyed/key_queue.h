/*
 * key_queue.h
 *		Key queues: which task of a key is next.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_QUEUE_H
#define TQ_KEY_QUEUE_H

extern void tq_key_queue_init(void);

#endif /* TQ_KEY_QUEUE_H */
