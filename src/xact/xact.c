/*
 * xact.c
 *		Actions at the end of a transaction: the one place for them.
 *
 * While a transaction works, it notes intents: a task is running now, another
 * one has stopped, something becomes due.  They change shared memory when, and
 * only when, the transaction commits; intents of a savepoint that rolls back
 * are dropped.  No error may occur in the callbacks, so they call only
 * functions that cannot fail.  They run after the transaction's locks have
 * been released: a woken session sees all changes, also in its caches, and
 * does not wait for this session.
 *
 * position_note.c notes and publishes what other sessions can claim
 * afterwards.
 *
 * Numbers of live tasks change at commit, too, and so do metrics
 * (metric_note.c).  The reservation of a claim under a limit is undone if its
 * transaction or savepoint rolls back; the reservation of a running task is
 * released by the commit that ends the attempt.  A queue or worker created by
 * a transaction that rolls back leaves no entry behind.
 *
 * A prepared transaction keeps no intents: its end flags running tasks as
 * incomplete and numbers as unknown, and the background worker checks them
 * (tq_xact_prepared_ended, called after COMMIT and ROLLBACK PREPARED), and
 * also entries of dropped objects (engine/leaked_entry.c).  PREPARE is refused
 * if the transaction has bound a worker to its session.  A transaction that
 * has changed rows without updating shared memory, as a restore does, resets
 * the same state at its commit (TQ_NOTE_ROWS_CHANGED), and also the key
 * floors.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "base/array.h"
#include "base/catalog.h"
#include "base/debug.h"
#include "shared/claim_ring.h"
#include "shared/counter.h"
#include "shared/dead_range.h"
#include "shared/heartbeat.h"
#include "shared/notify_flag.h"
#include "shared/rate_bucket.h"
#include "shared/reservation.h"
#include "shared/wake.h"
#include "shared/worker_directory.h"
#include "xact/claim_commit.h"
#include "xact/count_note.h"
#include "xact/metric_note.h"
#include "xact/position_note.h"
#include "xact/xact.h"
#include "xact/xact_mark.h"

typedef enum IntentKind
{
	INTENT_RESERVED,
	INTENT_RUNNING,
	INTENT_STOPPED,
	INTENT_ENDED,
	INTENT_DUE,
	INTENT_KEY_FLOOR,
	INTENT_NOTE
} IntentKind;

typedef struct Intent
{
	IntentKind       kind;
	SubTransactionId subid;
	TqRunning        running; /* of RESERVED, RUNNING, STOPPED; task_id of
							   * ENDED; due_at of DUE */
	int              ended; /* state, of STOPPED, ENDED; 0: live or unknown */
	union
	{
		struct /* of RESERVED */
		{
			int64  taken_at; /* token of a bucket; 0: none taken */
			uint64 queue_epoch;
			uint64 worker_epoch;
		};
		TqKeyFloorFound head; /* of KEY_FLOOR */
		struct                /* of NOTE */
		{
			TqXactNote note;
			int32      id;
		};
	};
} Intent;

/* In the top transaction's memory. */
static Intent *intents = NULL;
static int     intent_count = 0;
static int     intent_room = 0;

/* The transaction has committed, and its intents must be carried out. */
static bool armed = false;

/* This transaction assigned a number or name that sessions keep. */
static bool session_cache_changed = false;

/* Discards them at a rollback. */
static void (*forget_caches)(void) = NULL;

static uint64 epoch = 1;

static Intent *add_intent(IntentKind kind);
static Intent *last_intent(IntentKind kind);
static void    make_room(int more);
static void    carry_out(const Intent *intent);
static void    carry_out_note(TqXactNote note, int32 id);
static void    see_worker(int32 worker_id);
static void    give_back(const Intent *intent, bool of_savepoint);
static void    forget_made(const Intent *intent);
static void    forget_worker_counts(void);
static void    wake_for_room(const TqRunning *claim);
static void    forget_all(void);
static void    forget_numbers(void);
static void    at_end(XactEvent event, void *arg);
static void    at_release(ResourceReleasePhase phase, bool is_commit,
						  bool is_top_level, void *arg);
