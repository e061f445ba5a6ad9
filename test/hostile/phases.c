/*
 * phases.c
 *		The parts of a run.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

/* ---- null in each argument ---- */

static Outcome
outcome_of(Session *session, const Item *item)
{
	char   *sql = call_text(session->conn, item,
							context_named("held by a label"), true);
	Outcome outcome;

	total_calls++;
	item->function->calls++;
	PQclear(must(session->conn, "BEGIN"));
	run_sql(session, sql, NULL, &outcome);
	if (outcome.lost)
		die("the connection was lost in: %s", sql);
	PQclear(must(session->conn, "ROLLBACK"));
	free(sql);
	return outcome;
}

/*
 * Optional arguments that must not be NULL: it means all queues of a
 * registered worker, or would make a change do more than was meant.
 */
static bool
null_is_refused(const Function *f, const Arg *arg)
{
	return (strcmp(arg->name, "queue") == 0 &&
			strcmp(f->bare, "taskq_claim") == 0) ||
		(strcmp(arg->name, "reason") != 0 &&
		 strcmp(f->bare, "taskq_change") == 0) ||
		(strcmp(arg->name, "depends") == 0 &&
		 strcmp(f->bare, "taskq_claim_one") == 0);
}

void
phase_nulls(void)
{
	Session session;

	open_session(&session, "hostile");
	only_required = true;
	for (int i = 0; i < function_count; i++)
	{
		Function *f = &functions[i];
		Item      item = {f, -1, "NULL", "NULL", false};
		Outcome   good;
		bool      fine = true;

		if (!f->contract)
			continue;
		good = outcome_of(&session, &item);
		for (item.arg = 0; item.arg < f->count; item.arg++)
		{
			const Arg  *arg = &f->args[item.arg];
			const char *wanted = good.code;
			Outcome     outcome;

			if (arg->inout)
				continue;
			if (!arg->optional || null_is_refused(f, arg))
				wanted = "22004";
			outcome = outcome_of(&session, &item);
			if (strcmp(outcome.code, wanted) != 0)
				fine = report(false, "%s, %s null: %s %s, not %s", f->name,
							  arg->name, outcome.code, outcome.message,
							  wanted);
			clear_outcome(&outcome);
		}
		clear_outcome(&good);
		if (fine)
			report(true, "null in %s", f->name);
	}
	only_required = false;
	close_session(&session);
}

/* ---- values in arguments, under rows of settings ---- */

#define USUAL_CALLS 6000

/* How many of the values in their random order; all in the long form. */
static int
call_items(void)
{
	return getenv("LONG") && *getenv("LONG") ? item_count :
		item_count < USUAL_CALLS ? item_count : USUAL_CALLS;
}

static bool
is_weak(Mode mode)
{
	return mode == MODE_READ_ONLY || mode == MODE_DEFERRABLE ||
		mode == MODE_ABORTED;
}

/* Tables that SQL without a schema would find first. */
static void
shadow_tables(Session *session)
{
	static const char *const names[] = {
		"task", "archive", "archive_keep", "large", "queue", "worker",
		"transition", "tasks", "queues", "pg_class", "pg_proc", "pg_type"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		char *sql = text_of("CREATE TEMP TABLE %s (task_id pg_catalog.text)",
							names[i]);

		PQclear(must(session->conn, sql));
		free(sql);
	}
}

/*
 * Each setting of the row alone, to find the setting that changes an answer;
 * only for the first such row, since it takes its time.
 */
static void
which_setting(const int *row)
{
	static bool done = false;
	int        *alone;
	Session     session;

	if (done)
		return;
	done = true;
	alone = calloc(factor_count, sizeof(int));
	for (int f = 0; f < factor_count; f++)
	{
		if (row[f] == 0)
			continue;
		alone[f] = row[f];
		open_session(&session, "hostile");
		apply_levels(&session, alone);
		(void) run_script(&session, factors[f].level[row[f]].set);
		close_session(&session);
		alone[f] = 0;
	}
	free(alone);
}

/*
 * The script, and every step-th of the values from the first on, in one
 * session; the kinds of transactions take turns.
 */
