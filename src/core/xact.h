/*
 * xact.h
 *		What a transaction's end must do.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_XACT_H
#define TQ_XACT_H

#include "base/compat.h"

#include "shared/registry.h"

extern void tq_xact_running(const TqRunning *running);
extern void tq_xact_stopped(int64 task_id);
extern void tq_xact_due(TimestampTz at);
extern void tq_xact_wake_worker(void);
extern void tq_xact_ask(int32 worker_id);
extern void tq_xact_rescan(void);
extern void tq_xact_worker_gone(int32 worker_id);
extern void tq_xact_session_cache_changed(void);
extern void tq_xact_visit(Oid database);
extern void tq_xact_prepared_ended(void);
extern void tq_xact_init(void);

#endif /* TQ_XACT_H */
