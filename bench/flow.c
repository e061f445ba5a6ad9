/*
 * flow.c
 *		Latency of workflows and of single calls.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define LOST_MS 120000   /* a call without an answer for that long fails */
#define WARM 5           /* samples that are not counted */
#define GAP_MS 2         /* minimum before a sample: workers fall asleep */
#define GAP_RANDOM_MS 10 /* maximum of a random addition */
#define STAGES 3         /* from step to step of a chain of four */
#define MAX_WORKERS 64

/* A connection that sends one statement at a time */
typedef struct Party
{
	PGconn *conn;
	bool    waits;    /* for a step */
	double  answered; /* time of the last answer; 0: not yet answered */
	bool    works;    /* its statement completes a step */
	char    task[32];
	char    token[32];
	char   *result; /* of the step that it has; NULL: none */
} Party;

static PGresult *
must_be_good(PGconn *conn, PGresult *result)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		die("%s", PQerrorMessage(conn));
	return result;
}

static void
run(PGconn *conn, const char *text)
{
	PQclear(must_be_good(conn, PQexec(conn, text)));
}

static void
prepare(PGconn *conn, const char *name, const char *text)
{
	PQclear(must_be_good(conn, PQprepare(conn, name, text, 0, NULL)));
}

static void
ask(Party *party, const char *name, int n, const char *const *values)
{
	party->answered = 0;
	if (!PQsendQueryPrepared(party->conn, name, n, values, NULL, NULL, 0))
		die("%s", PQerrorMessage(party->conn));
}

/* The answer, if it has arrived */
static PGresult *
answer(Party *party)
{
	PGresult *result;
	PGresult *more;

	if (!PQconsumeInput(party->conn))
		die("%s", PQerrorMessage(party->conn));
	if (PQisBusy(party->conn))
		return NULL;
	party->answered = now();
	result = must_be_good(party->conn, PQgetResult(party->conn));
	while ((more = PQgetResult(party->conn)) != NULL)
		PQclear(must_be_good(party->conn, more));
	return result;
}

/* Wait until a connection has something to read, or for the timeout. */
static void
listen_to(Party *const *parties, int n, double ms)
{
	struct pollfd fds[MAX_WORKERS + 1];

	for (int i = 0; i < n; i++)
	{
		fds[i].fd = PQsocket(parties[i]->conn);
		fds[i].events = POLLIN;
	}
	(void) poll(fds, (nfds_t) n, ms <= 0 ? 0 : (int) ms + 1);
}

/* Wait for the answer */
static PGresult *
await(Party *party)
{
	double    lost = now() + LOST_MS;
	PGresult *result;

	while ((result = answer(party)) == NULL)
	{
		if (now() > lost)
			die("no answer for %d s", LOST_MS / 1000);
		listen_to(&party, 1, 100);
	}
	return result;
}

static double
gap(void)
{
	return GAP_MS + (double) random() / RAND_MAX * GAP_RANDOM_MS;
}

/* ------------------------------------------------------------------ steps */

static void
become_worker(Party *worker, const char *conninfo)
{
	worker->conn = connect_to(conninfo);
	prepare(worker->conn, "claim",
			"SELECT task_id, token, config"
			" FROM taskq_claim('bench', wait => '290 s')");
	prepare(worker->conn, "complete", "SELECT taskq_complete($1, $2, $3)");
}

static void
wait_for_step(Party *worker)
{
	worker->waits = true;
	worker->works = false;
	ask(worker, "claim", 0, NULL);
}

static void
take_step(Party *worker, PGresult *result)
{
	if (PQntuples(result) != 1)
		die("a worker has waited without getting a step");
	snprintf(worker->task, sizeof(worker->task), "%s",
			 PQgetvalue(result, 0, 0));
	snprintf(worker->token, sizeof(worker->token), "%s",
			 PQgetvalue(result, 0, 1));
	free(worker->result);
	worker->result =
		PQgetisnull(result, 0, 2) ? NULL : strdup(PQgetvalue(result, 0, 2));
	worker->waits = false;
	PQclear(result);
}

/* The result of a step is the "config" of its definition. */
static void
end_step(Party *worker)
{
	const char *values[3] = {worker->task, worker->token, worker->result};

	worker->works = true;
	ask(worker, "complete", 3, values);
}

/* ------------------------------------------------------------------ stage */

/* From the end of a step until a waiting worker has the next one */
static void
hand_over(Party *from, Party *to, bool counts)
{
	Party *both[2] = {from, to};
	double pause = now() + gap();
	double sent;

	wait_for_step(to);
	while (now() < pause)
		listen_to(&to, 1, pause - now());
	sent = now();
	end_step(from);
	while (from->answered == 0 || to->answered == 0)
	{
		PGresult *result;

		if (now() > sent + LOST_MS)
			die("no worker has got the next step");
		listen_to(both, 2, 100);
		if (from->answered == 0 && (result = answer(from)) != NULL)
			PQclear(result);
		if (to->answered == 0 && (result = answer(to)) != NULL)
			take_step(to, result);
	}
	if (counts)
		printf("%.4f %.4f\n", to->answered - from->answered,
			   to->answered - sent);
}

