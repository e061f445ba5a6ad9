/*
 * key.c
 *		Keys: the queue's rule for tasks with the same key, and their locks.
 *
 * A row of taskq.key is the mutex of a key.  Every action that makes a task of
 * the key pending, or ends a pending or running task of the key, locks the row
 * and seldom changes it; so do insertions that affect earlier tasks.  A claim
 * never locks it, since a pending task blocks other tasks in the same way as a
 * running task.  The lock is held until the end of the transaction, or of a
 * savepoint that is rolled back.
 *
 * The lock order within a call is keys by queue and key, then tasks by id.  A
 * call that moves one task locks its key just before it writes.  A call that
 * moves many tasks, or that takes a finished task out of the archive, locks
 * all keys beforehand (tq_key_lock_names).
 *
 * A queue may get or lose its rule while tasks are in progress.  The change
 * takes SHARE ROW EXCLUSIVE on taskq.queue_change, and a session that reads
 * the rule here takes ROW EXCLUSIVE first, so that the rule stays valid until
 * its transaction ends.
 *
 * Changes by others are read with a snapshot that was taken after the lock was
 * obtained, regardless of the isolation level.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/spi.h"
#include "cache/role.h"
#include "engine/key.h"
#include "store/row.h"
#include "store/snapshot.h"

#define COLUMN_ASTRAY 3

typedef struct Entry
{
	uint64 hash;
	TqKey *first;
} Entry;

static TqStmt stmt_add = {
	"INSERT INTO taskq.key (queue_id, key) VALUES ($1, $2)"
	" ON CONFLICT (queue_id, key) DO NOTHING",
	{INT4OID, TEXTOID}};

static TqStmt stmt_out_of_order = {
	"UPDATE taskq.key SET out_of_order = $3 WHERE queue_id = $1 AND key = $2",
	{INT4OID, TEXTOID, INT8ARRAYOID}};

static TqKeys *keys_of(TqCall *call);
static TqKeys *open_keys_of(TqCall *call);
static int     names_of_task(const TqQueue *queue, const TqTask *task,
							 TqKeyName *names);
static int  names_of_tasks(TqCall *call, const int64 *ids, const int64 *tokens,
						   int count, int right, TqKeyName *names);
static bool lock(TqCall *call, TqKeys *keys, TqKey *key, bool wait);
static TqKey *find_or_add(TqCall *call, TqKeys *keys, int32 queue_id,
						  text *key);
static bool   is_being_made(TqCall *call, TqKeys *keys, const TqKey *key);
static bool   add_row(const TqKeyName *name);
static void   key_of_scan(const TqKey *key, ScanKeyData *scan);
static bool   lock_row(TqCall *call, TqKeys *keys, TqKey *key, bool own,
					   bool wait, bool *locked);
static void read_out_of_order(TqCall *call, TupleTableSlot *slot, TqKey *key);
static int  compare_names(const void *a, const void *b);

/*
 * Get the queue's rule for tasks with the same key; return false if there is
 * none.  The rule stays valid until the transaction ends.
 */
bool
tq_key_rule(const TqQueue *queue, TqKeyRule *rule)
{
	const TqOptions *options;

	LockRelationOid(tq_catalog()->queue_change, RowExclusiveLock);
	options = tq_queue_options_now(queue);
	rule->open = options->max_running_per_key;
	rule->held_by_dead = options->key_policy >= TQ_KEY_HOLD_ON_FAILURE;
	rule->held_by_suspended = options->key_policy >= TQ_KEY_UNTIL_SUCCESS;
	rule->lifo = options->order == TQ_ORDER_LIFO;
	if (options->key_policy != TQ_KEY_NONE)
		rule->open = 1;
	return rule->open > 0;
}

bool
tq_key_is_ordered(const TqQueue *queue)
{
	TqKeyRule rule;

	return tq_key_rule(queue, &rule);
}

/*
 * Wait for the key's lock and take it.  If the call was said to have locked
 * all its keys, raise 40001 instead of waiting.
 */
TqKey *
tq_key_lock(TqCall *call, int32 queue_id, Datum key)
{
	TqKeys *keys = open_keys_of(call);
	TqKey  *result = find_or_add(call, keys, queue_id, DatumGetTextPP(key));

	if (!lock(call, keys, result, !keys->complete))
		tq_error_serialization();
	return result;
}

