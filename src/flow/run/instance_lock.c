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

#include "base/catalog.h"
#include "base/spi.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/step.h"
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

typedef struct Gate
{
	int64 workflow_id;
	bool  alone;
} Gate;

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

typedef struct Gates
{
	int   count;
	int   room;
	Gate *all;
	int   shared;
	bool  any_alone;
	bool  waited;

	TqKeyPreview ahead;
	List        *children; /* tasks that wait for instances, to be cancelled */
	List *identities;      /* hashes, of instances that may have them again */
} Gates;

static TqStmt stmt_around = {
	"SELECT parent_id FROM taskq.workflow WHERE workflow_id = $1",
	1,
	{INT8OID},
	NULL,
	true};

/* What the transaction has passed together with others. */
static TransactionId shared_by = InvalidTransactionId;
static int           shared_count = 0;

static bool     is_any(void);
static void     add_gates(TqCall *call, Gates *gates, const TqFlow *flow,
						  const TqStep *step, TqInstanceLockKind kind);
static bool     goes_far(const TqTemplate *template, const TqStep *step);
static bool     any_join(const TqTemplate *template, const TqStep *step);
static bool     may_end(const TqTemplate *template, const TqStep *step,
						TqInstanceLockKind kind);
static bool     is_alone(const TqFlow *flow, const TqStep *step,
						 TqInstanceLockKind kind);
static bool     has_failed(int64 workflow_id);
static int64    around(int64 workflow_id);
static void     add_identity(Gates *gates, const TqFlow *flow);
static void     add(Gates *gates, int64 workflow_id, bool alone);
static void     add_child(Gates *gates, int64 task_id);
static void     add_list(TqCall *call, Gates *gates, const int64 *ids,
						 const int64 *tokens, const TqInstanceLockKind *kinds,
						 int count, int right);
static void     pass(TqCall *call, Gates *gates);
static LOCKMODE of_all(const Gates *gates, bool *too_many);
static void     pass_one(TqCall *call, Gates *gates, int64 workflow_id,
						 LOCKMODE mode);
static bool     asks_for_more(const TqHeldLocks *passed, const Gates *gates);
static void     give_back(TqHeldLocks *passed);
static void     merge(Gates *gates);
static bool     lock(Gates *gates, int64 workflow_id, LOCKMODE mode);
static void     lock_identity(Gates *gates, uint32 hash);
static bool     acquire(Gates *gates, const LOCKTAG *tag, LOCKMODE mode);
static void     set_tag(LOCKTAG *tag, int64 workflow_id);
static int      compare_ids(const void *a, const void *b);
static int      compare(const void *a, const void *b);

/*
 * For a move of a step (or of none: NULL) of an instance.  True: somebody had
 * to be waited for, and what was read before may not be so any more.
 */
bool
tq_instance_lock_acquire(TqCall *call, const TqFlow *flow, const TqStep *step,
						 TqInstanceLockKind kind)
{
	Gates gates = {0};

	add_gates(call, &gates, flow, step, kind);
	pass(call, &gates);
	pfree(gates.all);
	return gates.waited;
}

/*
 * The same for a list of tasks, before any of them is moved: those of them
 * that are steps, on whose queues current_user has the right (0: nobody asks)
 * and that are held under their tokens, if there are tokens.
 */
void
tq_instance_lock_acquire_all(TqCall *call, const int64 *ids,
							 const int64              *tokens,
							 const TqInstanceLockKind *kinds, int count,
							 int right)
{
	Gates     gates = {0};
	ListCell *cell;

	if (!is_any())
		return;
	do
	{
		memset(&gates, 0, sizeof(gates));
		/* what others have claimed since must not be passed over */
		tq_snapshot_renew();
		add_list(call, &gates, ids, tokens, kinds, count, right);
		pass(call, &gates);
	} while (gates.waited);
	foreach (cell, gates.children)
		tq_key_preview_note_child(call, *(int64 *) lfirst(cell));
}

static void
add_list(TqCall *call, Gates *gates, const int64 *ids, const int64 *tokens,
		 const TqInstanceLockKind *kinds, int count, int right)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext one =
		AllocSetContextCreate(caller, "taskq gates", ALLOCSET_DEFAULT_SIZES);

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
			add_gates(call, gates, &flow, step, kind);
			if (kind != TQ_FLOW_LOCK_END && step->type == TQ_STEP_WORKFLOW)
				add_child(gates, ids[i]);
		}
		MemoryContextSwitchTo(caller);
	}
	MemoryContextDelete(one);
}

