/*
 * notify_flag.h
 *		Flags of queues for which a NOTIFY is to be sent.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_NOTIFY_FLAG_H
#define TQ_NOTIFY_FLAG_H

#include "base/compat.h"

#include "shared/position.h"

extern Size tq_notify_flag_size(void);
extern void tq_notify_flag_init(void);
extern void tq_notify_flag_wipe(void);
extern void tq_notify_flag_forget_database(Oid database);

/* for all sessions; these cannot fail */
extern void tq_notify_flag_raise(int32 queue_id);
extern void tq_notify_flag_raise_positions(const TqLanePosition *places,
										   int                   count);
extern void tq_notify_flag_raise_all(void);

/* for the background worker of this database */
extern bool tq_notify_flag_add(const int32 *queue_ids, int count);
extern bool tq_notify_flag_is_complete(void);
extern bool tq_notify_flag_raised(int32 queue_id);
extern bool tq_notify_flag_lower(int32 queue_id);
extern bool tq_notify_flag_lower_all(void);

#endif /* TQ_NOTIFY_FLAG_H */
