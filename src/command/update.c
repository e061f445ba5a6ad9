/*
 * update.c
 *		taskq_update_task: change the settings of a waiting task.
 *
 * The members have the names of taskq_submit's arguments; null resets a
 * setting to the queue's default or removes it.  Settings that are not named
 * remain, including the task's position among tasks of its priority.  If the
 * queue or the reference changes, the row is removed and inserted again: the
 * reference is tested like that of a new task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/span.h"
#include "cache/lane.h"
#include "cache/role.h"
#include "command/manage.h"
#include "command/submit.h"
#include "command/update.h"
#include "engine/call.h"
#include "engine/history.h"
#include "engine/key.h"
#include "engine/limit.h"
#include "engine/sql_task.h"
#include "engine/state.h"
#include "engine/step.h"
#include "store/large.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_update_task);

static void     refuse_members(const TqChanges *changes);
static TqQueue *target_queue(const TqTask *task, const TqChanges *changes);
static void     set_numbers(TqTask *task, const TqQueue *queue,
							const TqChanges *changes);
static void     set_words(TqTask *task, const TqChanges *changes);
static void     set_documents(TqTask *task, const TqQueue *queue,
							  const TqChanges *changes);
static void     set_times(TqTask *task, const TqQueue *queue,
						  const TqChanges *changes, TimestampTz *due_at);
static void put_or_drop(TqTask *task, TqColumn col, bool given, Datum value);

Datum
taskq_update_task(PG_FUNCTION_ARGS)
{
	int64      task_id = tq_arg_int8(fcinfo, 0, "task_id");
	Jsonb     *doc = tq_arg_jsonb(fcinfo, 1);
	bool       has_version = !PG_ARGISNULL(2);
	char      *message = tq_arg_message(fcinfo, 3);
	int64      version = has_version ? PG_GETARG_INT64(2) : 0;
	TqChanges  changes = {0};
	JsonbValue entry;
	TqCall     call;

	if (doc == NULL)
		tq_error_required("changes");
	if (!JB_ROOT_IS_OBJECT(doc))
		tq_error_invalid("changes", "must be a JSON object", NULL);
	entry.type = jbvBinary;
	entry.val.binary.data = &doc->root;
	entry.val.binary.len = VARSIZE_ANY_EXHDR(doc);
	tq_update_read(&entry, "changes", NULL, &changes);
	tq_call_begin(&call, "taskq_update_task()");
	for (tq_queue_lock_insertions();;)
	{
		TqTask      task;
		TqQueue    *queue;
		TimestampTz due_at;

		tq_snapshot_renew();
		tq_manage_find(&call, task_id, &task);
		if (!TQ_STATE_IS_LIVE(task.f.state) ||
			task.f.state == TQ_STATE_RUNNING)
			tq_error_invalid_transition(task_id, (TqState) task.f.state,
										"change");
		if (has_version && version != task.f.version)
			tq_error_version(task_id, version, task.f.version);
		if (!changes.any && message == NULL)
			break;
		if (changes.named[TQ_SUBMIT_QUEUE])
			tq_step_refuse(&task, "move");
		queue = tq_update_apply(&task, &changes, &due_at);
		tq_history_mark(&task, message);
		tq_key_lock_change(&call, &task, queue);
		if (tq_update_write(&call, queue, &task, &changes, due_at, NULL))
			break;
	}
	tq_call_end(&call);
	PG_RETURN_VOID();
}

/*
 * Read an object with the settings of a task that change; the caller has read
 * the other members.
 */
void
tq_update_read(JsonbValue *entry, const char *list, const char *others,
			   TqChanges *changes)
{
	LOCAL_FCINFO(inner, TQ_SUBMIT_COUNT);
	TqEntryKind kind = {list, others,
						1 << TQ_SUBMIT_ON_CONFLICT | 1 << TQ_SUBMIT_INSERTION |
							1 << TQ_SUBMIT_SUSPENDED};

	InitFunctionCallInfoData(*inner, NULL, TQ_SUBMIT_COUNT, InvalidOid, NULL,
							 NULL);
	tq_submission_read_entry(inner, entry, &kind, changes->named);
	refuse_members(changes);
	if (changes->named[TQ_SUBMIT_QUEUE] && inner->args[TQ_SUBMIT_QUEUE].isnull)
		tq_error_required("queue");
	tq_submission_read(inner, &changes->sub, "default");
	changes->payload = tq_arg_jsonb(inner, TQ_SUBMIT_PAYLOAD);
	for (int i = 0; i < TQ_SUBMIT_COUNT; i++)
	{
		changes->null[i] = inner->args[i].isnull;
		changes->any = changes->any || changes->named[i];
	}
}

