/*
 * line.c
 *		The line of a key: who of its tasks is next.
 *
 * In a queue with a key_policy, or with max_running_per_key, the live tasks
 * of a key stand in a line, by their ids: rising, or falling in a lifo queue.
 * At most so many of them as the rule says are open, which is to say pending
 * or running; the others wait, blocked, outside the claimable part of the
 * dispatch index, so that ten thousand of them cost a claim nothing.  A claim
 * takes no part in this: it makes an open task of an open task.
 *
 * Whoever makes a task pending asks here first, and it may become blocked
 * (entering); whoever takes one out of the open ones lets the next one go, in
 * the same transaction (entered).  Both have the key's lock (core/key.c), so
 * what they see of its tasks is all there is, but for a claim or its abort.
 *
 * In a line at rest
 * - all open tasks stand before all blocked ones, but for those noted in the
 *   key's row as astray;
 * - when a task is blocked, then so many are open as may be, or the key is
 *   held.
 * So a look begins at the head and ends at the first blocked task, or when
 * enough open ones were seen: it does not depend on how many wait.  Tasks go
 * astray when one enters before an open one that cannot be moved back,
 * because it runs or somebody is claiming it.  The note may name tasks that
 * are not open any more, so each is looked up.
 *
 * A key can be held: by a dead task of it, unless it is poison, and by one
 * that was suspended because its worker died (serial_hold_on_failure), and by
 * any suspended one (serial_until_success).  Then none is let go, and who is
 * pending is moved back.  Two indexes have just these tasks.
 *
 * Where the head is, memory knows (shared/head.c): the entries of tasks that
 * have ended are not walked over again and again.  Those that this transaction
 * has ended, nobody else may pass over yet: own_heads knows of them.
 *
 * A call with a list decides about each key once, at its end (lines_later).
 * Until then whoever is to become pending is blocked, and none is let go.
 *
 * Blocked tasks that wait for something else have not TQ_FLAG_IN_LINE, and
 * are not seen here.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_collation_d.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/spi.h"
#include "core/xact.h"
#include "ordered/line.h"

/* An open task. */
typedef struct Member
{
	int64   task_id;
	TqState state;
	bool    astray;
} Member;

/* What a look at the line has found. */
typedef struct Line
{
	TqCall         *call;
	TqQueue        *queue;
	TqKeyRule       rule;
	TqKey          *key;
	Relation        index;
	IndexScanDesc   scan;
	TupleTableSlot *slot;
	Member         *open; /* those astray are the last ones */
	int             count;
	int             room;
	int64          *blocked; /* those that come next, if there is room */
	int             blocked_count;
	int             places; /* what the key told of its room */
	TqHeadFound     head;   /* where the look begins */
	bool            head_noted;
} Line;

static TqStmt stmt_keys = {
	"SELECT DISTINCT key FROM taskq.task"
	" WHERE queue_id = $1 AND key IS NOT NULL ORDER BY key",
	1,
	{INT4OID},
	NULL};

/* Flag 8 is TQ_FLAG_IN_LINE. */
static TqStmt stmt_waiting = {
	"SELECT task_id FROM taskq.task"
	" WHERE queue_id = $1 AND key IS NOT NULL AND state = 2 AND flags & 8 <> 0"
	" ORDER BY task_id",
	1,
	{INT4OID},
	NULL};

static TqStmt stmt_forget_astray = {
	"UPDATE taskq.key SET astray = NULL"
	" WHERE queue_id = $1 AND astray IS NOT NULL",
	1,
	{INT4OID},
	NULL};

typedef bool (*HoldTest)(const TqKeyRule *rule, const TqTaskFixed *row);

/* Where a line begins, for this transaction, which has its key's lock. */
typedef struct OwnHead
{
	uint64   epoch; /* it holds in that one */
	TqHeadOf of;
	int64    task_id;
} OwnHead;

#define OWN_HEADS 256 /* a power of two */

static OwnHead own_heads[OWN_HEADS];

static void entering(TqCall *call, TqQueue *queue, TqTask *task, TqMove *move);
static void entered(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
					const TqMove *move);
