/*-------------------------------------------------------------------------
 * file_worker.c
 *	  A complete taskq worker: size, media type and SHA-256 of files.
 *
 * The payload of a task is {"path": "..."}, or {"path_base64": "..."} for a
 * name that is not valid UTF-8.  What a worker of your own should keep:
 *
 * - Each call is a statement of its own and commits immediately; no transaction
 *	 is open while a file is being read.
 * - TQ001 says that the task is no longer ours: its work is dropped.
 * - Heartbeats are sent on a timer, also in the middle of a long task.  TQ007
 *	 means that they came too late: drop all tasks in hand and register again.
 *	 If that raises TQ007 as well, another process has our name: end.
 * - After a lost connection it is unknown whether the last statement took
 *	 effect.  A call that finishes a task is repeated: it cannot count twice.  A
 *	 claim may have returned tasks that never reached us.  So if we hold no
 *	 tasks, we register as a new process, which requeues them.  If we hold
 *	 tasks, we continue, since a registration does not depend on the connection.
 * - SIGTERM: finish the current task and deregister, which requeues the others
 *	 immediately.  Any other error ends the program; its tasks are requeued when
 *	 the server misses its heartbeats, and the attempt counts.
 *
 * Copyright (c) 2026, the taskq developers
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <magic.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <libpq-fe.h>
#include <openssl/evp.h>

#define IDLE_MIN_MS 100
#define IDLE_MAX_MS 1000
#define DROPPED (-1) /* not an errno: cancelled, or no longer ours */

typedef struct Worker
{
	const char *name;
	const char *queue;
	char        process[24]; /* distinguishes us from others of that name */
	int         pause_ms;    /* rest before each task */
	PGconn     *conn;
	magic_t     magic;
	EVP_MD_CTX *md;
	long long   next_beat; /* when the next heartbeat is due */
	bool        holding;   /* are there claimed tasks in hand? */
	bool        lost;      /* are their claims no longer valid? */
	bool        drain;     /* did the server ask us to leave? */
} Worker;

typedef struct FileFacts
{
	char size[24];
	char type[128];
	char sha256[65];
} FileFacts;

static volatile sig_atomic_t stop_requested = 0;
static unsigned char         chunk[1024 * 1024];

static void
handle_stop(int signo)
{
	stop_requested = signo;
}

static long long
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static _Noreturn void
die(const Worker *w, const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", w->name, what, why);
	exit(1);
}

/* PQstatus may notice late; but libpq's own errors have no SQLSTATE. */
static bool
connection_failed(const Worker *w, const PGresult *res)
{
	return PQstatus(w->conn) != CONNECTION_OK ||
		   PQresultErrorField(res, PG_DIAG_SQLSTATE) == NULL;
}

/*
 * Register the name: for a new process, or for the same one, which was declared
 * dead.  Fails if another process has registered the name since then.
 */
static bool
register_worker(Worker *w, bool keep)
{
	const char *args[] = {w->name, w->queue, keep ? "true" : "false",
						  w->process};
	PGresult   *res;
	bool        ok;

	res = PQexecParams(w->conn,
					   "SELECT taskq_register(worker => $1, queues =>"
					   " ARRAY[$2], keep => $3::boolean,"
					   " incarnation => $4::bigint)",
					   4, NULL, args, NULL, NULL, 0);
	ok = PQresultStatus(res) == PGRES_TUPLES_OK;
	if (!ok && !connection_failed(w, res))
		die(w, "could not register", PQresultErrorMessage(res));
	PQclear(res);
	w->next_beat = now_ms();
	return ok;
}

/* Connect and register again, unless we have been asked to stop. */
static bool
restore_connection(Worker *w)
{
	fprintf(stderr, "%s: connection lost\n", w->name);
	for (int delay = IDLE_MIN_MS;; delay *= delay < IDLE_MAX_MS ? 2 : 1)
	{
		PQreset(w->conn);
		if (PQstatus(w->conn) == CONNECTION_OK &&
			(w->holding || register_worker(w, false)))
			return true;
		if (stop_requested)
			return false;
		poll(NULL, 0, delay);
	}
}

/*
 * Run one statement, and repeat it if the connection was lost.  Returns NULL
 * if our tasks are no longer ours, or if we must stop and have no connection.
 */
