/*
 * liveness.h
 *		Heartbeats and progress: in shared memory, or else as rows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_LIVENESS_H
#define TQ_LIVENESS_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* heartbeats */
extern bool   tq_liveness_alive(int32 worker_id);
extern bool   tq_liveness_touch(int32 worker_id);
extern bool   tq_liveness_is_registered(int32 worker_id);
extern void   tq_liveness_heartbeat(int32 worker_id);
extern bool   tq_liveness_silence(int32 worker_id, int64 *silence);
extern uint32 tq_liveness_turn(int32 worker_id);
extern int    tq_liveness_silent(int64 threshold, int32 *found, int max);

/* progress */
extern void tq_liveness_progress(int64 task_id, int64 token, float4 progress,
								 const char *message);
extern bool tq_liveness_read_progress(int64 task_id, int64 token,
									  float4 *progress, char *message);

/* rows that were written without shared memory */
extern void  tq_liveness_load(void);
extern int64 tq_liveness_clean(int limit);

#endif /* TQ_LIVENESS_H */
