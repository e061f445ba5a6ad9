/*
 * instance_lock.c
 *		Instance locks: which calls may change an instance concurrently.
 *
 * Each call that moves steps of an instance locks the instance before it locks
 * a key or a row of the step, and holds the lock until the end of the
 * transaction.  Calls that end steps take the lock in share mode.  Calls whose
 * changes other calls must see as a whole take it exclusively: repairs,
 * cancels and signals and, if a failure holds up other steps
 * (tq_step_rule_stops), failures and choices.  So if one of two calls needs an
 * exclusive lock, one of the calls does not yet hold any lock for which the
 * other could wait; and the edges, rows and signals that a call reads when it
 * ends a step are changed only by other calls that end steps.
 *
 * The end of an instance ends a step of the outer instance, so the outer
 * instance is locked as well.  A call takes all of its locks in the order of
 * the instances' ids, which puts outer instances first.
 *
 * After a wait a call determines again which locks it needs, because it may
 * need an exclusive lock now.  If two calls asked for a stronger lock than
 * they hold, they would wait for each other; so a call first releases the
 * locks that it has taken, and takes all of them again.
 *
 * The lock table has a fixed size.  A transaction that ends steps of very many
 * instances takes, in place of further locks, a single lock in share mode that
 * stands for all instances.  A call that locks an instance exclusively first
 * locks all instances, to exclude such transactions.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "utils/fmgrprotos.h"
#include "utils/jsonb.h"

#include "base/array.h"
#include "base/catalog.h"
#include "base/spi.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/step.h"
#include "engine/step_savepoint.h"
#include "flow/instance/edge.h"
#include "flow/instance/flow.h"
#include "flow/instance/identity.h"
#include "flow/instance/step_rule.h"
#include "flow/run/instance_lock.h"
#include "flow/run/key_preview.h"
#include "store/archive.h"
#include "store/row.h"
#include "store/snapshot.h"

/* Maximum number of instance locks that a transaction takes in share mode. */
#define MAX_SHARED 100

/* Stands for all instances; no instance has this id. */
#define ALL_INSTANCES 0

/* Part of taskq.template in lock tags; 0 stands for the templates. */
#define OF_IDENTITY 1

typedef struct WantedLock
{
	int64 workflow_id;
	bool  alone;
} WantedLock;

/* A lock that a call holds. */
typedef struct Lock
{
	int64    workflow_id;
	LOCKMODE mode;
} Lock;

typedef struct TqHeldLocks
{
	int   count;
	int   room;
	Lock *all;
} TqHeldLocks;

typedef struct WantedLocks
{
	int         count;
	int         room;
	WantedLock *all;
	int         shared;
	bool        any_alone;
	bool        waited;

	TqKeyPreview ahead;
	List        *children;   /* tasks with child instances to be cancelled */
	List        *identities; /* hashes, of identities to be taken again */
} WantedLocks;

static TqStmt stmt_around = {
	"SELECT parent_id FROM taskq.workflow WHERE workflow_id = $1",
	{INT8OID},
	.generic = true};

/* Locks that the transaction has taken in share mode. */
static TransactionId shared_by = InvalidTransactionId;
static int           shared_count = 0;

static bool  is_any(void);
static void  add_locks(TqCall *call, WantedLocks *wanted, const TqFlow *flow,
					   const TqStep *step, TqInstanceLockKind kind);
static bool  goes_far(const TqTemplate *template, const TqStep *step);
static bool  any_join(const TqTemplate *template, const TqStep *step);
static bool  may_end(const TqTemplate *template, const TqStep *step,
					 TqInstanceLockKind kind);
static bool  is_alone(const TqFlow *flow, const TqStep *step,
					  TqInstanceLockKind kind);
static bool  has_failed(int64 workflow_id);
static int64 around(int64 workflow_id);
static void  add_identity(WantedLocks *wanted, const TqFlow *flow);
static void  add(WantedLocks *wanted, int64 workflow_id, bool alone);
static void  add_child(WantedLocks *wanted, int64 task_id);
static void  add_list(TqCall *call, WantedLocks *wanted, const int64 *ids,
					  const int64 *tokens, const TqInstanceLockKind *kinds,
					  int count, int right);
