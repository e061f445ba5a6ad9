/*
 * running.c
 *		The table of running tasks, in shared memory.
 *
 * No index contains the columns that a claim changes, so running tasks whose
 * lease or worker has ended are found here.  An entry is a hint: before it is
 * used, the row of the task is checked again.
 *
 * Entries are added and removed by the commit of the claim and of its end
 * (xact/xact.c), so functions called from there acquire a lock for a few
 * instructions and cannot fail.  The table has a fixed size, set by
 * taskq.max_running_tracked; if it is full the entry is omitted and the
 * database flagged as incomplete.  The end of a prepared transaction, a wipe,
 * and the server's start also flag databases.  While a database is incomplete
 * its background worker scans taskq.task completely and adds every running
 * task visible then; later claims add themselves when they commit.  (This is
 * why entries are added after the commit: an entry added earlier could be
 * wiped before the claim is visible.)
 *
 * Locks: the partition lock of a task's hash value guards its entry; database
 * flags have a spinlock.
 *
 * If the library is not in shared_preload_libraries there is no table: it has
 * no entries and is never complete.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

#include "base/compare.h"
#include "base/guc.h"
#include "shared/running.h"

#define PARTITIONS 16
#define DATABASES 256 /* a database beyond these is never complete */

typedef struct EntryKey
{
	int64  task_id;
	Oid    database;
	uint32 unused; /* zero, since the key is compared bytewise */
} EntryKey;

typedef struct Entry
{
	EntryKey  key;
	TqRunning running;
	float4    progress; /* negative: not reported */
	char      message[TQ_PROGRESS_MESSAGE + 1];
} Entry;

/* A database is complete if seen = flagged. */
typedef struct DatabaseFlag
{
	Oid    database;
	uint64 flagged; /* changes whenever entries may have been lost */
	uint64 seen;    /* flagged, when the last rebuild began */
	int    asked;   /* TQ_ASK_... bits: duties asked to run now */
	uint64 timers;  /* due times at which the timer has fired */
} DatabaseFlag;

typedef struct RunningShared
{
	LWLockPadded *locks;
	slock_t       mutex; /* guards everything below */
	uint64        last_flagged;
	int           database_count;
	DatabaseFlag  databases[DATABASES];
} RunningShared;

static RunningShared *shared = NULL;
static HTAB          *entries = NULL;

static LWLock  *lock_of(uint32 hash);
static EntryKey key_of(int64 task_id);
static uint32   hash_of(const EntryKey *key);
static Entry   *entry_begin(int64 task_id, LWLockMode mode, LWLock **lock);
static DatabaseFlag *find_flag(Oid database);
static DatabaseFlag *flag_begin(void);
static void          flag_end(void);
static void          lock_all(LWLockMode mode);
static void          unlock_all(void);

Size
tq_running_size(void)
{
	return add_size(
		MAXALIGN(sizeof(RunningShared)),
		hash_estimate_size(tq_guc_max_running_tracked, sizeof(Entry)));
}

void
tq_running_request(void)
{
	RequestNamedLWLockTranche("taskq running", PARTITIONS);
}

void
tq_running_init(void)
{
	bool    found;
	HASHCTL ctl = {0};

	shared = ShmemInitStruct("taskq running", sizeof(RunningShared), &found);
	if (!found)
	{
		memset(shared, 0, sizeof(RunningShared));
		SpinLockInit(&shared->mutex);
		shared->locks = GetNamedLWLockTranche("taskq running");
	}
	ctl.keysize = sizeof(EntryKey);
	ctl.entrysize = sizeof(Entry);
	ctl.num_partitions = PARTITIONS;
	entries = ShmemInitHash("taskq running tasks", tq_guc_max_running_tracked,
							tq_guc_max_running_tracked, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_PARTITION |
								HASH_FIXED_SIZE);
}

