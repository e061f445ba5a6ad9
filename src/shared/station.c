/*
 * station.c
 *		Where a database's background worker is, and when it will wake.
 *
 * One entry for each database that has, may have, or must for now not have
 * a background worker; at most taskq.max_databases.  When the table is full
 * a further database has no worker: it works, but nothing happens by itself
 * (the launcher logs it).
 *
 * Telling a worker of something that becomes due, without waking it for
 * every lease that is given: `earliest' is the earliest time told since the
 * worker's turn began, `sleep_until' the time that it sleeps until.  Who
 * tells lowers earliest and then looks at sleep_until; the worker, at the
 * end of its turn, stores sleep_until and then looks at earliest.  So one
 * of the two sees the other.
 *
 * Locks: the spinlock guards everything but the two atomics; SetLatch
 * happens under it, so that the latch's owner cannot go away.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "base/guc.h"
#include "shared/station.h"

typedef struct Entry
{
	Oid              database; /* InvalidOid: free */
	int              pid;      /* of the attached worker, or 0 */
	int              last_pid; /* of the one before */
	Latch           *latch;
	bool             adopted;  /* the worker of a former launcher */
	bool             starting; /* the launcher has asked for a worker */
	bool             visit;    /* the launcher should look here */
	int              kept_out; /* commands that want the database alone */
	TqStationEnd     ended;    /* of the worker before */
	pg_atomic_uint64 earliest;
	pg_atomic_uint64 sleep_until;
} Entry;

typedef struct Stations
{
	slock_t mutex;
	Latch  *launcher;
	int     count;
	Entry   entries[FLEXIBLE_ARRAY_MEMBER];
} Stations;

static Stations *stations = NULL;
static int       mine = -1; /* this database's entry, once found */

static Entry *my_entry(void);
static Entry *find(Oid database);
static Entry *find_or_add(Oid database);
static void   wake_launcher(void);
static void   launcher_leaves(int code, Datum arg);
static void   worker_leaves(int code, Datum arg);

Size
tq_station_size(void)
{
	return add_size(offsetof(Stations, entries),
					mul_size(tq_guc_max_databases, sizeof(Entry)));
}

void
tq_station_init(void)
{
	bool found;

	stations = ShmemInitStruct("taskq stations", tq_station_size(), &found);
	if (found)
		return;
	memset(stations, 0, tq_station_size());
	SpinLockInit(&stations->mutex);
	for (int i = 0; i < tq_guc_max_databases; i++)
	{
		pg_atomic_init_u64(&stations->entries[i].earliest, (uint64) DT_NOEND);
		pg_atomic_init_u64(&stations->entries[i].sleep_until, 0);
	}
}

/* Wake this database's worker, if there is one. */
void
tq_station_wake(void)
{
	Entry *entry = my_entry();

	if (entry == NULL)
		return;
	SpinLockAcquire(&stations->mutex);
	if (entry->latch != NULL)
		SetLatch(entry->latch);
	SpinLockRelease(&stations->mutex);
}

/* Something becomes due at that time of the dispatch clock. */
void
tq_station_due(TimestampTz at)
{
	Entry *entry = my_entry();
	uint64 seen;

	if (entry == NULL)
		return;
	seen = pg_atomic_read_u64(&entry->earliest);
	while (
		at < (TimestampTz) seen &&
		!pg_atomic_compare_exchange_u64(&entry->earliest, &seen, (uint64) at))
		;
	pg_memory_barrier();
	if (at < (TimestampTz) pg_atomic_read_u64(&entry->sleep_until))
		tq_station_wake();
}

/* The launcher should see whether the database wants a worker. */
void
tq_station_visit(Oid database)
{
	Entry *entry;

	if (stations == NULL)
		return;
	SpinLockAcquire(&stations->mutex);
	entry = find_or_add(database);
	if (entry != NULL)
		entry->visit = true;
	wake_launcher();
	SpinLockRelease(&stations->mutex);
}

