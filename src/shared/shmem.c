/*
 * shmem.c
 *		Shared memory of the extension: a list of its parts.
 *
 * Each part has its own functions, and guards itself.  Its contents are hints:
 * losing them at any moment costs speed or a heartbeat, never a task.
 * tq_shmem_wipe clears all parts, for tests.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <sys/mman.h>

#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/guc.h"
#include "shared/claim_activity.h"
#include "shared/claim_ring.h"
#include "shared/counter.h"
#include "shared/crash_start.h"
#include "shared/dead_range.h"
#include "shared/executor_slot.h"
#include "shared/heartbeat.h"
#include "shared/key_floor.h"
#include "shared/leaf_change.h"
#include "shared/metric.h"
#include "shared/notify_flag.h"
#include "shared/running.h"
#include "shared/session_end.h"
#include "shared/shmem.h"
#include "shared/token_floor.h"
#include "shared/waiter.h"
#include "shared/wake.h"
#include "shared/worker_directory.h"

static Size clock_size(void);
static void clock_init(void);

typedef struct Part
{
	Size (*size)(void);
	void (*init)(void);
	void (*request)(void); /* request locks, or NULL */
	void (*wipe)(void);    /* NULL: nothing to wipe */
	const char *setting;   /* setting that determines the size, or NULL */
	const int  *value;
} Part;

static void request(void);
static void startup(void);
static void warn_if_too_much(Size total, const Part *largest);

/* The last one wakes waiting sessions, which then check what is left. */
static const Part parts[] = {
	{clock_size, clock_init, NULL, NULL, NULL, NULL},
	{tq_session_end_size, tq_session_end_init, NULL, tq_session_end_wipe, NULL,
	 NULL},
	{tq_notify_flag_size, tq_notify_flag_init, NULL, tq_notify_flag_wipe, NULL,
	 NULL},
	{tq_counter_size, tq_counter_init, tq_counter_request, tq_counter_wipe,
	 "taskq.max_counters", &tq_guc_max_counters},
	{tq_key_floor_size, tq_key_floor_init, NULL, tq_key_floor_wipe, NULL,
	 NULL},
	{tq_leaf_change_size, tq_leaf_change_init, NULL, tq_leaf_change_wipe, NULL,
	 NULL},
	{tq_claim_activity_size, tq_claim_activity_init, NULL, NULL, NULL, NULL},
	{tq_crash_start_size, tq_crash_start_init, NULL, NULL, NULL, NULL},
	{tq_dead_range_size, tq_dead_range_init, tq_dead_range_request,
	 tq_dead_range_wipe, NULL, NULL},
	{tq_metric_size, tq_metric_init, tq_metric_request, tq_metric_wipe,
	 "taskq.max_metrics", &tq_guc_max_metrics},
	{tq_claim_ring_size, tq_claim_ring_init, NULL, tq_claim_ring_wipe, NULL,
	 NULL},
	{tq_running_size, tq_running_init, tq_running_request, tq_running_wipe,
	 "taskq.max_running_tracked", &tq_guc_max_running_tracked},
	{tq_heartbeat_size, tq_heartbeat_init, tq_heartbeat_request,
	 tq_heartbeat_wipe, "taskq.max_workers", &tq_guc_max_workers},
	{tq_worker_directory_size, tq_worker_directory_init, NULL, NULL,
	 "taskq.max_databases", &tq_guc_max_databases},
	{tq_executor_slot_size, tq_executor_slot_init, NULL, NULL,
	 "taskq.max_executors", &tq_guc_max_executors},
	{tq_token_floor_size, tq_token_floor_init, NULL, tq_token_floor_wipe, NULL,
	 NULL},
	{tq_waiter_size, tq_waiter_init, NULL, tq_waiter_wipe, NULL, NULL}};

static bool                    ready = false;
static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

void
tq_shmem_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	previous_request = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

/* Was the library preloaded? */
bool
tq_shmem_ready(void)
{
	return ready;
}

/* Raise 55000 unless the library was preloaded. */
void
tq_shmem_require(const char *what)
{
	if (!ready)
		tq_error_not_preloaded(what);
}

/* Wipe everything, concurrently with other sessions. */
void
tq_shmem_wipe(void)
{
	if (!ready)
		return;
	for (int i = 0; i < lengthof(parts); i++)
	{
		if (parts[i].wipe)
			parts[i].wipe();
	}
}

/*
 * The extension or the database was dropped: what is known of it must not be
 * used for another one.  Cannot fail.
 */
void
tq_shmem_forget_database(Oid database)
{
	if (!ready)
		return;
	tq_notify_flag_forget_database(database);
	tq_counter_forget_database(database);
	tq_dead_range_forget_database(database);
	tq_metric_forget_database(database);
	tq_claim_ring_wipe();
	tq_key_floor_wipe();
	tq_running_forget_database(database);
	tq_heartbeat_forget_database(database);
	tq_wake_forget_database(database);
}

static Size
clock_size(void)
{
	return MAXALIGN(sizeof(pg_atomic_uint64));
}

static void
clock_init(void)
{
	bool              found;
	pg_atomic_uint64 *clock =
		ShmemInitStruct("taskq clock", sizeof(pg_atomic_uint64), &found);

	tq_clock_attach(clock, found);
}

static void
request(void)
{
	const Part *largest = NULL;
	Size        total = 0;

	if (previous_request)
		previous_request();
	for (int i = 0; i < lengthof(parts); i++)
	{
		Size size = parts[i].size();

		RequestAddinShmemSpace(size);
		if (parts[i].request)
			parts[i].request();
		total = add_size(total, size);
		if (parts[i].setting && (largest == NULL || size > largest->size()))
			largest = &parts[i];
	}
	warn_if_too_much(total, largest);
}

/*
 * If the memory cannot be allocated, the server fails with an error that
 * mentions only its own settings.
 */
static void
warn_if_too_much(Size total, const Part *largest)
{
	void *memory = mmap(NULL, total, PROT_READ | PROT_WRITE,
						MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory != MAP_FAILED)
	{
		munmap(memory, total);
		return;
	}
	ereport(
		WARNING,
		(errcode(ERRCODE_OUT_OF_MEMORY),
		 errmsg("could not allocate %zu MB of shared memory for taskq: %m",
				total >> 20),
		 errdetail("The largest part, %zu MB, is for \"%s\", which is %d.",
				   largest->size() >> 20, largest->setting, *largest->value),
		 errhint("Reduce \"%s\" and start the server again.",
				 largest->setting)));
}

static void
startup(void)
{
	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	for (int i = 0; i < lengthof(parts); i++)
		parts[i].init();
	LWLockRelease(AddinShmemInitLock);
	ready = true;
}
