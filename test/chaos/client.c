/*
 * client.c
 *		A producer or a worker of the chaos test, one process each; or a
 *		session that holds a snapshot.
 *
 * It works at random, drawn from a seed, and writes what it does to a log of
 * its own, with one write() before and one after each operation, so that
 * nothing is lost when the process is killed:
 *
 *		B number t0 operation name=value ...
 *		E number t1 ok|fail|unknown name=value ...
 *
 * Times are microseconds of the monotonic clock.  An operation is a
 * transaction, or one call that commits by itself.  "fail" means that it
 * surely did not happen: the server refused it, or it was rolled back, or the
 * connection was lost before its commit was sent.  "unknown": lost later.
 * doc/testing.md lists the operations; the checker judges by these logs.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include <libpq-fe.h>

#define TEXT 4096
#define MAX_KEYS 64
#define MAX_WORDS 16
#define OLD_TASKS 64      /* tasks that we no longer hold, to be tried again */
#define OLD_REFERENCES 32 /* references that may still be taken */
#define RECONNECT_MS 90000

typedef enum
{
	OK,
	FAIL,
	UNKNOWN
} Outcome;

/* How the transaction of an operation is to end. */
typedef enum
{
	END_AUTO, /* one call that commits by itself */
	END_COMMIT,
	END_ROLLBACK,
	END_PREPARED_COMMIT,
	END_PREPARED_ROLLBACK
} End;

typedef struct Words
{
	char *word[MAX_WORDS];
	int   count;
} Words;

typedef struct Task
{
	int64_t task_id;
	int64_t token;
	char    queue[64];
	char    key[64];
} Task;

static const char *const end_word[] = {"auto", "commit", "rollback",
									   "prepared_commit", "prepared_rollback"};

/* what we were told to be */
static const char *name;
static const char *conninfo;
static const char *control_dir;
static const char *own_tags = "";
static Words       own_queues;
static Words       all_queues;
static bool        registers = false;
static bool        bound = false; /* to the connection */
static int         max_running = 0;
static int         rate = 40; /* transactions of a producer in a second */
static int         heartbeat_ms = 250;

static PGconn  *conn = NULL;
static bool     conn_lost = false;
static char     code[16]; /* why the last statement failed */
static int      log_fd;
static long     op_number = 0;
static pid_t    parent;
static uint64_t chance;
static bool     draining = false;

static bool    need_register = false;
static int64_t next_beat = 0;
static Task    old_tasks[OLD_TASKS];
static int     old_count = 0;
static char    old_reference[OLD_REFERENCES][64];
static int64_t old_reference_id[OLD_REFERENCES];
static char    old_reference_queue[OLD_REFERENCES][64];
static int     reference_count = 0;
static long    key_count = 0;
static long    prepared_count = 0;

/* ---- time, chance, the log ---- */

static int64_t
now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
rest_ms(int ms)
{
	poll(NULL, 0, ms);
}

static int
draw(int below)
{
	chance ^= chance >> 12;
	chance ^= chance << 25;
	chance ^= chance >> 27;
	return (int) ((chance * UINT64_C(2685821657736338717)) >> 33) % below;
}

static bool
percent(int n)
{
	return draw(100) < n;
}

static _Noreturn void
die(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", name, what, why);
	exit(1);
}

/* Nothing of this test outlives it. */
static void
check_parent(void)
{
	if (getppid() != parent)
		exit(0);
}

static bool
told_to(const char *what)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", control_dir, what);
	return access(path, F_OK) == 0;
}

static void
write_line(const char *line, int length)
{
	if (write(log_fd, line, (size_t) length) != length)
		die("could not write the log", strerror(errno));
}

