/*
 * manage_many.c
 *		Changes of many tasks by people: taskq_manage_many, taskq_retry_all.
 *
 * taskq_manage_many does each task in a savepoint, in the order of ids, so
 * that two calls never wait for each other in a ring; what is wrong with one
 * stands in its row.  An id that is given again has the problem of the time
 * before, if there was one.  taskq_retry_all reads ids in pages and keeps
 * none of the tasks, so its memory does not grow with their number; what
 * cannot be retried is passed over.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/guard.h"
#include "base/rows.h"
#include "base/spi.h"
#include "core/key.h"
#include "core/manage.h"
#include "core/role.h"

#define PAGE 1000 /* ids that taskq_retry_all reads at a time */

PG_FUNCTION_INFO_V1(taskq_manage_many);
PG_FUNCTION_INFO_V1(taskq_retry_all);

/* One task of a list. */
typedef struct Entry
{
	int   place; /* in the caller's list */
	int64 task_id;
	int   problem; /* SQLSTATE, 0: none */
} Entry;

/* What is to be done with one task. */
typedef struct Act
{
	int64  task_id;
	TqWish wish;
} Act;

/* Which tasks are to be retried. */
typedef struct Choice
{
	TqQueue *queue;
	TqState  state;
	TqReason reason; /* TQ_REASON_NONE: any */
	int64    from_id;
	int64    to_id;
	int64    max;
} Choice;

/* Poison (reason 7) is passed over. */
#define TO_RETRY(table)                                                       \
	"SELECT t.task_id FROM " table " t"                                       \
	" WHERE t.queue_id = $1 AND t.state = $2::smallint"                       \
	"   AND ($3 = 0 OR t.reason = $3::smallint)"                              \
	"   AND t.task_id >= $4 AND t.task_id <= $5"                              \
	"   AND t.reason <> 7"                                                    \
	"   AND (t.state <> 4 OR t.max_attempts = -1"                             \
	"        OR t.attempt < t.max_attempts)"                                  \
	" ORDER BY t.task_id LIMIT $6"

static TqStmt stmt_suspended = {
	TO_RETRY("taskq.task"),
	6,
	{INT4OID, INT4OID, INT4OID, INT8OID, INT8OID, INT8OID},
	NULL};

static TqStmt stmt_finished = {
	TO_RETRY("taskq.archive"),
	6,
	{INT4OID, INT4OID, INT4OID, INT8OID, INT8OID, INT8OID},
	NULL};

#define KEYS_TO_RETRY(table)                                                  \
	"SELECT DISTINCT k.key FROM " table " k"                                  \
	" WHERE k.key IS NOT NULL AND k.task_id IN (" TO_RETRY(table) ")"

static TqStmt stmt_keys_suspended = {
	KEYS_TO_RETRY("taskq.task"),
	6,
	{INT4OID, INT4OID, INT4OID, INT8OID, INT8OID, INT8OID},
	NULL};

static TqStmt stmt_keys_finished = {
	KEYS_TO_RETRY("taskq.archive"),
	6,
	{INT4OID, INT4OID, INT4OID, INT8OID, INT8OID, INT8OID},
	NULL};

/* Which tasks of a list there are. */
static TqStmt stmt_known = {
	"SELECT t.task_id, t.queue_id, t.key FROM taskq.task t"
	" WHERE t.task_id = ANY ($1)"
	" UNION ALL"
	" SELECT a.task_id, a.queue_id, a.key FROM taskq.archive a"
	"  WHERE a.task_id = ANY ($1)"
	" ORDER BY 1",
	1,
	{INT8ARRAYOID},
	NULL};

static TqStmt stmt_taken = {
	"SELECT FROM taskq.task WHERE queue_id = $1 AND reference = $2",
	2,
	{INT4OID, TEXTOID},
	NULL};

static void     read_known(ArrayType *ids, Entry *entries, int count);
static void     note_unknown(uint64 rows, Entry *entries, int count);
static void     lock_known(TqCall *call, TqSpi *spi, uint64 rows);
static void     lock_chosen(TqCall *call, const Choice *choice);
static TqAction read_action(FunctionCallInfo fcinfo, int n);
static void     act_guarded(Entry *entry, const TqWish *wanted);
static void     act_on(void *arg);
static bool     is_problem_of_task(int sqlstate);
static void     read_choice(FunctionCallInfo fcinfo, Choice *choice);
static int      read_page(const Choice *choice, int64 from_id, int64 wanted,
						  int64 *ids);
static bool retry_chosen(TqCall *call, const Choice *choice, int64 task_id);
static bool is_reference_taken(const TqTask *task);
static int  compare_entries(const void *a, const void *b);

