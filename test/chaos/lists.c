/*
 * lists.c
 *		Calls of a worker about several tasks at once.
 *
 * In the log each task of such a call is an operation of its own, as if it had
 * been ended alone at that time (many=1). The effects of completions are
 * written in the transaction of the call: before it if the call does all or
 * nothing, otherwise for those tasks that it reports as done.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <string.h>

#include "client.h"

/* The tasks of a call, as its arguments and as operations of the log. */
typedef struct List
{
	const Task *tasks;
	int         count;
	char        what[MAX_TASKS][192];   /* the first words of the log */
	char        result[MAX_TASKS][160]; /* of a step; else empty */
	long        op[MAX_TASKS];
	char        ids[MAX_TASKS * 24];
	char        tokens[MAX_TASKS * 24];
	char        keys[MAX_TASKS * 64];
} List;

static void    make_list(List *list, const Task *tasks, int count,
						 const char *what);
static void    draw_decision(List *list, int i, char *json, size_t room);
static bool    completes(const List *list, int i);
static void    join_results(const List *list, char *text, size_t size);
static void    begin_list(List *list, bool effect, End end);
static bool    end_list(const List *list, Outcome outcome, PGresult *res);
static Outcome write_effects(const List *list, const char *which);
static Outcome complete_strictly(const List *list, PGresult **res);
static Outcome complete_loosely(const List *list, bool effect, PGresult **res);

bool
complete_many(const Task *tasks, int count)
{
	List      list;
	bool      effect = has_effect(&tasks[0]);
	bool      strict = percent(50);
	End       end = draining      ? END_COMMIT
					: percent(90) ? END_COMMIT
					: percent(50) ? END_ROLLBACK
								  : END_PREPARED_COMMIT;
	PGresult *res = NULL;
	Outcome   outcome;

	make_list(&list, tasks, count, "complete");
	ensure_connection();
	begin_list(&list, effect, end);
	outcome = tx_begin(end);
	if (outcome == OK && strict && effect)
		outcome = write_effects(&list, list.ids);
	if (outcome == OK)
		outcome = strict ? complete_strictly(&list, &res)
						 : complete_loosely(&list, effect, &res);
	return end_list(&list, tx_end(end, outcome), res);
}

/*
 * Each task ends in its own way.  All or nothing, as the effects of those
 * that are completed are written before.
 */
bool
decide_many(const Task *tasks, int count)
{
	char      decisions[3 * TEXT];
	char      done[MAX_TASKS * 24] = "";
	int       n = 0;
	int       done_n = 0;
	List      list;
	bool      effect = has_effect(&tasks[0]);
	PGresult *res = NULL;
	Outcome   outcome;

	make_list(&list, tasks, count, NULL);
	for (int i = 0; i < count; i++)
	{
		char decision[256];

		draw_decision(&list, i, decision, sizeof(decision));
		n += snprintf(
			decisions + n, sizeof(decisions) - n,
			"%s{\"task_id\": %" PRId64 ", \"token\": %" PRId64 ", %s}",
			i > 0 ? ", " : "", tasks[i].task_id, tasks[i].token, decision);
		if (completes(&list, i))
			done_n += snprintf(done + done_n, sizeof(done) - done_n,
							   "%s%" PRId64, done_n > 0 ? "," : "",
							   tasks[i].task_id);
	}
	ensure_connection();
	begin_list(&list, effect, END_COMMIT);
	outcome = tx_begin(END_COMMIT);
	if (outcome == OK && effect && done_n > 0)
		outcome = write_effects(&list, done);
	if (outcome == OK)
		outcome = run(&res,
					  "SELECT ok, error_code FROM taskq_decide_many('[%s]')",
					  decisions);
	return end_list(&list, tx_end(END_COMMIT, outcome), res);
}

