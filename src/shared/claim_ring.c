/*
 * claim_ring.c
 *		Candidates of a lane for the next claims, found by an earlier claim.
 *
 * A claim that has scanned the dispatch index has already seen the next
 * entries, which the following claims would have to find again.  It leaves
 * some of them here, in their order; a claim removes the first entry and tries
 * it, and reads the index only if the ring is empty.  So concurrent claims try
 * different rows.  A candidate is a hint: the claim checks the row before it
 * uses it.
 *
 * Without concurrent claims, a claim must get the best task.  So a ring has
 * all tasks that can be claimed between its first and its last entry: if a
 * task before the last entry becomes claimable, the ring is emptied
 * (tq_claim_ring_lower, called after the change is visible).  The claim that
 * fills a ring scanned some time ago.  The positions published since then, in
 * order, are in the last few LOWERS; if one of them precedes its last entry,
 * or may have been forgotten, the claim leaves no candidates.
 *
 * A session whose snapshot is older than that of the claim that filled the
 * ring may not see a task that it removes, though a newer snapshot would.
 * That task must not fall behind the others, so the ring is emptied then
 * (engine/dispatch.c).  If a session that sees everything the filling claim
 * saw cannot use an entry, the entry is dead and is dropped.
 *
 * The number of entries that claims leave grows while they are used up, and
 * shrinks while they are discarded.
 *
 * There are RINGS rings.  A hash of lane and priority chooses the ring, which
 * belongs to the lane and priority that filled it last.  Published positions
 * are noted for all that share it.  Each ring has a spinlock, held for a few
 * instructions or while some entries are copied; nothing here fails.
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
	slock_t     mutex; /* guards everything below */
	Oid         database;
	int64       lane_id;
	int16       priority;
	int         wanted;
	int         first;
	int         count;
	TqPosition  last;   /* of the candidates left by the last fill */
	uint64      moment; /* before the snapshot of the filling claim */
	TqCandidate candidates[TQ_RING_SIZE];
	int         next_lower; /* index of the oldest one */
	Lower       lowers[LOWERS];
} Ring;

typedef struct RingShared
{
	pg_atomic_uint64 number; /* of the last published position */
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

	shared = ShmemInitStruct("taskq claim rings", sizeof(RingShared), &found);
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

/* Empty all rings, of all databases. */
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

/*
 * To be called before the snapshot of a claim that may fill rings; 0 without
 * shared memory.
 */
uint64
tq_claim_ring_moment(void)
{
	return shared == NULL ? 0 : pg_atomic_read_u64(&shared->number);
}

/*
 * Get the position of the next candidate.  Returns false if the ring is empty.
 */
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

/* Remove the next candidate; *moment is that of the claim that left it. */
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

/* How many candidates a claim should leave. */
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
 * Leave candidates: all entries that a scan, after the moment, would have met
 * next.
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
	/* if all are later, earlier ones may have been overwritten */
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

/* A candidate was removed and not used: empty the ring. */
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

/* Tasks have become claimable, now or later, visible to other sessions. */
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

		/* under the lock, so that numbers ascend in each ring */
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

/* The ring, locked; NULL, and not locked, if it has no candidates. */
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