Datum
taskq_manage_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TqWish         wanted = {0};
	Datum         *ids;
	Entry         *entries;
	int           *places;
	int            count;

	tq_rows_begin(fcinfo);
	wanted.action = read_action(fcinfo, 0);
	wanted.in_bulk = true;
	wanted.message = tq_arg_message(fcinfo, 2);
	if (wanted.action == TQ_ACTION_DELETE && wanted.message != NULL)
		tq_error_invalid("reason", "has no meaning for action delete", NULL);
	if (PG_ARGISNULL(1))
		tq_error_required("task_ids");
	ids = tq_arg_array(fcinfo, 1, "task_ids", INT8OID, &count);
	entries = palloc0(sizeof(Entry) * (count + 1));
	places = palloc(sizeof(int) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		entries[i].place = i;
		entries[i].task_id = DatumGetInt64(ids[i]);
	}
	qsort(entries, count, sizeof(Entry), compare_entries);
	if (count > 0)
		read_known(PG_GETARG_ARRAYTYPE_P(1), entries, count);
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 0 && entries[i].task_id == entries[i - 1].task_id)
			entries[i].problem = entries[i - 1].problem;
		if (entries[i].problem == 0)
			act_guarded(&entries[i], &wanted);
		places[entries[i].place] = i;
	}
	for (int i = 0; i < count; i++)
	{
		Entry *entry = &entries[places[i]];
		bool   ok = entry->problem == 0;
		Datum  values[3] = {Int64GetDatum(entry->task_id), BoolGetDatum(ok)};
		bool   nulls[3] = {false, false, ok};

		if (!ok)
			values[2] = CStringGetTextDatum(unpack_sql_state(entry->problem));
		tq_rows_add(result, values, nulls);
	}
	return (Datum) 0;
}

Datum
taskq_retry_all(PG_FUNCTION_ARGS)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one;
	Choice        choice = {0};
	TqCall        call;
	int64        *ids = palloc(sizeof(int64) * PAGE);
	int64         from_id;
	int64         retried = 0;
	int           count;

	read_choice(fcinfo, &choice);
	from_id = choice.from_id;
	tq_call_begin(&call, "taskq_retry_all()");
	tq_queue_lock_insertions();
	choice.queue = tq_queue_find(tq_arg_name(fcinfo, 0, "queue", NULL));
	if (choice.queue == NULL)
		tq_error_no_such_queue(tq_arg_name(fcinfo, 0, "queue", NULL));
	tq_role_require(choice.queue, TQ_RIGHT_MANAGE);
	one = AllocSetContextCreate(caller, "taskq_retry_all",
								ALLOCSET_DEFAULT_SIZES);
	if (tq_key_is_ordered(choice.queue))
		lock_chosen(&call, &choice);
	call.lines_later = true;
	do
	{
		tq_call_snapshot();
		count = read_page(&choice, from_id, choice.max - retried, ids);
		for (int i = 0; i < count; i++)
		{
			CHECK_FOR_INTERRUPTS();
			MemoryContextSwitchTo(one);
			tq_call_snapshot();
			retried += retry_chosen(&call, &choice, ids[i]);
			MemoryContextSwitchTo(caller);
			MemoryContextReset(one);
			from_id = ids[i] + 1;
		}
	} while (count > 0 && retried < choice.max && from_id <= choice.to_id);
	tq_call_end(&call);
	MemoryContextDelete(one);
	PG_RETURN_INT64(retried);
}

/*
 * Which tasks of the list there are: the others need not be looked for one by
 * one.  The keys of all are locked before the first one is moved.
 */
static void
read_known(ArrayType *ids, Entry *entries, int count)
{
	Datum  arg = PointerGetDatum(ids);
	uint64 rows;
	TqCall call;
	TqSpi  spi;

	tq_call_begin(&call, "taskq_manage_many()");
	tq_queue_lock_insertions();
	tq_spi_enter(&spi);
	rows = tq_spi_run(&stmt_known, &arg, NULL, SPI_OK_SELECT, 0);
	note_unknown(rows, entries, count);
	if (count > 1 && tq_queue_any_ordered())
		lock_known(&call, &spi, rows);
	else
		tq_spi_leave(&spi);
	tq_call_end(&call);
}

/* Both are in the order of ids. */
static void
note_unknown(uint64 rows, Entry *entries, int count)
{
	uint64 row = 0;

	for (int i = 0; i < count; i++)
	{
		while (row < rows && tq_spi_int8(row, 1, 0) < entries[i].task_id)
			row++;
		if (row == rows || tq_spi_int8(row, 1, 0) != entries[i].task_id)
			entries[i].problem = ERRCODE_TQ_NO_SUCH_TASK;
	}
}

