/*
 * key_queue_scan.c
 *		Scans of key queues.
 *
 * A session that holds the key's lock sees all changes of its tasks, except
 * claims and their aborts.  key_queue.c states the invariants of a key queue
 * at rest: therefore a scan begins at the head, and ends at the first blocked
 * task or when it has found enough open tasks.  Its cost does not depend on
 * the number of waiting tasks.  Tasks that the key's row lists (column
 * out_of_order) are looked up by id; the list may contain tasks that are no
 * longer open.
 *
 * shared/key_floor.c stores the position of the head, so the entries of ended
 * tasks are not scanned repeatedly.  Other sessions must not yet skip the
 * tasks that this transaction has ended; for this transaction own_heads has
 * its own heads.
 *
 * An index scan reads a whole page, including all waiting tasks.  So a scan
 * asks for no more than twice as many ids as the last one of the key, and a
 * few more; if that was too few it continues after them.
 *
 * Two indexes contain the tasks that may hold a key: one of suspended tasks,
 * one of dead ones.
 *
 * Tasks that are blocked for another reason do not have TQ_FLAG_IN_LINE, and
 * are not seen here.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "catalog/pg_collation_d.h"
#include "common/int.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

#include "base/array.h"
#include "base/catalog.h"
#include "keyed/key_queue_scan.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "xact/xact.h"

typedef bool (*HoldTest)(const TqKeyRule *rule, const TqTaskFixed *row);

/* The head of a key queue for this transaction, which holds its lock. */
typedef struct OwnHead
{
	uint64       epoch;    /* valid in that epoch */
	uint64       identity; /* and for that extension */
	TqKeyFloorOf of;
	int64        task_id;
} OwnHead;

#define OWN_HEADS 256 /* a power of two */

static OwnHead own_heads[OWN_HEADS];

/* The number of ids that the last scan of a key queue covered. */
typedef struct Reach
{
	TqKeyFloorOf of;
	int64        ids;
} Reach;

#define REACHES 256 /* a power of two */
#define MORE_IDS 32

static Reach reaches[REACHES];

static void     add_out_of_order(TqKeyQueue *line, int64 but);
static bool     is_of_line(const TqKeyQueue *line, const TqTask *task);
static int64    find_head(TqKeyQueue *line);
static int64    first_id(const TqKeyQueue *line);
static int64    last_id(const TqKeyQueue *line);
static void     open_scan(TqKeyQueue *line, int64 task_id);
static int64    guess_end(const TqKeyQueue *line, int64 task_id);
static void     scan_from(TqKeyQueue *line, int64 task_id);
static void     note_reach(const TqKeyQueue *line);
static void     note_head(TqKeyQueue *line, int64 task_id);
static OwnHead *own_head(const TqKeyFloorOf *of);
static bool     is_same_head(const TqKeyFloorOf *a, const TqKeyFloorOf *b);
static const TqTaskFixed *next_row(TqKeyQueue *line);
static const TqTaskFixed *row_of(TupleTableSlot *slot);
static void key_of_scan(const TqKeyQueue *line, ScanKeyData *keys);
static void add_open(TqKeyQueue *line, int64 task_id, TqState state);
static void add_blocked(TqKeyQueue *line, int64 task_id);
static bool any_suspended(TqKeyQueue *line, int64 but);
static bool any_dead(TqKeyQueue *line, int64 but);
static bool probe(TqKeyQueue *line, Relation rel, Oid relid, HoldTest holds,
				  int64 but);
static bool suspended_holds(const TqKeyRule *rule, const TqTaskFixed *row);
static bool dead_holds(const TqKeyRule *rule, const TqTaskFixed *row);

/*
 * Lock the key and read its current tasks.  Returns false if it has no key
 * queue.
 */
bool
tq_key_queue_begin(TqKeyQueue *line, TqCall *call, TqQueue *queue, Datum key)
{
	if (!tq_key_queue_lock(line, call, queue, key))
		return false;
	tq_key_queue_see(line);
	return true;
}

bool
tq_key_queue_lock(TqKeyQueue *line, TqCall *call, TqQueue *queue, Datum key)
{
	memset(line, 0, sizeof(*line));
	line->call = call;
	line->queue = queue;
	if (!tq_key_rule(queue, &line->rule))
		return false;
	line->key = tq_key_lock(call, queue->queue_id, key);
	/* any task that arrives may change it */
	line->places = line->key->unsettled ? 0 : line->key->room;
	line->key->room = 0;
	line->head.of.queue_id = queue->queue_id;
	line->head.of.lifo = line->rule.lifo;
	line->head.of.hash =
		tq_key_floor_hash(VARDATA_ANY(line->key->name.key),
						  VARSIZE_ANY_EXHDR(line->key->name.key));
	return true;
}