/*
 * Lock the key of a task, and that of the copy that the task may leave, if
 * both are free; return false if another session has one.  For the background
 * worker, which does not wait for open transactions.
 */
bool
tq_key_try_task(TqCall *call, const TqQueue *queue, const TqTask *task)
{
	TqKeyName names[2];
	int       count;

	/* an open transaction may be changing a queue */
	if (task->isnull[TQ_COL_KEY])
		return true;
	if (!ConditionalLockRelationOid(tq_catalog()->queue_change,
									RowExclusiveLock))
		return false;
	count = names_of_task(queue, task, names);
	for (int i = 0; i < count; i++)
	{
		TqKeys *keys = open_keys_of(call);
		TqKey  *key = find_or_add(call, keys, names[i].queue_id, names[i].key);

		if (!lock(call, keys, key, false))
			return false;
	}
	return true;
}

/* Note a key that is needed later; it is locked with the next keys. */
void
tq_key_note(TqCall *call, int32 queue_id, const char *key)
{
	MemoryContext mine = MemoryContextSwitchTo(call->context);
	TqKeys       *keys = keys_of(call);
	TqKeyName    *name = palloc(sizeof(TqKeyName));

	name->queue_id = queue_id;
	name->key = cstring_to_text(key);
	keys->ahead = lappend(keys->ahead, name);
	MemoryContextSwitchTo(mine);
}

/* Lock many keys, in an order in which two calls cannot deadlock. */
void
tq_key_lock_names(TqCall *call, TqKeyName *names, int count)
{
	TqKeyName *all = names;
	TqKeys    *keys = call->keys;
	ListCell  *cell;

	if (keys != NULL && keys->ahead != NIL)
	{
		all = MemoryContextAllocHuge(CurrentMemoryContext,
									 sizeof(TqKeyName) *
										 (count + list_length(keys->ahead)));
		for (int i = 0; i < count; i++)
			all[i] = names[i];
		foreach (cell, keys->ahead)
			all[count++] = *(TqKeyName *) lfirst(cell);
		keys->ahead = NIL;
	}
	qsort(all, count, sizeof(TqKeyName), compare_names);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		(void) tq_key_lock(call, all[i].queue_id, PointerGetDatum(all[i].key));
	}
	if (all != names)
		pfree(all);
}

/*
 * The call has locked all keys that it needs, as far as it could see.  It may
 * find that a task has another key; a wait for that one could deadlock.
 */
void
tq_key_complete(TqCall *call)
{
	keys_of(call)->complete = true;
}

/*
 * Raise 40001 unless the call has locked these keys, which it has read again
 * with all its locks: a key that is locked only now would be out of order.
 */
void
tq_key_require_locked(TqCall *call, const TqKeyName *names, int count)
{
	for (int i = 0; i < count; i++)
	{
		if (!find_or_add(call, open_keys_of(call), names[i].queue_id,
						 names[i].key)
				 ->locked)
			tq_error_serialization();
	}
}

/*
 * Lock the key of a task, if its queue orders tasks by key, and the key of the
 * copy that may be submitted when it dies.  Call this before the task is taken
 * out of the archive, or an id is assigned to a new task like it.
 */
void
tq_key_lock_task(TqCall *call, const TqQueue *queue, const TqTask *task)
{
	TqKeyName names[2] = {{0}};

	tq_key_lock_names(call, names, names_of_task(queue, task, names));
}

/*
 * Lock the keys of the live tasks of a list, before the first task is moved.
 * Tasks are skipped if current_user does not have the right on their queues,
 * or, if tokens are given, if they are not held under their tokens: a role
 * must not block tasks of other roles.  Right 0 is for the extension itself.
 */
void
tq_key_lock_tasks(TqCall *call, const int64 *ids, const int64 *tokens,
				  int count, int right)
{
	TqKeyName *names;
	int        named;

	if (count < 2 || !tq_queue_any_ordered())
		return;
	names = MemoryContextAllocHuge(CurrentMemoryContext,
								   sizeof(TqKeyName) * 2 * count);
	named = names_of_tasks(call, ids, tokens, count, right, names);
	tq_key_lock_names(call, names, named);
	/* others may have moved these tasks during the wait */
	if (named > 0)
		tq_snapshot_renew();
	pfree(names);
}