static void left(TqCall *call, TqQueue *queue, Datum key);
static void go_on(TqCall *call, TqQueue *queue, Datum key, int64 stop_id);
static void settle_all(TqCall *call);
static void put_off(TqCall *call, TqKey *key);
static void put_behind(Line *line, int64 task_id);
static bool all_can_be_moved_back(Line *line, const TqTask *task);
static bool has_place(Line *line, const TqTask *task, bool is_new);
static void rearrange(TqCall *call, TqQueue *queue);
static void let_go_all(TqCall *call, TqQueue *queue);
static void arrange(Line *line);
static int  read_line(Line *line, Member **members);
static bool begin(Line *line, TqCall *call, TqQueue *queue, Datum key);
static bool lock_line(Line *line, TqCall *call, TqQueue *queue, Datum key);
static void see_line(Line *line);
static void end(Line *line);
static void look_anew(Line *line);
static void look(Line *line, int64 but, bool at_all);
static void look_at_astray(Line *line, int64 but);
static bool is_of_line(const Line *line, const TqTask *task);
static void add_blocked(Line *line, int64 task_id);
static int64 find_head(Line *line);
static int64 first_id(const Line *line);
static void open_scan(Line *line, int64 task_id);
static void note_head(Line *line, int64 task_id);
static OwnHead           *own_head(const TqHeadOf *of);
static void               lower_head(Line *line, int64 task_id);
static const TqTaskFixed *next_row(Line *line);
static const TqTaskFixed *row_of(TupleTableSlot *slot);
static void               key_of_scan(const Line *line, ScanKeyData *keys);
static void add_open(Line *line, int64 task_id, TqState state, bool astray);
static bool is_noted(const Line *line, int64 task_id);
static bool is_before(const Line *line, int64 a, int64 b);
static bool is_held(Line *line, int64 but);
static bool any_suspended(Line *line, int64 but);
static bool any_dead(Line *line, int64 but);
static bool probe(Line *line, Relation rel, Oid relid, HoldTest holds,
				  int64 but);
static bool suspended_holds(const TqKeyRule *rule, const TqTaskFixed *row);
static bool dead_holds(const TqKeyRule *rule, const TqTaskFixed *row);
static bool may_be_open(Line *line, int64 task_id);
static bool make_room(Line *line, int64 task_id);
static void note_astray(Line *line, int64 blocked_id);
static bool let_go(Line *line, int64 task_id);
static bool move_back(Line *line, int64 task_id, bool wait);
static void settle(Line *line);

/* What else is to be done after each move. */
static void (*entered_before)(TqCall *call, TqQueue *queue, TqTask *task,
							  TqState from, const TqMove *move) = NULL;

#define IS_OPEN(state)                                                        \
	((state) == TQ_STATE_PENDING || (state) == TQ_STATE_RUNNING)

void
tq_line_init(void)
{
	entered_before = tq_state_hooks.entered;
	tq_state_hooks.entering = entering;
	tq_state_hooks.entered = entered;
	tq_state_hooks.left = left;
	tq_state_hooks.rearrange = rearrange;
}

/* Who may be open is, and nobody else, as far as it can be helped. */
void
tq_line_settle(TqCall *call, TqQueue *queue, Datum key)
{
	left(call, queue, key);
}

/* The door is about to move a task, or (to 0) to take it away. */
static void
entering(TqCall *call, TqQueue *queue, TqTask *task, TqMove *move)
{
	Line  line;
	Datum key = task->value[TQ_COL_KEY];

	if (move->in_line || move->to == TQ_STATE_RUNNING ||
		task->isnull[TQ_COL_KEY])
		return;
	if (!lock_line(&line, call, queue, key))
		return;
	if (move->no_wait &&
		(move->to == TQ_STATE_DEAD || move->to == TQ_STATE_SUSPENDED) &&
		!all_can_be_moved_back(&line, task))
	{
		move->refused = true;
		return;
	}
	move->cleared = move->no_wait;
	if (move->to == TQ_STATE_PENDING && move->is_new && line.places > 0)
		line.key->room = line.places - 1;
	else if (move->to == TQ_STATE_PENDING &&
			 !has_place(&line, task, move->is_new))
	{
		move->to = TQ_STATE_BLOCKED;
		move->waits = true;
	}

	/*
	 * A new one stands at the end, which is the head of a lifo queue.  Not
	 * before the look, which does not see the task.
	 */
	if (move->to != 0 && TQ_STATE_IS_LIVE(move->to) &&
		(!move->is_new || line.rule.lifo))
		lower_head(&line, task->f.task_id);
}