void
tq_key_queue_see(TqKeyQueue *line)
{
	tq_row_flush(line->call);
	tq_snapshot_push_latest();
}

/* After changes of this session, or of others. */
void
tq_key_queue_look_anew(TqKeyQueue *line)
{
	tq_snapshot_pop();
	tq_snapshot_push_latest();
}

void
tq_key_queue_end(TqKeyQueue *line)
{
	if (line->scan != NULL)
	{
		index_endscan(line->scan);
		ExecDropSingleTupleTableSlot(line->slot);
		index_close(line->index, NoLock);
	}
	tq_snapshot_pop();
}

/*
 * Find the open tasks except one, and the blocked ones for which there is
 * room, at least the first one.  With at_all the scan continues beyond the
 * number of tasks that may be open, to find or move back all of them.
 */
void
tq_key_queue_look(TqKeyQueue *line, int64 but, bool at_all)
{
	const TqTaskFixed *row;

	line->count = 0;
	line->blocked_count = 0;
	add_out_of_order(line, but);
	open_scan(line, find_head(line));
	while ((row = next_row(line)) != NULL)
	{
		note_head(line, row->task_id);
		if (row->task_id == but)
			continue;
		if (row->state == TQ_STATE_BLOCKED &&
			(row->flags & TQ_FLAG_IN_LINE) != 0)
		{
			add_blocked(line, row->task_id);
			if (line->count + line->blocked_count >= line->rule.open)
				break;
			continue;
		}
		if (!TQ_LINE_IS_OPEN(row->state) ||
			tq_key_queue_is_noted(line, row->task_id))
			continue;
		add_open(line, row->task_id, (TqState) row->state);
		if (!at_all && line->count >= line->rule.open)
			break;
	}
	note_reach(line);
}

/*
 * Find the tasks out of order except one, and those open after it up to the
 * first blocked one.
 */
void
tq_key_queue_look_behind(TqKeyQueue *line, int64 task_id)
{
	const TqTaskFixed *row;

	add_out_of_order(line, task_id);
	open_scan(line, task_id);
	while ((row = next_row(line)) != NULL &&
		   (row->state != TQ_STATE_BLOCKED ||
			(row->flags & TQ_FLAG_IN_LINE) == 0))
	{
		if (row->task_id != task_id && TQ_LINE_IS_OPEN(row->state) &&
			!tq_key_queue_is_noted(line, row->task_id))
			add_open(line, row->task_id, (TqState) row->state);
	}
}

/* Look up the listed tasks by id. */
static void
add_out_of_order(TqKeyQueue *line, int64 but)
{
	for (int i = 0; i < line->key->out_of_order_count; i++)
	{
		TqTask task;

		if (line->key->out_of_order[i] != but &&
			tq_row_find(line->call, line->key->out_of_order[i], &task) &&
			TQ_LINE_IS_OPEN(task.f.state) && is_of_line(line, &task))
			add_open(line, task.f.task_id, (TqState) task.f.state);
	}
}

/* A task may have been given another key or queue since it was listed. */
static bool
is_of_line(const TqKeyQueue *line, const TqTask *task)
{
	text *key;

	if (task->f.queue_id != line->queue->queue_id || task->isnull[TQ_COL_KEY])
		return false;
	key = DatumGetTextPP(task->value[TQ_COL_KEY]);
	return VARSIZE_ANY_EXHDR(key) == VARSIZE_ANY_EXHDR(line->key->name.key) &&
		   memcmp(VARDATA_ANY(key), VARDATA_ANY(line->key->name.key),
				  VARSIZE_ANY_EXHDR(key)) == 0;
}

/* All tasks of the key that are open, or blocked by others of the key. */
int
tq_key_queue_read(TqKeyQueue *line, TqKeyQueueMember **members)
{
	const TqTaskFixed *row;
	int                count = 0;
	int                room = 0;

	*members = NULL;
	open_scan(line, first_id(line));
	while ((row = next_row(line)) != NULL)
	{
		if (!TQ_LINE_IS_OPEN(row->state) &&
			(row->flags & TQ_FLAG_IN_LINE) == 0)
			continue;
		TQ_ARRAY_RESERVE(*members, count, room, CurrentMemoryContext);
		(*members)[count].task_id = row->task_id;
		(*members)[count++].state = (TqState) row->state;
	}
	return count;
}

