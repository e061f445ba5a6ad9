/*
 * signal.c
 *		taskq_signal: signals for steps of the types signal and approval.
 *
 * A signal is stored as one row for each step of its name.  A step that is
 * reached later finds its row, and of two signals the first one counts.  A
 * step that is retried waits for another signal; only its own row is deleted,
 * since other steps may not have been reached yet.  A call that signals locks
 * the instance exclusively, and a call that reaches a waiting step locks it in
 * share mode, so that one of the two sees the other.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/spi.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/key.h"
#include "engine/state.h"
#include "flow/definition/reach.h"
#include "flow/instance/flow.h"
#include "flow/instance/step_rule.h"
#include "flow/instance/waiting_step.h"
#include "flow/run/instance_lock.h"
#include "flow/run/signal.h"
#include "flow/run/tally.h"
#include "flow/run/wait_step.h"
#include "store/row.h"
#include "store/snapshot.h"

PG_FUNCTION_INFO_V1(taskq_signal);

static TqStmt stmt_add = {
	"INSERT INTO taskq.signal (workflow_id, step_id, payload, sent_by, sent_at)"
	" VALUES ($1, $2, $3, $4, $5)"
	" ON CONFLICT (workflow_id, step_id) DO NOTHING",
	{INT8OID, INT4OID, JSONBOID, INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_delete = {
	"DELETE FROM taskq.signal WHERE workflow_id = $1 AND step_id = $2",
	{INT8OID, INT4OID}};

static TqStmt stmt_sender = {
	"SELECT sent_by FROM taskq.signal WHERE workflow_id = $1 AND step_id = $2",
	{INT8OID, INT4OID}};

/* A step that can be made once.  Returns no rows if it does not exist. */
static TqStmt stmt_step = {
	"SELECT task_id, state::integer, reason::integer, suspended_at"
	"  FROM taskq.task WHERE workflow_id = $1 AND step_id = $2"
	" UNION ALL"
	" SELECT task_id, state::integer, reason::integer, NULL"
	"  FROM taskq.archive_keep WHERE workflow_id = $1 AND step_id = $2",
	{INT8OID, INT4OID}};

/* The current state of a step, regardless of the snapshot. */
typedef struct Now
{
	int64       task_id; /* 0: does not exist */
	TqState     state;
	TqReason    reason;
	bool        waits;
	TimestampTz since;
} Now;

static TqStepList find_steps(const TqFlow *flow, const char *name);
static void       check_right(const TqFlow *flow, const TqStepList *steps);
static void       check_payload(const TqFlow *flow, const TqStepList *steps,
								Jsonb *payload);
static void       require_submit(const TqFlow *flow, int place);
static void       check_step(const TqFlow *flow, int place, Jsonb *payload);
static void       check_role(const TqFlow *flow, int place);
static Now        look_at(const TqFlow *flow, int place);
static bool       is_member(const char *name);
static void       find_waiting(const TqFlow *flow, const TqStepList *steps,
							   TqStepList *wait, TqStepList *asked);
static bool       is_over(const Now *now);
static bool is_left_out(const TqFlow *flow, const TqStepRow *made, int count,
						int place);
static bool find_sender(const TqFlow *flow, int place, Oid *sender);
static bool may_give(const TqStep *step, Oid sender);
static TqStepList add_signals(const TqFlow *flow, const TqStepList *steps,
							  Jsonb *payload);
static bool       add_signal(const TqFlow *flow, int place, Jsonb *payload);
static bool give(TqCall *call, const TqFlow *flow, const TqStepList *steps,
				 const TqStepList *wait, Jsonb *payload);
static bool tell_steps(TqCall *call, const TqFlow *flow,
					   const TqStepList *steps, Jsonb *payload);
static bool tell_step(TqCall *call, const TqFlow *flow, int place,
					  Jsonb *payload);
static void has_ended(const TqFlow *flow) pg_attribute_noreturn();

/*
 * Returns true if the signal is the first one of its name for a step that
 * waits for it, or will wait.
 */