/*
 * If the task is about to hold its key, the others that are open are moved
 * back now, as long as that can be refused: afterwards one that somebody is
 * claiming would have to be waited for.
 */
static bool
all_can_be_moved_back(Line *line, const TqTask *task)
{
	bool done = true;

	if (!line->rule.held_by_dead && !line->rule.held_by_suspended)
		return true;
	see_line(line);
	if (!is_held(line, task->f.task_id))
	{
		look(line, task->f.task_id, true);
		for (int i = 0; i < line->count && done; i++)
			done = line->open[i].state != TQ_STATE_PENDING ||
				   move_back(line, line->open[i].task_id, false);
		if (!done)
			settle(line);
	}
	end(line);
	return done;
}

/* May the task be pending, as the line is now? */
static bool
has_place(Line *line, const TqTask *task, bool is_new)
{
	bool open;

	if (is_new && line->key->full)
		return false;
	if (line->key->unsettled)
	{
		put_behind(line, task->f.task_id);
		return false;
	}
	see_line(line);
	open = may_be_open(line, task->f.task_id);
	/* the next ones of this call come behind it */
	if (open && is_new && !line->rule.lifo && line->blocked_count == 0)
		line->key->room = line->rule.open - line->count - 1;
	end(line);
	return open;
}

/* The door has moved a task. */
static void
entered(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
		const TqMove *move)
{
	bool was_open = IS_OPEN(from);
	bool is_open = IS_OPEN(task->f.state);
	bool was_stop = from == TQ_STATE_SUSPENDED || from == TQ_STATE_DEAD;
	bool is_stop = task->f.state == TQ_STATE_SUSPENDED ||
				   task->f.state == TQ_STATE_DEAD;

	if (entered_before != NULL)
		entered_before(call, queue, task, from, move);
	if (move->in_line || move->to == TQ_STATE_RUNNING ||
		task->isnull[TQ_COL_KEY])
		return;
	if ((was_open && !is_open) || was_stop || is_stop)
		go_on(call, queue, task->value[TQ_COL_KEY],
			  is_stop ? task->f.task_id : 0);
}

/* A task has left the line of that key. */
static void
left(TqCall *call, TqQueue *queue, Datum key)
{
	go_on(call, queue, key, 0);
}

/*
 * Or what holds the key has changed: a task that holds it now, unless another
 * one does so already, in which case there is nobody to be moved back.
 */
static void
go_on(TqCall *call, TqQueue *queue, Datum key, int64 stop_id)
{
	Line line;

	if (!lock_line(&line, call, queue, key))
		return;
	if (call->lines_later)
	{
		put_off(call, line.key);
		return;
	}
	see_line(&line);
	if (stop_id == 0 || !is_held(&line, stop_id))
	{
		line.key->full = false;
		settle(&line);
	}
	end(&line);
}

/*
 * The task waits until it is decided who is next.  Those behind it that are
 * open are noted now: who decides sees it first, and looks no further.
 */
static void
put_behind(Line *line, int64 task_id)
{
	const TqTaskFixed *row;
	TqKey             *key = line->key;

	if (key->foremost != 0 && !is_before(line, task_id, key->foremost))
		return;
	key->foremost = task_id;
	see_line(line);
	look_at_astray(line, task_id);
	open_scan(line, task_id);
	while ((row = next_row(line)) != NULL &&
		   (row->state != TQ_STATE_BLOCKED ||
			(row->flags & TQ_FLAG_IN_LINE) == 0))
	{
		if (row->task_id != task_id && IS_OPEN(row->state) &&
			!is_noted(line, row->task_id))
			add_open(line, row->task_id, (TqState) row->state, false);
	}
	note_astray(line, task_id);
	end(line);
}

