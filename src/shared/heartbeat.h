/*
 * heartbeat.h
 *		Signs of life of registered workers, in shared memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEARTBEAT_H
#define TQ_HEARTBEAT_H

#include "base/compat.h"

typedef struct TqSlot
{
	int32 worker_id;
	int64 last_seen; /* monotonic clock, microseconds */
} TqSlot;

extern Size tq_slot_size(void);
extern void tq_slot_request(void);
extern void tq_slot_init(void);
extern void tq_slot_wipe(void);
extern void tq_slot_forget_database(Oid database);

extern bool   tq_slot_put(int32 worker_id);
extern bool   tq_slot_beat(int32 worker_id);
extern void   tq_slot_remove(int32 worker_id);
extern bool   tq_slot_find(int32 worker_id, int64 *last_seen);
extern void   tq_slot_ask(int32 worker_id);
extern bool   tq_slot_asked(int32 worker_id, bool clear);
extern uint32 tq_slot_turn(int32 worker_id);
extern int    tq_slot_count(void);
extern int    tq_slot_list(TqSlot *slots, int max);

#endif /* TQ_HEARTBEAT_H */
