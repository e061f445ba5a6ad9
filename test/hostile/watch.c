/*
 * watch.c
 *		Has anything changed?  A second session reads all tables of the
 *		extension, the shared memory, and the canaries.
 *
 * It checks after some dozens of calls; if something has changed, these calls
 * are made again one by one to find the call that caused it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

#define CALLS_OF_A_LOOK 64

static struct
{
	Item *item;
	Mode  mode;
	char *sql;
} remembered[CALLS_OF_A_LOOK];
static int      remembered_count;
static PGconn  *watcher;
static char     watched_database[64];
static Session *watched;
static char    *digest_query;
static char    *digest;
static char    *server_start;
static bool     searching;

/* What no call that was rolled back may change, a column each. */
static const char others[] =
	"(SELECT count(*) FROM hostile.canary WHERE word = 'alive') AS canary,"
	"(SELECT string_agg(concat_ws(',', queue, pending, blocked, running,"
	"  suspended, done, dead), ';' ORDER BY queue) FROM taskq.queues) AS queues,"
	"(SELECT string_agg(concat_ws(',', worker, state, running), ';'"
	"  ORDER BY worker, registered_at) FROM taskq.workers) AS workers,"
	"(SELECT string_agg(concat_ws(',', p.progress, p.message), ';'"
	"  ORDER BY c.task_id) FROM hostile.context c,"
	"  taskq.task_progress(c.task_id, c.token) p WHERE c.held) AS progress,"
	"(SELECT string_agg(concat_ws(',', problem, detail), ';')"
	"  FROM taskq_check()) AS problems,"
	"(SELECT count(*) FROM taskq_claim('h limited', max_tasks => 100))"
	"  AS claimable,"
	"(SELECT string_agg(locktype || ' ' || coalesce(relation::regclass::text,"
	"  objid::text, ''), ';') FROM pg_locks WHERE pid = %d) AS locks,"
	"(SELECT md5(string_agg(p.oid || p.proacl::text, ',' ORDER BY p.oid))"
	"  FROM pg_proc p WHERE proname LIKE 'taskq\\_%%') AS rights,"
	"(SELECT count(*) FROM pg_prepared_xacts) AS prepared,"
	"(SELECT count(*) FROM pg_class c WHERE relnamespace IN"
	"  ('taskq'::regnamespace, 'public'::regnamespace,"
	"   'hostile'::regnamespace)) AS relations";

void
watch_open(const char *database)
{
	char *connection = text_of("%s dbname=%s client_encoding=auto", conninfo,
							   database);

	watcher = PQconnectdb(connection);
	free(connection);
	if (PQstatus(watcher) != CONNECTION_OK)
		die("the watching session: %s", PQerrorMessage(watcher));
	PQclear(must(watcher, "SET client_min_messages = error"));
	snprintf(watched_database, sizeof(watched_database), "%s", database);
	free(digest_query);
	digest_query = ask(watcher,
		"SELECT string_agg(format('(SELECT concat(count(*), '' '', md5("
		"string_agg(t::text, E''\\n'' ORDER BY t::text))) FROM taskq.%I t)"
		" AS %I', relname, relname), ',' ORDER BY relname)"
		" FROM pg_class WHERE relkind = 'r'"
		"  AND relnamespace = 'taskq'::regnamespace"
		/* the background worker counts now and then */
		"  AND relname NOT LIKE 'finished\\_%'"
		"  AND relname <> 'metric_minute'");
	if (server_start == NULL)
		server_start = ask(watcher, "SELECT pg_postmaster_start_time()");
	free(digest);
	digest = NULL;
	remembered_count = 0;
}

void
watch_close(void)
{
	PQfinish(watcher);
	watcher = NULL;
}

static void
forget(void)
{
	while (remembered_count > 0)
		free(remembered[--remembered_count].sql);
}

