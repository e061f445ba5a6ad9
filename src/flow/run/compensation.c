/*
 * compensation.c
 *		Compensates the finished steps of a failed instance.
 *
 * When an instance with on_failure compensate has failed and no step of it is
 * live, it does not end yet.  Its row gets the list of all finished steps that
 * can be compensated, the last one to finish first, and its state becomes
 * compensating.  The same transaction makes the first compensation.  The
 * transaction that ends a compensation makes the next one, and the transaction
 * that ends the last compensation ends the instance.  So only one compensation
 * is live at any time, and no other task of the instance can change: the end
 * of a compensation needs only the lock of its task.
 *
 * From then on the steps do not change: none of them can be retried or
 * resolved, and no repair runs concurrently with an end (instance_lock.c), so
 * that no step is live together with its own compensation.  A step that has
 * succeeded cannot be retried after another one has failed, because it would
 * be compensated.
 *
 * If a compensation dies or is cancelled, the instance ends.  If it is later
 * retried or resolved, the rest of the list follows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"

#include "base/error.h"
#include "base/spi.h"
#include "flow/instance/failed_step.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/instance/step_rule.h"
#include "flow/run/child.h"
#include "flow/run/compensation.h"
#include "flow/run/move_queue.h"
#include "flow/run/step_make.h"

static TqStmt stmt_begin = {
	"UPDATE taskq.workflow SET state = " TQ_SQL_FLOW_COMPENSATING ","
	" compensations = $2"
	" WHERE workflow_id = $1 AND state = " TQ_SQL_FLOW_LIVE,
	{INT8OID, INT4ARRAYOID}};

static TqStmt stmt_resume = {
	"UPDATE taskq.workflow SET state = " TQ_SQL_FLOW_COMPENSATING ","
	" reason = " TQ_SQL_REASON_NONE ","
	" finished_at = NULL, expires_at = NULL"
	" WHERE workflow_id = $1 AND state = " TQ_SQL_FLOW_ERROR,
	{INT8OID}};

static TqStmt stmt_next = {
	"SELECT w.compensations[array_position(w.compensations, $2) + 1]"
	"  FROM taskq.workflow w WHERE w.workflow_id = $1",
	{INT8OID, INT4OID}};

/* Steps whose compensations are still to be made. */
static TqStmt stmt_left = {
	"SELECT s.step_id FROM taskq.workflow w"
	" CROSS JOIN LATERAL unnest(w.compensations) WITH ORDINALITY"
	"   AS s (step_id, place)"
	" WHERE w.workflow_id = $1"
	"   AND NOT EXISTS (SELECT FROM taskq.task t"
	"                    WHERE t.workflow_id = $1"
	"                      AND t.step_id = s.step_id - 2147483647 - 1)"
	"   AND NOT EXISTS (SELECT FROM taskq.archive_keep a"
	"                    WHERE a.workflow_id = $1"
	"                      AND a.step_id = s.step_id - 2147483647 - 1)"
	" ORDER BY s.place",
	{INT8OID}};

static TqStmt stmt_task = {"SELECT task_id FROM taskq.archive_keep"
						   " WHERE workflow_id = $1 AND step_id = $2",
						   {INT8OID, INT4OID}};

/* A finished step that can be compensated. */
typedef struct Finished
{
	int32       step_id;
	int64       task_id;
	TimestampTz at;
	int         level;
} Finished;

static int  find_finished(const TqFlow *flow, Finished **finished);
static int  newest_first(const void *a, const void *b);
static bool note_begin(TqFlow *flow, const Finished *finished, int count);
static void make(TqCall *call, TqFlow *flow, int32 step_id);
static void follow(TqCall *call, TqFlow *flow, const TqMoved *move);
static void resume(TqFlow *flow);
static bool find_next(const TqFlow *flow, int32 *step_id);
static void end(TqFlow *flow, TqReason reason);

/*
 * No step is live, and none can become live, since the instance is locked.
 * The instance begins to compensate, or ends if there is nothing to
 * compensate.
 */
