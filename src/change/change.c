/*
 * change.c
 *		taskq_change: one atomic change of several tasks and documents.
 *
 * It changes everything or nothing, and reports all problems in one error.
 * The order is:
 *
 * 1. All entries are read (change_entry.c).
 * 2. Keys, references, rows of tasks and documents are locked (change_lock.c),
 *    so that what is tested stays valid until the transaction ends.
 * 3. Problems are collected from rows that no other session can change now.
 *    If there are any, the call ends with TQ010 and all problems
 *    (change_problem.c).
 * 4.  Deletes are made, then updates without a lease, which make room, then
 *   updates with a lease, each in id order; then adds in the given order, then
 *   documents.
 *
 * A task is owned by the worker that holds it, until the claim ends.  A lease
 * turns an update or an add into a claim: it counts as an attempt, gets a
 * token, and is subject to the limits.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "fmgr.h"
#include "utils/memutils.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/span.h"
#include "base/srf.h"
#include "cache/role.h"
#include "change/change.h"
#include "change/change_entry.h"
#include "change/change_lock.h"
#include "change/change_problem.h"
#include "change/change_set.h"
#include "change/document.h"
#include "command/submit.h"
#include "engine/call.h"
#include "engine/change_log.h"
#include "engine/dispatch_task.h"
#include "engine/failure.h"
#include "engine/history.h"
#include "engine/state.h"
#include "engine/step.h"
#include "query/task_info.h"
#include "store/row.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_change);

static void     find_misuse(TqChange *change);
static void     check_row(TqChange *change, TqEntry *entry);
static bool     is_owned_by_other(const TqChange *change, const TqTask *task);
static bool     is_ours(const TqChange *change, const TqTask *task);
static void     find_collisions(TqChange *change);
static void     find_collision(TqChange *change, TqEntry *entry);
static bool     gives_way(const TqChange *change, const TqEntry *entry,
						  int64 holder);
static void     find_lost(TqChange *change, TqEntry *entry);
static void     delete_task(TqChange *change, TqEntry *entry);
static void     update_without_lease(TqChange *change, TqEntry *entry);
static void     update_with_lease(TqChange *change, TqEntry *entry);
static void     update_task(TqChange *change, const TqEntry *entry);
static bool     release(TqChange *change, int64 task_id);
static void     own(TqChange *change, const TqEntry *entry);
static void     add_task(TqChange *change, TqEntry *entry);
static void     mark(const TqChange *change, TqTask *task);
static void     log_change(const TqChange *change);
static TqQueue *reread(TqChange *change, int64 task_id, TqTask *task);
static void     tell(TqChange *change, ReturnSetInfo *result);
static int      compare_references(const void *a, const void *b);

Datum
taskq_change(PG_FUNCTION_ARGS)
{
	TqCall   call;
	TqChange change = {0};
	Jsonb   *lists[TQ_PARTS];

	tq_srf_begin(fcinfo);
	tq_change_begin(&change, &call, tq_arg_name(fcinfo, 0, "worker", NULL));
	for (int part = 0; part < TQ_PARTS; part++)
	{
		lists[part] = tq_arg_jsonb(fcinfo, 1 + part);
		if (lists[part] == NULL)
			tq_error_required(tq_change_part_name((TqPart) part));
	}
	change.reason = tq_arg_message(fcinfo, 9);
	tq_change_read(&change, lists);
	tq_call_begin(&call, "taskq_change()");
	tq_queue_lock_insertions();
	tq_worker_if_registered(change.worker, &change.who);
	tq_change_sort(&change);
	find_misuse(&change);
	tq_change_lock_all(&change);
	tq_snapshot_renew();
	tq_change_check(&change, true);
	find_collisions(&change);
	tq_document_check(&change);
	tq_change_end_if_any(&change);
	TQ_DEBUG_POINT("change_decided");
	if (change.takes && change.who.worker_id == 0)
		tq_worker_for_claim(change.worker, NULL, &change.who);
	tq_change_each(&change, change.by_id, change.by_id_count, delete_task);
	tq_change_each(&change, change.by_id, change.by_id_count,
				   update_without_lease);
	tq_change_each(&change, change.by_id, change.by_id_count,
				   update_with_lease);
	tq_change_each(&change, change.adds, change.add_count, add_task);
	tq_snapshot_renew();
	tq_change_each(&change, change.by_id, change.by_id_count, find_lost);
	tq_document_apply(&change);
	/* limits may have been reached, and names taken, in the meantime */
	tq_change_end_if_any(&change);
	if (change.reason != NULL)
		log_change(&change);
	tq_snapshot_renew();
	tell(&change, (ReturnSetInfo *) fcinfo->resultinfo);
	tq_call_end(&call);
	return (Datum) 0;
}

