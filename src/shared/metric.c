/*
 * metric.c
 *		Counters and histograms of each queue, in shared memory.
 *
 * There is one entry for each queue for which something has been counted, and
 * one for each database (queue 0).  There are at most taskq.max_metrics
 * entries; changes that find no room are not added, but their number is
 * counted.
 *
 * A committing transaction adds its notes (xact/metric_note.c).  So
 * the numbers are exact whenever they are read, and reading takes one copy for
 * each queue.  A slot for each backend, added up when the backend exits, would
 * keep backends of one queue from contending for its spinlock, which they hold
 * for some tens of instructions at each commit.  But each backend would need
 * as many entries as there are queues, and a reader would have to add up all
 * of them.
 *
 * Across a shutdown the numbers are kept in a file below the data directory,
 * which the postmaster writes when all other processes have exited, and
 * removes after reading it.  After a crash or an immediate shutdown all
 * numbers begin at zero: the memory may contain anything then, and pg_control
 * shows that.
 *
 * Locks: one LWLock, exclusive for creating and removing entries, shared for
 * finding them; under it, a spinlock in each entry.  Functions called at a
 * transaction's end cannot fail.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <unistd.h>

#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/atomics.h"
#include "port/pg_bitutils.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

#include "base/clock.h"
#include "base/guc.h"
#include "shared/crash_start.h"
#include "shared/metric.h"

#define METRIC_FILE PGSTAT_STAT_PERMANENT_DIRECTORY "/taskq_metrics.stat"
#define METRIC_LAYOUT 2 /* increase if the meaning of slots changes */

typedef struct MetricKey
{
	Oid   database;
	int32 queue_id;
} MetricKey;

typedef struct MetricEntry
{
	MetricKey      key;
	slock_t        mutex; /* guards what follows */
	TqMetrics      metrics;
	TqQuietMinutes quiet; /* of queue 0 */
} MetricEntry;

typedef struct MetricShared
{
	LWLock          *lock;
	TimestampTz      since; /* when all were zero; guarded by the lock */
	pg_atomic_uint64 not_counted;
} MetricShared;

/* The head of the file; entries and a checksum follow. */
typedef struct FileHead
{
	char        magic[8];
	uint32      layout;
	uint32      slots;
	uint64      entries;
	TimestampTz since;
} FileHead;

typedef struct FileEntry
{
	MetricKey      key;
	TqMetrics      metrics;
	TqQuietMinutes quiet;
} FileEntry;

static const char file_magic[8] = "taskqme";

/* Upper bounds of the buckets, microseconds. */
static const int64 bounds[TQ_BUCKETS - 1] = {1000,
											 2500,
											 5000,
											 10 * 1000,
											 25 * 1000,
											 50 * 1000,
											 100 * 1000,
											 250 * 1000,
											 500 * 1000,
											 USECS_PER_SEC,
											 2500 * 1000,
											 5 * USECS_PER_SEC,
											 10 * USECS_PER_SEC,
											 30 * USECS_PER_SEC,
											 USECS_PER_MINUTE,
											 2 * USECS_PER_MINUTE,
											 5 * USECS_PER_MINUTE,
											 10 * USECS_PER_MINUTE,
											 30 * USECS_PER_MINUTE,
											 USECS_PER_HOUR,
											 6 * USECS_PER_HOUR,
											 USECS_PER_DAY};

static MetricShared *shared = NULL;
static HTAB         *entries = NULL;

static MetricEntry *find(int32 queue_id);
static MetricEntry *find_or_make(int32 queue_id);
static MetricEntry *make(MetricKey key);
static void         remove_all(Oid database);
static void         load(void);
static bool         read_file(FILE *file, const char **problem);
static bool read_part(FILE *file, void *part, Size size, pg_crc32c *crc);
static bool was_shut_down(void);
static void save_at_exit(int code, Datum arg);
static bool write_file(FILE *file);
static bool write_part(FILE *file, const void *part, Size size,
					   pg_crc32c *crc);

