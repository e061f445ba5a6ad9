/*
 * repair.c
 *		Repairs finished steps, by another attempt or by hand.
 *
 * The instance must not have completed or been cancelled.  A failed instance
 * continues, and takes its identity again.  If a step of another instance was
 * waiting for it, it can continue only if that step will wait for it again; it
 * cannot if the step has started another instance in its place.
 *
 * A step that is done or filtered, or that is dead but lets its children run,
 * may be retried as long as no step that depends on it has begun.  Its
 * children and the end of the instance then wait for it again.  A child begins
 * when it is claimed, when it starts to wait for a signal, a timer or another
 * workflow, or when it is resolved.  A child may have ended without having
 * begun: its condition was not true, one of its paths could not be evaluated,
 * or the engine has decided.  Such a child waits again, too, and so do the
 * steps that depend on it.  The choice of a decision or batch is undone
 * (undo_choice.c).
 *
 * A repair has locked the instance exclusively (instance_lock.c).  No step of
 * it ends in the meantime, so no transaction relies on deleted edges that this
 * one adds again.  However, steps can be claimed, so the rows of children are
 * changed or locked before edges are added.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/spi.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/state.h"
#include "flow/definition/reach.h"
#include "flow/instance/edge.h"
#include "flow/instance/failed_step.h"
#include "flow/instance/flow.h"
#include "flow/instance/step_rule.h"
#include "flow/run/compensation.h"
#include "flow/run/repair.h"
#include "flow/run/signal.h"
#include "flow/run/undo_choice.h"
#include "flow/run/wait_step.h"
#include "store/archive.h"
#include "store/large.h"
#include "store/row.h"
#include "store/snapshot.h"

#define CHILD_HAS_BEGUN "A step that depends on it has begun."

/*
 * A step whose children wait again, and the further steps that must wait
 * because of that.
 */
typedef struct Return
{
	TqCall       *call;
	TqFlow       *flow;
	const TqTask *task; /* the step to be retried */
	const TqMove *move;
	int           count;
	int           room;
	int32        *parents; /* steps whose edges are added again */
	TqUndo        unmaking;
} Return;

static TqStmt stmt_row = {
	"SELECT task_id FROM taskq.task WHERE workflow_id = $1 AND step_id = $2"
	" UNION ALL"
	" SELECT task_id FROM taskq.archive_keep"
	"  WHERE workflow_id = $1 AND step_id = $2",
	{INT8OID, INT4OID}};

/* A completed child instance does not count for the next attempt. */
static TqStmt stmt_leave_child = {
	"UPDATE taskq.workflow SET parent_task_id = NULL"
	" WHERE parent_task_id = $1"
	"   AND state IN (" TQ_SQL_FLOW_DONE ", " TQ_SQL_FLOW_RESOLVED ")",
	{INT8OID}};

static void read_instance(const TqTask *task, TqFlow *flow);
static void check_instance(TqFlow *flow, const TqTask *task,
						   const TqMove *move);
static bool stays_failed(const TqCall *call, const TqFlow *flow,
						 const TqStep *step, const TqTask *task,
						 const TqMoveAnswer *answer);
static bool children_wait(const TqFlow *flow, const TqStep *step,
						  int32 step_id, TqEdges *edges);
static bool revive(TqFlow *flow, const TqTask *task, const TqMove *move);
static void check_around(const TqFlow *flow, const TqTask *task,
						 const TqMove *move);
static bool is_waited_for(const TqFlow *flow, TqFlow *outer);
static void begin_again(const TqStep *step, TqTask *task, const TqMove *move,
						TqMoveAnswer *answer);
static void return_children(TqCall *call, TqFlow *flow, const TqTask *task,
							const TqMove *move);
static void walk(Return *r);
static void take_back_choices(Return *r, int from, int to);
static void send_back_children(Return *r, int place);
static void add_edges(const Return *r);
static void add_parent(Return *r, int32 step_id);
static void send_back(Return *r, int32 child);
static bool send_back_row(Return *r, int32 child, TqTask *task);
static bool has_begun(const TqStep *step, const TqTask *task);
static void refuse(const TqTask *task, const TqMove *move, const char *hint)
	pg_attribute_noreturn();

