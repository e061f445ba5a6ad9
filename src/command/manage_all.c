/*
 * manage_all.c
 *		taskq_retry_all, taskq_recreate_all, taskq_reassign: change many tasks
 *		of one state.
 *
 * Tasks are read in pages of ids, so that memory use does not depend on their
 * number.  Tasks that have changed in the meantime are skipped, and so are
 * poison tasks and tasks whose reference another task has taken.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/role.h"
#include "command/manage.h"
#include "command/submission.h"
#include "command/submit.h"
#include "engine/call.h"
#include "engine/history.h"
#include "engine/key.h"
#include "engine/move.h"
#include "engine/name_lock.h"
#include "engine/state.h"
#include "store/archive.h"
#include "store/row.h"
#include "store/snapshot.h"

#define PAGE 1000 /* ids read at a time */

PG_FUNCTION_INFO_V1(taskq_retry_all);
PG_FUNCTION_INFO_V1(taskq_recreate_all);
PG_FUNCTION_INFO_V1(taskq_reassign);

/* Which tasks. */
typedef struct Choice
{
	char    *queue_name;
	TqQueue *queue;
	TqState  state;
	TqReason reason;        /* TQ_REASON_NONE: any */
	bool     attempts_left; /* skip suspended tasks without attempts left */
	int64    from_id;
	int64    to_id;
	bool     some; /* only tasks in ids, which is sorted */
	Datum   *ids;
	int      count;
	int      next; /* next element to read */
	int64    max;
} Choice;

/* What to do with each task. */
typedef struct Act
{
	bool           of_all_keys;      /* lock their keys in any queue */
	bool           moves_references; /* tasks get them back, or free them */
	TqInsertion    insertion;        /* for recreate */
	ReturnSetInfo *result;
	int64          first_new; /* 0: none created yet */
	TqState        to;        /* for reassign */
	char          *message;   /* the caller's, or NULL */
} Act;

typedef bool (*DoWithTask)(TqCall *call, const Choice *choice, TqTask *task,
						   Act *act, bool *done);

#define CHOSEN(table)                                                         \
	" FROM " table " t"                                                       \
	" WHERE t.queue_id = $1 AND t.state = $2::smallint"                       \
	"   AND t.reason <> " TQ_SQL_REASON_POISON " AND t.workflow_id IS NULL"   \
	"   AND t.task_id >= $3 AND t.task_id <= $4"                              \
	"   AND ($5 IS NULL OR t.task_id = ANY ($5))"                             \
	"   AND ($7 = " TQ_SQL_REASON_NONE " OR t.reason = $7::smallint)"         \
	"   AND (NOT $8 OR t.state <> " TQ_SQL_STATE_SUSPENDED                    \
	"        OR t.max_attempts = -1"                                          \
	"        OR t.attempt < t.max_attempts)"
#define PAGE_OF(columns, table)                                               \
	"SELECT " columns CHOSEN(table) " ORDER BY t.task_id LIMIT $6"
#define KEYS_OF(table)                                                        \
	"SELECT DISTINCT k.key FROM " table " k"                                  \
	" WHERE k.key IS NOT NULL"                                                \
	"   AND k.task_id IN (" PAGE_OF("t.task_id", table) ")"
#define ARGUMENTS                                                             \
	{                                                                         \
		INT4OID, INT4OID, INT8OID, INT8OID, INT8ARRAYOID, INT8OID, INT4OID,   \
			BOOLOID                                                           \
	}

static TqStmt stmt_live = {PAGE_OF("t.task_id, t.reference", "taskq.task"),
						   ARGUMENTS};
static TqStmt stmt_finished = {
	PAGE_OF("t.task_id, t.reference", "taskq.archive"), ARGUMENTS};
static TqStmt stmt_live_keys = {KEYS_OF("taskq.task"), ARGUMENTS};
static TqStmt stmt_finished_keys = {KEYS_OF("taskq.archive"), ARGUMENTS};

static void    read_range(FunctionCallInfo fcinfo, int n, Choice *choice);
static TqState read_state(FunctionCallInfo fcinfo, int n, const char *what,
						  const char *allowed);
