/*
 * explain_claim.c
 *		taskq_explain_claim: which task a claim would get now, or why it gets
 *		no task.
 *
 * It reports the first reason that applies, in the order in which a claim
 * meets them:
 *
 * 1. This is a standby.  The worker is not registered (where it must be), is
 *    dead, or is draining.  There is no such queue, or the worker's role has
 *    no right to work on it.
 * 2. All queues, or the queue, are paused.
 * 3. There is a ready task with matching tags: the limits of the queue, then
 *    that of the worker; otherwise the claim gets the task.
 * 4. There is no such task: all ready ones are being claimed, are past their
 *    deadline, or need other tags; the next one is due later; all are running;
 *    none is pending; the queue is empty.
 *
 * For all queues of a worker, it reports the first queue that has a task, or
 * else the reason for each queue.
 *
 * The cost is bounded as in explain.c, for each queue that is checked.  The
 * call is not a heartbeat of the worker.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xlog.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/guc.h"
#include "cache/role.h"
#include "diag/explain_facts.h"
#include "diag/explain_text.h"
#include "engine/call.h"
#include "engine/dispatch.h"
#include "engine/worker.h"
#include "shared/shmem.h"
#include "shared/waiter.h"
#include "store/row.h"

#define QUEUES_LOOKED_AT 100 /* of a worker */

PG_FUNCTION_INFO_V1(taskq_explain_claim);

/* The claim to explain. */
typedef struct Claim
{
	char         *queue_name; /* NULL: all of the worker's queues */
	char         *worker_name;
	TqTags        tags;
	bool          tags_given;
	TqWorkerState worker_state;
	TqWorker      worker;
} Claim;

static void check_rights(TqExplain *e, Claim *claim);
static int  see_rights(TqExplain *e, const TqQueue *queue);
static bool worker_may(const Claim *claim, const TqQueue *queue);
static bool explain_worker(TqExplain *e, const Claim *claim);
static bool explain_one(TqExplain *e, const Claim *claim);
static bool explain_all(TqExplain *e, const Claim *claim);
static bool explain_from(TqExplain *e, const Claim *claim,
						 const TqQueue *queue);
static bool is_refused(TqExplain *e, const Claim *claim, const TqQueue *queue);
static bool worker_is_full(TqExplain *e, const Claim *claim);
static void explain_not_ready(TqExplain *e, const TqQueue *queue,
							  const TqTags *tags, const TqPeek *peek);
static bool explain_later(TqExplain *e, const TqQueue *queue,
						  const TqTags *tags);
static void explain_rows(TqExplain *e, const TqQueue *queue);
static void say_claim(StringInfo text, const Claim *claim);

