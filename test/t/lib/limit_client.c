/*
 * limit_client.c
 *		A client that works under limits and writes down what it surely held.
 *
 * limit_client max|rate CONNINFO INDEX LOG STOPFILE SEED
 *
 * It works until the stop file exists or its parent has ended.  Times are
 * nanoseconds of the machine's monotonic clock.  Each line of the log is
 * written immediately, so that a killed client has logged what it knew.
 *
 * max: claims of two queues, of no worker and of one, that are committed,
 * rolled back, rolled back to a savepoint, and prepared; so are the ends of
 * claims.  The lines of the log:
 *
 *	B KIND TASK TOKEN FROM TO GID	a claim is held from its answer until its
 *									lease ends, unless something ends it
 *	E TASK TOKEN AT					something is sent that may end it
 *	I KIND TASK TOKEN FROM TO		a claim was rolled back
 *	R GID AT						a prepared transaction is rolled back
 *	T TASK TOKEN AT TO				TQ001 before the lease has ended
 *	X SQLSTATE						another error
 *
 * KIND is q, a (queue q, worker a) or v (queue v, worker a).
 *
 * rate: claims of queue r, every other one rolled back:
 *
 *	F AT							the first call
 *	C FROM TO TASK					a claim, which was kept
 *	U								a claim, which was rolled back
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libpq-fe.h>

#define LEASE_MS 500
#define MARGIN_NS (50 * INT64_C(1000000)) /* of the end of a lease */
#define MAX_HELD 6

typedef struct Claim
{
	char    kind;
	int64_t task;
	int64_t token;
	int64_t from;
	int64_t to;
} Claim;

static PGconn     *conn = NULL;
static const char *conninfo;
static const char *stop_file;
static int         client_index;
static int         log_fd;
static pid_t       parent;
static int         gid_count = 0;
static char        gid[64];
static Claim       held[MAX_HELD + 8];
static int         held_count = 0;

static int64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int
any(int n)
{
	return (int) (random() % n);
}

static void
pause_some(int most_ms)
{
	poll(NULL, 0, any(most_ms + 1));
}

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
	char    line[300];
	va_list args;
	int     n;

	va_start(args, format);
	n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[n++] = '\n';
	if (write(log_fd, line, n) != n)
		_exit(1);
}

static bool
is_over(void)
{
	return access(stop_file, F_OK) == 0 || getppid() != parent;
}

static bool
lost(void)
{
	return conn == NULL || PQstatus(conn) != CONNECTION_OK;
}

/* NULL after an error, which is logged; the SQLSTATE is in state. */
static char state[6];

static PGresult *__attribute__((format(printf, 1, 2)))
ask(const char *format, ...)
{
	char      text[600];
	va_list   args;
	PGresult *result;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	state[0] = 0;
	if (lost())
		return NULL;
	result = PQexec(conn, text);
	if (PQresultStatus(result) == PGRES_TUPLES_OK ||
		PQresultStatus(result) == PGRES_COMMAND_OK)
		return result;
	snprintf(state, sizeof(state), "%s",
			 PQresultErrorField(result, PG_DIAG_SQLSTATE)
				 ? PQresultErrorField(result, PG_DIAG_SQLSTATE)
				 : "08006");
	if (strcmp(state, "TQ001") != 0)
		say("X %s", state);
	PQclear(result);
	return NULL;
}

#define RUN(...) run_done(ask(__VA_ARGS__))

static bool
run_done(PGresult *result)
{
	PQclear(result);
	return result != NULL;
}

/* Claim up to n tasks; returns how many, -1 after an error. */
static int
claim(char kind, int n, Claim *claims)
{
	int64_t   before = now();
	int64_t   after;
	int       count;
	PGresult *result =
		ask("SELECT task_id, token FROM taskq_claim('%s', %s, %d, '%d ms')",
			kind == 'v' ? "v" : "q", kind == 'q' ? "NULL" : "'a'", n,
			LEASE_MS);

	if (result == NULL)
		return -1;
	after = now();
	count = PQntuples(result);
	for (int i = 0; i < count; i++)
	{
		claims[i].kind = kind;
		claims[i].task = strtoll(PQgetvalue(result, i, 0), NULL, 10);
		claims[i].token = strtoll(PQgetvalue(result, i, 1), NULL, 10);
		claims[i].from = after;
		claims[i].to = before + LEASE_MS * INT64_C(1000000) - MARGIN_NS;
	}
	PQclear(result);
	return count;
}

