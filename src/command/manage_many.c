/*
 * manage_many.c
 *		taskq_manage_many: change a list of tasks.  Operations on all that
 *		match (operation/operation_run.c) change each task as a list of one.
 *
 * Each task is changed in a savepoint, in the order of ids, so that two calls
 * cannot deadlock; a problem with one task is reported in its row.  If an id
 * occurs again and its first occurrence failed, both have the same problem.
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
#include "base/place.h"
#include "base/spi.h"
#include "base/srf.h"
#include "base/subxact.h"
#include "cache/role.h"
#include "command/manage_many.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/name_lock.h"
#include "engine/step.h"
#include "engine/task_lock.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_manage_many);

/* One task of a list. */
typedef struct Entry
{
	int   place; /* index in the caller's list */
	int64 task_id;
	int   problem; /* SQLSTATE, or 0 */
} Entry;

typedef struct EntryList
{
	ArrayType *ids;
	Entry     *entries; /* sorted */
	int        count;
	TqAction   action;
} EntryList;

/* An existing task of the list that current_user may manage. */
typedef struct Known
{
	int64    task_id;
	TqQueue *queue;
	text    *key;       /* or NULL */
	char    *reference; /* or NULL */
	bool     is_step;
} Known;

/* What to do with one task. */
typedef struct Act
{
	int64   task_id;
	TqWish *wish;
	bool    steps_locked; /* as a part of a list */
	TqTask *task;         /* as it was read, or NULL */
} Act;

/* The existing tasks of a list. */
static TqStmt stmt_known = {
	"SELECT t.task_id, t.queue_id, t.key, t.workflow_id IS NOT NULL,"
	" t.reference FROM taskq.task t"
	" WHERE t.task_id = ANY ($1)"
	" UNION ALL"
	" SELECT a.task_id, a.queue_id, a.key, a.workflow_id IS NOT NULL,"
	" a.reference FROM taskq.archive a"
	"  WHERE a.task_id = ANY ($1)"
	" ORDER BY 1",
	{INT8ARRAYOID}};

static void       lock_ahead(void *arg);
static Known     *read_known(EntryList *list, bool latest, int *count);
static int        keep_managed(Known *known, int count);
static void       note_unknown(uint64 rows, EntryList *list);
static Bitmapset *references_of(const Known *known, int count,
								TqAction action);
static void       lock_steps(TqCall *call, const Known *known, int count,
							 TqAction action);
static TqKeyName *names_of(const Known *known, int count, int *named);
static void       lock_rows(TqCall *call, EntryList *list, const Known *known,
							int count);
static void       begin_list(EntryList *list);
static void act_guarded(Entry *entry, const TqWish *wanted, bool steps_locked);
static void act_on(void *arg);
static bool act_on_read(TqCall *call, Act *act);
static int  compare_entries(const void *a, const void *b);

Datum
taskq_manage_many(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TqWish         wanted = {0};
	EntryList      list;
	Datum         *ids;
	Entry         *entries;
	int           *places;
	int            count;
	TqPlace        place;

	tq_srf_begin(fcinfo);
	wanted.action = tq_manage_many_read_action(fcinfo, 0);
	wanted.in_bulk = true;
	wanted.message = tq_arg_message(fcinfo, 2);
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
	list.ids = PG_GETARG_ARRAYTYPE_P(1);
	list.entries = entries;
	list.count = count;
	list.action = wanted.action;
	if (count > 0)
		begin_list(&list);
	tq_place_begin(&place, "task_ids");
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		place.index = entries[i].place;
		if (i > 0 && entries[i].task_id == entries[i - 1].task_id)
			entries[i].problem = entries[i - 1].problem;
		if (entries[i].problem == 0)
			act_guarded(&entries[i], &wanted, count > 1);
		places[entries[i].place] = i;
	}
	tq_place_end(&place);
	for (int i = 0; i < count; i++)
	{
		Entry *entry = &entries[places[i]];
		bool   ok = entry->problem == 0;
		Datum  values[3] = {Int64GetDatum(entry->task_id), BoolGetDatum(ok)};
		bool   nulls[3] = {false, false, ok};

		if (!ok)
			values[2] = CStringGetTextDatum(unpack_sql_state(entry->problem));
		tq_srf_add(result, values, nulls);
	}
	return (Datum) 0;
}

/*
 * Change one task as a list of one, in a savepoint of the caller, which rolls
 * it back after an error.  The task was read some time ago.
 */
void
tq_manage_many_one(TqTask *task, TqWish *wish)
{
	int64     task_id = task->f.task_id;
	Datum     id = Int64GetDatum(task_id);
	Entry     entry = {0, task_id};
	EntryList list = {NULL, &entry, 1, wish->action};
	Act       act = {task_id, wish, false, task};

	list.ids = construct_array(&id, 1, INT8OID, sizeof(int64), FLOAT8PASSBYVAL,
							   TYPALIGN_DOUBLE);
	/* a list of one locks nothing ahead unless its task has a reference */
	if (!task->isnull[TQ_COL_REFERENCE])
		begin_list(&list);
	if (entry.problem != 0)
		tq_error_no_such_task(task_id);
	act_on(&act);
}

