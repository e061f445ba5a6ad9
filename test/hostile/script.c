/*
 * script.c
 *		The same calls under each setting must give the same answers.
 *
 * Answers are fetched in binary form, so that a difference is one of the
 * extension and not of how the session shows values.  They are compared
 * without times, and with new ids relative to the first.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

/* No backslash in a string here; %i, %t, %q are those of the context. */
static const struct
{
	const char *context;
	const char *sql;
} script[] = {
	{NULL, "SELECT public.taskq_submit('h plain', '{\"a\": [1.50, 1e10, null]}',"
	 " 7, tags => '{b,a,b}', key => 'k', reference => 'new', headers => '{\"x\": 1}',"
	 " correlation_id => 'c', data => pg_catalog.decode('00ff5c27', 'hex'))"},
	{NULL, "SELECT public.taskq_submit('h plain', reference => 'new')"},
	{NULL, "SELECT public.taskq_submit('h plain', '{\"b\": 2}', reference => 'new',"
	 " on_conflict => 'merge')"},
	{NULL, "SELECT payload, tags, key, headers, data, priority, state"
	 " FROM public.taskq_list('h plain', reference => 'new')"},
	{NULL, "SELECT public.taskq_submit_many('h plain', ARRAY['1', 'null', '\"2\"']::pg_catalog.jsonb[], 5,"
	 " delay => '1 day 02:03:04.5')"},
	{NULL, "SELECT public.taskq_submit_tasks('[{\"queue\": \"h plain\", \"payload\":"
	 " {\"n\": 1e3}, \"priority\": 9, \"delay\": \"36 hours\","
	 " \"tags\": [\"x\"], \"suspended\": true,"
	 " \"options\": {\"lease\": \"1 day 2 hours\", \"retry_jitter\": 0.1,"
	 " \"retry_list\": [\"1 s\", \"1.5 h\"], \"retry\": \"list\"}},"
	 " {\"queue\": \"h plain\", \"run_at\": \"2030-02-03T04:05:06+00\"}]')"},
	{NULL, "SELECT payload, run_at OPERATOR(pg_catalog.=)"
	 " '2030-02-03 04:05:06+00'::pg_catalog.timestamptz, tags, state"
	 " FROM public.taskq_list('h plain', newest_first => true, max_rows => 3)"},
	{NULL, "SELECT (run_at OPERATOR(pg_catalog.-) created_at)"
	 " OPERATOR(pg_catalog.>) '35 hours'::pg_catalog.interval,"
	 " (run_at OPERATOR(pg_catalog.-) created_at)"
	 " OPERATOR(pg_catalog.<) '37 hours'::pg_catalog.interval"
	 " FROM public.taskq_list('h plain', state => 'suspended',"
	 " newest_first => true, max_rows => 1)"},
	{NULL, "SELECT public.taskq_create_queue('h new', '{\"priority\": 3,"
	 " \"retry\": \"list\", \"retry_list\": [\"1 day 2:03:04\", \"-1 day 48:00\","
	 " \"P1D\", \"1-2\"], \"retry_jitter\": 0.25, \"lease\": \"90 min\","
	 " \"retention\": \"1 mon\", \"history\": \"transitions\"}')"},
	{NULL, "SELECT public.taskq_alter_queue('h new',"
	 " '{\"time_limit\": \"1.5 days\", \"max_payload\": 1e3, \"lease\": null}')"},
	{NULL, "SELECT options FROM taskq.queues q"
	 " WHERE q.queue OPERATOR(pg_catalog.=) 'h new'"},
	{NULL, "SELECT public.taskq_create_queue('h new 2', '{\"lease\": \"-1 day 48:00\"}')"},
	{NULL, "SELECT public.taskq_create_queue('h new 3', '{\"lease\": \"-2 days 1:00\"}')"},
	{NULL, "SELECT public.taskq_create_queue('h new 4', '{\"lease\": \"90\"}')"},
	{NULL, "SELECT public.taskq_create_queue('h new')"},
	{NULL, "SELECT public.taskq_submit('h new', pg_catalog.to_jsonb("
	 "pg_catalog.repeat('x', 2000)))"},
	{NULL, "SELECT task_id, token OPERATOR(pg_catalog.>) 0, payload, data,"
	 " attempt, max_attempts, priority,"
	 " reference, tags, headers, lease_until OPERATOR(pg_catalog.>)"
	 " (pg_catalog.now() OPERATOR(pg_catalog.+) '4 min'::pg_catalog.interval)"
	 " FROM public.taskq_claim('h plain', max_tasks => 3, tags => '{a,b,x}')"},
	{NULL, "SELECT task_id, attempt, lease_until"
	 " FROM public.taskq_claim(NULL, 'h worker', 2)"},
	{NULL, "SELECT pg_catalog.count(*) FROM public.taskq_claim('h limited',"
	 " max_tasks => 100)"},
	{"held by a label", "SELECT public.taskq_progress(%i, %t, 0.25, 'base')"},
	{"held by a label", "SELECT progress FROM taskq.tasks t"
	 " WHERE t.task_id OPERATOR(pg_catalog.=) %i"},
	{"held by a label", "SELECT public.taskq_checkpoint(%i, %t, '{\"at\": 0.1}')"},
	{"held by a label", "SELECT cancel, lease_until OPERATOR(pg_catalog.>)"
	 " (pg_catalog.now() OPERATOR(pg_catalog.+) '35 h'::pg_catalog.interval)"
	 " FROM public.taskq_extend(%i, %t, '1 day 12:00')"},
	{"held by a label", "SELECT public.taskq_fail(%i, %t, 'broken',"
	 " retry_in => '1 day', detail => '{\"d\": 1}')"},
	{"held by a label", "SELECT error, errors, checkpoint, state, (run_at"
	 " OPERATOR(pg_catalog.-) pg_catalog.now())"
	 " OPERATOR(pg_catalog.>) '23 h'::pg_catalog.interval"
	 " FROM public.taskq_get(%i)"},
	{"held by a label", "SELECT public.taskq_complete(%i, %t)"},
	{"held, last attempt", "SELECT public.taskq_fail(%i, %t, 'broken')"},
	{"held, last attempt", "SELECT payload, headers FROM"
	 " public.taskq_list('h letters', newest_first => true, max_rows => 1)"},
	{"held by a worker", "SELECT * FROM public.taskq_complete_many("
	 "ARRAY[%i, 999999999]::pg_catalog.int8[], ARRAY[%t, 1]::pg_catalog.int8[],"
	 " ARRAY['{\"r\": 1.0}', NULL]::pg_catalog.jsonb[])"},
	{"held, asked to stop", "SELECT * FROM public.taskq_decide_many('[{\"task_id\": %i,"
	 " \"token\": %t, \"outcome\": \"fail\", \"error\": \"e\","
	 " \"retry_in\": \"1 day 2:00\", \"retryable\": false}]')"},
	{"held under a limit", "SELECT * FROM public.taskq_extend_many("
	 "ARRAY[%i]::pg_catalog.int8[], ARRAY[%t]::pg_catalog.int8[], '1 h')"},
	{"held under a limit", "SELECT public.taskq_release(%i, %t, '1 day', 'later',"
	 " '{\"r\": 2}')"},
	{"dead", "SELECT public.taskq_retry(%i, true)"},
	{"dead", "SELECT state, descent, attempt, errors FROM public.taskq_get(%i)"},
	{"pending", "SELECT public.taskq_cancel(%i, 'why not')"},
	{"done", "SELECT state, result, finished_at, run_as IS NOT NULL"
	 " FROM public.taskq_get(%i)"},
	{"done", "SELECT public.taskq_retry(%i)"},
	{"nothing", "SELECT public.taskq_get(%i)"},
	{NULL, "SELECT state, reason, message FROM public.taskq_list(state => 'cancelled')"},
	{NULL, "SELECT public.taskq_pause('h plain', 'why', '2030-01-01 00:00+00')"},
	{NULL, "SELECT pg_catalog.count(*) FROM public.taskq_claim('h plain')"},
	{NULL, "SELECT public.taskq_resume('h plain')"},
	{NULL, "SELECT public.taskq_purge('h deadly', '{dead,done}',"
	 " '2029-01-02 00:00+00')"},
	{NULL, "SELECT queue, pending, running, suspended, done, dead, paused"
	 " FROM taskq.queues q ORDER BY q.queue USING OPERATOR(pg_catalog.<)"},
	{NULL, "SELECT public.taskq_register('h new worker', '{h plain}', '{z}', 3,"
	 " info => '{\"pid\": 1}')"},
	{NULL, "SELECT worker, state, queues, tags, running, max_running, info FROM"
	 " taskq.workers w WHERE w.worker OPERATOR(pg_catalog.=) 'h new worker'"},
	{NULL, "SELECT * FROM public.taskq_heartbeat('h worker')"},
	{NULL, "SELECT public.taskq_drain('h new worker')"},
	{NULL, "SELECT drain, state FROM public.taskq_heartbeat('h new worker')"},
	{NULL, "SELECT public.taskq_deregister('h new worker')"},
	{NULL, "SELECT public.taskq_expire('h worker', '10 h')"},
	{NULL, "SELECT queue, from_state, to_state, reason, attempt, message, worker"
	 " FROM taskq.history h WHERE h.task_id OPERATOR(pg_catalog.=) 1"
	 " ORDER BY h.transition_id USING OPERATOR(pg_catalog.<)"},
	{NULL, "SELECT public.taskq_grant('h plain', 'hostile_trapper', '{read,work}')"},
	{NULL, "SELECT pg_catalog.has_function_privilege('hostile_trapper',"
	 " 'public.taskq_get(bigint)', 'EXECUTE')"},
	{NULL, "SELECT public.taskq_revoke('h plain', 'hostile_trapper', '{work}')"},
	{NULL, "SELECT * FROM public.taskq_run_reapers()"},
	{NULL, "SELECT * FROM public.taskq_check()"},
	{NULL, "SELECT public.taskq_drop_queue('h plain', true)"},
	{NULL, "SELECT public.taskq_submit(pg_catalog.repeat('q', 201))"},
	{NULL, "SELECT public.taskq_submit('h new', priority => 32768)"},
	{NULL, "SELECT public.taskq_claim('h plain', tags => '{{a},{b}}')"},
	{NULL, "SELECT public.taskq_create_queue('h x', '{\"retry\": \"no\"}')"},
	{NULL, "SELECT public.taskq_submit('h plain', on_conflict => 'no')"},
};