/* This process is the worker of its database. */
void
tq_station_attach(void)
{
	Entry *entry;

	before_shmem_exit(worker_leaves, (Datum) 0);
	SpinLockAcquire(&stations->mutex);
	entry = find_or_add(MyDatabaseId);
	if (entry != NULL)
	{
		entry->pid = MyProcPid;
		entry->latch = MyLatch;
		entry->starting = false;
		entry->ended = TQ_STATION_UNEXPECTED;
		pg_atomic_write_u64(&entry->sleep_until, 0);
	}
	SpinLockRelease(&stations->mutex);
}

/* Say why this worker is about to end. */
void
tq_station_end(TqStationEnd how)
{
	Entry *entry = my_entry();

	if (entry == NULL)
		return;
	SpinLockAcquire(&stations->mutex);
	entry->ended = how;
	SpinLockRelease(&stations->mutex);
}

/* Does a command want the database without this worker? */
bool
tq_station_must_leave(void)
{
	Entry *entry = my_entry();
	bool   leave;

	if (entry == NULL)
		return true;
	SpinLockAcquire(&stations->mutex);
	leave = entry->kept_out > 0 || entry->pid != MyProcPid;
	SpinLockRelease(&stations->mutex);
	return leave;
}

/*
 * The earliest time told since the last turn began.  What is told from here
 * on is seen by tq_station_sleep_until, and by the next turn.
 */
TimestampTz
tq_station_turn_begins(void)
{
	Entry *entry = my_entry();

	if (entry == NULL)
		return DT_NOEND;
	pg_atomic_write_u64(&entry->sleep_until, 0);
	return (TimestampTz) pg_atomic_exchange_u64(&entry->earliest,
												(uint64) DT_NOEND);
}

/* False when something earlier was told meanwhile: do not sleep. */
bool
tq_station_sleep_until(TimestampTz at)
{
	Entry *entry = my_entry();

	if (entry == NULL)
		return true;
	pg_atomic_write_u64(&entry->sleep_until, (uint64) at);
	pg_memory_barrier();
	return (TimestampTz) pg_atomic_read_u64(&entry->earliest) >= at;
}

/* Ask the database's worker to leave, and none to come. */
void
tq_station_keep_out(Oid database)
{
	Entry *entry;

	SpinLockAcquire(&stations->mutex);
	entry = find_or_add(database);
	if (entry != NULL)
	{
		entry->kept_out++;
		if (entry->latch != NULL)
			SetLatch(entry->latch);
	}
	SpinLockRelease(&stations->mutex);
}

void
tq_station_let_in(Oid database)
{
	Entry *entry;

	SpinLockAcquire(&stations->mutex);
	entry = find(database);
	if (entry != NULL && entry->kept_out > 0)
	{
		entry->kept_out--;
		entry->visit = true;
	}
	wake_launcher();
	SpinLockRelease(&stations->mutex);
}

/*
 * Has the database no worker, none being started?  *pid is the one that was
 * there last, whose process may still be ending.
 */
bool
tq_station_is_left(Oid database, int *pid)
{
	Entry *entry;
	bool   left = true;

	*pid = 0;
	SpinLockAcquire(&stations->mutex);
	entry = find(database);
	if (entry != NULL)
	{
		left = entry->pid == 0 && !entry->starting;
		*pid = entry->pid != 0 ? entry->pid : entry->last_pid;
	}
	SpinLockRelease(&stations->mutex);
	return left;
}

/* This process is the launcher. */
void
tq_station_launcher_attach(void)
{
	before_shmem_exit(launcher_leaves, (Datum) 0);
	SpinLockAcquire(&stations->mutex);
	stations->launcher = MyLatch;
	for (int i = 0; i < stations->count; i++)
		stations->entries[i].starting = false;
	SpinLockRelease(&stations->mutex);
}

int
tq_station_count(void)
{
	int count;

	SpinLockAcquire(&stations->mutex);
	count = stations->count;
	SpinLockRelease(&stations->mutex);
	return count;
}

Oid
tq_station_database(int n)
{
	Oid database;

	SpinLockAcquire(&stations->mutex);
	database = stations->entries[n].database;
	SpinLockRelease(&stations->mutex);
	return database;
}

