/*
 * flow.c
 *		Reads and changes rows of instances, and reads their steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/span.h"
#include "base/spi.h"
#include "base/subxact.h"
#include "cache/options.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "flow/definition/template.h"
#include "flow/instance/flow.h"
#include "flow/instance/identity.h"
#include "xact/xact.h"

static TqStmt stmt_read = {
	"SELECT template_id, state::integer, created_at, finished_at, run_at,"
	" started_by, priority::integer, correlation_id, input, headers,"
	" parent_task_id, depth::integer, reason::integer"
	"  FROM taskq.workflow WHERE workflow_id = $1"
	"   AND expires_at IS DISTINCT FROM '-infinity'",
	{INT8OID},
	.generic = true};

static TqStmt stmt_keep = {
	"SELECT FROM taskq.workflow WHERE workflow_id = $1"
	"   AND expires_at IS DISTINCT FROM '-infinity' FOR NO KEY UPDATE",
	{INT8OID}};

/*
 * If the instance keeps its identity for some time after its end, the next
 * start with this identity releases it.
 */
static TqStmt stmt_end = {
	"UPDATE taskq.workflow SET state = $2::smallint, result = $3,"
	" finished_at = $4, expires_at = $5,"
	" identity = CASE WHEN $6 THEN identity END, reason = $7::smallint"
	" WHERE workflow_id = $1 AND state = $8",
	{INT8OID, INT4OID, JSONBOID, TIMESTAMPTZOID, TIMESTAMPTZOID, BOOLOID,
	 INT4OID, INT4OID},
	.generic = true};

/* Make a failed instance live again; it takes back its identity. */
static TqStmt stmt_revive = {
	"UPDATE taskq.workflow SET state = " TQ_SQL_FLOW_LIVE ","
	" reason = " TQ_SQL_REASON_NONE ","
	" result = NULL, finished_at = NULL, expires_at = NULL,"
	" identity = CASE WHEN $2 IS NULL THEN NULL"
	"            ELSE sha256(convert_to($2::text, 'UTF8')) END"
	" WHERE workflow_id = $1 AND state = " TQ_SQL_FLOW_ERROR,
	{INT8OID, JSONBOID}};

/* Argument and result of revive(). */
typedef struct Revival
{
	int64  workflow_id;
	Jsonb *identity; /* NULL: has no identity */
	bool   done;
} Revival;

#define STEP_COLUMNS                                                          \
	"step_id, task_id, state::integer, reason::integer, attempt,"             \
	" " TQ_SQL_RUN_AT ", queue_id, " TQ_SQL_CREATED_AT ", claimed_at"

#define STEP_WAITS_IN_LINE "flags & 8::smallint <> 0"
#define STEP_WAS_CLAIMED "token > 0"
#define STEP_HAS_WAITED "flags & 128::smallint <> 0"

static TqStmt stmt_steps = {
	"SELECT " STEP_COLUMNS ", NULL::timestamptz, " STEP_WAITS_IN_LINE
	", " STEP_WAS_CLAIMED ", " STEP_HAS_WAITED " FROM taskq.task"
	" WHERE workflow_id = $1"
	" UNION ALL"
	" SELECT " STEP_COLUMNS ", finished_at, false, " STEP_WAS_CLAIMED
	", " STEP_HAS_WAITED " FROM taskq.archive_keep"
	"  WHERE workflow_id = $1"
	" ORDER BY 1",
	{INT8OID},
	.generic = true};

static void        check_identity(const TqFlow *flow, Jsonb *identity);
static void        revive(void *arg);
static bool        read_row(int64 workflow_id, bool of_moment, TqFlow *flow);
static int         read_steps(const TqFlow *flow, bool compensations,
							  TqStepRow **made);
static uint64      look(const TqFlow *flow, TqStmt *stmt, const Datum *args,
						long limit);
static TimestampTz expires_at(const TqTemplate *template, TimestampTz now);
static void        add_rights(const TqStep *step, int *any, int *all);
static void        rights_of(const TqTemplate *template, int *any, int *all);

static TqStmt stmt_newest = {
	"SELECT workflow_id FROM taskq.workflow WHERE parent_task_id = $1"
	" ORDER BY workflow_id DESC LIMIT 1",
	{INT8OID},
	.generic = true};

/*
 * Returns the step to which a task belongs, or NULL if there is no such
 * instance or step.
 */
const TqStep *
tq_flow_step_of(const TqTask *task, TqFlow *flow)
{
	if (!tq_flow_read(DatumGetInt64(task->value[TQ_COL_WORKFLOW_ID]), flow))
		return NULL;
	return tq_template_at(flow->template,
						  DatumGetInt32(task->value[TQ_COL_STEP_ID]));
}

