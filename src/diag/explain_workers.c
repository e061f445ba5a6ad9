/*
 * explain_workers.c
 *		Which workers could claim a ready task, and which task comes before it.
 *
 * The registered workers are tested in this order: is there a worker for the
 * queue, does one have the task's tags, is one alive, not silent, not
 * draining, below its max_running?  The first negative answer is the reason.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/clock.h"
#include "base/guc.h"
#include "base/spi.h"
#include "diag/explain_facts.h"
#include "diag/explain_text.h"
#include "diag/explain_workers.h"
#include "engine/dispatch.h"
#include "engine/liveness.h"

/* Search this many registrations for a dead worker. */
#define PAST_WORKERS "1000"
#define NAMED 3
#define WALKS 10 /* scans of the running tasks in memory, each for a worker */

typedef struct Candidate
{
	int32 worker_id;
	char *name;
	bool  draining;
	int   max_running; /* 0: any number */
	bool  has_tags;
	bool  stale;
	int64 silent;
	int64 used;
	bool  full;
} Candidate;

static TqStmt stmt_workers = {
	"SELECT w.worker_id, w.name, w.draining, w.max_running, w.tags @> $2"
	"  FROM taskq.worker w"
	" WHERE w.state = " TQ_SQL_WORKER_ACTIVE
	"   AND (w.queues IS NULL OR $1 = ANY (w.queues))"
	" ORDER BY w.name",
	{TEXTOID, TEXTARRAYOID}};

static TqStmt stmt_dead = {
	"SELECT w.name, w.ended_at"
	"  FROM (SELECT * FROM taskq.worker ORDER BY worker_id DESC"
	"         LIMIT " PAST_WORKERS ") w"
	" WHERE w.state = " TQ_SQL_WORKER_DEAD
	"   AND (w.queues IS NULL OR $1 = ANY (w.queues))"
	"   AND w.tags @> $2"
	"   AND NOT EXISTS (SELECT FROM taskq.worker n"
	"                    WHERE n.name = w.name"
	"                      AND n.registered_at > w.registered_at"
	"                      AND n.state <> " TQ_SQL_WORKER_LABEL ")"
	" ORDER BY w.ended_at DESC LIMIT 1",
	{TEXTOID, TEXTARRAYOID}};

static Candidate *read_workers(const Datum *args, int *count);
static int        keep(Candidate *workers, int count, TqWhy left_out);
static bool       is_left_out(const Candidate *worker, TqWhy why);
static bool       say_dead(TqExplain *e, const Datum *args);
static void say_none_left(TqExplain *e, TqWhy why, const Candidate *workers,
						  int count);
static void say_turn(TqExplain *e, const TqQueue *queue, const TqTask *task,
					 const TqTags *tags, int count);

void
tq_explain_turn(TqExplain *e, const TqQueue *queue, const TqTask *task)
{
	static const TqWhy steps[] = {
		TQ_WHY_WORKERS_STALE, TQ_WHY_WORKERS_DRAINING, TQ_WHY_WORKERS_FULL};
	StringInfo text = &e->text;
	TqTags     tags;
	Datum      args[2];
	Candidate *workers;
	int        of_queue;
	int        count;

	tq_explain_task_tags(task, &tags);
	args[0] = CStringGetTextDatum(queue->name);
	args[1] = tags.count > 0 ? tq_arg_tags_datum(&tags)
							 : PointerGetDatum(construct_empty_array(TEXTOID));
	workers = read_workers(args, &of_queue);
	count = keep(workers, of_queue, TQ_WHY_OTHER_TAGS);
	if (count == 0 && say_dead(e, args))
		return;
	if (of_queue == 0)
	{
		tq_explain_because(TQ_WHY_NO_WORKER);
		appendStringInfo(
			text,
			"it is ready, but no worker is registered for queue \"%s\""
			" (unregistered claimers are not tracked). Start a"
			" worker, or claim: taskq_claim(%s",
			queue->name, quote_literal_cstr(queue->name));
		if (tags.count > 0)
			appendStringInfo(text, ", tags => %s",
							 quote_literal_cstr(tq_explain_tags(&tags)));
		appendStringInfoString(text, ").");
		return;
	}
	if (count == 0)
	{
		tq_explain_because(TQ_WHY_OTHER_TAGS);
		appendStringInfo(
			text,
			"it is ready, but no worker of queue \"%s\" (%d registered) has its tags"
			" %s; register one with tags => %s.",
			queue->name, of_queue, tq_explain_tags(&tags),
			quote_literal_cstr(tq_explain_tags(&tags)));
		return;
	}
	for (int i = 0; i < lengthof(steps); i++)
	{
		int left = keep(workers, count, steps[i]);

		if (left == 0)
		{
			say_none_left(e, steps[i], workers, count);
			return;
		}
		count = left;
	}
	say_turn(e, queue, task, &tags, count);
}