/*
 * Record the problems with the tasks, as the call's snapshot sees them.  A
 * task that could not be locked does not exist.
 */
void
tq_change_check(TqChange *change, bool locked)
{
	for (int i = 0; i < change->by_id_count; i++)
		change->by_id[i]->locked |= !locked;
	tq_change_each(change, change->by_id, change->by_id_count, check_row);
}

/* Return a task in its current state. */
void
tq_change_return(TqCall *call, TqInfo *info, int64 task_id,
				 ReturnSetInfo *result)
{
	Datum  values[TQ_SCAN_COLUMNS];
	bool   nulls[TQ_SCAN_COLUMNS];
	TqTask task;

	if (!tq_row_find(call, task_id, &task))
		return;
	tq_task_info_row(info, &task, values, nulls);
	tq_srf_add(result, values, nulls);
}

/* Keep adds in the given order, and sort the other entries by id. */
void
tq_change_sort(TqChange *change)
{
	Size size = sizeof(TqEntry *) * (change->count + 1);

	change->adds = palloc_extended(size, MCXT_ALLOC_HUGE);
	change->by_id = palloc_extended(size, MCXT_ALLOC_HUGE);
	for (int i = 0; i < change->count; i++)
	{
		TqEntry *entry = &change->entries[i];

		change->takes = change->takes ||
						(entry->doc == NULL && entry->lease > 0);
		if (entry->part == TQ_PART_ADDS)
			change->adds[change->add_count++] = entry;
		else if (entry->doc == NULL)
			change->by_id[change->by_id_count++] = entry;
	}
	qsort(change->by_id, change->by_id_count, sizeof(TqEntry *),
		  tq_change_compare_ids);
}

/* Find misuse: an empty change, or one task twice. */
static void
find_misuse(TqChange *change)
{
	bool any = false;

	for (int i = 0; i < change->count; i++)
		any = any || (change->entries[i].part != TQ_PART_DEPENDS &&
					  change->entries[i].part != TQ_PART_DOC_DEPENDS);
	if (!any)
		tq_change_problem(change, TQ_PROBLEM_BUGS, "\"the change is empty\"");
	for (int i = 1; i < change->by_id_count; i++)
	{
		if (change->by_id[i - 1]->id == change->by_id[i]->id)
			tq_change_twice(change, "task", change->by_id[i - 1],
							change->by_id[i]);
	}
}

/* Does the task exist in that version, and may it be changed? */
static void
check_row(TqChange *change, TqEntry *entry)
{
	static const TqChangeProblem missing[] = {
		[TQ_PART_UPDATES] = TQ_PROBLEM_CHANGES,
		[TQ_PART_DELETES] = TQ_PROBLEM_DELETES,
		[TQ_PART_DEPENDS] = TQ_PROBLEM_DEPENDS};
	TqTask   task;
	TqQueue *queue = NULL;
	int      rights = 0;

	if (entry->part == TQ_PART_MAKES_WAY)
		return;
	if (entry->locked && tq_row_find(change->call, entry->id, &task))
	{
		queue = tq_queue_by_id(task.f.queue_id);
		rights = queue == NULL ? 0 : tq_role_rights(queue);
	}
	if (rights == 0 ||
		(entry->has_version && entry->version != task.f.version))
	{
		tq_change_problem(change, missing[entry->part], INT64_FORMAT,
						  entry->id);
		return;
	}
	if ((rights & TQ_RIGHT_WORK) == 0)
		tq_error_task_right(entry->id, TQ_RIGHT_WORK);
	if (entry->part == TQ_PART_DEPENDS)
		return;
	if (is_owned_by_other(change, &task))
		tq_change_problem(change, TQ_PROBLEM_OWNED, INT64_FORMAT, entry->id);
	else if (entry->part == TQ_PART_UPDATES && entry->lease > 0 &&
			 task.f.state != TQ_STATE_PENDING &&
			 task.f.state != TQ_STATE_RUNNING)
		tq_change_bug(change, entry,
					  psprintf("has a lease, and its task is %s",
							   tq_state_name((TqState) task.f.state)));
}

