/*
 * change_lock.c
 *		Locks of a change, and their order.
 *
 * First keys are locked; then references, if several are given to tasks or may
 * be taken from them; then the rows of all tasks that are named or make way
 * for added ones, in id order; then documents (document.c).  Changed rows are
 * locked exclusively, and rows that the change only depends on are locked in
 * share mode.  Two changes therefore never deadlock.
 *
 * A task may get another key while the call waits.  All locks are then
 * released, and taken again with that key.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "nodes/pg_list.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/spi.h"
#include "base/subxact.h"
#include "cache/role.h"
#include "change/change_lock.h"
#include "change/change_set.h"
#include "change/document.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/name_lock.h"
#include "engine/task_lock.h"
#include "store/row.h"
#include "store/snapshot.h"

static TqStmt stmt_of_key = {
	"SELECT task_id FROM taskq.task"
	" WHERE queue_id = $1 AND key = $2 AND state <> " TQ_SQL_STATE_RUNNING,
	{INT4OID, TEXTOID}};

static TqStmt stmt_references = {
	"SELECT reference FROM taskq.task"
	" WHERE task_id = ANY ($1) AND reference IS NOT NULL",
	{INT8ARRAYOID}};

/* A change whose tasks are to be locked, and the tasks that it names. */
typedef struct Locking
{
	TqChange *change;
	TqEntry **by_id;
	int       by_id_count;
} Locking;

static void       lock_apart(void *arg);
static void       lock_tasks(TqChange *change);
static void       lock_keys(TqChange *change);
static void       check_keys(TqChange *change);
static TqKeyName *all_keys(TqChange *change, int *count);
static bool key_of(TqChange *change, const TqEntry *entry, TqKeyName *name);
static bool names_after(TqChange *change, const TqEntry *entry,
						TqQueue **queue, text **key);
static void lock_references(TqChange *change);
static int  add_held_references(TqChange *change, Bitmapset **names);
static void add_who_makes_way(TqChange *change);
static void lock_row(TqChange *change, TqEntry *entry);

void
tq_change_lock_all(TqChange *change)
{
	Locking locking = {change, change->by_id, change->by_id_count};

	if (tq_queue_any_ordered())
	{
		TqCall *call = change->call;

		tq_subxact_repeat(lock_apart, &locking);
		change->call = call;
		/* they are locked; the call must know them, too */
		tq_key_lock_names(call, change->keys, change->key_count);
		tq_snapshot_renew();
	}
	else
		lock_tasks(change);
	tq_document_lock(change);
}

/* In a call and a savepoint of its own. */
static void
lock_apart(void *arg)
{
	const Locking *locking = arg;
	TqChange      *change = locking->change;
	TqCall         call;

	tq_call_begin(&call, "taskq_change()");
	change->call = &call;
	change->by_id = locking->by_id;
	change->by_id_count = locking->by_id_count;
	lock_tasks(change);
	check_keys(change);
	tq_call_end(&call);
}

static void
lock_tasks(TqChange *change)
{
	lock_keys(change);
	tq_change_note_brought(change);
	lock_references(change);
	add_who_makes_way(change);
	tq_change_lock(change);
}

/* Lock the keys of all tasks that are moved or added. */
static void
lock_keys(TqChange *change)
{
	int        count;
	TqKeyName *names = all_keys(change, &count);

	tq_key_lock_names(change->call, names, count);
	tq_snapshot_renew();
}

/* Raise 40001 if a task, which is locked now, has another key. */
static void
check_keys(TqChange *change)
{
	tq_snapshot_renew();
	change->keys = all_keys(change, &change->key_count);
	tq_key_require_locked(change->call, change->keys, change->key_count);
}

static TqKeyName *
all_keys(TqChange *change, int *count)
{
	int64 *ids =
		palloc_extended(sizeof(int64) * (change->count + 1), MCXT_ALLOC_HUGE);
	TqKeyName *names = palloc_extended(
		sizeof(TqKeyName) * 2 * (change->count + 1), MCXT_ALLOC_HUGE);
	int id_count = 0;

	for (int i = 0; i < change->by_id_count; i++)
	{
		if (change->by_id[i]->part == TQ_PART_UPDATES ||
			change->by_id[i]->part == TQ_PART_DELETES)
			ids[id_count++] = change->by_id[i]->id;
	}
	*count =
		tq_key_names_of(change->call, ids, id_count, TQ_RIGHT_WORK, names);
	for (int i = 0; i < change->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		*count += key_of(change, &change->entries[i], &names[*count]);
	}
	return names;
}

/* Get the key that an entry gives to a task, if it must be locked. */
static bool
key_of(TqChange *change, const TqEntry *entry, TqKeyName *name)
{
	TqQueue *queue = NULL;
	bool     touches = false;

	if (entry->part == TQ_PART_ADDS && entry->sub.key != NULL)
	{
		queue = tq_queue_find(entry->sub.queue_name);
		name->key = cstring_to_text(entry->sub.key);
		touches = entry->sub.insertion != TQ_INSERTION_APPEND;
	}
	else if (entry->part != TQ_PART_UPDATES ||
			 !names_after(change, entry, &queue, &name->key))
		return false;
	if (queue == NULL || (tq_role_rights(queue) & TQ_RIGHT_SUBMIT) == 0 ||
		(!touches && !tq_key_is_ordered(queue)))
		return false;
	name->queue_id = queue->queue_id;
	return true;
}

