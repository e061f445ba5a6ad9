/*
 * snapshot.h
 *		Snapshots of calls.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SNAPSHOT_H
#define TQ_SNAPSHOT_H

extern void   tq_snapshot_push(void);
extern void   tq_snapshot_renew(void);
extern void   tq_snapshot_push_latest(void);
extern void   tq_snapshot_pop(void);
extern uint64 tq_snapshot_count(void);

#endif /* TQ_SNAPSHOT_H */