/* Remove all entries of all databases. */
void
tq_running_wipe(void)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;

	if (shared == NULL)
		return;
	lock_all(LW_EXCLUSIVE);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		hash_search(entries, &entry->key, HASH_REMOVE, NULL);
	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < shared->database_count; i++)
		shared->databases[i].flagged = ++shared->last_flagged;
	SpinLockRelease(&shared->mutex);
	unlock_all();
}

/*
 * The extension or the database was dropped, or the database no longer allows
 * connections.  If it returns it is not complete.  Cannot fail.
 */
void
tq_running_forget_database(Oid database)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;
	DatabaseFlag   *flag;

	lock_all(LW_EXCLUSIVE);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database == database)
			hash_search(entries, &entry->key, HASH_REMOVE, NULL);
	}
	SpinLockAcquire(&shared->mutex);
	flag = find_flag(database);
	if (flag != NULL)
		*flag = shared->databases[--shared->database_count];
	SpinLockRelease(&shared->mutex);
	unlock_all();
}

/*
 * A claim has committed, or its end has moved.  A session that adds entries
 * from rows may be late with an old version, which never replaces a newer one.
 * Cannot fail.
 */
void
tq_running_put(const TqRunning *running)
{
	EntryKey key = key_of(running->task_id);
	uint32   hash = hash_of(&key);
	bool     found;
	Entry   *entry;

	if (shared == NULL)
		return;
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	entry = hash_search_with_hash_value(entries, &key, hash, HASH_ENTER_NULL,
										&found);
	if (entry != NULL &&
		(!found || entry->running.version <= running->version))
	{
		if (!found || entry->running.token != running->token)
		{
			entry->progress = -1;
			entry->message[0] = '\0';
		}
		entry->running = *running;
	}
	LWLockRelease(lock_of(hash));
	if (entry == NULL)
		tq_running_flag();
}

/*
 * A task has stopped running with that version of its row, or, if its lease
 * has expired, with the version of the claim.  The call may be late, when the
 * next claim has added its entry with a newer version.  Cannot fail.
 */
void
tq_running_remove(int64 task_id, int64 version)
{
	LWLock *lock;
	Entry  *entry = entry_begin(task_id, LW_EXCLUSIVE, &lock);

	if (entry == NULL)
		return;
	if (entry->running.version <= version)
		hash_search(entries, &entry->key, HASH_REMOVE, NULL);
	LWLockRelease(lock);
}

/*
 * Remove an entry that was found obsolete, unless it has changed since.
 */
void
tq_running_drop(const TqRunning *seen)
{
	LWLock *lock;
	Entry  *entry = entry_begin(seen->task_id, LW_EXCLUSIVE, &lock);

	if (entry == NULL)
		return;
	if (entry->running.token == seen->token &&
		entry->running.due_at == seen->due_at)
		hash_search(entries, &entry->key, HASH_REMOVE, NULL);
	LWLockRelease(lock);
}

/* Entries of this database may be missing.  Cannot fail. */
void
tq_running_flag(void)
{
	DatabaseFlag *flag;

	if (shared == NULL)
		return;
	SpinLockAcquire(&shared->mutex);
	flag = find_flag(MyDatabaseId);
	if (flag != NULL)
		flag->flagged = ++shared->last_flagged;
	SpinLockRelease(&shared->mutex);
}

/* Does the table contain all running tasks of this database? */
bool
tq_running_complete(void)
{
	DatabaseFlag *flag = flag_begin();
	bool          complete;

	if (flag == NULL)
		return false;
	complete = flag->seen == flag->flagged;
	flag_end();
	return complete;
}

/*
 * Begin a scan that adds every running task; its snapshot is taken before the
 * end of the scan.  A flag set in the meantime remains set.
 */
uint64
tq_running_rebuild_begin(void)
{
	DatabaseFlag *flag = flag_begin();
	uint64        begun;

	if (flag == NULL)
		return 0;
	begun = flag->flagged;
	flag_end();
	return begun;
}

