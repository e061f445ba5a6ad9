/*
 * wake.h
 *		Choice of the waiting sessions that a wake reaches.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAKE_H
#define TQ_WAKE_H

#include "shared/position.h"
#include "shared/waiter_table.h"

extern void tq_wake_forget_database(Oid database);
extern void tq_wake_positions(const TqLanePosition *places, int count);
extern void tq_wake_room(int32 queue_id, int count);
extern void tq_wake_queue(int32 queue_id);
extern void tq_wake_worker(int32 worker_id, bool of_room);
extern void tq_wake_made(void);
extern void tq_wake_database(void);
extern void tq_wake_task_ended(int64 task_id, int state);
extern int  tq_wake_one(TqWake *wake, int count);

#endif /* TQ_WAKE_H */