static void    at_sub_end(SubXactEvent event, SubTransactionId mine,
						  SubTransactionId parent, void *arg);

void
tq_xact_init(void)
{
	RegisterXactCallback(at_end, NULL);
	RegisterSubXactCallback(at_sub_end, NULL);
	RegisterResourceReleaseCallback(at_release, NULL);
}

/*
 * Called before a change of a task: notes made after the change must not fail,
 * so memory for them is allocated now.
 */
void
tq_xact_begin(void)
{
	tq_xact_mark_enter();
	make_room(8);
	tq_count_note_begin();
}

/*
 * The number of running tasks of the queue or worker that this transaction
 * ends.
 */
int
tq_xact_stopped_of(TqOwner owner, int32 id)
{
	int count = 0;

	for (int i = 0; i < intent_count; i++)
	{
		if (intents[i].kind == INTENT_STOPPED &&
			(owner == TQ_OWNER_QUEUE ? intents[i].running.queue_id
									 : intents[i].running.worker_id) == id)
			count++;
	}
	return count;
}

/* A claim was reserved, after tq_xact_begin: the claim follows. */
void
tq_xact_reserved(const TqRunning *claim, int64 taken_at, uint64 queue_epoch,
				 uint64 worker_epoch)
{
	Intent *intent = add_intent(INTENT_RESERVED);

	intent->running = *claim;
	intent->taken_at = taken_at;
	intent->queue_epoch = queue_epoch;
	intent->worker_epoch = worker_epoch;
}

/* The claim reserved last was not made. */
void
tq_xact_not_claimed(void)
{
	Assert(intent_count > 0 &&
		   intents[intent_count - 1].kind == INTENT_RESERVED);
	give_back(&intents[--intent_count], true);
}

/* A task was claimed, or the end of its claim has moved. */
void
tq_xact_running(const TqRunning *running)
{
	add_intent(INTENT_RUNNING)->running = *running;
}

/* A task is no longer running, as of that version of its row. */
void
tq_xact_stopped(int64 task_id, int64 version, int32 queue_id, int32 worker_id)
{
	Intent *intent = add_intent(INTENT_STOPPED);

	intent->running.task_id = task_id;
	intent->running.version = version;
	intent->running.queue_id = queue_id;
	intent->running.worker_id = worker_id;
	intent->ended = 0;
}

/*
 * A task has finished, or was removed (0): wake the sessions that await it.
 * If it was running, tq_xact_stopped comes before.  The same for a workflow
 * instance that has ended: its id is from the same sequence, and its state is
 * one of instances.
 */
void
tq_xact_ended(int64 id, int state)
{
	Intent *last = last_intent(INTENT_STOPPED);

	if (last == NULL || last->running.task_id != id)
	{
		last = add_intent(INTENT_ENDED);
		last->running.task_id = id;
	}
	last->ended = state;
}

/* The first position of a key queue, after the changes of this transaction. */
void
tq_xact_key_floor(const TqKeyFloorFound *found)
{
	Intent *last = last_intent(INTENT_KEY_FLOOR);

	if (last == NULL || last->head.of.hash != found->of.hash ||
		last->head.of.queue_id != found->of.queue_id)
		last = add_intent(INTENT_KEY_FLOOR);
	last->head = *found;
}

/*
 * Returns a number that changes at the transaction's end, and when a savepoint
 * is rolled back: values read from own changes, or under own locks, may then
 * be obsolete.
 */
uint64
tq_xact_epoch(void)
{
	return epoch;
}

/* A task or pause becomes due at this time of the dispatch clock. */
void
tq_xact_due(TimestampTz at)
{
	add_intent(INTENT_DUE)->running.due_at = at;
}

