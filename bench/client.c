/*
 * client.c
 *		What pgbench cannot measure: waiting clients, connections that break,
 *		workflows, and COPY.
 *
 *		client wake KIND CONNINFO WAITERS SAMPLES POLL_MS
 *		client hold KIND CONNINFO WAITERS
 *		client serve KIND CONNINFO WORKERS WORK_MS
 *		client bound CONNINFO SAMPLES
 *		client stage CONNINFO SAMPLES START
 *		client flow CONNINFO WORKERS SAMPLES START
 *		client call | look | commit CONNINFO SAMPLES STATEMENT
 *		client copy CONNINFO CLIENTS SECONDS FILE
 *
 * wake: WAITERS connections sleep, and another one submits a task whenever all
 * of them sleep.  It prints a line for each sample with two times in
 * milliseconds: from the answer to the submit's COMMIT until a waiter's
 * answer, and from sending COMMIT until a waiter's answer.  The commit lies
 * between the two starting points.  A waiter may have its answer before the
 * submitter, so the first time may be negative.  Each waiter is woken once
 * before the first sample, so that no sample measures a new session.  KIND
 * says what a waiter does:
 *
 *		claim	taskq_claim with wait; its answer is the task
 *		wait	CALL taskq_wait; its answer says that there is a task
 *		listen	LISTEN; the submit's transaction sends a NOTIFY; then a claim
 *				of raw; the answer is the task
 *		notice	the same; the answer is the notification
 *		poll	a claim of raw every POLL_MS; the answer is the task
 *		lock	an advisory lock of the server, which the submitter holds and
 *				releases instead of submitting and COMMIT: the wake-up involves
 *				no queue, and no row is written
 *
 * hold: WAITERS connections wait (wait, or listen), and no task arrives.  It
 * prints "ready" and runs until it is terminated.
 *
 * serve: WORKERS take tasks as they arrive (claim, or listen), work WORK_MS on
 * each and complete it.  It prints "ready", runs until it is terminated, and
 * then prints how many tasks it has completed.
 *
 * bound: a worker bound to its connection claims a task and closes the
 * connection.  It prints a line for each sample: the milliseconds from there
 * until a waiting claim has the task.
 *
 * stage: the statement START starts an instance of a chain of four steps.  Two
 * workers take turns: one completes its step while the other sleeps in a
 * claim.  It prints a line for each sample with two times: from the answer to
 * the completion until the other worker has the next step (negative if that
 * answer is first), and from sending the completion.
 *
 * flow: WORKERS sleep in claims and complete each step as soon as they have
 * it.  A starter calls START and waits until the instance has ended.  It
 * prints a line for each sample: the milliseconds from the start to the end.
 *
 * call, look, commit: a line for each sample, the milliseconds of a STATEMENT
 * with its commit, of the statement without it, and of the commit alone.
 * These three, stage and flow are in flow.c.
 *
 * copy: for SECONDS, CLIENTS connections copy a hundred rows at a time into
 * the table "copied".  The rows are those of FILE with other ids.  It prints
 * one line, the rows per second of all connections (copy.c).
 *
 * One loop around poll() serves all connections of a process, so the times of
 * all connections come from one clock, and no connection waits for a thread.
 * Any error of the server ends the program with status 1.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "client.h"

#define ANSWER_MS 60000  /* a waiter without an answer for longer fails */
#define GAP_MS 2         /* minimum before a submit: waiters fall asleep */
#define GAP_RANDOM_MS 10 /* maximum of a random addition */

#define PAYLOAD                                                               \
	"{\"x\": \"012345678901234567890123456789012345678901234567890"           \
	"12345678901234567890123456789012345678901234567890\"}"

typedef enum Kind
{
	CLAIM,
	WAIT,
	LISTEN,
	NOTICE,
	POLL,
	LOCK
} Kind;

/* The current activity of a waiter */
typedef enum Phase
{
	ASLEEP, /* waits in the server, for a notification or its turn */
	CLAIMING,
	WORKING, /* on a task, until "due" */
	ENDING,  /* its task is being completed */
	RESTING  /* has completed it and waits for nothing; only in bound */
} Phase;