/* An inner instance, after the outer one was locked. */
void
tq_instance_lock_exclusive(int64 workflow_id)
{
	Gates gates = {0};

	(void) lock(&gates, ALL_INSTANCES, RowExclusiveLock);
	(void) lock(&gates, workflow_id, ExclusiveLock);
}

/* Has anybody started a workflow?  Otherwise nothing is a step. */
static bool
is_any(void)
{
	static bool any = false;
	Relation    rel;

	if (any)
		return true;
	rel = tq_catalog_open_table(tq_catalog()->workflow, AccessShareLock);
	any = RelationGetNumberOfBlocks(rel) > 0;
	table_close(rel, AccessShareLock);
	return any;
}

/* That of the instance, and of those around it. */
static void
add_gates(TqCall *call, Gates *gates, const TqFlow *flow, const TqStep *step,
		  TqInstanceLockKind kind)
{
	int64 workflow_id = flow->workflow_id;
	bool  keys = tq_queue_any_ordered();
	bool  alone = is_alone(flow, step, kind);
	bool  ends = flow->depth > 0 && may_end(flow->template, step, kind);

	add(gates, workflow_id, alone);
	if (kind == TQ_FLOW_LOCK_REPAIR)
		add_identity(gates, flow);
	if (keys)
		tq_key_preview_note(call, &gates->ahead, flow->template,
							alone ? NULL : step);
	for (int depth = flow->depth; depth > 0; depth--)
	{
		TqFlow outer;

		/* it may be the last that goes on there, and the end is none well */
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
				add_identity(gates, &outer);
			if (keys)
				tq_key_preview_note(call, &gates->ahead, outer.template, NULL);
		}
		add(gates, workflow_id, alone);
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
	int64 outer = 0;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_around, &arg, NULL, 1) > 0)
		outer = tq_spi_int8(0, 1, 0);
	tq_spi_leave(&spi);
	return outer;
}

/* One that has failed, or is about to: it goes on again, as what it was. */
static void
add_identity(Gates *gates, const TqFlow *flow)
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
		gates->identities = lappend_int(gates->identities, hash);
	MemoryContextDelete(one);
}

static void
add(Gates *gates, int64 workflow_id, bool alone)
{
	if (gates->count == gates->room)
	{
		gates->room = Max(8, gates->room * 2);
		gates->all =
			gates->all == NULL
				? palloc(sizeof(Gate) * gates->room)
				: repalloc_huge(gates->all, sizeof(Gate) * gates->room);
	}
	gates->all[gates->count].workflow_id = workflow_id;
	gates->all[gates->count++].alone = alone;
}

static void
add_child(Gates *gates, int64 task_id)
{
	int64 *one = palloc(sizeof(int64));

	*one = task_id;
	gates->children = lappend(gates->children, one);
}

static void
pass(TqCall *call, Gates *gates)
{
	TqSteps  *steps = tq_call_steps(call);
	LOCKMODE  mode;
	ListCell *cell;
	bool      too_many;

	merge(gates);
	if (steps->held != NULL && asks_for_more(steps->held, gates))
		give_back(steps->held);
	mode = of_all(gates, &too_many);
	if (mode != NoLock)
		pass_one(call, gates, ALL_INSTANCES, mode);
	for (int i = 0; i < gates->count; i++)
	{
		const Gate *gate = &gates->all[i];

		if (gate->alone || !too_many)
			pass_one(call, gates, gate->workflow_id,
					 gate->alone ? ExclusiveLock : ShareLock);
	}
	list_sort(gates->identities, list_int_cmp);
	foreach (cell, gates->identities)
		lock_identity(gates, (uint32) lfirst_int(cell));
	/* the move is made, and relies on them */
	if (!gates->waited && steps->held != NULL)
		steps->held->count = 0;
}

/* How to lock all instances; *too_many: instead of single ones. */
static LOCKMODE
of_all(const Gates *gates, bool *too_many)
{
	/* it has a number when it has passed one and moved something */
	if (!TransactionIdIsValid(shared_by) ||
		shared_by != GetTopTransactionIdIfAny())
		shared_count = 0;
	shared_by = GetTopTransactionIdIfAny();
	*too_many = shared_count + gates->shared > MAX_SHARED;
	if (*too_many)
		return gates->any_alone ? ExclusiveLock : ShareLock;
	return gates->any_alone ? RowExclusiveLock : NoLock;
}