static void
run_row(const int *row, const char *more, int first, int step, bool with_script,
		bool with_calls)
{
	Session session;
	char   *setup = levels_text(row);
	int     turn = first;

	open_session(&session, "hostile");
	shadow_tables(&session);
	apply_levels(&session, row);
	if (more != NULL)
		PQclear(must(session.conn, more));
	session.setup = more != NULL ? more : setup;
	watch_session(&session);
	if (with_script && !run_script(&session, "a row of settings"))
		which_setting(row);
	watch_look();
	for (int i = first; with_calls && i < call_items(); i += step)
	{
		Mode mode = (Mode) (turn++ % MODE_COUNT);

		watched_item(&session, &items[i], mode);
		if (is_weak(mode))
			watched_item(&session, &items[i], MODE_SAVEPOINT);
	}
	watch_look();
	watch_session(NULL);
	close_session(&session);
	free(setup);
}

/* The code of plans that are compiled takes seconds: only some calls. */
static void
run_compiled(bool with_script, bool with_calls)
{
	int *row = calloc(factor_count, sizeof(int));

	run_row(row, "SET jit TO on; SET jit_above_cost TO 0", 0,
			call_items() / 60 + 1, with_script, with_calls);
	free(row);
}

void
phase_rows(bool with_script, bool with_calls)
{
	int **rows;
	int   count;

	probe_settings();
	count = cover(&rows);
	printf("%d of %d values, %d rows of %d settings, %d kinds of "
		   "transactions\n", call_items(), item_count, count, factor_count,
		   MODE_COUNT);
	for (int i = 0; i < count; i++)
	{
		run_row(rows[i], NULL, i, count, with_script, with_calls);
		free(rows[i]);
		fflush(stdout);
	}
	free(rows);
	run_compiled(with_script, with_calls);
	for (int i = 0; with_calls && i < function_count; i++)
	{
		if (functions[i].failures == 0)
			report(true, "%s", functions[i].name);
	}
}

/* ---- 260 MB, once for each way into the code ---- */

#define MUCH "pg_catalog.repeat(pg_catalog.repeat('x', 1000000), 260)"
#define MUCH_JSON "pg_catalog.to_jsonb(" MUCH ")"

static const struct
{
	const char *path;
	const char *function;
	const char *argument;
	const char *value;
	const char *code;
} huge[] = {
	{"a name (tq_arg_name)", "taskq_pause", "queue", MUCH, "TQ009"},
	{"a word (tq_arg_word)", "taskq_submit", "reference", MUCH, "TQ009"},
	{"a keyword (tq_arg_keyword)", "taskq_submit", "on_conflict", MUCH,
	 "22023"},
	{"words that are cut (tq_arg_message)", "taskq_fail", "error", MUCH,
	 "00000"},
	{"tags (tq_arg_tags)", "taskq_claim", "tags", "ARRAY[" MUCH "]", "TQ009"},
	{"names (taskq_register)", "taskq_register", "queues", "ARRAY[" MUCH "]",
	 "TQ009"},
	{"states (taskq_purge)", "taskq_purge", "states", "ARRAY[" MUCH "]",
	 "22023"},
	{"rights (taskq_grant)", "taskq_grant", "rights", "ARRAY[" MUCH "]",
	 "22023"},
	{"a role (taskq_grant)", "taskq_grant", "role", MUCH, "42704"},
	{"a payload (tq_submit_check_size)", "taskq_submit", "payload", MUCH_JSON,
	 "TQ009"},
	{"payloads (tq_arg_array)", "taskq_submit_many", "payloads",
	 "ARRAY[" MUCH_JSON "]", "TQ009"},
	{"a result (is_too_large)", "taskq_complete", "result", MUCH_JSON, "TQ009"},
	{"results (read_results)", "taskq_complete_many", "results",
	 "ARRAY[" MUCH_JSON "]", "00000"},
	{"a checkpoint", "taskq_checkpoint", "checkpoint", MUCH_JSON, "TQ009"},
	{"headers (read_arguments)", "taskq_submit", "headers",
	 "pg_catalog.jsonb_build_object('a', " MUCH ")", "TQ009"},
	{"detail (tq_finish_check_detail)", "taskq_fail", "detail", MUCH_JSON,
	 "TQ009"},
	{"info (taskq_register)", "taskq_register", "info", MUCH_JSON, "TQ009"},
	{"options of a task", "taskq_submit", "options",
	 "pg_catalog.jsonb_build_object('lease', " MUCH ")", "TQ009"},
	{"options of a queue (tq_options_merge)", "taskq_alter_queue", "options",
	 "pg_catalog.jsonb_build_object('lease', " MUCH ")", "TQ009"},
	{"a list of tasks (read_entry)", "taskq_submit_tasks", "tasks",
	 "pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object("
	 "'queue', 'h plain', 'payload', " MUCH "))", "TQ009"},
	{"a list of decisions (bulk.c)", "taskq_decide_many", "decisions",
	 "pg_catalog.jsonb_build_array(pg_catalog.jsonb_build_object("
	 "'task_id', 1, 'token', 1, 'outcome', 'fail', 'error', " MUCH "))",
	 "00000"},
	{"bytes", "taskq_submit", "data",
	 "pg_catalog.convert_to(" MUCH ", 'UTF8')", "TQ009"},
};