/* Who is next is decided at the end of the call: until then nobody is. */
static void
put_off(TqCall *call, TqKey *key)
{
	if (key->unsettled)
		return;
	key->unsettled = true;
	key->next_unsettled = call->unsettled;
	call->unsettled = key;
	call->settle = settle_all;
}

/* The end of the call: decide about all keys that were put off. */
static void
settle_all(TqCall *call)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(caller, "taskq lines", ALLOCSET_DEFAULT_SIZES);

	while (call->unsettled != NULL)
	{
		TqKey   *key = call->unsettled;
		TqQueue *queue = tq_queue_by_id(key->name.queue_id);

		CHECK_FOR_INTERRUPTS();
		call->unsettled = key->next_unsettled;
		key->unsettled = false;
		key->foremost = 0;
		MemoryContextSwitchTo(one);
		if (queue != NULL)
			left(call, queue, PointerGetDatum(key->name.key));
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/* Bring all lines of a queue into the order of a new rule. */
static void
rearrange(TqCall *call, TqQueue *queue)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one;
	Datum         arg = Int32GetDatum(queue->queue_id);
	text        **keys;
	uint64        rows;
	TqSpi         spi;

	if (!tq_key_is_ordered(queue))
	{
		let_go_all(call, queue);
		return;
	}
	tq_row_flush(call);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_keys, &arg, NULL, 0);
	MemoryContextSwitchTo(spi.caller);
	keys = palloc_extended(sizeof(text *) * (rows + 1), MCXT_ALLOC_HUGE);
	for (uint64 i = 0; i < rows; i++)
	{
		bool isnull;

		keys[i] = DatumGetTextPCopy(tq_spi_get(i, 1, &isnull));
	}
	tq_spi_leave(&spi);
	one = AllocSetContextCreate(caller, "taskq lines", ALLOCSET_DEFAULT_SIZES);
	for (uint64 i = 0; i < rows; i++)
	{
		Line line;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		if (begin(&line, call, queue, PointerGetDatum(keys[i])))
		{
			arrange(&line);
			end(&line);
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/* There are no lines any more. */
static void
let_go_all(TqCall *call, TqQueue *queue)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one;
	Datum         arg = Int32GetDatum(queue->queue_id);
	int64        *ids;
	uint64        rows;
	Line          line = {0};
	TqSpi         spi;

	line.call = call;
	line.queue = queue;
	tq_row_flush(call);
	tq_spi_enter(&spi);
	(void) tq_spi_run(&stmt_forget_astray, &arg, NULL, SPI_OK_UPDATE, 0);
	rows = tq_spi_look(&stmt_waiting, &arg, NULL, 0);
	ids = MemoryContextAllocHuge(spi.caller, sizeof(int64) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
		ids[i] = tq_spi_int8(i, 1, 0);
	tq_spi_leave(&spi);
	one = AllocSetContextCreate(caller, "taskq lines", ALLOCSET_DEFAULT_SIZES);
	tq_call_push_latest();
	for (uint64 i = 0; i < rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		(void) let_go(&line, ids[i]);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_call_pop();
	MemoryContextDelete(one);
}

/* Every task of the key where it belongs, as far as it is not running. */
static void
arrange(Line *line)
{
	Member *members;
	int     count = read_line(line, &members);
	int     room = is_held(line, 0) ? 0 : line->rule.open;
	bool    blocked = false;
	TqKey  *key = line->key;
	int     waiting = 0;

	/* nobody has told of tasks that came while there was no rule */
	if (count > 0)
		lower_head(line, members[0].task_id);
	for (int i = 0; i < count; i++)
	{
		room -= members[i].state == TQ_STATE_RUNNING;
		waiting += members[i].state != TQ_STATE_RUNNING;
	}
	/* from the end, so that who is moved back makes room for who is let go */
	for (int i = count - 1; i >= 0; i--)
	{
		CHECK_FOR_INTERRUPTS();
		waiting -= members[i].state != TQ_STATE_RUNNING;
		if (members[i].state != TQ_STATE_PENDING || waiting < room)
			continue;
		if (move_back(line, members[i].task_id, false))
			members[i].state = TQ_STATE_BLOCKED;
		else
		{
			/* somebody is claiming it */
			members[i].state = TQ_STATE_RUNNING;
			room--;
		}
	}
	key->astray = MemoryContextAllocHuge(line->call->context,
										 sizeof(int64) * (count + 1));
	key->astray_count = 0;
	for (int i = 0; i < count; i++)
	{
		if (members[i].state != TQ_STATE_RUNNING && room-- > 0)
		{
			if (members[i].state == TQ_STATE_BLOCKED)
				(void) let_go(line, members[i].task_id);
		}
		else if (members[i].state == TQ_STATE_BLOCKED)
			blocked = true;
		else if (blocked)
			key->astray[key->astray_count++] = members[i].task_id;
	}
	tq_key_write_astray(line->call, key);
}

/* All tasks of the key that are open, or blocked by others of it. */
static int
read_line(Line *line, Member **members)
{
	const TqTaskFixed *row;
	int                count = 0;
	int                room = 16;

	*members = palloc(sizeof(Member) * room);
	open_scan(line, first_id(line));
	while ((row = next_row(line)) != NULL)
	{
		if (!IS_OPEN(row->state) && (row->flags & TQ_FLAG_IN_LINE) == 0)
			continue;
		if (count == room)
		{
			room *= 2;
			*members = repalloc_huge(*members, sizeof(Member) * room);
		}
		(*members)[count].task_id = row->task_id;
		(*members)[count++].state = (TqState) row->state;
	}
	return count;
}

/* Lock the key and see its tasks as they are now; false: it has no line. */
static bool
begin(Line *line, TqCall *call, TqQueue *queue, Datum key)
{
	if (!lock_line(line, call, queue, key))
		return false;
	see_line(line);
	return true;
}

static bool
lock_line(Line *line, TqCall *call, TqQueue *queue, Datum key)
{
	memset(line, 0, sizeof(*line));
	line->call = call;
	line->queue = queue;
	if (!tq_key_rule(queue, &line->rule))
		return false;
	line->key = tq_key_lock(call, queue->queue_id, key);
	/* whoever comes now may change it */
	line->places = line->key->unsettled ? 0 : line->key->room;
	line->key->room = 0;
	line->head.of.queue_id = queue->queue_id;
	line->head.of.lifo = line->rule.lifo;
	line->head.of.hash = tq_head_hash(VARDATA_ANY(line->key->name.key),
									  VARSIZE_ANY_EXHDR(line->key->name.key));
	return true;
}

static void
see_line(Line *line)
{
	tq_row_flush(line->call);
	tq_call_push_latest();
}

static void
end(Line *line)
{
	if (line->scan != NULL)
	{
		index_endscan(line->scan);
		ExecDropSingleTupleTableSlot(line->slot);
		index_close(line->index, NoLock);
	}
	tq_call_pop();
}

/* After a change of our own, or of others. */
static void
look_anew(Line *line)
{
	tq_call_pop();
	tq_call_push_latest();
}

/*
 * Find the open tasks but one, and the blocked ones for which there is room,
 * the first one in any case.  With at_all it goes on beyond those that may be
 * open, for who wants to know them all, or to move them back.
 */
static void
look(Line *line, int64 but, bool at_all)
{
	const TqTaskFixed *row;

	line->count = 0;
	line->blocked_count = 0;
	look_at_astray(line, but);
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
		if (!IS_OPEN(row->state) || is_noted(line, row->task_id))
			continue;
		add_open(line, row->task_id, (TqState) row->state, false);
		if (!at_all && line->count >= line->rule.open)
			break;
	}
}

/* Those that are noted, wherever they stand. */
static void
look_at_astray(Line *line, int64 but)
{
	for (int i = 0; i < line->key->astray_count; i++)
	{
		TqTask task;

		if (line->key->astray[i] != but &&
			tq_row_find(line->call, line->key->astray[i], &task) &&
			IS_OPEN(task.f.state) && is_of_line(line, &task))
			add_open(line, task.f.task_id, (TqState) task.f.state, true);
	}
}

/* A task may have been given another key or queue since it was noted. */
static bool
is_of_line(const Line *line, const TqTask *task)
{
	text *key;

	if (task->f.queue_id != line->queue->queue_id ||
		task->isnull[TQ_COL_KEY])
		return false;
	key = DatumGetTextPP(task->value[TQ_COL_KEY]);
	return VARSIZE_ANY_EXHDR(key) == VARSIZE_ANY_EXHDR(line->key->name.key) &&
		   memcmp(VARDATA_ANY(key), VARDATA_ANY(line->key->name.key),
				  VARSIZE_ANY_EXHDR(key)) == 0;
}

/* Where a look begins: at the head, as far as that is known. */
static int64
find_head(Line *line)
{
	OwnHead *own = own_head(&line->head.of);

	line->head.task_id = first_id(line);
	(void) tq_head_get(&line->head.of, &line->head.task_id,
					   &line->head.moment);
	if (own != NULL && is_before(line, line->head.task_id, own->task_id))
		line->head.task_id = own->task_id;
	line->head_noted = false;
	return line->head.task_id;
}

/* Before all tasks of the line. */
static int64
first_id(const Line *line)
{
	return line->rule.lifo ? PG_INT64_MAX : PG_INT64_MIN;
}

/* Begin with that task, or where it would stand. */
static void
open_scan(Line *line, int64 task_id)
{
	ScanKeyData keys[3];

	if (line->scan == NULL)
	{
		line->index =
			tq_catalog_open_index(tq_catalog()->task_key, AccessShareLock);
		line->scan = tq_compat_index_beginscan(
			line->call->task.rel, line->index, GetActiveSnapshot(), 3);
		line->slot = table_slot_create(line->call->task.rel, NULL);
	}
	key_of_scan(line, keys);
	ScanKeyInit(&keys[2], 3,
				line->rule.lifo ? BTLessEqualStrategyNumber
								: BTGreaterEqualStrategyNumber,
				line->rule.lifo ? F_INT8LE : F_INT8GE,
				Int64GetDatum(task_id));
	line->scan->xs_snapshot = GetActiveSnapshot();
	index_rescan(line->scan, keys, 3, NULL, 0);
}

/* The first task that the look has seen: none before it is live. */
static void
note_head(Line *line, int64 task_id)
{
	OwnHead *own;

	if (line->head_noted)
		return;
	line->head_noted = true;
	if (line->head.task_id == task_id)
		return;
	line->head.task_id = task_id;
	tq_xact_head(&line->head);
	own = &own_heads[line->head.of.hash & (OWN_HEADS - 1)];
	own->epoch = tq_xact_epoch();
	own->of = line->head.of;
	own->task_id = task_id;
}

/* NULL: not known. */
static OwnHead *
own_head(const TqHeadOf *of)
{
	OwnHead *own = &own_heads[of->hash & (OWN_HEADS - 1)];

	return own->epoch == tq_xact_epoch() && own->of.hash == of->hash &&
				   own->of.queue_id == of->queue_id && own->of.lifo == of->lifo
			   ? own
			   : NULL;
}

/* The task is live, or will be, and comes before others. */
static void
lower_head(Line *line, int64 task_id)
{
	OwnHead *own = own_head(&line->head.of);

	tq_head_lower(&line->head.of, task_id);
	if (own != NULL && is_before(line, task_id, own->task_id))
		own->task_id = task_id;
}

static const TqTaskFixed *
next_row(Line *line)
{
	CHECK_FOR_INTERRUPTS();
	if (!index_getnext_slot(line->scan,
							line->rule.lifo ? BackwardScanDirection
											: ForwardScanDirection,
							line->slot))
		return NULL;
	return row_of(line->slot);
}

static const TqTaskFixed *
row_of(TupleTableSlot *slot)
{
	bool      should_free;
	HeapTuple tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);

	return (const TqTaskFixed *) GETSTRUCT(tuple);
}

/* All of the key, in an index that begins with queue and key. */
static void
key_of_scan(const Line *line, ScanKeyData *keys)
{
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT4EQ,
				Int32GetDatum(line->key->name.queue_id));
	ScanKeyEntryInitialize(&keys[1], 0, 2, BTEqualStrategyNumber, InvalidOid,
						   C_COLLATION_OID, F_TEXTEQ,
						   PointerGetDatum(line->key->name.key));
}

