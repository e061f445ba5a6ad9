/*
 * worker_directory.c
 *		The directory of background workers, by database.
 *
 * A table with one entry for each database that has the extension, at most
 * taskq.max_databases of them, and a few more for databases that are being
 * visited or kept clear.  Through it sessions wake their worker, commands on
 * databases ask it to exit, and the launcher finds out what to do.
 *
 * Entries are created, freed and changed under one LWLock, held for a scan of
 * the table at most.  What sessions access when they commit needs no lock:
 *
 * - dboid and proc are atomic.  A session that reads them while the entry is
 *   being reassigned wakes the wrong process unnecessarily; a PGPROC and its
 *   latch exist as long as shared memory does.
 * - woken says that the worker's latch is set or is about to be; the worker
 *   clears it before it checks.  It may remain set while the worker pauses
 *   after an error, so a change that must reach the worker even then sets the
 *   latch regardless.
 * - due_asked and sleeps_until are a handshake.  A session stores, then reads:
 *   it lowers due_asked, then compares with sleeps_until.  The worker does the
 *   reverse: it stores sleeps_until, then reads due_asked.  With a full
 *   barrier between the two on each side, at least one of them sees the
 *   other's value.  While the worker works, sleeps_until is AWAKE, and
 *   sessions do not wake it: it will read due_asked.
 *
 * An entry is freed when nothing refers to it: no worker, no command that
 * keeps the worker out, no request, no end that the launcher has yet to
 * handle.
 *
 * If the library is not in shared_preload_libraries there is no table, and
 * every function here does nothing.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <signal.h>

#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "base/clock.h"
#include "base/guc.h"
#include "shared/worker_directory.h"

/* Entries beyond taskq.max_databases: visits, commands. */
#define SPARE_ENTRIES 16

/* sleeps_until of a worker that is not sleeping: before any time. */
#define AWAKE PG_INT64_MIN

typedef struct Entry
{
	pg_atomic_uint32 dboid; /* InvalidOid: free; changed under lock */
	pg_atomic_uint32 proc;  /* number of the worker's PGPROC, plus 1;
								 * changed under lock */
	pg_atomic_uint32 woken;
	pg_atomic_uint32 asked;        /* worker must check if it is wanted */
	pg_atomic_uint32 keep_out;     /* running commands; changed under lock */
	pg_atomic_uint64 sleeps_until; /* TimestampTz of the dispatch clock */
	pg_atomic_uint64 due_asked;    /* TimestampTz of the dispatch clock */
	pg_atomic_uint64 turn_at;      /* when the last turn began; the same */

	/* the rest is read and changed under lock */
	int         pid;      /* attached worker, or 0 */
	int         last_pid; /* that one, or the previous one */
	uint32      ask_count;
	bool        established;
	TqWorkerEnd end;
} Entry;

typedef struct Directory
{
	LWLock           lock;
	int              tranche;
	int              capacity;
	pg_atomic_uint32 launcher;   /* number of its PGPROC, plus 1 */
	pg_atomic_uint32 told;       /* the launcher has something to handle */
	pg_atomic_uint32 lacks_slot; /* no background worker slot was free */

	/* under lock */
	bool rescan;  /* the launcher must visit every database */
	bool refused; /* a database got no entry of its own */

	Entry entry[FLEXIBLE_ARRAY_MEMBER];
} Directory;

static Directory *directory = NULL;

/* In the worker: its own entry. */
static Entry *attached = NULL;

static Entry *find(Oid dboid);
static Entry *find_mine(void);
static Entry *find_or_make(Oid dboid);
static void   forget(Entry *entry);
static void   give_up_place(Entry *entry);
static void   free_if_idle(Entry *entry);
static void   wake(Entry *entry);
static void   wake_launcher(void);
static void   wake_proc(pg_atomic_uint32 *proc);
static uint32 my_proc_number(void);

Size
tq_worker_directory_size(void)
{
	return MAXALIGN(add_size(
		offsetof(Directory, entry),
		mul_size(sizeof(Entry), tq_guc_max_databases + SPARE_ENTRIES)));
}