/* Read the registered workers that serve the queue. */
static Candidate *
read_workers(const Datum *args, int *count)
{
	int        walks = 0;
	Candidate *workers;
	TqSpi      spi;

	tq_spi_enter(&spi);
	*count = (int) tq_spi_look(&stmt_workers, args, NULL, 0);
	workers =
		MemoryContextAllocZero(spi.caller, sizeof(Candidate) * (*count + 1));
	for (int i = 0; i < *count; i++)
	{
		Candidate *worker = &workers[i];

		worker->worker_id = tq_spi_int4(i, 1, 0);
		worker->name = tq_spi_text(&spi, i, 2);
		worker->draining = tq_spi_bool(i, 3);
		worker->max_running = tq_spi_int4(i, 4, 0);
		worker->has_tags = tq_spi_bool(i, 5);
	}
	tq_spi_leave(&spi);
	for (int i = 0; i < *count; i++)
	{
		Candidate *worker = &workers[i];

		(void) tq_liveness_silence(worker->worker_id, &worker->silent);
		worker->stale = worker->silent >= tq_guc_usecs(tq_guc_stale_threshold);
		worker->full =
			worker->max_running > 0 &&
			tq_explain_worker_used(worker->worker_id, worker->max_running,
								   walks++ < WALKS, &worker->used) &&
			worker->used >= worker->max_running;
	}
	return workers;
}

/* Move the workers that this reason does not exclude to the front. */
static int
keep(Candidate *workers, int count, TqWhy left_out)
{
	int kept = 0;

	for (int i = 0; i < count; i++)
	{
		Candidate worker = workers[i];

		if (is_left_out(&worker, left_out))
			continue;
		workers[i] = workers[kept];
		workers[kept++] = worker;
	}
	return kept;
}

static bool
is_left_out(const Candidate *worker, TqWhy why)
{
	switch (why)
	{
		case TQ_WHY_OTHER_TAGS:
			return !worker->has_tags;
		case TQ_WHY_WORKERS_STALE:
			return worker->stale;
		case TQ_WHY_WORKERS_DRAINING:
			return worker->draining;
		default:
			return worker->full;
	}
}

/* Report the newest of the dead workers that could have claimed it. */
static bool
say_dead(TqExplain *e, const Datum *args)
{
	bool        found;
	char       *name = NULL;
	TimestampTz ended_at = DT_NOBEGIN;
	TqSpi       spi;

	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_dead, args, NULL, 1) > 0;
	if (found)
	{
		name = tq_spi_text(&spi, 0, 1);
		ended_at = tq_spi_time(0, 2, DT_NOBEGIN);
	}
	tq_spi_leave(&spi);
	if (!found)
		return false;
	tq_explain_because(TQ_WHY_WORKERS_DEAD);
	appendStringInfo(
		&e->text,
		"it is ready, but the workers that could claim it are dead; \"%s\" was"
		" declared dead at %s. Start it again.",
		name, tq_explain_time(ended_at));
	return true;
}

static void
say_none_left(TqExplain *e, TqWhy why, const Candidate *workers, int count)
{
	StringInfo text = &e->text;

	tq_explain_because(why);
	appendStringInfo(
		text,
		"it is ready, but every worker that could claim it (%d) %s: ", count,
		why == TQ_WHY_WORKERS_STALE      ? "is silent"
		: why == TQ_WHY_WORKERS_DRAINING ? "is draining"
										 : "is at its max_running");
	for (int i = 0; i < Min(count, NAMED); i++)
	{
		const Candidate *worker = &workers[i];

		appendStringInfo(text, "%s\"%s\"", i > 0 ? ", " : "", worker->name);
		if (why == TQ_WHY_WORKERS_STALE)
			appendStringInfo(
				text, " was last seen at %s",
				tq_explain_time(tq_clock_wall() - worker->silent));
		else if (why == TQ_WHY_WORKERS_FULL)
			appendStringInfo(text, " holds " INT64_FORMAT " of %d",
							 worker->used, worker->max_running);
	}
	if (count > NAMED)
		appendStringInfo(text, " and %d more", count - NAMED);
	appendStringInfoString(
		text, why == TQ_WHY_WORKERS_FULL
				  ? "; it can be claimed when one of their tasks finishes."
				  : ". Start another worker.");
}

/* The task is only waiting for its turn. */
static void
say_turn(TqExplain *e, const TqQueue *queue, const TqTask *task,
		 const TqTags *tags, int count)
{
	StringInfo text = &e->text;
	TqPeek     peek = {0};
	bool       next;

	tq_dispatch_peek(&e->call, queue, tags, queue->options.order, false,
					 &peek);
	next = peek.found && peek.head.f.task_id == task->f.task_id;
	tq_explain_because(next ? TQ_WHY_READY_NEXT : TQ_WHY_READY_BEHIND);
	appendStringInfoString(text, "it is ready, ");
	if (queue->options.order == TQ_ORDER_RANDOM)
		appendStringInfoString(text, "and waits its turn in random order");
	else if (next)
		appendStringInfoString(text, "and next for a claim");
	else if (peek.found)
		appendStringInfo(text,
						 "and waits its turn: task " INT64_FORMAT
						 " is next for a claim",
						 peek.head.f.task_id);
	else
		appendStringInfoString(text, "and waits its turn");
	if (tags->count > 0)
		appendStringInfo(text, " with tags %s", tq_explain_tags(tags));
	appendStringInfo(text, "; %d registered %s can claim it.", count,
					 count == 1 ? "worker" : "workers");
}
