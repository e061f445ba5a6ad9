/*
 * snapshot.h
 *		The snapshots that calls take.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SNAPSHOT_H
#define TQ_SNAPSHOT_H


extern void   tq_call_push(void);
extern void   tq_call_snapshot(void);
extern void   tq_call_push_latest(void);
extern void   tq_call_pop(void);
extern uint64 tq_call_snapshots(void);

#endif /* TQ_SNAPSHOT_H */