/* Does another worker hold the task, and its claim has not ended? */
static bool
is_owned_by_other(const TqChange *change, const TqTask *task)
{
	return task->f.state == TQ_STATE_RUNNING &&
		   task->f.lease_until > tq_clock_dispatch() && !is_ours(change, task);
}

static bool
is_ours(const TqChange *change, const TqTask *task)
{
	char *name;

	if (task->f.state != TQ_STATE_RUNNING || task->f.worker_id == 0)
		return false;
	name = tq_worker_name(task->f.worker_id);
	return name != NULL && strcmp(name, change->worker) == 0;
}

/*
 * Find references that a task gets although another task has them, or that two
 * tasks get.
 */
static void
find_collisions(TqChange *change)
{
	TqEntry **named = palloc_extended(sizeof(TqEntry *) * (change->count + 1),
									  MCXT_ALLOC_HUGE);
	int       count = 0;

	/* read the tasks again, now that they are locked */
	tq_change_note_brought(change);
	for (int i = 0; i < change->count; i++)
	{
		TqEntry *entry = &change->entries[i];

		if (!entry->locked)
			entry->brings = NULL;
		if (tq_change_reference(entry) != NULL && !entry->skip_existing &&
			(entry->part == TQ_PART_UPDATES ||
			 !entry->inner->args[TQ_SUBMIT_QUEUE].isnull))
			named[count++] = entry;
	}
	tq_change_each(change, named, count, find_collision);
	qsort(named, count, sizeof(TqEntry *), compare_references);
	for (int i = 1; i < count; i++)
	{
		if (compare_references(&named[i - 1], &named[i]) == 0 &&
			named[i]->part == TQ_PART_ADDS &&
			named[i - 1]->part == TQ_PART_ADDS)
			tq_change_collision(change, TQ_PROBLEM_COLLISIONS,
								named[i]->sub.reference);
	}
	pfree(named);
}

static void
find_collision(TqChange *change, TqEntry *entry)
{
	const TqSubmission *sub =
		entry->part == TQ_PART_ADDS ? &entry->sub : &entry->changes->sub;
	TqQueue *queue = NULL;
	int64    holder;
	TqState  state;
	char    *reference = tq_change_reference(entry);
	TqTask   task;

	if (entry->part == TQ_PART_ADDS || entry->changes->named[TQ_SUBMIT_QUEUE])
		queue = tq_queue_find(sub->queue_name);
	else if (entry->locked && tq_row_find(change->call, entry->id, &task))
		queue = tq_queue_by_id(task.f.queue_id);
	/*
	 * earlier tasks of the key make way first, and the reference is tested
	 * then
	 */
	if (entry->part == TQ_PART_ADDS && sub->insertion != TQ_INSERTION_APPEND)
		return;
	if (queue == NULL || (tq_role_rights(queue) & TQ_RIGHT_SUBMIT) == 0 ||
		!tq_submit_is_held(queue, reference, &holder, &state) ||
		gives_way(change, entry, holder))
		return;
	if (IsolationUsesXactSnapshot() && TQ_STATE_IS_LIVE(state) &&
		!tq_row_find(change->call, holder, &task))
		tq_error_serialization();
	tq_change_collision(change, TQ_PROBLEM_COLLISIONS, reference);
}

/*
 * Does this change take the reference from its holder before it is given?
 * Deletes come before updates, and updates before adds.
 */
static bool
gives_way(const TqChange *change, const TqEntry *entry, int64 holder)
{
	const TqEntry *other =
		tq_change_find(change->by_id, change->by_id_count, holder);

	if (other == NULL)
		return false;
	if (other == entry || other->part == TQ_PART_DELETES)
		return true;
	return entry->part == TQ_PART_ADDS && other->part == TQ_PART_UPDATES &&
		   (other->changes->named[TQ_SUBMIT_QUEUE] ||
			(other->changes->named[TQ_SUBMIT_REFERENCE] &&
			 (other->changes->sub.reference == NULL ||
			  strcmp(other->changes->sub.reference, entry->sub.reference) !=
				  0)));
}