/* The task where a scan begins: the head, as far as it is known. */
static int64
find_head(TqKeyQueue *line)
{
	OwnHead *own = own_head(&line->head.of);

	line->head.task_id = first_id(line);
	(void) tq_key_floor_get(&line->head.of, &line->head.task_id,
							&line->head.moment);
	if (own != NULL &&
		tq_line_is_before(line, line->head.task_id, own->task_id))
		line->head.task_id = own->task_id;
	line->head_noted = false;
	return line->head.task_id;
}

/* Position the scan before all tasks of the key queue. */
static int64
first_id(const TqKeyQueue *line)
{
	return line->rule.lifo ? PG_INT64_MAX : PG_INT64_MIN;
}

/* Position the scan after all tasks of the key queue. */
static int64
last_id(const TqKeyQueue *line)
{
	return line->rule.lifo ? PG_INT64_MIN : PG_INT64_MAX;
}

/* Begin with that task, or at its position. */
static void
open_scan(TqKeyQueue *line, int64 task_id)
{
	if (line->scan == NULL)
	{
		line->index =
			tq_catalog_open_index(tq_catalog()->task_key, AccessShareLock);
		line->scan = tq_compat_index_beginscan(
			line->call->task.rel, line->index, GetActiveSnapshot(), 4);
		line->slot = table_slot_create(line->call->task.rel, NULL);
	}
	line->from = task_id;
	line->reached = task_id;
	line->upto = guess_end(line, task_id);
	scan_from(line, task_id);
}

/* The presumable end of a scan from that task. */
static int64
guess_end(const TqKeyQueue *line, int64 task_id)
{
	const Reach *reach = &reaches[line->head.of.hash & (REACHES - 1)];
	int64        ids;
	int64        end;

	if (task_id == first_id(line) || !is_same_head(&reach->of, &line->head.of))
		return last_id(line);
	ids = Min(reach->ids, PG_INT32_MAX) * 2 + MORE_IDS;
	if (line->rule.lifo ? pg_sub_s64_overflow(task_id, ids, &end)
						: pg_add_s64_overflow(task_id, ids, &end))
		return last_id(line);
	return end;
}

/* From that task to the end of the requested range. */
static void
scan_from(TqKeyQueue *line, int64 task_id)
{
	ScanKeyData keys[4];
	bool        lifo = line->rule.lifo;

	key_of_scan(line, keys);
	ScanKeyInit(&keys[2], 3, BTGreaterEqualStrategyNumber, F_INT8GE,
				Int64GetDatum(lifo ? line->upto : task_id));
	ScanKeyInit(&keys[3], 3, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(lifo ? task_id : line->upto));
	line->scan->xs_snapshot = GetActiveSnapshot();
	index_rescan(line->scan, keys, 4, NULL, 0);
}

/* Remember the range for the next scan of this key queue. */
static void
note_reach(const TqKeyQueue *line)
{
	Reach *reach = &reaches[line->head.of.hash & (REACHES - 1)];

	if (line->from == first_id(line))
		return;
	reach->of = line->head.of;
	reach->ids = line->rule.lifo ? line->from - line->reached
								 : line->reached - line->from;
}

/*
 * Remember the first task that the scan has seen: no task before it is live.
 */
static void
note_head(TqKeyQueue *line, int64 task_id)
{
	OwnHead *own;

	if (line->head_noted)
		return;
	line->head_noted = true;
	if (line->head.task_id == task_id)
		return;
	line->head.task_id = task_id;
	tq_xact_key_floor(&line->head);
	own = &own_heads[line->head.of.hash & (OWN_HEADS - 1)];
	own->epoch = tq_xact_epoch();
	own->identity = tq_catalog_identity();
	own->of = line->head.of;
	own->task_id = task_id;
}

/* NULL if unknown. */
static OwnHead *
own_head(const TqKeyFloorOf *of)
{
	OwnHead *own = &own_heads[of->hash & (OWN_HEADS - 1)];

	if (own->epoch != tq_xact_epoch() ||
		own->identity != tq_catalog_identity() || !is_same_head(&own->of, of))
		return NULL;
	return own;
}

