/*
 * waiter_table.h
 *		The slots behind waiter.c and wake.c; private to them.
 *
 * The public part is in waiter.h; the rules and locks are at the head of
 * waiter.c.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAITER_TABLE_H
#define TQ_WAITER_TABLE_H

#include "base/compat.h"

#include "port/atomics.h"
#include "storage/spin.h"

#include "shared/waiter_types.h"

#define TQ_WAITER_BUCKETS 1024

typedef enum TqWaiterKind
{
	TQ_WAITER_FREE,
	TQ_WAITER_CLAIM,
	TQ_WAITER_TASK
} TqWaiterKind;

typedef enum TqWakeKind
{
	TQ_WAKE_LOOK,  /* for all waiters concerned; not passed on */
	TQ_WAKE_PLACE, /* a task of that lane */
	TQ_WAKE_ROOM   /* room for a task of that queue */
} TqWakeKind;

/* The waiters for which a TQ_WAKE_LOOK is. */
typedef enum TqWhose
{
	TQ_OF_NOBODY, /* of PLACE and ROOM, which name the queue */
	TQ_OF_QUEUE,
	TQ_OF_WORKER,
	TQ_OF_WORKER_ROOM,
	TQ_OF_MADE,
	TQ_OF_DATABASE,
	TQ_OF_TASK
} TqWhose;

typedef struct TqWake
{
	TqWakeKind kind;
	TqWhose    whose;
	Oid        database;
	int32      id;    /* of the queue or worker; state of the task */
	int64      key;   /* the lane, or task */
	uint64     after; /* only those with later tickets */
} TqWake;

typedef struct TqWaiterSlot
{
	slock_t      mutex; /* guards everything below */
	TqWaiterKind kind;
	Oid          database;
	uint64       ticket;
	bool         armed; /* can be woken; otherwise already woken, or free */
	bool         woken;
	TqWake       wake;
	int64        task_id;
	int          ended; /* reported final state of the task; 0: unknown */
	TqWaitFor    wait_for;
} TqWaiterSlot;

typedef struct TqWaiters
{
	pg_atomic_uint64 last_ticket;
	pg_atomic_uint64 sleeps;
	pg_atomic_uint64 wakes;
	pg_atomic_uint64 passed_on;

	/* armed slots: all, those at a limit, by what they wait for */
	pg_atomic_uint32 all;
	pg_atomic_uint32 at_limit;
	pg_atomic_uint32 broad; /* not for a single queue or task */
	pg_atomic_uint32 buckets[TQ_WAITER_BUCKETS];

	int          slot_count;
	TqWaiterSlot slot[FLEXIBLE_ARRAY_MEMBER];
} TqWaiters;

/* NULL if the library was not preloaded. */
extern TqWaiters *tq_waiter_table;

/* The ticket of each armed slot, or 0; adjacent, for the search. */
extern pg_atomic_uint64 *tq_waiter_tickets;

/* with the slot locked */
extern void tq_waiter_disarm(TqWaiterSlot *slot);

extern pg_atomic_uint32 *tq_waiter_bucket(Oid database, int32 queue_id,
										  int64 key);
extern bool tq_waiter_has_queue(const TqWaitFor *wait_for, int32 queue_id);
extern bool tq_waiter_has_lane(const TqWaitFor *wait_for, int64 lane_id);

extern pg_atomic_uint32 *tq_waiter_bucket_of(const TqWaiterSlot *slot);

#endif /* TQ_WAITER_TABLE_H */