/* Was the launcher asked to look there?  Not while it is kept out. */
bool
tq_station_take_visit(int n)
{
	Entry *entry = &stations->entries[n];
	bool   visit = false;

	SpinLockAcquire(&stations->mutex);
	if (entry->kept_out == 0 && entry->visit)
	{
		visit = true;
		entry->visit = false;
	}
	SpinLockRelease(&stations->mutex);
	return visit;
}

/*
 * The launcher is about to start a worker there; false when there is one
 * (left by a launcher before this one) or it is kept out.
 */
bool
tq_station_starting(int n)
{
	Entry *entry = &stations->entries[n];
	bool   may;

	SpinLockAcquire(&stations->mutex);
	may = entry->kept_out == 0 && entry->pid == 0;
	entry->starting = may;
	entry->adopted = entry->pid != 0;
	SpinLockRelease(&stations->mutex);
	return may;
}

/* The worker is gone, or was never started; how did it end? */
TqStationEnd
tq_station_ended(int n)
{
	Entry       *entry = &stations->entries[n];
	TqStationEnd how;

	SpinLockAcquire(&stations->mutex);
	entry->starting = false;
	how = entry->ended;
	entry->ended = TQ_STATION_UNEXPECTED;
	SpinLockRelease(&stations->mutex);
	return how;
}

bool
tq_station_is_kept_out(int n)
{
	bool kept_out;

	SpinLockAcquire(&stations->mutex);
	kept_out = stations->entries[n].kept_out > 0;
	SpinLockRelease(&stations->mutex);
	return kept_out;
}

/* The database is gone. */
void
tq_station_forget(int n)
{
	Entry *entry = &stations->entries[n];

	SpinLockAcquire(&stations->mutex);
	if (entry->kept_out == 0 && entry->pid == 0)
	{
		entry->database = InvalidOid;
		entry->visit = false;
		entry->last_pid = 0;
	}
	SpinLockRelease(&stations->mutex);
}

/*
 * The entry of this process's database, without the lock: an entry keeps
 * its database while somebody is connected to it.
 */
static Entry *
my_entry(void)
{
	if (stations == NULL || !OidIsValid(MyDatabaseId))
		return NULL;
	if (mine < 0 || stations->entries[mine].database != MyDatabaseId)
	{
		Entry *entry;

		SpinLockAcquire(&stations->mutex);
		entry = find(MyDatabaseId);
		mine = entry == NULL ? -1 : (int) (entry - stations->entries);
		SpinLockRelease(&stations->mutex);
		return entry;
	}
	return &stations->entries[mine];
}

/* Under the lock. */
static Entry *
find(Oid database)
{
	for (int i = 0; i < stations->count; i++)
	{
		if (stations->entries[i].database == database)
			return &stations->entries[i];
	}
	return NULL;
}

/* Under the lock; NULL when the table is full. */
static Entry *
find_or_add(Oid database)
{
	Entry *entry = find(database);

	if (entry != NULL)
		return entry;
	entry = find(InvalidOid);
	if (entry == NULL)
	{
		if (stations->count >= tq_guc_max_databases)
			return NULL;
		entry = &stations->entries[stations->count++];
	}
	entry->database = database;
	entry->ended = TQ_STATION_UNEXPECTED;
	return entry;
}

/* Under the lock. */
static void
wake_launcher(void)
{
	if (stations->launcher != NULL)
		SetLatch(stations->launcher);
}

static void
launcher_leaves(int code, Datum arg)
{
	SpinLockAcquire(&stations->mutex);
	stations->launcher = NULL;
	SpinLockRelease(&stations->mutex);
}

static void
worker_leaves(int code, Datum arg)
{
	Entry *entry;

	SpinLockAcquire(&stations->mutex);
	entry = find(MyDatabaseId);
	if (entry != NULL && entry->pid == MyProcPid)
	{
		entry->last_pid = entry->pid;
		entry->pid = 0;
		entry->latch = NULL;
		if (entry->adopted)
		{
			entry->adopted = false;
			entry->visit = true;
			wake_launcher();
		}
	}
	SpinLockRelease(&stations->mutex);
}
