/*
 * main.c
 *		Calls all functions of the extension with hostile values.
 *
 *		hostile CONNINFO SEED RESULT [PHASE ...]
 *
 * The databases hostile, hostile_latin1 and hostile_ascii are there, made by
 * setup.sql.  Problems are printed; the numbers of cases that passed and
 * failed are written to the file RESULT.
 *
 * Copyright (c) 2026, the taskq developers
 */
#define _GNU_SOURCE /* vasprintf */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hostile.h"

#define MOST_PROBLEMS 40 /* printed */

const char *conninfo;
uint64_t    seed;
long        total_calls;
int         passed;
int         failed;

static uint64_t chance;

static const struct
{
	const char *name;
	void (*run)(void);
} phases[] = {
	{"settings", NULL}, /* both together, see main */
	{"calls", NULL},
	{"nulls", phase_nulls},
	{"huge", phase_huge},
	{"encodings", phase_encodings},
	{"memory", phase_memory},
};

int
draw(int below)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return (int) (chance % (uint64_t) below);
}

double
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec * 1e3 + (double) ts.tv_nsec / 1e6;
}

char *
text_of(const char *format, ...)
{
	va_list args;
	char   *text;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	return text;
}

void
die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "hostile: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(2);
}

/* Count a case, and report it if it failed. */
bool
report(bool ok, const char *format, ...)
{
	va_list args;

	if (ok)
	{
		passed++;
		return true;
	}
	if (++failed <= MOST_PROBLEMS)
	{
		printf("not ok: ");
		va_start(args, format);
		vprintf(format, args);
		va_end(args);
		printf("\n");
	}
	else if (failed == MOST_PROBLEMS + 1)
		printf("further problems are only counted\n");
	fflush(stdout);
	return false;
}

PGresult *
must(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);

	if (PQresultStatus(res) != PGRES_COMMAND_OK &&
		PQresultStatus(res) != PGRES_TUPLES_OK)
		die("%.300s: %s", sql, PQerrorMessage(conn));
	return res;
}

/* The one value that a query returns. */
char *
ask(PGconn *conn, const char *sql)
{
	PGresult *res = must(conn, sql);
	char     *value = strdup(PQgetvalue(res, 0, 0));

	PQclear(res);
	return value;
}

static void
no_notice(void *arg, const PGresult *res)
{
	(void) arg;
	(void) res;
}

void
open_session(Session *session, const char *database)
{
	char *connection = text_of("%s dbname=%s", conninfo, database);
	char  kept[64];

	snprintf(kept, sizeof(kept), "%s", database);
	memset(session, 0, sizeof(*session));
	memcpy(session->database, kept, sizeof(kept));
	session->conn = PQconnectdb(connection);
	free(connection);
	if (PQstatus(session->conn) != CONNECTION_OK)
		die("%s", PQerrorMessage(session->conn));
	PQsetNoticeReceiver(session->conn, no_notice, NULL);
	/* a call that hangs is a problem, unless the setting is changed */
	PQclear(must(session->conn, "SET statement_timeout TO '60s'"));
}

void
close_session(Session *session)
{
	PQfinish(session->conn);
	session->conn = NULL;
}

static bool
is_asked_for(const char *phase, int argc, char **argv)
{
	for (int i = 4; i < argc; i++)
	{
		if (strcmp(argv[i], phase) == 0)
			return true;
	}
	return argc <= 4;
}

static void
check_words(int argc, char **argv)
{
	for (int i = 4; i < argc; i++)
	{
		size_t p = 0;

		while (p < sizeof(phases) / sizeof(phases[0]) &&
			   strcmp(phases[p].name, argv[i]) != 0)
			p++;
		if (p == sizeof(phases) / sizeof(phases[0]))
			die("there is no phase %s", argv[i]);
	}
}

int
main(int argc, char **argv)
{
	Session session;
	FILE   *result;

	if (argc < 4)
		die("usage: hostile CONNINFO SEED RESULT [PHASE ...]");
	check_words(argc, argv);
	conninfo = argv[1];
	seed = strtoull(argv[2], NULL, 10);
	chance = (seed + 1) * 0x9e3779b97f4a7c15ull;
	for (int i = 0; i < 10; i++)
		draw(2);

	open_session(&session, "hostile");
	read_catalog(session.conn);
	read_contexts(session.conn);
	close_session(&session);
	make_items();
	shuffle_items();
	watch_open("hostile");
	watch_restore_progress();
	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
	{
		double begin = now_ms();
		long   calls = total_calls;

		if (!is_asked_for(phases[i].name, argc, argv) ||
			(i == 1 && is_asked_for(phases[0].name, argc, argv)))
			continue;
		if (phases[i].run != NULL)
			phases[i].run();
		else
			phase_rows(is_asked_for(phases[0].name, argc, argv),
					   is_asked_for(phases[1].name, argc, argv));
		printf("%s: %ld calls in %.1f s\n", phases[i].name,
			   total_calls - calls, (now_ms() - begin) / 1e3);
		fflush(stdout);
	}
	report(watch_server_is_up(), "the server has started again");
	watch_close();
	printf("%ld calls, %d functions, seed %llu\n", total_calls, function_count,
		   (unsigned long long) seed);

	result = fopen(argv[3], "w");
	if (result == NULL || fprintf(result, "%d %d 0\n", passed, failed) < 0 ||
		fclose(result) != 0)
		die("could not write %s", argv[3]);
	return failed > 0;
}