/* A repeated note is stored once, since many tasks of a queue make it. */
void
tq_xact_note(TqXactNote note, int32 id)
{
	Intent *last = last_intent(INTENT_NOTE);

	if (last != NULL && last->note == note && last->id == id)
		return;
	last = add_intent(INTENT_NOTE);
	last->note = note;
	last->id = id;
}

/* Set at load; called where nothing may fail. */
void
tq_xact_on_rollback(void (*forget)(void))
{
	forget_caches = forget;
}

/* A rollback of this transaction invalidates caches of the session. */
void
tq_xact_session_cache_changed(void)
{
	session_cache_changed = true;
}

/*
 * After COMMIT PREPARED or ROLLBACK PREPARED of any transaction in this
 * database: it may have claimed or finished tasks.
 */
void
tq_xact_prepared_ended(void)
{
	tq_dead_range_forget();
	tq_claim_ring_wipe();
	tq_running_flag();
	tq_counter_flag();
	tq_running_ask_duty(TQ_ASK_LEAKED);
	tq_notify_flag_raise_all();
	tq_worker_directory_wake();
	tq_wake_database();
}

static Intent *
add_intent(IntentKind kind)
{
	Intent *intent;

	make_room(1);
	intent = &intents[intent_count++];
	intent->kind = kind;
	intent->subid = GetCurrentSubTransactionId();
	return intent;
}

/* The last intent, if it is of that kind and of this savepoint. */
static Intent *
last_intent(IntentKind kind)
{
	Intent *last = intent_count > 0 ? &intents[intent_count - 1] : NULL;

	if (last == NULL || last->kind != kind ||
		last->subid != GetCurrentSubTransactionId())
		return NULL;
	return last;
}

/* Make room for more intents, at most TQ_ARRAY_FIRST. */
static void
make_room(int more)
{
	TQ_ARRAY_RESERVE(intents, intent_count + more - 1, intent_room,
					 TopTransactionContext);
}

static void
carry_out(const Intent *intent)
{
	switch (intent->kind)
	{
		case INTENT_RESERVED:
			break;
		case INTENT_RUNNING:
			tq_running_put(&intent->running);
			if (intent->running.due_at != DT_NOEND)
				tq_worker_directory_due(intent->running.due_at);
			else
				see_worker(intent->running.worker_id);
			break;
		case INTENT_STOPPED:
			TQ_DEBUG_POINT_COMMITTED("stop_untold");
			tq_running_remove(intent->running.task_id,
							  intent->running.version);
			tq_reservation_release(TQ_OWNER_QUEUE, intent->running.queue_id,
								   intent->running.task_id,
								   tq_xact_mark_instance());
			if (intent->running.worker_id != 0)
				tq_reservation_release(
					TQ_OWNER_WORKER, intent->running.worker_id,
					intent->running.task_id, tq_xact_mark_instance());
			wake_for_room(&intent->running);
			if (intent->ended != 0)
				tq_wake_task_ended(intent->running.task_id, intent->ended);
			break;
		case INTENT_ENDED:
			tq_wake_task_ended(intent->running.task_id, intent->ended);
			break;
		case INTENT_DUE:
			tq_worker_directory_due(intent->running.due_at);
			break;
		case INTENT_KEY_FLOOR:
			tq_key_floor_put(&intent->head);
			break;
		case INTENT_NOTE:
			carry_out_note(intent->note, intent->id);
			break;
	}
}