Size
tq_metric_size(void)
{
	return add_size(
		MAXALIGN(sizeof(MetricShared)),
		hash_estimate_size(tq_guc_max_metrics, sizeof(MetricEntry)));
}

void
tq_metric_request(void)
{
	RequestNamedLWLockTranche("taskq metrics", 1);
}

void
tq_metric_init(void)
{
	HASHCTL ctl = {0};
	bool    found;

	shared = ShmemInitStruct("taskq metrics", sizeof(MetricShared), &found);
	ctl.keysize = sizeof(MetricKey);
	ctl.entrysize = sizeof(MetricEntry);
	entries = ShmemInitHash("taskq metric entries", tq_guc_max_metrics,
							tq_guc_max_metrics, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_FIXED_SIZE);
	if (found)
		return;
	shared->lock = &GetNamedLWLockTranche("taskq metrics")->lock;
	shared->since = tq_clock_wall();
	pg_atomic_init_u64(&shared->not_counted, 0);
	load();
	on_shmem_exit(save_at_exit, (Datum) 0);
}

void
tq_metric_wipe(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	remove_all(InvalidOid);
	shared->since = tq_clock_wall();
	pg_atomic_write_u64(&shared->not_counted, 0);
	LWLockRelease(shared->lock);
}

/* Are metrics counted at all? */
bool
tq_metric_ready(void)
{
	return shared != NULL;
}

/* The bucket of a duration in microseconds. */
int
tq_metric_bucket_of(int64 span)
{
	int low = 0;
	int high = TQ_BUCKETS - 1;

	while (low < high)
	{
		int middle = (low + high) / 2;

		if (span <= bounds[middle])
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The upper bound of any bucket but the last, microseconds. */
int64
tq_metric_bound(int bucket)
{
	Assert(bucket >= 0 && bucket < TQ_BUCKETS - 1);
	return bounds[bucket];
}

/* Add what a committed transaction has noted.  Cannot fail. */
void
tq_metric_add(int32 queue_id, const TqMetricChange *change)
{
	MetricEntry *entry;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_SHARED);
	entry = find_or_make(queue_id);
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		for (int word = 0; word < lengthof(change->marked); word++)
		{
			uint64 marked = change->marked[word];

			while (marked != 0)
			{
				int slot = word * 64 + pg_rightmost_one_pos64(marked);

				entry->metrics.slot[slot] += change->by.slot[slot];
				marked &= marked - 1;
			}
		}
		for (int i = 0; i < TQ_HISTOGRAMS; i++)
			entry->metrics.sum[i] += change->by.sum[i];
		SpinLockRelease(&entry->mutex);
	}
	else
		pg_atomic_fetch_add_u64(&shared->not_counted, 1);
	LWLockRelease(shared->lock);
}

/*
 * The metrics of a queue of this database; zeros if it has no entry.  Returns
 * false if it may have none for lack of room.
 */
bool
tq_metric_read(int32 queue_id, TqMetrics *metrics)
{
	MetricEntry *entry;
	bool         known;

	memset(metrics, 0, sizeof(*metrics));
	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	entry = find(queue_id);
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		*metrics = entry->metrics;
		SpinLockRelease(&entry->mutex);
	}
	known = entry != NULL ||
			hash_get_num_entries(entries) < tq_guc_max_metrics;
	LWLockRelease(shared->lock);
	return known;
}

/* When all numbers were zero; wall clock. */
TimestampTz
tq_metric_since(void)
{
	TimestampTz since = 0;

	if (shared == NULL)
		return since;
	LWLockAcquire(shared->lock, LW_SHARED);
	since = shared->since;
	LWLockRelease(shared->lock);
	return since;
}

/*
 * The number of changes in the server that were not counted for lack of room.
 */
int64
tq_metric_not_counted(void)
{
	return shared == NULL ? 0
						  : (int64) pg_atomic_read_u64(&shared->not_counted);
}