static PGresult *
call(Worker *w, const char *sql, int nargs, const char *const *args)
{
	for (;;)
	{
		PGresult   *res;
		const char *code;

		res = PQexecParams(w->conn, sql, nargs, NULL, args, NULL, NULL, 0);
		if (PQresultStatus(res) == PGRES_TUPLES_OK)
			return res;
		code = PQresultErrorField(res, PG_DIAG_SQLSTATE);
		if (connection_failed(w, res))
		{
			PQclear(res);
			if (restore_connection(w))
				continue;
			return NULL;
		}
		if (strcmp(code, "TQ007") == 0)
		{
			w->lost = true;
			w->holding = false;
			register_worker(w, true);
		}
		else if (strcmp(code, "TQ001") != 0)
			die(w, "unexpected error", PQresultErrorMessage(res));
		PQclear(res);
		return NULL;
	}
}

/*
 * Send a heartbeat if one is due; the server returns when the next is due.
 * Returns false if the task at hand (its id, or NULL) must be dropped, since
 * it is cancelled or no longer ours.
 */
static bool
beat_if_due(Worker *w, const char *task_id)
{
	const char *args[] = {w->name, task_id, w->process};
	PGresult   *res;
	bool        cancelled;

	if (now_ms() < w->next_beat)
		return true;
	res = call(w,
			   "SELECT h.drain, $2::bigint = ANY (h.cancel),"
			   " (extract(epoch FROM h.next_in) * 1000)::bigint"
			   " FROM taskq_heartbeat($1, $3::bigint) AS h",
			   3, args);
	if (res == NULL)
		return false;
	w->drain = PQgetvalue(res, 0, 0)[0] == 't';
	cancelled = PQgetvalue(res, 0, 1)[0] == 't';
	w->next_beat = now_ms() + atoll(PQgetvalue(res, 0, 2));
	PQclear(res);
	return !cancelled;
}

/* Wait, with heartbeats.  A signal, or the loss of our tasks, ends it. */
static void
rest(Worker *w, int ms)
{
	long long until = now_ms() + ms;
	long long now;

	while (!stop_requested && (now = now_ms()) < until)
	{
		if (now >= w->next_beat && !beat_if_due(w, NULL))
			break;
		poll(NULL, 0,
			 (int) ((w->next_beat > now && w->next_beat < until ? w->next_beat
																: until) -
					now));
	}
}

/*
 * The work: size, type and checksum from one pass over the same bytes.
 * Returns 0, the errno of a failure, or DROPPED.
 */
static int
examine(Worker *w, int fd, const char *task_id, FileFacts *facts)
{
	unsigned char digest[32];
	long long     size = 0;
	const char   *type;
	struct stat   st;
	ssize_t       got;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return EINVAL;
	EVP_DigestInit_ex(w->md, EVP_sha256(), NULL);
	do
	{
		if (!beat_if_due(w, task_id))
			return DROPPED;
		got = read(fd, chunk, sizeof(chunk));
		if (got < 0)
			return errno;
		if (size == 0) /* the first chunk, or an empty file */
		{
			type = magic_buffer(w->magic, chunk, (size_t) got);
			snprintf(facts->type, sizeof(facts->type), "%s",
					 type ? type : "application/octet-stream");
		}
		EVP_DigestUpdate(w->md, chunk, (size_t) got);
		size += got;
	} while (got > 0);
	EVP_DigestFinal_ex(w->md, digest, NULL);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(facts->sha256 + 2 * i, 3, "%02x", digest[i]);
	snprintf(facts->size, sizeof(facts->size), "%lld", size);
	return 0;
}

/*
 * The file name as a new string, or NULL.  The claiming statement could decode
 * it, but a bad payload must fail only its task, not the claim.
 */
static char *
decode_base64(const char *text)
{
	size_t         pad = strlen(text) - strcspn(text, "=");
	unsigned char *name = malloc(strlen(text) + 1);
	int            len;

	if (name == NULL)
		return NULL;
	len = EVP_DecodeBlock(name, (const unsigned char *) text,
						  (int) strlen(text));
	name[len < 0 || pad > 2 ? 0 : len - (int) pad] = '\0';
	return (char *) name;
}

/* Finish a task and report it.  Without a result, another worker does it. */
static void
finish_task(Worker *w, const char *word, const char *sql, int nargs,
			const char *const *args)
{
	PGresult *res = call(w, sql, nargs, args);

	printf("%s %s %s\n", w->name, res ? word : "dropped", args[0]);
	PQclear(res);
}

static void
fail_task(Worker *w, const char *task_id, const char *token, const char *error,
		  bool retryable)
{
	const char *args[] = {task_id, token, error, retryable ? "true" : "false"};

	finish_task(w, "failed",
				"SELECT taskq_fail($1::bigint, $2::bigint, $3,"
				" retryable => $4::boolean)",
				4, args);
}