static void
carry_out_note(TqXactNote note, int32 id)
{
	switch (note)
	{
		case TQ_NOTE_BOUND:
		case TQ_NOTE_QUEUE_MADE:
		case TQ_NOTE_WORKER_MADE:
		case TQ_NOTE_WORKER_COUNT_UNKNOWN:
			break;
		case TQ_NOTE_QUEUE_GONE:
			tq_counter_forget(TQ_OWNER_QUEUE, id);
			tq_metric_forget(id);
			/* also those that await one of its tasks */
			tq_wake_database();
			break;
		case TQ_NOTE_STOP_TASKS:
			tq_heartbeat_ask_to_stop(id);
			break;
		case TQ_NOTE_ORPHANS:
			tq_running_ask_duty(TQ_ASK_WORKERS);
			tq_worker_directory_wake();
			break;
		case TQ_NOTE_RESCAN:
			tq_running_flag();
			tq_worker_directory_wake();
			break;
		case TQ_NOTE_ROWS_CHANGED:
			tq_key_floor_wipe();
			tq_xact_prepared_ended();
			break;
		case TQ_NOTE_WORKER_GONE:
			tq_heartbeat_remove(id);
			tq_counter_forget(TQ_OWNER_WORKER, id);
			tq_wake_worker(id, false);
			break;
		case TQ_NOTE_VISIT:
			tq_worker_directory_visit(MyDatabaseId);
			break;
		case TQ_NOTE_WAKE_QUEUE:
			if (id == 0)
			{
				tq_wake_database();
				tq_notify_flag_raise_all();
			}
			else
			{
				tq_wake_queue(id);
				tq_notify_flag_raise(id);
			}
			break;
		case TQ_NOTE_WAKE_WORKER:
			tq_wake_worker(id, false);
			break;
		case TQ_NOTE_WAKE_MADE:
			tq_wake_made();
			/* the queue may have the option notify */
			tq_worker_directory_wake();
			break;
		case TQ_NOTE_NOTIFY:
			tq_notify_flag_raise(id);
			break;
	}
}

/*
 * After a claim without its own end was added to the running-task table.  A
 * worker that lost its heartbeat entry before may be dead, and the reclaim of
 * its tasks may have missed this one; if it loses the entry later the reclaim
 * handles this task.
 */
static void
see_worker(int32 worker_id)
{
	int64 last_seen;

	if (worker_id == 0 || tq_heartbeat_find(worker_id, &last_seen))
		return;
	tq_running_ask_duty(TQ_ASK_WORKERS);
	tq_worker_directory_wake();
}

/* Undo the reservations of a claim that has been rolled back. */
static void
give_back(const Intent *intent, bool of_savepoint)
{
	const TqRunning *claim = &intent->running;

	if (intent->taken_at != 0)
		tq_rate_bucket_put_back(claim->queue_id, intent->taken_at);
	if (of_savepoint)
	{
		tq_reservation_undo(TQ_OWNER_QUEUE, claim->queue_id,
							intent->queue_epoch);
		if (claim->worker_id != 0)
			tq_reservation_undo(TQ_OWNER_WORKER, claim->worker_id,
								intent->worker_epoch);
	}
	else
	{
		tq_reservation_release(TQ_OWNER_QUEUE, claim->queue_id, claim->task_id,
							   tq_xact_mark_instance());
		if (claim->worker_id != 0)
			tq_reservation_release(TQ_OWNER_WORKER, claim->worker_id,
								   claim->task_id, tq_xact_mark_instance());
	}
	wake_for_room(claim);
}

/*
 * A queue or worker created by the transaction, which may have been rolled
 * back: remove its entries from shared memory.  If it exists, they are created
 * again.
 */
static void
forget_made(const Intent *intent)
{
	if (intent->kind != INTENT_NOTE)
		return;
	if (intent->note == TQ_NOTE_QUEUE_MADE)
		tq_counter_forget(TQ_OWNER_QUEUE, intent->id);
	else if (intent->note == TQ_NOTE_WORKER_MADE)
	{
		tq_counter_forget(TQ_OWNER_WORKER, intent->id);
		tq_heartbeat_remove(intent->id);
	}
}

/*
 * A task is no longer running: limits of its queue and worker may allow
 * another claim.
 */