/* The queues of this database that have an entry. */
int
tq_metric_list(int32 **queue_ids)
{
	int             count = 0;
	HASH_SEQ_STATUS scan;
	MetricEntry    *entry;

	*queue_ids = palloc_extended(sizeof(int32) * (tq_guc_max_metrics + 1),
								 MCXT_ALLOC_HUGE);
	if (shared == NULL)
		return 0;
	LWLockAcquire(shared->lock, LW_SHARED);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database == MyDatabaseId && entry->key.queue_id != 0)
			(*queue_ids)[count++] = entry->key.queue_id;
	}
	LWLockRelease(shared->lock);
	return count;
}

/*
 * Keep in which minutes nothing happened in this database.  Returns false if
 * there is no room for it.
 */
bool
tq_metric_put_quiet(TqQuietMinutes quiet)
{
	MetricEntry *entry;

	if (shared == NULL)
		return false;
	LWLockAcquire(shared->lock, LW_SHARED);
	entry = find_or_make(0);
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		entry->quiet = quiet;
		SpinLockRelease(&entry->mutex);
	}
	LWLockRelease(shared->lock);
	return entry != NULL;
}

TqQuietMinutes
tq_metric_quiet(void)
{
	TqQuietMinutes quiet = {0, 0};
	MetricEntry   *entry;

	if (shared == NULL)
		return quiet;
	LWLockAcquire(shared->lock, LW_SHARED);
	entry = find(0);
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		quiet = entry->quiet;
		SpinLockRelease(&entry->mutex);
	}
	LWLockRelease(shared->lock);
	return quiet;
}

/* A queue was dropped.  Cannot fail. */
void
tq_metric_forget(int32 queue_id)
{
	MetricEntry *entry;

	if (shared == NULL)
		return;
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	entry = find(queue_id);
	if (entry != NULL)
		hash_search(entries, &entry->key, HASH_REMOVE, NULL);
	LWLockRelease(shared->lock);
}

/* The extension or the database was dropped.  Cannot fail. */
void
tq_metric_forget_database(Oid database)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	remove_all(database);
	LWLockRelease(shared->lock);
}

/* Called under the lock, in any mode. */
static MetricEntry *
find(int32 queue_id)
{
	MetricKey key;

	key.database = MyDatabaseId;
	key.queue_id = queue_id;
	return hash_search(entries, &key, HASH_FIND, NULL);
}

/* Called under the shared lock, which may be released for a moment. */
static MetricEntry *
find_or_make(int32 queue_id)
{
	MetricEntry *entry = find(queue_id);
	MetricKey    key;

	if (entry != NULL)
		return entry;
	key.database = MyDatabaseId;
	key.queue_id = queue_id;
	LWLockRelease(shared->lock);
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	(void) make(key);
	LWLockRelease(shared->lock);
	LWLockAcquire(shared->lock, LW_SHARED);
	return find(queue_id);
}

/*
 * Called under the exclusive lock, or in the postmaster; NULL if there is no
 * room.
 */
static MetricEntry *
make(MetricKey key)
{
	MetricEntry *entry = hash_search(entries, &key, HASH_FIND, NULL);
	bool         found;

	/* the hash allocates entries beyond its size, so check the limit here */
	if (entry != NULL || hash_get_num_entries(entries) >= tq_guc_max_metrics)
		return entry;
	entry = hash_search(entries, &key, HASH_ENTER_NULL, &found);
	if (entry == NULL)
		return NULL;
	SpinLockInit(&entry->mutex);
	memset(&entry->metrics, 0, sizeof(entry->metrics));
	memset(&entry->quiet, 0, sizeof(entry->quiet));
	return entry;
}

/*
 * Entries of one database, or of all; under the exclusive lock, or in the
 * postmaster.
 */
static void
remove_all(Oid database)
{
	HASH_SEQ_STATUS scan;
	MetricEntry    *entry;

	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (!OidIsValid(database) || entry->key.database == database)
			hash_search(entries, &entry->key, HASH_REMOVE, NULL);
	}
}

/*
 * At the server's start: load what the last shutdown has saved.  The file is
 * removed durably, or it would be found after a crash.
 */
