/*
 * instance_lock.c
 *		Who may change an instance at the same moment.
 *
 * Each call that moves steps of an instance locks the instance before it locks
 * a key or a row for that, and holds the lock to the end of the transaction.
 * Ends of steps take it in share mode.  Calls whose work others must not see
 * halfway take it exclusively: repairs, cancels and signals; and, where a
 * failure holds up other steps (tq_step_rule_stops), failures and choices.  So
 * of two calls of which one is exclusive, one has nothing yet that the other
 * could wait for; and ends look at edges, rows and signals that only other
 * ends are changing.
 *
 * The end of an instance ends a step of the instance around it, so that is
 * locked as well.  A call takes all of its locks in the order of the
 * instances' numbers, in which outer ones come first.
 *
 * A call that has waited looks again: it may need an exclusive lock by now.
 * Two calls that both ask for a stronger lock than they hold would wait for
 * each other: so a call releases the locks that it has taken, and takes all of
 * them again.
 *
 * The lock table has a fixed size.  A transaction that ends steps of very many
 * instances shares one lock, that of all instances, instead of those of the
 * rest.  A call that takes the lock of an instance exclusively locks that of
 * all instances before, to exclude such transactions.
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

/* A transaction takes so many locks in share mode. */
#define MAX_SHARED 100

/* The number of no instance: that of all. */
#define ALL_INSTANCES 0

/* Part of taskq.template in tags of locks; 0 are the templates. */
#define OF_IDENTITY 1

typedef struct WantedLock
{
	int64 workflow_id;
	bool  alone;
} WantedLock;

/* What a call has locked. */
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
	List        *children; /* tasks that wait for instances, to be cancelled */
	List *identities;      /* hashes, of instances that may have them again */
} WantedLocks;

static TqStmt stmt_around = {
	"SELECT parent_id FROM taskq.workflow WHERE workflow_id = $1",
	{INT8OID},
	.generic = true};

/* What the transaction has locked in share mode. */
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
 * For a move of a step (or of none: NULL) of an instance.  True: it had to
 * wait, and what was read before may have changed.
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
 * The same for a list of tasks, before any of them is moved: those of them
 * that are steps, on whose queues current_user has the right (0: none is
 * asked) and that are held under their tokens, if there are tokens.
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
		/* what others have claimed since must not be passed over */
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
			/* also one whose choice is refused */
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

/* An inner instance, after the outer one was locked. */
void
tq_instance_lock_exclusive(int64 workflow_id)
{
	WantedLocks wanted = {0};

	(void) lock(&wanted, ALL_INSTANCES, RowExclusiveLock);
	(void) lock(&wanted, workflow_id, ExclusiveLock);
}

/* Has anybody started a workflow?  Otherwise nothing is a step. */
static bool
is_any(void)
{
	static uint64 any_in = 0; /* the extension in which there was one */
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

/* That of the instance, and of those around it. */
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

		/* it may be the last live one there, and its end a failure */
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
			/* it may fail by that, or the engine choose */
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

/* Must others not see it halfway? */
static bool
is_alone(const TqFlow *flow, const TqStep *step, TqInstanceLockKind kind)
{
	switch (kind)
	{
		case TQ_FLOW_LOCK_END:
			return tq_step_rule_stops(flow) && goes_far(flow->template, step);
		case TQ_FLOW_LOCK_FAILURE:
			/* who cancels one that waits for an instance cancels that */
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
 * By its end, or by that of any step (NULL), the engine may choose, or may
 * have begun something when it waits for another end of the instance.
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

/* Does a child of it wait for other steps, or other members, as well? */
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

/* Can the instance end by that, if nothing has failed before? */
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

/* Has a step, and not been repaired?  Also one that is not committed. */
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

/* The instance in which one waits for this one; 0: none. */
static int64
around(int64 workflow_id)
{
	Datum arg = Int64GetDatum(workflow_id);

	return tq_spi_find_id(&stmt_around, &arg);
}

/* One that has failed, or is about to: it is live again, as it was. */
static void
add_identity(WantedLocks *wanted, const TqFlow *flow)
{
	MemoryContext mine;
	MemoryContext one;
	Jsonb        *identity;
	int           hash = 0;

	if (flow->state != TQ_FLOW_ERROR && flow->state != TQ_FLOW_LIVE)
		return;
	/* it may be as large as an input, and the list long */
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
	/* the move is made, and relies on them */
	if (!wanted->waited && steps->held != NULL)
		steps->held->count = 0;
}

/* How to lock all instances; *too_many: instead of single ones. */
static LOCKMODE
of_all(const WantedLocks *wanted, bool *too_many)
{
	/* it has a number when it has locked one and moved something */
	if (!TransactionIdIsValid(shared_by) ||
		shared_by != GetTopTransactionIdIfAny())
		shared_count = 0;
	shared_by = GetTopTransactionIdIfAny();
	*too_many = shared_count + wanted->shared > MAX_SHARED;
	if (*too_many)
		return wanted->any_alone ? ExclusiveLock : ShareLock;
	return wanted->any_alone ? RowExclusiveLock : NoLock;
}

/* To the end of the transaction, or until the call gives it back. */
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

/* Is any of what is held to be locked in another way now? */
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

/* Each instance once, alone if anything needs that. */
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

/* To the end of the transaction; false: it had it already. */
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

/* Against others that repair: of two lists each may bring back several. */
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

/* Of one instance the exclusive lock first. */
static int
compare(const void *a, const void *b)
{
	int order = compare_ids(a, b);

	if (order != 0)
		return order;
	return (int) ((const WantedLock *) b)->alone -
		   (int) ((const WantedLock *) a)->alone;
}