typedef struct Waiter
{
	PGconn *conn;
	Phase   phase;
	double  due; /* when it polls next, or its work ends */
	long    key; /* of the lock it waits for; the next is n_waiters higher */
	char    task[32];
	char    token[32];
} Waiter;

static const char *const kinds[] = {"claim", "wait", "listen", "notice",
									"poll",	 "lock"};

static Kind                  kind;
static Waiter               *waiters;
static int                   n_waiters;
static struct pollfd        *fds;
static double                poll_ms;
static double                work_ms = -1; /* serve; wake does not work */
static double                answered;     /* time of the sample's answer */
static long                  done;         /* tasks completed */
static bool                  rest;         /* after each task */
static volatile sig_atomic_t stop;

void
die(const char *format, ...)
{
	va_list args;

	fputs("client: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void
on_term(int signal_number)
{
	(void) signal_number;
	stop = 1;
}

/* Milliseconds of the monotonic clock */
double
now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double) at.tv_sec * 1e3 + (double) at.tv_nsec / 1e6;
}

PGconn *
connect_to(const char *conninfo)
{
	PGconn *conn = PQconnectdb(conninfo);

	if (PQstatus(conn) != CONNECTION_OK)
		die("%s", PQerrorMessage(conn));
	return conn;
}

/* A statement that must succeed; the caller clears its result. */
static PGresult *
ask(PGconn *conn, const char *text)
{
	PGresult *result = PQexec(conn, text);

	if (PQresultStatus(result) != PGRES_COMMAND_OK &&
		PQresultStatus(result) != PGRES_TUPLES_OK)
		die("%s: %s", text, PQerrorMessage(conn));
	return result;
}

static void
run(PGconn *conn, const char *text)
{
	PQclear(ask(conn, text));
}

static void
prepare(PGconn *conn, const char *name, const char *text)
{
	PGresult *result = PQprepare(conn, name, text, 0, NULL);

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		die("%s: %s", text, PQerrorMessage(conn));
	PQclear(result);
}

static void
send_prepared(PGconn *conn, const char *name, int n, const char *const *values)
{
	if (!PQsendQueryPrepared(conn, name, n, values, NULL, NULL, 0))
		die("%s", PQerrorMessage(conn));
}

static bool
is_taskq(void)
{
	return kind == CLAIM || kind == WAIT;
}

/* -------------------------------------------------------------- a waiter */

static void
prepare_waiter(PGconn *conn)
{
	if (is_taskq())
	{
		prepare(conn, "sleep",
				kind == CLAIM ? "SELECT task_id, token, payload FROM"
								" taskq_claim('bench', wait => '290 s')"
							  : "CALL taskq_wait('bench', '290 s')");
		prepare(conn, "claim",
				"SELECT task_id, token, payload FROM taskq_claim('bench')");
		prepare(conn, "complete", "SELECT taskq_complete($1, $2)");
	}
	else if (kind == LOCK)
		prepare(conn, "sleep", "SELECT pg_advisory_lock($1)");
	else
	{
		prepare(conn, "claim",
				"WITH c AS MATERIALIZED (SELECT id FROM raw WHERE state = 0"
				" ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)"
				" UPDATE raw SET state = 1 FROM c WHERE raw.id = c.id"
				" RETURNING raw.id, raw.id, raw.payload");
		prepare(conn, "complete",
				"DELETE FROM raw WHERE id = $1 AND $2::bigint > 0");
		if (kind != POLL)
			run(conn, "LISTEN bench");
	}
}

static void
note_answer(void)
{
	if (answered == 0)
		answered = now();
}

static void
sleep_again(Waiter *waiter)
{
	waiter->phase = ASLEEP;
	waiter->due = kind == POLL ? now() + poll_ms : 0;
	if (is_taskq())
		send_prepared(waiter->conn, "sleep", 0, NULL);
	else if (kind == LOCK)
	{
		char        key[32];
		const char *values[1] = {key};

		snprintf(key, sizeof(key), "%ld", waiter->key);
		send_prepared(waiter->conn, "sleep", 1, values);
	}
}

/* The waiter has the lock and keeps it. */
static void
has_lock(Waiter *waiter)
{
	note_answer();
	done++;
	waiter->key += n_waiters;
	sleep_again(waiter);
}

