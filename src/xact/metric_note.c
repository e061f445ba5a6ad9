/*
 * metric_note.c
 *		What a transaction counts for the metrics, until it commits.
 *
 * There is one set of numbers (Notes) for each queue and savepoint, whatever
 * the number of tasks.  The sets are a stack: those of a savepoint lie above
 * those of what surrounds it.  A savepoint that rolls back takes its sets
 * off; one that is released adds them to those of its parent.  At commit all
 * are added to what is in shared memory; nothing is counted before.
 *
 * To find the set of a queue without walking all of them, each is in one of
 * some chains, too, in the same order: the newest first.
 *
 * A prepared transaction is not counted at all: what it has noted ends with
 * the session that prepared it.
 *
 * Whoever counts has entered its transaction's mark (xact_mark.c), so that
 * who drops a queue can wait until all that has happened to it is told.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "base/clock.h"
#include "xact/metric_note.h"
#include "xact/xact_mark.h"

#define CHAINS 64 /* a power of two */

typedef struct Notes
{
	SubTransactionId subid;
	int32            queue_id;
	struct Notes    *below; /* in the stack, or the next spare one */
	struct Notes    *next;  /* in its chain */
	TqMetricChange   change;
} Notes;

/* Enough for most transactions; others are in the top transaction's memory. */
static Notes first;
static bool  first_used = false;

static Notes *top = NULL;
static Notes *spare = NULL;
static Notes *chains[CHAINS];

static TqMetricChange *change_of(int32 queue_id);
static Notes         **chain_of(int32 queue_id);
static Notes          *find(int32 queue_id, SubTransactionId subid);
static Notes          *new_notes(void);
static void            remove_notes(Notes **place);
static void            add(TqMetricChange *change, int slot, int64 number);
static void add_all(TqMetricChange *change, const TqMetricChange *more);
static void observe(TqMetricChange *change, TqHistogram histogram, int64 span);

/* Something has happened so many times. */
void
tq_metric_note_count(int32 queue_id, TqMetric metric, int64 number)
{
	TqMetricChange *change = change_of(queue_id);

	if (change != NULL)
		add(change, metric, number);
}

/*
 * A task was moved.  claimed_at is when it had been claimed before; end tells
 * how the attempt ended, if it was running.
 *
 * Times are of the dispatch clock, as those of claims are; created_at is of
 * the wall clock, from which it differs only after that was set back.
 */
void
tq_metric_note_moved(const TqTask *task, TqState from, TqEnd end,
					 TimestampTz claimed_at)
{
	TqState         to = (TqState) task->f.state;
	bool            ended = TQ_STATE_IS_LIVE(from) && !TQ_STATE_IS_LIVE(to);
	bool            executed;
	TqMetricChange *change;

	if (from != TQ_STATE_RUNNING && to != TQ_STATE_RUNNING &&
		to != TQ_STATE_DEAD && !ended)
		return;
	change = change_of(task->f.queue_id);
	if (change == NULL)
		return;
	if (to == TQ_STATE_RUNNING)
	{
		add(change, TQ_METRIC_CLAIMED, 1);
		observe(change, TQ_HISTOGRAM_WAIT,
				task->f.claimed_at - task->f.run_at);
		return;
	}
	if (to == TQ_STATE_DEAD)
		add(change, TQ_METRIC_DEAD + task->f.reason, 1);
	if (ended)
		observe(change, TQ_HISTOGRAM_END_TO_END,
				tq_clock_dispatch() - task->f.created_at);
	if (from != TQ_STATE_RUNNING)
		return;
	if (end != TQ_END_OTHER && end != TQ_END_RELEASED)
		add(change, TQ_METRIC_FAILED, 1);
	if (end != TQ_END_OTHER &&
		(to == TQ_STATE_PENDING || to == TQ_STATE_BLOCKED))
		add(change, TQ_METRIC_REQUEUED + end, 1);

	/* of others nobody knows how long they really ran */
	executed = to == TQ_STATE_DONE || to == TQ_STATE_FILTERED ||
			   end == TQ_END_FAILURE || end == TQ_END_TIMEOUT;
	if (executed)
		observe(change, TQ_HISTOGRAM_EXECUTION,
				tq_clock_dispatch() - claimed_at);
	if (to == TQ_STATE_DONE)
		add(change, TQ_METRIC_COMPLETED, 1);
}