/*
 * Read the current row.  Returns false if it does not exist, or is being
 * removed (expire.c).
 */
bool
tq_flow_read(int64 workflow_id, TqFlow *flow)
{
	return read_row(workflow_id, false, flow);
}

/*
 * Read the row as the active snapshot sees it.  Later reads of the instance
 * use the same snapshot, since callers that report an instance need its state
 * at one moment.
 */
bool
tq_flow_see(int64 workflow_id, TqFlow *flow)
{
	return read_row(workflow_id, true, flow);
}

/*
 * Push the snapshot for tq_flow_see: the current state, including all changes
 * of this transaction.  The caller pops it.
 */
void
tq_flow_push_moment(void)
{
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
}

static bool
read_row(int64 workflow_id, bool of_moment, TqFlow *flow)
{
	Datum arg = Int64GetDatum(workflow_id);
	int32 template_id = 0;
	bool  isnull;
	TqSpi spi;

	memset(flow, 0, sizeof(*flow));
	flow->workflow_id = workflow_id;
	flow->of_moment = of_moment;
	tq_spi_enter(&spi);
	if (look(flow, &stmt_read, &arg, 1) > 0)
	{
		template_id = tq_spi_int4(0, 1, 0);
		flow->state = (TqFlowState) tq_spi_int4(0, 2, 0);
		flow->start.created_at = tq_spi_time(0, 3, 0);
		flow->end.finished_at = tq_spi_time(0, 4, 0);
		flow->start.run_at = tq_spi_time(0, 5, 0);
		flow->start.started_by = tq_spi_int4(0, 6, 0);
		(void) tq_spi_get(0, 7, &isnull);
		flow->start.has_priority = !isnull;
		flow->start.priority = tq_spi_int4(0, 7, 0);
		flow->start.correlation_id = tq_spi_text(&spi, 0, 8);
		flow->start.input = tq_spi_jsonb(&spi, 0, 9);
		flow->start.headers = tq_spi_jsonb(&spi, 0, 10);
		flow->parent_task_id = tq_spi_int8(0, 11, 0);
		flow->depth = tq_spi_int4(0, 12, 0);
		flow->end.reason = (TqReason) tq_spi_int4(0, 13, 0);
	}
	tq_spi_leave(&spi);
	if (template_id == 0)
		return false;
	flow->template = tq_template_get(template_id);
	return true;
}

/*
 * End the instance with flow->reason.  Its row has the new state from now on,
 * and sessions that await it are woken at commit.  Returns false if another
 * transaction has ended it.
 */
bool
tq_flow_end(TqFlow *flow, TqFlowState state, Jsonb *result)
{
	const TqTemplate *template = flow->template;
	TimestampTz now = tq_clock_wall();
	Datum       args[8];
	bool        nulls[8] = {false};

	args[0] = Int64GetDatum(flow->workflow_id);
	args[1] = Int32GetDatum(state);
	nulls[2] = result == NULL;
	args[2] = result == NULL ? (Datum) 0 : JsonbPGetDatum(result);
	args[3] = TimestampTzGetDatum(now);
	args[4] = TimestampTzGetDatum(expires_at(template, now));
	args[5] = BoolGetDatum(template->identity_window > 0);
	args[6] = Int32GetDatum(flow->end.reason);
	args[7] = Int32GetDatum(flow->state);
	flow->end.ended = tq_spi_execute(&stmt_end, args, nulls, SPI_OK_UPDATE) ==
					  1;
	if (flow->end.ended)
		tq_xact_ended(flow->workflow_id, (int) state);
	flow->state = state;
	flow->end.result = result;
	return flow->end.ended;
}

/*
 * Keep an ended instance until the end of the transaction, since one of its
 * steps is about to be changed.  Returns false if it is being removed
 * (expire.c).
 */
bool
tq_flow_keep(int64 workflow_id)
{
	Datum arg = Int64GetDatum(workflow_id);

	return tq_spi_execute(&stmt_keep, &arg, NULL, SPI_OK_SELECT) == 1;
}

/*
 * Make a failed instance live again, because one of its steps is; raises TQ006
 * if another instance has taken its identity.  Returns false if the instance
 * has not failed.
 */
