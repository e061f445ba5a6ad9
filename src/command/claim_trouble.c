/*
 * claim_trouble.c
 *		Queues that a claim from all queues cannot claim from.
 *
 * A worker of all queues skips such a queue and serves the others.  Its
 * session reports this with a WARNING, once a minute for each queue.
 *
 * Some causes are detected before the claim.  Any other error ends the first
 * claim that meets it, since a savepoint for every queue would make each claim
 * more expensive and assign it a second transaction id.  The session remembers
 * that queue and claims from it in a savepoint until that has succeeded.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/hsearch.h"

#include "base/clock.h"
#include "base/error.h"
#include "command/claim_trouble.h"
#include "engine/limit.h"

#define WARNING_PAUSE USECS_PER_MINUTE

typedef struct Trouble
{
	char  name[TQ_MAX_NAME + 1];
	bool  met_error; /* in the last claim from it */
	int64 warn_at;   /* monotonic clock */
} Trouble;

static HTAB *troubles = NULL;

static void     warn(const char *name, int sqlerrcode, const char *why,
					 const char *hint);
static Trouble *find_or_make(const char *name);
static bool     is_of_queue(int sqlerrcode);

/*
 * Can the limits of the queue and of the worker be enforced?  If not, the
 * claim skips the queue.
 */
bool
tq_claim_trouble_check(const TqQueue *queue, const TqWorker *worker)
{
	TqLimit limit = {0};

	limit.queue = queue;
	limit.worker_id = worker->worker_id;
	limit.worker_max = worker->max_running;
	if (!tq_limit_is_possible(&limit))
		warn(
			queue->name, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
			"its limits require taskq to be loaded via \"shared_preload_libraries\"",
			"Add taskq to \"shared_preload_libraries\" and restart the server.");
	else if (!tq_limit_has_room(&limit))
		warn(queue->name, ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
			 "all counters for queues and workers with limits are in use",
			 "Increase \"taskq.max_counters\" and restart the server.");
	else
		return true;
	return false;
}

/* Did the last claim from the queue end with an error? */
bool
tq_claim_trouble_met(const char *name)
{
	Trouble *trouble =
		troubles == NULL ? NULL : hash_search(troubles, name, HASH_FIND, NULL);

	return trouble != NULL && trouble->met_error;
}

/* Record that a claim from the queue has failed or succeeded. */
void
tq_claim_trouble_note(const char *name, bool met_error)
{
	if (met_error ? is_of_queue(geterrcode()) : tq_claim_trouble_met(name))
		find_or_make(name)->met_error = met_error;
}

/* A claim from the queue has failed, and its savepoint is rolled back. */
void
tq_claim_trouble_survive(const char *name, ErrorData *error)
{
	if (!is_of_queue(error->sqlerrcode))
		ReThrowError(error);
	warn(name, error->sqlerrcode, error->message, error->hint);
}

/* Report that the queue is skipped. */
static void
warn(const char *name, int sqlerrcode, const char *why, const char *hint)
{
	Trouble *trouble = find_or_make(name);
	int64    now = tq_clock_monotonic();

	if (now < trouble->warn_at)
		return;
	trouble->warn_at = now + WARNING_PAUSE;
	ereport(WARNING,
			(errcode(sqlerrcode),
			 errmsg("claims from all queues skip queue \"%s\": %s", name, why),
			 hint == NULL ? 0 : errhint("%s", hint)));
}

static Trouble *
find_or_make(const char *name)
{
	HASHCTL  ctl = {0};
	Trouble *trouble;
	bool     found;

	if (troubles == NULL)
	{
		ctl.keysize = TQ_MAX_NAME + 1;
		ctl.entrysize = sizeof(Trouble);
		troubles = hash_create("taskq troubled queues", 16, &ctl,
							   HASH_ELEM | HASH_STRINGS);
	}
	trouble = hash_search(troubles, name, HASH_ENTER, &found);
	if (!found)
	{
		trouble->met_error = false;
		trouble->warn_at = 0;
	}
	return trouble;
}

/*
 * False if the worker, the transaction or the session ends, or if memory or
 * disk space has run out.
 */
static bool
is_of_queue(int sqlerrcode)
{
	int category = ERRCODE_TO_CATEGORY(sqlerrcode);

	return sqlerrcode == ERRCODE_CONFIGURATION_LIMIT_EXCEEDED ||
		   (sqlerrcode != ERRCODE_TQ_NO_SUCH_WORKER &&
			category != ERRCODE_TO_CATEGORY(ERRCODE_OPERATOR_INTERVENTION) &&
			category != ERRCODE_TO_CATEGORY(ERRCODE_TRANSACTION_ROLLBACK) &&
			category != ERRCODE_TO_CATEGORY(ERRCODE_INSUFFICIENT_RESOURCES));
}
