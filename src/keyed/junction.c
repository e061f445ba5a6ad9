/*
 * junction.c
 *		taskq_junction: resume suspended tasks of several keys together.
 *
 * The suspended tasks of all keys are locked in the order of their ids, and
 * then the call checks that each key has a suspended task.  If two calls for
 * the same group are made at the same time, the second waits for the first,
 * and finds that the tasks are no longer suspended.  In a queue with a
 * key_policy the keys are locked before, as always.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/arg.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/role.h"
#include "command/manage.h"
#include "engine/call.h"
#include "engine/key.h"
#include "store/row.h"
#include "store/snapshot.h"

/* The keys of a group, sorted, without duplicates. */
typedef struct KeyGroup
{
	char **keys;
	bool  *present; /* has a task that counts */
	int    count;
	bool   eternal;
} KeyGroup;

/* Suspended tasks of the group, locked. */
typedef struct Suspended
{
	int64 *ids;
	uint64 count;
} Suspended;

PG_FUNCTION_INFO_V1(taskq_junction);

static TqStmt stmt_suspended = {
	"SELECT task_id, key FROM taskq.task"
	" WHERE suspended_at IS NOT NULL AND queue_id = $1 AND key = ANY ($2)"
	" ORDER BY task_id FOR UPDATE",
	{INT4OID, TEXTARRAYOID}};

static TqStmt stmt_any = {"SELECT DISTINCT s.key FROM"
						  "  (SELECT t.key FROM taskq.task t"
						  "    WHERE t.queue_id = $1 AND t.key = ANY ($2)"
						  "    UNION ALL"
						  "   SELECT a.key FROM taskq.archive a"
						  "    WHERE a.queue_id = $1 AND a.key = ANY ($2)"
						  "      AND a.state <> " TQ_SQL_STATE_REDUNDANT ") s",
						  {INT4OID, TEXTARRAYOID}};

static void     read_group(FunctionCallInfo fcinfo, KeyGroup *group);
static TqQueue *find_queue(const char *name, const KeyGroup *group);
static void     lock_keys(TqCall *call, const TqQueue *queue,
						  const KeyGroup *group);
static void     find_suspended(const TqQueue *queue, KeyGroup *group,
							   Suspended *found);
static void     find_any(const TqQueue *queue, KeyGroup *group);
static Datum    keys_datum(const KeyGroup *group);
static void     note_keys(KeyGroup *group, uint64 rows, int column);
static bool     is_complete(const KeyGroup *group);
static bool resume(TqCall *call, TqQueue *queue, int64 task_id, char *message);
static int  compare_keys(const void *a, const void *b);

Datum
taskq_junction(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	MemoryContext  caller = CurrentMemoryContext;
	MemoryContext  one;
	char          *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	char          *message = tq_arg_message(fcinfo, 3);
	Suspended      found = {0};
	KeyGroup       group = {0};
	TqQueue       *queue;
	TqCall         call;

	tq_srf_begin(fcinfo);
	read_group(fcinfo, &group);
	tq_call_begin(&call, "taskq_junction()");
	tq_queue_lock_insertions();
	queue = find_queue(name, &group);
	lock_keys(&call, queue, &group);
	find_suspended(queue, &group, &found);
	if (group.eternal && found.count > 0)
		find_any(queue, &group);
	if (!is_complete(&group))
		found.count = 0;
	TQ_DEBUG_POINT("junction_decided");
	tq_snapshot_renew();
	tq_key_settle_later(&call);
	one = AllocSetContextCreate(caller, "taskq_junction",
								ALLOCSET_DEFAULT_SIZES);
	for (uint64 i = 0; i < found.count; i++)
	{
		Datum value = Int64GetDatum(found.ids[i]);
		bool  isnull = false;

		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(one);
		if (resume(&call, queue, found.ids[i], message))
			tq_srf_add(result, &value, &isnull);
		MemoryContextSwitchTo(caller);
		MemoryContextReset(one);
	}
	tq_call_end(&call);
	MemoryContextDelete(one);
	return (Datum) 0;
}