static void  take_all(TqCall *call, WantedLocks *wanted);
static LOCKMODE of_all(const WantedLocks *wanted, bool *too_many);
static void     take_one(TqCall *call, WantedLocks *wanted, int64 workflow_id,
						 LOCKMODE mode);
static bool asks_for_more(const TqHeldLocks *held, const WantedLocks *wanted);
static void release_all(TqHeldLocks *held);
static void merge(WantedLocks *wanted);
static bool lock(WantedLocks *wanted, int64 workflow_id, LOCKMODE mode);
static void lock_identity(WantedLocks *wanted, uint32 hash);
static bool acquire(WantedLocks *wanted, const LOCKTAG *tag, LOCKMODE mode);
static void set_tag(LOCKTAG *tag, int64 workflow_id);
static int  compare_ids(const void *a, const void *b);
static int  compare(const void *a, const void *b);

/*
 * Lock an instance for a move of a step, or for a call that moves no
 * particular step (NULL).  Returns true if the call had to wait, so that rows
 * that it has read may have changed.
 */
bool
tq_instance_lock_acquire(TqCall *call, const TqFlow *flow, const TqStep *step,
						 TqInstanceLockKind kind)
{
	WantedLocks wanted = {0};

	add_locks(call, &wanted, flow, step, kind);
	take_all(call, &wanted);
	pfree(wanted.all);
	return wanted.waited;
}

/*
 * Lock the instances of a list of tasks, before any of the tasks is moved.
 * Tasks are skipped if they are not steps, if current_user does not have the
 * right on their queues (0: not checked), or, if tokens are given, if they are
 * not held under their tokens.
 */
void
tq_instance_lock_acquire_all(TqCall *call, const int64 *ids,
							 const int64              *tokens,
							 const TqInstanceLockKind *kinds, int count,
							 int right)
{
	WantedLocks wanted = {0};
	ListCell   *cell;

	if (!is_any())
		return;
	do
	{
		memset(&wanted, 0, sizeof(wanted));
		/* a new snapshot must see claims that were made since */
		tq_snapshot_renew();
		add_list(call, &wanted, ids, tokens, kinds, count, right);
		take_all(call, &wanted);
	} while (wanted.waited);
	foreach (cell, wanted.children)
		tq_key_preview_note_child(call, *(int64 *) lfirst(cell));
}

static void
add_list(TqCall *call, WantedLocks *wanted, const int64 *ids,
		 const int64 *tokens, const TqInstanceLockKind *kinds, int count,
		 int right)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one = AllocSetContextCreate(caller, "taskq instance locks",
											  ALLOCSET_DEFAULT_SIZES);

	for (int i = 0; i < count; i++)
	{
		TqInstanceLockKind kind = kinds[i];
		TqTask             task;
		TqFlow             flow;
		const TqStep      *step;
		TqQueue           *queue;

		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(one);
		MemoryContextSwitchTo(one);
		if ((tokens == NULL ? tq_archive_find_any(call, ids[i], &task)
							: tq_row_find(call, ids[i], &task)) &&
			tq_step_is(&task) &&
			(tokens == NULL || (task.f.state == TQ_STATE_RUNNING &&
								task.f.token == tokens[i])) &&
			(queue = tq_queue_by_id(task.f.queue_id)) != NULL &&
			(right == 0 || (tq_role_rights(queue) & right) != 0) &&
			(step = tq_flow_step_of(&task, &flow)) != NULL)
		{
			/* also a step whose choice is refused */
			if (kind == TQ_FLOW_LOCK_END && tq_step_chooses(step->type))
				kind = TQ_FLOW_LOCK_FAILURE;
			MemoryContextSwitchTo(caller);
			add_locks(call, wanted, &flow, step, kind);
			if (kind != TQ_FLOW_LOCK_END && step->type == TQ_STEP_WORKFLOW)
				add_child(wanted, ids[i]);
		}
		MemoryContextSwitchTo(caller);
	}
	MemoryContextDelete(one);
}

/* Lock an inner instance, after the outer one. */
void
tq_instance_lock_exclusive(int64 workflow_id)
{
	WantedLocks wanted = {0};

	(void) lock(&wanted, ALL_INSTANCES, RowExclusiveLock);
	(void) lock(&wanted, workflow_id, ExclusiveLock);
}