/* All columns of the digest, a line each. */
static char *
look(void)
{
	char     *rest = text_of(others, watched && watched->conn ?
							 PQbackendPID(watched->conn) : 0);
	char     *query = text_of("SELECT %s, %s", digest_query, rest);
	PGresult *res;
	char     *text = strdup("");

	PQclear(must(watcher, "BEGIN"));
	res = must(watcher, query);
	for (int i = 0; i < PQnfields(res); i++)
	{
		char *longer = text_of("%s%s: %s\n", text, PQfname(res, i),
							   PQgetvalue(res, 0, i));

		free(text);
		text = longer;
	}
	PQclear(res);
	PQclear(must(watcher, "ROLLBACK"));
	free(rest);
	free(query);
	return text;
}

void
watch_session(Session *session)
{
	watched = session;
}

void
watch_rebase(void)
{
	free(digest);
	digest = look();
	forget();
}

/* The lines of two digests that differ. */
static char *
difference(const char *before, const char *after)
{
	char *text = strdup("");

	while (*before && *after)
	{
		size_t b = strcspn(before, "\n");
		size_t a = strcspn(after, "\n");

		if (a != b || memcmp(before, after, a) != 0)
		{
			char *longer = text_of("%s\n  was %.*s\n  is  %.*s", text, (int) b,
								   before, (int) a, after);

			free(text);
			text = longer;
		}
		before += b + 1;
		after += a + 1;
	}
	return text;
}

/* Make the calls again, a few times each, and check after each of them. */
static void
search(void)
{
	int   count = remembered_count;
	Item *item[CALLS_OF_A_LOOK];
	Mode  mode[CALLS_OF_A_LOOK];

	for (int i = 0; i < count; i++)
	{
		item[i] = remembered[i].item;
		mode[i] = remembered[i].mode;
	}
	searching = true;
	watch_rebase();
	for (int i = 0; i < count * 4; i++)
	{
		char *now;

		run_item(watched, item[i / 4], mode[i / 4]);
		now = look();
		if (strcmp(now, digest) != 0)
		{
			char *what = difference(digest, now);

			report(false, "%s left something behind\n  %s: %.600s%s\n"
				   "  after %s", item[i / 4]->function->name,
				   mode_names[mode[i / 4]], remembered[remembered_count - 1].sql,
				   what, watched->setup ? watched->setup : "no setting");
			item[i / 4]->function->failures++;
			free(what);
			free(digest);
			digest = strdup(now);
		}
		free(now);
	}
	searching = false;
	forget();
}

void
watch_look(void)
{
	char *now;

	if (searching)
		return;
	if (digest == NULL)
	{
		watch_rebase();
		return;
	}
	now = look();
	if (strcmp(now, digest) != 0)
	{
		char *what = difference(digest, now);

		report(false, "something has changed:%s", what);
		free(what);
		if (watched != NULL)
			search();
		watch_rebase();
	}
	free(now);
	forget();
}

void
watch_remember(Item *item, Mode mode, const char *sql)
{
	if (remembered_count == CALLS_OF_A_LOOK)
		forget();
	remembered[remembered_count].item = item;
	remembered[remembered_count].mode = mode;
	remembered[remembered_count].sql = text_of("%.600s", sql);
	remembered_count++;
}

/* A call, and a look now and then. */
void
watched_item(Session *session, Item *item, Mode mode)
{
	if (remembered_count == CALLS_OF_A_LOOK)
		watch_look();
	run_item(session, item, mode);
}

/* taskq_progress is not transactional: restore the former values. */
void
watch_restore_progress(void)
{
	PQclear(must(watcher,
				 "SELECT taskq_progress(task_id, token, 0.25, 'base')"
				 " FROM hostile.context WHERE held"));
}

/* The same server, and not one that started again after a crash. */
bool
watch_server_is_up(void)
{
	char *start = ask(watcher, "SELECT pg_postmaster_start_time()");
	bool  same = strcmp(start, server_start) == 0;

	free(start);
	return same && strcmp(ask(watcher, "SELECT count(*) FROM pg_stat_activity"
							  " WHERE backend_type = 'checkpointer'"), "1") == 0;
}
