/*
 * copy.c
 *		COPY, by several clients at the same time.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define ROWS 100 /* of one COPY */

/* A hundred rows in one COPY: the row of the file after a new id */
static void
copy_rows(PGconn *conn, int64_t first, const char *row)
{
	char      line[16384];
	PGresult *result = PQexec(conn, "COPY copied FROM STDIN");

	if (PQresultStatus(result) != PGRES_COPY_IN)
		die("%s", PQerrorMessage(conn));
	PQclear(result);
	for (int i = 0; i < ROWS; i++)
	{
		int length =
			snprintf(line, sizeof(line), "%" PRId64 "%s", first + i, row);

		if (length >= (int) sizeof(line) ||
			PQputCopyData(conn, line, length) != 1)
			die("%s", PQerrorMessage(conn));
	}
	if (PQputCopyEnd(conn, NULL) != 1)
		die("%s", PQerrorMessage(conn));
	while ((result = PQgetResult(conn)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK)
			die("%s", PQerrorMessage(conn));
		PQclear(result);
	}
}

/* One client, a process: it writes its rows per second to the pipe. */
static void
copy_client(const char *conninfo, int number, double seconds, const char *row,
			int to)
{
	PGconn *conn = connect_to(conninfo);
	int64_t id = (number + 1) * INT64_C(1000000000000);
	double  began = now();
	int64_t rows = 0;
	double  rate;

	while (now() - began < seconds * 1000)
	{
		copy_rows(conn, id + rows, row);
		rows += ROWS;
	}
	rate = (double) rows * 1000 / (now() - began);
	PQfinish(conn);
	if (write(to, &rate, sizeof(rate)) != sizeof(rate))
		die("write: %s", strerror(errno));
}

/* The first line of a file, from its first tab on */
static char *
row_of(const char *file)
{
	static char line[16384];
	FILE       *in = fopen(file, "r");
	char       *tab;

	if (in == NULL || fgets(line, sizeof(line), in) == NULL)
		die("%s: %s", file, strerror(errno));
	fclose(in);
	tab = strchr(line, '\t');
	if (tab == NULL || strchr(line, '\n') == NULL)
		die("%s: this is no row", file);
	return tab;
}

void
copy(const char *conninfo, int clients, double seconds, const char *file)
{
	char  *row = row_of(file);
	int    ends[2];
	double sum = 0;
	double rate;
	int    status;

	if (pipe(ends) != 0)
		die("pipe: %s", strerror(errno));
	for (int i = 0; i < clients; i++)
	{
		pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (pid == 0)
		{
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			copy_client(conninfo, i, seconds, row, ends[1]);
			_exit(0);
		}
	}
	for (int i = 0; i < clients; i++)
	{
		if (wait(&status) < 0 || status != 0)
			die("a client of COPY failed");
		if (read(ends[0], &rate, sizeof(rate)) != sizeof(rate))
			die("read: %s", strerror(errno));
		sum += rate;
	}
	printf("%.1f\n", sum);
}
