/*
 * key_queue.c
 *		Key queues: which task of a key is next.
 *
 * In a queue with a key_policy, or with max_running_per_key, the live tasks of
 * a key form a key queue, ordered by id: ascending, or descending in a lifo
 * queue.  At most the number allowed by the rule are open, that is pending or
 * running; the others are blocked, outside the claimable part of the dispatch
 * index, so that ten thousand of them cost a claim nothing.  A claim is not
 * involved in this: it turns an open task into another open task.
 *
 * Code that makes a task pending calls here first, and the task may become
 * blocked (entering); code that takes a task out of the open ones releases the
 * next one, in the same transaction (entered).  Both hold the key's lock
 * (engine/key.c), so they see all changes of its tasks except claims and their
 * aborts.
 *
 * In a key queue at rest:
 * - All open tasks precede all blocked ones, except those listed in the key's
 *   row as out of order (column out_of_order).
 * - If a task is blocked, then as many tasks are open as allowed, or the key
 *   is held.
 * key_queue_scan.c describes how a key queue is read.  An open task gets out
 * of order when another task enters before it, and the open task cannot be
 * moved back because it is running or being claimed.
 *
 * A key can be held: by a dead task, unless it is poison, and by a task that
 * was suspended because its worker died (serial_hold_on_failure), and by any
 * suspended task (serial_until_success).  While a key is held no task is
 * released, and pending tasks are moved back.
 *
 * A call with a list decides about each key once, at its end (settle_later).
 * Until then a task that would become pending is blocked, and no task is
 * released.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/memutils.h"

#include "base/clock.h"
#include "base/debug.h"
#include "base/spi.h"
#include "engine/call.h"
#include "engine/move.h"
#include "engine/state.h"
#include "keyed/key_queue.h"
#include "keyed/key_queue_scan.h"
#include "store/row.h"
#include "store/snapshot.h"

static TqStmt stmt_keys = {
	"SELECT DISTINCT key FROM taskq.task"
	" WHERE queue_id = $1 AND key IS NOT NULL ORDER BY key",
	{INT4OID}};

/* Flag 8 is TQ_FLAG_IN_LINE. */
static TqStmt stmt_waiting = {"SELECT task_id FROM taskq.task"
							  " WHERE queue_id = $1 AND key IS NOT NULL"
							  "   AND state = " TQ_SQL_STATE_BLOCKED
							  "   AND flags & 8 <> 0"
							  " ORDER BY task_id",
							  {INT4OID}};

static TqStmt stmt_forget_out_of_order = {
	"UPDATE taskq.key SET out_of_order = NULL"
	" WHERE queue_id = $1 AND out_of_order IS NOT NULL",
	{INT4OID}};

static void entering(TqCall *call, TqQueue *queue, TqTask *task,
					 const TqMove *move, TqMoveAnswer *answer);
static void entered(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
					const TqMove *move);
static void left(TqCall *call, TqQueue *queue, Datum key);
static void release_next(TqCall *call, TqQueue *queue, Datum key,
						 int64 stop_id);
static void settle_all(TqCall *call);
static void put_off(TqCall *call, TqKey *key);
static void put_behind(TqKeyQueue *line, int64 task_id);
static bool all_can_be_moved_back(TqKeyQueue *line, const TqTask *task);
static bool has_place(TqKeyQueue *line, const TqTask *task, bool is_new);
static void rearrange(TqCall *call, TqQueue *queue);
static void release_all(TqCall *call, TqQueue *queue);
static void arrange(TqKeyQueue *line);
static bool may_be_open(TqKeyQueue *line, int64 task_id);
static bool make_room(TqKeyQueue *line, int64 task_id);
static void note_out_of_order(TqKeyQueue *line, int64 blocked_id);
static bool release(TqKeyQueue *line, int64 task_id);
static bool move_back(TqKeyQueue *line, int64 task_id, bool wait);
static void settle(TqKeyQueue *line);

/* Called first after each move. */
static void (*entered_before)(TqCall *call, TqQueue *queue, TqTask *task,
							  TqState from, const TqMove *move) = NULL;

void
tq_key_queue_init(void)
{
	entered_before = tq_state_hooks.entered;
	tq_state_hooks.entering = entering;
	tq_state_hooks.entered = entered;
	tq_state_hooks.left = left;
	tq_state_hooks.rearrange = rearrange;
	tq_call_hooks.settle = settle_all;
}