bool
tq_flow_revive(TqFlow *flow)
{
	Revival    revival = {flow->workflow_id};
	ErrorData *error;

	revival.identity = tq_identity_of(flow);
	do
	{
		CHECK_FOR_INTERRUPTS();
		check_identity(flow, revival.identity);
		/* another instance may take the identity at the same time */
		error = tq_subxact_run(revive, &revival);
		if (error != NULL && error->sqlerrcode != ERRCODE_UNIQUE_VIOLATION)
			ReThrowError(error);
	} while (error != NULL);
	if (revival.done)
	{
		flow->state = TQ_FLOW_LIVE;
		flow->end.reason = TQ_REASON_NONE;
	}
	return revival.done;
}

/* Raise TQ006 if another instance has taken the identity of a failed one. */
void
tq_flow_check_identity(const TqFlow *flow)
{
	check_identity(flow, tq_identity_of(flow));
}

/* identity: NULL if it has none. */
static void
check_identity(const TqFlow *flow, Jsonb *identity)
{
	int64 holder =
		identity == NULL ? 0 : tq_identity_holder(identity, flow->workflow_id);

	if (holder != 0)
		tq_identity_conflict(flow->template->name, holder, NULL);
}

static void
revive(void *arg)
{
	Revival *revival = arg;
	Datum    args[2] = {Int64GetDatum(revival->workflow_id)};
	bool     nulls[2] = {false, revival->identity == NULL};

	if (revival->identity != NULL)
		args[1] = JsonbPGetDatum(revival->identity);
	revival->done = tq_spi_execute(&stmt_revive, args, nulls, SPI_OK_UPDATE) ==
					1;
}

/*
 * The template defines the retention; if it does not, the retention of
 * finished tasks applies.
 */
static TimestampTz
expires_at(const TqTemplate *template, TimestampTz now)
{
	int64 span = template->has_retention
					 ? template->retention
					 : (int64) tq_guc_retention * USECS_PER_SEC;

	if (span == TQ_FOREVER || template->identity_window == TQ_FOREVER)
		return DT_NOEND;
	span = tq_span_longer(now, span, template->identity_window);
	return !template->has_retention && span == 0 ? DT_NOEND
												 : tq_span_after(now, span);
}

/*
 * Read all steps that were made, ordered by their ids.  Returns their number.
 */
int
tq_flow_steps(const TqFlow *flow, TqStepRow **made)
{
	return read_steps(flow, false, made);
}

/*
 * Read all compensations that were made, ordered by the steps that they
 * compensate.  Returns their number.
 */
int
tq_flow_compensations(const TqFlow *flow, TqStepRow **made)
{
	if (flow->template->on_failure != TQ_ON_FAILURE_COMPENSATE)
		return 0;
	return read_steps(flow, true, made);
}

static int
read_steps(const TqFlow *flow, bool compensations, TqStepRow **made)
{
	Datum       arg = Int64GetDatum(flow->workflow_id);
	int         count = 0;
	TimestampTz now = tq_clock_dispatch();
	uint64      rows;
	TqSpi       spi;

	tq_spi_enter(&spi);
	rows = look(flow, &stmt_steps, &arg, 0);
	*made = MemoryContextAllocHuge(spi.caller, sizeof(TqStepRow) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		TqStepRow *step = &(*made)[count];

		step->step_id = tq_spi_int4(i, 1, -1);
		/* skip rows that were written by hand */
		if (TQ_STEP_COMPENSATES(step->step_id) != compensations ||
			tq_template_at(flow->template, step->step_id) == NULL)
			continue;
		count++;
		step->task_id = tq_spi_int8(i, 2, 0);
		step->state = (TqState) tq_spi_int4(i, 3, 0);
		step->reason = (TqReason) tq_spi_int4(i, 4, 0);
		step->attempt = tq_spi_int4(i, 5, 0);
		step->is.ready = step->state == TQ_STATE_PENDING &&
						 tq_spi_time(i, 6, 0) <= now;
		step->queue_id = tq_spi_int4(i, 7, 0);
		step->created_at = tq_spi_time(i, 8, 0);
		step->claimed_at = tq_spi_time(i, 9, DT_NOBEGIN);
		step->finished_at = tq_spi_time(i, 10, 0);
		step->is.in_line = step->state == TQ_STATE_BLOCKED &&
						   tq_spi_bool(i, 11);
		step->is.claimed = tq_spi_bool(i, 12);
		step->is.waited = tq_spi_bool(i, 13);
		step->is.backoff = step->state == TQ_STATE_PENDING &&
						   !step->is.ready &&
						   (step->attempt > 0 || step->is.claimed);
	}
	tq_spi_leave(&spi);
	return count;
}