static void
do_task(Worker *w, const char *id, const char *token, const char *path)
{
	FileFacts   facts;
	const char *args[] = {id, token, facts.size, facts.type, facts.sha256};
	int         fd, error;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	error = fd < 0 ? errno : examine(w, fd, id, &facts);
	if (fd >= 0)
		close(fd);
	if (error == DROPPED)
		fail_task(w, id, token, "cancelled", false);
	else if (error != 0)
		/* retry only errors that may be temporary */
		fail_task(w, id, token, strerror(error),
				  error == EIO || error == EMFILE || error == ENFILE ||
					  error == ENOMEM);
	else
		/* the server builds the JSON: nothing has to be escaped here */
		finish_task(w, "done",
					"SELECT taskq_complete($1::bigint, $2::bigint,"
					" jsonb_build_object('size', $3::bigint, 'type',"
					" $4::text, 'sha256', $5::text))",
					5, args);
}

/* Claim some tasks and do them.  Returns their number. */
static int
claim_and_work(Worker *w)
{
	const char *args[] = {w->queue, w->name, w->process};
	PGresult   *res;
	int         count;

	res = call(w,
			   "SELECT task_id, token, payload->>'path', payload->>"
			   "'path_base64' FROM taskq_claim($1, $2, 8,"
			   " incarnation => $3::bigint)",
			   3, args);
	count = res ? PQntuples(res) : 0;
	w->holding = count > 0;
	w->lost = false;
	for (int i = 0; i < count && !w->lost; i++)
	{
		const char *task_id = PQgetvalue(res, i, 0);
		const char *token = PQgetvalue(res, i, 1);
		char       *path;

		rest(w, w->pause_ms);
		if (stop_requested || w->lost)
			break; /* the other tasks return to the queue, or have already */
		path = PQgetisnull(res, i, 2) ? decode_base64(PQgetvalue(res, i, 3))
									  : strdup(PQgetvalue(res, i, 2));
		if (path != NULL && path[0] != '\0')
			do_task(w, task_id, token, path);
		else
			fail_task(w, task_id, token, "the payload names no file", false);
		free(path);
	}
	w->holding = false;
	PQclear(res);
	return count;
}

int
main(int argc, char **argv)
{
	const char      *keys[] = {"application_name", "client_encoding", NULL};
	char             app_name[64];
	const char      *values[] = {app_name, "UTF8", NULL};
	struct sigaction sa = {.sa_handler = handle_stop, .sa_flags = SA_RESTART};
	Worker           w = {.name = argv[0], .md = EVP_MD_CTX_new()};
	int              idle_ms = IDLE_MIN_MS;
	long             number;

	if (getopt(argc, argv, "p:") == 'p')
		w.pause_ms = atoi(optarg);
	if (argc - optind != 2)
		die(&w, "usage: file_worker [-p MS] QUEUE WORKER",
			"-p rests MS ms before each task, to spare a busy disk");
	w.queue = argv[optind];
	w.name = argv[optind + 1];
	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		die(&w, "could not start", strerror(errno));
	snprintf(w.process, sizeof(w.process), "%ld", number);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);

	w.magic = magic_open(MAGIC_MIME_TYPE);
	if (w.md == NULL || w.magic == NULL || magic_load(w.magic, NULL) != 0)
		die(&w, "could not start", "libcrypto or libmagic");
	snprintf(app_name, sizeof(app_name), "file_worker %s", w.name);
	w.conn = PQconnectdbParams(keys, values, 0);
	if (PQstatus(w.conn) != CONNECTION_OK)
		die(&w, "could not connect", PQerrorMessage(w.conn));
	register_worker(&w, false);

	/*
	 * An idle worker polls again after 100 ms, then at increasing intervals.
	 * A claim with wait would need a second connection for the heartbeats.
	 */
	while (!stop_requested && !w.drain)
	{
		if (claim_and_work(&w) > 0)
			idle_ms = IDLE_MIN_MS;
		else
		{
			rest(&w, idle_ms);
			idle_ms = idle_ms * 2 < IDLE_MAX_MS ? idle_ms * 2 : IDLE_MAX_MS;
		}
	}

	PQclear(PQexecParams(w.conn, "SELECT taskq_deregister($1, $2::bigint)", 2,
						 NULL, (const char *const[]){w.name, w.process}, NULL,
						 NULL, 0));
	PQfinish(w.conn);
	return 0;
}