/* Get the names of their keys, at most two for each; return their number. */
int
tq_key_names_of(TqCall *call, const int64 *ids, int count, int right,
				TqKeyName *names)
{
	if (!tq_queue_any_ordered())
		return 0;
	return names_of_tasks(call, ids, NULL, count, right, names);
}

/* Lock both keys before a task gets another queue or key. */
void
tq_key_lock_change(TqCall *call, const TqTask *task, const TqQueue *queue)
{
	TqKeyName names[2];
	TqQueue  *before = tq_queue_by_id(task->queue_before);
	int       count = 0;

	if (task->key_before != (Datum) 0 && before != NULL &&
		tq_key_is_ordered(before))
	{
		names[count].queue_id = task->queue_before;
		names[count++].key = DatumGetTextPP(task->key_before);
	}
	if (!task->isnull[TQ_COL_KEY] && tq_key_is_ordered(queue))
	{
		names[count].queue_id = queue->queue_id;
		names[count++].key = DatumGetTextPP(task->value[TQ_COL_KEY]);
	}
	tq_key_lock_names(call, names, count);
}

/* Record which tasks are out of order. */
void
tq_key_write_out_of_order(TqCall *call, TqKey *key)
{
	Datum args[3];
	bool  nulls[3] = {false, false, key->out_of_order_count == 0};
	TqSpi spi;

	args[0] = Int32GetDatum(key->name.queue_id);
	args[1] = PointerGetDatum(key->name.key);
	args[2] = tq_spi_int8_array(key->out_of_order, key->out_of_order_count);
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_out_of_order, args, nulls, SPI_OK_UPDATE, 0) != 1)
	{
		/* it was created after the transaction's snapshot was taken */
		if (IsolationUsesXactSnapshot())
			tq_error_serialization();
		elog(ERROR, "the row of a locked key is gone");
	}
	tq_spi_leave(&spi);
	CommandCounterIncrement();
}

/*
 * At the end of a call with a list, decide once for each key which task is
 * next.
 */
void
tq_key_settle_later(TqCall *call)
{
	keys_of(call)->settle_later = true;
}

/* Forget the keys; the locks remain until the transaction ends. */
void
tq_key_end(TqCall *call)
{
	TqKeys *keys = call->keys;

	if (keys == NULL || keys->by_hash == NULL)
		return;
	index_endscan(keys->scan);
	ExecDropSingleTupleTableSlot(keys->slot);
	index_close(keys->index, NoLock);
	table_close(keys->rel, NoLock);
	hash_destroy(keys->by_hash);
	call->keys = NULL;
}

/* Find the keys that a change of the task affects; at most two. */
static int
names_of_task(const TqQueue *queue, const TqTask *task, TqKeyName *names)
{
	if (task->isnull[TQ_COL_KEY])
		return 0;
	return tq_key_names(queue, DatumGetTextPP(task->value[TQ_COL_KEY]),
						!task->isnull[TQ_COL_WORKFLOW_ID], names);
}

/*
 * The same for a task with that key, which may be a step of a workflow: its
 * queue's key, and that of the copy that it leaves when it dies.
 */
int
tq_key_names(const TqQueue *queue, text *key, bool step, TqKeyName *names)
{
	TqQueue *copies = NULL;
	int      count = 0;

	if (tq_key_is_ordered(queue))
		names[count++].queue_id = queue->queue_id;
	/* a step leaves no copy */
	if (queue->options.dead_letter_queue != NULL && !step)
		copies = tq_queue_find(queue->options.dead_letter_queue);
	if (copies != NULL && copies != queue && tq_key_is_ordered(copies))
		names[count++].queue_id = copies->queue_id;
	for (int i = 0; i < count; i++)
		names[i].key = key;
	return count;
}