TqAction
tq_manage_many_read_action(FunctionCallInfo fcinfo, int n)
{
	char    *word = tq_arg_keyword(fcinfo, n, "action");
	TqAction action;

	if (word == NULL)
		tq_error_required("action");
	if (!tq_manage_many_parse_action(word, &action))
		tq_error_invalid("action", "is unknown",
						 "Allowed: cancel, retry, recreate, resolve, hold, "
						 "poison, unpoison, delete.");
	return action;
}

bool
tq_manage_many_parse_action(const char *word, TqAction *action)
{
	static const char *const words[] = {
		[TQ_ACTION_CANCEL] = "cancel",     [TQ_ACTION_RETRY] = "retry",
		[TQ_ACTION_RECREATE] = "recreate", [TQ_ACTION_RESOLVE] = "resolve",
		[TQ_ACTION_HOLD] = "hold",         [TQ_ACTION_POISON] = "poison",
		[TQ_ACTION_UNPOISON] = "unpoison", [TQ_ACTION_DELETE] = "delete"};

	for (int i = 0; i < lengthof(words); i++)
	{
		if (strcmp(words[i], word) == 0)
		{
			*action = (TqAction) i;
			return true;
		}
	}
	return false;
}

static void
begin_list(EntryList *list)
{
	if (tq_queue_any_ordered())
		tq_subxact_repeat(lock_ahead, list);
	else
		lock_ahead(list);
}

/*
 * Find the existing tasks of the list, so that missing tasks need not be
 * looked up one by one.  Lock the instances, keys and references of all tasks
 * before the first one is moved.
 */
static void
lock_ahead(void *arg)
{
	EntryList *list = arg;
	Bitmapset *references;
	TqKeyName *names;
	Known     *known;
	int        count;
	int        named;
	bool       ahead;
	TqCall     call;

	tq_call_begin(&call, "taskq_manage_many()");
	tq_queue_lock_insertions();
	known = read_known(list, false, &count);
	references = references_of(known, count, list->action);
	/* one task needs no locks ahead, unless it has a reference: keys first */
	ahead = list->count > 1 || references != NULL;
	if (ahead)
	{
		lock_steps(&call, known, count, list->action);
		names = names_of(known, count, &named);
		tq_key_lock_names(&call, names, named);
	}
	tq_name_lock(TQ_NAME_REFERENCE, references, NULL);
	if (ahead && tq_queue_any_ordered())
		lock_rows(&call, list, known, count);
	tq_call_end(&call);
}

/*
 * Read the tasks in the order of their ids, as the call's snapshot or a latest
 * one sees them.
 */