/* Complete these tasks, and claim others. */
bool
complete_and_claim(Task *tasks, int *count)
{
	Task      next[MAX_TASKS];
	char      words[3 * TEXT / 2] = "-";
	char      queue[64];
	char      results[3 * TEXT];
	List      list;
	bool      effect = has_effect(&tasks[0]);
	int       want = 1 + draw(6);
	int       got = 0;
	long      op;
	PGresult *res;
	Outcome   outcome;

	make_list(&list, tasks, *count, "complete");
	snprintf(queue, sizeof(queue), "%s", tasks[0].queue);
	ensure_connection();
	if (bound && need_register)
		return false;
	join_results(&list, results, sizeof(results));
	begin_list(&list, effect, END_COMMIT);
	op = begin_claim(queue, want, 0, 0, END_COMMIT, "queue");
	outcome = tx_begin(END_COMMIT);
	if (outcome == OK && effect)
		outcome = write_effects(&list, list.ids);
	if (outcome == OK)
		outcome = run(&res,
					  "SELECT " CLAIMED NOTED " FROM taskq_complete_and_claim("
					  "'{%s}', '{%s}', %s, '%s', '%s', %d, tags => '{%s}')",
					  list.ids, list.tokens, results, queue, name, want,
					  draining ? "a,b" : own_tags);
	if (outcome == OK)
		got = read_claim(res, queue, words, sizeof(words), next);
	outcome = tx_end(END_COMMIT, outcome);
	for (int i = 0; i < list.count; i++)
		end_op(list.op[i], outcome, "-");
	end_claim(op, outcome, words, "-");
	if (outcome != OK)
		return false;
	memcpy(tasks, next, sizeof(Task) * got);
	*count = got;
	return true;
}

void
extend_many(const Task *tasks, int count)
{
	char      text[64];
	List      list;
	int       lease_ms = 300 + draw(900);
	PGresult *res = NULL;
	Outcome   outcome;

	snprintf(text, sizeof(text), "extend lease=%d", lease_ms * 1000);
	make_list(&list, tasks, count, text);
	ensure_connection();
	begin_list(&list, false, END_AUTO);
	outcome = run(&res,
				  "SELECT ok, 'TQ001' FROM taskq_extend_many('{%s}', '{%s}',"
				  " '%d ms')",
				  list.ids, list.tokens, lease_ms);
	(void) end_list(&list, outcome, res);
}

/* what: the same for all, or NULL: to be filled in */
static void
make_list(List *list, const Task *tasks, int count, const char *what)
{
	int ids = 0;
	int tokens = 0;
	int keys = 0;

	list->tasks = tasks;
	list->count = count;
	for (int i = 0; i < count; i++)
	{
		const char *comma = i > 0 ? "," : "";

		bool completes_all = what != NULL && strcmp(what, "complete") == 0;

		list->result[i][0] = '\0';
		if (is_step(&tasks[i]) && (what == NULL || completes_all))
			draw_result(tasks[i].key, list->result[i],
						sizeof(list->result[0]));
		snprintf(list->what[i], sizeof(list->what[0]), "%s%s%s",
				 what != NULL ? what : "",
				 completes_all && list->result[i][0] ? " result=" : "",
				 completes_all ? list->result[i] : "");
		ids += snprintf(list->ids + ids, sizeof(list->ids) - ids, "%s%" PRId64,
						comma, tasks[i].task_id);
		tokens += snprintf(list->tokens + tokens,
						   sizeof(list->tokens) - tokens, "%s%" PRId64, comma,
						   tasks[i].token);
		keys += snprintf(list->keys + keys, sizeof(list->keys) - keys, "%s%s",
						 comma, tasks[i].key);
	}
}

/* How one task ends: as words of the log, and as members of an object. */
static void
draw_decision(List *list, int i, char *json, size_t room)
{
	char  *what = list->what[i];
	size_t size = sizeof(list->what[0]);
	char  *result = list->result[i];
	int    kind = draw(100);
	int    wait_ms = draw(400);

	if (kind < 80)
	{
		snprintf(what, size, "complete%s%s", result[0] ? " result=" : "",
				 result);
		snprintf(json, room, "\"outcome\": \"complete\"%s%s",
				 result[0] ? ", \"result\": " : "", result);
	}
	else if (kind < 92)
	{
		snprintf(what, size, "fail retryable=1 retry_in=%d", wait_ms * 1000);
		snprintf(json, room,
				 "\"outcome\": \"fail\", \"error\": \"no luck\","
				 " \"retry_in\": \"%d ms\"",
				 wait_ms);
	}
	else
	{
		snprintf(what, size, "release delay=%d", wait_ms * 1000);
		snprintf(json, room, "\"outcome\": \"release\", \"delay\": \"%d ms\"",
				 wait_ms);
	}
}

