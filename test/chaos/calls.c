/*
 * calls.c
 *		Calls of a worker, about itself or about one task.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <string.h>

#include "client.h"

bool draining = false;

static int64_t next_beat = 0;

static Outcome step(const Task *task, End end, bool effect, bool undo,
					const char *what, const char *sql);

/* Completions in a queue whose name begins with "bare" write no effects. */
bool
has_effect(const Task *task)
{
	return strncmp(task->queue, "bare", 4) != 0;
}

void
register_worker(void)
{
	char    limit[32] = "";
	char    text[512];
	int     n = 0;
	long    op;
	Outcome outcome;

	for (int i = 0; i < own_queues.count; i++)
		n += snprintf(text + n, sizeof(text) - n, "%s%s", i > 0 ? "," : "",
					  own_queues.word[i]);
	if (max_running > 0)
		snprintf(limit, sizeof(limit), ", max_running => %d", max_running);
	ensure_connection();
	op = begin_op("register w=%s limit=%d bound=%d", name, max_running, bound);
	outcome = run(NULL, "SELECT taskq_register('%s', '{%s}', '{%s}'%s%s)",
				  name, text, own_tags, limit, bound ? ", bound => true" : "");
	end_op(op, outcome, "-");
	need_register = outcome != OK;
	next_beat = now_us() + heartbeat_ms * 1000;
}

/* True after a new registration, which holds no tasks. */
bool
beat_if_due(void)
{
	long    op;
	Outcome outcome;

	if (!registers || now_us() < next_beat)
		return false;
	ensure_connection();
	if (bound && need_register)
		return true;
	op = begin_op("heartbeat w=%s", name);
	outcome = run(NULL, "SELECT taskq_heartbeat('%s')", name);
	end_op(op, outcome, "-");
	next_beat = now_us() + heartbeat_ms * 1000;
	if (outcome == FAIL && strcmp(code, "TQ007") == 0)
		need_register = true;
	return need_register;
}

void
leave(void)
{
	long    op;
	Outcome outcome;

	ensure_connection();
	op = begin_op("deregister w=%s", name);
	outcome = run(NULL, "SELECT taskq_deregister('%s')", name);
	end_op(op, outcome, "-");
	need_register = true;
}

static Outcome
complete_so(const Task *task, End end, bool undone_before)
{
	char what[256] = "complete";
	char result[160] = "";
	char sql[512];

	if (is_step(task))
	{
		draw_result(task->key, result, sizeof(result));
		snprintf(what, sizeof(what), "complete result=%s", result);
	}
	snprintf(sql, sizeof(sql),
			 "taskq_complete(%" PRId64 ", %" PRId64
			 ", nullif('%s', '')::jsonb)",
			 task->task_id, task->token, result);
	return step(task, end, has_effect(task), undone_before, what, sql);
}

Outcome
complete(const Task *task, End end)
{
	return complete_so(task, end, false);
}

/* The same, after it was done and rolled back to a savepoint. */
Outcome
complete_after_undo(const Task *task)
{
	return complete_so(task, END_COMMIT, true);
}

/*
 * A change deletes it, in the version in which it was claimed.  That holds
 * after the end of the lease, too, until another worker claims the task: then
 * the task is cancelled (deleted).
 */
Outcome
complete_by_change(const Task *task)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
			 "count(*) FROM taskq_change('%s', deletes => '[{\"task_id\": "
			 "%" PRId64 ", \"version\": %" PRId64 "}]')",
			 name, task->task_id, task->version);
	return step(task, END_COMMIT, has_effect(task), false,
				"complete by=change", sql);
}

Outcome
fail(const Task *task)
{
	char sql[256];
	char what[64];
	int  retry_ms = draw(600);
	bool retryable = !percent(8);
	bool wait_given = percent(40);

	snprintf(what, sizeof(what), "fail retryable=%d retry_in=%d", retryable,
			 wait_given ? retry_ms * 1000 : -1);
	snprintf(sql, sizeof(sql),
			 "taskq_fail(%" PRId64 ", %" PRId64
			 ", 'no luck', %s, CASE WHEN %s THEN interval '%d ms' END)",
			 task->task_id, task->token, retryable ? "true" : "false",
			 wait_given ? "true" : "false", retry_ms);
	return step(task, END_AUTO, false, false, what, sql);
}

Outcome
release(const Task *task)
{
	char sql[256];
	char what[64];
	int  delay_ms = draw(2) * draw(500);

	snprintf(what, sizeof(what), "release delay=%d", delay_ms * 1000);
	snprintf(sql, sizeof(sql),
			 "taskq_release(%" PRId64 ", %" PRId64 ", '%d ms')", task->task_id,
			 task->token, delay_ms);
	return step(task, END_AUTO, false, false, what, sql);
}

Outcome
extend(const Task *task)
{
	char sql[256];
	char what[64];
	int  lease_ms = 300 + draw(900);

	snprintf(what, sizeof(what), "extend lease=%d", lease_ms * 1000);
	snprintf(sql, sizeof(sql),
			 "taskq_extend(%" PRId64 ", %" PRId64 ", '%d ms')", task->task_id,
			 task->token, lease_ms);
	return step(task, END_AUTO, false, false, what, sql);
}

Outcome
checkpoint(const Task *task)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
			 "taskq_checkpoint(%" PRId64 ", %" PRId64 ", '{\"half\": true}')",
			 task->task_id, task->token);
	return step(task, END_AUTO, false, false, "checkpoint", sql);
}

/*
 * One call on a task that this worker holds, or that another worker may hold
 * by now. what: the words of the log; sql: the call.
 */
static Outcome
step(const Task *task, End end, bool effect, bool undo, const char *what,
	 const char *sql)
{
	long    op;
	Outcome outcome;

	ensure_connection();
	op = begin_op(
		"%s id=%" PRId64 " token=%" PRId64 " w=%s effect=%d end=%s q=%s", what,
		task->task_id, task->token, name, effect, end_word[end], task->queue);
	outcome = tx_begin(end);
	if (outcome == OK && undo)
		outcome = run(NULL, "SAVEPOINT s");
	if (outcome == OK && undo)
		outcome = run(NULL, "SELECT %s", sql);
	if (outcome == OK && undo)
		outcome = run(NULL, "ROLLBACK TO s");
	if (outcome == OK && effect)
		outcome = run(NULL,
					  "INSERT INTO effect (task_id, token, key) VALUES"
					  " (%" PRId64 ", %" PRId64 ", '%s')",
					  task->task_id, task->token, task->key);
	if (outcome == OK)
		outcome = run(NULL, "SELECT %s", sql);
	outcome = tx_end(end, outcome);
	/* not ended, and not reclaimed: a registered worker would keep it */
	if (outcome != OK && strcmp(code, "TQ001") != 0 &&
		strcmp(code, "TQ010") != 0 && strcmp(code, "rollback") != 0)
		need_register |= registers;
	return end_op(op, outcome, "-");
}