/* To the end of the transaction, or until the call gives it back. */
static void
pass_one(TqCall *call, Gates *gates, int64 workflow_id, LOCKMODE mode)
{
	TqHeldLocks *passed = call->steps->held;

	if (!lock(gates, workflow_id, mode))
		return;
	shared_count += mode == ShareLock && workflow_id != ALL_INSTANCES;
	if (passed == NULL)
		passed = call->steps->held =
			MemoryContextAllocZero(call->context, sizeof(TqHeldLocks));
	if (passed->count == passed->room)
	{
		passed->room = Max(8, passed->room * 2);
		passed->all =
			passed->all == NULL
				? MemoryContextAlloc(call->context,
									 sizeof(Lock) * passed->room)
				: repalloc_huge(passed->all, sizeof(Lock) * passed->room);
	}
	passed->all[passed->count].workflow_id = workflow_id;
	passed->all[passed->count++].mode = mode;
}

/* Is any of what was passed to be locked in another way now? */
static bool
asks_for_more(const TqHeldLocks *passed, const Gates *gates)
{
	bool     too_many;
	LOCKMODE mode = of_all(gates, &too_many);

	for (int i = 0; i < passed->count; i++)
	{
		const Lock *one = &passed->all[i];
		Gate        key = {one->workflow_id};
		const Gate *gate;

		if (one->workflow_id == ALL_INSTANCES)
		{
			if (mode != NoLock && mode != one->mode)
				return true;
			continue;
		}
		gate =
			bsearch(&key, gates->all, gates->count, sizeof(Gate), compare_ids);
		if (gate != NULL && gate->alone && one->mode == ShareLock)
			return true;
	}
	return false;
}

static void
give_back(TqHeldLocks *passed)
{
	while (passed->count > 0)
	{
		const Lock *one = &passed->all[--passed->count];
		LOCKTAG     tag;

		set_tag(&tag, one->workflow_id);
		(void) LockRelease(&tag, one->mode, false);
		shared_count -= one->mode == ShareLock &&
						one->workflow_id != ALL_INSTANCES;
	}
}

/* Each instance once, alone if anything needs that. */
static void
merge(Gates *gates)
{
	int kept = 0;

	if (gates->count > 1)
		qsort(gates->all, gates->count, sizeof(Gate), compare);
	for (int i = 0; i < gates->count; i++)
	{
		if (kept > 0 &&
			gates->all[kept - 1].workflow_id == gates->all[i].workflow_id)
			continue;
		gates->any_alone = gates->any_alone || gates->all[i].alone;
		gates->shared += !gates->all[i].alone;
		gates->all[kept++] = gates->all[i];
	}
	gates->count = kept;
}

/* To the end of the transaction; false: it had it already. */
static bool
lock(Gates *gates, int64 workflow_id, LOCKMODE mode)
{
	LOCKTAG tag;

	set_tag(&tag, workflow_id);
	return acquire(gates, &tag, mode);
}

static void
set_tag(LOCKTAG *tag, int64 workflow_id)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, tq_catalog()->workflow,
					   (uint32) workflow_id, (uint16) (workflow_id >> 32));
}

/* Against others that repair: of two lists each may bring back several. */
static void
lock_identity(Gates *gates, uint32 hash)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, tq_catalog()->template, hash,
					   OF_IDENTITY);
	(void) acquire(gates, &tag, ExclusiveLock);
}

static bool
acquire(Gates *gates, const LOCKTAG *tag, LOCKMODE mode)
{
	LockAcquireResult result = LockAcquire(tag, mode, false, true);

	if (result == LOCKACQUIRE_NOT_AVAIL)
	{
		tq_step_may_wait();
		result = LockAcquire(tag, mode, false, false);
		gates->waited = true;
	}
	return result == LOCKACQUIRE_OK;
}

static int
compare_ids(const void *a, const void *b)
{
	const Gate *x = a;
	const Gate *y = b;

	return x->workflow_id < y->workflow_id   ? -1
		   : x->workflow_id > y->workflow_id ? 1
											 : 0;
}

/* Of one instance what is passed alone first. */
static int
compare(const void *a, const void *b)
{
	int order = compare_ids(a, b);

	if (order != 0)
		return order;
	return (int) ((const Gate *) b)->alone - (int) ((const Gate *) a)->alone;
}