static void
claim(Waiter *waiter)
{
	waiter->phase = CLAIMING;
	send_prepared(waiter->conn, "claim", 0, NULL);
}

static void
complete(Waiter *waiter)
{
	const char *values[2] = {waiter->task, waiter->token};

	waiter->phase = ENDING;
	send_prepared(waiter->conn, "complete", 2, values);
}

/* The task of an answer, if there is one */
static bool
took(Waiter *waiter, const PGresult *result)
{
	if (PQntuples(result) == 0)
		return false;
	snprintf(waiter->task, sizeof(waiter->task), "%s",
			 PQgetvalue(result, 0, 0));
	snprintf(waiter->token, sizeof(waiter->token), "%s",
			 PQgetvalue(result, 0, 1));
	return true;
}

/* A waiter has a task: complete it, after some work. */
static void
has_task(Waiter *waiter)
{
	if (kind != WAIT && kind != NOTICE)
		note_answer();
	if (work_ms < 0)
		complete(waiter);
	else
	{
		waiter->phase = WORKING;
		waiter->due = now() + work_ms;
	}
}

/* The server has answered the waiter's statement. */
static void
on_result(Waiter *waiter, const PGresult *result)
{
	switch (waiter->phase)
	{
		case ASLEEP:
			if (kind == WAIT && PQgetvalue(result, 0, 0)[0] == 't')
			{
				note_answer();
				claim(waiter);
			}
			else if (kind == CLAIM && took(waiter, result))
				has_task(waiter);
			else if (kind == LOCK)
				has_lock(waiter);
			else
				sleep_again(waiter);
			break;
		case CLAIMING:
			if (took(waiter, result))
				has_task(waiter);
			else
				sleep_again(waiter);
			break;
		case ENDING:
			done++;
			/* after a notification, claim until no task is left */
			if (rest)
				waiter->phase = RESTING;
			else if (work_ms >= 0 && !is_taskq())
				claim(waiter);
			else
				sleep_again(waiter);
			break;
		case WORKING:
		case RESTING:
			die("an answer to nothing");
	}
}

static void
read_waiter(Waiter *waiter)
{
	PGresult *result;
	PGresult *last = NULL;
	PGnotify *notify;

	if (!PQconsumeInput(waiter->conn))
		die("%s", PQerrorMessage(waiter->conn));
	while (!PQisBusy(waiter->conn) &&
		   (result = PQgetResult(waiter->conn)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_TUPLES_OK &&
			PQresultStatus(result) != PGRES_COMMAND_OK)
			die("%s", PQerrorMessage(waiter->conn));
		PQclear(last);
		last = result;
	}
	if (last != NULL && !PQisBusy(waiter->conn))
		on_result(waiter, last);
	PQclear(last);
	while ((notify = PQnotifies(waiter->conn)) != NULL)
	{
		PQfreemem(notify);
		if (kind == NOTICE)
			note_answer();
		if (waiter->phase == ASLEEP)
			claim(waiter);
	}
}

/* Continue waiters that poll, and those whose work has ended. */
static void
on_due(Waiter *waiter, double at)
{
	if (waiter->due == 0 || waiter->due > at)
		return;
	waiter->due = 0;
	if (waiter->phase == WORKING)
		complete(waiter);
	else if (waiter->phase == ASLEEP)
		claim(waiter);
}

/* One round of the loop: until an event or the timeout */
static void
turn(int extra, double ms)
{
	double at = now();
	int    wait;

	for (int i = 0; i < n_waiters; i++)
	{
		if (waiters[i].due > 0 && waiters[i].due - at < ms)
			ms = waiters[i].due - at;
	}
	wait = ms <= 0 ? 0 : (int) ms + 1;
	for (int i = 0; i < n_waiters + extra; i++)
		fds[i].revents = 0;
	if (poll(fds, (nfds_t) (n_waiters + extra), wait) < 0 && errno != EINTR)
		die("poll: %s", strerror(errno));
	at = now();
	for (int i = 0; i < n_waiters; i++)
	{
		if (fds[i].revents != 0)
			read_waiter(&waiters[i]);
		on_due(&waiters[i], at);
	}
}