/*
 * Apply the changes to the task in memory.  Returns its new queue, and sets
 * *due_at to when it is due.
 */
TqQueue *
tq_update_apply(TqTask *task, TqChanges *changes, TimestampTz *due_at)
{
	TqQueue *queue = target_queue(task, changes);

	set_numbers(task, queue, changes);
	set_words(task, changes);
	set_documents(task, queue, changes);
	set_times(task, queue, changes, due_at);
	return queue;
}

/*
 * Refuse members that say how a task is submitted and are not settings of the
 * task.
 */
static void
refuse_members(const TqChanges *changes)
{
	if (changes->named[TQ_SUBMIT_ON_CONFLICT])
		tq_error_invalid("on_conflict", "is not a setting of a task", NULL);
	if (changes->named[TQ_SUBMIT_INSERTION])
		tq_error_invalid("insertion", "is not a setting of a task", NULL);
	if (changes->named[TQ_SUBMIT_SUSPENDED])
		tq_error_invalid("suspended", "is not a setting of a task",
						 "Use taskq_hold() or taskq_retry().");
}

/* Find the new queue of the task; raises TQ003 and 42501 like a submit. */
static TqQueue *
target_queue(const TqTask *task, const TqChanges *changes)
{
	TqQueue *now = tq_queue_by_id(task->f.queue_id);

	if (changes->named[TQ_SUBMIT_QUEUE] &&
		strcmp(changes->sub.queue_name, now->name) != 0)
		return tq_queue_for_submit(changes->sub.queue_name, false);
	return now;
}

static void
set_numbers(TqTask *task, const TqQueue *queue, const TqChanges *changes)
{
	if (changes->named[TQ_SUBMIT_PRIORITY])
		task->f.priority = (int16) (changes->null[TQ_SUBMIT_PRIORITY]
										? queue->options.priority
										: changes->sub.priority);
	if (changes->named[TQ_SUBMIT_MAX_ATTEMPTS])
	{
		task->f.max_attempts = changes->null[TQ_SUBMIT_MAX_ATTEMPTS]
								   ? queue->options.max_attempts
								   : changes->sub.max_attempts;
		if (task->f.max_attempts != -1 &&
			task->f.max_attempts <= task->f.attempt)
			tq_error_invalid(
				"max_attempts",
				psprintf("must be more than the %d that were made",
						 task->f.attempt),
				NULL);
	}
}

static void
set_words(TqTask *task, const TqChanges *changes)
{
	const TqSubmission *sub = &changes->sub;

	if (changes->named[TQ_SUBMIT_TAGS])
	{
		tq_task_clear(task, TQ_COL_TAGS);
		if (sub->tags.count > 0)
			tq_task_set(task, TQ_COL_TAGS, tq_arg_tags_datum(&sub->tags));
	}
#define SET_WORD(member, col, word)                                           \
	if (changes->named[member])                                               \
	{                                                                         \
		tq_task_clear(task, col);                                             \
		if ((word) != NULL)                                                   \
			tq_task_set(task, col, CStringGetTextDatum(word));                \
	}
	SET_WORD(TQ_SUBMIT_KEY, TQ_COL_KEY, sub->key);
	SET_WORD(TQ_SUBMIT_REFERENCE, TQ_COL_REFERENCE, sub->reference);
	SET_WORD(TQ_SUBMIT_CORRELATION_ID, TQ_COL_CORRELATION_ID,
			 sub->correlation_id);
#undef SET_WORD
}

/*
 * A role that changes the payload, data or queue of a task becomes its run_as.
 */