static Known *
read_known(EntryList *list, bool latest, int *count)
{
	Datum  ids = PointerGetDatum(list->ids);
	uint64 rows;
	Known *known;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = latest ? tq_spi_look(&stmt_known, &ids, NULL, 0)
				  : tq_spi_run(&stmt_known, &ids, NULL, SPI_OK_SELECT, 0);
	if (!latest)
		note_unknown(rows, list);
	known = MemoryContextAllocHuge(spi.caller, sizeof(Known) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		MemoryContext mine = MemoryContextSwitchTo(spi.caller);
		bool          isnull;
		Datum         key = tq_spi_get(i, 3, &isnull);

		known[i].task_id = tq_spi_int8(i, 1, 0);
		known[i].queue = tq_queue_by_id(tq_spi_int4(i, 2, 0));
		known[i].key = isnull ? NULL : DatumGetTextPCopy(key);
		known[i].is_step = tq_spi_bool(i, 4);
		known[i].reference = tq_spi_text(&spi, i, 5);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	*count = keep_managed(known, (int) rows);
	return known;
}

/*
 * Keep the tasks that current_user may manage, which is not the current user
 * while SPI is entered; return their number.
 */
static int
keep_managed(Known *known, int count)
{
	int kept = 0;

	for (int i = 0; i < count; i++)
	{
		if (known[i].queue != NULL &&
			(tq_role_rights(known[i].queue) & TQ_RIGHT_MANAGE) != 0)
			known[kept++] = known[i];
	}
	return kept;
}

/* Both are in the order of ids. */
static void
note_unknown(uint64 rows, EntryList *list)
{
	uint64 row = 0;

	for (int i = 0; i < list->count; i++)
	{
		Entry *entry = &list->entries[i];

		while (row < rows && tq_spi_int8(row, 1, 0) < entry->task_id)
			row++;
		if (row == rows || tq_spi_int8(row, 1, 0) != entry->task_id)
			entry->problem = ERRCODE_TQ_NO_SUCH_TASK;
	}
}

/*
 * The references that tasks get or lose.  A call that has freed a reference,
 * and waits for a row, must not be waited for by a call that has the row and
 * wants the reference.
 */
static Bitmapset *
references_of(const Known *known, int count, TqAction action)
{
	Bitmapset *references = NULL;

	if (action == TQ_ACTION_HOLD || action == TQ_ACTION_UNPOISON)
		return NULL;
	for (int i = 0; i < count; i++)
	{
		if (known[i].reference != NULL)
			references = tq_name_lock_add(references, known[i].reference);
	}
	return references;
}

static void
lock_steps(TqCall *call, const Known *known, int count, TqAction action)
{
	TqInstanceLockKind  kind = TQ_FLOW_LOCK_REPAIR;
	int64              *steps;
	TqInstanceLockKind *kinds;
	int                 step_count = 0;

	if (action == TQ_ACTION_RECREATE || action == TQ_ACTION_DELETE ||
		action == TQ_ACTION_UNPOISON)
		return;
	/* finished steps release others in an order of their own */
	if (action == TQ_ACTION_CANCEL || action == TQ_ACTION_POISON)
		kind = TQ_FLOW_LOCK_ALONE;
	steps = palloc_extended(sizeof(int64) * (count + 1), MCXT_ALLOC_HUGE);
	kinds = palloc_extended(sizeof(TqInstanceLockKind) * (count + 1),
							MCXT_ALLOC_HUGE);
	for (int i = 0; i < count; i++)
	{
		if (!known[i].is_step)
			continue;
		kinds[step_count] = kind;
		steps[step_count++] = known[i].task_id;
	}
	if (step_count > 0)
		tq_step_hooks.moving_all(call, steps, NULL, kinds, step_count,
								 TQ_RIGHT_MANAGE);
	pfree(kinds);
	pfree(steps);
}

/* The keys of the tasks in queues that order their tasks by key. */
static TqKeyName *
names_of(const Known *known, int count, int *named)
{
	TqKeyName *names =
		palloc_extended(sizeof(TqKeyName) * (2 * count + 1), MCXT_ALLOC_HUGE);

	*named = 0;
	for (int i = 0; i < count; i++)
	{
		if (known[i].key != NULL)
			*named += tq_key_names(known[i].queue, known[i].key,
								   known[i].is_step, &names[*named]);
	}
	return names;
}

/*
 * Lock the rows, so that no task gets another key.  It may have got one during
 * the waits.
 */
static void
lock_rows(TqCall *call, EntryList *list, const Known *known, int count)
{
	TqKeyName *names;
	int        named;

	tq_snapshot_renew();
	for (int i = 0; i < count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		(void) tq_task_lock(call, known[i].task_id, TQ_RIGHT_MANAGE, false);
	}
	known = read_known(list, true, &count);
	names = names_of(known, count, &named);
	tq_key_require_locked(call, names, named);
}

/* In a savepoint, so that an error affects only this task. */
static void
act_guarded(Entry *entry, const TqWish *wanted, bool steps_locked)
{
	MemoryContext one = AllocSetContextCreate(
		CurrentMemoryContext, "taskq_manage_many", ALLOCSET_SMALL_SIZES);
	MemoryContext mine = MemoryContextSwitchTo(one);
	TqWish        wish = *wanted;
	Act           act = {entry->task_id, &wish, steps_locked};
	ErrorData    *error = tq_subxact_run(act_on, &act);

	if (error != NULL && !tq_manage_many_is_problem(error->sqlerrcode))
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
	tq_call_steps(&call)->locked = act->steps_locked;
	tq_queue_lock_insertions();
	tq_snapshot_renew();
	if (!act_on_read(&call, act))
		tq_manage_act(&call, act->task_id, act->wish);
	tq_call_end(&call);
}

/*
 * Change a finished task that was read before: to find it again among all
 * leaves of the archive is expensive.  Returns false if that is not possible,
 * also because it has changed.
 */
static bool
act_on_read(TqCall *call, Act *act)
{
	TqQueue *queue;

	if (act->task == NULL || !act->task->archived)
		return false;
	queue = tq_queue_by_id(act->task->f.queue_id);
	tq_role_require_task(queue, act->task_id, TQ_RIGHT_MANAGE);
	return tq_manage_try(call, queue, act->task, act->wish);
}

/* Errors of the contract are reported; all others end the call. */
bool
tq_manage_many_is_problem(int sqlstate)
{
	return ERRCODE_TO_CATEGORY(sqlstate) ==
			   ERRCODE_TO_CATEGORY(ERRCODE_TQ_LEASE_LOST) ||
		   sqlstate == ERRCODE_INSUFFICIENT_PRIVILEGE;
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
