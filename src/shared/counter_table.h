/*
 * counter_table.h
 *		The table behind counter.c, reservation.c and rate_bucket.c; private to
 *		them.
 *
 * Its public part is in counter.h and counter_types.h; the rules and locks are
 * at the head of counter.c.
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

#define TQ_OWNER_DATABASE 0 /* in addition to TqOwner */
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
	slock_t      mutex; /* guards everything below except flagged */

	/* of a database: numbers are known if seen = flagged */
	pg_atomic_uint64 flagged;
	uint64           seen;
	bool             missing; /* some queue found no room for an entry */

	/* live tasks of a queue */
	int64            live[TQ_LIVE_NUMBERS];
	uint64           changes;    /* number of writes of live */
	int64            left_at;    /* last departure, monotonic clock; 0: none */
	pg_atomic_uint64 claimed_at; /* dispatch clock, about; 0: none yet */
	double           pause;      /* mean of microseconds between departures */

	/* reserved claims: known if used_seen = flagged of the database */
	bool   limited; /* used has been requested and is maintained */
	int64  used;
	uint64 used_seen;
	uint64 epoch; /* of the last recount */
	bool   recounting;
	bool   again; /* the recount must be repeated */
	int    ended_count;
	int64  ended[TQ_COUNTER_ENDED];

	/* token bucket of claims */
	TqRate rate;
	double level;
	int64  filled_at; /* monotonic clock */
	int64  full_at;   /* when it was last seen full, or emptied */
} TqCounter;

typedef struct TqCounterTable
{
	LWLock *lock;
	uint64  instance; /* never repeated; guarded by the lock */
} TqCounterTable;

/* NULL if the library was not preloaded. */
extern TqCounterTable *tq_counter_table;
extern HTAB           *tq_counter_hash; /* of TqCounter */

extern TqCounter *tq_counter_find(int owner, int32 id);
extern TqCounter *tq_counter_find_or_make(int owner, int32 id);
extern TqCounter *tq_counter_make(int owner, int32 id);
extern uint64     tq_counter_flagged(TqCounter *database);
extern uint64     tq_counter_new_number(void);

#endif /* TQ_COUNTER_TABLE_H */