static bool
completes(const List *list, int i)
{
	return strncmp(list->what[i], "complete", 8) == 0;
}

/* An array as argument: NULL if no task is a step */
static void
join_results(const List *list, char *text, size_t size)
{
	bool any = false;
	int  n = snprintf(text, size, "ARRAY[");

	for (int i = 0; i < list->count; i++)
	{
		const char *result = list->result[i];

		any |= result[0] != '\0';
		n += snprintf(text + n, size - n, "%s%s%s%s", i > 0 ? "," : "",
					  result[0] ? "'" : "", result[0] ? result : "NULL",
					  result[0] ? "'" : "");
	}
	snprintf(text + n, size - n, "]::jsonb[]");
	if (!any)
		snprintf(text, size, "NULL");
}

static void
begin_list(List *list, bool effect, End end)
{
	for (int i = 0; i < list->count; i++)
	{
		const Task *task = &list->tasks[i];

		list->op[i] = begin_op("%s id=%" PRId64 " token=%" PRId64
							   " w=%s effect=%d end=%s q=%s many=1",
							   list->what[i], task->task_id, task->token, name,
							   effect && completes(list, i), end_word[end],
							   task->queue);
	}
}

/*
 * The result of each task, from rows of ok and error_code. Returns false if no
 * task was ended, or if this is not known: the worker may still hold all of
 * them.
 */
static bool
end_list(const List *list, Outcome outcome, PGresult *res)
{
	for (int i = 0; i < list->count; i++)
	{
		if (outcome != OK)
			end_op(list->op[i], outcome, "-");
		else if (i < PQntuples(res) && strcmp(PQgetvalue(res, i, 0), "t") == 0)
			end_op(list->op[i], OK, "-");
		else
		{
			snprintf(code, sizeof(code), "%s",
					 i < PQntuples(res) ? PQgetvalue(res, i, 1) : "none");
			end_op(list->op[i], FAIL, "-");
		}
	}
	PQclear(res);
	return outcome == OK;
}

/* Effects of those tasks of the list. */
static Outcome
write_effects(const List *list, const char *which)
{
	return run(NULL,
			   "INSERT INTO effect (task_id, token, key)"
			   " SELECT id, token, key FROM unnest('{%s}'::bigint[],"
			   " '{%s}'::bigint[], '{%s}'::text[]) AS t (id, token, key)"
			   " WHERE id = ANY ('{%s}')",
			   list->ids, list->tokens, list->keys, which);
}

static Outcome
complete_strictly(const List *list, PGresult **res)
{
	char results[3 * TEXT];

	join_results(list, results, sizeof(results));
	return run(res,
			   "SELECT ok, error_code FROM taskq_complete_many('{%s}', '{%s}',"
			   " %s, true)",
			   list->ids, list->tokens, results);
}

static Outcome
complete_loosely(const List *list, bool effect, PGresult **res)
{
	char results[3 * TEXT];

	join_results(list, results, sizeof(results));
	if (!effect)
		return run(res,
				   "SELECT ok, error_code FROM taskq_complete_many('{%s}',"
				   " '{%s}', %s)",
				   list->ids, list->tokens, results);
	return run(
		res,
		"WITH r AS MATERIALIZED (SELECT * FROM taskq_complete_many("
		"'{%s}', '{%s}', %s) WITH ORDINALITY AS r (task_id, ok, code, n)),"
		" e AS (INSERT INTO effect (task_id, token, key)"
		" SELECT t.id, t.token, t.key FROM unnest('{%s}'::bigint[],"
		" '{%s}'::bigint[], '{%s}'::text[]) AS t (id, token, key)"
		" JOIN r ON r.task_id = t.id WHERE r.ok)"
		" SELECT ok, code FROM r ORDER BY n",
		list->ids, list->tokens, results, list->ids, list->tokens, list->keys);
}
