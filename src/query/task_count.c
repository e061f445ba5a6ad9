/*
 * task_count.c
 *		taskq_count, taskq_sequence_at: counts and ids in the past.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/error.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/call.h"
#include "store/task.h"

PG_FUNCTION_INFO_V1(taskq_count);
PG_FUNCTION_INFO_V1(taskq_sequence_at);

/* The part that the queries of both tables share. */
#define CHOSEN(table)                                                         \
	" FROM " table " t"                                                       \
	" WHERE t.queue_id = ANY ($1)"                                            \
	"   AND ($3 IS NULL OR t.reference = $3)"                                 \
	"   AND ($4 IS NULL OR t.key = $4)"                                       \
	"   AND ($5 IS NULL OR t.task_id >= $5)"                                  \
	"   AND ($6 IS NULL OR t.task_id <= $6)"
#define OF_STATE " AND ($2 IS NULL OR t.state = $2::smallint)"
#define OF_KEY " AND t.key IS NOT NULL"
#define NOT_FINISHED " AND $7 IS NULL AND $8 IS NULL"
#define FINISHED                                                              \
	" AND ($7 IS NULL OR t.finished_at >= $7)"                                \
	" AND ($8 IS NULL OR t.finished_at <= $8)"
#define GROUPED                                                               \
	"SELECT q.name, s.state::integer, count(*), max(s.task_id)"               \
	"  FROM ("
#define BY_QUEUE                                                              \
	") s JOIN taskq.queue q USING (queue_id)"                                 \
	" GROUP BY q.name, s.state ORDER BY q.name, s.state"
#define ARGUMENTS                                                             \
	{                                                                         \
		INT4ARRAYOID, INT4OID, TEXTOID, TEXTOID, INT8OID, INT8OID,            \
			TIMESTAMPTZOID, TIMESTAMPTZOID                                    \
	}

static TqStmt stmt_total = {
	GROUPED "SELECT t.queue_id, t.state, t.task_id" CHOSEN("taskq.task")
		OF_STATE NOT_FINISHED
	" UNION ALL SELECT t.queue_id, t.state, t.task_id" CHOSEN("taskq.archive")
		OF_STATE FINISHED BY_QUEUE,
	ARGUMENTS};

static TqStmt stmt_recent = {
	GROUPED
	"SELECT n.queue_id, n.state, n.task_id FROM ("
	"SELECT DISTINCT ON (u.queue_id, u.key) u.queue_id, u.state, u.task_id"
	"  FROM (SELECT t.queue_id, t.key, t.state, t.task_id" CHOSEN("taskq.task")
		OF_KEY NOT_FINISHED
	" UNION ALL SELECT t.queue_id, t.key, t.state, t.task_id" CHOSEN(
		"taskq.archive") OF_KEY FINISHED
	") u ORDER BY u.queue_id, u.key, u.task_id DESC) n"
	" WHERE $2 IS NULL OR n.state = $2::smallint" BY_QUEUE,
	ARGUMENTS};

/* The first task at or above an id, and the last one at or below. */
static TqStmt stmt_from = {
	"SELECT s.task_id, s.created_at FROM"
	" ((SELECT task_id, " TQ_SQL_CREATED_AT
	" AS created_at FROM taskq.task WHERE task_id >= $1"
	"    ORDER BY task_id LIMIT 1)"
	"   UNION ALL"
	"  (SELECT task_id, " TQ_SQL_CREATED_AT
	"     FROM taskq.archive WHERE task_id >= $1"
	"    ORDER BY task_id LIMIT 1)) s ORDER BY s.task_id LIMIT 1",
	{INT8OID}};

static TqStmt stmt_to = {
	"SELECT s.task_id, s.created_at FROM"
	" ((SELECT task_id, " TQ_SQL_CREATED_AT
	" AS created_at FROM taskq.task WHERE task_id <= $1"
	"    ORDER BY task_id DESC LIMIT 1)"
	"   UNION ALL"
	"  (SELECT task_id, " TQ_SQL_CREATED_AT
	"     FROM taskq.archive WHERE task_id <= $1"
	"    ORDER BY task_id DESC LIMIT 1)) s ORDER BY s.task_id DESC LIMIT 1",
	{INT8OID}};

static Datum readable_queues(const char *name);
static bool  find_task(TqStmt *stmt, int64 id, int64 *task_id,
					   TimestampTz *created_at);
static bool  first_after(TimestampTz moment, bool inclusive, int64 *task_id);

