/*
 * xact.h
 *		What a transaction's end must do.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_XACT_H
#define TQ_XACT_H

#include "base/compat.h"

#include "shared/counter_types.h"
#include "shared/key_floor.h"
#include "shared/running.h"

extern void   tq_xact_begin(void);
extern int    tq_xact_stopped_of(TqOwner owner, int32 id);
extern void   tq_xact_reserved(const TqRunning *claim, int64 taken_at,
							   uint64 queue_epoch, uint64 worker_epoch);
extern void   tq_xact_not_claimed(void);
extern void   tq_xact_running(const TqRunning *running);
extern void   tq_xact_stopped(int64 task_id, int64 version, int32 queue_id,
							  int32 worker_id);
extern void   tq_xact_ended(int64 id, int state);
extern void   tq_xact_key_floor(const TqKeyFloorFound *found);
extern uint64 tq_xact_epoch(void);
extern void   tq_xact_queue_gone(int32 queue_id);
extern void   tq_xact_due(TimestampTz at);
extern void   tq_xact_ask(int32 worker_id);
extern void   tq_xact_orphans(void);
extern void   tq_xact_rescan(void);
extern void   tq_xact_worker_gone(int32 worker_id);
extern void   tq_xact_bound(void);
extern void   tq_xact_wake_queue(int32 queue_id);
extern void   tq_xact_worker_count_unknown(int32 worker_id);
extern void   tq_xact_wake_worker(int32 worker_id);
extern void   tq_xact_wake_made(void);
extern void   tq_xact_notify(int32 queue_id);
extern void   tq_xact_session_cache_changed(void);
extern void   tq_xact_on_rollback(void (*forget)(void));
extern void   tq_xact_visit(Oid database);
extern void   tq_xact_prepared_ended(void);
extern void   tq_xact_init(void);

#endif /* TQ_XACT_H */