/* Run a query on the current state, or on the snapshot of the report. */
static uint64
look(const TqFlow *flow, TqStmt *stmt, const Datum *args, long limit)
{
	return flow->of_moment ? tq_spi_read(stmt, args, NULL, limit)
						   : tq_spi_look(stmt, args, NULL, limit);
}

/*
 * Raise TQ002.  The text is the same whether the instance does not exist or
 * the caller must not see it.
 */
void
tq_flow_missing(int64 workflow_id)
{
	ereport(ERROR,
			(errcode(ERRCODE_TQ_NO_SUCH_TASK),
			 errmsg("workflow " INT64_FORMAT " does not exist", workflow_id),
			 errdetail("{\"workflow_id\": " INT64_FORMAT "}", workflow_id)));
}

/*
 * What may current_user see of instances? 0: nothing, 1: the steps whose
 * queues it may observe, 2: also the contents, as far as they are not redacted
 * (flow_contents.c).
 */
int
tq_flow_sight(const TqTemplate *template)
{
	int any;
	int all;

	rights_of(template, &any, &all);
	if ((all & TQ_RIGHT_READ) != 0)
		return 2;
	return (any & TQ_RIGHT_OBSERVE) != 0 || tq_role_is_monitor() ? 1 : 0;
}

/* Did current_user start the instance, and may it still do so? */
bool
tq_flow_has_started(const TqFlow *flow)
{
	Oid role = tq_role_oid(flow->start.started_by);
	int any;
	int all;

	rights_of(flow->template, &any, &all);
	return (all & TQ_RIGHT_SUBMIT) != 0 && OidIsValid(role) &&
		   has_privs_of_role(GetUserId(), role);
}

/*
 * Read the instance as the active snapshot sees it.  Raises TQ002 or 42501 if
 * current_user may see nothing of it.  Returns the result of tq_flow_sight().
 */
int
tq_flow_look(int64 workflow_id, TqFlow *flow)
{
	tq_queue_refresh();
	if (!tq_flow_see(workflow_id, flow))
		tq_flow_missing(workflow_id);
	return tq_flow_require_sight(flow);
}

/* Like tq_flow_sight(), but raises TQ002 or 42501 instead of returning 0. */
int
tq_flow_require_sight(const TqFlow *flow)
{
	int sight = tq_flow_sight(flow->template);

	if (sight == 0)
		tq_flow_require(flow, TQ_RIGHT_OBSERVE, false);
	return sight;
}

/*
 * Require a right on all queues of the steps, or on one of them.  Raises TQ002
 * if current_user has no right at all on any of these queues, and 42501 if it
 * has only other rights.
 */
void
tq_flow_require(const TqFlow *flow, TqRight right, bool on_all)
{
	int any;
	int all;

	rights_of(flow->template, &any, &all);
	if (any == 0)
		tq_flow_missing(flow->workflow_id);
	if (((on_all ? all : any) & right) == 0)
		ereport(
			ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for workflow " INT64_FORMAT,
					flow->workflow_id),
			 errdetail(
				 "Privilege \"%s\" on the queues of its steps is required.",
				 tq_error_right_name(right))));
}

/*
 * Returns the rights of current_user on a step's queue, or, if the queue does
 * not exist, the rights that it has on every queue.
 */
int
tq_flow_rights(const TqStep *step)
{
	TqQueue *queue = tq_queue_find(step->queue);

	return queue == NULL ? tq_role_rights_all() : tq_role_rights(queue);
}

/* May current_user see the state of the step? */
bool
tq_flow_sees(const TqStep *step)
{
	return (tq_flow_rights(step) & TQ_RIGHT_OBSERVE) != 0 ||
		   tq_role_is_monitor();
}

static void
add_rights(const TqStep *step, int *any, int *all)
{
	int rights = tq_flow_rights(step);

	*any |= rights;
	*all &= rights;
}

/*
 * Find the rights that current_user has on at least one of the queues of the
 * steps and compensations, and the rights that it has on all of these queues.
 */
static void
rights_of(const TqTemplate *template, int *any, int *all)
{
	*any = 0;
	*all = TQ_RIGHT_ALL;
	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];

		add_rights(step, any, all);
		if (step->compensate != NULL)
			add_rights(step->compensate, any, all);
	}
	if (template->step_count == 0)
		*any = *all = tq_role_rights_all();
}

/*
 * Find the newest child instance of a step.  Returns false if there is none.
 */
bool
tq_flow_find_child(int64 task_id, TqFlow *child)
{
	Datum arg = Int64GetDatum(task_id);
	int64 workflow_id = tq_spi_find_id(&stmt_newest, &arg);

	return workflow_id != 0 && tq_flow_read(workflow_id, child);
}