Datum
taskq_explain_claim(PG_FUNCTION_ARGS)
{
	Claim          claim = {0};
	TqExplain      e = {{0}};
	StringInfoData whole;
	bool           gets = false;

	if (!PG_ARGISNULL(0))
		claim.queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	if (!PG_ARGISNULL(1))
		claim.worker_name = tq_arg_name(fcinfo, 1, "worker", NULL);
	claim.tags_given = tq_arg_tags(fcinfo, 2, &claim.tags);
	if (claim.queue_name == NULL && claim.worker_name == NULL)
		tq_error_required("queue or worker");
	if (claim.queue_name != NULL &&
		strcmp(claim.queue_name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);

	tq_call_begin_look(&e.call);
	check_rights(&e, &claim);
	if (!claim.tags_given)
		claim.tags = claim.worker.tags;
	initStringInfo(&e.text);
	if (RecoveryInProgress())
	{
		tq_explain_because(TQ_WHY_CLAIM_STANDBY);
		appendStringInfoString(&e.text,
							   "this server is a standby, where claims raise"
							   " 25006; claim on the primary.");
	}
	else if (!explain_worker(&e, &claim))
		gets = claim.queue_name != NULL ? explain_one(&e, &claim)
										: explain_all(&e, &claim);
	tq_call_end(&e.call);

	initStringInfo(&whole);
	say_claim(&whole, &claim);
	appendStringInfo(&whole, " %s: %s",
					 gets ? "would get a task now" : "gets nothing now",
					 e.text.data);
	PG_RETURN_TEXT_P(cstring_to_text_with_len(whole.data, whole.len));
}

/*
 * Requires work or read on the queue; for a worker of another role, read.  A
 * queue that does not exist is explained to roles that may work on or read all
 * queues.
 */
static void
check_rights(TqExplain *e, Claim *claim)
{
	TqQueue *queue = NULL;
	int      rights;

	if (claim->queue_name != NULL)
		queue = tq_queue_find(claim->queue_name);
	rights = see_rights(e, queue);
	if (claim->queue_name != NULL &&
		(rights & (TQ_RIGHT_WORK | TQ_RIGHT_OBSERVE)) == 0 && !e->names)
		tq_error_no_right(queue != NULL ? queue->name : TQ_QUEUE_ALL,
						  TQ_RIGHT_WORK);
	if (claim->worker_name != NULL)
		claim->worker_state =
			tq_worker_look(claim->worker_name, e->names, &claim->worker);
}

/*
 * Determine what may be shown of a queue, or of all queues if queue is NULL.
 */
static int
see_rights(TqExplain *e, const TqQueue *queue)
{
	int rights = queue != NULL ? tq_role_rights(queue) : tq_role_rights_all();

	e->names = (rights & TQ_RIGHT_OBSERVE) != 0 || tq_role_is_monitor();
	e->words = (rights & (TQ_RIGHT_WORK | TQ_RIGHT_OBSERVE)) != 0;
	return rights;
}

/*
 * May the worker's role claim from the queue?  If it has been dropped, assume
 * yes.
 */
static bool
worker_may(const Claim *claim, const TqQueue *queue)
{
	return !claim->worker.registered || !OidIsValid(claim->worker.role) ||
		   GetUserNameFromId(claim->worker.role, true) == NULL ||
		   (tq_role_rights_of(claim->worker.role, queue) & TQ_RIGHT_WORK) != 0;
}

/* Does the worker get no task from any queue? */
static bool
explain_worker(TqExplain *e, const Claim *claim)
{
	StringInfo  text = &e->text;
	const char *literal;

	if (claim->worker_name == NULL)
		return false;
	literal = quote_literal_cstr(claim->worker_name);
	if (claim->worker_state == TQ_WORKER_DEAD)
	{
		tq_explain_because(TQ_WHY_CLAIM_WORKER_DEAD);
		appendStringInfo(text,
						 "the worker has been declared dead, so the claim"
						 " raises TQ007; register it again with"
						 " taskq_register(%s).",
						 literal);
		return true;
	}
	if (claim->worker_state != TQ_WORKER_ACTIVE)
	{
		/* for a claim from one queue, the name is only a label */
		if (claim->queue_name != NULL)
			return false;
		tq_explain_because(TQ_WHY_CLAIM_WORKER_UNKNOWN);
		appendStringInfo(text,
						 "no worker of that name is registered, so the"
						 " claim raises TQ007; register it with"
						 " taskq_register(%s).",
						 literal);
		return true;
	}
	if (!claim->worker.draining)
		return false;
	tq_explain_because(TQ_WHY_CLAIM_WORKER_DRAINING);
	appendStringInfoString(text,
						   "the worker is draining until it registers again.");
	return true;
}

static bool
explain_one(TqExplain *e, const Claim *claim)
{
	TqQueue *queue = tq_queue_find(claim->queue_name);

	if (queue != NULL)
		return explain_from(e, claim, queue);
	if (tq_guc_auto_create_queues)
	{
		tq_explain_because(TQ_WHY_CLAIM_NO_QUEUE);
		appendStringInfoString(&e->text, "there is no queue of that name; it"
										 " is created with its first task.");
	}
	else
	{
		tq_explain_because(TQ_WHY_CLAIM_QUEUE_REFUSED);
		appendStringInfo(&e->text,
						 "there is no queue of that name, so the claim"
						 " raises TQ003; taskq_create_queue(%s) creates it.",
						 quote_literal_cstr(claim->queue_name));
	}
	return false;
}

/*
 * All queues of a worker: report the first that has a task, or the reason of
 * each.
 */
static bool
explain_all(TqExplain *e, const Claim *claim)
{
	int    count = claim->worker.queue_count;
	char **names = claim->worker.queues;
	int    told = 0;

	if (names == NULL)
		names = tq_queue_names(&count);
	/* one queue whose limit cannot be enforced fails the claim from all */
	for (int i = 0; i < Min(count, QUEUES_LOOKED_AT) && !tq_shmem_ready(); i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL && worker_may(claim, queue) &&
			!tq_queue_is_paused(queue) && is_refused(e, claim, queue))
			return false;
	}
	for (int i = 0; i < Min(count, QUEUES_LOOKED_AT); i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		CHECK_FOR_INTERRUPTS();
		/* a claim from all queues skips those where the worker has no right */
		if (queue == NULL ||
			(claim->worker.queues == NULL && !worker_may(claim, queue)))
			continue;
		appendStringInfo(&e->text, "%squeue \"%s\": ", told++ > 0 ? "\n" : "",
						 queue->name);
		(void) see_rights(e, queue);
		if (explain_from(e, claim, queue))
			return true;
	}
	if (count > QUEUES_LOOKED_AT)
		appendStringInfo(&e->text, "%s%d more queues were not checked.",
						 told > 0 ? "\n" : "", count - QUEUES_LOOKED_AT);
	else if (told == 0)
	{
		tq_explain_because(TQ_WHY_CLAIM_NO_QUEUES);
		appendStringInfoString(
			&e->text, "the worker's queues do not exist, or its role has no"
					  " right to work on them.");
	}
	return false;
}