/* A task is about to be moved, or (to 0) removed. */
static void
entering(TqCall *call, TqQueue *queue, TqTask *task, const TqMove *move,
		 TqMoveAnswer *answer)
{
	TqKeyQueue line;
	Datum      key = task->value[TQ_COL_KEY];

	if (move->key.in_line || answer->to == TQ_STATE_RUNNING ||
		task->isnull[TQ_COL_KEY])
		return;
	if (!tq_key_queue_lock(&line, call, queue, key))
		return;
	if (move->no_wait &&
		(answer->to == TQ_STATE_DEAD || answer->to == TQ_STATE_SUSPENDED) &&
		!all_can_be_moved_back(&line, task))
	{
		answer->refused = true;
		return;
	}
	answer->cleared = move->no_wait;
	if (answer->to == TQ_STATE_PENDING && move->key.is_new && line.places > 0)
		line.key->room = line.places - 1;
	else if (answer->to == TQ_STATE_PENDING &&
			 !has_place(&line, task, move->key.is_new))
	{
		answer->to = TQ_STATE_BLOCKED;
		answer->waits = true;
	}

	/*
	 * A new task is at the end, which is the head of a lifo queue.  Not before
	 * the scan, which does not see the task.
	 */
	if (answer->to != 0 && TQ_STATE_IS_LIVE(answer->to) &&
		(!move->key.is_new || line.rule.lifo))
		tq_key_queue_lower_floor(&line, task->f.task_id);
}

/*
 * If the task is about to hold its key, the other open tasks are moved back
 * now, while that can be refused: afterwards a task that is being claimed
 * would have to be waited for.
 */
static bool
all_can_be_moved_back(TqKeyQueue *line, const TqTask *task)
{
	bool done = true;

	if (!line->rule.held_by_dead && !line->rule.held_by_suspended)
		return true;
	tq_key_queue_see(line);
	if (!tq_key_queue_is_held(line, task->f.task_id))
	{
		tq_key_queue_look(line, task->f.task_id, true);
		for (int i = 0; i < line->count && done; i++)
			done = line->open[i].state != TQ_STATE_PENDING ||
				   move_back(line, line->open[i].task_id, false);
		if (!done)
			settle(line);
	}
	tq_key_queue_end(line);
	return done;
}

/* Can the task be pending, as the key queue is now? */
static bool
has_place(TqKeyQueue *line, const TqTask *task, bool is_new)
{
	bool open;

	if (is_new && line->key->full)
		return false;
	if (line->key->unsettled)
	{
		put_behind(line, task->f.task_id);
		return false;
	}
	tq_key_queue_see(line);
	open = may_be_open(line, task->f.task_id);
	/* the next tasks of this call come after it */
	if (open && is_new && !line->rule.lifo && line->blocked_count == 0)
		line->key->room = line->rule.open - line->count - 1;
	tq_key_queue_end(line);
	return open;
}

/* A task was moved. */
static void
entered(TqCall *call, TqQueue *queue, TqTask *task, TqState from,
		const TqMove *move)
{
	bool was_open = TQ_LINE_IS_OPEN(from);
	bool is_open = TQ_LINE_IS_OPEN(task->f.state);
	bool was_stop = from == TQ_STATE_SUSPENDED || from == TQ_STATE_DEAD;
	bool is_stop = task->f.state == TQ_STATE_SUSPENDED ||
				   task->f.state == TQ_STATE_DEAD;

	if (entered_before != NULL)
		entered_before(call, queue, task, from, move);
	if (move->key.in_line || move->to == TQ_STATE_RUNNING ||
		task->isnull[TQ_COL_KEY])
		return;
	if ((was_open && !is_open) || was_stop || is_stop)
		release_next(call, queue, task->value[TQ_COL_KEY],
					 is_stop ? task->f.task_id : 0);
}

/* A task has left the queue of that key. */
static void
left(TqCall *call, TqQueue *queue, Datum key)
{
	release_next(call, queue, key, 0);
}

/*
 * Release the next tasks, or, if a task has begun to hold the key (stop_id),
 * move tasks back.  If another task held the key already, no task needs to be
 * moved back.
 */
static void
release_next(TqCall *call, TqQueue *queue, Datum key, int64 stop_id)
{
	TqKeyQueue line;

	if (!tq_key_queue_lock(&line, call, queue, key))
		return;
	if (call->keys->settle_later)
	{
		put_off(call, line.key);
		return;
	}
	tq_key_queue_see(&line);
	if (stop_id == 0 || !tq_key_queue_is_held(&line, stop_id))
	{
		line.key->full = false;
		settle(&line);
	}
	tq_key_queue_end(&line);
}

