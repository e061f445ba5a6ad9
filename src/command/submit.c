/*
 * submit.c
 *		taskq_submit, and the submission of each task of a list.
 *
 * Check the arguments, find or create the queue under the lock that drop_queue
 * waits for (queue.c), map the tags to a lane (queue.c), assign the id (id.c),
 * and insert the row with tq_state_submit.
 *
 * An index makes references unique among the live tasks of a queue.  A
 * finished task may keep its reference for longer (reference_window); such
 * tasks are in archive_keep.  (A task that was recreated has passed its
 * reference on.) archive_keep is checked after the row is inserted: from then
 * on no other task can take the reference, and any earlier holder has
 * finished.
 *
 * In a list, tasks without a reference cannot conflict with any other task, so
 * their rows are written together (store/multi_insert.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/span.h"
#include "base/spi.h"
#include "base/subxact.h"
#include "cache/lane.h"
#include "command/submission.h"
#include "command/submit.h"
#include "engine/call.h"
#include "engine/history.h"
#include "engine/id.h"
#include "engine/key.h"
#include "engine/limit.h"
#include "engine/sql_task.h"
#include "engine/state.h"
#include "store/large.h"
#include "store/row.h"
#include "store/snapshot.h"
#include "xact/metric_note.h"

/* The task that has the reference. */
typedef struct Holder
{
	int64   task_id;
	TqState state;
	text   *key; /* or NULL; of live tasks only */
} Holder;

PG_FUNCTION_INFO_V1(taskq_submit);

/* A call of taskq_submit. */
typedef struct Single
{
	FunctionCallInfo    fcinfo;
	const TqSubmission *sub; /* as read, before it is resolved */
	int64               task_id;
	bool                told; /* or there is no id to return */
} Single;

static TqStmt stmt_window = {
	"SELECT task_id, state::integer, finished_at, options"
	"  FROM taskq.archive_keep WHERE queue_id = $1 AND reference = $2"
	"   AND state <> " TQ_SQL_STATE_RECREATED " AND task_id > $3"
	" ORDER BY finished_at DESC, task_id DESC",
	{INT4OID, TEXTOID, INT8OID}};

static TqStmt stmt_holder = {
	"SELECT task_id, state::integer, key FROM taskq.task"
	" WHERE queue_id = $1 AND reference = $2",
	{INT4OID, TEXTOID}};

static void submit_single(void *arg);
static void refuse_late(const TqSubmission *sub);
static void lock_key(TqCall *call, const TqSubmission *sub);
static bool find_holder(const TqQueue *queue, Datum reference, Holder *holder);
static bool is_taken(const TqQueue *queue, const TqTask *task, Holder *holder);
static bool make_way(TqCall *call, const TqSubmission *sub, Holder *holder);
static void replace_settings(const TqSubmission *sub, Jsonb *payload,
							 TqTask *task);
static bool insert_task(TqCall *call, TqSubmission *sub, Jsonb *payload,
						int64 *task_id, Holder *holder);
static bool change_holder(TqCall *call, TqSubmission *sub, Jsonb *payload,
						  const Holder *holder);

Datum
taskq_submit(PG_FUNCTION_ARGS)
{
	TqSubmission sub = {0};
	Single       single = {fcinfo, &sub};

	tq_submission_read(fcinfo, &sub, "default");
	if (tq_submit_may_move_key(&sub))
		tq_subxact_repeat(submit_single, &single);
	else
		submit_single(&single);
	if (!single.told)
		PG_RETURN_NULL();
	PG_RETURN_INT64(single.task_id);
}

static void
submit_single(void *arg)
{
	Single      *single = arg;
	TqSubmission sub = *single->sub;
	TqCall       call;

	tq_call_begin(&call, "taskq_submit()");
	tq_submission_resolve(single->fcinfo, &sub);
	single->told = tq_submit_one(
		&call, &sub, tq_arg_jsonb(single->fcinfo, TQ_SUBMIT_PAYLOAD),
		&single->task_id);
	tq_call_end(&call);
}

/*
 * May the submit change a task that has a key?  If that task gets another key
 * while the call waits for locks, tq_submit_one raises 40001, and the caller
 * repeats the call with other locks (tq_subxact_repeat).
 */
bool
tq_submit_may_move_key(const TqSubmission *sub)
{
	return sub->reference != NULL &&
		   (sub->on_conflict == TQ_CONFLICT_UPDATE ||
			sub->on_conflict == TQ_CONFLICT_MERGE) &&
		   tq_queue_any_ordered();
}

