/*
 * metric_note.c
 *		Numbers that a transaction counts for the metrics until it commits.
 *
 * There is one set of numbers (Notes) for each queue and savepoint, whatever
 * the number of tasks.  The sets form a stack: those of a savepoint are above
 * those of its parent.  A savepoint that rolls back removes its sets; a
 * savepoint that is released adds them to the sets of its parent.  At commit
 * all are added to shared memory; nothing is counted before.
 *
 * To find the set of a queue without a scan of all of them, each set is also
 * in one of several chains, in the same order: the newest first.
 *
 * A prepared transaction is not counted at all: its notes end with the session
 * that prepared it.
 *
 * A transaction that counts has entered its mark (xact_mark.c), so a session
 * that drops a queue can wait until all changes of the queue have been
 * counted.
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
	struct Notes    *below; /* in the stack, or next spare one */
	struct Notes    *next;  /* in its chain */
	TqMetricChange   change;
} Notes;

/* Enough for most transactions; others use the top transaction's memory. */
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

/* Add a number to a metric. */
void
tq_metric_note_count(int32 queue_id, TqMetric metric, int64 number)
{
	TqMetricChange *change = change_of(queue_id);

	if (change != NULL)
		add(change, metric, number);
}

/*
 * A task was moved.  claimed_at is the time of its previous claim; end is the
 * outcome of the attempt, if it was running.
 *
 * Times are of the dispatch clock, as are those of claims; created_at is of
 * the wall clock, which differs only after it was set back.
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
				task->f.claimed_at - task->i.run_at);
		return;
	}
	if (to == TQ_STATE_DEAD)
		add(change, TQ_METRIC_DEAD + task->f.reason, 1);
	if (ended)
		observe(change, TQ_HISTOGRAM_END_TO_END,
				tq_clock_dispatch() - task->i.created_at);
	if (from != TQ_STATE_RUNNING)
		return;
	if (end != TQ_END_OTHER && end != TQ_END_RELEASED)
		add(change, TQ_METRIC_FAILED, 1);
	if (end != TQ_END_OTHER &&
		(to == TQ_STATE_PENDING || to == TQ_STATE_BLOCKED))
		add(change, TQ_METRIC_REQUEUED + end, 1);

	/* it is unknown how long other attempts really ran */
	executed = to == TQ_STATE_DONE || to == TQ_STATE_FILTERED ||
			   end == TQ_END_FAILURE || end == TQ_END_TIMEOUT;
	if (executed)
		observe(change, TQ_HISTOGRAM_EXECUTION,
				tq_clock_dispatch() - claimed_at);
	if (to == TQ_STATE_DONE)
		add(change, TQ_METRIC_COMPLETED, 1);
}

/* Add everything noted. */
void
tq_metric_note_commit(void)
{
	for (Notes *notes = top; notes != NULL; notes = notes->below)
		tq_metric_add(notes->queue_id, &notes->change);
}

/*
 * The notes of a savepoint now belong to its parent.  From the top: a set that
 * stays is above all those still to be processed.
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

/* The transaction has ended. */
void
tq_metric_note_forget(void)
{
	for (Notes *notes = top; notes != NULL; notes = notes->below)
		*chain_of(notes->queue_id) = NULL;
	top = NULL;
	spare = NULL;
	first_used = false;
}

/*
 * Returns the notes of the current savepoint for a queue, or NULL if metrics
 * are not counted.
 */
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

/* An empty set. */
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

/* Remove a set from the stack and its chain; it can be reused. */
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