void
tq_running_rebuild_end(uint64 begun)
{
	DatabaseFlag *flag = flag_begin();

	if (flag == NULL)
		return;
	flag->seen = begun;
	flag_end();
}

/*
 * Up to max tasks of this database that are due at now; *next is the earliest
 * later end, DT_NOEND if there is none.  If max tasks are returned, there may
 * be more.
 */
int
tq_running_due(TimestampTz now, int passed, TqRunning *found, int max,
			   TimestampTz *next)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;
	int             count = 0;

	*next = DT_NOEND;
	if (shared == NULL)
		return 0;
	lock_all(LW_SHARED);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database != MyDatabaseId)
			continue;
		if (entry->running.due_at > now)
			*next = Min(*next, entry->running.due_at);
		else if (passed > 0)
			passed--;
		else if (count < max)
			found[count++] = entry->running;
		else
			*next = Min(*next, now);
	}
	unlock_all();
	return count;
}

/* Up to max tasks of this database held by any of the workers (sorted). */
int
tq_running_of_workers(const int32 *workers, int count, TqRunning *found,
					  int max)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;
	int             n = 0;

	if (shared == NULL)
		return 0;
	lock_all(LW_SHARED);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database == MyDatabaseId && n < max &&
			bsearch(&entry->running.worker_id, workers, count, sizeof(int32),
					tq_order_int32) != NULL)
			found[n++] = entry->running;
	}
	unlock_all();
	return n;
}

/*
 * The entries of this database, or nearly all if many are added concurrently.
 */
TqRunning *
tq_running_all(int *count)
{
	int             room = tq_running_count() + 64;
	TqRunning      *found;
	HASH_SEQ_STATUS scan;
	Entry          *entry;

	found = palloc_extended(sizeof(TqRunning) * room, MCXT_ALLOC_HUGE);
	*count = 0;
	if (shared == NULL)
		return found;
	lock_all(LW_SHARED);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database == MyDatabaseId && *count < room)
			found[(*count)++] = entry->running;
	}
	unlock_all();
	return found;
}

/* Ask a duty to run now.  Cannot fail. */
void
tq_running_ask_duty(int duty)
{
	DatabaseFlag *flag = flag_begin();

	if (flag == NULL)
		return;
	flag->asked |= duty;
	flag_end();
}

/* Has it been asked to, since the last call? */
bool
tq_running_asked_duty(int duty)
{
	DatabaseFlag *flag = flag_begin();
	bool          asked;

	if (flag == NULL)
		return false;
	asked = (flag->asked & duty) != 0;
	flag->asked &= ~duty;
	flag_end();
	return asked;
}

/* The timer of due times has fired at its time. */
void
tq_running_timer_fired(void)
{
	DatabaseFlag *flag = flag_begin();

	if (flag == NULL)
		return;
	flag->timers++;
	flag_end();
}

/*
 * The number of times it has fired in this database since the server's start.
 */
uint64
tq_running_timers(void)
{
	DatabaseFlag *flag = flag_begin();
	uint64        timers;

	if (flag == NULL)
		return 0;
	timers = flag->timers;
	flag_end();
	return timers;
}

/* The number of entries of this database. */
int
tq_running_count(void)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;
	int             count = 0;

	if (shared == NULL)
		return 0;
	lock_all(LW_SHARED);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
	{
		if (entry->key.database == MyDatabaseId)
			count++;
	}
	unlock_all();
	return count;
}

/* The number of entries of all databases. */
int
tq_running_count_all(void)
{
	int count;

	if (shared == NULL)
		return 0;
	lock_all(LW_SHARED);
	count = (int) hash_get_num_entries(entries);
	unlock_all();
	return count;
}

/*
 * Store the progress of a running task; a negative progress and a NULL message
 * leave the stored value unchanged.  A task without an entry is ignored:
 * progress is a hint.
 */