static void
keep(const Claim *claims, int n, const char *of_gid)
{
	for (int i = 0; i < n; i++)
	{
		say("B %c %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s",
			claims[i].kind, claims[i].task, claims[i].token, claims[i].from,
			claims[i].to, of_gid);
		held[held_count++] = claims[i];
	}
}

static void
may_end(const Claim *c)
{
	say("E %" PRId64 " %" PRId64 " %" PRId64, c->task, c->token, now());
}

static void
was_undone(const Claim *claims, int n, int64_t until)
{
	for (int i = 0; i < n; i++)
		say("I %c %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64,
			claims[i].kind, claims[i].task, claims[i].token, claims[i].from,
			until);
}

static const char *
new_gid(void)
{
	snprintf(gid, sizeof(gid), "c%d_%d_%d", client_index, (int) getpid(),
			 ++gid_count);
	return gid;
}

static void
claim_round(void)
{
	Claim   claims[8];
	char    kind = "qqqaavv"[any(7)];
	int     n = 1 + any(2);
	int     count;
	int     dice = any(20);
	int64_t at;

	if (dice < 8)
	{
		count = claim(kind, n, claims);
		if (count > 0)
			keep(claims, count, "-");
		else
			pause_some(3);
		return;
	}
	if (!RUN("BEGIN"))
		return;
	if (dice < 11 || dice >= 17)
	{
		count = claim(kind, n, claims);
		if (count < 0)
			return;
		pause_some(4);
		if (dice < 11)
		{
			if (RUN("COMMIT"))
				keep(claims, count, "-");
			return;
		}
		if (!RUN("PREPARE TRANSACTION '%s'", new_gid()))
			return;
		keep(claims, count, gid);
		pause_some(4);
		if (dice < 19)
		{
			(void) RUN("COMMIT PREPARED '%s'", gid);
			return;
		}
		held_count -= count;
		say("R %s %" PRId64, gid, now());
		(void) RUN("ROLLBACK PREPARED '%s'", gid);
		return;
	}
	if (dice >= 14 && !RUN("SAVEPOINT s"))
		return;
	count = claim(kind, n, claims);
	if (count < 0)
		return;
	pause_some(4);
	at = now();
	if (dice < 14)
	{
		if (RUN("ROLLBACK"))
			was_undone(claims, count, at);
		return;
	}
	if (!RUN("ROLLBACK TO s"))
		return;
	was_undone(claims, count, at);
	count = claim(kind, n, claims);
	if (count >= 0 && RUN("COMMIT"))
		keep(claims, count, "-");
}

/* What takes the token. */
static bool
end_call(const Claim *c, int verb)
{
	const char *names[] = {"complete(%s)", "fail(%s, 'x')", "release(%s)",
						   "extend(%s, '1 s')", "checkpoint(%s, '1')"};
	char        args[60];
	char        call[120];

	snprintf(args, sizeof(args), "%" PRId64 ", %" PRId64, c->task, c->token);
	snprintf(call, sizeof(call), names[verb], args);
	if (RUN("SELECT taskq_%s", call))
		return true;
	if (strcmp(state, "TQ001") == 0 && now() < c->to)
		say("T %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, c->task,
			c->token, now(), c->to);
	return false;
}