/* Submit a task as taskq_submit(queue, payload) does. */
int64
tq_submit_plain(char *queue_name, Jsonb *payload)
{
	LOCAL_FCINFO(inner, TQ_SUBMIT_COUNT);
	TqSubmission sub = {0};
	TqCall       call;
	int64        task_id = 0;

	InitFunctionCallInfoData(*inner, NULL, TQ_SUBMIT_COUNT, InvalidOid, NULL,
							 NULL);
	for (int i = 0; i < TQ_SUBMIT_COUNT; i++)
		inner->args[i].isnull = true;
	tq_submission_read(inner, &sub, queue_name);
	tq_call_begin(&call, "taskq_submit()");
	tq_submission_resolve(inner, &sub);
	(void) tq_submit_one(&call, &sub, payload, &task_id);
	tq_call_end(&call);
	return task_id;
}

/*
 * Submit one task; return false if there is no id to return (the conflict was
 * skipped).
 */
bool
tq_submit_one(TqCall *call, TqSubmission *sub, Jsonb *payload, int64 *task_id)
{
	if (payload != NULL)
		tq_submission_check_size(sub->queue, "payload", VARSIZE(payload));
	for (;;)
	{
		Holder holder;

		if (insert_task(call, sub, payload, task_id, &holder))
			return true;
		*task_id = holder.task_id;
		switch (sub->on_conflict)
		{
			case TQ_CONFLICT_RETURN:
				return true;
			case TQ_CONFLICT_SKIP:
				return false;
			case TQ_CONFLICT_UPDATE:
			case TQ_CONFLICT_MERGE:
				if (TQ_STATE_IS_LIVE(holder.state))
				{
					/* it may have moved since: use a new snapshot */
					tq_snapshot_renew();
					if (change_holder(call, sub, payload, &holder))
						return true;
					tq_snapshot_renew();
					continue;
				}
				break;
			case TQ_CONFLICT_ERROR:
				break;
		}
		tq_error_reference_exists(sub->reference, holder.task_id,
								  holder.state);
	}
}

/*
 * Submit one task, but return false on a conflict instead of raising an error.
 */
bool
tq_submit_try(TqCall *call, TqSubmission *sub, Jsonb *payload, int64 *task_id,
			  int64 *holder, TqState *holder_state)
{
	Holder other = {0};
	bool   done;

	if (payload != NULL)
		tq_submission_check_size(sub->queue, "payload", VARSIZE(payload));
	done = insert_task(call, sub, payload, task_id, &other);
	*holder = other.task_id;
	*holder_state = other.state;
	return done;
}

/* Does a task have the reference, live or within its window? */
bool
tq_submit_is_held(const TqQueue *queue, const char *reference, int64 *task_id,
				  TqState *state)
{
	Holder holder;
	bool   held = find_holder(queue, CStringGetTextDatum(reference), &holder);

	if (held)
	{
		*task_id = holder.task_id;
		*state = holder.state;
	}
	return held ||
		   tq_submit_is_held_by_finished(queue, reference, 0, task_id, state);
}

/* Insert the task, unless another task has its reference. */
static bool
insert_task(TqCall *call, TqSubmission *sub, Jsonb *payload, int64 *task_id,
			Holder *holder)
{
	TqTask task = {{0}};
	int64  replaced = 0;

	lock_key(call, sub);
	if (sub->insertion != TQ_INSERTION_APPEND)
	{
		if (!make_way(call, sub, holder))
			return false;
		replaced = holder->task_id;
	}
	/*
	 * A call that has locked other rows must not wait for the transaction that
	 * removes the holder, since that transaction may wait for these rows.
	 */
	else if (sub->holder_stays && sub->reference != NULL &&
			 find_holder(sub->queue, CStringGetTextDatum(sub->reference),
						 holder))
		return false;
	/* check first, so that the usual conflict leaves no dead row */
	if (sub->reference != NULL && sub->likely_taken &&
		tq_submit_is_held_by_finished(sub->queue, sub->reference, replaced,
									  &holder->task_id, &holder->state))
		return false;
	tq_submit_fill(sub, payload, &task);
	if (sub->by_hand)
		tq_history_mark(&task, sub->message);
	TQ_DEBUG_POINT("submit_before_insert");
	if (!tq_state_submit(
			call, sub->queue, &task,
			sub->suspended ? TQ_STATE_SUSPENDED : TQ_STATE_PENDING,
			sub->reference != NULL, &holder->task_id, &holder->state))
	{
		refuse_late(sub);
		/* remove the parts of the row that was not written */
		if (task.i.large != 0)
			tq_large_remove_all(task.f.task_id);
		return false;
	}
	if (sub->reference != NULL)
	{
		TQ_DEBUG_POINT("submit_after_insert");
		CommandCounterIncrement();
		if (tq_submit_is_held_by_finished(sub->queue, sub->reference, replaced,
										  &holder->task_id, &holder->state))
		{
			refuse_late(sub);
			if (!tq_state_remove(call, sub->queue, &task))
				elog(ERROR, "could not remove task just inserted");
			tq_metric_note_count(task.f.queue_id, TQ_METRIC_SUBMITTED, -1);
			return false;
		}
	}
	/* checked only now, since max_depth refuses only new tasks */
	if (!sub->any_depth)
		tq_limit_check_depth(sub->queue);
	*task_id = task.f.task_id;
	return true;
}