void
tq_compensation_begin(TqCall *call, TqFlow *flow)
{
	Finished *finished;
	int       count = find_finished(flow, &finished);

	if (count == 0)
		end(flow, TQ_REASON_COMPENSATED);
	else if (note_begin(flow, finished, count))
		make(call, flow, finished[0].step_id);
}

/*
 * Find the steps to compensate, in the order of their compensations.  Returns
 * their number.
 */
static int
find_finished(const TqFlow *flow, Finished **finished)
{
	const TqTemplate *template = flow->template;
	TimestampTz *ends =
		palloc0(sizeof(TimestampTz) * (template->step_count + 1));
	TqStepRow *made;
	int        count = tq_flow_steps(flow, &made);
	int        found = 0;

	*finished = MemoryContextAllocHuge(CurrentMemoryContext,
									   sizeof(Finished) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		TimestampTz *last = &ends[TQ_STEP_INDEX(made[i].step_id)];

		*last = Max(*last, made[i].finished_at);
	}
	/*
	 * if the clock was set back, a step must not count as older than its
	 * parents
	 */
	for (int i = 0; i < template->step_count; i++)
	{
		int               place = template->order[i];
		const TqStepList *parents = &template->steps[place].parents;

		for (int j = 0; j < parents->count; j++)
			ends[place] = Max(ends[place], ends[parents->places[j]]);
	}
	for (int i = 0; i < count; i++)
	{
		const TqStep *step = tq_template_at(template, made[i].step_id);
		Finished     *one = &(*finished)[found];

		CHECK_FOR_INTERRUPTS();
		if (made[i].state != TQ_STATE_DONE || step->compensate == NULL)
			continue;
		one->step_id = made[i].step_id;
		one->task_id = made[i].task_id;
		one->level = step->level;
		one->at = made[i].finished_at;
		for (int j = 0; j < step->parents.count; j++)
			one->at = Max(one->at, ends[step->parents.places[j]]);
		found++;
	}
	qsort(*finished, found, sizeof(Finished), newest_first);
	return found;
}

/* Of steps that ended at the same time, children come before their parents. */
static int
newest_first(const void *a, const void *b)
{
	const Finished *one = a;
	const Finished *two = b;

	if (one->at != two->at)
		return one->at > two->at ? -1 : 1;
	if (one->level != two->level)
		return one->level > two->level ? -1 : 1;
	return one->task_id > two->task_id ? -1 : 1;
}

/* Returns false if another transaction has ended the instance. */
static bool
note_begin(TqFlow *flow, const Finished *finished, int count)
{
	int32 *step_ids = MemoryContextAllocHuge(CurrentMemoryContext,
											 sizeof(int32) * (count + 1));
	Datum  args[2] = {Int64GetDatum(flow->workflow_id)};
	bool   begun;

	for (int i = 0; i < count; i++)
		step_ids[i] = finished[i].step_id;
	args[1] = tq_spi_int4_array(step_ids, count);
	begun = tq_spi_execute(&stmt_begin, args, NULL, SPI_OK_UPDATE) == 1;
	if (begun)
		flow->state = TQ_FLOW_COMPENSATING;
	return begun;
}

/* Make the compensation of a step; its payload is the step's result. */
static void
make(TqCall *call, TqFlow *flow, int32 step_id)
{
	Datum args[2] = {Int64GetDatum(flow->workflow_id), Int32GetDatum(step_id)};
	int64 task_id = tq_spi_find_id(&stmt_task, args);
	TqNewStep new = {0};
	TqNewEdges edges = {0};

	new.step_id = TQ_STEP_COMPENSATION(step_id);
	new.payload = tq_results_of_step(task_id);
	new.free = true;
	tq_step_make_all(call, flow, &new, 1, &edges);
}

/* Process the moves of compensations.  Returns the other moves. */
List *
tq_compensation_follow(TqCall *call, TqFlow *flow, List *moves)
{
	List     *others = NIL;
	ListCell *cell;

	foreach (cell, moves)
	{
		TqMoved *move = lfirst(cell);

		if (TQ_STEP_COMPENSATES(move->step_id) &&
			tq_template_at(flow->template, move->step_id) != NULL)
			follow(call, flow, move);
		else
			others = lappend(others, move);
	}
	if (list_length(others) == list_length(moves))
		return moves;
	/*
	 * the step of the outer instance that waits for this one has failed, and
	 * remains failed, since this instance cannot complete
	 */
	if (flow->end.ended)
		tq_child_ended(call, flow);
	flow->end.ended = false;
	return others;
}