static Function *
function_named(const char *name)
{
	for (int i = 0; i < function_count; i++)
	{
		if (strcmp(functions[i].bare, name) == 0)
			return &functions[i];
	}
	die("there is no function %s", name);
}

void
phase_huge(void)
{
	Session session;

	open_session(&session, "hostile");
	watch_session(NULL);
	watch_look();
	only_required = true;
	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++)
	{
		Function *f = function_named(huge[i].function);
		Item      item = {f, argument_named(f, huge[i].argument), huge[i].path,
						  huge[i].value, false};
		Outcome   outcome = outcome_of(&session, &item);

		report(strcmp(outcome.code, huge[i].code) == 0,
			   "260 MB as %s, %s of %s: %s %s, not %s", huge[i].path,
			   huge[i].argument, huge[i].function, outcome.code,
			   outcome.message, huge[i].code);
		clear_outcome(&outcome);
	}
	only_required = false;
	watch_look();
	close_session(&session);
}

/* ---- databases and clients of other encodings ---- */

#define CALLS_OF_AN_ENCODING 100

static bool
is_text(const Item *item)
{
	const char *name;

	if (item->arg < 0)
		return false;
	name = item->function->args[item->arg].type->name;
	return strncmp(name, "text", 4) == 0 || strncmp(name, "jsonb", 5) == 0;
}

static void
run_encoding(const char *database, const char *encoding, int *next)
{
	Session session;
	int     before = failed;
	char   *setup = text_of("client_encoding %s in %s", encoding, database);

	open_session(&session, database);
	session.allow.encoding = true;
	session.setup = setup;
	if (PQsetClientEncoding(session.conn, encoding) == 0)
	{
		watch_session(&session);
		watch_look();
		for (int made = 0; made < CALLS_OF_AN_ENCODING; (*next)++)
		{
			Item *item = &items[*next % item_count];

			if (!is_text(item))
				continue;
			watched_item(&session, item, MODE_SAVEPOINT);
			session.allow.encoding = true;
			session.setup = setup;
			made++;
		}
		watch_look();
		watch_session(NULL);
		if (failed == before)
			report(true, "%s", setup);
	}
	close_session(&session);
	free(setup);
}

void
phase_encodings(void)
{
	static const char *const databases[] = {"hostile", "hostile_latin1",
											"hostile_ascii"};
	static const char *const encodings[] = {
		"UTF8", "LATIN1", "SJIS", "EUC_JP", "BIG5", "GB18030", "WIN1252",
		"SQL_ASCII"};
	int next = 0;

	for (size_t d = 0; d < sizeof(databases) / sizeof(databases[0]); d++)
	{
		watch_close();
		watch_open(databases[d]);
		watch_restore_progress();
		for (size_t e = 0; e < sizeof(encodings) / sizeof(encodings[0]); e++)
			run_encoding(databases[d], encodings[e], &next);
	}
	watch_close();
	watch_open("hostile");
	watch_restore_progress();
}
