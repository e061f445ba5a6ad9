/*
 * error.c
 *		The errors of the contract.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/builtins.h"
#include "utils/json.h"

#include "base/error.h"

/* {"name": "value"} */
static char *
detail_word(const char *name, const char *value)
{
	StringInfoData buf;

	initStringInfo(&buf);
	appendStringInfo(&buf, "{\"%s\": ", name);
	escape_json(&buf, value);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

const char *
tq_error_right_name(TqRight right)
{
	switch (right)
	{
		case TQ_RIGHT_SUBMIT:
			return "submit";
		case TQ_RIGHT_WORK:
			return "work";
		case TQ_RIGHT_READ:
			return "read";
		case TQ_RIGHT_MANAGE:
			return "manage";
		case TQ_RIGHT_OBSERVE:
			return "observe";
	}
	return "?";
}

/* The text is the same whether or not the task exists, to reveal nothing. */
void
tq_error_lease_lost(int64 task_id)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_LEASE_LOST),
		 errmsg("claim on task " INT64_FORMAT " is no longer valid", task_id),
		 errdetail("{\"task_id\": " INT64_FORMAT "}", task_id),
		 errhint(
			 "The lease expired, the task has ended, or another worker has claimed it. Discard the work and claim the next task.")));
	pg_unreachable();
}

void
tq_error_no_such_task(int64 task_id)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_NO_SUCH_TASK),
		 errmsg("task " INT64_FORMAT " does not exist", task_id),
		 errdetail("{\"task_id\": " INT64_FORMAT "}", task_id),
		 errhint(
			 "It may have been removed by retention, or you have no privilege on its queue.")));
	pg_unreachable();
}

void
tq_error_no_such_queue(const char *queue)
{
	const char *hint = tq_error_payload_hint(queue);

	if (hint == NULL)
		hint =
			"Check the queue name, or create the queue with taskq_create_queue().";
	ereport(ERROR, (errcode(ERRCODE_TQ_NO_SUCH_QUEUE),
					errmsg("queue \"%s\" does not exist", queue),
					errdetail_internal("%s", detail_word("queue", queue)),
					errhint("%s", hint)));
	pg_unreachable();
}

/* Returns a hint if the name of a queue looks like JSON, otherwise NULL. */
const char *
tq_error_payload_hint(const char *queue)
{
	char first = queue[strspn(queue, " \t\r\n")];

	return first != '{' && first != '['
			   ? NULL
			   : "The queue is the first argument; to submit to queue \"default\", write payload => in front of the payload.";
}

void
tq_error_no_such_worker(const char *worker, bool dead)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_NO_SUCH_WORKER),
		 dead ? errmsg("worker \"%s\" has been declared dead", worker)
			  : errmsg("worker \"%s\" is not registered", worker),
		 errdetail_internal("%s", detail_word("worker", worker)),
		 dead
			 ? errhint(
				   "Its tasks have been reclaimed. Discard unfinished work and call taskq_register() again.")
			 : errhint("Register the worker with taskq_register().")));
	pg_unreachable();
}

/* Another process has registered the name since. */
void
tq_error_worker_again(const char *worker)
{
	ereport(ERROR,
			(errcode(ERRCODE_TQ_NO_SUCH_WORKER),
			 errmsg("worker \"%s\" has been registered by another process",
					worker),
			 errdetail_internal("%s", detail_word("worker", worker)),
			 errhint("Use a unique worker name for each process.")));
	pg_unreachable();
}

void
tq_error_invalid_option(const char *option, const char *problem,
						const char *hint)
{
	ereport(ERROR, (errcode(ERRCODE_TQ_INVALID_OPTION),
					errmsg("queue option \"%s\" %s", option, problem),
					errdetail_internal("%s", detail_word("option", option)),
					errhint("%s", hint)));
	pg_unreachable();
}

static void
invalid_transition(int64 task_id, TqState from, const char *wanted,
				   const char *hint)
{
	const char *name = tq_state_name(from);

	ereport(ERROR,
			(errcode(ERRCODE_TQ_INVALID_TRANSITION),
			 errmsg("cannot %s task " INT64_FORMAT " because it is %s", wanted,
					task_id, name ? name : "?"),
			 errdetail("{\"task_id\": " INT64_FORMAT ", \"state\": \"%s\"}",
					   task_id, name ? name : "?"),
			 hint ? errhint("%s", hint) : 0));
}

void
tq_error_invalid_transition(int64 task_id, TqState from, const char *wanted)
{
	invalid_transition(task_id, from, wanted, NULL);
	pg_unreachable();
}

/* The task is running; with force the caller can take it from its worker. */
void
tq_error_needs_force(int64 task_id, const char *wanted)
{
	invalid_transition(task_id, TQ_STATE_RUNNING, wanted,
					   "Use force => true to take the task from its worker.");
	pg_unreachable();
}

void
tq_error_queue_exists(const char *queue)
{
	ereport(ERROR, (errcode(ERRCODE_TQ_ALREADY_EXISTS),
					errmsg("queue \"%s\" already exists", queue),
					errdetail_internal("%s", detail_word("queue", queue))));
	pg_unreachable();
}