static void
wake_for_room(const TqRunning *claim)
{
	tq_wake_room(claim->queue_id, 1);
	if (claim->worker_id != 0)
		tq_wake_worker(claim->worker_id, true);
}

/* The transaction has ended, and everything has been published. */
static void
forget_all(void)
{
	tq_xact_mark_leave();
	intents = NULL;
	intent_count = 0;
	epoch++;
	tq_count_note_forget();
	tq_metric_note_forget();
	tq_position_note_forget();
}

/* Called by PREPARE TRANSACTION, while it can still fail. */
static void
refuse_bound(void)
{
	for (int i = 0; i < intent_count; i++)
	{
		if (intents[i].kind == INTENT_NOTE && intents[i].note == TQ_NOTE_BOUND)
			ereport(
				ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg(
					 "cannot PREPARE a transaction that has bound a worker to its connection"),
				 errhint("Register the worker in a separate transaction.")));
	}
}

/* Called before the commit is visible. */
static void
forget_worker_counts(void)
{
	for (int i = 0; i < intent_count; i++)
	{
		if (intents[i].kind == INTENT_NOTE &&
			intents[i].note == TQ_NOTE_WORKER_COUNT_UNKNOWN)
			tq_reservation_invalidate(TQ_OWNER_WORKER, intents[i].id);
	}
}

/* Forget numbers that this transaction has assigned, and the session keeps. */
static void
forget_numbers(void)
{
	if (!session_cache_changed)
		return;
	forget_caches();
	tq_catalog_forget();
}

static void
at_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
			forget_worker_counts();
			tq_claim_commit_before();
			return;
		case XACT_EVENT_COMMIT:
			tq_claim_commit_after();
			armed = true;
			session_cache_changed = false;
			return;
		case XACT_EVENT_ABORT:
			for (int i = intent_count - 1; i >= 0; i--)
			{
				if (intents[i].kind == INTENT_RESERVED)
					give_back(&intents[i], false);
				forget_made(&intents[i]);
			}
			tq_position_note_abort();
			forget_numbers();
			tq_claim_commit_after();
			break;
		case XACT_EVENT_PREPARE:
			/* another session may roll back, without notice to this one */
			for (int i = 0; i < intent_count; i++)
				forget_made(&intents[i]);
			forget_numbers();
			tq_claim_commit_after();
			break;
		case XACT_EVENT_PRE_PREPARE:
			refuse_bound();
			return;
		default:
			return; /* before the end, or in a parallel worker */
	}
	forget_all();
	session_cache_changed = false;
}

/* The locks of a committed transaction have been released. */
static void
at_release(ResourceReleasePhase phase, bool is_commit, bool is_top_level,
		   void *arg)
{
	if (!armed || phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level)
		return;
	armed = false;
	tq_count_note_commit();
	/* before carry_out, which forgets dropped queues */
	tq_metric_note_commit();
	for (int i = 0; i < intent_count; i++)
		carry_out(&intents[i]);
	tq_position_note_commit();
	forget_all();
}

static void
at_sub_end(SubXactEvent event, SubTransactionId mine, SubTransactionId parent,
		   void *arg)
{
	if (event == SUBXACT_EVENT_COMMIT_SUB)
	{
		for (int i = intent_count - 1; i >= 0 && intents[i].subid >= mine; i--)
			intents[i].subid = parent;
		tq_count_note_sub_commit(mine, parent);
		tq_metric_note_sub_commit(mine, parent);
		tq_position_note_sub_commit(mine, parent);
	}
	else if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		epoch++;
		while (intent_count > 0 && intents[intent_count - 1].subid >= mine)
		{
			intent_count--;
			if (intents[intent_count].kind == INTENT_RESERVED)
				give_back(&intents[intent_count], true);
			forget_made(&intents[intent_count]);
		}
		tq_count_note_sub_abort(mine);
		tq_metric_note_sub_abort(mine);
		tq_position_note_sub_abort(mine);
		forget_numbers();
	}
}