/* Has a workflow ever been started?  If not, no task is a step. */
static bool
is_any(void)
{
	static uint64 any_in = 0; /* extension in which a workflow was started */
	Relation      rel;
	bool          any;

	if (any_in == tq_catalog_identity())
		return true;
	rel = tq_catalog_open_table(tq_catalog()->workflow, AccessShareLock);
	any = RelationGetNumberOfBlocks(rel) > 0;
	table_close(rel, AccessShareLock);
	if (any)
		any_in = tq_catalog_identity();
	return any;
}

/* Add the locks of the instance and of its outer instances. */
static void
add_locks(TqCall *call, WantedLocks *wanted, const TqFlow *flow,
		  const TqStep *step, TqInstanceLockKind kind)
{
	int64 workflow_id = flow->workflow_id;
	bool  keys = tq_queue_any_ordered();
	bool  alone = is_alone(flow, step, kind);
	bool  ends = flow->depth > 0 && may_end(flow->template, step, kind);

	add(wanted, workflow_id, alone);
	if (kind == TQ_FLOW_LOCK_REPAIR)
		add_identity(wanted, flow);
	if (keys)
		tq_key_preview_note(call, &wanted->ahead, flow->template,
							alone ? NULL : step);
	for (int depth = flow->depth; depth > 0; depth--)
	{
		TqFlow outer;

		/* its step may be the last live step there, and fail */
		if (kind == TQ_FLOW_LOCK_END && has_failed(workflow_id))
		{
			kind = TQ_FLOW_LOCK_FAILURE;
			ends = true;
		}
		workflow_id = around(workflow_id);
		if (workflow_id == 0)
			break;
		alone = kind == TQ_FLOW_LOCK_REPAIR;
		if (ends && tq_flow_read(workflow_id, &outer))
		{
			/* the outer instance may fail, or the engine may choose */
			alone = alone || (tq_step_rule_stops(&outer) &&
							  (kind != TQ_FLOW_LOCK_END ||
							   goes_far(outer.template, NULL)));
			if (kind == TQ_FLOW_LOCK_REPAIR)
				add_identity(wanted, &outer);
			if (keys)
				tq_key_preview_note(call, &wanted->ahead, outer.template,
									NULL);
		}
		add(wanted, workflow_id, alone);
	}
}

/* Does the move need an exclusive lock? */
static bool
is_alone(const TqFlow *flow, const TqStep *step, TqInstanceLockKind kind)
{
	switch (kind)
	{
		case TQ_FLOW_LOCK_END:
			return tq_step_rule_stops(flow) && goes_far(flow->template, step);
		case TQ_FLOW_LOCK_FAILURE:
			/*
			 * cancelling a step that waits for an instance cancels that
			 * instance
			 */
			return tq_step_rule_stops(flow) ||
				   step->type == TQ_STEP_WORKFLOW ||
				   tq_step_rule_ends_batch(flow->template, step);
		case TQ_FLOW_LOCK_ALONE:
		case TQ_FLOW_LOCK_REPAIR:
			break;
	}
	return true;
}

/*
 * May the engine make a choice because the step, or any step (NULL), ends?  Or
 * may the call have begun steps when it waits for another end in the instance?
 */
static bool
goes_far(const TqTemplate *template, const TqStep *step)
{
	bool *behind = step == NULL ? NULL : tq_key_preview_behind(template, step);
	bool  any = step != NULL && tq_step_chooses(step->type);

	for (int i = 0; i < template->step_count && !any; i++)
	{
		const TqStep *one = &template->steps[i];

		any = (behind == NULL || behind[i]) &&
			  (one->branch_count > 0 ||
			   (tq_key_preview_ends_at_once(one) && any_join(template, one)));
	}
	if (behind != NULL)
		pfree(behind);
	return any;
}

/* Does a child of the step also wait for other steps or members? */
static bool
any_join(const TqTemplate *template, const TqStep *step)
{
	if (step->joins.count > 0)
		return true;
	for (int i = 0; i < step->children.count; i++)
	{
		if (step->type == TQ_STEP_BATCH_WORKER ||
			template->steps[step->children.places[i]].parents.count > 1)
			return true;
	}
	return false;
}

/* Can the instance end by this move if no step has failed before? */
static bool
may_end(const TqTemplate *template, const TqStep *step,
		TqInstanceLockKind kind)
{
	bool *behind;
	bool  any = false;

	if (kind != TQ_FLOW_LOCK_END || step == NULL || step->ends ||
		tq_step_chooses(step->type))
		return true;
	behind = tq_key_preview_behind(template, step);
	for (int i = 0; i < template->step_count && !any; i++)
		any = behind[i] && template->steps[i].ends;
	pfree(behind);
	return any;
}