/* Called before a finished step is moved. */
void
tq_repair(TqCall *call, TqTask *task, const TqMove *move, TqMoveAnswer *answer)
{
	int32         step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	TqState       from = (TqState) task->f.state;
	bool          lives = TQ_STATE_IS_LIVE(answer->to);
	const TqStep *step;
	TqFlow        flow;

	if (move->flow.sent_back)
		return;
	read_instance(task, &flow);
	step = tq_template_at(flow.template, step_id);
	if (step == NULL)
		return;
	tq_compensation_check(&flow, task, move);
	/* a move of a compensation does not affect the steps */
	if (TQ_STEP_COMPENSATES(step_id))
		return;
	/* in a completed instance no step waits for a member left by its batch */
	if (lives || flow.state == TQ_FLOW_DONE || flow.state == TQ_FLOW_RESOLVED)
		check_instance(&flow, task, move);
	while (flow.state == TQ_FLOW_ERROR)
	{
		if (stays_failed(call, &flow, step, task, answer))
		{
			check_around(&flow, task, move);
			tq_flow_check_identity(&flow);
			break;
		}
		answer->revived = revive(&flow, task, move);
		if (!answer->revived)
			read_instance(task, &flow);
		if (lives)
			check_instance(&flow, task, move);
	}
	if (lives && tq_step_rule_is_passed(flow.template, step_id, from))
		return_children(call, &flow, task, move);
	if (lives)
		begin_again(step, task, move, answer);
}

/*
 * Called before a step is suspended or resolved while it waits for parents
 * that have not all ended.  A failed instance becomes live again; otherwise
 * the call decides again whether it has ended.
 */
void
tq_repair_waiting(const TqTask *task, const TqMove *move, TqMoveAnswer *answer)
{
	TqFlow flow;

	while (read_instance(task, &flow), flow.state == TQ_FLOW_ERROR)
	{
		answer->revived = revive(&flow, task, move);
		if (answer->revived)
			return;
	}
}

/*
 * Read the instance of a step, and keep it if it has ended.  Raises TQ002 if
 * it does not exist or is being removed, because the step is then being
 * removed, too.
 */
static void
read_instance(const TqTask *task, TqFlow *flow)
{
	int64 workflow_id = DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]);

	if (!tq_flow_read(workflow_id, flow) ||
		(tq_flow_has_ended(flow) && !tq_flow_keep(workflow_id)))
		tq_error_no_such_task(task->f.task_id);
}

/* Raise TQ005 if the instance has completed or was cancelled. */
static void
check_instance(TqFlow *flow, const TqTask *task, const TqMove *move)
{
	if (flow->state != TQ_FLOW_LIVE && flow->state != TQ_FLOW_ERROR)
		tq_error_invalid_transition(task->f.task_id, (TqState) task->f.state,
									move->wanted);
}

/*
 * Does a failed instance remain failed when the dead step is resolved, because
 * another step has failed and no step can begin?  Its row then need not be
 * changed: many steps may be resolved one after the other.  The step itself is
 * no longer in the archive.  The edges must not lag behind other moves of the
 * call.
 */
static bool
stays_failed(const TqCall *call, const TqFlow *flow, const TqStep *step,
			 const TqTask *task, const TqMoveAnswer *answer)
{
	int32   step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	int     place = TQ_ALL_PLACES;
	bool    stays;
	TqEdges edges;

	if (task->f.state != TQ_STATE_DEAD || answer->to != TQ_STATE_DONE ||
		tq_step_chooses(step->type) ||
		(call->steps != NULL && call->steps->moved != NIL))
		return false;
	/* otherwise steps that a failure has cancelled may come back */
	if (!tq_step_rule_stops(flow))
		place = TQ_STEP_INDEX(step_id);
	if ((tq_step_rule_stops(flow) ||
		 tq_step_rule_ends_batch(flow->template, step)) &&
		!tq_failed_step_any(flow, place, step_id))
		return false;
	tq_edge_begin(&edges);
	stays = tq_edge_any_other(&edges, flow->workflow_id, TQ_EDGE_FAILURE,
							  step_id) &&
			children_wait(flow, step, step_id, &edges);
	tq_edge_end(&edges);
	return stays;
}

/* Do all children that wait for the step also wait for another one? */
static bool
children_wait(const TqFlow *flow, const TqStep *step, int32 step_id,
			  TqEdges *edges)
{
	for (int i = 0; i < step->children.count; i++)
	{
		int32 child = step->children.places[i];

		CHECK_FOR_INTERRUPTS();
		if (tq_edge_has(edges, flow->workflow_id, child, step_id) &&
			!tq_edge_any_other(edges, flow->workflow_id, child, step_id))
			return false;
	}
	return true;
}

/* Returns false if the instance has not failed. */
static bool
revive(TqFlow *flow, const TqTask *task, const TqMove *move)
{
	check_around(flow, task, move);
	return tq_flow_revive(flow);
}

/*
 * Raise TQ005 if no step would wait for the instance.  Outer instances have
 * failed because of this instance, or the call decides again about them; all
 * of them are locked exclusively.
 */
