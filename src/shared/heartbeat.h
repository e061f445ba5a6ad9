/*
 * heartbeat.h
 *		Heartbeats of registered workers, in shared memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEARTBEAT_H
#define TQ_HEARTBEAT_H

#include "base/compat.h"

typedef struct TqHeartbeat
{
	int32 worker_id;
	int64 last_seen; /* monotonic clock, microseconds */
} TqHeartbeat;

extern Size tq_heartbeat_size(void);
extern void tq_heartbeat_request(void);
extern void tq_heartbeat_init(void);
extern void tq_heartbeat_wipe(void);
extern void tq_heartbeat_forget_database(Oid database);

extern bool   tq_heartbeat_put(int32 worker_id);
extern bool   tq_heartbeat_beat(int32 worker_id);
extern void   tq_heartbeat_remove(int32 worker_id);
extern bool   tq_heartbeat_find(int32 worker_id, int64 *last_seen);
extern void   tq_heartbeat_ask_to_stop(int32 worker_id);
extern bool   tq_heartbeat_asked_to_stop(int32 worker_id, bool clear);
extern uint32 tq_heartbeat_turn(int32 worker_id);
extern int    tq_heartbeat_count(void);
extern int    tq_heartbeat_list(TqHeartbeat *slots, int max);

#endif /* TQ_HEARTBEAT_H */
