/*
 * key_floor.c
 *		Where key queues begin.
 *
 * A task that has ended leaves its entry in the index of keys until vacuum
 * takes it away, and not before the oldest snapshot ends.  Who looks for the
 * next one of a key would walk over the entries of all that came before it.
 * So here stands, for as many keys as there is room for, the first task that
 * can be live: a look begins there.  No entry means the beginning.
 *
 * An entry must never say more than is so, since a task that is not seen
 * would wait for ever.  Hence
 * - a session that makes a task live that is before the floor, or may be,
 *   tells that before it writes the task and after it has looked itself
 *   (tq_key_floor_lower), with the key's lock, also if it comes to nothing;
 * - what a look finds counts what its own transaction has ended, which may be
 *   rolled back: it is told after the commit is visible (tq_key_floor_put),
 *   when the key's lock is gone already.  It is believed only if nobody has
 *   told anything about the key, or another one in the same bucket, since the
 *   moment that the look began with.
 *
 * The hash is seeded at random, so that nobody can choose two keys that are
 * taken for one another.  Buckets have a spinlock, held for a few
 * instructions; nothing here fails.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "shared/key_floor.h"

#define BUCKETS 4096 /* a power of two */
#define WAYS 4

typedef struct Head
{
	Oid          database; /* InvalidOid: free */
	TqKeyFloorOf of;
	int64        task_id;
} Head;

typedef struct Bucket
{
	slock_t mutex;  /* guards all below */
	int     next;   /* to be given to another key */
	uint64  moment; /* how often something was lowered */
	Head    heads[WAYS];
} Bucket;

typedef struct HeadShared
{
	uint64 seed;
	Bucket buckets[BUCKETS];
} HeadShared;

static HeadShared *shared = NULL;

static Bucket *bucket_of(const TqKeyFloorOf *of);
static Head   *find(Bucket *bucket, const TqKeyFloorOf *of);
static bool    is_before(const TqKeyFloorOf *of, int64 a, int64 b);

Size
tq_key_floor_size(void)
{
	return MAXALIGN(sizeof(HeadShared));
}

void
tq_key_floor_init(void)
{
	bool found;

	shared = ShmemInitStruct("taskq heads", sizeof(HeadShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(HeadShared));
	if (!pg_strong_random(&shared->seed, sizeof(shared->seed)))
		shared->seed = pg_prng_uint64(&pg_global_prng_state);
	for (int i = 0; i < BUCKETS; i++)
		SpinLockInit(&shared->buckets[i].mutex);
}

/* Nothing is known any more, of any key. */
void
tq_key_floor_wipe(void)
{
	if (shared == NULL)
		return;
	for (int i = 0; i < BUCKETS; i++)
	{
		Bucket *bucket = &shared->buckets[i];

		SpinLockAcquire(&bucket->mutex);
		bucket->moment++;
		memset(bucket->heads, 0, sizeof(bucket->heads));
		SpinLockRelease(&bucket->mutex);
	}
}

uint64
tq_key_floor_hash(const char *key, int length)
{
	return hash_bytes_extended((const unsigned char *) key, length,
							   shared == NULL ? 0 : shared->seed);
}

/*
 * The first task of the key that can be live; false: not known.  *moment is
 * for what is found now.
 */
bool
tq_key_floor_get(const TqKeyFloorOf *of, int64 *task_id, uint64 *moment)
{
	Bucket *bucket;
	Head   *head;

	*moment = 0;
	if (shared == NULL)
		return false;
	bucket = bucket_of(of);
	SpinLockAcquire(&bucket->mutex);
	*moment = bucket->moment;
	head = find(bucket, of);
	if (head != NULL)
		*task_id = head->task_id;
	SpinLockRelease(&bucket->mutex);
	return head != NULL;
}

/* The task is live now, or will be. */
void
tq_key_floor_lower(const TqKeyFloorOf *of, int64 task_id)
{
	Bucket *bucket;
	Head   *head;

	if (shared == NULL)
		return;
	bucket = bucket_of(of);
	SpinLockAcquire(&bucket->mutex);
	bucket->moment++;
	head = find(bucket, of);
	if (head != NULL && is_before(of, task_id, head->task_id))
		head->task_id = task_id;
	SpinLockRelease(&bucket->mutex);
}

/* A transaction that has looked is committed. */
void
tq_key_floor_put(const TqKeyFloorFound *found)
{
	Bucket *bucket;
	Head   *head;

	if (shared == NULL)
		return;
	bucket = bucket_of(&found->of);
	SpinLockAcquire(&bucket->mutex);
	if (bucket->moment == found->moment)
	{
		head = find(bucket, &found->of);
		if (head == NULL)
		{
			head = &bucket->heads[bucket->next];
			bucket->next = (bucket->next + 1) % WAYS;
			head->database = MyDatabaseId;
			head->of = found->of;
			head->task_id = found->task_id;
		}
		else if (is_before(&found->of, head->task_id, found->task_id))
			head->task_id = found->task_id;
	}
	SpinLockRelease(&bucket->mutex);
}

static Bucket *
bucket_of(const TqKeyFloorOf *of)
{
	uint64 hash = hash_combine64(of->hash, (uint64) of->queue_id);

	return &shared->buckets[hash & (BUCKETS - 1)];
}

static Head *
find(Bucket *bucket, const TqKeyFloorOf *of)
{
	for (int i = 0; i < WAYS; i++)
	{
		Head *head = &bucket->heads[i];

		if (head->database == MyDatabaseId &&
			head->of.queue_id == of->queue_id && head->of.lifo == of->lifo &&
			head->of.hash == of->hash)
			return head;
	}
	return NULL;
}

static bool
is_before(const TqKeyFloorOf *of, int64 a, int64 b)
{
	return of->lifo ? a > b : a < b;
}
