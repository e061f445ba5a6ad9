/*
 * waiter_table.h
 *		The slots behind waiter.c and wake.c: for these alone.
 *
 * What may be known of them is in waiter.h; the rules, and the locks, are at
 * the head of waiter.c.
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
	TQ_WAKE_LOOK,  /* for whoever it is about; not passed on */
	TQ_WAKE_PLACE, /* a task of that lane */
	TQ_WAKE_ROOM   /* room for a task of that queue */
} TqWakeKind;

/* Whom a look is for. */
typedef enum TqWhose
{
	TQ_OF_NOBODY, /* PLACE and ROOM say whose */
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
	slock_t      mutex; /* guards the rest */
	TqWaiterKind kind;
	Oid          database;
	uint64       ticket;
	bool         armed; /* it can be woken; else it was, or is free */
	bool         woken;
	TqWake       wake;
	int64        task_id;
	int          ended; /* in which state, as far as was told; 0: not known */
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
	pg_atomic_uint32 broad; /* not of one queue or task */
	pg_atomic_uint32 buckets[TQ_WAITER_BUCKETS];

	int          slot_count;
	TqWaiterSlot slot[FLEXIBLE_ARRAY_MEMBER];
} TqWaiters;

/* NULL: the library was not preloaded. */
extern TqWaiters *tq_waiter_table;

/* The ticket of each armed slot, or 0: beside each other, for the search. */
extern pg_atomic_uint64 *tq_waiter_tickets;

/* with the slot locked */
extern void tq_waiter_disarm(TqWaiterSlot *slot);

extern pg_atomic_uint32 *tq_waiter_bucket(Oid database, int32 queue_id,
										  int64 key);
extern bool tq_waiter_has_queue(const TqWaitFor *wait_for, int32 queue_id);
extern bool tq_waiter_has_lane(const TqWaitFor *wait_for, int64 lane_id);

extern pg_atomic_uint32 *tq_waiter_bucket_of(const TqWaiterSlot *slot);

#endif /* TQ_WAITER_TABLE_H */