/* The caller holds AddinShmemInitLock. */
void
tq_worker_directory_init(void)
{
	bool found;

	directory = ShmemInitStruct("taskq worker directory",
								tq_worker_directory_size(), &found);
	if (!found)
	{
		memset(directory, 0, tq_worker_directory_size());
		directory->tranche = LWLockNewTrancheId();
		LWLockInitialize(&directory->lock, directory->tranche);
		directory->capacity = tq_guc_max_databases + SPARE_ENTRIES;
		pg_atomic_init_u32(&directory->launcher, 0);
		pg_atomic_init_u32(&directory->told, 0);
		pg_atomic_init_u32(&directory->lacks_slot, 0);
		for (int i = 0; i < directory->capacity; i++)
		{
			Entry *entry = &directory->entry[i];

			pg_atomic_init_u32(&entry->dboid, InvalidOid);
			pg_atomic_init_u32(&entry->proc, 0);
			pg_atomic_init_u32(&entry->woken, 0);
			pg_atomic_init_u32(&entry->asked, 0);
			pg_atomic_init_u32(&entry->keep_out, 0);
			pg_atomic_init_u64(&entry->sleeps_until, (uint64) AWAKE);
			pg_atomic_init_u64(&entry->due_asked, (uint64) DT_NOEND);
			pg_atomic_init_u64(&entry->turn_at, 0);
		}
	}
	LWLockRegisterTranche(directory->tranche, "taskq_station");
}

/*
 * Wake this database's worker, if there is one.  For commit callbacks: does
 * not fail, allocate or wait.
 */
void
tq_worker_directory_wake(void)
{
	Entry *entry = find_mine();

	if (entry != NULL)
		wake(entry);
}

/*
 * Something in this database becomes due at a time of the dispatch clock: wake
 * the worker if it would sleep longer.  What is due must be visible to the
 * worker before this is called.  For commit callbacks.
 */
void
tq_worker_directory_due(TimestampTz at)
{
	Entry *entry = find_mine();
	uint64 asked;

	if (entry == NULL)
		return;
	asked = pg_atomic_read_u64(&entry->due_asked);
	while (at < (TimestampTz) asked &&
		   !pg_atomic_compare_exchange_u64(&entry->due_asked, &asked,
										   (uint64) at))
		;
	pg_memory_barrier();
	if (at < (TimestampTz) pg_atomic_read_u64(&entry->sleeps_until))
		wake(entry);
}

/*
 * Let a worker check whether it is wanted in that database: the running one,
 * or one that the launcher starts.  Call it after the commit of the change.
 */
void
tq_worker_directory_visit(Oid dboid)
{
	Entry *entry;

	if (directory == NULL || !OidIsValid(dboid))
		return;
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	entry = find_or_make(dboid);
	if (entry == NULL)
		directory->rescan = true;
	else
	{
		entry->ask_count++;
		pg_atomic_write_u32(&entry->asked, 1);
		pg_write_barrier();
		wake_proc(&entry->proc);
	}
	LWLockRelease(&directory->lock);
	wake_launcher();
}

bool
tq_worker_directory_has_worker(Oid dboid)
{
	TqWorkerView view;

	(void) tq_worker_directory_look(dboid, &view);
	return view.pid != 0;
}

/* The state of that database's worker; false if unknown. */
bool
tq_worker_directory_look(Oid dboid, TqWorkerView *view)
{
	Entry *entry;

	memset(view, 0, sizeof(*view));
	if (directory == NULL)
		return false;
	LWLockAcquire(&directory->lock, LW_SHARED);
	entry = find(dboid);
	if (entry != NULL)
	{
		view->pid = entry->pid;
		view->last_pid = entry->last_pid;
		view->turn_at = (TimestampTz) pg_atomic_read_u64(&entry->turn_at);
		view->working = pg_atomic_read_u64(&entry->sleeps_until) ==
						(uint64) AWAKE;
		view->keep_out = pg_atomic_read_u32(&entry->keep_out);
	}
	LWLockRelease(&directory->lock);
	return entry != NULL;
}

bool
tq_worker_directory_has_launcher(void)
{
	return directory != NULL && pg_atomic_read_u32(&directory->launcher) != 0;
}

/* The number of databases that have one of the taskq.max_databases places. */
int
tq_worker_directory_places(void)
{
	int count = 0;

	if (directory == NULL)
		return 0;
	LWLockAcquire(&directory->lock, LW_SHARED);
	for (int i = 0; i < directory->capacity; i++)
		count += directory->entry[i].established ? 1 : 0;
	LWLockRelease(&directory->lock);
	return count;
}

/* Is a database without a worker because of max_worker_processes? */
bool
tq_worker_directory_lacks_slot(void)
{
	return directory != NULL &&
		   pg_atomic_read_u32(&directory->lacks_slot) != 0;
}