static void
check_around(const TqFlow *flow, const TqTask *task, const TqMove *move)
{
	TqFlow inner = *flow;
	TqFlow outer;

	while (inner.parent_task_id != 0 && inner.state == TQ_FLOW_ERROR)
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_waited_for(&inner, &outer))
			refuse(task, move,
				   psprintf("The step that workflow " INT64_FORMAT
							" was started for no longer waits for it.",
							inner.workflow_id));
		inner = outer;
	}
}

/* Will the step for which the instance was started wait for it again? */
static bool
is_waited_for(const TqFlow *flow, TqFlow *outer)
{
	TqFlow newest;
	TqTask step;

	if (!tq_flow_find_child(flow->parent_task_id, &newest) ||
		newest.workflow_id != flow->workflow_id ||
		!tq_archive_find(flow->parent_task_id, &step) ||
		step.f.state != TQ_STATE_DEAD ||
		step.f.reason != TQ_REASON_DEPENDENCY_FAILED)
		return false;
	return tq_flow_read(DatumGetInt64(step.value[TQ_COL_WORKFLOW_ID]),
						outer) &&
		   (outer->state == TQ_FLOW_LIVE || outer->state == TQ_FLOW_ERROR);
}

/*
 * Remove the result of the previous end, even if the next end has none.  A
 * step that was never claimed has not begun: it begins as if its last parent
 * had just ended, but its condition is not evaluated again.  A step that has
 * waited for a signal or a workflow waits for another one.
 */
static void
begin_again(const TqStep *step, TqTask *task, const TqMove *move,
			TqMoveAnswer *answer)
{
	TqState from = (TqState) task->f.state;
	Datum   arg = Int64GetDatum(task->f.task_id);

	if (from == TQ_STATE_DONE)
		tq_large_drop(task, TQ_COL_RESULT);
	if (answer->to == TQ_STATE_PENDING && task->f.token == 0)
	{
		answer->to = TQ_STATE_BLOCKED;
		if (from == TQ_STATE_FILTERED || from == TQ_STATE_DONE)
			task->f.flags |= TQ_FLAG_WANTED;
		if (move->due_at == 0)
			task->i.run_at = tq_clock_dispatch();
	}
	if (from != TQ_STATE_DEAD && from != TQ_STATE_DONE &&
		(from != TQ_STATE_CANCELLED ||
		 task->f.reason == TQ_REASON_DEPENDENCY_FAILED))
		return;
	if (tq_passive_takes_signal(step))
		tq_signal_forget(
			DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]),
			TQ_STEP_INDEX(DatumGetInt32(task->value[TQ_COL_STEP_ID])));
	if (from == TQ_STATE_DONE && step->type == TQ_STEP_WORKFLOW)
		tq_spi_execute(&stmt_leave_child, &arg, NULL, SPI_OK_UPDATE);
}

/*
 * Make the steps that depend on the step wait for it again.  Raises TQ005 if
 * one of them has begun.
 */
static void
return_children(TqCall *call, TqFlow *flow, const TqTask *task,
				const TqMove *move)
{
	Return r = {call, flow, task, move};

	r.unmaking.again =
		palloc0(sizeof(bool) * (flow->template->step_count + 1));
	r.unmaking.gone = palloc0(sizeof(bool) * (flow->template->step_count + 1));
	add_parent(&r, DatumGetInt32(task->value[TQ_COL_STEP_ID]));
	walk(&r);
	add_edges(&r);
}

/*
 * Make the children of the parents collected so far wait again.  This may add
 * more parents, which are handled in the next round, after the choices of this
 * round's parents have been undone.
 */
static void
walk(Return *r)
{
	int from = 0;
	int kept = 0;

	while (from < r->count)
	{
		int to = r->count;

		take_back_choices(r, from, to);
		for (; kept < r->unmaking.kept.count; kept++)
			send_back(r, r->unmaking.kept.children[kept]);
		for (int i = from; i < to; i++)
			send_back_children(r, TQ_STEP_INDEX(r->parents[i]));
		from = to;
	}
}

static void
take_back_choices(Return *r, int from, int to)
{
	TqTemplate *template = r->flow->template;
	bool *below = NULL;

	for (int i = from; i < to; i++)
	{
		int place = TQ_STEP_INDEX(r->parents[i]);

		if (r->unmaking.gone[place] ||
			!tq_step_chooses(template->steps[place].type))
			continue;
		if (below == NULL)
			below = palloc0(sizeof(bool) * (template->step_count + 1));
		tq_reach_add_below(template, place, below);
	}
	if (below == NULL)
		return;
	if (!tq_undo_choice(r->call, r->flow, &r->unmaking, below))
		refuse(r->task, r->move, CHILD_HAS_BEGUN);
	pfree(below);
}

