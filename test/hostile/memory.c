/*
 * memory.c
 *		The memory of a session does not grow with its calls.
 *
 * Measured are the bytes in use of the server's memory contexts, and the
 * process' own pages (what is not shared).  The first calls of a session fill
 * its caches and do not count.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

#define BAD_CALLS 100000
#define GOOD_CALLS 10000
#define LIFE_CALLS 4000
#define IN_FLIGHT 100
#define MOST_SLOW_MS 10.0

/* What may be more after any number of calls. */
#define MOST_BYTES (64 * 1024)
#define MOST_PAGES_KB 4096
#define ROUNDS 3

static char **calls;
static int    call_count;

static long
bytes_in_use(PGconn *conn)
{
	char *text = ask(conn, "SELECT sum(used_bytes)"
						   " FROM pg_backend_memory_contexts");
	long  bytes = strtol(text, NULL, 10);

	free(text);
	return bytes;
}

static long
pages_kb(PGconn *conn)
{
	char  path[64];
	char  line[200];
	long  kb = -1;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", PQbackendPID(conn));
	status = fopen(path, "r");
	if (status == NULL)
		return 0;
	while (fgets(line, sizeof(line), status) != NULL)
	{
		if (sscanf(line, "RssAnon: %ld", &kb) == 1)
			break;
	}
	fclose(status);
	return kb;
}

/* Send the statements round and round, in a pipeline. */
static void
send_many(PGconn *conn, int count, int statements)
{
	int sent = 0;

	if (!PQenterPipelineMode(conn))
		die("no pipeline: %s", PQerrorMessage(conn));
	while (sent < count)
	{
		int syncs = 0;

		for (; syncs < IN_FLIGHT && sent < count; syncs++, sent += statements)
		{
			for (int i = 0; i < statements; i++)
			{
				if (!PQsendQueryParams(conn, calls[(sent + i) % call_count], 0,
									   NULL, NULL, NULL, NULL, 1))
					die("could not send: %s", PQerrorMessage(conn));
			}
			PQpipelineSync(conn);
		}
		while (syncs > 0)
		{
			PGresult *res = PQgetResult(conn);

			if (res != NULL && PQresultStatus(res) == PGRES_PIPELINE_SYNC)
				syncs--;
			if (res == NULL && PQstatus(conn) != CONNECTION_OK)
				die("the connection was lost: %s", PQerrorMessage(conn));
			PQclear(res);
		}
	}
	if (!PQexitPipelineMode(conn))
		die("still in the pipeline: %s", PQerrorMessage(conn));
}

/*
 * Caches may grow once, for reasons of the server's own; a leak grows each
 * time.  So what is too much is measured again, up to ROUNDS times.
 */
static void
measure(PGconn *conn, const char *what, int count, int statements)
{
	long   bytes = 0;
	long   pages = 0;
	double begin = now_ms();

	send_many(conn, count / 10, statements);
	(void) bytes_in_use(conn);
	for (int round = 0; round < ROUNDS; round++)
	{
		bytes = bytes_in_use(conn);
		pages = pages_kb(conn);
		send_many(conn, count, statements);
		total_calls += count / statements;
		bytes = bytes_in_use(conn) - bytes;
		pages = pages_kb(conn) - pages;
		printf("%d %s: %ld bytes and %ld kB of pages more, %.1f s\n",
			   count / statements, what, bytes, pages,
			   (now_ms() - begin) / 1e3);
		fflush(stdout);
		if (bytes <= MOST_BYTES && pages <= MOST_PAGES_KB)
			break;
	}
	report(bytes <= MOST_BYTES, "%d %s use %ld bytes more",
		   count / statements, what, bytes);
	report(pages <= MOST_PAGES_KB, "%d %s use %ld kB of pages more",
		   count / statements, what, pages);
}

static void
add_call(char *sql)
{
	calls = realloc(calls, (call_count + 1) * sizeof(char *));
	calls[call_count++] = sql;
}

static void
forget_calls(void)
{
	while (call_count > 0)
		free(calls[--call_count]);
}