/*
 * Raise 40001 if the reference was taken after other tasks of the key had been
 * moved out of the way, and the caller does not want an error for the
 * conflict.
 */
static void
refuse_late(const TqSubmission *sub)
{
	if (sub->insertion != TQ_INSERTION_APPEND &&
		sub->on_conflict != TQ_CONFLICT_ERROR)
		tq_error_serialization();
}

/*
 * Lock the key before the id is assigned, so that ids within the key rise in
 * the order in which sessions got its lock.  Also lock the key of a holder
 * that will be changed.
 */
static void
lock_key(TqCall *call, const TqSubmission *sub)
{
	TqKeyName names[2];
	int       count = 0;
	bool      ordered;

	if (sub->key == NULL &&
		(sub->reference == NULL || !tq_queue_any_ordered()))
		return;
	ordered = tq_key_is_ordered(sub->queue);
	if (sub->key != NULL && (ordered || sub->insertion != TQ_INSERTION_APPEND))
		names[count++].key = cstring_to_text(sub->key);
	if (ordered && tq_submit_may_move_key(sub))
	{
		Holder holder;

		if (find_holder(sub->queue, CStringGetTextDatum(sub->reference),
						&holder) &&
			holder.key != NULL)
			names[count++].key = holder.key;
	}
	for (int i = 0; i < count; i++)
		names[i].queue_id = sub->queue->queue_id;
	tq_key_lock_names(call, names, count);
	if (tq_submit_may_move_key(sub))
		tq_key_complete(call);
}

/* Find the live task that has the reference. */
static bool
find_holder(const TqQueue *queue, Datum reference, Holder *holder)
{
	Datum args[2] = {Int32GetDatum(queue->queue_id), reference};
	bool  found;
	TqSpi spi;

	memset(holder, 0, sizeof(*holder));
	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_holder, args, NULL, 1) > 0;
	if (found)
	{
		char *key = tq_spi_text(&spi, 0, 3);

		holder->task_id = tq_spi_int8(0, 1, 0);
		holder->state = (TqState) tq_spi_int4(0, 2, 0);
		if (key != NULL)
		{
			MemoryContext mine = MemoryContextSwitchTo(spi.caller);

			holder->key = cstring_to_text(key);
			MemoryContextSwitchTo(mine);
		}
	}
	tq_spi_leave(&spi);
	return found;
}

/* Does another live task have the reference of a finished one? */
bool
tq_submit_is_taken(const TqQueue *queue, const TqTask *task)
{
	Holder holder;

	return is_taken(queue, task, &holder);
}

/*
 * Raise TQ006 in that case, also if an open transaction changes or finishes
 * the other task: a list that waited for it could have rows for which that
 * transaction waits.
 */
void
tq_submit_refuse_taken(const TqQueue *queue, const TqTask *task)
{
	Holder holder;

	if (is_taken(queue, task, &holder))
		tq_error_reference_exists(
			TextDatumGetCString(task->value[TQ_COL_REFERENCE]), holder.task_id,
			holder.state);
}

static bool
is_taken(const TqQueue *queue, const TqTask *task, Holder *holder)
{
	return !task->isnull[TQ_COL_REFERENCE] &&
		   find_holder(queue, task->value[TQ_COL_REFERENCE], holder);
}

/*
 * Move earlier tasks of the key out of the way of the new task.  Sets
 * holder->task_id to the task whose reference the new task takes over, or 0.
 * If another task has the reference, returns false and moves no task.
 */
