/*
 * history.c
 *		The state changes and manual changes of tasks: taskq.history.
 *
 * A queue with the option history writes a row for each change of a task's
 * state, in the transaction that makes the change.  So do steps of workflows.
 * A manual change (TqTask.by_hand) is written in every queue, even if the
 * state remains the same: tq_history_keeps decides.  Rows are stored in the
 * leaf with the number of the archive's current leaf, and are truncated with
 * it (maintenance/retention.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "commands/sequence.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/guc.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/history.h"
#include "store/large.h"
#include "store/row.h"

/* The columns of taskq.transition, in order. */
typedef enum Column
{
	COL_TRANSITION_ID,
	COL_BUCKET,
	COL_TASK_ID,
	COL_QUEUE_ID,
	COL_AT,
	COL_FROM_STATE,
	COL_TO_STATE,
	COL_REASON,
	COL_ATTEMPT,
	COL_TOKEN,
	COL_WORKER_ID,
	COL_ROLE_ID,
	COL_MESSAGE,
	COL_ACTOR,
	COLUMNS
} Column;

StaticAssertDecl(COLUMNS == TQ_HISTORY_COLUMNS, "columns of taskq.transition");

/*
 * What the caller does with the task is a manual change; message (or NULL) is
 * what was said about it.
 */
void
tq_history_mark(TqTask *task, const char *message)
{
	task->by_hand = true;
	if (message != NULL)
		tq_large_put(task, TQ_COL_MESSAGE, CStringGetTextDatum(message));
}

/*
 * Record the change of a task, as it was written, from another state
 * (TQ_STATE_NONE if the task is new) or the same one.
 */
void
tq_history_write(TqCall *call, TqTask *task, int from)
{
	int   bucket = tq_queue_bucket();
	char *actor;
	bool  nulls[COLUMNS] = {false};
	Datum values[COLUMNS];

	values[COL_TRANSITION_ID] = Int64GetDatum(
		nextval_internal(tq_catalog()->transition_id_seq, false));
	values[COL_BUCKET] = Int16GetDatum(bucket);
	values[COL_TASK_ID] = Int64GetDatum(task->f.task_id);
	values[COL_QUEUE_ID] = Int32GetDatum(task->f.queue_id);
	values[COL_AT] = TimestampTzGetDatum(tq_clock_wall());
	values[COL_FROM_STATE] = Int16GetDatum((int16) from);
	values[COL_TO_STATE] = Int16GetDatum(task->f.state);
	values[COL_REASON] = Int16GetDatum(task->f.reason);
	values[COL_ATTEMPT] = Int32GetDatum(task->f.attempt);
	values[COL_TOKEN] = Int64GetDatum(task->f.token);
	values[COL_WORKER_ID] = Int32GetDatum(task->f.worker_id);
	/* a claim does not wait, so it may leave out a new role */
	values[COL_ROLE_ID] = Int32GetDatum(tq_role_intern_now(GetUserId()));
	/* the message of this change, not one from an earlier change */
	nulls[COL_MESSAGE] =
		!task->new_message ||
		!tq_large_get(task, TQ_COL_MESSAGE, &values[COL_MESSAGE]);
	if (nulls[COL_MESSAGE])
		values[COL_MESSAGE] = (Datum) 0;
	actor = tq_guc_actor_text();
	nulls[COL_ACTOR] = actor == NULL;
	values[COL_ACTOR] = actor == NULL ? (Datum) 0 : CStringGetTextDatum(actor);
	tq_row_insert_history(call, bucket, values, nulls);
}