static long begin_op(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
static Outcome end_op(long op, Outcome outcome, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static long
begin_op(const char *format, ...)
{
	char    line[2 * TEXT];
	char    rest[TEXT];
	va_list args;
	int     length;

	va_start(args, format);
	vsnprintf(rest, sizeof(rest), format, args);
	va_end(args);
	length = snprintf(line, sizeof(line), "B %ld %" PRId64 " %s\n",
					  ++op_number, now_us(), rest);
	write_line(line, length);
	return op_number;
}

static Outcome
end_op(long op, Outcome outcome, const char *format, ...)
{
	int64_t now = now_us();
	char    line[4 * TEXT];
	char    rest[3 * TEXT];
	va_list args;
	int     length;

	va_start(args, format);
	vsnprintf(rest, sizeof(rest), format, args);
	va_end(args);
	length = snprintf(line, sizeof(line), "E %ld %" PRId64 " %s%s %s\n", op,
					  now,
					  outcome == OK        ? "ok"
					  : outcome == UNKNOWN ? "unknown"
										   : "fail code=",
					  outcome == FAIL ? code : "", rest);
	write_line(line, length);
	return outcome;
}

/* ---- the connection ---- */

static void
ignore_notice(void *arg, const char *message)
{
	(void) arg;
	(void) message;
}

/* Connect to whichever server takes writes, for as long as RECONNECT_MS. */
static void
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
			/* what was bound to the former one is dead, or about to be */
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

/*
 * Run one statement.  UNKNOWN when the connection was lost: code "lost".  A
 * server that goes away may still say so, with a class 57P.
 */
static Outcome run(PGresult **result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static Outcome
run(PGresult **result, const char *format, ...)
{
	char           sql[2 * TEXT];
	va_list        args;
	PGresult      *res;
	ExecStatusType status;
	const char    *sqlstate;
	Outcome        outcome = OK;

	va_start(args, format);
	vsnprintf(sql, sizeof(sql), format, args);
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

static Outcome
tx_begin(End end)
{
	return end == END_AUTO ? OK : run(NULL, "BEGIN");
}

/*
 * End the transaction as was meant if all went well, else roll it back.  Only
 * an answer that is missing to what commits leaves the outcome unknown.
 */
static Outcome
tx_end(End end, Outcome outcome)
{
	long gid;

	if (end == END_AUTO)
		return outcome;
	if (outcome == UNKNOWN)
		return FAIL; /* lost before the end: it did not happen */
	if (outcome == FAIL || end == END_ROLLBACK)
	{
		if (outcome == OK)
			snprintf(code, sizeof(code), "rollback");
		PQclear(PQexec(conn, "ROLLBACK"));
		conn_lost = PQstatus(conn) != CONNECTION_OK;
		return FAIL;
	}
	if (end == END_COMMIT)
		return run(NULL, "COMMIT");
	gid = ++prepared_count;
	if (end == END_PREPARED_COMMIT)
	{
		outcome = run(NULL, "PREPARE TRANSACTION '%s_%d_%ld_commit'", name,
					  (int) getpid(), gid);
		if (outcome == OK)
		{
			if (percent(30))
				rest_ms(draw(100));
			/* the saboteur ends those it finds: then it may be done */
			outcome = run(NULL, "COMMIT PREPARED '%s_%d_%ld_commit'", name,
						  (int) getpid(), gid);
			if (outcome == FAIL)
				outcome = UNKNOWN;
		}
		else if (outcome == FAIL)
			PQclear(PQexec(conn, "ROLLBACK"));
		return outcome;
	}
	outcome = run(NULL, "PREPARE TRANSACTION '%s_%d_%ld_rollback'", name,
				  (int) getpid(), gid);
	if (outcome == OK)
	{
		snprintf(code, sizeof(code), "rollback");
		outcome = run(NULL, "ROLLBACK PREPARED '%s_%d_%ld_rollback'", name,
					  (int) getpid(), gid);
		if (outcome == OK)
			snprintf(code, sizeof(code), "rollback");
	}
	else if (outcome == FAIL)
		PQclear(PQexec(conn, "ROLLBACK"));
	return FAIL;
}

static End
draw_end(void)
{
	int n = draw(100);

	return n < 82   ? END_COMMIT
		   : n < 90 ? END_ROLLBACK
		   : n < 96 ? END_PREPARED_COMMIT
					: END_PREPARED_ROLLBACK;
}

/* ---- the producer ---- */

typedef struct Submission
{
	const char *queue;
	int         priority;
	int         delay_ms;
	int         deadline_ms;
	int         max_attempts;
	const char *tags;
	const char *conflict;
	char        reference[64];
	bool        many;
	End         end;
	int         kept; /* keys that are to stay */
	int  dropped;     /* keys submitted in a savepoint that is rolled back */
	char key[MAX_KEYS][64];
	char id[MAX_KEYS][24]; /* or "-": nothing was submitted */
} Submission;

/* The named arguments that all tasks of a submission share. */
static void
settings_of(const Submission *sub, char *text, size_t size)
{
	int n = 0;

	text[0] = '\0';
	if (sub->priority != 0)
		n += snprintf(text + n, size - n, ", priority => %d", sub->priority);
	if (sub->delay_ms != 0)
		n += snprintf(text + n, size - n, ", delay => '%d ms'", sub->delay_ms);
	if (sub->deadline_ms != 0)
		n += snprintf(text + n, size - n,
					  ", deadline => clock_timestamp() + interval '%d ms'",
					  sub->deadline_ms);
	if (sub->max_attempts != 0)
		n += snprintf(text + n, size - n, ", max_attempts => %d",
					  sub->max_attempts);
	if (sub->tags[0] != '\0')
		n += snprintf(text + n, size - n, ", tags => '{%s}'", sub->tags);
	if (sub->reference[0] != '\0')
		snprintf(text + n, size - n,
				 ", reference => '%s', on_conflict => '%s'", sub->reference,
				 sub->conflict);
}

/* The id under which we know that reference, 0 if we do not. */
static int64_t
known_id(const char *reference)
{
	for (int i = 0; i < OLD_REFERENCES; i++)
	{
		if (strcmp(old_reference[i], reference) == 0)
			return old_reference_id[i];
	}
	return 0;
}

/*
 * Submit the keys from first on, each with its row in the outbox.  A task
 * that was there already (on_conflict) gets none.
 */
static Outcome
submit_keys(Submission *sub, int first, int count)
{
	char      settings[512];
	char      payloads[TEXT];
	char      rows[TEXT];
	int       n = 0;
	Outcome   outcome = OK;
	PGresult *res;

	settings_of(sub, settings, sizeof(settings));
	if (sub->many)
	{
		for (int i = first; i < first + count; i++)
			n += snprintf(payloads + n, sizeof(payloads) - n,
						  "%s'{\"key\": \"%s\"}'", i > first ? ", " : "",
						  sub->key[i]);
		outcome = run(&res,
					  "SELECT id FROM taskq_submit_many('%s', ARRAY[%s]"
					  "::jsonb[]%s) AS id",
					  sub->queue, payloads, settings);
		if (outcome != OK)
			return outcome;
		for (int i = 0; i < count; i++)
			snprintf(sub->id[first + i], sizeof(sub->id[0]), "%s",
					 i < PQntuples(res) ? PQgetvalue(res, i, 0) : "none");
		PQclear(res);
	}
	else
	{
		for (int i = first; i < first + count; i++)
		{
			outcome = run(&res,
						  "SELECT taskq_submit('%s', '{\"key\": \"%s\"}'%s)",
						  sub->queue, sub->key[i], settings);
			if (outcome != OK)
				return outcome;
			if (PQgetisnull(res, 0, 0) ||
				(strcmp(sub->reference, sub->key[i]) != 0 &&
				 known_id(sub->reference) == atoll(PQgetvalue(res, 0, 0))))
				strcpy(sub->id[i], "-");
			else
				snprintf(sub->id[i], sizeof(sub->id[0]), "%s",
						 PQgetvalue(res, 0, 0));
			PQclear(res);
		}
	}
	n = 0;
	for (int i = first; i < first + count; i++)
	{
		if (strcmp(sub->id[i], "-") != 0)
			n += snprintf(rows + n, sizeof(rows) - n, "%s('%s')",
						  n > 0 ? ", " : "", sub->key[i]);
	}
	return n == 0 ? OK : run(NULL, "INSERT INTO outbox (key) VALUES %s", rows);
}

static void
join_keys(const Submission *sub, int first, int count, char *text, size_t size)
{
	int n = 0;

	strcpy(text, "-");
	for (int i = first; i < first + count; i++)
		n += snprintf(text + n, size - n, "%s%s", n > 0 ? "," : "",
					  sub->key[i]);
}

/*
 * Remember under which id a reference is known.  After an unknown outcome
 * somebody may have it whom we do not know: then it is used no more.
 */
static void
note_reference(const Submission *sub, Outcome outcome)
{
	int i = 0;

	if (sub->reference[0] == '\0' || outcome == FAIL)
		return;
	while (i < OLD_REFERENCES && strcmp(old_reference[i], sub->reference) != 0)
		i++;
	if (outcome == UNKNOWN)
	{
		if (i < OLD_REFERENCES)
			old_reference[i][0] = '\0';
		return;
	}
	if (strcmp(sub->id[0], "-") == 0)
		return;
	if (i == OLD_REFERENCES)
		i = reference_count++ % OLD_REFERENCES;
	snprintf(old_reference[i], sizeof(old_reference[0]), "%s", sub->reference);
	/* it may be the very name that stands there */
	if (sub->queue != old_reference_queue[i])
		snprintf(old_reference_queue[i], sizeof(old_reference_queue[0]), "%s",
				 sub->queue);
	old_reference_id[i] = atoll(sub->id[0]);
}

static void
draw_submission(Submission *sub)
{
	static const char *const tag_sets[] = {"a", "b", "a,b"};
	int                      old;

	memset(sub, 0, sizeof(*sub));
	sub->queue = own_queues.word[draw(own_queues.count)];
	sub->tags = "";
	sub->conflict = "error";
	sub->end = draw_end();
	if (percent(40))
		sub->priority = draw(4) - 1;
	if (percent(15))
		sub->delay_ms = 20 + draw(1200);
	else if (percent(6))
		sub->deadline_ms = 200 + draw(1000);
	if (percent(15))
		sub->max_attempts = 1 + draw(4);
	if (percent(15))
		sub->tags = tag_sets[draw(3)];
	sub->many = percent(30);
	sub->kept = sub->many ? 2 + draw(12) : 1 + draw(2) * draw(3);
	sub->dropped = percent(8) ? 1 + draw(3) : 0;
	for (int i = 0; i < sub->kept + sub->dropped; i++)
		snprintf(sub->key[i], sizeof(sub->key[0]), "%s-%ld", name,
				 ++key_count);
	if (sub->many || sub->kept > 1 || sub->dropped > 0)
		return;
	if (percent(60))
		snprintf(sub->reference, sizeof(sub->reference), "%s", sub->key[0]);
	else if (percent(60) && reference_count > 0)
	{
		/* one that may be taken still */
		old = (reference_count - 1 - draw(4) + OLD_REFERENCES) %
			  OLD_REFERENCES;
		if (old_reference[old][0] == '\0')
			return;
		snprintf(sub->reference, sizeof(sub->reference), "%s",
				 old_reference[old]);
		sub->queue = old_reference_queue[old];
		sub->conflict = percent(40)   ? "return"
						: percent(60) ? "skip"
									  : "error";
	}
}

static void
submit(void)
{
	Submission sub;
	char       full[96];
	char       keys[TEXT];
	char       dropped[TEXT];
	char       ids[TEXT];
	int        n = 0;
	long       op;
	Outcome    outcome;

	draw_submission(&sub);
	snprintf(full, sizeof(full), "full_%.80s", sub.queue);
	if (told_to(full))
		return;
	join_keys(&sub, 0, sub.kept, keys, sizeof(keys));
	join_keys(&sub, sub.kept, sub.dropped, dropped, sizeof(dropped));
	op = begin_op("submit q=%s keys=%s void=%s end=%s prio=%d delay=%d "
				  "deadline=%d max=%d tags=%s ref=%s conflict=%s",
				  sub.queue, keys, dropped, end_word[sub.end], sub.priority,
				  sub.delay_ms * 1000, sub.deadline_ms * 1000,
				  sub.max_attempts, sub.tags[0] ? sub.tags : "-",
				  sub.reference[0] ? sub.reference : "-", sub.conflict);
	outcome = tx_begin(sub.end);
	if (outcome == OK && sub.dropped > 0)
	{
		outcome = run(NULL, "SAVEPOINT s");
		if (outcome == OK)
			outcome = submit_keys(&sub, sub.kept, sub.dropped);
		if (outcome == OK)
			outcome = run(NULL, "ROLLBACK TO s");
	}
	if (outcome == OK)
		outcome = submit_keys(&sub, 0, sub.kept);
	outcome = tx_end(sub.end, outcome);
	strcpy(ids, "-");
	for (int i = 0; i < sub.kept; i++)
		n += snprintf(ids + n, sizeof(ids) - n, "%s%s", n > 0 ? "," : "",
					  sub.id[i]);
	end_op(op, outcome, "ids=%s", ids);
	note_reference(&sub, outcome);
}

static void
produce(void)
{
	while (!told_to("drain") && !told_to("stop"))
	{
		check_parent();
		ensure_connection();
		submit();
		rest_ms(500 / rate + draw(1000 / rate + 1));
	}
}

/* ---- the worker ---- */

static void
register_worker(void)
{
	char    limit[32] = "";
	char    text[512];
	int     n = 0;
	long    op;
	Outcome outcome;

	for (int i = 0; i < own_queues.count; i++)
		n += snprintf(text + n, sizeof(text) - n, "%s%s", i > 0 ? "," : "",
					  own_queues.word[i]);
	if (max_running > 0)
		snprintf(limit, sizeof(limit), ", max_running => %d", max_running);
	ensure_connection();
	op = begin_op("register w=%s limit=%d bound=%d", name, max_running, bound);
	outcome = run(NULL, "SELECT taskq_register('%s', '{%s}', '{%s}'%s%s)",
				  name, text, own_tags, limit, bound ? ", bound => true" : "");
	end_op(op, outcome, "-");
	need_register = outcome != OK;
	next_beat = now_us() + heartbeat_ms * 1000;
}

/* True when we are registered again, hence hold nothing any more. */
static bool
beat_if_due(void)
{
	long    op;
	Outcome outcome;

	if (!registers || now_us() < next_beat)
		return false;
	ensure_connection();
	if (bound && need_register)
		return true;
	op = begin_op("heartbeat w=%s", name);
	outcome = run(NULL, "SELECT taskq_heartbeat('%s')", name);
	end_op(op, outcome, "-");
	next_beat = now_us() + heartbeat_ms * 1000;
	if (outcome == FAIL && strcmp(code, "TQ007") == 0)
		need_register = true;
	return need_register;
}

/* Work, with heartbeats if we are to send any. */
static void
work_ms(int ms, bool with_heartbeats)
{
	int64_t until = now_us() + (int64_t) ms * 1000;
	int     left;

	while ((left = (int) ((until - now_us()) / 1000)) > 0)
	{
		check_parent();
		rest_ms(left < 100 ? left : 100);
		if (with_heartbeats)
			beat_if_due();
	}
}

static void
remember_task(const Task *task)
{
	old_tasks[old_count++ % OLD_TASKS] = *task;
}

/*
 * One step on a task that we hold, or that somebody else may hold meanwhile.
 * what: the words of the log; sql: the call.
 */
static Outcome
step(const Task *task, End end, bool effect, const char *what, const char *sql)
{
	long    op;
	Outcome outcome;

	ensure_connection();
	op = begin_op(
		"%s id=%" PRId64 " token=%" PRId64 " w=%s effect=%d end=%s q=%s", what,
		task->task_id, task->token, name, effect, end_word[end], task->queue);
	outcome = tx_begin(end);
	if (outcome == OK && effect)
		outcome = run(NULL,
					  "INSERT INTO effect (task_id, token, key) VALUES"
					  " (%" PRId64 ", %" PRId64 ", '%s')",
					  task->task_id, task->token, task->key);
	if (outcome == OK)
		outcome = run(NULL, "SELECT %s", sql);
	outcome = tx_end(end, outcome);
	/* not ended, and not taken from us: a registered worker would keep it */
	if (outcome != OK && strcmp(code, "TQ001") != 0 &&
		strcmp(code, "rollback") != 0)
		need_register |= registers;
	return end_op(op, outcome, "-");
}

static Outcome
complete(const Task *task, End end, bool effect)
{
	char sql[256];

	snprintf(sql, sizeof(sql), "taskq_complete(%" PRId64 ", %" PRId64 ")",
			 task->task_id, task->token);
	return step(task, end, effect, "complete", sql);
}

static Outcome
fail(const Task *task)
{
	char sql[256];
	char what[64];
	int  retry_ms = draw(600);
	bool retryable = !percent(8);
	bool wait_given = percent(40);

	snprintf(what, sizeof(what), "fail retryable=%d retry_in=%d", retryable,
			 wait_given ? retry_ms * 1000 : -1);
	snprintf(sql, sizeof(sql),
			 "taskq_fail(%" PRId64 ", %" PRId64
			 ", 'no luck', %s, CASE WHEN %s THEN interval '%d ms' END)",
			 task->task_id, task->token, retryable ? "true" : "false",
			 wait_given ? "true" : "false", retry_ms);
	return step(task, END_AUTO, false, what, sql);
}

static Outcome
release(const Task *task)
{
	char sql[256];
	char what[64];
	int  delay_ms = draw(2) * draw(500);

	snprintf(what, sizeof(what), "release delay=%d", delay_ms * 1000);
	snprintf(sql, sizeof(sql),
			 "taskq_release(%" PRId64 ", %" PRId64 ", '%d ms')", task->task_id,
			 task->token, delay_ms);
	return step(task, END_AUTO, false, what, sql);
}

static Outcome
extend(const Task *task)
{
	char sql[256];
	char what[64];
	int  lease_ms = 300 + draw(900);

	snprintf(what, sizeof(what), "extend lease=%d", lease_ms * 1000);
	snprintf(sql, sizeof(sql),
			 "taskq_extend(%" PRId64 ", %" PRId64 ", '%d ms')", task->task_id,
			 task->token, lease_ms);
	return step(task, END_AUTO, false, what, sql);
}

static Outcome
checkpoint(const Task *task)
{
	char sql[256];

	snprintf(sql, sizeof(sql),
			 "taskq_checkpoint(%" PRId64 ", %" PRId64 ", '{\"half\": true}')",
			 task->task_id, task->token);
	return step(task, END_AUTO, false, "checkpoint", sql);
}

/* An answer for a task that we let go or lost: it must not count twice. */
static void
answer_late(void)
{
	const Task *task;

	if (old_count == 0)
		return;
	task = &old_tasks[draw(old_count < OLD_TASKS ? old_count : OLD_TASKS)];
	switch (draw(4))
	{
		case 0:
			fail(task);
			break;
		case 1:
			extend(task);
			break;
		default:
			complete(task, END_COMMIT, true);
	}
}

/*
 * Do one task, somehow.  Without effect, the queue's completions never write
 * effects (a queue name that begins with "bare").
 */
static void
do_task(const Task *task, bool *die_now)
{
	int  n = draw(1000);
	bool effect = strncmp(task->queue, "bare", 4) != 0;

	if (draining)
	{
		complete(task, effect ? END_COMMIT : END_AUTO, effect);
		return;
	}
	if (percent(2))
		work_ms(900 + draw(900), percent(60)); /* too long for a lease */
	else if (percent(20))
		work_ms(20 + draw(120), true);
	else
		work_ms(draw(6), true);
	if (percent(6))
		extend(task);
	if (percent(3))
		checkpoint(task);
	if (n < 20)
	{
		/* undone: the task is still ours */
		if (complete(task, END_ROLLBACK, effect) != FAIL)
			return;
		complete(task, END_COMMIT, effect);
	}
	else if (n < 30)
		complete(task, END_PREPARED_COMMIT, effect);
	else if (n < 40)
	{
		complete(task, END_PREPARED_ROLLBACK, effect);
		complete(task, END_COMMIT, effect);
	}
	else if (n < 170)
	{
		fail(task);
		remember_task(task);
	}
	else if (n < 210)
	{
		release(task);
		remember_task(task);
	}
	else if (n < 225)
	{
		/* forgotten: a lease ends by itself, a registered worker says so */
		remember_task(task);
		need_register |= registers;
	}
	else if (n < 228)
		*die_now = true;
	else
	{
		if (complete(task, effect ? END_COMMIT : END_AUTO, effect) ==
				UNKNOWN &&
			percent(70))
			complete(task, END_COMMIT, effect);
		if (percent(4))
			remember_task(task);
	}
}

/* The rows of a claim, as words of the log and, if wanted, as tasks. */
static int
read_claim(PGresult *res, char *words, size_t size, Task *tasks, int count)
{
	int n = 0;

	strcpy(words, "-");
	for (int i = 0; i < PQntuples(res); i++)
	{
		n += snprintf(words + n, size - n, "%s%s:%s:%s:%s:%s:%s",
					  n > 0 ? "," : "", PQgetvalue(res, i, 0),
					  PQgetvalue(res, i, 1), PQgetvalue(res, i, 2),
					  PQgetvalue(res, i, 3), PQgetvalue(res, i, 4),
					  PQgetvalue(res, i, 5));
		if (tasks == NULL)
			continue;
		tasks[count].task_id = atoll(PQgetvalue(res, i, 0));
		tasks[count].token = atoll(PQgetvalue(res, i, 1));
		snprintf(tasks[count].key, sizeof(tasks[0].key), "%s",
				 PQgetvalue(res, i, 5));
		count++;
	}
	PQclear(res);
	return count;
}

static Outcome
run_claim(PGresult **res, const char *queue, int want, int lease_ms)
{
	char lease[48] = "NULL";

	if (lease_ms > 0)
		snprintf(lease, sizeof(lease), "interval '%d ms'", lease_ms);
	return run(res,
			   "SELECT task_id, token, attempt, max_attempts, priority,"
			   " payload->>'key' FROM taskq_claim('%s', '%s', %d, %s,"
			   " tags => '{%s}')",
			   queue, name, want, lease, draining ? "a,b" : own_tags);
}

/*
 * Claim some tasks of a queue: how many.  Claims that are rolled back are
 * told under "void": they were held for a moment, and never happened.
 */
static int
claim(Task *tasks)
{
	const Words       *queues = draining ? &all_queues : &own_queues;
	static const char *productive = NULL; /* where the last claim found some */
	const char        *queue = queues->word[draw(queues->count)];
	int                want = percent(50) ? 1 : 1 + draw(6);
	int                lease_ms = 0;
	int                count = 0;
	End                end = END_AUTO;
	bool               undo = false; /* a second claim, in a savepoint */
	char               words[3 * TEXT / 2] = "-";
	char               dropped[3 * TEXT / 2] = "-";
	long               op;
	Outcome            outcome;
	PGresult          *res;

	if (percent(20))
		lease_ms = 300 + draw(900);
	if (draining && productive != NULL && percent(80))
		queue = productive;
	if (!draining)
	{
		int n = draw(100);

		end = n < 84   ? END_AUTO
			  : n < 92 ? END_COMMIT
			  : n < 96 ? END_ROLLBACK
			  : n < 98 ? END_PREPARED_COMMIT
					   : END_PREPARED_ROLLBACK;
		undo = end == END_COMMIT && percent(50);
	}
	ensure_connection();
	if (bound && need_register)
		return 0;
	op = begin_op("claim q=%s w=%s n=%d lease=%d held=%s tags=%s end=%s",
				  queue, name, want, lease_ms * 1000,
				  bound       ? "connection"
				  : registers ? "worker"
							  : "lease",
				  draining      ? "a,b"
				  : own_tags[0] ? own_tags
								: "-",
				  end_word[end]);
	outcome = tx_begin(end);
	if (outcome == OK)
		outcome = run_claim(&res, queue, want, lease_ms);
	if (outcome == OK)
		count = read_claim(res, words, sizeof(words), tasks, 0);
	if (outcome == OK && undo)
	{
		outcome = run(NULL, "SAVEPOINT s");
		if (outcome == OK)
			outcome = run_claim(&res, queue, want, lease_ms);
		if (outcome == OK)
			read_claim(res, dropped, sizeof(dropped), NULL, 0);
		if (outcome == OK)
			outcome = run(NULL, "ROLLBACK TO s");
	}
	if (outcome == OK && end != END_AUTO && percent(20))
		rest_ms(draw(30));
	outcome = tx_end(end, outcome);
	if (outcome == OK)
		end_op(op, outcome, "tasks=%s void=%s", words, dropped);
	else
		end_op(op, outcome, "void=%s", words);
	if (outcome == UNKNOWN)
		need_register |= registers;
	else if (outcome == FAIL && strcmp(code, "TQ007") == 0)
		need_register = true;
	productive = outcome == OK && count > 0 ? queue : NULL;
	for (int i = 0; i < count; i++)
		snprintf(tasks[i].queue, sizeof(tasks[0].queue), "%s", queue);
	return outcome == OK ? count : 0;
}

static void
leave(void)
{
	long    op;
	Outcome outcome;

	ensure_connection();
	op = begin_op("deregister w=%s", name);
	outcome = run(NULL, "SELECT taskq_deregister('%s')", name);
	end_op(op, outcome, "-");
	need_register = true;
}

static void
work(void)
{
	Task tasks[MAX_KEYS];
	bool die_now = false;
	int  idle_ms = 2;

	need_register = registers;
	while (!told_to("stop"))
	{
		int count;

		check_parent();
		draining = told_to("drain");
		ensure_connection();
		while (need_register && !told_to("stop"))
			register_worker();
		beat_if_due();
		if (need_register)
			continue;
		count = claim(tasks);
		if (registers && !draining && percent(1))
		{
			leave(); /* perhaps with tasks in hand */
			continue;
		}
		for (int i = 0; i < count && !die_now; i++)
			do_task(&tasks[i], &die_now);
		if (die_now)
		{
			begin_op("die w=%s", name);
			_exit(3);
		}
		if (!draining && percent(6))
			answer_late();
		idle_ms = count > 0                       ? 2
				  : idle_ms < (draining ? 4 : 20) ? idle_ms * 2
												  : idle_ms;
		if (count == 0)
			rest_ms(idle_ms);
	}
}

/*
 * A session that keeps an old snapshot for so many seconds, or until the
 * server ends it.
 */
static void
hold_snapshot(int seconds)
{
	int64_t until = now_us() + (int64_t) seconds * 1000000;
	long    op;
	Outcome outcome;

	ensure_connection();
	op = begin_op("snapshot");
	outcome = run(NULL, "BEGIN ISOLATION LEVEL REPEATABLE READ");
	if (outcome == OK)
		outcome = run(NULL, "SELECT count(*) FROM taskq.tasks");
	while (now_us() < until && !told_to("drain"))
	{
		check_parent();
		rest_ms(50);
	}
	if (outcome == OK)
		outcome = run(NULL, "COMMIT");
	end_op(op, outcome, "-");
}

static void
split(char *text, Words *words)
{
	for (char *word = strtok(text, ","); word != NULL;
		 word = strtok(NULL, ","))
	{
		if (words->count >= MAX_WORDS)
			die("too many words", word);
		words->word[words->count++] = word;
	}
}

int
main(int argc, char **argv)
{
	const char *role = "";
	const char *log_name = "";
	int         option;

	parent = getppid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((option = getopt(argc, argv, "r:n:l:s:d:c:q:a:t:m:k:R:b:")) != -1)
	{
		switch (option)
		{
			case 'r':
				role = optarg;
				break;
			case 'n':
				name = optarg;
				break;
			case 'l':
				log_name = optarg;
				break;
			case 's':
				chance = strtoull(optarg, NULL, 10) * 2 + 1;
				break;
			case 'd':
				control_dir = optarg;
				break;
			case 'c':
				conninfo = optarg;
				break;
			case 'q':
				split(optarg, &own_queues);
				break;
			case 'a':
				split(optarg, &all_queues);
				break;
			case 't':
				own_tags = optarg;
				break;
			case 'm':
				max_running = atoi(optarg);
				break;
			case 'k':
				bound = strcmp(optarg, "bound") == 0;
				registers = bound || strcmp(optarg, "registered") == 0;
				break;
			case 'R':
				rate = atoi(optarg);
				break;
			case 'b':
				heartbeat_ms = atoi(optarg);
				break;
			default:
				return 2;
		}
	}
	if (name == NULL || control_dir == NULL || conninfo == NULL)
		return 2;
	log_fd = open(log_name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0)
		die("could not open the log", strerror(errno));
	for (int i = 0; i < 10; i++)
		draw(2); /* near seeds become different */
	if (strcmp(role, "producer") == 0)
		produce();
	else if (strcmp(role, "snapshot") == 0)
		hold_snapshot(rate);
	else
		work();
	PQfinish(conn);
	return 0;
}