/* Is a database without a worker because of taskq.max_databases? */
bool
tq_worker_directory_lacks_room(void)
{
	bool refused;

	if (directory == NULL)
		return false;
	LWLockAcquire(&directory->lock, LW_SHARED);
	refused = directory->refused;
	LWLockRelease(&directory->lock);
	return refused;
}

/*
 * Ask that database's worker to exit, and keep workers out until the matching
 * number of calls of tq_worker_directory_keep_out_end.  False, without effect,
 * if the table is full.  The worker exits by itself, a little later.
 */
bool
tq_worker_directory_keep_out_begin(Oid dboid)
{
	Entry *entry;

	if (directory == NULL)
		return false;
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	entry = find_or_make(dboid);
	if (entry != NULL)
	{
		pg_atomic_fetch_add_u32(&entry->keep_out, 1);
		wake_proc(&entry->proc);
	}
	LWLockRelease(&directory->lock);
	return entry != NULL;
}

/* The worker that was kept out may return.  For commit callbacks. */
void
tq_worker_directory_keep_out_end(Oid dboid)
{
	Entry *entry;

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	entry = find(dboid);
	if (entry != NULL && pg_atomic_read_u32(&entry->keep_out) > 0)
	{
		pg_atomic_fetch_sub_u32(&entry->keep_out, 1);
		free_if_idle(entry);
	}
	LWLockRelease(&directory->lock);
	wake_launcher();
}

/*
 * The extension was dropped in that database, and its worker was kept out: it
 * need not return to check.  For commit callbacks.
 */
void
tq_worker_directory_dropped(Oid dboid)
{
	Entry *entry;

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	entry = find(dboid);
	if (entry != NULL && entry->pid == 0)
		forget(entry);
	/* it may be the one without a place: find out which lacks one now */
	if (directory->refused)
	{
		directory->refused = false;
		directory->rescan = true;
	}
	LWLockRelease(&directory->lock);
	wake_launcher();
}

/* Cancel the current work of that database's worker. */
void
tq_worker_directory_interrupt(Oid dboid)
{
	Entry *entry;

	LWLockAcquire(&directory->lock, LW_SHARED);
	entry = find(dboid);

	/* while attached, the process cannot exit and its pid be reused */
	if (entry != NULL && entry->pid != 0)
		(void) kill(entry->pid, SIGINT);
	LWLockRelease(&directory->lock);
}

/* Attach the calling process as that database's worker, if allowed. */
TqWorkerAttach
tq_worker_directory_attach(Oid dboid)
{
	Entry         *entry;
	TqWorkerAttach result = TQ_DIRECTORY_CLOSED;

	Assert(attached == NULL);
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	entry = find(dboid);
	if (entry != NULL && entry->pid != 0)
		result = TQ_DIRECTORY_OCCUPIED;
	else if (entry != NULL && pg_atomic_read_u32(&entry->keep_out) != 0)
		entry->end = TQ_WORKER_END_KEPT_OUT;
	else if (entry != NULL)
	{
		entry->pid = entry->last_pid = MyProcPid;
		entry->end = TQ_WORKER_END_NONE;
		pg_atomic_write_u64(&entry->sleeps_until, (uint64) AWAKE);
		pg_atomic_write_u64(&entry->turn_at, (uint64) tq_clock_dispatch());
		pg_atomic_write_u32(&entry->proc, my_proc_number());
		attached = entry;
		result = TQ_DIRECTORY_ATTACHED;
	}
	LWLockRelease(&directory->lock);
	return result;
}

/*
 * The worker has found the extension: its database takes one of the
 * taskq.max_databases places.  False if there is none; logs that once.
 */
bool
tq_worker_directory_establish(void)
{
	int  count = 0;
	bool established;
	bool log;

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	for (int i = 0; i < directory->capacity; i++)
		if (&directory->entry[i] != attached &&
			directory->entry[i].established)
			count++;
	established = count < tq_guc_max_databases;
	log = !established && !directory->refused;
	attached->established = established;
	if (!established)
		directory->refused = true;
	LWLockRelease(&directory->lock);
	wake_launcher();

	if (log)
		ereport(
			LOG,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg(
				 "taskq: more than %d databases have the extension; some have no background worker",
				 tq_guc_max_databases),
			 errhint(
				 "Increase \"taskq.max_databases\" and restart the server.")));
	return established;
}

/* In the worker: must it exit because of a command? */
bool
tq_worker_directory_kept_out(void)
{
	return attached != NULL && pg_atomic_read_u32(&attached->keep_out) != 0;
}