/* The keys of tasks that current_user may manage; leaves SPI. */
static void
lock_known(TqCall *call, TqSpi *spi, uint64 rows)
{
	MemoryContext mine = MemoryContextSwitchTo(spi->caller);
	TqKeyName    *names =
		palloc_extended(sizeof(TqKeyName) * (rows + 1), MCXT_ALLOC_HUGE);
	int named = 0;
	int may = 0;

	for (uint64 i = 0; i < rows; i++)
	{
		bool  isnull;
		Datum key = tq_spi_get(i, 3, &isnull);

		if (isnull)
			continue;
		names[named].queue_id = tq_spi_int4(i, 2, 0);
		names[named++].key = DatumGetTextPCopy(key);
	}
	MemoryContextSwitchTo(mine);
	tq_spi_leave(spi);
	for (int i = 0; i < named; i++)
	{
		TqQueue *queue = tq_queue_by_id(names[i].queue_id);

		if (queue != NULL && tq_key_is_ordered(queue) &&
			(tq_role_rights(queue) & TQ_RIGHT_MANAGE) != 0)
			names[may++] = names[i];
	}
	tq_key_lock_names(call, names, may);
	pfree(names);
}

/* The keys of the tasks that are to be retried. */
static void
lock_chosen(TqCall *call, const Choice *choice)
{
	MemoryContext mine;
	TqKeyName    *names;
	Datum         args[6];
	uint64        rows;
	TqSpi         spi;

	args[0] = Int32GetDatum(choice->queue->queue_id);
	args[1] = Int32GetDatum(choice->state);
	args[2] = Int32GetDatum(choice->reason);
	args[3] = Int64GetDatum(choice->from_id);
	args[4] = Int64GetDatum(choice->to_id);
	args[5] = Int64GetDatum(choice->max);
	tq_spi_enter(&spi);
	rows = tq_spi_once(choice->state == TQ_STATE_SUSPENDED
						   ? &stmt_keys_suspended
						   : &stmt_keys_finished,
					   args, NULL, true);
	mine = MemoryContextSwitchTo(spi.caller);
	names = palloc_extended(sizeof(TqKeyName) * (rows + 1), MCXT_ALLOC_HUGE);
	for (uint64 i = 0; i < rows; i++)
	{
		bool isnull;

		names[i].queue_id = choice->queue->queue_id;
		names[i].key = DatumGetTextPCopy(tq_spi_get(i, 1, &isnull));
	}
	MemoryContextSwitchTo(mine);
	tq_spi_leave(&spi);
	tq_key_lock_names(call, names, (int) rows);
	pfree(names);
}

static TqAction
read_action(FunctionCallInfo fcinfo, int n)
{
	static const char *const words[] = {
		[TQ_ACTION_CANCEL] = "cancel",     [TQ_ACTION_RETRY] = "retry",
		[TQ_ACTION_RECREATE] = "recreate", [TQ_ACTION_RESOLVE] = "resolve",
		[TQ_ACTION_HOLD] = "hold",         [TQ_ACTION_POISON] = "poison",
		[TQ_ACTION_UNPOISON] = "unpoison", [TQ_ACTION_DELETE] = "delete"};
	char *word = tq_arg_keyword(fcinfo, n, "action");

	if (word == NULL)
		tq_error_required("action");
	for (int i = 0; i < lengthof(words); i++)
	{
		if (strcmp(words[i], word) == 0)
			return (TqAction) i;
	}
	tq_error_invalid("action", "is unknown",
					 "Allowed: cancel, retry, recreate, resolve, hold, "
					 "poison, unpoison, delete.");
}

/* In a savepoint, so that what is wrong with one task ends only that. */
static void
act_guarded(Entry *entry, const TqWish *wanted)
{
	MemoryContext one = AllocSetContextCreate(
		CurrentMemoryContext, "taskq_manage_many", ALLOCSET_SMALL_SIZES);
	MemoryContext mine = MemoryContextSwitchTo(one);
	Act           act = {entry->task_id, *wanted};
	ErrorData    *error = tq_guard(act_on, &act);

	if (error != NULL && !is_problem_of_task(error->sqlerrcode))
		ReThrowError(error);
	if (error != NULL)
		entry->problem = error->sqlerrcode;
	MemoryContextSwitchTo(mine);
	MemoryContextDelete(one);
}