static void
load(void)
{
	FILE       *file = AllocateFile(METRIC_FILE, PG_BINARY_R);
	const char *problem = "The last shutdown saved none.";
	bool        done = false;

	if (file != NULL && !was_shut_down())
	{
		problem = "The server was not shut down cleanly.";
		FreeFile(file);
	}
	else if (file != NULL)
	{
		done = read_file(file, &problem);
		FreeFile(file);
	}
	else if (errno != ENOENT)
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not open file \"%s\": %m", METRIC_FILE)));
	if (!done)
		ereport(LOG, (errmsg("taskq: metrics start at zero"),
					  errdetail_log("%s", problem)));
	if (access(METRIC_FILE, F_OK) == 0)
		durable_unlink(METRIC_FILE, LOG);
}

static bool
read_file(FILE *file, const char **problem)
{
	FileHead  head;
	pg_crc32c crc;
	pg_crc32c stored;

	*problem = "The saved metrics are from another version, or damaged.";
	INIT_CRC32C(crc);
	if (!read_part(file, &head, sizeof(head), &crc) ||
		memcmp(head.magic, file_magic, sizeof(file_magic)) != 0 ||
		head.layout != METRIC_LAYOUT || head.slots != TQ_METRIC_SLOTS)
		return false;
	for (uint64 i = 0; i < head.entries; i++)
	{
		FileEntry    kept;
		MetricEntry *entry;

		if (!read_part(file, &kept, sizeof(kept), &crc))
			break;
		entry = make(kept.key);
		if (entry != NULL)
		{
			entry->metrics = kept.metrics;
			entry->quiet = kept.quiet;
		}
	}
	FIN_CRC32C(crc);
	if (fread(&stored, sizeof(stored), 1, file) == 1 && EQ_CRC32C(stored, crc))
	{
		shared->since = head.since;
		return true;
	}
	remove_all(InvalidOid);
	return false;
}

static bool
read_part(FILE *file, void *part, Size size, pg_crc32c *crc)
{
	if (fread(part, size, 1, file) != 1)
		return false;
	COMP_CRC32C(*crc, part, size);
	return true;
}

/* Does pg_control show a clean shutdown, with nothing written since? */
static bool
was_shut_down(void)
{
	DBState state = tq_crash_start_state();

	return state == DB_SHUTDOWNED || state == DB_SHUTDOWNED_IN_RECOVERY;
}

/*
 * In the postmaster, which exits last: no other process changes the metrics.
 */
static void
save_at_exit(int code, Datum arg)
{
	FILE *file;
	bool  done;

	if (code != 0 || shared == NULL || !was_shut_down())
		return;
	file = AllocateFile(METRIC_FILE ".tmp", PG_BINARY_W);
	done = file != NULL && write_file(file);
	if (file != NULL && FreeFile(file) != 0)
		done = false;
	if (!done)
	{
		ereport(LOG, (errcode_for_file_access(),
					  errmsg("could not write file \"%s\": %m", METRIC_FILE)));
		(void) unlink(METRIC_FILE ".tmp");
		return;
	}
	(void) durable_rename(METRIC_FILE ".tmp", METRIC_FILE, LOG);
}

static bool
write_file(FILE *file)
{
	HASH_SEQ_STATUS scan;
	MetricEntry    *entry;
	FileHead        head = {{0}};
	pg_crc32c       crc;
	bool            done;

	memcpy(head.magic, file_magic, sizeof(file_magic));
	head.layout = METRIC_LAYOUT;
	head.slots = TQ_METRIC_SLOTS;
	head.entries = (uint64) hash_get_num_entries(entries);
	head.since = shared->since;
	INIT_CRC32C(crc);
	done = write_part(file, &head, sizeof(head), &crc);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		FileEntry kept;

		kept.key = entry->key;
		kept.metrics = entry->metrics;
		kept.quiet = entry->quiet;
		done = done && write_part(file, &kept, sizeof(kept), &crc);
	}
	FIN_CRC32C(crc);
	return done && fwrite(&crc, sizeof(crc), 1, file) == 1;
}

static bool
write_part(FILE *file, const void *part, Size size, pg_crc32c *crc)
{
	COMP_CRC32C(*crc, part, size);
	return fwrite(part, size, 1, file) == 1;
}
