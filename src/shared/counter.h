/*
 * counter.h
 *		Numbers of live tasks, and state of limits, in shared memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COUNTER_H
#define TQ_COUNTER_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "utils/snapshot.h"

#include "shared/counter_types.h"

typedef struct TqLiveCount
{
	int32 queue_id;
	int64 live[TQ_LIVE_NUMBERS];
} TqLiveCount;

extern Size tq_counter_size(void);
extern void tq_counter_request(void);
extern void tq_counter_init(void);
extern void tq_counter_wipe(void);

/* of a transaction that changes tasks */
extern uint64 tq_counter_enter(TransactionId xid);
extern void   tq_counter_leave(void);
extern void   tq_counter_wait_for_ended(void);
extern void   tq_counter_flag(void);

/* numbers of live tasks */
extern void   tq_counter_add(int32 queue_id, const int64 *delta,
							 TransactionId xid, uint64 instance);
extern bool   tq_counter_read(int32 queue_id, int64 *live);
extern bool   tq_counter_read_changes(int32 queue_id, int64 *live,
									  uint64 *changes);
extern uint64 tq_counter_recount_begin(uint64 *instance);
extern bool   tq_counter_recount_end(uint64 begun, uint64 instance,
									 Snapshot snapshot, TqLiveCount *counts,
									 int count);
extern bool   tq_counter_has_no_room(int32 queue_id);
extern int64  tq_counter_pause(int32 queue_id);
extern int    tq_counter_list(TqOwner owner, int32 **ids);
extern void   tq_counter_forget(TqOwner owner, int32 id);
extern void   tq_counter_free(TqOwner owner, int32 id);
extern void   tq_counter_forget_database(Oid database);

/* claims, for the check that there are some */
extern void        tq_counter_claimed(int32 queue_id, TimestampTz now);
extern bool        tq_counter_last_claim(int32 queue_id, TimestampTz *at);
extern TimestampTz tq_counter_since(void);
extern int         tq_counter_room(void);

#endif /* TQ_COUNTER_H */