/* An added task must not have removed what the change depends on. */
static void
find_lost(TqChange *change, TqEntry *entry)
{
	TqTask task;

	if (entry->part == TQ_PART_DEPENDS &&
		!tq_row_find(change->call, entry->id, &task))
		tq_change_problem(change, TQ_PROBLEM_DEPENDS, INT64_FORMAT, entry->id);
}

/* If its owner deletes it, it is done; otherwise it is cancelled. */
static void
delete_task(TqChange *change, TqEntry *entry)
{
	TqTask   task;
	TqMove   move = {0};
	TqQueue *queue;

	if (entry->part != TQ_PART_DELETES)
		return;
	queue = reread(change, entry->id, &task);
	tq_step_refuse(&task, "change");
	if (is_ours(change, &task))
	{
		move.to = TQ_STATE_DONE;
		move.wanted = "complete";
	}
	else
	{
		move.to = TQ_STATE_CANCELLED;
		move.reason = TQ_REASON_DELETED;
		move.wanted = "delete";
	}
	mark(change, &task);
	if (!tq_state_enter(change->call, queue, &task, &move))
		tq_error_serialization();
}

static void
update_without_lease(TqChange *change, TqEntry *entry)
{
	if (entry->part == TQ_PART_UPDATES && entry->lease == 0)
		update_task(change, entry);
}

static void
update_with_lease(TqChange *change, TqEntry *entry)
{
	if (entry->part == TQ_PART_UPDATES && entry->lease > 0)
		update_task(change, entry);
}

/*
 * A task that this worker holds and keeps stays claimed, unless it moves to
 * another position in a queue.  All other tasks return to their queue first.
 */
static void
update_task(TqChange *change, const TqEntry *entry)
{
	TqChanges  *changes = entry->changes;
	TimestampTz due_at;
	TqTask      task;
	TqQueue    *queue = reread(change, entry->id, &task);
	bool        moves = changes->named[TQ_SUBMIT_QUEUE] ||
				 changes->named[TQ_SUBMIT_TAGS] ||
				 changes->named[TQ_SUBMIT_KEY] ||
				 changes->named[TQ_SUBMIT_PRIORITY] ||
				 changes->named[TQ_SUBMIT_REFERENCE];
	bool  released = false;
	char *taken = NULL;

	tq_step_refuse(&task, "change");
	if (entry->lease > 0 && !moves && is_ours(change, &task))
	{
		(void) tq_update_apply(&task, changes, &due_at);
		task.f.lease_until = tq_span_after(tq_clock_dispatch(), entry->lease);
		mark(change, &task);
		if (!tq_state_touch(change->call, queue, &task))
			tq_error_serialization();
		return;
	}
	if (task.f.state == TQ_STATE_RUNNING)
	{
		if (!release(change, entry->id))
			return;
		released = true;
		queue = reread(change, entry->id, &task);
	}
	if (changes->any || !released)
	{
		queue = tq_update_apply(&task, changes, &due_at);
		mark(change, &task);
		if (!tq_update_write(change->call, queue, &task, changes, due_at,
							 &taken))
			tq_error_serialization();
	}
	if (taken != NULL)
	{
		tq_change_collision(change, TQ_PROBLEM_COLLISIONS, taken);
		return;
	}
	if (entry->lease > 0)
		own(change, entry);
}

/*
 * Return the task to its queue; if its owner does this, as if it had not been
 * claimed.  Returns false if it was asked to stop, and is now cancelled.
 */
static bool
release(TqChange *change, int64 task_id)
{
	TqTask   task;
	TqMove   move = {0};
	TqQueue *queue = reread(change, task_id, &task);
	bool     stop = tq_failure_stop_asked(&task);

	move.to = stop ? TQ_STATE_CANCELLED : TQ_STATE_PENDING;
	move.wanted = "release";
	move.end = TQ_END_RELEASED;
	move.due_at = tq_failure_place(&task);
	/* a claim that has ended counts as an attempt */
	if (is_ours(change, &task))
		task.f.attempt = Max(task.f.attempt - 1, 0);
	mark(change, &task);
	if (!tq_state_enter(change->call, queue, &task, &move))
		tq_error_serialization();
	return !stop;
}

