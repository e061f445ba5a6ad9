/*
 * claim_ring.c
 *		The next tasks of a lane, found by one claim for others.
 *
 * A claim that has walked over the dispatch index has the next entries at
 * hand, which the next claims would have to look for.  It leaves some of
 * them here, in their order; a claim that finds some takes the first one
 * away and tries it, and reads the index only when there are none.  So
 * claims that are made at once try different rows.  What is here is a hint:
 * whoever takes it looks at the row before he believes anything.
 *
 * A claim that is alone must get the best task.  So the entries of a ring
 * are all that can be claimed between its first and its last one: when
 * something before the last one becomes claimable, the ring is emptied
 * (tq_claim_ring_lower, told after it is visible).  Who fills a ring looked
 * some time ago; what has been told since then, in order, stands in the last
 * few LOWERS, and when one of them comes before his last entry, or may have
 * been forgotten, nothing is left.
 *
 * Somebody whose snapshot is older than that of who filled the ring may not
 * see a task that he takes out, though the next one would.  That task must not
 * get behind the others, so then the ring is emptied (engine/dispatch.c).  An
 * entry that is of no use to who sees all that the filler saw is dead, and is
 * just dropped.
 *
 * How many entries are left grows while they are used up, and shrinks while
 * they are thrown away.
 *
 * There are RINGS rings; that of a lane and priority is chosen by a hash,
 * and belongs to who filled it last.  Lowers are noted for all that share
 * it.  Each has a spinlock, held for a few instructions, or while some
 * entries are copied; nothing here fails.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "shared/claim_ring.h"

#define RINGS 256
#define LOWERS 8
#define WANTED_FIRST 4

typedef struct Lower
{
	uint64     number;
	TqPosition position;
} Lower;

typedef struct Ring
{
	slock_t     mutex; /* guards all below */
	Oid         database;
	int64       lane_id;
	int16       priority;
	int         wanted;
	int         first;
	int         count;
	TqPosition  last;   /* of those it was filled with */
	uint64      moment; /* before the snapshot of who filled it */
	TqCandidate candidates[TQ_RING_SIZE];
	int         next_lower; /* the oldest */
	Lower       lowers[LOWERS];
} Ring;

typedef struct RingShared
{
	pg_atomic_uint64 number; /* of the last lower */
	Ring             rings[RINGS];
} RingShared;

static RingShared *shared = NULL;

static Ring *lock_filled(int64 lane_id, int16 priority);
static Ring *lock_ring(int64 lane_id, int16 priority);
static bool  is_of(const Ring *ring, int64 lane_id, int16 priority);
static bool  not_after(TqPosition a, TqPosition b);

Size
tq_claim_ring_size(void)
{
	return MAXALIGN(sizeof(RingShared));
}