/* Quick calls that fail, up to three for each argument. */
static void
collect_bad(Session *session)
{
	int *kept = calloc(item_count, sizeof(int));

	for (int i = 0; i < item_count; i++)
	{
		Item   *item = &items[i];
		int     same = 0;
		Outcome outcome;
		char   *sql;

		if (item->arg < 0 || item->function->procedure || !item->literal)
			continue;
		for (int j = 0; j < i; j++)
			same += kept[j] && items[j].function == item->function &&
				items[j].arg == item->arg;
		if (same >= 3)
			continue;
		sql = call_text(session->conn, item, pick_context(item->function),
						true);
		PQclear(must(session->conn, "BEGIN"));
		run_sql(session, sql, NULL, &outcome);
		if (outcome.lost)
			die("the connection was lost in: %s", sql);
		PQclear(must(session->conn, "ROLLBACK"));
		kept[i] = !outcome.ok && outcome.ms < MOST_SLOW_MS;
		clear_outcome(&outcome);
		if (kept[i])
			add_call(sql);
		else
			free(sql);
	}
	free(kept);
}

/* A good call of each function, in a transaction that is rolled back. */
static void
collect_good(Session *session)
{
	for (int i = 0; i < function_count; i++)
	{
		Item    item = {&functions[i], -1, "", "", false};
		char   *sql;
		Outcome outcome;

		if (functions[i].procedure)
			continue;
		sql = call_text(session->conn, &item, context_named("held by a label"),
						true);
		PQclear(must(session->conn, "BEGIN"));
		run_sql(session, sql, NULL, &outcome);
		PQclear(must(session->conn, "ROLLBACK"));
		if (outcome.ok && outcome.ms < 5 * MOST_SLOW_MS)
		{
			add_call(strdup("BEGIN"));
			add_call(sql);
			add_call(strdup("ROLLBACK"));
		}
		else
			free(sql);
		clear_outcome(&outcome);
	}
}

/* Tasks that come, are worked on, and go. */
static void
collect_life(void)
{
	static const char *const life[] = {
		"SELECT taskq_submit('h life', '{\"a\": 1}', tags => '{t}',"
		" options => '{\"lease\": \"1 h\"}', reference => 'r')",
		"SELECT token FROM taskq_claim('h life', 'h worker', tags => '{t}')",
		"SELECT taskq_extend(task_id, token, '1 h'), taskq_progress(task_id,"
		" token, 0.5, 'half'), taskq_checkpoint(task_id, token, '{\"c\": 1}')"
		" FROM taskq_list('h life', 'running')",
		"SELECT taskq_fail(task_id, token, 'again', retry_in => '0')"
		" FROM taskq_list('h life', 'running')",
		"SELECT taskq_complete(task_id, token, '{\"r\": 1}')"
		" FROM taskq_claim('h life', tags => '{t}')",
		"SELECT taskq_heartbeat('h worker')",
		"SELECT count(*) FROM taskq_list('h life')",
		"SELECT taskq_purge('h life')"};

	for (size_t i = 0; i < sizeof(life) / sizeof(life[0]); i++)
		add_call(strdup(life[i]));
}

void
phase_memory(void)
{
	Session session;

	open_session(&session, "hostile");
	/* a line in the server's log for each would be all that is seen there */
	PQclear(must(session.conn, "SET log_min_messages TO panic"));
	PQclear(must(session.conn, "SET log_min_error_statement TO panic"));
	collect_bad(&session);
	report(call_count >= 100, "there are only %d bad calls", call_count);
	measure(session.conn, "bad calls", BAD_CALLS, 1);
	forget_calls();
	collect_good(&session);
	report(call_count >= 60, "there are only %d good calls", call_count / 3);
	measure(session.conn, "good calls", GOOD_CALLS * 3, 3);
	forget_calls();
	PQclear(must(session.conn, "SELECT taskq_create_queue('h life')"));
	collect_life();
	measure(session.conn, "calls of tasks that come and go", LIFE_CALLS, 1);
	forget_calls();
	PQclear(must(session.conn, "SELECT taskq_drop_queue('h life', true)"));
	watch_rebase();
	close_session(&session);
}