/* Claim a task that is now pending. */
static void
own(TqChange *change, const TqEntry *entry)
{
	TqTask      task;
	TqQueue    *queue = reread(change, entry->id, &task);
	const char *why;

	tq_role_require(queue, TQ_RIGHT_WORK);
	if (!tq_worker_is_current(&change->who))
		tq_worker_for_claim(change->worker, NULL, &change->who);
	if (task.f.state != TQ_STATE_PENDING)
		why =
			psprintf("its task is %s", tq_state_name((TqState) task.f.state));
	else
		why = tq_dispatch_take(change->call, queue, &task, &change->who,
							   entry->lease);
	if (why != NULL)
		tq_change_bug(change, entry, psprintf("has a lease, and %s", why));
}

static void
add_task(TqChange *change, TqEntry *entry)
{
	int64   holder;
	TqState state;

	tq_submission_resolve(entry->inner, &entry->sub);
	entry->sub.holder_stays = true;
	entry->sub.by_hand = change->reason != NULL;
	entry->sub.message = change->reason;
	if (!tq_submit_try(change->call, &entry->sub,
					   tq_arg_jsonb(entry->inner, TQ_SUBMIT_PAYLOAD),
					   &entry->id, &holder, &state))
	{
		entry->id = 0;
		if (!entry->skip_existing)
			tq_change_collision(change, TQ_PROBLEM_COLLISIONS,
								entry->sub.reference);
	}
	else if (entry->lease > 0)
		own(change, entry);
}

/* Programs change tasks as their work; a call with a reason is manual. */
static void
mark(const TqChange *change, TqTask *task)
{
	if (change->reason != NULL)
		tq_history_mark(task, change->reason);
}

/* The documents of the change have no history. */
static void
log_change(const TqChange *change)
{
	StringInfoData detail;
	int            counts[TQ_PARTS] = {0};

	for (int i = 0; i < change->count; i++)
	{
		if (change->entries[i].part < TQ_PARTS)
			counts[change->entries[i].part]++;
	}
	initStringInfo(&detail);
	for (int part = 0; part < TQ_PARTS; part++)
		appendStringInfo(&detail, "%s\"%s\": %d", part == 0 ? "{" : ", ",
						 tq_change_part_name((TqPart) part), counts[part]);
	appendStringInfoChar(&detail, '}');
	tq_change_log_add("change", NULL, change->worker, detail.data,
					  change->reason);
}

/* Read a locked task in its current state. */
static TqQueue *
reread(TqChange *change, int64 task_id, TqTask *task)
{
	TqQueue *queue = NULL;

	tq_snapshot_renew();
	if (tq_row_find(change->call, task_id, task))
		queue = tq_queue_by_id(task->f.queue_id);
	if (queue == NULL)
		tq_error_serialization();
	return queue;
}

/* Return the tasks that were added, then those that were updated. */
static void
tell(TqChange *change, ReturnSetInfo *result)
{
	MemoryContext mine = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(mine, "taskq change", ALLOCSET_DEFAULT_SIZES);
	TqInfo info;

	tq_task_info_begin(&info);
	tq_visibility_open(&info.sight);
	for (int i = 0; i < change->count; i++)
	{
		const TqEntry *entry = &change->entries[i];

		CHECK_FOR_INTERRUPTS();
		if (entry->id == 0 ||
			(entry->part != TQ_PART_ADDS && entry->part != TQ_PART_UPDATES))
			continue;
		MemoryContextSwitchTo(one);
		tq_change_return(change->call, &info, entry->id, result);
		MemoryContextSwitchTo(mine);
		MemoryContextReset(one);
	}
	MemoryContextDelete(one);
}

/* Adds first. */
static int
compare_references(const void *a, const void *b)
{
	const TqEntry *x = *(TqEntry *const *) a;
	const TqEntry *y = *(TqEntry *const *) b;
	int            order = (int) x->part - (int) y->part;

	if (order == 0 && x->part == TQ_PART_ADDS)
		order = strcmp(x->sub.queue_name, y->sub.queue_name);
	return order != 0 ? order
					  : strcmp(tq_change_reference(x), tq_change_reference(y));
}