/* Open WAITERS sleeping connections; fds has room for one more. */
static void
start_waiters(const char *conninfo, int n)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
	{
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	waiters = calloc((size_t) n, sizeof(Waiter));
	fds = calloc((size_t) n + 1, sizeof(struct pollfd));
	if (waiters == NULL || fds == NULL)
		die("out of memory");
	n_waiters = n;
	for (int i = 0; i < n; i++)
	{
		waiters[i].conn = connect_to(conninfo);
		waiters[i].key = i;
		prepare_waiter(waiters[i].conn);
		fds[i].fd = PQsocket(waiters[i].conn);
		fds[i].events = POLLIN;
	}
	for (int i = 0; i < n; i++)
	{
		if (rest)
		{
			waiters[i].phase = RESTING;
			continue;
		}
		sleep_again(&waiters[i]);
		/* pollers are spread over their interval */
		if (kind == POLL)
			waiters[i].due = now() + poll_ms * i / n;
	}
}

static bool
all_asleep(void)
{
	for (int i = 0; i < n_waiters; i++)
	{
		/* a polling waiter sleeps only at times */
		if (waiters[i].phase == ENDING ||
			(kind != POLL && waiters[i].phase != ASLEEP))
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ wake */

/* Run the waiters until they sleep, and for a short time after that. */
static void
settle(void)
{
	double gap = GAP_MS + (double) random() / RAND_MAX * GAP_RANDOM_MS;
	double lost = now() + ANSWER_MS;
	double end = now() + gap;

	while (!all_asleep() || now() < end)
	{
		if (now() > lost)
			die("the waiters do not come to rest");
		if (!all_asleep())
			end = now() + gap;
		turn(0, all_asleep() ? end - now() : 100);
	}
}

/* When the submitter's COMMIT, or its replacement, is answered */
static double
commit_answer(PGconn *submitter)
{
	double    at;
	PGresult *result;

	if (!PQconsumeInput(submitter))
		die("%s", PQerrorMessage(submitter));
	if (PQisBusy(submitter))
		return 0;
	at = now();
	while ((result = PQgetResult(submitter)) != NULL)
	{
		if (PQresultStatus(result) != PGRES_COMMAND_OK &&
			PQresultStatus(result) != PGRES_TUPLES_OK)
			die("%s", PQerrorMessage(submitter));
		PQclear(result);
	}
	return at;
}

/* The submit before the COMMIT, if there is one */
static void
submit(PGconn *submitter)
{
	if (kind == LOCK)
		return;
	run(submitter, "BEGIN");
	if (is_taskq())
		run(submitter, "SELECT taskq_submit('bench', '" PAYLOAD "')");
	else
	{
		run(submitter, "INSERT INTO raw (payload) VALUES ('" PAYLOAD "')");
		if (kind != POLL)
			run(submitter, "NOTIFY bench");
	}
}

/* The two times of one wake-up; all before it had one each */
static void
wake_one(PGconn *submitter, double *from_commit, double *from_sent)
{
	double sent;
	double committed = 0;
	char   unlock[64];

	submit(submitter);
	snprintf(unlock, sizeof(unlock), "SELECT pg_advisory_unlock(%ld)", done);
	answered = 0;
	sent = now();
	if (!PQsendQuery(submitter, kind == LOCK ? unlock : "COMMIT"))
		die("%s", PQerrorMessage(submitter));
	fds[n_waiters].fd = PQsocket(submitter);
	fds[n_waiters].events = POLLIN;
	while (answered == 0 || committed == 0)
	{
		if (now() > sent + ANSWER_MS)
			die("no waiter has answered for %d s", ANSWER_MS / 1000);
		/* after its answer, its end does not matter */
		turn(committed == 0 ? 1 : 0, 100);
		if (committed == 0 && fds[n_waiters].revents != 0)
			committed = commit_answer(submitter);
	}
	*from_commit = answered - committed;
	*from_sent = answered - sent;
}

static void
lock_all(PGconn *submitter, int keys)
{
	char text[128];

	snprintf(text, sizeof(text),
			 "SELECT count(pg_advisory_lock(i)) FROM generate_series(0, %d) i",
			 keys - 1);
	run(submitter, text);
}

static void
wake(const char *conninfo, int n, int samples)
{
	PGconn *submitter = connect_to(conninfo);
	/* either the waiter that waits longest is woken, or all are */
	int warm = is_taskq() || kind == LOCK ? n : 1;

	if (kind == LOCK)
		lock_all(submitter, warm + samples + n);
	start_waiters(conninfo, n);
	for (int i = -warm; i < samples; i++)
	{
		double from_commit;
		double from_sent;

		settle();
		wake_one(submitter, &from_commit, &from_sent);
		if (i >= 0)
			printf("%.4f %.4f\n", from_commit, from_sent);
	}
	settle();
	if (done != samples + warm)
		die("%ld tasks done of %d", done, samples + warm);
}

/* --------------------------------------------------------- hold and serve */

static void
stay(const char *conninfo, int n)
{
	start_waiters(conninfo, n);
	printf("ready\n");
	fflush(stdout);
	while (!stop)
		turn(0, 1000);
	printf("%ld\n", done);
}

/* ----------------------------------------------------------------- bound */

/* A task that a bound worker holds; its connection */
static PGconn *
bound_worker(const char *conninfo, int number)
{
	PGconn   *conn = connect_to(conninfo);
	char      text[256];
	PGresult *result;

	snprintf(text, sizeof(text),
			 "SELECT taskq_register('bound %d', '{bench}', bound => true)",
			 number);
	run(conn, text);
	snprintf(text, sizeof(text),
			 "SELECT task_id FROM taskq_claim('bench', 'bound %d')", number);
	result = ask(conn, text);
	if (PQntuples(result) != 1)
		die("the bound worker gets no task");
	PQclear(result);
	return conn;
}

static void
bound(const char *conninfo, int samples)
{
	PGconn *other = connect_to(conninfo);

	/* the waiter must not take the task before the worker does */
	kind = CLAIM;
	rest = true;
	start_waiters(conninfo, 1);
	for (int i = 0; i < samples; i++)
	{
		PGconn *worker;
		double  closed;

		run(other, "SELECT taskq_submit('bench', '" PAYLOAD "')");
		worker = bound_worker(conninfo, i);
		sleep_again(&waiters[0]);
		settle();
		answered = 0;
		closed = now();
		PQfinish(worker);
		while (answered == 0 || waiters[0].phase != RESTING)
		{
			if (now() > closed + ANSWER_MS)
				die("the task does not come back");
			turn(0, 100);
		}
		printf("%.4f\n", answered - closed);
	}
}

/* ------------------------------------------------------------------ main */

static void
set_kind(const char *word)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		if (strcmp(word, kinds[i]) == 0)
		{
			kind = (Kind) i;
			return;
		}
	}
	die("there is no kind \"%s\"", word);
}

