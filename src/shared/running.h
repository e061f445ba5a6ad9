/*
 * running.h
 *		The table of running tasks, in shared memory.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RUNNING_H
#define TQ_RUNNING_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "storage/itemptr.h"

#define TQ_PROGRESS_MESSAGE 120

/* Duties that can be asked to run now, as bits. */
#define TQ_ASK_DEADLINES 1
#define TQ_ASK_WORKERS 2
#define TQ_ASK_LANES 4
#define TQ_ASK_LEAKED 8

typedef struct TqRunning
{
	int64           task_id;
	int64           token;
	int64           version; /* of the row of this claim */
	TimestampTz     due_at;  /* lease or time limit ends; DT_NOEND: never */
	TimestampTz     claimed_at;
	int32           worker_id;
	int32           queue_id;
	ItemPointerData tid; /* current or former location of that row */
} TqRunning;

extern Size tq_running_size(void);
extern void tq_running_request(void);
extern void tq_running_init(void);
extern void tq_running_wipe(void);
extern void tq_running_forget_database(Oid database);

extern void       tq_running_put(const TqRunning *running);
extern void       tq_running_remove(int64 task_id, int64 version);
extern void       tq_running_drop(const TqRunning *seen);
extern void       tq_running_flag(void);
extern bool       tq_running_complete(void);
extern uint64     tq_running_rebuild_begin(void);
extern void       tq_running_rebuild_end(uint64 begun);
extern int        tq_running_due(TimestampTz now, int passed, TqRunning *found,
								 int max, TimestampTz *next);
extern int        tq_running_of_workers(const int32 *workers, int count,
										TqRunning *found, int max);
extern int        tq_running_count(void);
extern int        tq_running_count_all(void);
extern bool       tq_running_find(int64 task_id, TqRunning *running);
extern TqRunning *tq_running_all(int *count);
extern void       tq_running_ask_duty(int duty);
extern bool       tq_running_asked_duty(int duty);
extern void       tq_running_timer_fired(void);
extern uint64     tq_running_timers(void);

extern void tq_running_progress(int64 task_id, int64 token, float4 progress,
								const char *message);
extern bool tq_running_read_progress(int64 task_id, int64 token,
									 float4 *progress, char *message);

#endif /* TQ_RUNNING_H */
