/*
 * explain_past.c
 *		The past of a task: who held it, who changed its state, and with what
 *		message.
 *
 * Read from taskq.worker, from the history if the queue writes one, and from
 * the task's own row; at most one row each.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"

#include "base/spi.h"
#include "diag/explain_past.h"
#include "diag/explain_text.h"
#include "engine/liveness.h"
#include "engine/step.h"
#include "store/large.h"

static TqStmt stmt_holder = {"SELECT name, state::integer, ended_at,"
							 "       bound_session IS NOT NULL"
							 "  FROM taskq.worker WHERE worker_id = $1",
							 {INT4OID}};

static TqStmt stmt_change = {
	"SELECT t.at, r.name, t.message"
	"  FROM taskq.transition t LEFT JOIN taskq.role r USING (role_id)"
	" WHERE t.task_id = $1 AND t.to_state = $2 AND t.from_state <> $2"
	"   AND t.at >= $3"
	" ORDER BY t.transition_id DESC LIMIT 1",
	{INT8OID, INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_last_error = {"SELECT $1 -> -1 ->> 'error'", {JSONBOID}};

void
tq_explain_whom(TqExplain *e, const TqExplainHolder *holder)
{
	if (holder->name == NULL)
		appendStringInfoString(&e->text, "a claim without a worker name");
	else if (holder->state == TQ_WORKER_LABEL)
		appendStringInfo(&e->text, "a claim with the label \"%s\"",
						 holder->name);
	else
		appendStringInfo(&e->text, "worker \"%s\"", holder->name);
}

/* Report the role that made the call. */
void
tq_explain_role(TqExplain *e, const TqExplainChange *change)
{
	if (change->role != NULL)
		appendStringInfo(&e->text, ", by role \"%s\"", change->role);
}

/* Report the error of the attempt before, if there was one. */
void
tq_explain_last_error(TqExplain *e, TqTask *task)
{
	char *error = task->f.attempt > 0 ? tq_explain_error(task) : NULL;

	if (error == NULL || !e->words)
		return;
	tq_explain_words(e, " Its last error: ", error);
	appendStringInfoChar(&e->text, '.');
}

void
tq_explain_read_holder(const TqTask *task, TqExplainHolder *holder)
{
	Datum arg = Int32GetDatum(task->f.worker_id);
	TqSpi spi;

	memset(holder, 0, sizeof(*holder));
	if (task->f.worker_id == 0)
		return;
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_holder, &arg, NULL, 1) > 0)
	{
		holder->name = tq_spi_text(&spi, 0, 1);
		holder->state = (TqWorkerState) tq_spi_int4(0, 2, 0);
		holder->ended_at = tq_spi_time(0, 3, DT_NOBEGIN);
		holder->bound = tq_spi_bool(0, 4);
	}
	tq_spi_leave(&spi);
	holder->seen = tq_liveness_silence(task->f.worker_id, &holder->silent);
}

/*
 * A queue without history has rows only of manual changes: the last one may be
 * about an earlier time in the same state.
 */
void
tq_explain_read_change(const TqTask *task, TqExplainChange *change)
{
	TqColumn since = task->archived ? TQ_COL_FINISHED_AT : TQ_COL_SUSPENDED_AT;
	Datum    args[3];
	TqSpi    spi;

	memset(change, 0, sizeof(*change));
	args[0] = Int64GetDatum(task->f.task_id);
	args[1] = Int32GetDatum(task->f.state);
	args[2] = TimestampTzGetDatum(TQ_TASK_TIME(task, since, DT_NOBEGIN));
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_change, args, NULL, 1) > 0)
	{
		change->known = true;
		change->at = tq_spi_time(0, 1, 0);
		change->role = tq_spi_text(&spi, 0, 2);
		change->message = tq_spi_text(&spi, 0, 3);
	}
	tq_spi_leave(&spi);
}

char *
tq_explain_message(TqTask *task)
{
	Datum value;

	if (!tq_large_get(task, TQ_COL_MESSAGE, &value))
		return NULL;
	return TextDatumGetCString(value);
}

/* Return the error of the last failed attempt; NULL if none has failed. */
char *
tq_explain_error(TqTask *task)
{
	Datum errors;
	char *error = NULL;
	TqSpi spi;

	if (!tq_large_get(task, TQ_COL_ERRORS, &errors))
		return NULL;
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_last_error, &errors, NULL, 1) > 0)
		error = tq_spi_text(&spi, 0, 1);
	tq_spi_leave(&spi);
	return error;
}