static int
names_of_tasks(TqCall *call, const int64 *ids, const int64 *tokens, int count,
			   int right, TqKeyName *names)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(caller, "taskq keys", ALLOCSET_DEFAULT_SIZES);
	int named = 0;

	for (int i = 0; i < count; i++)
	{
		TqTask   task;
		TqQueue *queue;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		MemoryContextReset(one);
		if (!tq_row_find(call, ids[i], &task) || task.isnull[TQ_COL_KEY] ||
			(tokens != NULL &&
			 (task.f.state != TQ_STATE_RUNNING || task.f.token != tokens[i])))
			continue;
		queue = tq_queue_by_id(task.f.queue_id);
		if (queue == NULL ||
			(right != 0 && (tq_role_rights(queue) & right) == 0))
			continue;
		for (int left = names_of_task(queue, &task, &names[named]); left > 0;
			 left--)
		{
			MemoryContextSwitchTo(caller);
			names[named].key = DatumGetTextPCopy(task.value[TQ_COL_KEY]);
			named++;
		}
	}
	MemoryContextSwitchTo(caller);
	MemoryContextDelete(one);
	return named;
}

/* Without wait, return false if another session has the lock. */
static bool
lock(TqCall *call, TqKeys *keys, TqKey *key, bool wait)
{
	bool own = false;

	if (key->locked)
		return true;
	while (!lock_row(call, keys, key, own, wait, &key->locked))
	{
		if (!wait && is_being_made(call, keys, key))
			return false;
		own = add_row(&key->name);
	}
	if (key->locked)
		TQ_DEBUG_POINT("key_locked");
	return key->locked;
}

static TqKeys *
keys_of(TqCall *call)
{
	if (call->keys == NULL)
		call->keys = MemoryContextAllocZero(call->context, sizeof(TqKeys));
	return call->keys;
}