void
tq_claim_ring_init(void)
{
	bool found;

	shared = ShmemInitStruct("taskq rings", sizeof(RingShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(RingShared));
	pg_atomic_init_u64(&shared->number, 1);
	for (int i = 0; i < RINGS; i++)
	{
		SpinLockInit(&shared->rings[i].mutex);
		shared->rings[i].wanted = WANTED_FIRST;
	}
}

/* Nothing is left, of any database. */
void
tq_claim_ring_wipe(void)
{
	if (shared == NULL)
		return;
	for (int i = 0; i < RINGS; i++)
	{
		Ring *ring = &shared->rings[i];
		Lower lower;

		lower.number = pg_atomic_fetch_add_u64(&shared->number, 1) + 1;
		lower.position = TQ_DEAD_RANGE_BEGIN;
		SpinLockAcquire(&ring->mutex);
		ring->count = 0;
		ring->lowers[ring->next_lower] = lower;
		ring->next_lower = (ring->next_lower + 1) % LOWERS;
		SpinLockRelease(&ring->mutex);
	}
}

/* Before the snapshot of a claim that may fill rings; 0: there are none. */
uint64
tq_claim_ring_moment(void)
{
	return shared == NULL ? 0 : pg_atomic_read_u64(&shared->number);
}

/* Where the next candidate stands; false when there is none. */
bool
tq_claim_ring_look(int64 lane_id, int16 priority, TqPosition *first)
{
	Ring *ring = lock_filled(lane_id, priority);

	if (ring == NULL)
		return false;
	*first = ring->candidates[ring->first].position;
	SpinLockRelease(&ring->mutex);
	return true;
}

/* Take the next candidate away; *moment is that of who left it. */
bool
tq_claim_ring_pop(int64 lane_id, int16 priority, TqCandidate *candidate,
				  uint64 *moment)
{
	Ring *ring = lock_filled(lane_id, priority);

	if (ring == NULL)
		return false;
	*candidate = ring->candidates[ring->first++];
	*moment = ring->moment;
	if (--ring->count == 0)
		ring->wanted = Min(ring->wanted * 2, TQ_RING_SIZE);
	SpinLockRelease(&ring->mutex);
	return true;
}

/* How many candidates a claim shall leave. */
int
tq_claim_ring_wanted(int64 lane_id, int16 priority)
{
	Ring *ring;
	int   wanted;

	if (shared == NULL)
		return 0;
	ring = lock_ring(lane_id, priority);
	if (ring->count > 0 && is_of(ring, lane_id, priority))
		wanted = 0;
	else
		wanted = ring->wanted;
	SpinLockRelease(&ring->mutex);
	return wanted;
}

/*
 * Leave candidates: all entries that a walk, after the moment, would have
 * met next.
 */
void
tq_claim_ring_fill(int64 lane_id, int16 priority,
				   const TqCandidate *candidates, int count, uint64 moment)
{
	Ring      *ring;
	TqPosition last = candidates[count - 1].position;
	int        later = 0;
	bool       fits = true;

	Assert(count > 0 && count <= TQ_RING_SIZE);
	if (shared == NULL)
		return;
	ring = lock_ring(lane_id, priority);
	for (int i = 0; i < LOWERS; i++)
	{
		const Lower *lower = &ring->lowers[i];

		if (lower->number <= moment)
			continue;
		later++;
		if (not_after(lower->position, last))
			fits = false;
	}
	/* when all are later there may have been more */
	if (fits && later < LOWERS &&
		(ring->count == 0 || !is_of(ring, lane_id, priority)))
	{
		ring->database = MyDatabaseId;
		ring->lane_id = lane_id;
		ring->priority = priority;
		ring->first = 0;
		ring->count = count;
		ring->last = last;
		ring->moment = moment;
		memcpy(ring->candidates, candidates, sizeof(TqCandidate) * count);
	}
	SpinLockRelease(&ring->mutex);
}

/* A candidate was taken away and not used. */
void
tq_claim_ring_empty(int64 lane_id, int16 priority)
{
	Ring *ring;

	if (shared == NULL)
		return;
	ring = lock_ring(lane_id, priority);
	if (is_of(ring, lane_id, priority))
		ring->count = 0;
	SpinLockRelease(&ring->mutex);
}

/* Tasks have become claimable, now or later, and others can see it. */
void
tq_claim_ring_lower(const TqLanePosition *places, int count)
{
	if (shared == NULL)
		return;
	for (int i = 0; i < count; i++)
	{
		const TqLanePosition *place = &places[i];
		Lower                 lower;
		Ring *ring = lock_ring(place->lane_id, place->priority);

		/* with the lock: in each ring numbers rise */
		lower.number = pg_atomic_fetch_add_u64(&shared->number, 1) + 1;
		lower.position = (TqPosition){place->available_at, place->task_id};
		ring->lowers[ring->next_lower] = lower;
		ring->next_lower = (ring->next_lower + 1) % LOWERS;
		if (ring->count > 0 && not_after(lower.position, ring->last) &&
			is_of(ring, place->lane_id, place->priority))
		{
			ring->count = 0;
			ring->wanted = Max(ring->wanted / 2, 1);
		}
		SpinLockRelease(&ring->mutex);
	}
}

/* The ring, locked; NULL, and nothing locked, when it has no candidates. */
static Ring *
lock_filled(int64 lane_id, int16 priority)
{
	Ring *ring;

	if (shared == NULL)
		return NULL;
	ring = lock_ring(lane_id, priority);
	if (ring->count > 0 && is_of(ring, lane_id, priority))
		return ring;
	SpinLockRelease(&ring->mutex);
	return NULL;
}

static Ring *
lock_ring(int64 lane_id, int16 priority)
{
	uint64 hash = tq_dead_range_core_hash(MyDatabaseId, lane_id);
	Ring  *ring = &shared->rings[(hash + (uint64) priority) % RINGS];

	SpinLockAcquire(&ring->mutex);
	return ring;
}

static bool
is_of(const Ring *ring, int64 lane_id, int16 priority)
{
	return ring->lane_id == lane_id && ring->priority == priority &&
		   ring->database == MyDatabaseId;
}

static bool
not_after(TqPosition a, TqPosition b)
{
	return a.at < b.at || (a.at == b.at && a.task_id <= b.task_id);
}