/* In the worker: has it been asked to check whether it is wanted? */
bool
tq_worker_directory_asked(void)
{
	return attached != NULL && pg_atomic_read_u32(&attached->asked) != 0;
}

/*
 * In the worker: the earliest due time reported since the turn began.
 */
TimestampTz
tq_worker_directory_told(void)
{
	return attached == NULL
			   ? DT_NOEND
			   : (TimestampTz) pg_atomic_read_u64(&attached->due_asked);
}

/*
 * In the worker: later requests are for another turn.  Returns the earliest
 * due time reported since the last turn began.
 */
TimestampTz
tq_worker_directory_turn_begin(void)
{
	pg_atomic_exchange_u32(&attached->woken, 0);
	pg_atomic_exchange_u32(&attached->asked, 0);
	pg_atomic_exchange_u64(&attached->sleeps_until, (uint64) AWAKE);
	pg_atomic_write_u64(&attached->turn_at, (uint64) tq_clock_dispatch());
	return (TimestampTz) pg_atomic_exchange_u64(&attached->due_asked,
												(uint64) DT_NOEND);
}

/*
 * In the worker: it will sleep until next.  Returns that time, or an earlier
 * one reported in the meantime.
 */
TimestampTz
tq_worker_directory_turn_end(TimestampTz next)
{
	TimestampTz asked;

	pg_atomic_exchange_u64(&attached->sleeps_until, (uint64) next);
	/* a wait during the turn may have reset the latch */
	if (pg_atomic_read_u32(&attached->woken) != 0)
		SetLatch(MyLatch);
	asked = (TimestampTz) pg_atomic_read_u64(&attached->due_asked);
	if (asked >= next)
		return next;
	pg_atomic_exchange_u64(&attached->sleeps_until, (uint64) asked);
	return asked;
}

/* In the worker: detach before the exit.  Without effect if not attached. */
void
tq_worker_directory_detach(TqWorkerEnd end)
{
	Entry *entry = attached;

	if (entry == NULL)
		return;
	attached = NULL;
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	pg_atomic_write_u32(&entry->proc, 0);
	entry->pid = 0;
	entry->end = end;
	LWLockRelease(&directory->lock);
	wake_launcher();
}

/* In the launcher, when it starts: request a visit to every database. */
void
tq_worker_directory_launcher_attach(void)
{
	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	directory->rescan = true;
	pg_atomic_write_u32(&directory->launcher, my_proc_number());
	LWLockRelease(&directory->lock);
}

void
tq_worker_directory_launcher_detach(void)
{
	pg_atomic_write_u32(&directory->launcher, 0);
}

/* In the launcher: later requests are for another round. */
void
tq_worker_directory_round_begin(void)
{
	pg_atomic_exchange_u32(&directory->told, 0);
}

/*
 * In the launcher: has there been a request since the round began?  Its latch
 * may have been reset by a wait for a lock in the round.
 */
bool
tq_worker_directory_told_launcher(void)
{
	return pg_atomic_read_u32(&directory->told) != 0;
}

/* A copy of all entries. */
TqWorkerItem *
tq_worker_directory_list(int *count)
{
	TqWorkerItem *items = palloc(sizeof(TqWorkerItem) * directory->capacity);

	*count = 0;
	LWLockAcquire(&directory->lock, LW_SHARED);
	for (int i = 0; i < directory->capacity; i++)
	{
		TqWorkerItem *item;
		Entry        *entry = &directory->entry[i];
		Oid           dboid = pg_atomic_read_u32(&entry->dboid);

		if (!OidIsValid(dboid))
			continue;
		item = &items[(*count)++];
		item->dboid = dboid;
		item->pid = entry->pid;
		item->established = entry->established;
		item->asked = pg_atomic_read_u32(&entry->asked) != 0;
		item->ask_count = entry->ask_count;
		item->keep_out = pg_atomic_read_u32(&entry->keep_out);
		item->end = entry->end;
	}
	LWLockRelease(&directory->lock);
	return items;
}

/*
 * How that database's worker ended; NONE if it has not, or this was handled
 * before.
 */
TqWorkerEnd
tq_worker_directory_take_end(Oid dboid)
{
	Entry      *entry;
	TqWorkerEnd end = TQ_WORKER_END_NONE;

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	entry = find(dboid);
	if (entry != NULL)
	{
		end = entry->end;
		entry->end = TQ_WORKER_END_NONE;
		if (end == TQ_WORKER_END_NOT_WANTED)
			give_up_place(entry);
		else if (end != TQ_WORKER_END_NONE)
		{
			/* it may have exited before it had checked */
			pg_atomic_write_u32(&entry->asked, 1);
		}
		free_if_idle(entry);
	}
	LWLockRelease(&directory->lock);
	return end;
}