/* Like the function above, with taskq.key already open. */
static TqKeys *
open_keys_of(TqCall *call)
{
	MemoryContext mine;
	HASHCTL       ctl = {0};
	TqKeys       *keys = keys_of(call);

	if (keys->by_hash != NULL)
		return keys;
	mine = MemoryContextSwitchTo(call->context);
	ctl.keysize = sizeof(uint64);
	ctl.entrysize = sizeof(Entry);
	ctl.hcxt = call->context;
	keys->by_hash = hash_create("taskq keys of a call", 16, &ctl,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	keys->rel = tq_catalog_open_table(tq_catalog()->key, RowExclusiveLock);
	keys->index =
		tq_catalog_open_index(tq_catalog()->key_pkey, AccessShareLock);
	keys->scan = tq_compat_index_beginscan(keys->rel, keys->index,
										   GetActiveSnapshot(), 2);
	keys->slot = table_slot_create(keys->rel, NULL);
	MemoryContextSwitchTo(mine);
	return keys;
}

/* Find or add the call's entry of the key. */
static TqKey *
find_or_add(TqCall *call, TqKeys *keys, int32 queue_id, text *key)
{
	int    length = VARSIZE_ANY_EXHDR(key);
	uint64 hash = hash_bytes_extended((unsigned char *) VARDATA_ANY(key),
									  length, (uint64) queue_id);
	MemoryContext mine;
	Entry        *entry;
	TqKey        *result;
	bool          found;

	entry = hash_search(keys->by_hash, &hash, HASH_ENTER, &found);
	if (!found)
		entry->first = NULL;
	for (result = entry->first; result != NULL; result = result->next)
	{
		if (result->name.queue_id == queue_id &&
			VARSIZE_ANY_EXHDR(result->name.key) == length &&
			memcmp(VARDATA_ANY(result->name.key), VARDATA_ANY(key), length) ==
				0)
			return result;
	}
	mine = MemoryContextSwitchTo(call->context);
	result = palloc0(sizeof(TqKey));
	result->name.queue_id = queue_id;
	result->name.key = DatumGetTextPCopy(PointerGetDatum(key));
	result->next = entry->first;
	entry->first = result;
	MemoryContextSwitchTo(mine);
	return result;
}

/* Is an open transaction about to insert the row? */
static bool
is_being_made(TqCall *call, TqKeys *keys, const TqKey *key)
{
	MemoryContext mine = MemoryContextSwitchTo(call->context);
	SnapshotData  dirty;
	ScanKeyData   scan[2];
	bool          found;

	InitDirtySnapshot(dirty);
	key_of_scan(key, scan);
	keys->scan->xs_snapshot = &dirty;
	index_rescan(keys->scan, scan, 2, NULL, 0);
	found = index_getnext_slot(keys->scan, ForwardScanDirection, keys->slot) &&
			TransactionIdIsValid(dirty.xmin);
	ExecClearTuple(keys->slot);
	/* the scan's snapshot is about to be released */
	keys->scan->xs_snapshot = GetActiveSnapshot();
	MemoryContextSwitchTo(mine);
	return found;
}

static void
key_of_scan(const TqKey *key, ScanKeyData *scan)
{
	ScanKeyInit(&scan[0], 1, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(key->name.queue_id));
	ScanKeyEntryInitialize(&scan[1], 0, 2, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ,
						   PointerGetDatum(key->name.key));
}

/*
 * Returns false if another session has inserted the row, or was inserting it,
 * in which case its end was waited for.
 */
static bool
add_row(const TqKeyName *name)
{
	Datum args[2] = {Int32GetDatum(name->queue_id),
					 PointerGetDatum(name->key)};

	return tq_spi_execute(&stmt_add, args, NULL, SPI_OK_INSERT) == 1;
}

/*
 * Lock the row of the key and read it; return false if there is none.  A row
 * that this call has just inserted need not be locked: no other session can
 * see it, and a session that tries to insert it waits.  Without wait, *locked
 * may remain false.
 */
static bool
lock_row(TqCall *call, TqKeys *keys, TqKey *key, bool own, bool wait,
		 bool *locked)
{
	ScanKeyData    scan[2];
	TM_FailureData failure;
	TM_Result      result = TM_Ok;
	MemoryContext  mine;
	bool           found;

	key_of_scan(key, scan);
	CommandCounterIncrement();
	/* the scan continues in other calls, and keeps what it allocates */
	mine = MemoryContextSwitchTo(call->context);
	PushActiveSnapshot(GetLatestSnapshot());
	keys->scan->xs_snapshot = GetActiveSnapshot();
	index_rescan(keys->scan, scan, 2, NULL, 0);
	found = index_getnext_slot(keys->scan, ForwardScanDirection, keys->slot);
	if (found && !own)
		result = table_tuple_lock(
			keys->rel, &keys->slot->tts_tid, GetActiveSnapshot(), keys->slot,
			GetCurrentCommandId(true), LockTupleExclusive,
			wait ? LockWaitBlock : LockWaitSkip,
			TUPLE_LOCK_FLAG_FIND_LAST_VERSION, &failure);
	switch (result)
	{
		case TM_Ok:
			*locked = found;
			break;
		case TM_WouldBlock:
			break;
		case TM_Deleted: /* the lock was not needed before, but is now */
			found = false;
			break;
		default:
			tq_error_serialization();
	}
	if (*locked)
		read_out_of_order(call, keys->slot, key);
	ExecClearTuple(keys->slot);
	PopActiveSnapshot();
	MemoryContextSwitchTo(mine);
	return found;
}

static void
read_out_of_order(TqCall *call, TupleTableSlot *slot, TqKey *key)
{
	bool   isnull;
	Datum  value = slot_getattr(slot, COLUMN_ASTRAY, &isnull);
	Datum *ids;

	key->out_of_order_count = 0;
	if (isnull)
		return;
	deconstruct_array(DatumGetArrayTypeP(value), INT8OID, sizeof(int64),
					  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &ids, NULL,
					  &key->out_of_order_count);
	key->out_of_order = MemoryContextAlloc(
		call->context, sizeof(int64) * (key->out_of_order_count + 1));
	for (int i = 0; i < key->out_of_order_count; i++)
		key->out_of_order[i] = DatumGetInt64(ids[i]);
}

/* Order by queue and key, bytewise. */
static int
compare_names(const void *a, const void *b)
{
	const TqKeyName *x = a;
	const TqKeyName *y = b;
	int              length_x = VARSIZE_ANY_EXHDR(x->key);
	int              length_y = VARSIZE_ANY_EXHDR(y->key);
	int              order;

	if (x->queue_id != y->queue_id)
		return x->queue_id < y->queue_id ? -1 : 1;
	order = memcmp(VARDATA_ANY(x->key), VARDATA_ANY(y->key),
				   Min(length_x, length_y));
	return order != 0 ? order : length_x - length_y;
}
