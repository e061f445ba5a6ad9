/*
 * change_lock.c
 *		What a change locks, and in which order.
 *
 * Keys are locked, then the references that changes give to several tasks,
 * then the rows of all tasks that are named, or make way for those that are
 * added, in the order of their ids, then documents in theirs (document.c):
 * what changes for ourselves, what others only depend on shared.  So two
 * changes never wait for each other.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/catalog.h"
#include "base/spi.h"
#include "cache/role.h"
#include "change/change_lock.h"
#include "change/change_set.h"
#include "change/document.h"
#include "engine/key.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "xact/position_note.h"
#include "xact/xact.h"

#define REFERENCE_LOCKS 1024

static TqStmt stmt_of_key = {
	"SELECT task_id FROM taskq.task"
	" WHERE queue_id = $1 AND key = $2 AND state <> " TQ_SQL_STATE_RUNNING,
	{INT4OID, TEXTOID}};

static void lock_keys(TqChange *change);
static bool key_of(TqChange *change, const TqEntry *entry, TqKeyName *name);
static bool names_after(TqChange *change, const TqEntry *entry,
						TqQueue **queue, text **key);
static void lock_references(TqChange *change);
static void add_who_makes_way(TqChange *change);
static void lock_row(TqChange *change, TqEntry *entry);

void
tq_change_lock_all(TqChange *change)
{
	lock_keys(change);
	tq_change_note_brought(change);
	lock_references(change);
	add_who_makes_way(change);
	tq_change_lock(change);
	tq_document_lock(change);
}

/* Of all tasks that are moved, and of those that come. */
static void
lock_keys(TqChange *change)
{
	int64 *ids =
		palloc_extended(sizeof(int64) * (change->count + 1), MCXT_ALLOC_HUGE);
	TqKeyName *names = palloc_extended(
		sizeof(TqKeyName) * 2 * (change->count + 1), MCXT_ALLOC_HUGE);
	int count = 0;
	int named;

	for (int i = 0; i < change->by_id_count; i++)
	{
		if (change->by_id[i]->part != TQ_PART_DEPENDS)
			ids[count++] = change->by_id[i]->id;
	}
	named = tq_key_names_of(change->call, ids, count, TQ_RIGHT_WORK, names);
	for (int i = 0; i < change->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		named += key_of(change, &change->entries[i], &names[named]);
	}
	tq_key_lock_names(change->call, names, named);
	tq_snapshot_renew();
}

/* The key that an entry gives to a task, if it has to be locked. */
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

/* Queue and key of a task after an update that changes one of them. */
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
 * Unique references are waited for in the order in which rows are written.
 * Of two changes that each give several, in whatever order, the second one
 * waits here instead: for the hash of the reference, of which there are so
 * few that a hundred thousand of them do not fill the table of locks.  The
 * OID is that of a table, which REINDEX CONCURRENTLY leaves as it is.
 */
static void
lock_references(TqChange *change)
{
	Bitmapset *hashes = NULL;
	int        given = 0;
	int        hash = -1;

	for (int i = 0; i < change->count; i++)
	{
		char *reference = tq_change_reference(&change->entries[i]);

		if (reference == NULL)
			continue;
		given++;
		hashes = bms_add_member(hashes, hash_bytes((unsigned char *) reference,
												   (int) strlen(reference)) %
											REFERENCE_LOCKS);
	}
	if (given > 1)
	{
		while ((hash = bms_next_member(hashes, hash)) >= 0)
			LockDatabaseObject(tq_catalog()->key, (Oid) hash, 0,
							   ExclusiveLock);
	}
}

/*
 * The tasks that make way for those that are added are locked with the
 * others.  Running ones do not make way.
 */
static void
add_who_makes_way(TqChange *change)
{
	List *ids = NIL;
	int   named = change->by_id_count;

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
	change->by_id = repalloc_huge(
		change->by_id, sizeof(TqEntry *) * (named + list_length(ids)));
	for (int i = 0; i < list_length(ids); i++)
		change->by_id[change->by_id_count++] = list_nth(ids, i);
	qsort(change->by_id, change->by_id_count, sizeof(TqEntry *),
		  tq_change_compare_ids);
}

/*
 * Lock the tasks, in the order of their ids: those that others only depend on
 * shared.
 */
void
tq_change_lock(TqChange *change)
{
	tq_change_each(change, change->by_id, change->by_id_count, lock_row);
}

/*
 * Claims pass over a row that is locked, and may remember that: when the
 * transaction has ended, they have to be told where it stands.
 */
static void
lock_row(TqChange *change, TqEntry *entry)
{
	TqTask         task;
	TqQueue       *queue;
	TqLanePosition before;

	entry->locked = false;
	for (;;)
	{
		if (!tq_row_find(change->call, entry->id, &task))
			return;
		queue = tq_queue_by_id(task.f.queue_id);
		/* nobody may hold up the tasks of others */
		if (queue == NULL || tq_role_rights(queue) == 0)
			return;
		before = task.place;
		tq_xact_begin();
		tq_position_note_taking(&task);
		entry->locked =
			tq_row_lock(change->call, &task, entry->part == TQ_PART_DEPENDS);
		if (entry->locked)
			break;
		/* the row has been taken out, and may be put in elsewhere */
		tq_position_note_not_taken(&task);
		tq_snapshot_renew();
	}
	tq_position_note_put(&task);
	/* it may have moved while we waited */
	if (task.stood && (task.place.lane_id != before.lane_id ||
					   task.place.priority != before.priority ||
					   task.place.available_at != before.available_at))
	{
		tq_position_note_taking(&task);
		tq_position_note_put(&task);
	}
}
