/*
 * notify.h
 *		NOTIFY for queues with option notify.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_NOTIFY_H
#define TQ_NOTIFY_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* for the background worker */
extern void        tq_notify_start(void);
extern bool        tq_notify_is_due(void);
extern int64       tq_notify_send(int limit);
extern TimestampTz tq_notify_sent(bool committed);

#endif /* TQ_NOTIFY_H */