static void
send_back_children(Return *r, int place)
{
	const TqStep *step = &r->flow->template->steps[place];

	for (int i = 0; i < step->children.count && !r->unmaking.gone[place]; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!r->unmaking.gone[step->children.places[i]])
			send_back(r, step->children.places[i]);
	}
}

/* Add the edges from and to the steps that still exist, with one statement. */
static void
add_edges(const Return *r)
{
	const TqNewEdges *kept = &r->unmaking.kept;
	TqNewEdges        edges = {0};

	for (int i = 0; i < r->count; i++)
	{
		int32 parent = r->parents[i];

		if (!r->unmaking.gone[TQ_STEP_INDEX(parent)])
			tq_edge_note_step(
				&edges, tq_template_at(r->flow->template, parent), parent);
	}
	for (int i = 0; i < kept->count; i++)
	{
		if (!r->unmaking.gone[kept->children[i]])
			tq_edge_note(&edges, kept->children[i], kept->parents[i]);
	}
	tq_edge_add(r->flow->workflow_id, &edges);
}

static void
add_parent(Return *r, int32 step_id)
{
	TQ_ARRAY_RESERVE(r->parents, r->count, r->room, CurrentMemoryContext);
	r->parents[r->count++] = step_id;
	r->unmaking.again[TQ_STEP_INDEX(step_id)] = true;
}

/* Make a child wait again, if it exists. */
static void
send_back(Return *r, int32 child)
{
	Datum  args[2] = {Int64GetDatum(r->flow->workflow_id),
					  Int32GetDatum(child)};
	int64  task_id;
	TqTask task;

	do
	{
		CHECK_FOR_INTERRUPTS();
		task_id = tq_spi_find_id(&stmt_row, args);
		if (task_id == 0)
			return;
		tq_snapshot_renew();
		if (!tq_archive_find_any(r->call, task_id, &task))
		{
			if (IsolationUsesXactSnapshot())
				tq_error_serialization();
			continue;
		}
		if (send_back_row(r, child, &task))
			return;
	} while (true);
}

/* Returns false if the row has changed since it was read. */
static bool
send_back_row(Return *r, int32 child, TqTask *task)
{
	const TqStep *step = &r->flow->template->steps[child];
	TqQueue      *queue = tq_queue_by_id(task->f.queue_id);
	TqState       state = (TqState) task->f.state;
	TqMove        move = {0};

	if (has_begun(step, task))
		refuse(r->task, r->move, CHILD_HAS_BEGUN);
	if (queue == NULL || state == TQ_STATE_CANCELLED ||
		(state == TQ_STATE_DEAD && task->f.reason != TQ_REASON_REJECTED))
		return true;
	tq_key_lock_task(r->call, queue, task);
	if (state == TQ_STATE_BLOCKED && (task->f.flags & TQ_FLAG_IN_LINE) != 0)
	{
		task->f.flags &= ~TQ_FLAG_IN_LINE;
		return tq_state_touch(r->call, queue, task);
	}
	if (state == TQ_STATE_BLOCKED || state == TQ_STATE_SUSPENDED)
		return tq_row_lock(r->call, task, false) && task->f.state == state &&
			   !has_begun(step, task) &&
			   (task->f.flags & TQ_FLAG_IN_LINE) == 0;
	if (task->archived && !tq_archive_take(task))
	{
		if (IsolationUsesXactSnapshot())
			tq_error_serialization();
		return false;
	}
	tq_large_drop(task, TQ_COL_RESULT);
	move.to = TQ_STATE_BLOCKED;
	move.wanted = "send back";
	move.flow.sent_back = true;
	if (!tq_state_enter(r->call, queue, task, &move))
		return false;
	if (tq_step_rule_is_passed(r->flow->template, child, state))
		add_parent(r, child);
	return true;
}

static bool
has_begun(const TqStep *step, const TqTask *task)
{
	return tq_step_rule_has_begun(
		step, (TqState) task->f.state, (TqReason) task->f.reason,
		task->f.token != 0, (task->f.flags & TQ_FLAG_WAITED) != 0);
}

/* Raise TQ005. */
static void
refuse(const TqTask *task, const TqMove *move, const char *hint)
{
	const char *state = tq_state_name((TqState) task->f.state);

	ereport(ERROR,
			(errcode(ERRCODE_TQ_INVALID_TRANSITION),
			 errmsg("cannot %s task " INT64_FORMAT " because it is %s",
					move->wanted, task->f.task_id, state),
			 errdetail("{\"task_id\": " INT64_FORMAT ", \"state\": \"%s\"}",
					   task->f.task_id, state),
			 errhint("%s", hint)));
}