static void
add_open(Line *line, int64 task_id, TqState state, bool astray)
{
	if (line->count == line->room)
	{
		line->room = line->room == 0 ? 8 : line->room * 2;
		line->open =
			line->open == NULL
				? palloc(sizeof(Member) * line->room)
				: repalloc_huge(line->open, sizeof(Member) * line->room);
	}
	line->open[line->count].task_id = task_id;
	line->open[line->count].state = state;
	line->open[line->count++].astray = astray;
}

static void
add_blocked(Line *line, int64 task_id)
{
	int count = line->blocked_count++;

	/* powers of two */
	if (count == 0 && line->blocked == NULL)
		line->blocked = palloc(sizeof(int64));
	else if ((count & (count - 1)) == 0)
		line->blocked = repalloc_huge(
			line->blocked, sizeof(int64) * Max((Size) count * 2, 1));
	line->blocked[count] = task_id;
}

static bool
is_noted(const Line *line, int64 task_id)
{
	for (int i = 0; i < line->key->astray_count; i++)
	{
		if (line->key->astray[i] == task_id)
			return true;
	}
	return false;
}

static bool
is_before(const Line *line, int64 a, int64 b)
{
	return line->rule.lifo ? a > b : a < b;
}

/* Must all of the key's tasks wait, because of one other than that? */
static bool
is_held(Line *line, int64 but)
{
	if (line->rule.held_by_dead && any_dead(line, but))
		return true;
	return (line->rule.held_by_dead || line->rule.held_by_suspended) &&
		   any_suspended(line, but);
}