static void
act_on(void *arg)
{
	Act   *act = arg;
	TqCall call;

	tq_call_begin(&call, "taskq_manage_many()");
	tq_queue_lock_insertions();
	tq_call_snapshot();
	tq_manage_act(&call, act->task_id, &act->wish);
	tq_call_end(&call);
}

/* Errors of the contract; all others end the call. */
static bool
is_problem_of_task(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) ==
			   ERRCODE_TO_CATEGORY(ERRCODE_TQ_LEASE_LOST) ||
		   sqlstate == ERRCODE_INSUFFICIENT_PRIVILEGE;
}

static void
read_choice(FunctionCallInfo fcinfo, Choice *choice)
{
	char *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	char *state = tq_arg_keyword(fcinfo, 1, "state");
	char *reason = tq_arg_keyword(fcinfo, 2, "reason");

	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	choice->state = TQ_STATE_DEAD;
	if (state != NULL && !tq_state_parse(state, &choice->state))
		tq_error_invalid("state", "is unknown",
						 "Allowed: suspended, done, dead, cancelled, "
						 "filtered.");
	if (!tq_state_is_legal(choice->state, TQ_STATE_PENDING) ||
		choice->state == TQ_STATE_BLOCKED || choice->state == TQ_STATE_RUNNING)
		tq_error_invalid("state", "is not one that can be retried",
						 "Allowed: suspended, done, dead, cancelled, "
						 "filtered.");
	if (reason != NULL && !tq_reason_parse(reason, &choice->reason))
		tq_error_invalid("reason", "is unknown",
						 psprintf("Allowed: %s.", tq_reason_words()));
	choice->from_id = PG_ARGISNULL(3) ? PG_INT64_MIN : PG_GETARG_INT64(3);
	choice->to_id = PG_ARGISNULL(4) ? PG_INT64_MAX - 1 : PG_GETARG_INT64(4);
	choice->to_id = Min(choice->to_id, PG_INT64_MAX - 1);
	choice->max = PG_INT64_MAX;
	if (!PG_ARGISNULL(5))
	{
		choice->max = PG_GETARG_INT32(5);
		if (choice->max < 1)
			tq_error_invalid("max_tasks", "must be at least 1", NULL);
	}
}

/* The next ids that are to be retried; their number. */
static int
read_page(const Choice *choice, int64 from_id, int64 wanted, int64 *ids)
{
	Datum  args[6];
	TqSpi  spi;
	uint64 rows;

	args[0] = Int32GetDatum(choice->queue->queue_id);
	args[1] = Int32GetDatum(choice->state);
	args[2] = Int32GetDatum(choice->reason);
	args[3] = Int64GetDatum(from_id);
	args[4] = Int64GetDatum(choice->to_id);
	args[5] = Int64GetDatum(Min(wanted, PAGE));
	tq_spi_enter(&spi);
	rows = tq_spi_once(choice->state == TQ_STATE_SUSPENDED ? &stmt_suspended
														   : &stmt_finished,
					   args, NULL, true);
	for (uint64 i = 0; i < rows; i++)
		ids[i] = tq_spi_int8(i, 1, 0);
	tq_spi_leave(&spi);
	return (int) rows;
}

/*
 * Unless it is not any more what was looked for, or another task has its
 * reference.
 */
static bool
retry_chosen(TqCall *call, const Choice *choice, int64 task_id)
{
	TqWish wish = {TQ_ACTION_RETRY};

	wish.in_bulk = true;
	for (;; tq_call_snapshot())
	{
		TqTask task;
		bool   found;

		if (choice->state == TQ_STATE_SUSPENDED)
			found = tq_row_find(call, task_id, &task);
		else
			found = tq_row_find_archived(task_id, &task) &&
					!is_reference_taken(&task);
		if (!found || task.f.state != (int16) choice->state ||
			task.f.reason == TQ_REASON_POISON)
			return false;
		if (tq_manage_try(call, choice->queue, &task, &wish))
			return true;
	}
}

static bool
is_reference_taken(const TqTask *task)
{
	Datum args[2];
	TqSpi spi;
	bool  taken;

	if (task->isnull[TQ_COL_REFERENCE])
		return false;
	args[0] = Int32GetDatum(task->f.queue_id);
	args[1] = task->value[TQ_COL_REFERENCE];
	tq_spi_enter(&spi);
	taken = tq_spi_look(&stmt_taken, args, NULL, 1) > 0;
	tq_spi_leave(&spi);
	return taken;
}

static int
compare_entries(const void *a, const void *b)
{
	const Entry *x = a;
	const Entry *y = b;

	if (x->task_id != y->task_id)
		return x->task_id < y->task_id ? -1 : 1;
	return x->place - y->place;
}