static bool
make_way(TqCall *call, const TqSubmission *sub, Holder *holder)
{
	Datum key = CStringGetTextDatum(sub->key);
	Datum reference = 0;
	bool  keeps_out = sub->on_conflict != TQ_CONFLICT_ERROR;

	if (sub->reference != NULL)
	{
		reference = CStringGetTextDatum(sub->reference);
		if (keeps_out &&
			tq_submit_is_held_by_finished(sub->queue, sub->reference, 0,
										  &holder->task_id, &holder->state))
			return false;
	}
	return tq_state_hooks.inserting(call, sub->queue, key, sub->insertion,
									reference, keeps_out, &holder->task_id,
									&holder->state);
}

/* Fill in a new task as the caller described it. */
void
tq_submit_fill(const TqSubmission *sub, Jsonb *payload, TqTask *task)
{
	memset(task->isnull, true, sizeof(task->isnull));
	task->f.task_id = sub->task_id != 0 ? sub->task_id : tq_id_next();
	task->i.created_at = tq_clock_wall();
	task->f.version = 1;
	task->f.queue_id = sub->queue->queue_id;
	task->f.submitted_by = sub->role_id;
	if (sub->reference != NULL)
		tq_task_set(task, TQ_COL_REFERENCE,
					CStringGetTextDatum(sub->reference));
	if (sub->suspended)
		task->f.flags |= TQ_FLAG_SUSPENDED;
	if (sub->dead_letter)
		task->f.flags |= TQ_FLAG_DEAD_LETTER;
	replace_settings(sub, payload, task);
}

/*
 * Replace the values of a task by those of a later submit with the same
 * reference.  The result is different work: attempts restart, and the
 * checkpoint is removed.
 */
static void
replace_settings(const TqSubmission *sub, Jsonb *payload, TqTask *task)
{
#define SET_OR_CLEAR(col, given, datum)                                       \
	do                                                                        \
	{                                                                         \
		if (given)                                                            \
			tq_task_set(task, col, datum);                                    \
		else                                                                  \
			tq_task_clear(task, col);                                         \
	} while (0)
#define PUT_OR_DROP(col, given, datum)                                        \
	do                                                                        \
	{                                                                         \
		if (given)                                                            \
			tq_large_put(task, col, datum);                                   \
		else                                                                  \
			tq_large_drop(task, col);                                         \
	} while (0)
	task->f.lane_id = sub->lane_id;
	task->i.run_at = sub->run_at;
	task->f.priority = (int16) sub->priority;
	task->f.max_attempts = sub->max_attempts;
	task->f.attempt = 0;
	task->f.flags &= ~TQ_FLAG_WORKER_DIED;
	task->i.run_as = sub->run_as != 0 ? sub->run_as : sub->role_id;
	SET_OR_CLEAR(TQ_COL_DEADLINE, sub->has_deadline,
				 TimestampTzGetDatum(sub->deadline));
	SET_OR_CLEAR(TQ_COL_KEY, sub->key != NULL, CStringGetTextDatum(sub->key));
	SET_OR_CLEAR(TQ_COL_CORRELATION_ID, sub->correlation_id != NULL,
				 CStringGetTextDatum(sub->correlation_id));
	SET_OR_CLEAR(TQ_COL_TAGS, sub->tags.count > 0,
				 tq_arg_tags_datum(&sub->tags));
	SET_OR_CLEAR(TQ_COL_OPTIONS, sub->options != NULL,
				 JsonbPGetDatum(sub->options));
	PUT_OR_DROP(TQ_COL_PAYLOAD, payload != NULL, JsonbPGetDatum(payload));
	PUT_OR_DROP(TQ_COL_DATA, sub->data != NULL, PointerGetDatum(sub->data));
	PUT_OR_DROP(TQ_COL_HEADERS, sub->headers != NULL,
				JsonbPGetDatum(sub->headers));
	if (!sub->of_step)
		tq_sql_task_decide(sub->queue, task, payload);
#undef SET_OR_CLEAR
#undef PUT_OR_DROP
}

/*
 * on_conflict update and merge.  If the holder waits, it gets the new payload
 * and settings, and the function returns true.  If it is running, it loses its
 * reference, and the function returns false, as it does if the holder has
 * changed in the meantime: the caller then submits the task again.
 */