void
tq_error_reference_exists(const char *reference, int64 task_id, TqState state)
{
	const char *name = tq_state_name(state);

	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_ALREADY_EXISTS),
		 TQ_STATE_IS_LIVE(state)
			 ? errmsg("task with reference \"%s\" already exists", reference)
			 : errmsg("reference \"%s\" is still reserved by a finished task",
					  reference),
		 errdetail("{\"task_id\": " INT64_FORMAT ", \"state\": \"%s\"}",
				   task_id, name ? name : "?"),
		 errhint(
			 "Use on_conflict => 'return' or 'skip' to accept the existing task.")));
	pg_unreachable();
}

void
tq_error_queue_full(const char *queue, int64 max_depth, int64 retry_after_ms)
{
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfoString(&detail, "{\"queue\": ");
	escape_json(&detail, queue);
	appendStringInfo(&detail,
					 ", \"max_depth\": " INT64_FORMAT
					 ", \"retry_after_ms\": " INT64_FORMAT "}",
					 max_depth, retry_after_ms);
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_QUEUE_FULL), errmsg("queue \"%s\" is full", queue),
		 errdetail_internal("%s", detail.data),
		 errhint(
			 "The queue accepts at most " INT64_FORMAT
			 " live tasks (option \"max_depth\"). Submit again later, or raise the limit with taskq_alter_queue().",
			 max_depth)));
	pg_unreachable();
}

void
tq_error_version(int64 task_id, int64 wanted, int64 found)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_TQ_CONFLICT),
		 errmsg("version of task " INT64_FORMAT " has changed", task_id),
		 errdetail("{\"problems\": [{\"task_id\": " INT64_FORMAT
				   ", \"error_code\": \"TQ010\", \"version\": " INT64_FORMAT
				   ", \"found\": " INT64_FORMAT "}]}",
				   task_id, wanted, found),
		 errhint("Expected version " INT64_FORMAT
				 " but found version " INT64_FORMAT
				 ". Read the task with taskq_get() and retry.",
				 wanted, found)));
	pg_unreachable();
}

static void
too_much(const char *problem, const char *what, int64 size, int64 limit,
		 const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_TQ_TOO_LARGE), errmsg_internal("%s", problem),
			 errdetail("{\"what\": \"%s\", \"size\": " INT64_FORMAT
					   ", \"limit\": " INT64_FORMAT "}",
					   what, size, limit),
			 hint ? errhint("%s", hint) : 0));
}

static void
too_large(const char *what, int64 size, int64 limit, const char *hint)
{
	too_much(psprintf("%s is too large: size " INT64_FORMAT
					  ", maximum size " INT64_FORMAT,
					  what, size, limit),
			 what, size, limit, hint);
}

void
tq_error_too_large(const char *what, int64 size, int64 limit)
{
	too_large(what, size, limit, NULL);
	pg_unreachable();
}

/* A document that exceeds option max_payload of its queue. */
void
tq_error_max_payload(const char *what, int64 size, int64 limit)
{
	too_large(what, size, limit,
			  "Raise queue option \"max_payload\" with taskq_alter_queue().");
	pg_unreachable();
}

/* Raise the same error for a name or another string. */
void
tq_error_too_long(const char *what, int64 size, int64 limit, const char *hint)
{
	too_much(psprintf("%s is too long: length " INT64_FORMAT
					  ", maximum length " INT64_FORMAT,
					  what, size, limit),
			 what, size, limit, hint);
	pg_unreachable();
}

void
tq_error_too_many_tags(int64 count, int64 limit)
{
	too_much(
		psprintf("too many different sets of tags in the queue: " INT64_FORMAT
				 ", maximum " INT64_FORMAT,
				 count, limit),
		"number of different sets of tags in the queue", count, limit,
		"Use fewer sets of tags at a time, or increase \"taskq.max_lanes\". Only the sets of live tasks count.");
	pg_unreachable();
}

void
tq_error_no_right(const char *queue, TqRight right)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		 errmsg("permission denied for queue \"%s\"", queue),
		 errdetail("Privilege \"%s\" is required.",
				   tq_error_right_name(right)),
		 errhint(
			 "Ask a role that can manage the queue to run: SELECT taskq_grant(%s, %s, '{%s}');",
			 quote_literal_cstr(queue),
			 quote_literal_cstr(GetUserNameFromId(GetUserId(), false)),
			 tq_error_right_name(right))));
	pg_unreachable();
}

/* For a task named by its id: the error does not reveal the queue. */
void
tq_error_task_right(int64 task_id, TqRight right)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied for task " INT64_FORMAT, task_id),
			 errdetail("Privilege \"%s\" on its queue is required.",
					   tq_error_right_name(right))));
	pg_unreachable();
}

void
tq_error_not_preloaded(const char *what)
{
	ereport(
		ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg(
			 "%s requires taskq to be loaded via \"shared_preload_libraries\"",
			 what),
		 errhint(
			 "Add taskq to \"shared_preload_libraries\" and restart the server.")));
	pg_unreachable();
}

/* A value that is not allowed: 22023. */
void
tq_error_invalid(const char *what, const char *problem, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s %s", what, problem), hint ? errhint("%s", hint) : 0));
	pg_unreachable();
}

/* A required argument that is NULL: 22004. */
void
tq_error_required(const char *what)
{
	ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					errmsg("%s must not be null", what)));
	pg_unreachable();
}

void
tq_error_serialization(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("could not serialize access due to concurrent update")));
	pg_unreachable();
}