/* Count tasks by queue and state, and return the newest of each. */
Datum
taskq_count(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char          *mode = tq_arg_keyword(fcinfo, 1, "mode");
	char          *state_word = tq_arg_keyword(fcinfo, 2, "state");
	char          *name = NULL;
	char          *reference = tq_arg_word(fcinfo, 3, "reference", TQ_MAX_KEY);
	char          *key = tq_arg_word(fcinfo, 4, "key", TQ_MAX_KEY);
	bool           recent = false;
	TqState        state = TQ_STATE_PENDING;
	Datum          args[8];
	bool           nulls[8] = {false};
	uint64         rows;
	TqCall         call;
	TqSpi          spi;

	tq_srf_begin(fcinfo);
	if (!PG_ARGISNULL(0))
		name = tq_arg_name(fcinfo, 0, "queue", NULL);
	if (mode != NULL && strcmp(mode, "recent") == 0)
		recent = true;
	else if (mode != NULL && strcmp(mode, "total") != 0)
		tq_error_invalid("mode", "has an unknown value",
						 "Allowed: total, recent.");
	if (state_word != NULL && !tq_state_parse(state_word, &state))
		tq_error_invalid("state", "is unknown",
						 psprintf("Allowed: %s.", tq_state_words()));
	tq_call_begin_look(&call);
	args[0] = readable_queues(name);
	args[1] = Int32GetDatum(state);
	nulls[1] = state_word == NULL;
	args[2] = reference == NULL ? (Datum) 0 : CStringGetTextDatum(reference);
	nulls[2] = reference == NULL;
	args[3] = key == NULL ? (Datum) 0 : CStringGetTextDatum(key);
	nulls[3] = key == NULL;
	for (int i = 4; i < 8; i++)
	{
		args[i] = PG_GETARG_DATUM(i + 1);
		nulls[i] = PG_ARGISNULL(i + 1);
	}
	tq_spi_enter(&spi);
	rows = tq_spi_once(recent ? &stmt_recent : &stmt_total, args, nulls, true);
	for (uint64 i = 0; i < rows; i++)
	{
		MemoryContext mine = MemoryContextSwitchTo(spi.caller);
		Datum         values[4];
		bool          none[4] = {false};

		values[0] = CStringGetTextDatum(tq_spi_text(&spi, i, 1));
		values[1] =
			CStringGetTextDatum(tq_state_name((TqState) tq_spi_int4(i, 2, 0)));
		values[2] = Int64GetDatum(tq_spi_int8(i, 3, 0));
		values[3] = Int64GetDatum(tq_spi_int8(i, 4, 0));
		tq_srf_add(result, values, none);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	tq_call_end(&call);
	return (Datum) 0;
}

/*
 * Return the first id created at the given time or later, or the last id
 * created at that time or earlier.  Ids increase with the time of creation,
 * except between concurrent sessions, so binary search finds the id.  If there
 * is no such id, the result is beyond all ids, since NULL as a bound of
 * taskq_purge() would mean every task.
 */
Datum
taskq_sequence_at(PG_FUNCTION_ARGS)
{
	TimestampTz moment;
	bool        preceding = tq_arg_bool(fcinfo, 1, false);
	int64       task_id;
	TimestampTz created_at;
	TqCall      call;
	bool        found;

	if (PG_ARGISNULL(0))
		tq_error_required("moment");
	moment = PG_GETARG_TIMESTAMPTZ(0);
	tq_call_begin_look(&call);
	if (!preceding)
		found = first_after(moment, true, &task_id);
	else if (first_after(moment, false, &task_id))
		found = find_task(&stmt_to, task_id - 1, &task_id, &created_at);
	else
		found = find_task(&stmt_to, PG_INT64_MAX, &task_id, &created_at);
	tq_call_end(&call);
	if (!found)
		task_id = preceding ? 0 : PG_INT64_MAX;
	PG_RETURN_INT64(task_id);
}

/* Return the numbers of the queues that current_user may read: one, or all. */
static Datum
readable_queues(const char *name)
{
	int32 *ids;
	int    count = 0;
	int    names_count = 1;
	char **names;

	if (name == NULL)
		names = tq_queue_names(&names_count);
	else
	{
		names = palloc(sizeof(char *));
		names[0] = pstrdup(name);
	}
	ids = palloc(sizeof(int32) * (names_count + 1));
	for (int i = 0; i < names_count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue == NULL && name != NULL)
			tq_error_no_such_queue(name);
		if (queue == NULL)
			continue;
		if (name != NULL && !tq_role_is_monitor())
			tq_role_require(queue, TQ_RIGHT_OBSERVE);
		if ((tq_role_rights(queue) & TQ_RIGHT_OBSERVE) != 0 ||
			tq_role_is_monitor())
			ids[count++] = queue->queue_id;
	}
	return tq_spi_int4_array(ids, count);
}

static bool
find_task(TqStmt *stmt, int64 id, int64 *task_id, TimestampTz *created_at)
{
	Datum arg = Int64GetDatum(id);
	bool  found;
	TqSpi spi;

	tq_spi_enter(&spi);
	found = tq_spi_read(stmt, &arg, NULL, 1) > 0;
	if (found)
	{
		*task_id = tq_spi_int8(0, 1, 0);
		*created_at = tq_spi_time(0, 2, 0);
	}
	tq_spi_leave(&spi);
	return found;
}

/* Find the first task created after the time, or at it. */
static bool
first_after(TimestampTz moment, bool inclusive, int64 *task_id)
{
	int64       low;
	int64       high;
	int64       id;
	TimestampTz created_at;
	bool        found = false;

	if (!find_task(&stmt_from, PG_INT64_MIN, &low, &created_at) ||
		!find_task(&stmt_to, PG_INT64_MAX, &high, &created_at))
		return false;
	while (low <= high)
	{
		int64 middle = low + (high - low) / 2;

		CHECK_FOR_INTERRUPTS();
		if (!find_task(&stmt_from, middle, &id, &created_at) || id > high)
			high = middle - 1;
		else if (created_at > moment || (inclusive && created_at == moment))
		{
			*task_id = id;
			found = true;
			high = middle - 1;
		}
		else
			low = id + 1;
	}
	return found;
}
