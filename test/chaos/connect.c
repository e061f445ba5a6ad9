/*
 * connect.c
 *		The connection of a client, and its transactions.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define RECONNECT_MS 90000

const char *const end_word[] = {"auto", "commit", "rollback",
								"prepared_commit", "prepared_rollback"};

char code[16];
bool need_register = false;

static PGconn *conn = NULL;
static bool    conn_lost = false;
static long    prepared_count = 0;

static void    ignore_notice(void *arg, const char *message);
static void    roll_back(void);
static Outcome end_prepared(const char *how, long gid);

/* Connect to the server that takes writes, within RECONNECT_MS. */
void
ensure_connection(void)
{
	int64_t until = now_us() + (int64_t) RECONNECT_MS * 1000;

	while (conn == NULL || conn_lost)
	{
		check_parent();
		PQfinish(conn);
		conn = PQconnectdb(conninfo);
		conn_lost = PQstatus(conn) != CONNECTION_OK;
		if (!conn_lost)
		{
			PQsetNoticeProcessor(conn, ignore_notice, NULL);
			/* workers that were bound to the former one are dead, or soon will be */
			if (bound)
			{
				end_op(begin_op("connect"), OK, "-");
				need_register = true;
			}
			break;
		}
		if (told_to("stop"))
			exit(0);
		if (now_us() > until)
			die("could not connect", PQerrorMessage(conn));
		rest_ms(20);
	}
}

void
disconnect(void)
{
	PQfinish(conn);
	conn = NULL;
}

/*
 * Run one statement. UNKNOWN if the connection was lost: code "lost". A server
 * that shuts down may still report it, with a class 57P.
 */
Outcome
run(PGresult **result, const char *format, ...)
{
	char           sql[4 * TEXT];
	va_list        args;
	PGresult      *res;
	ExecStatusType status;
	const char    *sqlstate;
	Outcome        outcome = OK;

	va_start(args, format);
	if (vsnprintf(sql, sizeof(sql), format, args) >= (int) sizeof(sql))
		die("a statement is too long", format);
	va_end(args);
	res = PQexec(conn, sql);
	status = PQresultStatus(res);
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
	{
		sqlstate = PQresultErrorField(res, PG_DIAG_SQLSTATE);
		outcome = FAIL;
		if (sqlstate == NULL || PQstatus(conn) != CONNECTION_OK ||
			strncmp(sqlstate, "57P", 3) == 0)
		{
			outcome = UNKNOWN;
			conn_lost = true;
			sqlstate = "lost";
		}
		snprintf(code, sizeof(code), "%s", sqlstate);
	}
	if (result != NULL && outcome == OK)
		*result = res;
	else
		PQclear(res);
	return outcome;
}

Outcome
tx_begin(End end)
{
	return end == END_AUTO ? OK : run(NULL, "BEGIN");
}

/*
 * End the transaction as planned if all went well, otherwise roll it back. Only
 * a missing answer to a commit leaves the outcome unknown.
 */
Outcome
tx_end(End end, Outcome outcome)
{
	if (end == END_AUTO)
		return outcome;
	if (outcome == UNKNOWN)
		return FAIL; /* lost before the end: it did not happen */
	if (outcome == FAIL || end == END_ROLLBACK)
	{
		if (outcome == OK)
			snprintf(code, sizeof(code), "rollback");
		roll_back();
		return FAIL;
	}
	if (end == END_COMMIT)
		return run(NULL, "COMMIT");
	if (end == END_PREPARED_COMMIT)
		return end_prepared("COMMIT", ++prepared_count);
	(void) end_prepared("ROLLBACK", ++prepared_count);
	return FAIL;
}

static void
ignore_notice(void *arg, const char *message)
{
	(void) arg;
	(void) message;
}

static void
roll_back(void)
{
	PQclear(PQexec(conn, "ROLLBACK"));
	conn_lost = PQstatus(conn) != CONNECTION_OK;
}

/*
 * Prepare a transaction, and end it.  The saboteur ends the transactions that
 * it finds, in the same way: then this call fails, and it may be done.
 */
static Outcome
end_prepared(const char *how, long gid)
{
	bool    commits = how[0] == 'C';
	char    id[128];
	Outcome outcome;

	snprintf(id, sizeof(id), "%s_%d_%ld_%s", name, (int) getpid(), gid,
			 commits ? "commit" : "rollback");
	outcome = run(NULL, "PREPARE TRANSACTION '%s'", id);
	if (outcome == FAIL)
		roll_back();
	if (outcome != OK)
		return outcome;
	if (commits && percent(30))
		rest_ms(draw(100));
	outcome = run(NULL, "%s PREPARED '%s'", how, id);
	if (outcome != UNKNOWN && !commits)
		snprintf(code, sizeof(code), "rollback");
	return outcome == FAIL ? UNKNOWN : outcome;
}