#define SCRIPT_LENGTH ((int) (sizeof(script) / sizeof(script[0])))

static char **expected; /* of the script, then of each function */
static char **good_calls;

/* A call of each function with good values, made once. */
static void
make_good_calls(Session *session)
{
	Item item = {.arg = -1, .name = "", .text = ""};

	good_calls = calloc(function_count, sizeof(char *));
	only_required = true;
	for (int i = 0; i < function_count; i++)
	{
		item.function = &functions[i];
		good_calls[i] = call_text(session->conn, &item,
								  context_named("held by a label"), true);
	}
	only_required = false;
}

/* One statement in a savepoint: its SQLSTATE, words, and answer. */
static char *
ask_one(Session *session, const char *sql, bool whole)
{
	Outcome outcome;
	char   *text;

	PQclear(must(session->conn, "SAVEPOINT a"));
	total_calls++;
	run_sql(session, sql, NULL, &outcome);
	if (outcome.lost)
		die("the connection was lost in: %s", sql);
	for (char *p = outcome.message; *p; p++)
	{
		if (isdigit((unsigned char) *p))
			*p = '9';
	}
	text = whole ? text_of("%s %s %s", outcome.code, outcome.message,
						   outcome.answer ? outcome.answer : "")
		: strdup(outcome.code);
	PQclear(must(session->conn, outcome.ok && whole ? "RELEASE SAVEPOINT a" :
				 "ROLLBACK TO SAVEPOINT a"));
	clear_outcome(&outcome);
	return text;
}

