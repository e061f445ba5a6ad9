/*
 * running.c
 *		The running tasks, in shared memory.
 *
 * The columns that a claim changes stand in no index, so running tasks
 * whose lease or worker has ended are found here.  An entry is a hint: every
 * use of one looks at the task's row again.
 *
 * Entries are put and removed by the commit of the claim and of what ends
 * it (xact/xact.c), so functions called from there take a lock for a few
 * instructions and cannot fail: the table has a fixed size, set by
 * taskq.max_running_tracked, and when it is full the entry is left out and
 * the database flagged as incomplete.  So do the end of a prepared
 * transaction, a wipe, and the server's start.  While a database is
 * incomplete its background worker reads taskq.task from end to end, which
 * puts every running task that was visible then; the claims that were not
 * put themselves when they commit.  (That is why putting must follow the
 * commit: an entry put before it could be wiped before the claim shows.)
 *
 * Locks: the partition lock of a task's hash value guards its entry;
 * database flags have a spinlock.
 *
 * Without the library in shared_preload_libraries there is no table: it has no
 * entries and is never complete.
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
#define DATABASES 256 /* beyond it a database is never complete */

typedef struct EntryKey
{
	int64  task_id;
	Oid    database;
	uint32 unused; /* zero, so that the key has no holes */
} EntryKey;

typedef struct Entry
{
	EntryKey  key;
	TqRunning running;
	float4    progress; /* below 0: not told */
	char      message[TQ_PROGRESS_MESSAGE + 1];
} Entry;

/* A database is complete while seen = flagged. */
typedef struct DatabaseFlag
{
	Oid    database;
	uint64 flagged; /* another number after whatever may lose entries */
	uint64 seen;    /* flagged, when the last rebuild began */
	int    asked;   /* bits of TQ_ASK_...: duties that should look now */
	uint64 timers;  /* due times that the timer has met */
} DatabaseFlag;

typedef struct Registry
{
	LWLockPadded *locks;
	slock_t       mutex; /* guards what follows */
	uint64        last_flagged;
	int           database_count;
	DatabaseFlag  databases[DATABASES];
} Registry;

static Registry *registry = NULL;
static HTAB     *entries = NULL;

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
		MAXALIGN(sizeof(Registry)),
		hash_estimate_size(tq_guc_max_running_tracked, sizeof(Entry)));
}

void
tq_running_request(void)
{
	RequestNamedLWLockTranche("taskq registry", PARTITIONS);
}

void
tq_running_init(void)
{
	bool    found;
	HASHCTL ctl = {0};

	registry = ShmemInitStruct("taskq registry", sizeof(Registry), &found);
	if (!found)
	{
		memset(registry, 0, sizeof(Registry));
		SpinLockInit(&registry->mutex);
		registry->locks = GetNamedLWLockTranche("taskq registry");
	}
	ctl.keysize = sizeof(EntryKey);
	ctl.entrysize = sizeof(Entry);
	ctl.num_partitions = PARTITIONS;
	entries = ShmemInitHash("taskq running tasks", tq_guc_max_running_tracked,
							tq_guc_max_running_tracked, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_PARTITION |
								HASH_FIXED_SIZE);
}

/* Lose all entries of all databases. */
void
tq_running_wipe(void)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;

	if (registry == NULL)
		return;
	lock_all(LW_EXCLUSIVE);
	hash_seq_init(&scan, entries);
	while ((entry = hash_seq_search(&scan)) != NULL)
		hash_search(entries, &entry->key, HASH_REMOVE, NULL);
	SpinLockAcquire(&registry->mutex);
	for (int i = 0; i < registry->database_count; i++)
		registry->databases[i].flagged = ++registry->last_flagged;
	SpinLockRelease(&registry->mutex);
	unlock_all();
}

/*
 * The extension or the database is gone, or nobody is let in.  If it comes
 * back it is not complete.  Cannot fail.
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
	SpinLockAcquire(&registry->mutex);
	flag = find_flag(database);
	if (flag != NULL)
		*flag = registry->databases[--registry->database_count];
	SpinLockRelease(&registry->mutex);
	unlock_all();
}

/*
 * A claim has committed, or its end has moved.  Whoever reads rows to put them
 * may come late with an old version: that never replaces a newer one.  Cannot
 * fail.
 */