Datum
taskq_signal(PG_FUNCTION_ARGS)
{
	int64      workflow_id = tq_arg_int8(fcinfo, 0, "workflow_id");
	char      *name = tq_arg_name(fcinfo, 1, "name", NULL);
	Jsonb     *payload = tq_arg_jsonb(fcinfo, 2);
	bool       first;
	TqStepList steps;
	TqStepList wait;
	TqStepList asked;
	TqFlow     flow;
	TqCall     call;

	tq_call_begin(&call, "taskq_signal()");
	if (!tq_flow_read(workflow_id, &flow))
		tq_flow_missing(workflow_id);
	tq_flow_require(&flow, TQ_RIGHT_SUBMIT, false);
	steps = find_steps(&flow, name);
	if (steps.count == 0)
		tq_error_invalid("name", "is not the name of a signal of the workflow",
						 NULL);
	check_right(&flow, &steps);
	check_payload(&flow, &steps, payload);
	(void) tq_instance_lock_acquire(&call, &flow, NULL, TQ_FLOW_LOCK_ALONE);
	tq_key_lock_names(&call, NULL, 0);
	tq_call_steps(&call)->locked = true;
	tq_snapshot_renew();
	if (!tq_flow_read(workflow_id, &flow))
		tq_flow_missing(workflow_id);
	if (flow.state != TQ_FLOW_LIVE)
		has_ended(&flow);
	find_waiting(&flow, &steps, &wait, &asked);
	/* check the right even if no step can use the signal */
	if (asked.count == 0)
		asked = steps;
	for (int i = 0; i < asked.count; i++)
		check_step(&flow, asked.places[i], payload);
	first = give(&call, &flow, &steps, &wait, payload);
	tq_call_end(&call);
	PG_RETURN_BOOL(first);
}

/* Returns false if all waiting steps have already been given a signal. */
static bool
give(TqCall *call, const TqFlow *flow, const TqStepList *steps,
	 const TqStepList *wait, Jsonb *payload)
{
	TqStepList given = add_signals(flow, wait, payload);
	TqStepList others;
	TqStepList left;
	TqStepList asked;

	if (given.count == 0)
		return false;
	/* for steps that may be created, or created again, later */
	others = add_signals(flow, steps, payload);
	if (tell_steps(call, flow, &given, payload))
		return true;
	find_waiting(flow, &given, &left, &asked);
	if (left.count > 0)
		return true;
	/* the steps had timed out before */
	for (int i = 0; i < given.count; i++)
		tq_signal_forget(flow->workflow_id, given.places[i]);
	for (int i = 0; i < others.count; i++)
		tq_signal_forget(flow->workflow_id, others.places[i]);
	return false;
}

/* The steps that wait for a signal of the name. */
static TqStepList
find_steps(const TqFlow *flow, const char *name)
{
	const TqTemplate *template = flow->template;
	TqStepList steps = {0};

	steps.places = palloc(sizeof(int) * (template->step_count + 1));
	for (int i = 0; i < template->step_count; i++)
	{
		if (tq_passive_takes_signal(&template->steps[i]) &&
			strcmp(template->steps[i].wait->signal, name) == 0)
			steps.places[steps.count++] = i;
	}
	return steps;
}

/*
 * A role that may signal none of the steps must not wait for the instance
 * lock.
 */
static void
check_right(const TqFlow *flow, const TqStepList *steps)
{
	for (int i = 0; i < steps->count; i++)
	{
		const TqStep *step = &flow->template->steps[steps->places[i]];

		if ((tq_flow_rights(step) & TQ_RIGHT_SUBMIT) != 0)
			return;
	}
	require_submit(flow, steps->places[0]);
}

static void
require_submit(const TqFlow *flow, int place)
{
	TqQueue *queue = tq_queue_find(flow->template->steps[place].queue);

	if (queue != NULL)
		tq_role_require(queue, TQ_RIGHT_SUBMIT);
	else
		tq_role_require_all(TQ_RIGHT_SUBMIT);
}

/* Check that the payload can become the result of the step. */
static void
check_step(const TqFlow *flow, int place, Jsonb *payload)
{
	TqQueue *queue = tq_queue_find(flow->template->steps[place].queue);
	int      largest = queue != NULL ? queue->options.max_payload
									 : tq_queue_defaults()->max_payload;

	require_submit(flow, place);
	check_role(flow, place);
	if (payload != NULL && VARSIZE(payload) > largest)
		tq_error_too_large("payload", VARSIZE(payload), largest);
}

/* The payload of an approval must contain "approved". */
static void
check_payload(const TqFlow *flow, const TqStepList *steps, Jsonb *payload)
{
	for (int i = 0; i < steps->count; i++)
	{
		JsonbValue value;

		if (flow->template->steps[steps->places[i]].type != TQ_STEP_APPROVAL)
			continue;
		if (payload == NULL || !JB_ROOT_IS_OBJECT(payload) ||
			getKeyJsonValueFromContainer(&payload->root, "approved", 8,
										 &value) == NULL ||
			value.type != jbvBool)
			tq_error_invalid("payload",
							 "must be an object whose member \"approved\" is "
							 "true or false",
							 NULL);
	}
}

