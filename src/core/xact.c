/*
 * xact.c
 *		What a transaction's end must do: the one place for it.
 *
 * While a transaction works, it notes intents: this task runs now, that one
 * has stopped, something becomes due.  They touch shared memory when, and
 * only when, the transaction commits; intents of a savepoint that rolls
 * back are dropped.  The callbacks run where nothing may fail, so they do
 * nothing but calls that cannot.  They run when the transaction's locks have
 * been released: whoever is woken sees what was done, its own caches
 * included, and waits for nothing.
 *
 * A prepared transaction keeps no intents: its end flags the registry of
 * running tasks as incomplete, and the background worker looks
 * (tq_xact_prepared_ended, called after COMMIT and ROLLBACK PREPARED).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "base/catalog.h"
#include "core/role.h"
#include "core/xact.h"
#include "shared/slot.h"
#include "shared/station.h"

typedef enum IntentKind
{
	INTENT_RUNNING,
	INTENT_STOPPED,
	INTENT_DUE,
	INTENT_WAKE_WORKER,
	INTENT_ASK,
	INTENT_RESCAN,
	INTENT_WORKER_GONE,
	INTENT_VISIT
} IntentKind;

typedef struct Intent
{
	IntentKind       kind;
	SubTransactionId subid;
	TqRunning        running;  /* of RUNNING; task_id of STOPPED; due_at of
								 * DUE; worker_id of ASK, WORKER_GONE */
	Oid              database; /* of VISIT */
} Intent;

/* In the top transaction's memory; gone with it. */
static Intent *intents = NULL;
static int     intent_count = 0;
static int     intent_room = 0;

/* The transaction has committed, and its intents are to be carried out. */
static bool armed = false;

/* This transaction made a number or name that sessions keep. */
static bool session_cache_changed = false;

static Intent *add_intent(IntentKind kind);
static void    carry_out(const Intent *intent);
static void    at_end(XactEvent event, void *arg);
static void    at_release(ResourceReleasePhase phase, bool is_commit,
						  bool is_top_level, void *arg);
static void    at_sub_end(SubXactEvent event, SubTransactionId mine,
						  SubTransactionId parent, void *arg);

void
tq_xact_init(void)
{
	RegisterXactCallback(at_end, NULL);
	RegisterSubXactCallback(at_sub_end, NULL);
	RegisterResourceReleaseCallback(at_release, NULL);
}

/* A task was claimed, or the end of its claim was moved. */
void
tq_xact_running(const TqRunning *running)
{
	add_intent(INTENT_RUNNING)->running = *running;
}

/* A task is no longer running. */
void
tq_xact_stopped(int64 task_id)
{
	add_intent(INTENT_STOPPED)->running.task_id = task_id;
}

/* Something becomes due at that time of the dispatch clock. */
void
tq_xact_due(TimestampTz at)
{
	add_intent(INTENT_DUE)->running.due_at = at;
}

/* The background worker has something to look at. */
void
tq_xact_wake_worker(void)
{
	if (intent_count > 0 &&
		intents[intent_count - 1].kind == INTENT_WAKE_WORKER &&
		intents[intent_count - 1].subid == GetCurrentSubTransactionId())
		return;
	add_intent(INTENT_WAKE_WORKER);
}

/* A worker's next heartbeat has tasks to stop. */
void
tq_xact_ask(int32 worker_id)
{
	add_intent(INTENT_ASK)->running.worker_id = worker_id;
}

/* Running tasks may now end at other times than was noted. */
void
tq_xact_rescan(void)
{
	add_intent(INTENT_RESCAN);
}

/* A worker was declared dead or has left. */
void
tq_xact_worker_gone(int32 worker_id)
{
	add_intent(INTENT_WORKER_GONE)->running.worker_id = worker_id;
}

/* The launcher should see whether a database wants a background worker. */
void
tq_xact_visit(Oid database)
{
	add_intent(INTENT_VISIT)->database = database;
}

/* A roll-back of this transaction makes what the session keeps wrong. */
void
tq_xact_session_cache_changed(void)
{
	session_cache_changed = true;
}

/*
 * After COMMIT PREPARED or ROLLBACK PREPARED of any transaction in this
 * database: it may have claimed or finished tasks.
 */
void
tq_xact_prepared_ended(void)
{
	tq_registry_flag();
	tq_station_wake();
}

static Intent *
add_intent(IntentKind kind)
{
	Intent *intent;

	if (intents == NULL)
	{
		intent_room = 16;
		intents = MemoryContextAlloc(TopTransactionContext,
									 sizeof(Intent) * intent_room);
		intent_count = 0;
	}
	else if (intent_count == intent_room)
	{
		intents = repalloc_huge(intents, sizeof(Intent) * intent_room * 2);
		intent_room *= 2;
	}
	intent = &intents[intent_count++];
	intent->kind = kind;
	intent->subid = GetCurrentSubTransactionId();
	return intent;
}

static void
carry_out(const Intent *intent)
{
	switch (intent->kind)
	{
		case INTENT_RUNNING:
			tq_registry_put(&intent->running);
			if (intent->running.due_at != DT_NOEND)
				tq_station_due(intent->running.due_at);
			break;
		case INTENT_STOPPED:
			tq_registry_remove(intent->running.task_id);
			break;
		case INTENT_DUE:
			tq_station_due(intent->running.due_at);
			break;
		case INTENT_WAKE_WORKER:
			tq_station_wake();
			break;
		case INTENT_ASK:
			tq_slot_ask(intent->running.worker_id);
			break;
		case INTENT_RESCAN:
			tq_registry_flag();
			tq_station_wake();
			break;
		case INTENT_WORKER_GONE:
			tq_slot_remove(intent->running.worker_id);
			break;
		case INTENT_VISIT:
			tq_station_visit(intent->database);
			break;
	}
}

static void
at_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			armed = true;
			session_cache_changed = false;
			return;
		case XACT_EVENT_ABORT:
			if (session_cache_changed)
			{
				tq_role_forget();
				tq_catalog_forget();
			}
			break;
		case XACT_EVENT_PREPARE:
			break;
		default:
			return; /* before the end, or a parallel worker */
	}
	intents = NULL;
	intent_count = 0;
	session_cache_changed = false;
}

/* The locks of a transaction that has committed are released. */
static void
at_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
		   void *arg)
{
	if (!armed || phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level)
		return;
	armed = false;
	for (int i = 0; i < intent_count; i++)
		carry_out(&intents[i]);
	intents = NULL;
	intent_count = 0;
}

static void
at_sub_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
		   void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = intent_count - 1; i >= 0 && intents[i].subid >= mine; i--)
			intents[i].subid = parent;
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (intent_count > 0 && intents[intent_count - 1].subid >= mine)
			intent_count--;
		if (session_cache_changed)
		{
			tq_role_forget();
			tq_catalog_forget();
		}
	}
}