void
tq_running_progress(int64 task_id, int64 token, float4 progress,
					const char *message)
{
	LWLock *lock;
	Entry  *entry = entry_begin(task_id, LW_EXCLUSIVE, &lock);

	if (entry == NULL)
		return;
	if (entry->running.token == token)
	{
		if (progress >= 0)
			entry->progress = progress;
		if (message != NULL)
			strlcpy(entry->message, message, sizeof(entry->message));
	}
	LWLockRelease(lock);
}

/* Get the entry of a task.  Returns false if it has no entry. */
bool
tq_running_find(int64 task_id, TqRunning *running)
{
	LWLock *lock;
	Entry  *entry = entry_begin(task_id, LW_SHARED, &lock);

	if (entry == NULL)
		return false;
	*running = entry->running;
	LWLockRelease(lock);
	return true;
}

/* message has room for TQ_PROGRESS_MESSAGE + 1 bytes. */
bool
tq_running_read_progress(int64 task_id, int64 token, float4 *progress,
						 char *message)
{
	LWLock *lock;
	Entry  *entry = entry_begin(task_id, LW_SHARED, &lock);
	bool    told;

	if (entry == NULL)
		return false;
	told = entry->running.token == token;
	if (told)
	{
		*progress = entry->progress;
		strlcpy(message, entry->message, TQ_PROGRESS_MESSAGE + 1);
	}
	LWLockRelease(lock);
	return told;
}

static LWLock *
lock_of(uint32 hash)
{
	return &shared->locks[hash % PARTITIONS].lock;
}

static EntryKey
key_of(int64 task_id)
{
	EntryKey key;

	key.task_id = task_id;
	key.database = MyDatabaseId;
	key.unused = 0;
	return key;
}

static uint32
hash_of(const EntryKey *key)
{
	return entries ? get_hash_value(entries, key) : 0;
}

/*
 * The entry of a task of this database, with its lock held.  NULL, and not
 * locked, if there is none.
 */
static Entry *
entry_begin(int64 task_id, LWLockMode mode, LWLock **lock)
{
	EntryKey key = key_of(task_id);
	uint32   hash = hash_of(&key);
	Entry   *entry;

	if (shared == NULL)
		return NULL;
	*lock = lock_of(hash);
	LWLockAcquire(*lock, mode);
	entry = hash_search_with_hash_value(entries, &key, hash, HASH_FIND, NULL);
	if (entry == NULL)
		LWLockRelease(*lock);
	return entry;
}

/*
 * Returns the flags of a database, under the spinlock, or NULL if it has no
 * flags.
 */
static DatabaseFlag *
find_flag(Oid database)
{
	for (int i = 0; i < shared->database_count; i++)
	{
		if (shared->databases[i].database == database)
			return &shared->databases[i];
	}
	return NULL;
}

/*
 * The flags of this database, with the spinlock held until flag_end();
 * initially not complete.  NULL, and not locked, without preloading or if
 * there are too many databases.
 */
static DatabaseFlag *
flag_begin(void)
{
	DatabaseFlag *flag;

	if (shared == NULL)
		return NULL;
	SpinLockAcquire(&shared->mutex);
	flag = find_flag(MyDatabaseId);
	if (flag == NULL && shared->database_count < DATABASES)
	{
		flag = &shared->databases[shared->database_count++];
		memset(flag, 0, sizeof(DatabaseFlag));
		flag->database = MyDatabaseId;
		flag->flagged = ++shared->last_flagged;
	}
	if (flag == NULL)
		flag_end();
	return flag;
}

static void
flag_end(void)
{
	SpinLockRelease(&shared->mutex);
}

/* In the order of their numbers, so that two sessions cannot deadlock. */
static void
lock_all(LWLockMode mode)
{
	for (int i = 0; i < PARTITIONS; i++)
		LWLockAcquire(&shared->locks[i].lock, mode);
}

static void
unlock_all(void)
{
	for (int i = PARTITIONS - 1; i >= 0; i--)
		LWLockRelease(&shared->locks[i].lock);
}