/* If an approval names roles, only their members may give it. */
static void
check_role(const TqFlow *flow, int place)
{
	const TqStep           *step = &flow->template->steps[place];
	const TqWaitDefinition *wait = step->wait;

	if (wait->role == NULL || is_member(wait->role))
		return;
	if (wait->escalate_to != NULL && is_member(wait->escalate_to))
	{
		Now now = look_at(flow, place);

		if (now.waits && now.since + wait->escalate_after <= tq_clock_wall())
			return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to approve step \"%s\"", step->name),
			 errdetail("Only members of role \"%s\" can approve it.",
					   wait->role)));
}

static bool
is_member(const char *name)
{
	Oid role = get_role_oid(name, true);

	return OidIsValid(role) && has_privs_of_role(GetUserId(), role);
}

static Now
look_at(const TqFlow *flow, int place)
{
	Datum args[2] = {Int64GetDatum(flow->workflow_id), Int32GetDatum(place)};
	Now   now = {0};
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_step, args, NULL, 1) > 0)
	{
		now.task_id = tq_spi_int8(0, 1, 0);
		now.state = (TqState) tq_spi_int4(0, 2, 0);
		now.reason = (TqReason) tq_spi_int4(0, 3, 0);
		now.waits = now.state == TQ_STATE_SUSPENDED &&
					now.reason == TQ_REASON_NONE;
		now.since = tq_spi_time(0, 4, 0);
	}
	tq_spi_leave(&spi);
	return now;
}

/*
 * Sets wait to the steps that wait for a signal, or will wait once they are
 * made or reached; steps that have ended or were skipped by a choice are not
 * included.  Sets asked to these steps and to steps that may wait after a
 * repair, and would then find the signal.
 */
static void
find_waiting(const TqFlow *flow, const TqStepList *steps, TqStepList *wait,
			 TqStepList *asked)
{
	TqStepRow *made = NULL;
	bool      *skipped = NULL;
	int        count = 0;

	wait->places = palloc(sizeof(int) * (steps->count + 1));
	asked->places = palloc(sizeof(int) * (steps->count + 1));
	wait->count = asked->count = 0;
	for (int i = 0; i < steps->count; i++)
	{
		int  place = steps->places[i];
		Now  now = look_at(flow, place);
		bool waits;
		bool again;

		if (now.task_id == 0 && skipped == NULL)
		{
			count = tq_flow_steps(flow, &made);
			skipped = tq_tally_skipped(flow, made, count);
		}
		if (now.task_id == 0)
		{
			waits = !skipped[place];
			again = !waits && !is_left_out(flow, made, count, place);
		}
		else
		{
			waits = TQ_STATE_IS_LIVE(now.state);
			again = !is_over(&now);
		}
		if (waits)
			wait->places[wait->count++] = place;
		if (waits || again)
			asked->places[asked->count++] = place;
	}
}

/*
 * Has the step ended so that it waits for another signal after a retry
 * (repair.c)?
 */
static bool
is_over(const Now *now)
{
	return now->state == TQ_STATE_DONE || now->state == TQ_STATE_DEAD ||
		   (now->state == TQ_STATE_CANCELLED &&
			now->reason != TQ_REASON_DEPENDENCY_FAILED);
}

/*
 * Was the step skipped by a choice that cannot be made again, because a step
 * that follows from it has begun?  If several choices skipped it, the
 * outermost one counts.
 */
static bool
is_left_out(const TqFlow *flow, const TqStepRow *made, int count, int place)
{
	TqTemplate *template = flow->template;
	int   decision = -1;
	bool *exists = palloc0(sizeof(bool) * (template->step_count + 1));
	bool *below;

	for (int i = 0; i < count; i++)
		exists[TQ_STEP_INDEX(made[i].step_id)] = true;
	for (int region = template->steps[place].region; region > 0;
		 region = template->regions[region].parent)
	{
		if (!exists[template->regions[region].child])
			decision = template->regions[region].decision;
	}
	if (decision < 0)
		return false;
	below = tq_reach_below(template, decision);
	for (int i = 0; i < count; i++)
	{
		int at = TQ_STEP_INDEX(made[i].step_id);

		if (below[at] &&
			tq_step_rule_has_begun(&template->steps[at], made[i].state,
								   made[i].reason, made[i].is.claimed,
								   made[i].is.waited))
			return true;
	}
	return false;
}

