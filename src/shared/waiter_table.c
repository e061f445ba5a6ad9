/*
 * waiter_table.c
 *		The slots of waiters, shared by waiter.c and wake.c.
 *
 * The rules and the locks are at the head of waiter.c.  A slot that can be
 * woken ("armed") is counted in the bucket of the queue or task for which it
 * waits, or among the broad slots if there are several, so a commit in a queue
 * without waiters reads two numbers.  These counts change while the slot's
 * spinlock is held.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/hashfn.h"

#include "shared/waiter_table.h"

TqWaiters        *tq_waiter_table = NULL;
pg_atomic_uint64 *tq_waiter_tickets = NULL;

/* The slot can no longer be woken.  It is locked. */
void
tq_waiter_disarm(TqWaiterSlot *slot)
{
	if (!slot->armed)
		return;
	slot->armed = false;
	pg_atomic_write_u64(&tq_waiter_tickets[slot - tq_waiter_table->slot], 0);
	pg_atomic_fetch_sub_u32(&tq_waiter_table->all, 1);
	pg_atomic_fetch_sub_u32(tq_waiter_bucket_of(slot), 1);
	if (slot->wait_for.at_limit != 0 || slot->wait_for.worker_full)
		pg_atomic_fetch_sub_u32(&tq_waiter_table->at_limit, 1);
}

/* The counter of waiters for one queue, or task. */
pg_atomic_uint32 *
tq_waiter_bucket(Oid database, int32 queue_id, int64 key)
{
	uint32 hash =
		hash_combine(murmurhash32(database), murmurhash32((uint32) queue_id));

	hash = hash_combine(hash, (uint32) key);
	return &tq_waiter_table->buckets[murmurhash32(hash) % TQ_WAITER_BUCKETS];
}

bool
tq_waiter_has_queue(const TqWaitFor *wait_for, int32 queue_id)
{
	for (int i = 0; i < wait_for->queue_count; i++)
	{
		if (wait_for->queues[i] == queue_id)
			return true;
	}
	return wait_for->queue_count < 0;
}

bool
tq_waiter_has_lane(const TqWaitFor *wait_for, int64 lane_id)
{
	for (int i = 0; i < wait_for->lane_count; i++)
	{
		if (wait_for->lanes[i] == lane_id)
			return true;
	}
	return wait_for->lane_count < 0;
}

pg_atomic_uint32 *
tq_waiter_bucket_of(const TqWaiterSlot *slot)
{
	if (slot->kind == TQ_WAITER_TASK)
		return tq_waiter_bucket(slot->database, 0, slot->task_id);
	if (slot->wait_for.queue_count == 1)
		return tq_waiter_bucket(slot->database, slot->wait_for.queues[0], 0);
	return &tq_waiter_table->broad;
}