/* In a live row of the key, or in a dead one. */
static bool
any_suspended(Line *line, int64 but)
{
	return probe(line, line->call->task.rel, tq_catalog()->task_suspended,
				 suspended_holds, but);
}

static bool
any_dead(Line *line, int64 but)
{
	Relation keep = tq_catalog_open_table(tq_catalog()->leaf[TQ_LEAF_KEEP],
										  AccessShareLock);
	bool found = probe(line, keep, tq_catalog()->keep_dead, dead_holds, but);

	table_close(keep, NoLock);
	return found;
}

/* Is there a task of the key in the index, other than that, which holds it? */
static bool
probe(Line *line, Relation rel, Oid relid, HoldTest holds, int64 but)
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

/*
 * May a task that is to become pending do so?  If it comes before others that
 * are pending, they are moved back.
 */
static bool
may_be_open(Line *line, int64 task_id)
{
	int before = 0;

	if (is_held(line, task_id))
	{
		look(line, task_id, true);
		line->key->full = true;
		note_astray(line, task_id);
		return false;
	}
	/* all, since whoever is open behind it is to be noted */
	look(line, task_id, true);
	for (int i = 0; i < line->count; i++)
		before += is_before(line, line->open[i].task_id, task_id);
	if (before < line->rule.open &&
		(line->blocked_count == 0 ||
		 is_before(line, task_id, line->blocked[0])) &&
		make_room(line, task_id))
		return true;
	line->key->full = !line->rule.lifo;
	note_astray(line, task_id);
	return false;
}