static void    read_max(FunctionCallInfo fcinfo, int n, Choice *choice);
static int64   do_all(const char *function, Choice *choice, DoWithTask what,
					  Act *act);
static void    lock_chosen_keys(TqCall *call, const Choice *choice);
static void    lock_chosen_references(const Choice *choice);
static uint64 read_chosen(const Choice *choice, TqStmt *live, TqStmt *finished,
						  Datum ids, int64 from_id, int64 limit);
static int   read_page(Choice *choice, int64 from_id, int64 wanted, int64 *ids,
					   Bitmapset **references);
static bool  do_one(TqCall *call, const Choice *choice, int64 task_id,
					DoWithTask what, Act *act);
static bool  try_names(TqCall *call, const Choice *choice, const Act *act,
					   const TqTask *task);
static bool  retry_one(TqCall *call, const Choice *choice, TqTask *task,
					   Act *act, bool *done);
static bool  recreate_one(TqCall *call, const Choice *choice, TqTask *task,
						  Act *act, bool *done);
static bool  reassign_one(TqCall *call, const Choice *choice, TqTask *task,
						  Act *act, bool *done);
static Datum ids_between(const Choice *choice, int first, int end);
static int   compare_ids(const void *a, const void *b);

/* Retry tasks; return their number. */
Datum
taskq_retry_all(PG_FUNCTION_ARGS)
{
	Choice      choice = {0};
	Act         act = {0};
	char       *reason = tq_arg_keyword(fcinfo, 2, "reason");
	const char *allowed =
		"Allowed: suspended, done, dead, cancelled, filtered.";

	choice.queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	choice.state = PG_ARGISNULL(1) ? TQ_STATE_DEAD
								   : read_state(fcinfo, 1, "state", allowed);
	if (!tq_state_is_legal(choice.state, TQ_STATE_PENDING) ||
		choice.state == TQ_STATE_BLOCKED || choice.state == TQ_STATE_RUNNING)
		tq_error_invalid("state", "is not one that can be retried", allowed);
	if (reason != NULL && !tq_reason_parse(reason, &choice.reason))
		tq_error_invalid("reason", "is unknown",
						 psprintf("Allowed: %s.", tq_reason_words()));
	choice.attempts_left = true;
	read_range(fcinfo, 3, &choice);
	read_max(fcinfo, 5, &choice);
	act.message = tq_arg_message(fcinfo, 6);
	act.moves_references = !TQ_STATE_IS_LIVE(choice.state);
	PG_RETURN_INT64(do_all("taskq_retry_all()", &choice, retry_one, &act));
}

/* Run tasks again as new tasks; return (old_id, new_id). */
Datum
taskq_recreate_all(PG_FUNCTION_ARGS)
{
	Choice      choice = {0};
	Act         act = {0};
	const char *allowed =
		"Allowed: suspended, done, dead, filtered, cancelled.";

	tq_srf_begin(fcinfo);
	choice.queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	choice.state = read_state(fcinfo, 1, "state", allowed);
	if (!tq_state_is_legal(choice.state, TQ_STATE_RECREATED))
		tq_error_invalid("state", "is not one that can be recreated", allowed);
	act.insertion = tq_submission_insertion(fcinfo, 2);
	read_range(fcinfo, 3, &choice);
	read_max(fcinfo, 5, &choice);
	act.result = (ReturnSetInfo *) fcinfo->resultinfo;
	act.message = tq_arg_message(fcinfo, 6);
	act.of_all_keys = act.insertion != TQ_INSERTION_APPEND;
	act.moves_references = true;
	(void) do_all("taskq_recreate_all()", &choice, recreate_one, &act);
	return (Datum) 0;
}

