/*
 * purge.c
 *		taskq_purge: remove tasks.
 *
 * Finished tasks are deleted from the archive.  Waiting tasks, if the caller
 * names their states, are removed by tq_state_remove, which is not a move.
 * Running tasks are never removed.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/place.h"
#include "base/spi.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/change_log.h"
#include "engine/history.h"
#include "engine/key.h"
#include "engine/state.h"
#include "shared/leaf_change.h"
#include "store/row.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_purge);

#define STATES                                                                \
	" AND state = ANY ($2) AND ($4 IS NULL OR reason = $4::smallint)"         \
	" AND ($5 IS NULL OR task_id >= $5) AND ($6 IS NULL OR task_id <= $6)"

static TqStmt stmt_finished = {
	"WITH chosen AS MATERIALIZED (SELECT bucket, task_id FROM taskq.archive"
	"   WHERE queue_id = $1 AND workflow_id IS NULL" STATES
	"     AND ($3 IS NULL OR finished_at < $3)"
	"     AND NOT ($8 AND state = " TQ_SQL_STATE_DEAD
	"              AND reason <> " TQ_SQL_REASON_POISON " AND key IS NOT NULL)"
	"   ORDER BY task_id LIMIT $7),"
	" gone AS (DELETE FROM taskq.archive a USING chosen c"
	"   WHERE a.bucket = c.bucket AND a.task_id = c.task_id"
	"   RETURNING a.task_id, a.large, a.bucket),"
	" parts AS (DELETE FROM taskq.large l USING gone g"
	"   WHERE g.large <> 0 AND l.task_id = g.task_id)"
	"SELECT count(*), bit_or(1 << bucket) FROM gone",
	{INT4OID, INT2ARRAYOID, TIMESTAMPTZOID, INT4OID, INT8OID, INT8OID, INT8OID,
	 BOOLOID}};

static TqStmt stmt_waiting = {
	"SELECT task_id FROM taskq.task"
	" WHERE queue_id = $1 AND workflow_id IS NULL" STATES
	"   AND ($3 IS NULL OR " TQ_SQL_CREATED_AT " < $3)"
	" ORDER BY task_id LIMIT $7",
	{INT4OID, INT2ARRAYOID, TIMESTAMPTZOID, INT4OID, INT8OID, INT8OID,
	 INT8OID}};

/* Which tasks to remove. */
typedef struct Choice
{
	bool  named[TQ_STATE_LAST + 1];
	bool  any_live;
	Datum args[8];
	bool  nulls[8];
	char *comment;
} Choice;

static void  read_states(FunctionCallInfo fcinfo, int n, Choice *choice);
static char *detail_of(const Choice *choice, int64 removed);
static Datum states_between(const Choice *choice, TqState first, TqState last);
static int64 remove_finished(Choice *choice);
static int64 remove_waiting(TqCall *call, Choice *choice);
static bool  remove_task(TqCall *call, int64 task_id, const Choice *choice);

Datum
taskq_purge(PG_FUNCTION_ARGS)
{
	char       *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	char       *reason_word = tq_arg_keyword(fcinfo, 3, "reason");
	TqReason    reason = TQ_REASON_NONE;
	Choice      choice = {0};
	int64       removed = 0;
	int64       max = PG_INT64_MAX;
	TimestampTz before;
	TqQueue    *queue;
	TqKeyRule   rule;
	TqCall      call;

	choice.comment = tq_arg_message(fcinfo, 7);
	read_states(fcinfo, 1, &choice);
	choice.nulls[2] = !tq_arg_time(fcinfo, 2, "before", &before);
	choice.args[2] = TimestampTzGetDatum(choice.nulls[2] ? 0 : before);
	if (reason_word != NULL && !tq_reason_parse(reason_word, &reason))
		tq_error_invalid("reason", "is unknown",
						 psprintf("Allowed: %s.", tq_reason_words()));
	choice.nulls[3] = reason_word == NULL;
	choice.args[3] = Int32GetDatum(reason);
	for (int i = 4; i <= 5; i++)
	{
		choice.nulls[i] = PG_ARGISNULL(i);
		choice.args[i] = PG_GETARG_DATUM(i);
	}
	if (!PG_ARGISNULL(6))
	{
		max = PG_GETARG_INT32(6);
		if (max < 1)
			tq_error_invalid("max_tasks", "must be at least 1", NULL);
	}

	tq_call_begin(&call, "taskq_purge()");
	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	queue = tq_queue_find(name);
	if (queue == NULL)
		tq_error_no_such_queue(name);
	tq_role_require(queue, TQ_RIGHT_MANAGE);
	choice.args[0] = Int32GetDatum(queue->queue_id);
	choice.args[7] =
		BoolGetDatum(tq_key_rule(queue, &rule) && rule.held_by_dead);
	tq_snapshot_renew();
	choice.args[6] = Int64GetDatum(max);
	if (choice.any_live)
		removed = remove_waiting(&call, &choice);
	choice.args[6] = Int64GetDatum(max - removed);
	if (removed < max)
		removed += remove_finished(&choice);
	if (removed > 0)
		tq_change_log_add("purge", name, name, detail_of(&choice, removed),
						  choice.comment);
	tq_call_end(&call);
	PG_RETURN_INT64(removed);
}

