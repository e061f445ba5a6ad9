/*
 * position_note.c
 *		Positions at which a transaction takes and puts pending tasks.
 *
 * A transaction that changes a pending task, or makes a task pending,
 * publishes its positions when it has ended: at commit, the new positions, at
 * which tasks can be claimed; at abort, also of a savepoint, the old
 * positions, at which the tasks that it had taken can be claimed again.  Until
 * then other sessions have skipped these rows, and may have recorded dead
 * ranges.
 *
 * So a note is made before a row is written (tq_position_note_taking), since
 * an error between the write and a later note would lose it.  The note gets
 * the new position after the write (tq_position_note_put), or is removed if
 * the row was not written (tq_position_note_not_taken).  Positions are
 * published after the transaction's end is visible, which cannot fail.
 *
 * A task that a transaction changes twice has two notes; at commit the later
 * one counts.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "base/array.h"
#include "base/compare.h"
#include "shared/claim_ring.h"
#include "shared/dead_range.h"
#include "shared/notify_flag.h"
#include "shared/wake.h"
#include "xact/position_note.h"

#define TELL_AT_ONCE 64

typedef struct Note
{
	SubTransactionId subid;
	int64            task_id; /* 0 with all */
	int32            number;  /* order in which the notes were made */
	bool             taken;   /* position of a pending task before */
	bool             put;     /* position of a pending task afterwards */
	bool             all;     /* many were taken, at unknown positions */
	TqLanePosition   before;
	TqLanePosition   after;
} Note;

/* In the top transaction's memory. */
static Note *notes = NULL;
static int   note_count = 0;
static int   note_room = 0;
static int   offered_count = 0; /* notes with put */

static bool  is_before(const TqLanePosition *a, const TqLanePosition *b);
static Note *add_note(void);
static void  drop_notes(SubTransactionId from);
static int   compare_notes(const void *a, const void *b);
static bool  same_task(const Note *note, const Note *next);
static void  tell(const TqLanePosition *places, int count);
static void  tell_all(void);

/* The task was read, and its row is written next. */
void
tq_position_note_taking(const TqTask *task)
{
	Note *note = add_note();

	note->task_id = task->f.task_id;
	note->taken = task->stood;
	note->before = task->place;
}

/* The row was not written. */
void
tq_position_note_not_taken(const TqTask *task)
{
	Assert(note_count > 0 && !notes[note_count - 1].put);
	note_count--;
}

/* The row was written: note the task's new position, if it is pending. */
void
tq_position_note_put(TqTask *task)
{
	Note *note = &notes[note_count - 1];

	Assert(note_count > 0 && !note->put);
	tq_task_note_position(task);
	note->put = task->stood;
	note->after = task->place;
	if (note->put)
		offered_count++;
	else if (!note->taken)
		note_count--;
}

/* A statement has taken pending tasks. */
void
tq_position_note_all_taken(void)
{
	add_note()->all = true;
}

/* Returns how often this transaction has put a task at a position. */
int
tq_position_note_offered(void)
{
	return offered_count;
}

/*
 * The first position, or the last, at which this transaction has put a task of
 * the lane and priority; false if there is none.  It may have taken the task
 * again.
 */
bool
tq_position_note_first(int64 lane_id, int16 priority, bool last,
					   TqLanePosition *place)
{
	bool found = false;

	for (int i = 0; i < note_count; i++)
	{
		const TqLanePosition *after = &notes[i].after;

		if (!notes[i].put || after->lane_id != lane_id ||
			after->priority != priority)
			continue;
		/* the caller's place has a value when one was found */
		if (!found || is_before(after, place) != last)
			*place = *after;
		found = true;
	}
	return found;
}

/* Publish the positions at which it has put tasks. */
void
tq_position_note_commit(void)
{
	TqLanePosition places[TELL_AT_ONCE];
	int            count = 0;

	if (offered_count > 1)
		qsort(notes, note_count, sizeof(Note), compare_notes);
	for (int i = 0; i < note_count && offered_count > 0; i++)
	{
		if (!notes[i].put ||
			(i + 1 < note_count && same_task(&notes[i], &notes[i + 1])))
			continue;
		places[count++] = notes[i].after;
		if (count == TELL_AT_ONCE)
		{
			tell(places, count);
			count = 0;
		}
	}
	if (count > 0)
		tell(places, count);
}

/* Publish the positions at which it had taken tasks. */
void
tq_position_note_abort(void)
{
	drop_notes(InvalidSubTransactionId);
}

void
tq_position_note_sub_commit(SubTransactionId mine, SubTransactionId parent)
{
	for (int i = note_count - 1; i >= 0 && notes[i].subid >= mine; i--)
		notes[i].subid = parent;
}

void
tq_position_note_sub_abort(SubTransactionId mine)
{
	drop_notes(mine);
}

/* The transaction has ended. */
void
tq_position_note_forget(void)
{
	notes = NULL;
	note_count = 0;
	offered_count = 0;
}

static bool
is_before(const TqLanePosition *a, const TqLanePosition *b)
{
	return a->available_at < b->available_at ||
		   (a->available_at == b->available_at && a->task_id < b->task_id);
}

static Note *
add_note(void)
{
	Note *note;

	TQ_ARRAY_RESERVE(notes, note_count, note_room, TopTransactionContext);
	note = &notes[note_count++];
	note->number = note_count;
	note->task_id = 0;
	note->subid = GetCurrentSubTransactionId();
	note->taken = note->put = note->all = false;
	return note;
}

/* Drop the notes of a savepoint and its children, which begin at "from". */
static void
drop_notes(SubTransactionId from)
{
	TqLanePosition places[TELL_AT_ONCE];
	int            count = 0;
	bool           all = false;

	while (note_count > 0 && notes[note_count - 1].subid >= from)
	{
		Note *note = &notes[--note_count];

		if (note->put)
			offered_count--;
		all |= note->all;
		if (!note->taken)
			continue;
		places[count++] = note->before;
		if (count == TELL_AT_ONCE)
		{
			tell(places, count);
			count = 0;
		}
	}
	if (count > 0)
		tell(places, count);
	if (all)
		tell_all();
}

/* By task, and the latest note of a task last */
static int
compare_notes(const void *a, const void *b)
{
	const Note *left = a;
	const Note *right = b;
	int         order = tq_order_int64(&left->task_id, &right->task_id);

	return order != 0 ? order : tq_order_int32(&left->number, &right->number);
}

/* Has the task of a note been changed again?  Its later notes follow. */
static bool
same_task(const Note *note, const Note *next)
{
	return note->task_id == next->task_id;
}

/*
 * Publish positions at which tasks can be claimed, now or when they are due.
 */
static void
tell(const TqLanePosition *places, int count)
{
	tq_dead_range_lower(places, count);
	tq_claim_ring_lower(places, count);
	tq_wake_positions(places, count);
	tq_notify_flag_raise_positions(places, count);
}

/* Publish that there may be a claimable task at any position. */
static void
tell_all(void)
{
	tq_dead_range_forget();
	tq_claim_ring_wipe();
	tq_wake_database();
	tq_notify_flag_raise_all();
}