static void
end_round(void)
{
	int   which = any(held_count);
	int   dice = any(20);
	int   verb = any(3);
	Claim c = held[which];
	Claim claims[8];
	int   count;

	/* forgotten, unless it is put back below */
	held[which] = held[--held_count];
	if (any(50) == 0)
		return;
	if (dice < 4)
	{
		/* its row is written again; it is held at least as long as before */
		if (end_call(&c, 3 + any(2)))
			held[held_count++] = c;
		return;
	}
	if (dice < 7)
	{
		may_end(&c);
		(void) end_call(&c, verb);
		return;
	}
	if (dice < 9)
	{
		PGresult *result;
		int64_t   before;

		may_end(&c);
		before = now();
		result = ask("SELECT task_id, token FROM taskq_complete_and_claim("
					 "ARRAY[%" PRId64 "], ARRAY[%" PRId64 "], NULL, 'q', "
					 "NULL, 1, '%d ms')",
					 c.task, c.token, LEASE_MS);
		if (result != NULL && PQntuples(result) == 1)
		{
			Claim next = {'q', strtoll(PQgetvalue(result, 0, 0), NULL, 10),
						  strtoll(PQgetvalue(result, 0, 1), NULL, 10), now(),
						  before + LEASE_MS * INT64_C(1000000) - MARGIN_NS};

			keep(&next, 1, "-");
		}
		PQclear(result);
		return;
	}
	/* its end makes room for what the same transaction claims */
	if (dice < 11)
		may_end(&c);
	if (!RUN("BEGIN") || (dice >= 18 && !RUN("SAVEPOINT s")) ||
		!end_call(&c, verb))
		return; /* which may have lost the connection: then it is held on */
	if (dice < 11)
	{
		count = claim(c.kind, 1, claims);
		if (count >= 0 && RUN("COMMIT"))
			keep(claims, count, "-");
		return;
	}
	pause_some(6);
	if (dice < 14)
	{
		may_end(&c);
		(void) RUN("COMMIT");
		return;
	}
	if (dice < 16)
	{
		if (!RUN("PREPARE TRANSACTION '%s'", new_gid()))
			return;
		pause_some(4);
		if (any(2))
		{
			may_end(&c);
			(void) RUN("COMMIT PREPARED '%s'", gid);
			return;
		}
		if (RUN("ROLLBACK PREPARED '%s'", gid))
			held[held_count++] = c;
		return;
	}
	if (dice >= 18 ? RUN("ROLLBACK TO s") && RUN("COMMIT") : RUN("ROLLBACK"))
		held[held_count++] = c;
}

/*
 * Prepared transactions of this client, or of its predecessor.  A claim
 * that is rolled back with one was never made, and another claim may get its
 * token: nothing that was held before is used again.
 */
static void
undo_prepared(void)
{
	PGresult *result = ask("SELECT gid FROM pg_prepared_xacts "
						   "WHERE gid LIKE 'c%d\\_%%'",
						   client_index);

	if (PQntuples(result) > 0)
		held_count = 0;
	for (int i = 0; result != NULL && i < PQntuples(result); i++)
	{
		say("R %s %" PRId64, PQgetvalue(result, i, 0), now());
		(void) RUN("ROLLBACK PREPARED '%s'", PQgetvalue(result, i, 0));
	}
	PQclear(result);
}

static void
connect_again(void)
{
	PQfinish(conn);
	conn = PQconnectdb(conninfo);
	if (lost())
		pause_some(50);
	else
		undo_prepared();
}

static void
rate_round(void)
{
	static bool said_first = false;

	bool      back = any(2);
	bool      block = back || any(2);
	int64_t   from;
	int64_t   to;
	PGresult *result;

	if (block && !RUN("BEGIN"))
		return;
	from = now();
	if (!said_first)
		say("F %" PRId64, from);
	said_first = true;
	result = ask("SELECT task_id FROM taskq_claim('r', lease => '1 h')");
	to = now();
	if (block && !RUN("%s", back ? "ROLLBACK" : "COMMIT"))
		back = true;
	if (result != NULL && PQntuples(result) == 1 && back)
		say("U");
	else if (result != NULL && PQntuples(result) == 1)
		say("C %" PRId64 " %" PRId64 " %s", from, to,
			PQgetvalue(result, 0, 0));
	if (result != NULL && PQntuples(result) == 0)
		pause_some(4);
	PQclear(result);
}

int
main(int argc, char **argv)
{
	bool rate;

	if (argc != 7)
		return 2;
	rate = strcmp(argv[1], "rate") == 0;
	conninfo = argv[2];
	client_index = atoi(argv[3]);
	log_fd = open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0600);
	stop_file = argv[5];
	srandom((unsigned) atoi(argv[6]) * 1000 + (unsigned) client_index);
	parent = getppid();
	if (log_fd < 0)
		return 2;
	while (!is_over())
	{
		if (lost())
		{
			connect_again();
			continue;
		}
		if (PQtransactionStatus(conn) != PQTRANS_IDLE)
			(void) RUN("ROLLBACK");
		else if (rate)
			rate_round();
		else if (held_count > 0 && (held_count > MAX_HELD - 2 || any(5) < 3))
			end_round();
		else
			claim_round();
	}
	PQfinish(conn);
	return 0;
}