/* Read the states; the default is all final states.  Never running. */
static void
read_states(FunctionCallInfo fcinfo, int n, Choice *choice)
{
	Datum  *words;
	int     count;
	TqPlace place;

	if (PG_ARGISNULL(n))
	{
		for (int s = TQ_STATE_FIRST; s <= TQ_STATE_LAST; s++)
			choice->named[s] = !TQ_STATE_IS_LIVE(s);
		return;
	}
	words = tq_arg_array(fcinfo, n, "states", TEXTOID, &count);
	tq_place_begin(&place, "states");
	for (int i = 0; i < count; i++)
	{
		TqState state;

		place.index = i;
		if (!tq_state_parse(TextDatumGetCString(words[i]), &state))
			tq_error_invalid(
				"states", "has an unknown value",
				"Allowed: pending, blocked, suspended, done, dead, cancelled, filtered, redundant, recreated.");
		if (state == TQ_STATE_RUNNING)
			tq_error_invalid("states", "must not contain running",
							 "Cancel running tasks with force => true first.");
		choice->named[state] = true;
		choice->any_live = choice->any_live || TQ_STATE_IS_LIVE(state);
	}
	tq_place_end(&place);
}

/* The states and the number of the tasks, as JSON. */
static char *
detail_of(const Choice *choice, int64 removed)
{
	StringInfoData detail;
	const char    *comma = "";

	initStringInfo(&detail);
	appendStringInfo(&detail, "{\"tasks\": " INT64_FORMAT ", \"states\": [",
					 removed);
	for (int s = TQ_STATE_FIRST; s <= TQ_STATE_LAST; s++)
	{
		if (!choice->named[s])
			continue;
		appendStringInfo(&detail, "%s\"%s\"", comma,
						 tq_state_name((TqState) s));
		comma = ", ";
	}
	appendStringInfoString(&detail, "]}");
	return detail.data;
}

static Datum
states_between(const Choice *choice, TqState first, TqState last)
{
	Datum states[TQ_STATE_LAST + 1];
	int   count = 0;

	for (int s = first; s <= (int) last; s++)
	{
		if (choice->named[s])
			states[count++] = Int16GetDatum((int16) s);
	}
	return PointerGetDatum(construct_array(
		states, count, INT2OID, sizeof(int16), true, TYPALIGN_SHORT));
}

static int64
remove_finished(Choice *choice)
{
	TqSpi spi;
	int64 removed;

	choice->args[1] = states_between(choice, TQ_STATE_DONE, TQ_STATE_LAST);
	tq_spi_enter(&spi);
	tq_spi_once(&stmt_finished, choice->args, choice->nulls, false);
	removed = tq_spi_int8(0, 1, 0);
	tq_leaf_change_note_all(tq_spi_int4(0, 2, 0));
	tq_spi_leave(&spi);
	return removed;
}

static int64
remove_waiting(TqCall *call, Choice *choice)
{
	TqSpi  spi;
	uint64 rows;
	int64 *ids;
	int64  removed = 0;

	choice->args[1] =
		states_between(choice, TQ_STATE_FIRST, TQ_STATE_SUSPENDED);
	tq_spi_enter(&spi);
	rows = tq_spi_once(&stmt_waiting, choice->args, choice->nulls, true);
	ids = tq_spi_ids(&spi, rows, 1);
	tq_spi_leave(&spi);
	tq_key_lock_tasks(call, ids, NULL, (int) rows, TQ_RIGHT_MANAGE);
	tq_key_settle_later(call);
	for (uint64 i = 0; i < rows; i++)
	{
		/* removing the one before may have moved this one */
		tq_snapshot_renew();
		if (remove_task(call, ids[i], choice))
			removed++;
	}
	return removed;
}

/* Skip the task if it has moved to a state that was not named. */
static bool
remove_task(TqCall *call, int64 task_id, const Choice *choice)
{
	for (;; tq_snapshot_renew())
	{
		TqTask   task;
		TqQueue *queue;

		if (!tq_row_find(call, task_id, &task) ||
			!TQ_STATE_IS_VALID(task.f.state) || !choice->named[task.f.state])
			return false;
		queue = tq_queue_by_id(task.f.queue_id);
		if (queue == NULL)
			return false;
		tq_history_mark(&task, choice->comment);
		if (tq_state_remove(call, queue, &task))
			return true;
	}
}