/*
 * The task waits until the next task is decided.  Open tasks after it are
 * listed now: the decision sees this task first, and scans no further.
 */
static void
put_behind(TqKeyQueue *line, int64 task_id)
{
	TqKey *key = line->key;

	if (key->foremost != 0 && !tq_line_is_before(line, task_id, key->foremost))
		return;
	key->foremost = task_id;
	tq_key_queue_see(line);
	tq_key_queue_look_behind(line, task_id);
	note_out_of_order(line, task_id);
	tq_key_queue_end(line);
}

/*
 * The next task is decided at the end of the call; until then there is no next
 * task.
 */
static void
put_off(TqCall *call, TqKey *key)
{
	if (key->unsettled)
		return;
	key->unsettled = true;
	key->next_unsettled = call->keys->unsettled;
	call->keys->unsettled = key;
}

/* The end of the call: decide about all deferred keys. */
static void
settle_all(TqCall *call)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(caller, "taskq lines", ALLOCSET_DEFAULT_SIZES);

	while (call->keys->unsettled != NULL)
	{
		TqKey   *key = call->keys->unsettled;
		TqQueue *queue = tq_queue_by_id(key->name.queue_id);

		CHECK_FOR_INTERRUPTS();
		call->keys->unsettled = key->next_unsettled;
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

/* Arrange all key queues of a queue according to a new rule. */
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
		release_all(call, queue);
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
		TqKeyQueue line;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		if (tq_key_queue_begin(&line, call, queue, PointerGetDatum(keys[i])))
		{
			arrange(&line);
			tq_key_queue_end(&line);
		}
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/* The queue no longer has key queues: release all tasks. */
static void
release_all(TqCall *call, TqQueue *queue)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one;
	Datum         arg = Int32GetDatum(queue->queue_id);
	int64        *ids;
	uint64        rows;
	TqKeyQueue    line = {0};
	TqSpi         spi;

	line.call = call;
	line.queue = queue;
	tq_row_flush(call);
	tq_spi_enter(&spi);
	(void) tq_spi_run(&stmt_forget_out_of_order, &arg, NULL, SPI_OK_UPDATE, 0);
	rows = tq_spi_look(&stmt_waiting, &arg, NULL, 0);
	ids = tq_spi_ids(&spi, rows, 1);
	tq_spi_leave(&spi);
	one = AllocSetContextCreate(caller, "taskq lines", ALLOCSET_DEFAULT_SIZES);
	tq_snapshot_push_latest();
	for (uint64 i = 0; i < rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		(void) release(&line, ids[i]);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_snapshot_pop();
	MemoryContextDelete(one);
}

/* Put every task of the key where it belongs, unless it is running. */
static void
arrange(TqKeyQueue *line)
{
	TqKeyQueueMember *members;
	int               count = tq_key_queue_read(line, &members);
	int    room = tq_key_queue_is_held(line, 0) ? 0 : line->rule.open;
	bool   blocked = false;
	TqKey *key = line->key;
	int    waiting = 0;

	/* tasks that came while there was no rule have not lowered the floor */
	if (count > 0)
		tq_key_queue_lower_floor(line, members[0].task_id);
	for (int i = 0; i < count; i++)
	{
		room -= members[i].state == TQ_STATE_RUNNING;
		waiting += members[i].state != TQ_STATE_RUNNING;
	}
	/* from the end, so that tasks moved back make room for those released */
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
			/* it is being claimed */
			members[i].state = TQ_STATE_RUNNING;
			room--;
		}
	}
	key->out_of_order = MemoryContextAllocHuge(line->call->context,
											   sizeof(int64) * (count + 1));
	key->out_of_order_count = 0;
	for (int i = 0; i < count; i++)
	{
		if (members[i].state != TQ_STATE_RUNNING && room-- > 0)
		{
			if (members[i].state == TQ_STATE_BLOCKED)
				(void) release(line, members[i].task_id);
		}
		else if (members[i].state == TQ_STATE_BLOCKED)
			blocked = true;
		else if (blocked)
			key->out_of_order[key->out_of_order_count++] = members[i].task_id;
	}
	tq_key_write_out_of_order(line->call, key);
}

/*
 * Can a task that is about to be pending be open?  If it precedes other
 * pending tasks, they are moved back.
 */
