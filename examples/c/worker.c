/* A complete taskq worker in C, with libpq.
 *		worker QUEUE WORKER		the server: PGHOST, PGPORT, PGDATABASE, PGUSER
 * A task's payload is {"n": 17}; its square is written into done_work.  "ms" makes it
 * take that long, "fail" makes it fail. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libpq-fe.h>

/* All statements have the same parameters, texts (type 25): $1 is the worker, ... */
enum { WORKER, QUEUE, TASK, TOKEN, N, MS, FAIL, SQUARE, ERROR, VALUES };
static const Oid   types[VALUES] = {[0 ... VALUES - 1] = 25};
static const char *value[VALUES]; /* those from TASK on are NULL with empty hands */
static PGconn     *conn;
static PGresult   *answer;             /* to the last call */
static char        code[6];            /* SQLSTATE of the last error */
static volatile sig_atomic_t stop = 0; /* take no more tasks */

static void request_stop(int signo) { stop = signo; }
static bool error_is(const char *state) { return strcmp(code, state) == 0; }

/* Execute a statement, again until its answer is known; false if that is an error.
 * When the connection was lost nobody knows whether the statement took effect.  To
 * repeat it is right: with empty hands we register as a new process, so that a claim
 * that we never heard of goes back; and a finishing call cannot count twice. */
static bool call(const char *statement)
{
	static bool known = false; /* by the server: we are registered */

	for (bool last = stop;; last = stop) {
		PQclear(answer);
		answer = PQexecParams(conn, known ? statement :
			"SELECT taskq_register($1, ARRAY[$2], keep => $3 IS NOT NULL)",
			VALUES, types, value, NULL, NULL, 0);
		if (PQresultStatus(answer) == PGRES_TUPLES_OK) {
			if (known)
				return true;
			known = true;
			continue;
		}
		fprintf(stderr, "%s: %s", value[WORKER], PQerrorMessage(conn));
		if (PQstatus(conn) != CONNECTION_OK) {
			known = false;
			poll(NULL, 0, 200);
			PQreset(conn);
			if (PQstatus(conn) != CONNECTION_OK && last && !value[TASK])
				exit(1); /* nobody is there to say goodbye to */
			continue;
		}
		snprintf(code, sizeof(code), "%s", PQresultErrorField(answer, PG_DIAG_SQLSTATE));
		if (error_is("40001") || error_is("40P01"))
			continue; /* others were in the way: the same once more */
		known = !error_is("TQ007"); /* we were silent for too long: our task is lost */
		if (known || value[TASK])
			return false;
	}
}

/* Work or wait, with heartbeats in between.  False: the task is cancelled or lost. */
static bool spend(int ms)
{
	for (int piece; ms > 0; ms -= piece) {
		if (!call("SELECT $3::bigint = ANY (cancel), drain, 1000 * extract(epoch FROM"
				  " next_in) FROM taskq_heartbeat($1)") ||
			*PQgetvalue(answer, 0, 0) == 't')
			return false;
		stop |= *PQgetvalue(answer, 0, 1) == 't'; /* somebody wants us to leave */
		piece = atoi(PQgetvalue(answer, 0, 2));
		poll(NULL, 0, piece < ms ? piece : ms); /* yours does a piece of its work */
	}
	return true;
}

/* One statement is one transaction.  It completes first: who lost the task writes
 * nothing.  If yours has several statements, repeat them all. */
static void do_task(void)
{
	char square[32];
	snprintf(square, sizeof(square), "%.0f", atof(value[N]) * atof(value[N]));
	value[SQUARE] = square;
	value[ERROR] = *value[FAIL] ? "told to fail" : "cancelled";
	if (!*value[FAIL] && spend(atoi(value[MS]))) {
		if (call("INSERT INTO done_work SELECT $3::bigint, $5::bigint, $8::numeric, $1"
				 " FROM taskq_complete($3::bigint, $4::bigint, jsonb_build_object("
				 "'square', $8::numeric)) RETURNING 1") || error_is("TQ001"))
			return; /* TQ001: not ours any more */
		value[ERROR] = code; /* class 22: what is no number will never be one */
	}
	call("SELECT taskq_fail($3::bigint, $4::bigint, $9, retryable => $9 NOT LIKE '22%')");
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 1;
	value[QUEUE] = argv[1];
	value[WORKER] = argv[2];
	signal(SIGTERM, request_stop);
	conn = PQconnectdb("");
	while (!stop && call("SELECT task_id, token, payload->>'n', payload->>'ms',"
						 " payload->>'fail' FROM taskq_claim($2, $1)")) {
		PGresult *claimed = answer;
		answer = NULL;
		for (int i = 0; PQntuples(claimed) > 0 && i < 5; i++)
			value[TASK + i] = PQgetvalue(claimed, 0, i);
		if (value[TASK])
			do_task();
		else
			spend(200);
		memset(value + TASK, 0, sizeof(value) - TASK * sizeof(*value));
		PQclear(claimed);
	}
	stop = call("SELECT taskq_deregister($1)") && stop;
	PQfinish(conn);
	return !stop;
}