/* Move tasks from one state to another by hand; return their number. */
Datum
taskq_reassign(PG_FUNCTION_ARGS)
{
	Choice choice = {0};
	Act    act = {0};

	choice.queue_name = tq_arg_name(fcinfo, 0, "queue", NULL);
	if (PG_ARGISNULL(2))
		tq_error_required("to_state");
	choice.state = read_state(
		fcinfo, 1, "from_state",
		"Allowed: pending, blocked, suspended, done, dead, cancelled, filtered.");
	act.to = read_state(
		fcinfo, 2, "to_state",
		"Allowed: pending, suspended, done, dead, cancelled, filtered, redundant.");
	if (choice.state == TQ_STATE_RUNNING || act.to == TQ_STATE_RUNNING ||
		act.to == TQ_STATE_BLOCKED || act.to == TQ_STATE_RECREATED ||
		!tq_state_is_legal(choice.state, act.to))
		ereport(
			ERROR,
			(errcode(ERRCODE_TQ_INVALID_TRANSITION),
			 errmsg("cannot reassign tasks from state %s to state %s",
					tq_state_name(choice.state), tq_state_name(act.to)),
			 errdetail_internal(
				 "{\"from_state\": \"%s\", \"to_state\": \"%s\"}",
				 tq_state_name(choice.state), tq_state_name(act.to)),
			 errhint(
				 "Allowed target states, if the current state permits: pending, suspended, done, dead, filtered, cancelled, redundant. To run tasks again as new tasks, use taskq_recreate_all().")));
	read_range(fcinfo, 3, &choice);
	choice.some = !PG_ARGISNULL(5);
	if (!choice.some && PG_ARGISNULL(3) && PG_ARGISNULL(4))
		ereport(
			ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("task_ids must not be null without from_id or to_id"),
			 errhint("Pass from_id => 0 to move all tasks in that state.")));
	if (choice.some)
	{
		choice.ids =
			tq_arg_array(fcinfo, 5, "task_ids", INT8OID, &choice.count);
		qsort(choice.ids, choice.count, sizeof(Datum), compare_ids);
	}
	choice.max = PG_INT64_MAX;
	act.message = tq_arg_message(fcinfo, 6);
	act.moves_references = TQ_STATE_IS_LIVE(choice.state) !=
						   TQ_STATE_IS_LIVE(act.to);
	PG_RETURN_INT64(do_all("taskq_reassign()", &choice, reassign_one, &act));
}

static TqState
read_state(FunctionCallInfo fcinfo, int n, const char *what,
		   const char *allowed)
{
	char   *word = tq_arg_keyword(fcinfo, n, what);
	TqState state;

	if (word == NULL)
		tq_error_required(what);
	if (!tq_state_parse(word, &state))
		tq_error_invalid(what, "is unknown", allowed);
	return state;
}

/* Read from_id and to_id. */
static void
read_range(FunctionCallInfo fcinfo, int n, Choice *choice)
{
	choice->from_id = PG_ARGISNULL(n) ? PG_INT64_MIN : PG_GETARG_INT64(n);
	choice->to_id = PG_ARGISNULL(n + 1) ? PG_INT64_MAX - 1
										: PG_GETARG_INT64(n + 1);
	choice->to_id = Min(choice->to_id, PG_INT64_MAX - 1);
}

static void
read_max(FunctionCallInfo fcinfo, int n, Choice *choice)
{
	choice->max = PG_ARGISNULL(n) ? PG_INT64_MAX : PG_GETARG_INT32(n);
	if (choice->max < 1)
		tq_error_invalid("max_tasks", "must be at least 1", NULL);
}