/*
 * Let one more be open, by moving back those that come last and after the
 * task.  They must not be running, and nobody may be claiming them: then the
 * task itself has to wait, which keeps their number right, and of their order
 * nobody could say who was first.
 */
static bool
make_room(Line *line, int64 task_id)
{
	int64 last_moved = 0;

	while (line->count >= line->rule.open)
	{
		int last = -1;

		for (int i = 0; i < line->count; i++)
		{
			if (line->open[i].state == TQ_STATE_PENDING &&
				is_before(line, task_id, line->open[i].task_id) &&
				(last < 0 || is_before(line, line->open[last].task_id,
									   line->open[i].task_id)))
				last = i;
		}
		if (last < 0)
			break;
		if (move_back(line, line->open[last].task_id, false))
		{
			last_moved = line->open[last].task_id;
			line->open[last] = line->open[--line->count];
		}
		else
			line->open[last].state = TQ_STATE_RUNNING; /* or will be */
	}
	if (last_moved != 0)
		note_astray(line, last_moved);
	return line->count < line->rule.open;
}

/* Those that are open behind one that is blocked now, or will be. */
static void
note_astray(Line *line, int64 blocked_id)
{
	TqKey *key = line->key;
	int64 *ids = MemoryContextAlloc(line->call->context,
									sizeof(int64) * (line->count + 1));
	int    count = 0;
	bool   is_new = false;

	for (int i = 0; i < line->count; i++)
	{
		bool noted = is_noted(line, line->open[i].task_id);

		if (!noted && !is_before(line, blocked_id, line->open[i].task_id))
			continue;
		ids[count++] = line->open[i].task_id;
		is_new = is_new || !noted;
	}
	if (!is_new)
		return;
	key->astray = ids;
	key->astray_count = count;
	tq_key_write_astray(line->call, key);
}

