/*
 * session_end.c
 *		Ends of sessions to which workers are bound.
 *
 * A worker is bound by its row: the number of a session, and the number of the
 * instance, which each start of shared memory draws at random.  So
 * registering, rolling back, binding to another session and deregistering are
 * ordinary changes of a row, and this file does not know workers.
 *
 * A session gets its number when it first binds a worker.  The lowest bits
 * contain the number of its PGPROC, the bits above them an increasing count.
 * If two sessions have used the same PGPROC, the later session has the greater
 * number.  Each PGPROC has an entry with the number of the last session there
 * that bound a worker; when that session ends it marks the entry and wakes its
 * database's background worker.  For a session s the entry can have:
 *
 *		s, in this database		it is alive
 *		s, in another one		this database is a copy: ended
 *		s and ENDED				ended
 *		a greater number		ended, since another session uses the PGPROC
 *		a smaller number		lost by a wipe: unknown
 *
 * If the state is unknown, heartbeats alone decide whether the worker is
 * alive, as for any other worker.  Sessions that end after a wipe mark their
 * entries again, so a wipe loses only ends that the background worker had not
 * handled yet.
 *
 * An entry is marked after the session has aborted its transaction and
 * released its locks (on_shmem_exit, not before_shmem_exit), so a woken
 * process can act immediately.  All variables are atomic: nothing waits,
 * nothing fails.
 *
 * If the library is not in shared_preload_libraries nothing can be bound, and
 * every session named in a row has ended.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/pg_prng.h"
#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#include "shared/session_end.h"
#include "shared/worker_directory.h"

#define PROC_BITS 18 /* enough for any PGPROC of a session */
#define PROC_MASK ((UINT64CONST(1) << PROC_BITS) - 1)
#define ENDED (UINT64CONST(1) << 63)

typedef struct Entry
{
	pg_atomic_uint32 database; /* of that session; written before its number */
	pg_atomic_uint64 session;  /* a number, possibly with ENDED; 0: none */
} Entry;

typedef struct Bind
{
	int64            instance; /* above 0; set at the start */
	int              capacity; /* set at the start */
	pg_atomic_uint64 last;     /* count of sessions with a number */
	pg_atomic_uint64 ends;     /* count of those that have ended */
	Entry            entry[FLEXIBLE_ARRAY_MEMBER];
} Bind;

static Bind *binding = NULL;

/* The number of this session; 0 if it has bound no worker. */
static int64 my_session = 0;

static int64 draw_instance(void);
static void  end_session(int code, Datum arg);

Size
tq_session_end_size(void)
{
	return MAXALIGN(
		add_size(offsetof(Bind, entry), mul_size(sizeof(Entry), MaxBackends)));
}

/* The caller holds AddinShmemInitLock. */
void
tq_session_end_init(void)
{
	bool found;

	binding =
		ShmemInitStruct("taskq bound sessions", tq_session_end_size(), &found);
	if (found)
		return;
	binding->instance = draw_instance();
	binding->capacity = MaxBackends;
	pg_atomic_init_u64(&binding->last, 0);
	pg_atomic_init_u64(&binding->ends, 0);
	for (int i = 0; i < binding->capacity; i++)
	{
		pg_atomic_init_u32(&binding->entry[i].database, InvalidOid);
		pg_atomic_init_u64(&binding->entry[i].session, 0);
	}
}

/* Remove all entries, concurrently with other sessions. */
void
tq_session_end_wipe(void)
{
	if (binding == NULL)
		return;
	for (int i = 0; i < binding->capacity; i++)
		pg_atomic_write_u64(&binding->entry[i].session, 0);
}

/* The number of this start of shared memory; 0 if there is none. */
int64
tq_session_end_instance(void)
{
	return binding == NULL ? 0 : binding->instance;
}

/*
 * The number of this session.  From the first call on its end is recorded.
 * The library must be preloaded.
 */
int64
tq_session_end_session(void)
{
	uint64 proc = (uint64) TQ_MY_PROC_NUMBER;

	Assert(binding != NULL);
	Assert(proc < (uint64) binding->capacity && proc <= PROC_MASK);
	if (my_session == 0)
	{
		Entry *entry = &binding->entry[proc];
		uint64 count;

		/* may fail, so before the number is used */
		on_shmem_exit(end_session, (Datum) 0);
		count = pg_atomic_add_fetch_u64(&binding->last, 1);
		my_session = (int64) (count << PROC_BITS | proc);
		pg_atomic_write_u32(&entry->database, MyDatabaseId);
		pg_write_barrier();
		pg_atomic_write_u64(&entry->session, (uint64) my_session);
	}
	return my_session;
}

/*
 * Has that session ended, or does it belong to another database?  Call it
 * after the row that names the session was read: the session's entry had been
 * written before.
 */
bool
tq_session_end_has_ended(int64 instance, int64 session)
{
	uint64 proc = (uint64) session & PROC_MASK;
	uint64 found;
	Entry *entry;

	if (binding == NULL || instance != binding->instance || session <= 0 ||
		proc >= (uint64) binding->capacity)
		return true;
	entry = &binding->entry[proc];
	found = pg_atomic_read_u64(&entry->session);
	if ((found & ~ENDED) != (uint64) session)
		return (found & ~ENDED) > (uint64) session;
	if ((found & ENDED) != 0)
		return true;
	pg_read_barrier();
	return pg_atomic_read_u32(&entry->database) != MyDatabaseId;
}

/*
 * The number of sessions, in all databases, that had bound a worker and have
 * ended: if it has changed there are ends to handle.
 */
uint64
tq_session_end_count(void)
{
	return binding == NULL ? 0 : pg_atomic_read_u64(&binding->ends);
}

static int64
draw_instance(void)
{
	uint64 drawn;

	if (!pg_strong_random(&drawn, sizeof(drawn)))
		drawn = pg_prng_uint64(&pg_global_prng_state);
	return (int64) (drawn >> 1) | 1;
}

/*
 * on_shmem_exit: the session's transaction has ended, its locks are released.
 */
static void
end_session(int code, Datum arg)
{
	uint64 proc = (uint64) my_session & PROC_MASK;

	if (my_session == 0)
		return;
	pg_atomic_write_u64(&binding->entry[proc].session,
						(uint64) my_session | ENDED);
	/* a full barrier: a process that sees the count sees the mark */
	pg_atomic_fetch_add_u64(&binding->ends, 1);
	tq_worker_directory_wake();
}