static bool
is_same_head(const TqKeyFloorOf *a, const TqKeyFloorOf *b)
{
	return a->hash == b->hash && a->queue_id == b->queue_id &&
		   a->lifo == b->lifo;
}

/* The task is live, or will be, and precedes other tasks. */
void
tq_key_queue_lower_floor(TqKeyQueue *line, int64 task_id)
{
	OwnHead *own = own_head(&line->head.of);

	tq_key_floor_lower(&line->head.of, task_id);
	if (own != NULL && tq_line_is_before(line, task_id, own->task_id))
		own->task_id = task_id;
}

static const TqTaskFixed *
next_row(TqKeyQueue *line)
{
	const TqTaskFixed *row;

	CHECK_FOR_INTERRUPTS();
	while (!index_getnext_slot(line->scan,
							   line->rule.lifo ? BackwardScanDirection
											   : ForwardScanDirection,
							   line->slot))
	{
		int64 next = line->upto + (line->rule.lifo ? -1 : 1);

		if (line->upto == last_id(line))
			return NULL;
		line->upto = last_id(line);
		scan_from(line, next);
	}
	row = row_of(line->slot);
	line->reached = row->task_id;
	return row;
}

static const TqTaskFixed *
row_of(TupleTableSlot *slot)
{
	bool      should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);

	return (const TqTaskFixed *) GETSTRUCT(tuple);
}

/* All entries of the key, in an index that begins with queue and key. */
static void
key_of_scan(const TqKeyQueue *line, ScanKeyData *keys)
{
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(line->key->name.queue_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ,
						   PointerGetDatum(line->key->name.key));
}

static void
add_open(TqKeyQueue *line, int64 task_id, TqState state)
{
	TQ_ARRAY_RESERVE(line->open, line->count, line->room,
					 CurrentMemoryContext);
	line->open[line->count].task_id = task_id;
	line->open[line->count++].state = state;
}

static void
add_blocked(TqKeyQueue *line, int64 task_id)
{
	TQ_ARRAY_RESERVE(line->blocked, line->blocked_count, line->blocked_room,
					 CurrentMemoryContext);
	line->blocked[line->blocked_count++] = task_id;
}

bool
tq_key_queue_is_noted(const TqKeyQueue *line, int64 task_id)
{
	for (int i = 0; i < line->key->out_of_order_count; i++)
	{
		if (line->key->out_of_order[i] == task_id)
			return true;
	}
	return false;
}

/* Must all tasks of the key wait because of a task other than that one? */
bool
tq_key_queue_is_held(TqKeyQueue *line, int64 but)
{
	if (line->rule.held_by_dead && any_dead(line, but))
		return true;
	return (line->rule.held_by_dead || line->rule.held_by_suspended) &&
		   any_suspended(line, but);
}

/* Does a suspended live task hold the key? */
static bool
any_suspended(TqKeyQueue *line, int64 but)
{
	return probe(line, line->call->task.rel, tq_catalog()->task_suspended,
				 suspended_holds, but);
}

static bool
any_dead(TqKeyQueue *line, int64 but)
{
	Relation keep = tq_catalog_open_table(tq_catalog()->leaf[TQ_LEAF_KEEP],
										  AccessShareLock);
	bool found = probe(line, keep, tq_catalog()->keep_dead, dead_holds, but);

	table_close(keep, NoLock);
	return found;
}

/* Does a task of the key in the index, other than that one, hold it? */
static bool
probe(TqKeyQueue *line, Relation rel, Oid relid, HoldTest holds, int64 but)
{
	Relation        index = tq_catalog_open_index(relid, AccessShareLock);
	TupleTableSlot *slot = table_slot_create(rel, NULL);
	IndexScanDesc   scan =
		tq_compat_index_beginscan(rel, index, GetActiveSnapshot(), 2);
	ScanKeyData keys[2];
	bool        found = false;

	key_of_scan(line, keys);
	index_rescan(scan, keys, 2, NULL, 0);
	while (!found && index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		const TqTaskFixed *row = row_of(slot);

		CHECK_FOR_INTERRUPTS();
		found = row->task_id != but && holds(&line->rule, row);
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	return found;
}

static bool
suspended_holds(const TqKeyRule *rule, const TqTaskFixed *row)
{
	return rule->held_by_suspended || row->reason == TQ_REASON_WORKER_DEAD;
}

static bool
dead_holds(const TqKeyRule *rule, const TqTaskFixed *row)
{
	return row->reason != TQ_REASON_POISON;
}
