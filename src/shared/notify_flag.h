/*
 * notify_flag.h
 *		Queues about which NOTIFY is to tell.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_NOTIFY_FLAG_H
#define TQ_NOTIFY_FLAG_H

#include "base/compat.h"

#include "shared/position.h"

extern Size tq_bell_size(void);
extern void tq_bell_init(void);
extern void tq_bell_wipe(void);
extern void tq_bell_forget_database(Oid database);

/* for everybody; these cannot fail */
extern void tq_bell_ring(int32 queue_id);
extern void tq_bell_ring_places(const TqPlace *places, int count);
extern void tq_bell_ring_all(void);

/* for the background worker of this database */
extern bool tq_bell_hang(const int32 *queue_ids, int count);
extern bool tq_bell_hangs(void);
extern bool tq_bell_rung(int32 queue_id);
extern bool tq_bell_answer(int32 queue_id);
extern bool tq_bell_answer_all(void);

#endif /* TQ_NOTIFY_FLAG_H */