static void
read_group(FunctionCallInfo fcinfo, KeyGroup *group)
{
	char  *mode = tq_arg_keyword(fcinfo, 2, "mode");
	Datum *values;
	int    count;

	if (mode != NULL && strcmp(mode, "eternal") == 0)
		group->eternal = true;
	else if (mode != NULL && strcmp(mode, "singular") != 0)
		tq_error_invalid("mode", "has an unknown value",
						 "Allowed: singular, eternal.");
	if (PG_ARGISNULL(1))
		tq_error_required("keys");
	values = tq_arg_array(fcinfo, 1, "keys", TEXTOID, &count);
	group->keys = tq_arg_words(values, count, "keys", "keys", TQ_MAX_KEY);
	qsort(group->keys, count, sizeof(char *), compare_keys);
	for (int i = 0; i < count; i++)
	{
		if (i == 0 ||
			strcmp(group->keys[group->count - 1], group->keys[i]) != 0)
			group->keys[group->count++] = group->keys[i];
	}
	group->present = palloc0(sizeof(bool) * (group->count + 1));
}

/* Raise TQ004 if finished tasks leave no trace in this queue. */
static TqQueue *
find_queue(const char *name, const KeyGroup *group)
{
	TqQueue *queue;

	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	queue = tq_queue_find(name);
	if (queue == NULL)
		tq_error_no_such_queue(name);
	tq_role_require(queue, TQ_RIGHT_MANAGE);
	if (group->eternal && queue->options.retention.keep == TQ_KEEP_NONE)
		tq_error_invalid_option("retention",
								"is \"none\", so that mode eternal cannot "
								"tell which keys had tasks",
								"Set another retention, or use mode "
								"singular.");
	return queue;
}

static void
lock_keys(TqCall *call, const TqQueue *queue, const KeyGroup *group)
{
	TqKeyName *names;

	if (!tq_key_is_ordered(queue))
		return;
	names = palloc_extended(sizeof(TqKeyName) * (group->count + 1),
							MCXT_ALLOC_HUGE);
	for (int i = 0; i < group->count; i++)
	{
		names[i].queue_id = queue->queue_id;
		names[i].key = cstring_to_text(group->keys[i]);
	}
	tq_key_lock_names(call, names, group->count);
}

/* Lock the tasks; in mode singular each key must have one. */
static void
find_suspended(const TqQueue *queue, KeyGroup *group, Suspended *found)
{
	Datum args[2] = {Int32GetDatum(queue->queue_id), keys_datum(group)};
	TqSpi spi;

	tq_spi_enter(&spi);
	found->count = tq_spi_run(&stmt_suspended, args, NULL, SPI_OK_SELECT, 0);
	found->ids = tq_spi_ids(&spi, found->count, 1);
	if (!group->eternal)
		note_keys(group, found->count, 2);
	tq_spi_leave(&spi);
}

/* In mode eternal each key must have, or have had, a task. */
static void
find_any(const TqQueue *queue, KeyGroup *group)
{
	Datum args[2] = {Int32GetDatum(queue->queue_id), keys_datum(group)};
	TqSpi spi;

	tq_spi_enter(&spi);
	note_keys(group, tq_spi_look(&stmt_any, args, NULL, 0), 1);
	tq_spi_leave(&spi);
}

static Datum
keys_datum(const KeyGroup *group)
{
	Datum *keys =
		palloc_extended(sizeof(Datum) * (group->count + 1), MCXT_ALLOC_HUGE);

	for (int i = 0; i < group->count; i++)
		keys[i] = CStringGetTextDatum(group->keys[i]);
	return PointerGetDatum(
		construct_array(keys, group->count, TEXTOID, -1, false, TYPALIGN_INT));
}

static void
note_keys(KeyGroup *group, uint64 rows, int column)
{
	for (uint64 i = 0; i < rows; i++)
	{
		bool   isnull;
		char  *key = TextDatumGetCString(tq_spi_get(i, column, &isnull));
		char **place = bsearch(&key, group->keys, group->count, sizeof(char *),
							   compare_keys);

		if (place != NULL)
			group->present[place - group->keys] = true;
		pfree(key);
	}
}

static bool
is_complete(const KeyGroup *group)
{
	for (int i = 0; i < group->count; i++)
	{
		if (!group->present[i])
			return false;
	}
	return true;
}

/* Make a task pending in the same way as taskq_retry. */
static bool
resume(TqCall *call, TqQueue *queue, int64 task_id, char *message)
{
	for (;; tq_snapshot_renew())
	{
		TqWish wish = {TQ_ACTION_RETRY};
		TqTask task;

		wish.message = message;
		if (!tq_row_find(call, task_id, &task) ||
			task.f.state != TQ_STATE_SUSPENDED)
			return false;
		if (tq_manage_try(call, queue, &task, &wish))
			return true;
	}
}

static int
compare_keys(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}
