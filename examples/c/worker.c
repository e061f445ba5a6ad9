/*
 * A complete taskq worker in C, with libpq.
 *		worker QUEUE WORKER		the server: PGHOST, PGPORT, PGDATABASE, PGUSER
 * A task's payload is {"n": 17}; its square is written into done_work.  "ms"
 * makes it take that long, "fail" makes it fail.
 */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libpq-fe.h>

/* CALL(text, values...): the result, or NULL.  RUN: did it go well? */
#define CALL(...) call((const char *[]){__VA_ARGS__, NULL})
#define RUN(...) freed(CALL(__VA_ARGS__))
#define FAILED_WITH(x) (strcmp(code, x) == 0)

static volatile sig_atomic_t stop;        /* take no more tasks */
static const char *queue, *worker, *task; /* task: id of the one in hand */
static char        code[8]; /* SQLSTATE of the last error, or "lost" */
static PGconn     *conn;

static void
request_stop(int signo)
{
	stop = signo;
}

static PGresult *
call(const char *const *text)
{
	PGresult   *res;
	const char *state;
	int         n = 0;

	while (text[n + 1] != NULL)
		n++;
	res = PQexecParams(conn, text[0], n, NULL, text + 1, NULL, NULL, 0);
	if (PQresultStatus(res) == PGRES_TUPLES_OK ||
		PQresultStatus(res) == PGRES_COMMAND_OK)
		return res;
	state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	if (state == NULL || PQstatus(conn) != CONNECTION_OK)
		state = "lost";
	snprintf(code, sizeof(code), "%s", state);
	fprintf(stderr, "%s: %s", worker, PQresultErrorMessage(res));
	PQclear(res);
	return NULL;
}

static bool
freed(PGresult *res)
{
	PQclear(res);
	return res != NULL;
}

/*
 * After an error.  True: do the same once more.  When the connection was lost
 * nobody knows whether the statement took effect.  To repeat it is right: with
 * empty hands we register as a new process, so that a claim that we never heard
 * of goes back at once; and a finishing call cannot count twice.
 */
static bool
once_more(void)
{
	bool lost = FAILED_WITH("lost");

	if (PQtransactionStatus(conn) == PQTRANS_INERROR)
		RUN("ROLLBACK");
	if (!lost && !FAILED_WITH("TQ007")) /* TQ007: silent for too long */
		return FAILED_WITH("40001") || FAILED_WITH("40P01");
	while (PQstatus(conn) != CONNECTION_OK ||
		   !RUN("SELECT taskq_register($1, ARRAY[$2], keep => $3)", worker,
				queue, task || !lost ? "true" : "false"))
	{
		poll(NULL, 0, 200);
		PQreset(conn);
		if (PQstatus(conn) != CONNECTION_OK && stop && !task)
			exit(1); /* nobody is there to say goodbye to */
	}
	return lost || !task;
}

/* Wait, with heartbeats.  False: the task in hand is cancelled or lost. */
static bool
spend(int ms)
{
	static int beat_in = 0; /* until the next one is due */

	for (int step; ms > 0 && (task || !stop); ms -= step, beat_in -= step)
	{
		PGresult *res = NULL;

		while (beat_in <= 0 &&
			   !(res = CALL("SELECT $2::bigint = ANY (cancel), drain, 1000 *"
							" extract(epoch FROM next_in) FROM"
							" taskq_heartbeat($1)",
							worker, task ? task : "0")))
			if (!once_more())
				return false;
		if (res)
		{
			bool cancelled = PQgetvalue(res, 0, 0)[0] == 't';

			stop |= PQgetvalue(res, 0, 1)[0] == 't'; /* we are to leave */
			beat_in = atoi(PQgetvalue(res, 0, 2));
			PQclear(res);
			if (cancelled)
				return false;
		}
		step = ms < 50 ? ms : 50;
		poll(NULL, 0, step); /* yours does a piece of its work */
	}
	return true;
}

static bool
complete(const char *token, const char *n, const char *square)
{
	do /* complete first, so that who lost the task writes nothing */
		if (RUN("BEGIN") &&
			RUN("SELECT taskq_complete($1, $2, jsonb_build_object('square',"
				" $3::numeric))",
				task, token, square) &&
			RUN("INSERT INTO done_work VALUES ($1, $2, $3, $4)", task, n,
				square, worker) &&
			RUN("COMMIT"))
			return true;
	while (once_more());
	return false;
}

/* An error of class 22 means that the payload makes no sense. */
static void
do_task(const char *token, const char *n, const char *ms, bool fail)
{
	const char *error = "told to fail";
	char        square[32];

	snprintf(square, sizeof(square), "%.0f", atof(n) * atof(n));
	if (!fail && !spend(atoi(ms)))
		error = "cancelled";
	else if (!fail && complete(token, n, square))
		return;
	else if (!fail && FAILED_WITH("TQ001"))
		return; /* not ours any more, and nothing was written */
	else if (!fail)
		error = code;
	while (!RUN("SELECT taskq_fail($1, $2, $3, retryable => $4)", task, token,
				error, error[0] == '2' ? "false" : "true") &&
		   once_more())
		;
}

int
main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = request_stop};
	int              idle = 100;

	if (argc != 3)
		return 1;
	queue = argv[1];
	worker = argv[2];
	sigaction(SIGTERM, &action, NULL);
	conn = PQconnectdb("");
	strcpy(code, "lost");
	once_more(); /* registers */
	while (!stop)
	{
		PGresult *res = CALL("SELECT task_id, token, payload->>'n',"
							 " payload->>'ms', payload->>'fail'"
							 " FROM taskq_claim($1, $2)",
							 queue, worker);

		if (res == NULL && !once_more())
			return 1;
		if (res && PQntuples(res) > 0)
		{
			task = PQgetvalue(res, 0, 0);
			do_task(PQgetvalue(res, 0, 1), PQgetvalue(res, 0, 2),
					PQgetvalue(res, 0, 3), !PQgetisnull(res, 0, 4));
			idle = 100;
		}
		else if (res)
		{
			spend(idle); /* an idle worker looks less often */
			idle = 500;
		}
		task = NULL;
		PQclear(res);
	}
	while (!RUN("SELECT taskq_deregister($1)", worker) && once_more())
		;
	PQfinish(conn);
	return 0;
}