/* Get queue and key of a task after an update that changes one of them. */
static bool
names_after(TqChange *change, const TqEntry *entry, TqQueue **queue,
			text **key)
{
	const TqChanges *changes = entry->changes;
	MemoryContext    mine = CurrentMemoryContext;
	MemoryContext    one;
	TqTask           task;

	if ((!changes->named[TQ_SUBMIT_QUEUE] && !changes->named[TQ_SUBMIT_KEY]) ||
		(changes->named[TQ_SUBMIT_KEY] && changes->sub.key == NULL))
		return false;
	one = AllocSetContextCreate(mine, "taskq key of an update",
								ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(one);
	*key = NULL;
	if (tq_row_find(change->call, entry->id, &task))
	{
		*queue = changes->named[TQ_SUBMIT_QUEUE]
					 ? tq_queue_find(changes->sub.queue_name)
					 : tq_queue_by_id(task.f.queue_id);
		MemoryContextSwitchTo(mine);
		if (changes->named[TQ_SUBMIT_KEY])
			*key = cstring_to_text(changes->sub.key);
		else if (!task.isnull[TQ_COL_KEY])
			*key = DatumGetTextPCopy(task.value[TQ_COL_KEY]);
	}
	MemoryContextSwitchTo(mine);
	MemoryContextDelete(one);
	return *key != NULL;
}

/*
 * Lock the references that the change gives to tasks, and the references that
 * it may take from tasks.  If a single reference is all that the change names,
 * it need not be locked: a call that waits for it holds nothing.
 */
static void
lock_references(TqChange *change)
{
	Bitmapset *names = NULL;
	int        given = 0;

	for (int i = 0; i < change->count; i++)
	{
		char *reference = tq_change_reference(&change->entries[i]);

		if (reference == NULL)
			continue;
		given++;
		names = tq_name_lock_add(names, reference);
	}
	if (given > 0)
		given += add_held_references(change, &names);
	if (given > 1 || (given == 1 && change->by_id_count > 0))
		tq_name_lock(TQ_NAME_REFERENCE, names, NULL);
}

/* Add the references of the named tasks; return their number. */
static int
add_held_references(TqChange *change, Bitmapset **names)
{
	int64 *ids =
		palloc_extended(sizeof(int64) * (change->count + 1), MCXT_ALLOC_HUGE);
	Datum  arg;
	uint64 rows;
	TqSpi  spi;

	for (int i = 0; i < change->by_id_count; i++)
		ids[i] = change->by_id[i]->id;
	arg = tq_spi_int8_array(ids, change->by_id_count);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_references, &arg, NULL, 0);
	for (uint64 row = 0; row < rows; row++)
	{
		char         *reference = tq_spi_text(&spi, row, 1);
		MemoryContext inner = MemoryContextSwitchTo(spi.caller);

		*names = tq_name_lock_add(*names, reference);
		MemoryContextSwitchTo(inner);
	}
	tq_spi_leave(&spi);
	pfree(ids);
	return (int) rows;
}

/*
 * Tasks that make way for added ones are locked with the others.  Running
 * tasks do not make way.
 */
static void
add_who_makes_way(TqChange *change)
{
	List     *ids = NIL;
	int       named = change->by_id_count;
	TqEntry **with;

	for (int i = 0; i < change->add_count; i++)
	{
		const TqSubmission *sub = &change->adds[i]->sub;
		TqQueue            *queue = tq_queue_find(sub->queue_name);
		Datum               args[2];
		uint64              rows;
		TqSpi               spi;

		CHECK_FOR_INTERRUPTS();
		if (sub->insertion == TQ_INSERTION_APPEND || sub->key == NULL ||
			queue == NULL || (tq_role_rights(queue) & TQ_RIGHT_SUBMIT) == 0)
			continue;
		args[0] = Int32GetDatum(queue->queue_id);
		args[1] = CStringGetTextDatum(sub->key);
		tq_spi_enter(&spi);
		rows = tq_spi_look(&stmt_of_key, args, NULL, 0);
		for (uint64 row = 0; row < rows; row++)
		{
			int64         id = tq_spi_int8(row, 1, 0);
			MemoryContext inner = MemoryContextSwitchTo(spi.caller);

			if (tq_change_find(change->by_id, named, id) == NULL)
			{
				TqEntry *entry = palloc0(sizeof(TqEntry));

				entry->part = TQ_PART_MAKES_WAY;
				entry->place = change->adds[i]->place;
				entry->id = id;
				ids = lappend(ids, entry);
			}
			MemoryContextSwitchTo(inner);
		}
		tq_spi_leave(&spi);
	}
	if (ids == NIL)
		return;
	with = MemoryContextAllocHuge(
		CurrentMemoryContext, sizeof(TqEntry *) * (named + list_length(ids)));
	memcpy(with, change->by_id, sizeof(TqEntry *) * named);
	change->by_id = with;
	for (int i = 0; i < list_length(ids); i++)
		change->by_id[change->by_id_count++] = list_nth(ids, i);
	qsort(change->by_id, change->by_id_count, sizeof(TqEntry *),
		  tq_change_compare_ids);
}

/*
 * Lock the tasks in id order; tasks on which the change only depends are
 * locked in share mode.
 */
void
tq_change_lock(TqChange *change)
{
	tq_change_each(change, change->by_id, change->by_id_count, lock_row);
}

static void
lock_row(TqChange *change, TqEntry *entry)
{
	entry->locked = tq_task_lock(change->call, entry->id, TQ_RIGHT_ALL,
								 entry->part == TQ_PART_DEPENDS);
}
