/*
 * queue.h
 *		Queues, as cached by a session.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_QUEUE_H
#define TQ_QUEUE_H

#include "base/compat.h"

#include "cache/queue_types.h"

#define TQ_QUEUE_ALL "*"

/* A TqQueue is valid until the next tq_queue_refresh. */
extern void     tq_queue_refresh(void);
extern TqQueue *tq_queue_find(const char *name);
extern TqQueue *tq_queue_by_id(int32 queue_id);
extern void     tq_queue_load_all(void);
extern TqQueue *tq_queue_for_claim(const char *name);
extern TqQueue *tq_queue_for_submit(const char *name, bool by_extension);
extern TqQueue *tq_queue_for_step(const char *name);
extern TqQueue *tq_queue_made(const char *name, bool by_this);
extern void     tq_queue_lock_insertions(void);
extern char   **tq_queue_names(int *count);
extern const TqOptions *tq_queue_defaults(void);
extern const TqOptions *tq_queue_options_now(const TqQueue *queue);
extern bool             tq_queue_any_ordered(void);
extern bool             tq_queue_any_redacted(void);
extern bool             tq_queue_is_paused(const TqQueue *queue);
extern bool tq_queue_paused_until(const TqQueue *queue, TimestampTz *until);
extern int  tq_queue_bucket(void);

#endif /* TQ_QUEUE_H */
