/*
 * queue_admin.h
 *		Rights, for others than taskq_grant().
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_QUEUE_ADMIN_H
#define TQ_QUEUE_ADMIN_H

#include "base/compat.h"

extern void tq_queue_admin_execute_again(void);

#endif /* TQ_QUEUE_ADMIN_H */
