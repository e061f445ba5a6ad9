/*
 * instance_lock.h
 *		Instance locks: which calls may change an instance concurrently.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_INSTANCE_LOCK_H
#define TQ_INSTANCE_LOCK_H

#include "engine/step.h"
#include "flow/instance/flow_types.h"
#include "store/table.h"

extern bool tq_instance_lock_acquire(TqCall *call, const TqFlow *flow,
									 const TqStep      *step,
									 TqInstanceLockKind kind);
extern void tq_instance_lock_acquire_all(TqCall *call, const int64 *ids,
										 const int64              *tokens,
										 const TqInstanceLockKind *kinds,
										 int count, int right);
extern void tq_instance_lock_exclusive(int64 workflow_id);

#endif /* TQ_INSTANCE_LOCK_H */