static void
follow(TqCall *call, TqFlow *flow, const TqMoved *move)
{
	int32 step_id = TQ_STEP_COMPENSATED(move->step_id);

	if (move->from != 0 && !TQ_STATE_IS_LIVE(move->from) &&
		flow->state == TQ_FLOW_ERROR)
		resume(flow);
	if (flow->state != TQ_FLOW_COMPENSATING || TQ_STATE_IS_LIVE(move->to))
		return;
	if (move->to != TQ_STATE_DONE && move->to != TQ_STATE_FILTERED)
		end(flow, TQ_REASON_COMPENSATION_FAILED);
	else if (find_next(flow, &step_id))
		make(call, flow, step_id);
	else
		end(flow, TQ_REASON_COMPENSATED);
}

/* The instance does not take its identity again: another start may use it. */
static void
resume(TqFlow *flow)
{
	Datum arg = Int64GetDatum(flow->workflow_id);

	if (tq_spi_execute(&stmt_resume, &arg, NULL, SPI_OK_UPDATE) != 1)
		tq_error_serialization();
	flow->state = TQ_FLOW_COMPENSATING;
	flow->end.reason = TQ_REASON_NONE;
}

/* Find the next step to compensate.  Returns false if there is none. */
static bool
find_next(const TqFlow *flow, int32 *step_id)
{
	Datum args[2] = {Int64GetDatum(flow->workflow_id),
					 Int32GetDatum(*step_id)};
	int32 next = -1;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_next, args, NULL, 1) > 0)
		next = tq_spi_int4(0, 1, -1);
	tq_spi_leave(&spi);
	*step_id = next;
	return next >= 0;
}

static void
end(TqFlow *flow, TqReason reason)
{
	flow->end.reason = reason;
	(void) tq_flow_end(flow, TQ_FLOW_ERROR, NULL);
}

/*
 * Raise TQ005 if the instance no longer allows a move of a finished step or
 * compensation.
 */
void
tq_compensation_check(const TqFlow *flow, const TqTask *task,
					  const TqMove *move)
{
	int32   step_id = DatumGetInt32(task->value[TQ_COL_STEP_ID]);
	TqState from = (TqState) task->f.state;

	if (!tq_compensation_allows(flow, step_id, from))
		tq_error_invalid_transition(task->f.task_id, from, move->wanted);
}

/*
 * May a finished step or compensation be moved?  A step may be moved while the
 * instance is live, a compensation if its failure has ended the instance.
 */
bool
tq_compensation_allows(const TqFlow *flow, int32 step_id, TqState from)
{
	bool finished = from == TQ_STATE_DONE || from == TQ_STATE_FILTERED;

	if (flow->template->on_failure != TQ_ON_FAILURE_COMPENSATE)
		return true;
	if (TQ_STEP_COMPENSATES(step_id))
		return flow->state == TQ_FLOW_ERROR && !finished;
	finished = finished || (from == TQ_STATE_DEAD &&
							tq_step_rule_is_excused(flow->template, step_id));
	return flow->state == TQ_FLOW_LIVE &&
		   !(finished && tq_failed_step_any(flow, TQ_ALL_PLACES, step_id));
}

/* Steps whose compensations are still to be made.  Returns their number. */
int
tq_compensation_left(const TqFlow *flow, int32 **step_ids)
{
	Datum  arg = Int64GetDatum(flow->workflow_id);
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = flow->of_moment ? tq_spi_read(&stmt_left, &arg, NULL, 0)
						   : tq_spi_look(&stmt_left, &arg, NULL, 0);
	*step_ids = MemoryContextAllocHuge(spi.caller, sizeof(int32) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
		(*step_ids)[i] = tq_spi_int4(i, 1, -1);
	tq_spi_leave(&spi);
	return (int) rows;
}