/*
 * A choice will be made again, and may create steps that could not exist when
 * a signal was given.  Keep the signal only for steps that its sender may
 * signal.
 */
void
tq_signal_check_again(const TqFlow *flow, const bool *places)
{
	const TqTemplate *template = flow->template;

	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];
		Oid           sender;

		if (places[i] && tq_passive_takes_signal(step) &&
			find_sender(flow, i, &sender) && !may_give(step, sender))
			tq_signal_forget(flow->workflow_id, i);
	}
}

/* Returns false if no signal was given. */
static bool
find_sender(const TqFlow *flow, int place, Oid *sender)
{
	Datum args[2] = {Int64GetDatum(flow->workflow_id), Int32GetDatum(place)};
	int32 role_id = 0;
	bool  found;
	TqSpi spi;

	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_sender, args, NULL, 1) > 0;
	if (found)
		role_id = tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);
	*sender = tq_role_oid(role_id);
	return found;
}

/* A role that no longer exists may not give a signal. */
static bool
may_give(const TqStep *step, Oid sender)
{
	TqQueue *queue = tq_queue_find(step->queue);
	Oid      role;

	if (!OidIsValid(sender))
		return false;
	if (((queue != NULL ? tq_role_rights_of(sender, queue)
						: tq_role_rights_all_of(sender)) &
		 TQ_RIGHT_SUBMIT) == 0)
		return false;
	if (step->wait->role == NULL)
		return true;
	role = get_role_oid(step->wait->role, true);
	return OidIsValid(role) && has_privs_of_role(sender, role);
}

/*
 * Add a signal for these steps.  Returns the steps that had no signal before.
 */
static TqStepList
add_signals(const TqFlow *flow, const TqStepList *steps, Jsonb *payload)
{
	TqStepList added = {0};

	added.places = palloc(sizeof(int) * (steps->count + 1));
	for (int i = 0; i < steps->count; i++)
	{
		if (add_signal(flow, steps->places[i], payload))
			added.places[added.count++] = steps->places[i];
	}
	return added;
}

/* Returns false if the step already has a signal. */
static bool
add_signal(const TqFlow *flow, int place, Jsonb *payload)
{
	Datum args[5];
	bool  nulls[5] = {false, false, payload == NULL};

	args[0] = Int64GetDatum(flow->workflow_id);
	args[1] = Int32GetDatum(place);
	args[2] = payload == NULL ? (Datum) 0 : JsonbPGetDatum(payload);
	args[3] = Int32GetDatum(tq_role_intern(GetUserId()));
	args[4] = TimestampTzGetDatum(tq_clock_wall());
	return tq_spi_execute(&stmt_add, args, nulls, SPI_OK_INSERT) == 1;
}

/* Delete the signal of a step, so that it can wait for another one. */
void
tq_signal_forget(int64 workflow_id, int place)
{
	Datum args[2] = {Int64GetDatum(workflow_id), Int32GetDatum(place)};

	tq_spi_execute(&stmt_delete, args, NULL, SPI_OK_DELETE);
}

/* End the steps that are waiting.  Returns false if no step was waiting. */
static bool
tell_steps(TqCall *call, const TqFlow *flow, const TqStepList *steps,
		   Jsonb *payload)
{
	bool told = false;

	for (int i = 0; i < steps->count; i++)
		told |= tell_step(call, flow, steps->places[i], payload);
	return told;
}

static bool
tell_step(TqCall *call, const TqFlow *flow, int place, Jsonb *payload)
{
	for (;;)
	{
		TqMove   move = {0};
		TqTask   task;
		TqQueue *queue;
		Now      now;

		CHECK_FOR_INTERRUPTS();
		now = look_at(flow, place);
		if (!now.waits)
			return false;
		tq_snapshot_renew();
		if (!tq_row_find(call, now.task_id, &task) ||
			!tq_waiting_step_is(&task) ||
			(queue = tq_queue_by_id(task.f.queue_id)) == NULL)
		{
			if (IsolationUsesXactSnapshot())
				tq_error_serialization();
			continue;
		}
		move.wanted = "signal";
		tq_wait_step_end(&flow->template->steps[place], &task, payload, &move);
		if (tq_state_enter(call, queue, &task, &move))
			return true;
	}
}

/* Raise TQ005. */
static void
has_ended(const TqFlow *flow)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_INVALID_TRANSITION),
		 errmsg("cannot signal workflow " INT64_FORMAT " because it has ended",
				flow->workflow_id),
		 errdetail("{\"workflow_id\": " INT64_FORMAT "}", flow->workflow_id)));
}