/*
 * Report what a claim from this queue would get.  Returns true if it would get
 * a task.
 */
static bool
explain_from(TqExplain *e, const Claim *claim, const TqQueue *queue)
{
	TqPeek peek = {0};

	if (!worker_may(claim, queue))
	{
		char *role = GetUserNameFromId(claim->worker.role, false);

		tq_explain_because(TQ_WHY_CLAIM_NO_RIGHT);
		appendStringInfo(&e->text,
						 "role \"%s\", which registered the worker, has no"
						 " right to work on the queue;"
						 " taskq_grant(%s, %s, '{work}') grants it.",
						 role, quote_literal_cstr(queue->name),
						 quote_literal_cstr(role));
		return false;
	}
	if (tq_explain_paused(e, queue) || is_refused(e, claim, queue))
		return false;
	tq_dispatch_peek(&e->call, queue, &claim->tags, queue->options.order,
					 false, &peek);
	if (!peek.found)
	{
		explain_not_ready(e, queue, &claim->tags, &peek);
		return false;
	}
	if (tq_explain_limited(e, queue) || worker_is_full(e, claim))
		return false;
	tq_explain_because(TQ_WHY_CLAIM_GETS);
	/* discard the reasons given for other queues */
	resetStringInfo(&e->text);
	appendStringInfo(&e->text, INT64_FORMAT, peek.head.f.task_id);
	if (queue->options.order == TQ_ORDER_RANDOM)
		appendStringInfoString(&e->text,
							   ", or another of the first ready tasks");
	if (claim->queue_name == NULL)
		appendStringInfo(&e->text, ", from queue \"%s\"", queue->name);
	appendStringInfoChar(&e->text, '.');
	return true;
}

/* Does the claim fail because limits need shared memory? */
static bool
is_refused(TqExplain *e, const Claim *claim, const TqQueue *queue)
{
	if (tq_explain_refused(e, queue))
		return true;
	if (tq_shmem_ready() || claim->worker.max_running == 0)
		return false;
	tq_explain_because(TQ_WHY_LIMIT_NOT_PRELOADED);
	appendStringInfoString(
		&e->text,
		"the worker has a max_running, which requires taskq to be loaded"
		" via shared_preload_libraries, so its claims raise 55000; add taskq"
		" to shared_preload_libraries and restart the server, or register the"
		" worker again without max_running.");
	return true;
}

static bool
worker_is_full(TqExplain *e, const Claim *claim)
{
	int64 used;

	if (claim->worker.max_running == 0 ||
		!tq_explain_worker_used(claim->worker.worker_id,
								claim->worker.max_running, true, &used) ||
		used < claim->worker.max_running)
		return false;
	tq_explain_because(TQ_WHY_CLAIM_WORKER_LIMIT);
	appendStringInfo(&e->text,
					 "the worker has reached its max_running of %d; it can"
					 " claim again when one of its tasks finishes.",
					 claim->worker.max_running);
	return true;
}

/* No task of the queue is ready for such a claim. */
static void
explain_not_ready(TqExplain *e, const TqQueue *queue, const TqTags *tags,
				  const TqPeek *peek)
{
	StringInfo text = &e->text;
	TqPeek     any = {0};
	TqTags     needed;

	if (peek->gave_up)
	{
		tq_explain_because(TQ_WHY_CLAIM_TOO_MANY);
		appendStringInfoString(
			text, "the first entries of the queue are all running or gone, and"
				  " only these were checked; a claim checks all entries.");
		return;
	}
	if (peek->busy > 0)
	{
		tq_explain_because(TQ_WHY_CLAIM_BUSY);
		appendStringInfo(text,
						 "every ready task (%d) is being changed by an open"
						 " transaction, for example a claim.",
						 peek->busy);
		return;
	}
	if (peek->past > 0)
	{
		tq_explain_because(TQ_WHY_CLAIM_DEADLINE);
		appendStringInfo(text,
						 "every ready task (%d), such as " INT64_FORMAT
						 ", is past its deadline",
						 peek->past, peek->past_id);
		if (!tq_explain_upkeep(e, ", and nothing processes the deadline: "))
			tq_explain_deadline_duty(e);
		return;
	}
	tq_dispatch_peek(&e->call, queue, NULL, queue->options.order, false, &any);
	if (any.found)
	{
		tq_explain_because(TQ_WHY_CLAIM_OTHER_TAGS);
		tq_explain_task_tags(&any.head, &needed);
		appendStringInfo(text,
						 "every ready task, such as " INT64_FORMAT
						 ", needs other tags: claim with tags => %s.",
						 any.head.f.task_id,
						 quote_literal_cstr(tq_explain_tags(&needed)));
		return;
	}
	if (!explain_later(e, queue, tags))
		explain_rows(e, queue);
	if (tq_explain_waiters(e, tq_waiter_count(queue->queue_id, 0),
						   "tasks of the queue"))
		tq_explain_because(TQ_WHY_CLAIM_WAITERS);
}