/* All that was noted has happened. */
void
tq_metric_note_commit(void)
{
	for (Notes *notes = top; notes != NULL; notes = notes->below)
		tq_metric_add(notes->queue_id, &notes->change);
}

/*
 * What a savepoint has noted is now its parent's.  From above: a set that
 * stays is above all that are still to be looked at.
 */
void
tq_metric_note_sub_commit(SubTransactionId mine, SubTransactionId parent)
{
	Notes **place = &top;

	while (*place != NULL && (*place)->subid >= mine)
	{
		Notes *notes = *place;
		Notes *of_parent = find(notes->queue_id, parent);

		if (of_parent == NULL)
		{
			notes->subid = parent;
			place = &notes->below;
			continue;
		}
		add_all(&of_parent->change, &notes->change);
		remove_notes(place);
	}
}

void
tq_metric_note_sub_abort(SubTransactionId mine)
{
	while (top != NULL && top->subid >= mine)
		remove_notes(&top);
}

/* The transaction is over. */
void
tq_metric_note_forget(void)
{
	for (Notes *notes = top; notes != NULL; notes = notes->below)
		*chain_of(notes->queue_id) = NULL;
	top = NULL;
	spare = NULL;
	first_used = false;
}

/* What the current savepoint notes of a queue; NULL: nothing is counted. */
static TqMetricChange *
change_of(int32 queue_id)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	Notes           *notes;

	if (!tq_metric_ready())
		return NULL;
	notes = find(queue_id, subid);
	if (notes == NULL)
	{
		tq_xact_mark_enter();
		notes = new_notes();
		notes->subid = subid;
		notes->queue_id = queue_id;
		notes->below = top;
		top = notes;
		notes->next = *chain_of(queue_id);
		*chain_of(queue_id) = notes;
	}
	return &notes->change;
}

static Notes **
chain_of(int32 queue_id)
{
	return &chains[(uint32) queue_id % CHAINS];
}

static Notes *
find(int32 queue_id, SubTransactionId subid)
{
	Notes *notes = *chain_of(queue_id);

	while (notes != NULL && notes->subid >= subid &&
		   (notes->queue_id != queue_id || notes->subid != subid))
		notes = notes->next;
	return notes != NULL && notes->subid == subid ? notes : NULL;
}

/* An empty one. */
static Notes *
new_notes(void)
{
	Notes *notes = spare;

	if (notes != NULL)
		spare = notes->below;
	else if (!first_used)
	{
		notes = &first;
		first_used = true;
	}
	else
		notes = MemoryContextAlloc(TopTransactionContext, sizeof(Notes));
	memset(notes->change.marked, 0, sizeof(notes->change.marked));
	memset(notes->change.by.sum, 0, sizeof(notes->change.by.sum));
	return notes;
}

/* Take one off the stack and its chain; it can be used again. */
static void
remove_notes(Notes **place)
{
	Notes  *notes = *place;
	Notes **link = chain_of(notes->queue_id);

	while (*link != notes)
		link = &(*link)->next;
	*link = notes->next;
	*place = notes->below;
	notes->below = spare;
	spare = notes;
}

static void
add(TqMetricChange *change, int slot, int64 number)
{
	uint64 *word = &change->marked[slot / 64];
	uint64  bit = UINT64CONST(1) << (slot % 64);

	if ((*word & bit) == 0)
	{
		*word |= bit;
		change->by.slot[slot] = 0;
	}
	change->by.slot[slot] += number;
}

static void
add_all(TqMetricChange *change, const TqMetricChange *more)
{
	for (int slot = 0; slot < TQ_METRIC_SLOTS; slot++)
	{
		if (more->marked[slot / 64] & (UINT64CONST(1) << (slot % 64)))
			add(change, slot, more->by.slot[slot]);
	}
	for (int i = 0; i < TQ_HISTOGRAMS; i++)
		change->by.sum[i] += more->by.sum[i];
}

static void
observe(TqMetricChange *change, TqHistogram histogram, int64 span)
{
	span = Max(span, 0);
	add(change, TQ_METRIC_BUCKET(histogram, tq_metric_bucket_of(span)), 1);
	change->by.sum[histogram] += (double) span;
}