/* Returns the number of tasks moved. */
static int64
do_all(const char *function, Choice *choice, DoWithTask what, Act *act)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one;
	int64        *ids = palloc(sizeof(int64) * PAGE);
	int64         from_id = choice->from_id;
	int64         moved = 0;
	int           count;
	TqCall        call;

	tq_call_begin(&call, function);
	tq_queue_lock_insertions();
	if (strcmp(choice->queue_name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	choice->queue = tq_queue_find(choice->queue_name);
	if (choice->queue == NULL)
		tq_error_no_such_queue(choice->queue_name);
	tq_role_require(choice->queue, TQ_RIGHT_MANAGE);
	if (act->of_all_keys || tq_key_is_ordered(choice->queue))
		lock_chosen_keys(&call, choice);
	if (act->moves_references)
		lock_chosen_references(choice);
	one = AllocSetContextCreate(caller, "taskq tasks of a state",
								ALLOCSET_DEFAULT_SIZES);
	tq_key_settle_later(&call);
	do
	{
		tq_snapshot_renew();
		count = read_page(choice, from_id, choice->max - moved, ids, NULL);
		for (int i = 0; i < count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (act->first_new != 0 && ids[i] >= act->first_new)
			{
				count = 0;
				break;
			}
			MemoryContextSwitchTo(one);
			tq_snapshot_renew();
			moved += do_one(&call, choice, ids[i], what, act);
			MemoryContextSwitchTo(caller);
			MemoryContextReset(one);
			from_id = ids[i] + 1;
		}
	} while (count > 0 && moved < choice->max && from_id <= choice->to_id);
	tq_call_end(&call);
	MemoryContextDelete(one);
	return moved;
}

static void
lock_chosen_keys(TqCall *call, const Choice *choice)
{
	TqKeyName *names;
	uint64     rows;
	int        count = 0;
	TqSpi      spi;

	tq_spi_enter(&spi);
	rows = read_chosen(choice, &stmt_live_keys, &stmt_finished_keys,
					   choice->some ? ids_between(choice, 0, choice->count)
									: (Datum) 0,
					   choice->from_id, choice->max);
	names =
		MemoryContextAllocHuge(spi.caller, sizeof(TqKeyName) * (2 * rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		MemoryContext mine = MemoryContextSwitchTo(spi.caller);
		bool          isnull;
		text         *key = DatumGetTextPCopy(tq_spi_get(i, 1, &isnull));

		count += tq_key_names(choice->queue, key, false, &names[count]);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	tq_key_lock_names(call, names, count);
}

static void
lock_chosen_references(const Choice *choice)
{
	Choice     ahead = *choice;
	int64     *ids = palloc(sizeof(int64) * PAGE);
	Bitmapset *references = NULL;
	int64      read = 0;
	int        count;

	do
	{
		count = read_page(&ahead, ahead.from_id, ahead.max - read, ids,
						  &references);
		if (count > 0)
			ahead.from_id = ids[count - 1] + 1;
		read += count;
	} while (count > 0 && read < ahead.max && ahead.from_id <= ahead.to_id);
	tq_name_lock(TQ_NAME_REFERENCE, references, NULL);
	pfree(ids);
}

static uint64
read_chosen(const Choice *choice, TqStmt *live, TqStmt *finished, Datum ids,
			int64 from_id, int64 limit)
{
	Datum args[8];
	bool  nulls[8] = {false};

	args[0] = Int32GetDatum(choice->queue->queue_id);
	args[1] = Int32GetDatum(choice->state);
	args[2] = Int64GetDatum(from_id);
	args[3] = Int64GetDatum(choice->to_id);
	args[4] = ids;
	nulls[4] = ids == (Datum) 0;
	args[5] = Int64GetDatum(limit);
	args[6] = Int32GetDatum(choice->reason);
	args[7] = BoolGetDatum(choice->attempts_left);
	return tq_spi_once(TQ_STATE_IS_LIVE(choice->state) ? live : finished, args,
					   nulls, true);
}

/* Read a page of ids.  If references is not NULL, add those of the tasks. */
static int
read_page(Choice *choice, int64 from_id, int64 wanted, int64 *ids,
		  Bitmapset **references)
{
	uint64 rows = 0;

	do
	{
		Datum of = (Datum) 0;
		TqSpi spi;

		CHECK_FOR_INTERRUPTS();
		if (choice->some)
		{
			int end = Min(choice->next + PAGE, choice->count);

			of = ids_between(choice, choice->next, end);
			choice->next = end;
		}
		tq_spi_enter(&spi);
		rows = read_chosen(choice, &stmt_live, &stmt_finished, of, from_id,
						   Min(wanted, PAGE));
		for (uint64 i = 0; i < rows; i++)
		{
			char *reference = references == NULL ? NULL
												 : tq_spi_text(&spi, i, 2);

			MemoryContext mine;

			ids[i] = tq_spi_int8(i, 1, 0);
			if (reference == NULL)
				continue;
			mine = MemoryContextSwitchTo(spi.caller);
			*references = tq_name_lock_add(*references, reference);
			MemoryContextSwitchTo(mine);
			pfree(reference);
		}
		tq_spi_leave(&spi);
	} while (rows == 0 && choice->next < choice->count);
	return (int) rows;
}

/* Skip the task if it no longer matches the choice. */
static bool
do_one(TqCall *call, const Choice *choice, int64 task_id, DoWithTask what,
	   Act *act)
{
	for (;; tq_snapshot_renew())
	{
		TqTask task;
		bool   found;
		bool   done = true;

		found = TQ_STATE_IS_LIVE(choice->state)
					? tq_row_find(call, task_id, &task)
					: tq_archive_find(task_id, &task);
		if (!found || task.f.state != (int16) choice->state ||
			task.f.queue_id != choice->queue->queue_id ||
			task.f.reason == TQ_REASON_POISON)
			return false;
		if (!try_names(call, choice, act, &task))
			return false;
		if (what(call, choice, &task, act, &done))
			return done;
	}
}

/*
 * The task may match, or have its key, only since the call locked keys and
 * references, or may be beyond the first ones.  Returns false if another
 * session has a lock that it needs: a wait would be out of order.
 */
static bool
try_names(TqCall *call, const Choice *choice, const Act *act,
		  const TqTask *task)
{
	if ((act->of_all_keys || tq_key_is_ordered(choice->queue)) &&
		!tq_key_try_task(call, choice->queue, task))
		return false;
	return !act->moves_references || task->isnull[TQ_COL_REFERENCE] ||
		   tq_name_lock_try(
			   TQ_NAME_REFERENCE,
			   TextDatumGetCString(task->value[TQ_COL_REFERENCE]));
}

/* Returns false if the task has changed; *done says whether it was moved. */
static bool
retry_one(TqCall *call, const Choice *choice, TqTask *task, Act *act,
		  bool *done)
{
	TqWish wish = {TQ_ACTION_RETRY};

	wish.message = act->message;
	if (task->archived && tq_submit_is_taken(choice->queue, task))
	{
		*done = false;
		return true;
	}
	return tq_manage_try(call, choice->queue, task, &wish);
}

static bool
recreate_one(TqCall *call, const Choice *choice, TqTask *task, Act *act,
			 bool *done)
{
	TqWish wish = {TQ_ACTION_RECREATE};
	int64  old_id = task->f.task_id;
	Datum  values[2];
	bool   nulls[2] = {false, false};

	if (task->archived && tq_submit_is_taken(choice->queue, task))
	{
		*done = false;
		return true;
	}
	wish.insertion = act->insertion;
	wish.message = act->message;
	wish.in_bulk = true;
	if (!tq_manage_try(call, choice->queue, task, &wish))
		return false;
	if (act->first_new == 0)
		act->first_new = wish.recreated_as;
	values[0] = Int64GetDatum(old_id);
	values[1] = Int64GetDatum(wish.recreated_as);
	tq_srf_add(act->result, values, nulls);
	return true;
}

static bool
reassign_one(TqCall *call, const Choice *choice, TqTask *task, Act *act,
			 bool *done)
{
	TqMove move = {0};

	if (task->archived && TQ_STATE_IS_LIVE(act->to) &&
		tq_submit_is_taken(choice->queue, task))
	{
		*done = false;
		return true;
	}
	/* only the predecessors of its key release a task that waits for them */
	if (act->to == TQ_STATE_PENDING && (task->f.flags & TQ_FLAG_IN_LINE) != 0)
	{
		*done = false;
		return true;
	}
	if (act->to == TQ_STATE_PENDING && choice->state != TQ_STATE_BLOCKED)
		return retry_one(call, choice, task, act, done);
	move.to = act->to;
	move.reason = act->to == TQ_STATE_SUSPENDED ? TQ_REASON_HELD
				  : act->to == TQ_STATE_PENDING ? TQ_REASON_NONE
												: TQ_REASON_MANUAL;
	move.wanted = "reassign";
	if (task->archived)
	{
		tq_key_lock_task(call, choice->queue, task);
		if (!tq_archive_take(task))
			return false;
	}
	tq_history_mark(task, act->message);
	return tq_state_enter(call, choice->queue, task, &move);
}

static Datum
ids_between(const Choice *choice, int first, int end)
{
	return PointerGetDatum(construct_array(choice->ids + first, end - first,
										   INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

static int
compare_ids(const void *a, const void *b)
{
	return tq_compare_int64(DatumGetInt64(*(const Datum *) a),
							DatumGetInt64(*(const Datum *) b));
}