/* Is there a task that will become due? */
static bool
explain_later(TqExplain *e, const TqQueue *queue, const TqTags *tags)
{
	StringInfo text = &e->text;
	TqPeek     next = {0};
	TqTask     task;
	TqTags     needed;

	tq_dispatch_peek(&e->call, queue, tags, TQ_ORDER_FIFO, true, &next);
	if (next.found)
	{
		tq_explain_because(TQ_WHY_CLAIM_LATER);
		appendStringInfo(text, "the next task is " INT64_FORMAT ", due at %s.",
						 next.head.f.task_id,
						 tq_explain_time(next.head.f.available_at));
		return true;
	}
	tq_dispatch_peek(&e->call, queue, NULL, TQ_ORDER_FIFO, true, &next);
	if (!next.found || !tq_row_find(&e->call, next.head.f.task_id, &task))
		return false;
	tq_explain_because(TQ_WHY_CLAIM_LATER_OTHER_TAGS);
	tq_explain_task_tags(&task, &needed);
	appendStringInfo(text,
					 "the next task is " INT64_FORMAT
					 ", due at %s, and it needs other tags: claim with"
					 " tags => %s.",
					 task.f.task_id, tq_explain_time(task.f.available_at),
					 quote_literal_cstr(tq_explain_tags(&needed)));
	return true;
}

/* No task of the queue is pending. */
static void
explain_rows(TqExplain *e, const TqQueue *queue)
{
	StringInfo  text = &e->text;
	TqSurvey    survey;
	int64       all = 0;
	const char *more;

	tq_explain_survey(e, queue, &survey);
	more = survey.complete ? "" : "more than ";
	for (int i = TQ_STATE_FIRST; i <= TQ_STATE_SUSPENDED; i++)
		all += survey.live[i];
	if (all == 0)
	{
		tq_explain_because(TQ_WHY_CLAIM_EMPTY);
		appendStringInfoString(text, "the queue is empty.");
		return;
	}
	if (survey.live[TQ_STATE_RUNNING] == all)
	{
		tq_explain_because(TQ_WHY_CLAIM_ALL_RUNNING);
		appendStringInfo(text, "every task (%s" INT64_FORMAT ") is running",
						 more, all);
		tq_explain_holders(e, &survey);
		appendStringInfoChar(text, '.');
	}
	else
	{
		tq_explain_because(TQ_WHY_CLAIM_NONE_PENDING);
		appendStringInfo(
			text,
			"no task is pending; of %s" INT64_FORMAT
			" live tasks, " INT64_FORMAT " are running, " INT64_FORMAT
			" suspended and " INT64_FORMAT " blocked.",
			more, all, survey.live[TQ_STATE_RUNNING],
			survey.live[TQ_STATE_SUSPENDED], survey.live[TQ_STATE_BLOCKED]);
	}
	if (survey.live[TQ_STATE_RUNNING] > 0)
		(void) tq_explain_upkeep(
			e,
			" If their workers are lost, they are not reclaimed automatically: ");
}

/* "A claim from queue "q" by worker "w" with tags {a}" */
static void
say_claim(StringInfo text, const Claim *claim)
{
	if (claim->queue_name != NULL)
		appendStringInfo(text, "A claim from queue \"%s\"", claim->queue_name);
	else
		appendStringInfoString(text, "A claim from all its queues");
	if (claim->worker_name != NULL)
		appendStringInfo(text, " by %s \"%s\"",
						 claim->queue_name == NULL ||
								 claim->worker_state == TQ_WORKER_ACTIVE ||
								 claim->worker_state == TQ_WORKER_DEAD
							 ? "worker"
							 : "label",
						 claim->worker_name);
	if (claim->tags.count > 0)
		appendStringInfo(text, " with tags %s", tq_explain_tags(&claim->tags));
}