/*
 * Has a step failed that has not been repaired?  Uncommitted failures count.
 */
static bool
has_failed(int64 workflow_id)
{
	TransactionId other;
	TqEdges       edges;
	TqLeft        left;

	tq_edge_begin(&edges);
	left = tq_edge_left(&edges, workflow_id, TQ_EDGE_FAILURE, 0, &other);
	tq_edge_end(&edges);
	return left != TQ_LEFT_NONE;
}

/*
 * Returns the instance whose step waits for this instance, or 0 if there is no
 * outer instance.
 */
static int64
around(int64 workflow_id)
{
	Datum arg = Int64GetDatum(workflow_id);

	return tq_spi_find_id(&stmt_around, &arg);
}

/*
 * Add the identity of an instance that has failed, or that may fail before
 * this call revives it.
 */
static void
add_identity(WantedLocks *wanted, const TqFlow *flow)
{
	MemoryContext mine;
	MemoryContext one;
	Jsonb        *identity;
	int           hash = 0;

	if (flow->state != TQ_FLOW_ERROR && flow->state != TQ_FLOW_LIVE)
		return;
	/* identities may be as large as an input, and there may be many of them */
	one = AllocSetContextCreate(CurrentMemoryContext, "taskq identity",
								ALLOCSET_SMALL_SIZES);
	mine = MemoryContextSwitchTo(one);
	identity = tq_identity_of(flow);
	if (identity != NULL)
		hash = DatumGetInt32(
			DirectFunctionCall1(jsonb_hash, JsonbPGetDatum(identity)));
	MemoryContextSwitchTo(mine);
	if (identity != NULL)
		wanted->identities = lappend_int(wanted->identities, hash);
	MemoryContextDelete(one);
}

static void
add(WantedLocks *wanted, int64 workflow_id, bool alone)
{
	TQ_ARRAY_RESERVE(wanted->all, wanted->count, wanted->room,
					 CurrentMemoryContext);
	wanted->all[wanted->count].workflow_id = workflow_id;
	wanted->all[wanted->count++].alone = alone;
}

static void
add_child(WantedLocks *wanted, int64 task_id)
{
	int64 *one = palloc(sizeof(int64));

	*one = task_id;
	wanted->children = lappend(wanted->children, one);
}

static void
take_all(TqCall *call, WantedLocks *wanted)
{
	TqSteps  *steps = tq_call_steps(call);
	LOCKMODE  mode;
	ListCell *cell;
	bool      too_many;

	merge(wanted);
	if (steps->held != NULL && asks_for_more(steps->held, wanted))
		release_all(steps->held);
	mode = of_all(wanted, &too_many);
	if (mode != NoLock)
		take_one(call, wanted, ALL_INSTANCES, mode);
	for (int i = 0; i < wanted->count; i++)
	{
		const WantedLock *want = &wanted->all[i];

		if (want->alone || !too_many)
			take_one(call, wanted, want->workflow_id,
					 want->alone ? ExclusiveLock : ShareLock);
	}
	list_sort(wanted->identities, list_int_cmp);
	foreach (cell, wanted->identities)
		lock_identity(wanted, (uint32) lfirst_int(cell));
	/* the move has begun, and relies on these locks */
	if (!wanted->waited && steps->held != NULL)
		steps->held->count = 0;
}

/*
 * Returns the lock mode for all instances, and sets *too_many if this lock
 * replaces locks of single instances.
 */
static LOCKMODE
of_all(const WantedLocks *wanted, bool *too_many)
{
	/* a transaction that has taken a lock and moved a step has an xid */
	if (!TransactionIdIsValid(shared_by) ||
		shared_by != GetTopTransactionIdIfAny())
		shared_count = 0;
	shared_by = GetTopTransactionIdIfAny();
	*too_many = shared_count + wanted->shared > MAX_SHARED;
	if (*too_many)
		return wanted->any_alone ? ExclusiveLock : ShareLock;
	return wanted->any_alone ? RowExclusiveLock : NoLock;
}

/*
 * Take a lock until the end of the transaction, or until the call releases it.
 */
