/*
 * key_floor.c
 *		The first position of each key queue that can be live.
 *
 * A task that has ended leaves its entry in the index of keys until vacuum
 * removes it, which requires that the oldest snapshot has ended.  A search for
 * the next task of a key would scan the entries of all earlier ones.  So this
 * table stores, for as many keys as it has room for, the first task that can
 * be live, at which a search starts.  Without an entry a search starts at the
 * beginning.
 *
 * A floor must never be too high, since a task that is not seen would wait for
 * ever.  Hence:
 * - A session that makes a task live that is, or may be, before the floor
 *   lowers the floor before it writes the task and after its own search
 *   (tq_key_floor_lower), under the key's lock, even if nothing is written.
 * - What a search finds depends on tasks ended by its own transaction, which
 *   may roll back.  So it is stored after the commit is visible
 *   (tq_key_floor_put), when the key's lock has already been released.  It is
 *   accepted only if nothing has been lowered for the key, or for another key
 *   in the same bucket, since the moment at which the search began.
 *
 * The hash has a random seed, so that two keys with the same hash cannot be
 * chosen on purpose.  Buckets have a spinlock, held for a few instructions;
 * nothing here fails.
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
	slock_t mutex;  /* guards everything below */
	int     next;   /* next entry to be reused */
	uint64  moment; /* number of calls that lowered a floor */
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

	shared = ShmemInitStruct("taskq key floors", sizeof(HeadShared), &found);
	if (found)
		return;
	memset(shared, 0, sizeof(HeadShared));
	if (!pg_strong_random(&shared->seed, sizeof(shared->seed)))
		shared->seed = pg_prng_uint64(&pg_global_prng_state);
	for (int i = 0; i < BUCKETS; i++)
		SpinLockInit(&shared->buckets[i].mutex);
}

/* Forget the floors of all keys. */
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
 * The first task of the key that can be live; false if unknown.  *moment must
 * be passed with what the search finds.
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

/* The task is live, or will be. */
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

/* The transaction of a search has committed. */
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
