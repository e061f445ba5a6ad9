/*
 * count_note.c
 *		Changes to the numbers of a queue's tasks by a transaction.
 *
 * They are noted for each queue and savepoint, and added to shared memory
 * after the commit (shared/counter.c).  Memory is allocated before a task
 * changes, so that nothing can fail between the change and its note.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "base/array.h"
#include "base/types.h"
#include "shared/counter.h"
#include "xact/count_note.h"
#include "xact/xact_mark.h"

/* Changes of the number of a queue's live tasks. */
typedef struct Delta
{
	SubTransactionId subid;
	int32            queue_id;
	int64            live[TQ_LIVE_NUMBERS];
} Delta;

/* In TopTransactionContext, in the order of their savepoints. */
static Delta *deltas = NULL;
static int    delta_count = 0;
static int    delta_room = 0;

static Delta *delta_of(int32 queue_id);

/* Allocate memory for the notes of one change of a task. */
void
tq_count_note_begin(void)
{
	TQ_ARRAY_RESERVE(deltas, delta_count + 3, delta_room,
					 TopTransactionContext);
}

/*
 * A task of the queue has changed its state; 0 and final states are not
 * counted.
 */
void
tq_count_note_move(int32 queue_id, int from, int to)
{
	Delta *delta;

	if (from == to)
		return;
	tq_xact_mark_enter();
	tq_count_note_begin();
	delta = delta_of(queue_id);
	if (from >= TQ_STATE_FIRST && TQ_STATE_IS_LIVE(from))
		delta->live[from - TQ_STATE_FIRST]--;
	if (to >= TQ_STATE_FIRST && TQ_STATE_IS_LIVE(to))
		delta->live[to - TQ_STATE_FIRST]++;
}

/* More or fewer of its pending tasks have been attempted before. */
void
tq_count_note_retry(int32 queue_id, int by)
{
	tq_xact_mark_enter();
	tq_count_note_begin();
	delta_of(queue_id)->live[TQ_LIVE_RETRIES] += by;
}

/* By how much this transaction has changed one of the queue's numbers. */
int64
tq_count_note_sum(int32 queue_id, int number)
{
	int64 sum = 0;

	for (int i = 0; i < delta_count; i++)
	{
		if (deltas[i].queue_id == queue_id)
			sum += deltas[i].live[number];
	}
	return sum;
}

/* The transaction has committed. */
void
tq_count_note_commit(void)
{
	for (int i = 0; i < delta_count; i++)
		tq_counter_add(deltas[i].queue_id, deltas[i].live, tq_xact_mark_xid(),
					   tq_xact_mark_instance());
}

void
tq_count_note_sub_commit(SubTransactionId mine, SubTransactionId parent)
{
	for (int i = delta_count - 1; i >= 0 && deltas[i].subid >= mine; i--)
		deltas[i].subid = parent;
}

void
tq_count_note_sub_abort(SubTransactionId mine)
{
	while (delta_count > 0 && deltas[delta_count - 1].subid >= mine)
		delta_count--;
}

void
tq_count_note_forget(void)
{
	deltas = NULL;
	delta_count = 0;
}

/*
 * The entry of this savepoint, created in the memory of tq_count_note_begin if
 * necessary.
 */
static Delta *
delta_of(int32 queue_id)
{
	SubTransactionId subid = GetCurrentSubTransactionId();
	Delta           *delta;

	for (int i = delta_count - 1; i >= 0 && deltas[i].subid == subid; i--)
	{
		if (deltas[i].queue_id == queue_id)
			return &deltas[i];
	}
	delta = &deltas[delta_count++];
	memset(delta, 0, sizeof(*delta));
	delta->subid = subid;
	delta->queue_id = queue_id;
	return delta;
}
