/*
 * counter_table.h
 *		The table behind counter.c, reservation.c and rate_bucket.c: for these
 *		alone.
 *
 * What may be known of it is in counter.h and counter_types.h; its rules, and
 * its locks, are at the head of counter.c.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COUNTER_TABLE_H
#define TQ_COUNTER_TABLE_H

#include "base/compat.h"

#include "port/atomics.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "shared/counter_types.h"

#define TQ_OWNER_DATABASE 0 /* beside TqOwner */
#define TQ_COUNTER_ENDED 48 /* ends of claims during a recount of an entry */

typedef struct TqCounterKey
{
	Oid   database;
	int32 owner;
	int32 id;
} TqCounterKey;

typedef struct TqCounter
{
	TqCounterKey key;
	slock_t      mutex; /* guards all below but flagged */

	/* of a database: numbers are known while seen = flagged */
	pg_atomic_uint64 flagged;
	uint64           seen;
	bool             missing; /* some queue has no entry, for want of room */

	/* live tasks of a queue */
	int64            live[TQ_LIVE_STATES];
	uint64           changes;    /* how often live was written */
	int64            left_at;    /* monotonic clock; 0: never */
	pg_atomic_uint64 claimed_at; /* dispatch clock, to about a second; 0:
								 * not since this entry was made */
	double           pause; /* mean of microseconds between tasks that leave */

	/* reserved claims: known while used_seen = flagged of the database */
	bool   limited; /* somebody asked, so used is kept */
	int64  used;
	uint64 used_seen;
	uint64 epoch; /* of the last recount */
	bool   recounting;
	bool   again; /* the recount is of no use */
	int    ended_count;
	int64  ended[TQ_COUNTER_ENDED];

	/* bucket of claims */
	TqRate rate;
	double level;
	int64  filled_at; /* monotonic clock */
	int64  full_at;   /* when it was last seen full, or emptied */
} TqCounter;

typedef struct TqCounterTable
{
	LWLock *lock;
	uint64  instance; /* never twice the same; guarded by the lock */
} TqCounterTable;

/* NULL: the library was not preloaded. */
extern TqCounterTable *tq_counter_table;
extern HTAB           *tq_counter_hash; /* of TqCounter */

extern TqCounter *tq_counter_find(int owner, int32 id);
extern TqCounter *tq_counter_find_or_make(int owner, int32 id);
extern TqCounter *tq_counter_make(int owner, int32 id);
extern uint64     tq_counter_flagged(TqCounter *database);
extern uint64     tq_counter_new_number(void);

#endif /* TQ_COUNTER_TABLE_H */