static bool
may_be_open(TqKeyQueue *line, int64 task_id)
{
	int before = 0;

	if (tq_key_queue_is_held(line, task_id))
	{
		tq_key_queue_look(line, task_id, true);
		line->key->full = true;
		note_out_of_order(line, task_id);
		return false;
	}
	/* all of them, since open tasks after it must be listed */
	tq_key_queue_look(line, task_id, true);
	for (int i = 0; i < line->count; i++)
		before += tq_line_is_before(line, line->open[i].task_id, task_id);
	if (before < line->rule.open &&
		(line->blocked_count == 0 ||
		 tq_line_is_before(line, task_id, line->blocked[0])) &&
		make_room(line, task_id))
		return true;
	line->key->full = !line->rule.lifo;
	note_out_of_order(line, task_id);
	return false;
}

/*
 * Make room for one open task by moving back the last open tasks after it.  If
 * they are running or being claimed, they cannot be moved back; then the task
 * itself must wait, so that the number of open tasks is correct.
 */
static bool
make_room(TqKeyQueue *line, int64 task_id)
{
	int64 last_moved = 0;

	while (line->count >= line->rule.open)
	{
		int last = -1;

		for (int i = 0; i < line->count; i++)
		{
			if (line->open[i].state == TQ_STATE_PENDING &&
				tq_line_is_before(line, task_id, line->open[i].task_id) &&
				(last < 0 || tq_line_is_before(line, line->open[last].task_id,
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
		note_out_of_order(line, last_moved);
	return line->count < line->rule.open;
}

/* List the tasks that are open after a task that is, or will be, blocked. */
static void
note_out_of_order(TqKeyQueue *line, int64 blocked_id)
{
	TqKey *key = line->key;
	int64 *ids = MemoryContextAlloc(line->call->context,
									sizeof(int64) * (line->count + 1));
	int    count = 0;
	bool   is_new = false;

	for (int i = 0; i < line->count; i++)
	{
		bool noted = tq_key_queue_is_noted(line, line->open[i].task_id);

		if (!noted &&
			!tq_line_is_before(line, blocked_id, line->open[i].task_id))
			continue;
		ids[count++] = line->open[i].task_id;
		is_new = is_new || !noted;
	}
	if (!is_new)
		return;
	key->out_of_order = ids;
	key->out_of_order_count = count;
	tq_key_write_out_of_order(line->call, key);
}

/*
 * Open as many tasks as allowed.  While the key is held, only running tasks
 * are open.  The call waits for tasks that are being claimed, since a claim
 * that is rolled back would leave them pending.
 */
static void
settle(TqKeyQueue *line)
{
	if (tq_key_queue_is_held(line, 0))
	{
		int i = 0;

		tq_key_queue_look(line, 0, true);
		while (i < line->count)
		{
			if (line->open[i].state != TQ_STATE_PENDING ||
				!move_back(line, line->open[i].task_id, true))
				i++;
			else
			{
				int64 moved = line->open[i].task_id;

				line->open[i] = line->open[--line->count];
				note_out_of_order(line, moved);
			}
		}
		return;
	}
	for (bool again = true; again;)
	{
		again = false;
		tq_key_queue_look(line, 0, false);
		for (int i = 0;
			 i < line->blocked_count && line->count < line->rule.open; i++)
		{
			if (release(line, line->blocked[i]))
				line->count++;
			else
				again = true;
		}
	}
	if (line->count == 0 && line->key->out_of_order_count > 0)
	{
		line->key->out_of_order_count = 0;
		tq_key_write_out_of_order(line->call, line->key);
	}
}

/* From blocked to pending, due immediately if its time has come. */
static bool
release(TqKeyQueue *line, int64 task_id)
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
		move.wanted = "release";
		move.key.in_line = true;
		move.due_at = task.i.run_at > now ? task.i.run_at : 0;
		done = tq_state_enter(line->call, line->queue, &task, &move);
	}
	tq_key_queue_look_anew(line);
	return done;
}

/*
 * From pending to blocked; false if it is no longer pending or, without wait,
 * if it is being claimed.
 */
static bool
move_back(TqKeyQueue *line, int64 task_id, bool wait)
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
		move.wanted = "block";
		move.key.in_line = true;
		move.key.waits = true;
		move.no_wait = !wait;
		move.due_at = task.i.run_at;
		done = tq_state_enter(line->call, line->queue, &task, &move);
		tq_key_queue_look_anew(line);
		if (done || !wait)
			return done;
	}
}
