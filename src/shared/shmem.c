/*
 * shmem.c
 *		Shared memory of the extension: a list of its parts.
 *
 * Each part has a pair of functions, Size and Init, and guards itself.  All
 * of it is hints: losing it at any moment costs speed or a heartbeat, never
 * a task.  tq_shmem_wipe does just that, for tests.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "port/atomics.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#include "base/clock.h"
#include "base/error.h"
#include "shared/bind.h"
#include "shared/bell.h"
#include "shared/counter.h"
#include "shared/pulse.h"
#include "shared/range.h"
#include "shared/metric.h"
#include "shared/registry.h"
#include "shared/ring.h"
#include "shared/shmem.h"
#include "shared/slot.h"
#include "shared/station.h"
#include "shared/token.h"
#include "shared/waiter.h"

static bool                    ready = false;
static shmem_request_hook_type previous_request = NULL;
static shmem_startup_hook_type previous_startup = NULL;

static void request(void);
static void startup(void);

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

/* 55000 unless the library was preloaded. */
void
tq_shmem_require(const char *what)
{
	if (!ready)
		tq_error_not_preloaded(what);
}

/* Lose everything, while others work. */
void
tq_shmem_wipe(void)
{
	if (!ready)
		return;
	tq_bind_wipe();
	tq_bell_wipe();
	tq_counter_wipe();
	tq_range_wipe();
	tq_metric_wipe();
	tq_ring_wipe();
	tq_registry_wipe();
	tq_slot_wipe();
	tq_token_wipe();
	/* the last one: whoever waits looks at what there is now */
	tq_waiter_wipe();
}

/*
 * The extension was dropped in a database, or the database itself: what is
 * known of it must not be taken for that of another.  Cannot fail.
 */
void
tq_shmem_forget_database(Oid database)
{
	if (!ready)
		return;
	tq_bell_forget_database(database);
	tq_counter_forget_database(database);
	tq_range_forget_database(database);
	tq_metric_forget_database(database);
	tq_ring_wipe();
	tq_registry_forget_database(database);
	tq_slot_forget_database(database);
	tq_waiter_forget_database(database);
}

static void
request(void)
{
	if (previous_request)
		previous_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(pg_atomic_uint64)));
	RequestAddinShmemSpace(tq_bind_size());
	RequestAddinShmemSpace(tq_bell_size());
	RequestAddinShmemSpace(tq_counter_size());
	RequestAddinShmemSpace(tq_pulse_size());
	RequestAddinShmemSpace(tq_range_size());
	RequestAddinShmemSpace(tq_metric_size());
	RequestAddinShmemSpace(tq_registry_size());
	RequestAddinShmemSpace(tq_ring_size());
	RequestAddinShmemSpace(tq_slot_size());
	RequestAddinShmemSpace(tq_station_size());
	RequestAddinShmemSpace(tq_token_size());
	RequestAddinShmemSpace(tq_waiter_size());
	tq_counter_request();
	tq_range_request();
	tq_metric_request();
	tq_registry_request();
	tq_slot_request();
}

static void
startup(void)
{
	bool              found;
	pg_atomic_uint64 *clock;

	if (previous_startup)
		previous_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	clock = ShmemInitStruct("taskq clock", sizeof(pg_atomic_uint64), &found);
	tq_clock_attach(clock, found);
	tq_bind_init();
	tq_bell_init();
	tq_counter_init();
	tq_pulse_init();
	tq_range_init();
	tq_metric_init();
	tq_registry_init();
	tq_ring_init();
	tq_slot_init();
	tq_station_init();
	tq_token_init();
	tq_waiter_init();
	LWLockRelease(AddinShmemInitLock);
	ready = true;
}
