/*
 * own_worker.c
 *		The workers that this session has registered.
 *
 * A registration replaces the former process of its name.  The session of that
 * process remembers its own registration of the name, so that its later calls
 * under the name are refused instead of acting for the new process
 * (tq_worker_require_process).  A process whose sessions are shared with other
 * processes passes its incarnation instead, and the session's memory does not
 * count.  Registrations with the same incarnation belong to the same process,
 * whichever session has made them.
 *
 * The memory of a session is as transactional as the registration: a rollback
 * of the transaction or savepoint restores what was remembered before.  After
 * PREPARE TRANSACTION the names registered by the transaction are forgotten,
 * since another session may commit it or roll it back.  DISCARD ALL ends the
 * process's use of the session (process/discard.c).  When the extension is
 * re-created, everything is forgotten.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "base/array.h"
#include "base/catalog.h"
#include "base/types.h"
#include "engine/own_worker.h"

/* A session that remembers this many names starts again with none. */
#define MAX_OWN 10000

/* The session's last registration of a name. */
typedef struct OwnWorker
{
	char  name[TQ_MAX_NAME + 1];
	bool  registered; /* and has not deregistered */
	int64 incarnation;
} OwnWorker;

/* What was remembered before this transaction changed it. */
typedef struct Former
{
	OwnWorker        own;
	SubTransactionId subid;
} Former;

static HTAB  *own_workers = NULL; /* NULL: nothing is remembered */
static uint64 own_identity = 0;   /* of the extension that has them */

/* In the top transaction's memory, and freed with it. */
static Former *formers = NULL;
static int     former_count = 0;
static int     former_room = 0;

static OwnWorker *find(const char *name, HASHACTION action);
static void       note_former(const OwnWorker *own);
static void       restore(const Former *former);
static void       forget_formers(void);
static void       at_end(XactEvent event, void *arg);
static void       at_sub_end(SubXactEvent event, SubTransactionId mine,
							 SubTransactionId parent, void *arg);

void
tq_own_worker_init(void)
{
	RegisterXactCallback(at_end, NULL);
	RegisterSubXactCallback(at_sub_end, NULL);
}

/*
 * Remember that the session has registered the name, as the process with that
 * incarnation.
 */
void
tq_own_worker_add(const char *name, int64 incarnation)
{
	OwnWorker *own;

	if (own_workers != NULL && hash_get_num_entries(own_workers) >= MAX_OWN)
		tq_own_worker_forget();
	own = find(name, HASH_ENTER);
	note_former(own);
	own->registered = true;
	own->incarnation = incarnation;
}

/* Remember that the session has deregistered the name. */
void
tq_own_worker_remove(const char *name)
{
	OwnWorker *own = find(name, HASH_FIND);

	if (own == NULL)
		return;
	note_former(own);
	own->registered = false;
}

/* Has the session registered the name, and not deregistered it? */
bool
tq_own_worker_is(const char *name)
{
	const OwnWorker *own = find(name, HASH_FIND);

	return own != NULL && own->registered;
}

/*
 * Has the session registered the name, and has another process registered it
 * since?
 */
bool
tq_own_worker_is_replaced(const char *name, int64 incarnation)
{
	const OwnWorker *own = find(name, HASH_FIND);

	return own != NULL && own->registered && own->incarnation != incarnation;
}

/* The session belongs to another process from now on. */
void
tq_own_worker_forget(void)
{
	if (own_workers != NULL)
		hash_destroy(own_workers);
	own_workers = NULL;
}

/* With HASH_FIND, NULL if nothing is remembered of the name. */
static OwnWorker *
find(const char *name, HASHACTION action)
{
	OwnWorker *own;
	uint64     identity;
	bool       found;

	if (own_workers == NULL && action == HASH_FIND)
		return NULL;
	identity = tq_catalog_identity();
	if (own_identity != identity)
		tq_own_worker_forget();
	own_identity = identity;
	if (own_workers == NULL)
	{
		HASHCTL ctl = {0};

		if (action == HASH_FIND)
			return NULL;
		ctl.keysize = TQ_MAX_NAME + 1;
		ctl.entrysize = sizeof(OwnWorker);
		own_workers = hash_create("taskq workers of this session", 16, &ctl,
								  HASH_ELEM | HASH_STRINGS);
	}
	own = hash_search(own_workers, name, action, &found);
	if (own != NULL && !found)
		own->registered = false;
	return own;
}

/* Call before the entry is changed. */
static void
note_former(const OwnWorker *own)
{
	TQ_ARRAY_RESERVE(formers, former_count, former_room,
					 TopTransactionContext);
	formers[former_count].own = *own;
	formers[former_count++].subid = GetCurrentSubTransactionId();
}

/*
 * Must not fail: it only restores an existing entry, since entries are only
 * removed all together.
 */
static void
restore(const Former *former)
{
	OwnWorker *own =
		own_workers == NULL
			? NULL
			: hash_search(own_workers, former->own.name, HASH_FIND, NULL);

	if (own != NULL)
		*own = former->own;
}

static void
forget_formers(void)
{
	formers = NULL;
	former_count = 0;
}

static void
at_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			break;
		case XACT_EVENT_ABORT:
			while (former_count > 0)
				restore(&formers[--former_count]);
			break;
		case XACT_EVENT_PREPARE:
			for (int i = 0; i < former_count; i++)
			{
				formers[i].own.registered = false;
				restore(&formers[i]);
			}
			break;
		default:
			return; /* before the end, or a parallel worker */
	}
	forget_formers();
}

static void
at_sub_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
		   void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = former_count - 1; i >= 0 && formers[i].subid >= mine; i--)
			formers[i].subid = parent;
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		while (former_count > 0 && formers[former_count - 1].subid >= mine)
			restore(&formers[--former_count]);
	}
}