static bool
change_holder(TqCall *call, TqSubmission *sub, Jsonb *payload,
			  const Holder *holder)
{
	TqTask task;
	Datum  before;

	if (!tq_row_find(call, holder->task_id, &task) ||
		task.isnull[TQ_COL_REFERENCE] ||
		strcmp(TextDatumGetCString(task.value[TQ_COL_REFERENCE]),
			   sub->reference) != 0)
		return false;
	if (task.f.state == TQ_STATE_RUNNING)
	{
		tq_task_clear(&task, TQ_COL_REFERENCE);
		(void) tq_state_touch(call, sub->queue, &task);
		return false;
	}
	if (sub->on_conflict == TQ_CONFLICT_MERGE)
		tq_sql_task_refuse_merge(sub->queue, &task, sub->role_id);
	if (sub->on_conflict == TQ_CONFLICT_MERGE && payload == NULL)
	{
		if (tq_large_get(&task, TQ_COL_PAYLOAD, &before))
			payload = DatumGetJsonbP(before);
	}
	else if (sub->on_conflict == TQ_CONFLICT_MERGE &&
			 tq_large_get(&task, TQ_COL_PAYLOAD, &before))
	{
		payload = DatumGetJsonbP(DirectFunctionCall2(jsonb_concat, before,
													 JsonbPGetDatum(payload)));
		tq_submission_check_size(sub->queue, "payload", VARSIZE(payload));
	}
	replace_settings(sub, payload, &task);
	tq_large_drop(&task, TQ_COL_CHECKPOINT);
	return tq_state_rewrite(call, sub->queue, &task, sub->run_at);
}

/*
 * Does a finished task newer than the one with id replaced have the reference,
 * within its window?  A task that has been replaced has passed its reference
 * on, and so have the tasks before it.
 */
bool
tq_submit_is_held_by_finished(const TqQueue *queue, const char *reference,
							  int64 replaced, int64 *task_id, TqState *state)
{
	TimestampTz now = tq_clock_wall();
	Datum       args[3];
	bool        held = false;
	uint64      rows;
	TqSpi       spi;

	args[0] = Int32GetDatum(queue->queue_id);
	args[1] = CStringGetTextDatum(reference);
	args[2] = Int64GetDatum(replaced);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_window, args, NULL, 0);
	for (uint64 i = 0; i < rows && !held; i++)
	{
		TqOptions options = queue->options;
		bool      isnull;
		Datum     value = tq_spi_get(i, 4, &isnull);

		if (!isnull)
			tq_options_read_task(&options, DatumGetJsonbP(value));
		if (options.reference_window == 0 ||
			(options.reference_window != TQ_FOREVER &&
			 tq_span_after(tq_spi_time(i, 3, 0), options.reference_window) <=
				 now))
			continue;
		*task_id = tq_spi_int8(i, 1, 0);
		*state = (TqState) tq_spi_int4(i, 2, 0);
		held = true;
	}
	tq_spi_leave(&spi);
	return held;
}

/*
 * Submit a copy of a dead task with its contents, on behalf of the original
 * submitter.  No limit of the other queue applies.
 */
void
tq_submit_dead_letter(TqCall *call, const char *queue_name, TqTask *origin,
					  Jsonb *headers)
{
	TqSubmission sub = {0};
	TqTask       task = {{0}};
	Jsonb       *payload = tq_submission_carried(&sub, origin);

	sub.queue = tq_queue_for_submit(queue_name, true);
	sub.priority = sub.queue->options.priority;
	sub.max_attempts = sub.queue->options.max_attempts;
	sub.role_id = origin->f.submitted_by;
	sub.lane_id = tq_lane_of(sub.queue, &sub.tags);
	sub.headers = headers;
	sub.dead_letter = true;
	lock_key(call, &sub);
	tq_submit_fill(&sub, payload, &task);
	task.i.run_as = origin->i.run_as;
	TQ_FAULT_POINT("dead_letter");
	(void) tq_state_submit(call, sub.queue, &task, TQ_STATE_PENDING, false,
						   NULL, NULL);
}

/*
 * Submit the description that tq_submission_again has read.  Raises TQ006 if
 * another task has its reference.
 */
void
tq_submit_again(TqCall *call, TqSubmission *sub, Jsonb *payload)
{
	Holder holder;
	int64  task_id;

	if (!insert_task(call, sub, payload, &task_id, &holder))
		tq_error_reference_exists(sub->reference, holder.task_id,
								  holder.state);
}