void
stage(const char *conninfo, int samples, const char *start)
{
	Party   workers[2] = {{0}};
	PGconn *starter = connect_to(conninfo);

	become_worker(&workers[0], conninfo);
	become_worker(&workers[1], conninfo);
	for (int i = -WARM; i < samples; i += STAGES)
	{
		int holder = 0;

		run(starter, start);
		wait_for_step(&workers[0]);
		take_step(&workers[0], await(&workers[0]));
		for (int k = 0; k < STAGES; k++)
		{
			hand_over(&workers[holder], &workers[1 - holder],
					  i + k >= 0 && i + k < samples);
			holder = 1 - holder;
		}
		end_step(&workers[holder]);
		PQclear(await(&workers[holder]));
	}
}

/* ------------------------------------------------------------------- flow */

/* Continue workers that have an answer; returns how many steps ended. */
static int
let_work(Party *workers, int n)
{
	int ended = 0;

	for (int i = 0; i < n; i++)
	{
		PGresult *result = answer(&workers[i]);

		if (result == NULL)
			continue;
		if (workers[i].works)
		{
			PQclear(result);
			ended++;
			wait_for_step(&workers[i]);
		}
		else
		{
			take_step(&workers[i], result);
			end_step(&workers[i]);
		}
	}
	return ended;
}

static bool
all_wait(const Party *workers, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (!workers[i].waits)
			return false;
	}
	return true;
}

/* Milliseconds from the start until the end of the instance is seen */
static double
run_flow(Party *starter, Party *workers, int n, Party *const *all)
{
	const char *values[1];
	char        id[32] = "";
	double      sent = now();
	double      seen = 0;

	ask(starter, "start", 0, NULL);
	while (seen == 0)
	{
		PGresult *result;

		if (now() > sent + LOST_MS)
			die("the workflow does not end");
		listen_to(all, n + 1, 100);
		if ((result = answer(starter)) != NULL)
		{
			if (id[0] == '\0')
			{
				snprintf(id, sizeof(id), "%s", PQgetvalue(result, 0, 0));
				values[0] = id;
				ask(starter, "await", 1, values);
			}
			else if (strcmp(PQgetvalue(result, 0, 0), "done") != 0)
				die("the workflow is %s", PQgetvalue(result, 0, 0));
			else
				seen = starter->answered;
			PQclear(result);
		}
		(void) let_work(workers, n);
	}
	return seen - sent;
}

void
flow(const char *conninfo, int n, int samples, const char *start)
{
	Party  starter = {0};
	Party  workers[MAX_WORKERS] = {{0}};
	Party *all[MAX_WORKERS + 1];

	if (n < 1 || n > MAX_WORKERS)
		die("at most %d workers", MAX_WORKERS);
	starter.conn = connect_to(conninfo);
	prepare(starter.conn, "start", start);
	prepare(starter.conn, "await", "CALL taskq_await_workflow($1, '290 s')");
	for (int i = 0; i < n; i++)
	{
		become_worker(&workers[i], conninfo);
		all[i] = &workers[i];
		wait_for_step(&workers[i]);
	}
	all[n] = &starter;
	for (int i = samples > 1 ? -WARM : -1; i < samples; i++)
	{
		double pause = now() + gap();
		double took;

		while (now() < pause || !all_wait(workers, n))
		{
			listen_to(all, n, all_wait(workers, n) ? pause - now() : 100);
			(void) let_work(workers, n);
		}
		took = run_flow(&starter, workers, n, all);
		if (i >= 0)
			printf("%.4f\n", took);
	}
}

/* ------------------------------------------------------------------- call */

/* Milliseconds of a prepared statement */
static double
time_call(Party *party)
{
	double sent = now();

	ask(party, "call", 0, NULL);
	PQclear(await(party));
	return party->answered - sent;
}

/*
 * How long a statement takes: as a transaction of its own ("call"), without
 * its commit ("look"), or the commit alone ("commit").
 */
void
call(const char *what, const char *conninfo, int samples, const char *text)
{
	Party party = {0};
	bool  alone = strcmp(what, "call") == 0;

	party.conn = connect_to(conninfo);
	prepare(party.conn, "call", text);
	for (int i = samples > 1 ? -WARM : -1; i < samples; i++)
	{
		double took;

		if (!alone)
			run(party.conn, "BEGIN");
		took = time_call(&party);
		if (!alone)
		{
			double sent = now();

			run(party.conn, "COMMIT");
			if (strcmp(what, "commit") == 0)
				took = now() - sent;
		}
		if (i >= 0)
			printf("%.4f\n", took);
	}
}