int
main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	signal(SIGTERM, on_term);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (strcmp(mode, "wake") == 0 && argc == 7)
	{
		set_kind(argv[2]);
		poll_ms = atof(argv[6]);
		wake(argv[3], atoi(argv[4]), atoi(argv[5]));
	}
	else if (strcmp(mode, "hold") == 0 && argc == 5)
	{
		set_kind(argv[2]);
		stay(argv[3], atoi(argv[4]));
	}
	else if (strcmp(mode, "serve") == 0 && argc == 6)
	{
		set_kind(argv[2]);
		work_ms = atof(argv[5]);
		stay(argv[3], atoi(argv[4]));
	}
	else if (strcmp(mode, "bound") == 0 && argc == 4)
		bound(argv[2], atoi(argv[3]));
	else if (strcmp(mode, "stage") == 0 && argc == 5)
		stage(argv[2], atoi(argv[3]), argv[4]);
	else if (strcmp(mode, "flow") == 0 && argc == 6)
		flow(argv[2], atoi(argv[3]), atoi(argv[4]), argv[5]);
	else if ((strcmp(mode, "call") == 0 || strcmp(mode, "look") == 0 ||
			  strcmp(mode, "commit") == 0) &&
			 argc == 5)
		call(mode, argv[2], atoi(argv[3]), argv[4]);
	else if (strcmp(mode, "copy") == 0 && argc == 6)
		copy(argv[2], atoi(argv[3]), atof(argv[4]), argv[5]);
	else
		die("see the head of client.c");
	return 0;
}