void
tq_running_put(const TqRunning *running)
{
	EntryKey key = key_of(running->task_id);
	uint32   hash = hash_of(&key);
	bool     found;
	Entry   *entry;

	if (registry == NULL)
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
 * A task has stopped running with that version of its row, which is that of
 * the claim if its lease has ended.  Whoever tells it may come late, when the
 * next claim has put its entry, with a newer version.  Cannot fail.
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
 * An entry that was found proved to be of no use: it goes, unless it says
 * something else by now.
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

	if (registry == NULL)
		return;
	SpinLockAcquire(&registry->mutex);
	flag = find_flag(MyDatabaseId);
	if (flag != NULL)
		flag->flagged = ++registry->last_flagged;
	SpinLockRelease(&registry->mutex);
}

/* Are all running tasks of this database here? */
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
 * Around a scan that puts every running task; its snapshot is taken in
 * between.  What was flagged meanwhile stays flagged.
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
 * Up to max tasks of this database whose end is not after now; *next is the
 * earliest end after that, DT_NOEND if there is none.  If max were found,
 * there may be more.
 */
int
tq_running_due(TimestampTz now, int passed, TqRunning *found, int max,
			   TimestampTz *next)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;
	int             count = 0;

	*next = DT_NOEND;
	if (registry == NULL)
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

	if (registry == NULL)
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

/* The entries of this database, or nearly all when many come meanwhile. */
TqRunning *
tq_running_all(int *count)
{
	int             room = tq_running_count() + 64;
	TqRunning      *found;
	HASH_SEQ_STATUS scan;
	Entry          *entry;

	found = palloc_extended(sizeof(TqRunning) * room, MCXT_ALLOC_HUGE);
	*count = 0;
	if (registry == NULL)
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

/* A duty should look now.  Cannot fail. */
void
tq_running_ask_duty(int duty)
{
	DatabaseFlag *flag = flag_begin();

	if (flag == NULL)
		return;
	flag->asked |= duty;
	flag_end();
}

/* Was it asked to, since the last call? */
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

/* How often it has, in this database since the server's start. */
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

/* Entries of this database. */
int
tq_running_count(void)
{
	HASH_SEQ_STATUS scan;
	Entry          *entry;
	int             count = 0;

	if (registry == NULL)
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

/* Entries of all databases together. */
int
tq_running_count_all(void)
{
	int count;

	if (registry == NULL)
		return 0;
	lock_all(LW_SHARED);
	count = (int) hash_get_num_entries(entries);
	unlock_all();
	return count;
}

/*
 * Note how far a running task is; progress below 0 and message NULL leave
 * what is there.  A task that is not here is left out: it is a hint.
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

/* The entry of a task; false when there is none. */
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
	return &registry->locks[hash % PARTITIONS].lock;
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
 * The entry of a task of this database, with its lock held.  NULL, and no
 * lock: there is none.
 */
static Entry *
entry_begin(int64 task_id, LWLockMode mode, LWLock **lock)
{
	EntryKey key = key_of(task_id);
	uint32   hash = hash_of(&key);
	Entry   *entry;

	if (registry == NULL)
		return NULL;
	*lock = lock_of(hash);
	LWLockAcquire(*lock, mode);
	entry = hash_search_with_hash_value(entries, &key, hash, HASH_FIND, NULL);
	if (entry == NULL)
		LWLockRelease(*lock);
	return entry;
}

/* The flags of a database that has some, under the spinlock. */
static DatabaseFlag *
find_flag(Oid database)
{
	for (int i = 0; i < registry->database_count; i++)
	{
		if (registry->databases[i].database == database)
			return &registry->databases[i];
	}
	return NULL;
}

/*
 * The flags of this database, with the spinlock held until flag_end(); at
 * first it is not complete.  NULL, and no lock: without preloading, or when
 * there are too many databases.
 */
static DatabaseFlag *
flag_begin(void)
{
	DatabaseFlag *flag;

	if (registry == NULL)
		return NULL;
	SpinLockAcquire(&registry->mutex);
	flag = find_flag(MyDatabaseId);
	if (flag == NULL && registry->database_count < DATABASES)
	{
		flag = &registry->databases[registry->database_count++];
		memset(flag, 0, sizeof(DatabaseFlag));
		flag->database = MyDatabaseId;
		flag->flagged = ++registry->last_flagged;
	}
	if (flag == NULL)
		flag_end();
	return flag;
}

static void
flag_end(void)
{
	SpinLockRelease(&registry->mutex);
}

/* In the order of their numbers, so that two sessions never wait in a ring. */
static void
lock_all(LWLockMode mode)
{
	for (int i = 0; i < PARTITIONS; i++)
		LWLockAcquire(&registry->locks[i].lock, mode);
}

static void
unlock_all(void)
{
	for (int i = PARTITIONS - 1; i >= 0; i--)
		LWLockRelease(&registry->locks[i].lock);
}
