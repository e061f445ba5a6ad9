/* A complete taskq worker in C: worker QUEUE WORKER (server: PGHOST, PGPORT, PGDATABASE).
 * A task's payload is {"n": 17}; its square is written into done_work.  "ms" makes it
 * take that long, "fail" makes it fail. */
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <libpq-fe.h>
/* All statements have the same parameters, texts (type 25): $1 is the worker, ... */
enum { WORKER, QUEUE, PROCESS, KEEP, TASK, TOKEN, N, MS, FAIL, SQUARE, ERROR, VALUES };
static char process[24]; /* a random number, different from other processes */
static const Oid   types[VALUES] = {[0 ... VALUES - 1] = 25};
static const char *value[VALUES] = {[PROCESS] = process}; /* TASK ...: NULL when idle */
static PGconn     *conn;
static PGresult   *answer;             /* to the last call */
static char        code[6];            /* SQLSTATE of the last error */
static volatile sig_atomic_t stop = 0; /* take no more tasks */

static void request_stop(int signo) { stop = signo; }
static bool error_is(const char *state) { return strcmp(code, state) == 0; }
/* Execute a statement, again until its answer is known; false if that is an error.  If
 * a claim's answer was lost, registering again requeues the task.  No task ends twice. */
static bool call(const char *statement)
{
	static bool known = false, dead = false; /* are we registered, declared dead? */

	for (bool last = stop;; last = stop) {
		PQclear(answer);
		value[KEEP] = dead || value[TASK] ? "t" : "f";
		answer = PQexecParams(conn, known ? statement : "SELECT taskq_register($1,"
			" ARRAY[$2], keep => $4::boolean, incarnation => $3::bigint)",
			VALUES, types, value, NULL, NULL, 0);
		if (PQresultStatus(answer) == PGRES_TUPLES_OK) {
			if (known)
				return true;
			known = true, dead = false;
			continue;
		}
		fprintf(stderr, "%s: %s", value[WORKER], PQerrorMessage(conn));
		if (PQstatus(conn) != CONNECTION_OK) {
			known = false;
			poll(NULL, 0, 200), PQreset(conn);
			if (PQstatus(conn) == CONNECTION_OK || !last || value[TASK])
				continue;
			exit(1); /* it could not deregister */
		}
		snprintf(code, sizeof(code), "%s", PQresultErrorField(answer, PG_DIAG_SQLSTATE));
		if (error_is("40001") || error_is("40P01"))
			continue; /* a conflict: repeat it */
		if (error_is("TQ007") && dead)
			exit(1); /* another process has our name */
		known = !(dead = error_is("TQ007")); /* our task was requeued */
		if (known || value[TASK])
			return false;
	}
}

/* Work or wait, with heartbeats in between.  False: the task is cancelled or lost. */
static bool spend(int ms)
{
	for (int piece; ms > 0; ms -= piece) {
		if (!call("SELECT $5::bigint = ANY (cancel), drain, 1000 * extract(epoch FROM"
				  " next_in) FROM taskq_heartbeat($1, $3::bigint)") ||
			*PQgetvalue(answer, 0, 0) == 't')
			return false;
		stop |= *PQgetvalue(answer, 0, 1) == 't'; /* an operator drains us */
		piece = atoi(PQgetvalue(answer, 0, 2));
		poll(NULL, 0, piece < ms ? piece : ms); /* yours does a piece of its work */
	}
	return true;
}

/* It completes first: a worker that has lost the task writes nothing.  If yours has
 * several statements, put them into one transaction, and repeat them all. */
static void do_task(void)
{
	char square[32];
	snprintf(square, sizeof(square), "%.0f", atof(value[N]) * atof(value[N]));
	value[SQUARE] = square;
	value[ERROR] = *value[FAIL] ? "told to fail" : "cancelled";
	if (!*value[FAIL] && spend(atoi(value[MS]))) {
		if (call("INSERT INTO done_work SELECT $5::bigint, $7::bigint, $10::numeric, $1"
				 " FROM taskq_complete($5::bigint, $6::bigint, jsonb_build_object("
				 "'square', $10::numeric)) RETURNING 1") || error_is("TQ001"))
			return; /* TQ001: no longer ours */
		value[ERROR] = code; /* class 22: the input is bad */
	}
	call("SELECT taskq_fail($5::bigint, $6::bigint, $11, $11 NOT LIKE '22%')");
}

int main(int argc, char **argv)
{
	long number;
	if (argc != 3 || getrandom(&number, sizeof(number), 0) != sizeof(number))
		return 1;
	value[QUEUE] = argv[1], value[WORKER] = argv[2];
	snprintf(process, sizeof(process), "%ld", number);
	signal(SIGTERM, request_stop);
	conn = PQconnectdb("");
	while (!stop && call("SELECT task_id, token, payload->>'n', payload->>'ms', payload"
			"->>'fail' FROM taskq_claim($2, $1, incarnation => $3::bigint)")) {
		PGresult *claimed = answer;
		for (int i = 0; PQntuples(claimed) > 0 && i < 5; i++)
			value[TASK + i] = PQgetvalue(claimed, 0, i);
		answer = NULL;
		if (value[TASK])
			do_task();
		else
			spend(200);
		memset(value + TASK, 0, sizeof(value) - TASK * sizeof(*value));
		PQclear(claimed);
	}
	stop = call("SELECT taskq_deregister($1, $3::bigint)") && stop;
	PQfinish(conn);
	return !stop;
}