/*
 * No worker is needed in that database, as of the given number of requests: if
 * there has been another request since then, nothing is changed.
 */
void
tq_worker_directory_forget(Oid dboid, uint32 ask_count)
{
	Entry *entry;

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	entry = find(dboid);
	if (entry != NULL && entry->pid == 0 && entry->ask_count == ask_count)
		forget(entry);
	LWLockRelease(&directory->lock);
}

/* Must every database be visited?  Returns true once. */
bool
tq_worker_directory_take_rescan(void)
{
	bool rescan;

	LWLockAcquire(&directory->lock, LW_EXCLUSIVE);
	rescan = directory->rescan;
	directory->rescan = false;
	LWLockRelease(&directory->lock);
	return rescan;
}

void
tq_worker_directory_set_lacks_slot(bool lacks)
{
	pg_atomic_write_u32(&directory->lacks_slot, lacks ? 1 : 0);
}

/* If the lock is not held, the result is a hint. */
static Entry *
find(Oid dboid)
{
	for (int i = 0; i < directory->capacity; i++)
		if (pg_atomic_read_u32(&directory->entry[i].dboid) == dboid)
			return &directory->entry[i];
	return NULL;
}

/* This database's entry, as a hint, without the lock. */
static Entry *
find_mine(void)
{
	static Entry *last = NULL;

	if (directory == NULL || !OidIsValid(MyDatabaseId))
		return NULL;
	if (last == NULL || pg_atomic_read_u32(&last->dboid) != MyDatabaseId)
		last = find(MyDatabaseId);
	return last;
}

/* NULL if the table is full.  The lock is held. */
static Entry *
find_or_make(Oid dboid)
{
	Entry *entry = find(dboid);

	Assert(LWLockHeldByMeInMode(&directory->lock, LW_EXCLUSIVE));
	if (entry != NULL)
		return entry;
	entry = find(InvalidOid);
	if (entry == NULL)
		return NULL;
	entry->pid = entry->last_pid = 0;
	entry->ask_count = 0;
	entry->established = false;
	entry->end = TQ_WORKER_END_NONE;
	pg_atomic_write_u32(&entry->proc, 0);
	pg_atomic_write_u32(&entry->woken, 0);
	pg_atomic_write_u32(&entry->asked, 0);
	pg_atomic_write_u32(&entry->keep_out, 0);
	pg_atomic_write_u64(&entry->sleeps_until, (uint64) AWAKE);
	pg_atomic_write_u64(&entry->due_asked, (uint64) DT_NOEND);
	pg_write_barrier();
	pg_atomic_write_u32(&entry->dboid, dboid);
	return entry;
}

static void
forget(Entry *entry)
{
	give_up_place(entry);
	pg_atomic_write_u32(&entry->asked, 0);
	free_if_idle(entry);
}

/* A database that was refused for lack of a place can have this one. */
static void
give_up_place(Entry *entry)
{
	Assert(LWLockHeldByMeInMode(&directory->lock, LW_EXCLUSIVE));
	if (entry->established && directory->refused)
	{
		directory->refused = false;
		directory->rescan = true;
	}
	entry->established = false;
}

static void
free_if_idle(Entry *entry)
{
	Assert(LWLockHeldByMeInMode(&directory->lock, LW_EXCLUSIVE));
	if (entry->pid == 0 && !entry->established &&
		entry->end == TQ_WORKER_END_NONE &&
		pg_atomic_read_u32(&entry->asked) == 0 &&
		pg_atomic_read_u32(&entry->keep_out) == 0)
		pg_atomic_write_u32(&entry->dboid, InvalidOid);
}

static void
wake(Entry *entry)
{
	if (pg_atomic_exchange_u32(&entry->woken, 1) == 0)
		wake_proc(&entry->proc);
}

static void
wake_launcher(void)
{
	pg_atomic_exchange_u32(&directory->told, 1);
	wake_proc(&directory->launcher);
}

static void
wake_proc(pg_atomic_uint32 *proc)
{
	uint32 number = pg_atomic_read_u32(proc);

	if (number != 0)
		SetLatch(&ProcGlobal->allProcs[number - 1].procLatch);
}

/* Number of this process' PGPROC, plus 1. */
static uint32
my_proc_number(void)
{
	return (uint32) (MyProc - ProcGlobal->allProcs) + 1;
}