static void
set_documents(TqTask *task, const TqQueue *queue, const TqChanges *changes)
{
	const TqSubmission *sub = &changes->sub;

	if (changes->named[TQ_SUBMIT_PAYLOAD])
	{
		if (changes->payload != NULL)
			tq_submission_check_size(queue, "payload",
									 VARSIZE(changes->payload));
		put_or_drop(task, TQ_COL_PAYLOAD, changes->payload != NULL,
					JsonbPGetDatum(changes->payload));
		if (tq_step_is(task))
		{
			task->f.flags &= ~TQ_FLAG_INPUT;
			task->f.flags |= TQ_FLAG_PAYLOAD;
		}
	}
	if (changes->named[TQ_SUBMIT_DATA])
	{
		if (sub->data != NULL)
			tq_submission_check_size(queue, "data",
									 VARSIZE_ANY_EXHDR(sub->data));
		put_or_drop(task, TQ_COL_DATA, sub->data != NULL,
					PointerGetDatum(sub->data));
	}
	if (changes->named[TQ_SUBMIT_HEADERS])
		put_or_drop(task, TQ_COL_HEADERS, sub->headers != NULL,
					JsonbPGetDatum(sub->headers));
	if (changes->named[TQ_SUBMIT_PAYLOAD] || changes->named[TQ_SUBMIT_DATA] ||
		task->f.queue_id != queue->queue_id)
	{
		Datum payload;
		bool  given = tq_large_get(task, TQ_COL_PAYLOAD, &payload);

		task->i.run_as = tq_role_intern(GetUserId());
		tq_sql_task_decide(queue, task,
						   given ? DatumGetJsonbP(payload) : NULL);
	}
}

/*
 * Set when the task is due and its deadline; *due_at is 0 for now.  Option
 * deadline_in counts from this change.
 */
static void
set_times(TqTask *task, const TqQueue *queue, const TqChanges *changes,
		  TimestampTz *due_at)
{
	const TqSubmission *sub = &changes->sub;
	bool                has_deadline = sub->has_deadline;
	TimestampTz         deadline = sub->deadline;
	bool                other_time = changes->named[TQ_SUBMIT_RUN_AT] ||
					  changes->named[TQ_SUBMIT_DELAY];

	*due_at = other_time ? sub->run_at : task->i.run_at;
	if (changes->named[TQ_SUBMIT_OPTIONS])
	{
		TqOptions own = queue->options;

		tq_task_clear(task, TQ_COL_OPTIONS);
		if (sub->options != NULL)
		{
			tq_options_read_task(&own, sub->options);
			tq_task_set(task, TQ_COL_OPTIONS, JsonbPGetDatum(sub->options));
		}
		if (sub->options != NULL && own.deadline_in > 0)
		{
			if (has_deadline)
				tq_error_invalid("deadline",
								 "cannot be combined with option deadline_in",
								 NULL);
			has_deadline = true;
			deadline = tq_span_after(tq_clock_wall(), own.deadline_in);
		}
	}
	if (changes->named[TQ_SUBMIT_DEADLINE])
		tq_task_clear(task, TQ_COL_DEADLINE);
	if (has_deadline)
		tq_task_set(task, TQ_COL_DEADLINE, TimestampTzGetDatum(deadline));
	if ((has_deadline || other_time) &&
		TQ_TASK_TIME(task, TQ_COL_DEADLINE, DT_NOEND) < *due_at)
		tq_error_invalid("deadline", "is before run_at", NULL);
}

static void
put_or_drop(TqTask *task, TqColumn col, bool given, Datum value)
{
	if (given)
		tq_large_put(task, col, value);
	else
		tq_large_drop(task, col);
}

/*
 * Write a waiting task that tq_update_apply has changed; return false if the
 * row has changed since it was read.  If another task has the reference that
 * the task gets or keeps, *taken is set to that reference and the caller must
 * end the transaction; if taken is NULL, raise TQ006 instead.
 */
bool
tq_update_write(TqCall *call, TqQueue *queue, TqTask *task,
				const TqChanges *changes, TimestampTz due_at, char **taken)
{
	bool    moves = task->f.queue_id != queue->queue_id;
	TqTags  tags = {0};
	char   *reference = NULL;
	int64   holder = 0;
	TqState state;

	if (moves || changes->named[TQ_SUBMIT_TAGS])
	{
		if (!task->isnull[TQ_COL_TAGS])
			tq_arg_tags_read(task->value[TQ_COL_TAGS], &tags);
		task->f.lane_id = tq_lane_of(queue, &tags);
	}
	if (!moves && !changes->named[TQ_SUBMIT_REFERENCE])
		return tq_state_rewrite(call, queue, task, due_at);

	if (!task->isnull[TQ_COL_REFERENCE])
		reference = TextDatumGetCString(task->value[TQ_COL_REFERENCE]);
	if (!tq_state_relocate(call, queue, task, due_at, &holder, &state))
		return false;
	if (reference != NULL && holder == 0)
	{
		CommandCounterIncrement();
		(void) tq_submit_is_held_by_finished(queue, reference, 0, &holder,
											 &state);
	}
	if (holder != 0 && taken == NULL)
		tq_error_reference_exists(reference, holder, state);
	if (holder != 0)
		*taken = reference;
	else if (moves)
		tq_limit_check_depth(queue);
	return true;
}