static char **
ask_all(Session *session)
{
	char  **answers = calloc(SCRIPT_LENGTH + function_count, sizeof(char *));
	Session plain;
	char   *last;

	open_session(&plain, session->database);
	last = ask(plain.conn, "SELECT last_value + 1 FROM taskq.task_id_seq");
	first_new_id = strtoll(last, NULL, 10);
	free(last);
	close_session(&plain);
	PQclear(must(session->conn, "BEGIN READ WRITE"));
	for (int i = 0; i < SCRIPT_LENGTH; i++)
	{
		char *sql = script[i].context == NULL ? strdup(script[i].sql) :
			fill(script[i].sql, context_named(script[i].context));

		answers[i] = ask_one(session, sql, true);
		free(sql);
	}
	PQclear(must(session->conn, "ROLLBACK; BEGIN READ WRITE"));
	for (int i = 0; i < function_count; i++)
		answers[SCRIPT_LENGTH + i] = ask_one(session, good_calls[i], false);
	PQclear(must(session->conn, "ROLLBACK"));
	first_new_id = 0;
	return answers;
}

/* May the answer be another one because of the setting itself? */
static bool
may_differ(const Session *session, int i)
{
	const char *sql;

	if (i >= SCRIPT_LENGTH)
		return session->allow.role; /* taskq_activate: superusers only */
	sql = script[i].sql;
	/* the grantor has no right to see others' privileges changed */
	return session->allow.role && strstr(sql, "has_function_privilege");
}

bool
run_script(Session *session, const char *what)
{
	char **answers;
	int    different = 0;

	if (expected == NULL)
	{
		Session plain;

		open_session(&plain, "hostile");
		make_good_calls(&plain);
		expected = ask_all(&plain);
		close_session(&plain);
	}
	answers = ask_all(session);
	for (int i = 0; i < SCRIPT_LENGTH + function_count; i++)
	{
		if (strcmp(answers[i], expected[i]) != 0 && !may_differ(session, i) &&
			different++ == 0)
			report(false, "another answer after %s\n  %.300s\n  not %.300s\n"
				   "  but %.300s", what, i < SCRIPT_LENGTH ? script[i].sql :
				   good_calls[i - SCRIPT_LENGTH], expected[i], answers[i]);
		free(answers[i]);
	}
	free(answers);
	return different == 0 && report(true, "the same answers");
}