static void
take_one(TqCall *call, WantedLocks *wanted, int64 workflow_id, LOCKMODE mode)
{
	TqHeldLocks *held = call->steps->held;

	if (!lock(wanted, workflow_id, mode))
		return;
	shared_count += mode == ShareLock && workflow_id != ALL_INSTANCES;
	if (held == NULL)
		held = call->steps->held =
			MemoryContextAllocZero(call->context, sizeof(TqHeldLocks));
	TQ_ARRAY_RESERVE(held->all, held->count, held->room, call->context);
	held->all[held->count].workflow_id = workflow_id;
	held->all[held->count++].mode = mode;
}

/* Does a lock that is held need another mode now? */
static bool
asks_for_more(const TqHeldLocks *held, const WantedLocks *wanted)
{
	bool     too_many;
	LOCKMODE mode = of_all(wanted, &too_many);

	for (int i = 0; i < held->count; i++)
	{
		const Lock       *one = &held->all[i];
		WantedLock        key = {one->workflow_id};
		const WantedLock *want;

		if (one->workflow_id == ALL_INSTANCES)
		{
			if (mode != NoLock && mode != one->mode)
				return true;
			continue;
		}
		want = bsearch(&key, wanted->all, wanted->count, sizeof(WantedLock),
					   compare_ids);
		if (want != NULL && want->alone && one->mode == ShareLock)
			return true;
	}
	return false;
}

static void
release_all(TqHeldLocks *held)
{
	while (held->count > 0)
	{
		const Lock *one = &held->all[--held->count];
		LOCKTAG     tag;

		set_tag(&tag, one->workflow_id);
		(void) LockRelease(&tag, one->mode, false);
		shared_count -= one->mode == ShareLock &&
						one->workflow_id != ALL_INSTANCES;
	}
}

/*
 * Keep one entry for each instance; if any of its entries is exclusive, keep
 * that one.
 */
static void
merge(WantedLocks *wanted)
{
	int kept = 0;

	if (wanted->count > 1)
		qsort(wanted->all, wanted->count, sizeof(WantedLock), compare);
	for (int i = 0; i < wanted->count; i++)
	{
		if (kept > 0 &&
			wanted->all[kept - 1].workflow_id == wanted->all[i].workflow_id)
			continue;
		wanted->any_alone = wanted->any_alone || wanted->all[i].alone;
		wanted->shared += !wanted->all[i].alone;
		wanted->all[kept++] = wanted->all[i];
	}
	wanted->count = kept;
}

/*
 * Lock until the end of the transaction.  Returns false if the transaction
 * already had the lock.
 */
static bool
lock(WantedLocks *wanted, int64 workflow_id, LOCKMODE mode)
{
	LOCKTAG tag;

	set_tag(&tag, workflow_id);
	return acquire(wanted, &tag, mode);
}

static void
set_tag(LOCKTAG *tag, int64 workflow_id)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, tq_catalog()->workflow,
					   (uint32) workflow_id, (uint16) (workflow_id >> 32));
}

/*
 * Exclude other repairs: two calls with lists may each revive several
 * instances.
 */
static void
lock_identity(WantedLocks *wanted, uint32 hash)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, tq_catalog()->template, hash,
					   OF_IDENTITY);
	(void) acquire(wanted, &tag, ExclusiveLock);
}

static bool
acquire(WantedLocks *wanted, const LOCKTAG *tag, LOCKMODE mode)
{
	LockAcquireResult result = LockAcquire(tag, mode, false, true);

	if (result == LOCKACQUIRE_NOT_AVAIL)
	{
		tq_step_savepoint_check_wait();
		result = LockAcquire(tag, mode, false, false);
		wanted->waited = true;
	}
	return result == LOCKACQUIRE_OK;
}

static int
compare_ids(const void *a, const void *b)
{
	const WantedLock *x = a;
	const WantedLock *y = b;

	return x->workflow_id < y->workflow_id   ? -1
		   : x->workflow_id > y->workflow_id ? 1
											 : 0;
}

/* For the same instance the exclusive lock comes first. */
static int
compare(const void *a, const void *b)
{
	int order = compare_ids(a, b);

	if (order != 0)
		return order;
	return (int) ((const WantedLock *) b)->alone -
		   (int) ((const WantedLock *) a)->alone;
}
