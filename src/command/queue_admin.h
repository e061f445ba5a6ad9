/*
 * queue_admin.h
 *		Queues: create, alter, drop, pause, resume.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_QUEUE_ADMIN_H
#define TQ_QUEUE_ADMIN_H

#include "base/types.h"

extern int32 tq_queue_admin_to_change(const char *name, TqRight right);
extern bool  tq_queue_admin_lock_out_briefly(void);

#endif /* TQ_QUEUE_ADMIN_H */