/*
 * Who may be open is.  Nobody is, but for those that run, while the key is
 * held: then those who are being claimed are waited for, since a claim that
 * is rolled back would leave them pending.
 */
static void
settle(Line *line)
{
	if (is_held(line, 0))
	{
		int i = 0;

		look(line, 0, true);
		while (i < line->count)
		{
			if (line->open[i].state != TQ_STATE_PENDING ||
				!move_back(line, line->open[i].task_id, true))
				i++;
			else
			{
				int64 moved = line->open[i].task_id;

				line->open[i] = line->open[--line->count];
				note_astray(line, moved);
			}
		}
		return;
	}
	for (bool again = true; again;)
	{
		again = false;
		look(line, 0, false);
		for (int i = 0;
			 i < line->blocked_count && line->count < line->rule.open; i++)
		{
			if (let_go(line, line->blocked[i]))
				line->count++;
			else
				again = true;
		}
	}
	if (line->count == 0 && line->key->astray_count > 0)
	{
		line->key->astray_count = 0;
		tq_key_write_astray(line->call, line->key);
	}
}

/* From blocked to pending, due now if its time has come. */
static bool
let_go(Line *line, int64 task_id)
{
	TqTask      task;
	TqMove      move = {0};
	TimestampTz now = tq_clock_dispatch();
	bool        done;

	TQ_DEBUG_POINT("line_let_go");
	if (!tq_row_find(line->call, task_id, &task) ||
		task.f.state != TQ_STATE_BLOCKED)
		done = false;
	else
	{
		move.to = TQ_STATE_PENDING;
		move.wanted = "released";
		move.in_line = true;
		move.due_at = task.f.run_at > now ? task.f.run_at : 0;
		done = tq_state_enter(line->call, line->queue, &task, &move);
	}
	look_anew(line);
	return done;
}

/*
 * From pending to blocked; false when it is not pending any more or, without
 * wait, when somebody is claiming it.
 */
static bool
move_back(Line *line, int64 task_id, bool wait)
{
	for (;;)
	{
		TqTask task;
		TqMove move = {0};
		bool   done;

		if (!tq_row_find(line->call, task_id, &task) ||
			task.f.state != TQ_STATE_PENDING)
			return false;
		move.to = TQ_STATE_BLOCKED;
		move.wanted = "blocked";
		move.in_line = true;
		move.waits = true;
		move.no_wait = !wait;
		move.due_at = task.f.run_at;
		done = tq_state_enter(line->call, line->queue, &task, &move);
		look_anew(line);
		if (done || !wait)
			return done;
	}
}
