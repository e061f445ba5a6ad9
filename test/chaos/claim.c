/*
 * claim.c
 *		Claims and waits of a worker.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define LONG_WAIT_MS 25000 /* of one who sleeps */

/* For the steps of the last claim: results of parents, and payload */
static char notes[16 * TEXT];
static int  notes_length = 0;

static void        take_note(PGresult *res, int i);
static void        note_claim(Outcome outcome);
static const char *draw_order(void);
static Outcome     run_claim(PGresult **res, const char *queue, int want,
							 int lease_ms, int wait_ms, const char *order);
static int         claim_one(Task *task, const char *queue);
static int  claim_from(Task *tasks, const char *queue, int want, int lease_ms,
					   int wait_ms, End end, bool undo);
static bool wait_ready(const char *queue, int wait_ms);

/*
 * The rows of a claim, as words of the log and, if wanted, as tasks.  queue:
 * NULL when it was one of several.
 */
int
read_claim(PGresult *res, const char *queue, char *words, size_t size,
		   Task *tasks)
{
	int n = 0;
	int count = PQntuples(res);

	strcpy(words, "-");
	for (int i = 0; i < count; i++)
	{
		n += snprintf(words + n, size - n, "%s%s:%s:%s:%s:%s:%s%s%s",
					  n > 0 ? "," : "", PQgetvalue(res, i, 0),
					  PQgetvalue(res, i, 1), PQgetvalue(res, i, 2),
					  PQgetvalue(res, i, 3), PQgetvalue(res, i, 4),
					  PQgetvalue(res, i, 5), queue == NULL ? ":" : "",
					  queue == NULL ? PQgetvalue(res, i, 6) : "");
		if (tasks == NULL)
			continue;
		take_note(res, i);
		tasks[i].task_id = atoll(PQgetvalue(res, i, 0));
		tasks[i].token = atoll(PQgetvalue(res, i, 1));
		snprintf(tasks[i].key, sizeof(tasks[0].key), "%s",
				 PQgetvalue(res, i, 5));
		/* not for a step, which no change may delete */
		tasks[i].version = is_step(&tasks[i]) ? 0
											  : atoll(PQgetvalue(res, i, 7));
		snprintf(tasks[i].queue, sizeof(tasks[0].queue), "%s",
				 PQgetvalue(res, i, 6));
	}
	PQclear(res);
	return tasks == NULL ? 0 : count;
}

/* Only values that are not too large, and were returned */
static void
take_note(PGresult *res, int i)
{
	int room = (int) sizeof(notes) - notes_length;
	int length;

	if (PQnfields(res) < 10 || PQgetisnull(res, i, 8))
		return;
	length = snprintf(notes + notes_length, (size_t) room,
					  "G id=%s token=%s deps=%s payload=%s\n",
					  PQgetvalue(res, i, 0), PQgetvalue(res, i, 1),
					  PQgetvalue(res, i, 8), PQgetvalue(res, i, 9));
	if (length < room)
		notes_length += length;
}

/* queue NULL: all of this worker; order "queue": as that has it */
long
begin_claim(const char *queue, int want, int lease_ms, int wait_ms, End end,
			const char *order)
{
	char all[512] = "";
	int  n = 0;

	notes_length = 0;
	for (int i = 0; i < own_queues.count; i++)
		n += snprintf(all + n, sizeof(all) - n, "%s%s", i > 0 ? "," : "",
					  own_queues.word[i]);
	return begin_op("claim q=%s%s%s w=%s n=%d lease=%d wait=%d held=%s tags=%s"
					" end=%s order=%s",
					queue == NULL ? "*" : queue, queue == NULL ? " of=" : "",
					queue == NULL ? all : "", name, want, lease_ms * 1000,
					wait_ms * 1000,
					bound       ? "connection"
					: registers ? "worker"
								: "lease",
					draining      ? "a,b"
					: own_tags[0] ? own_tags
								  : "-",
					end_word[end], order);
}

/*
 * Claims that are rolled back are logged under "void": they were held for a
 * moment, and never happened.
 */
void
end_claim(long op, Outcome outcome, const char *words, const char *dropped)
{
	if (outcome == OK)
	{
		end_op(op, outcome, "tasks=%s void=%s", words, dropped);
		write_notes(notes, notes_length);
	}
	else
		end_op(op, outcome, "void=%s", words);
	note_claim(outcome);
}

/* What a failed claim means for a registered worker. */
static void
note_claim(Outcome outcome)
{
	if (outcome == UNKNOWN)
		need_register |= registers;
	else if (outcome == FAIL && strcmp(code, "TQ007") == 0)
		need_register = true;
}

/* Claim some tasks of a queue: how many. */
int
claim(Task *tasks)
{
	const Words       *queues = draining ? &all_queues : &own_queues;
	static const char *productive = NULL; /* where the last claim found some */
	const char        *queue = queues->word[draw(queues->count)];
	int  want = percent(50) ? 1 : percent(20) ? 10 + draw(20) : 1 + draw(6);
	int  lease_ms = 0;
	int  wait_ms = 0;
	int  count;
	End  end = END_AUTO;
	bool undo = false; /* a second claim, in a savepoint */

	if (draining && productive != NULL && percent(80))
		queue = productive;
	if (percent(20))
		lease_ms = 300 + draw(900);
	if (strcmp(queue, "tied") == 0)
	{
		/* held long, and only by the connection */
		want = 1 + draw(2);
		lease_ms = 0;
	}
	if (!draining)
	{
		int n = draw(100);

		end = n < 84   ? END_AUTO
			  : n < 92 ? END_COMMIT
			  : n < 96 ? END_ROLLBACK
			  : n < 98 ? END_PREPARED_COMMIT
					   : END_PREPARED_ROLLBACK;
		undo = end == END_COMMIT && percent(50);
		if (percent(15))
			wait_ms = 1 + draw(percent(20) ? 400 : 40);
	}
	ensure_connection();
	if (bound && need_register)
		return 0;
	/* it has no argument for tags */
	if (!draining && percent(10) && (registers || own_tags[0] == '\0') &&
		strcmp(queue, "tied") != 0)
		return claim_one(tasks, queue);
	count = claim_from(tasks, queue, want, lease_ms, wait_ms, end, undo);
	productive = count > 0 ? queue : NULL;
	return count;
}

/*
 * Sleep until a task can be claimed: in a claim, in a claim from all queues,
 * or, if the worker is bound, in taskq_wait.
 */
int
sleep_and_claim(Task *tasks)
{
	const char *queue = own_queues.word[draw(own_queues.count)];
	int         want = 1 + draw(4);

	ensure_connection();
	if (bound && need_register)
		return 0;
	if (!bound)
		return claim_from(tasks, registers ? NULL : queue, want, 0,
						  LONG_WAIT_MS, END_AUTO, false);
	if (!wait_ready(queue, LONG_WAIT_MS))
		return 0;
	return claim_from(tasks, queue, want, 0, 0, END_AUTO, false);
}

/* Any one task, by taskq_claim_one. */
static int
claim_one(Task *task, const char *queue)
{
	char      words[TEXT] = "-";
	int       count = 0;
	int       lease_ms = 300 + draw(900);
	long      op = begin_claim(queue, 1, lease_ms, 0, END_AUTO, "random");
	PGresult *res;
	Outcome   outcome =
		run(&res,
			"SELECT " CLAIMED
			", version FROM taskq_claim_one('%s', '{%s}', interval '%d ms')",
			name, queue, lease_ms);

	if (outcome == OK)
		count = read_claim(res, queue, words, sizeof(words), task);
	end_claim(op, outcome, words, "-");
	return outcome == OK ? count : 0;
}

static int
claim_from(Task *tasks, const char *queue, int want, int lease_ms, int wait_ms,
		   End end, bool undo)
{
	int         count = 0;
	char        words[3 * TEXT / 2] = "-";
	char        dropped[3 * TEXT / 2] = "-";
	const char *order = draw_order();
	long        op = begin_claim(queue, want, lease_ms, wait_ms, end, order);
	Outcome     outcome = tx_begin(end);
	PGresult   *res;

	if (outcome == OK)
		outcome = run_claim(&res, queue, want, lease_ms, wait_ms, order);
	if (outcome == OK)
		count = read_claim(res, queue, words, sizeof(words), tasks);
	if (outcome == OK && undo)
	{
		outcome = run(NULL, "SAVEPOINT s");
		if (outcome == OK)
			outcome = run_claim(&res, queue, want, lease_ms, 0, order);
		if (outcome == OK)
			read_claim(res, queue, dropped, sizeof(dropped), NULL);
		if (outcome == OK)
			outcome = run(NULL, "ROLLBACK TO s");
	}
	if (outcome == OK && end != END_AUTO && percent(20))
		rest_ms(draw(30));
	outcome = tx_end(end, outcome);
	end_claim(op, outcome, words, dropped);
	return outcome == OK ? count : 0;
}

static const char *
draw_order(void)
{
	static const char *const orders[] = {"fifo", "lifo", "random"};

	return percent(6) ? orders[draw(3)] : "queue";
}

static Outcome
run_claim(PGresult **res, const char *queue, int want, int lease_ms,
		  int wait_ms, const char *order)
{
	char lease[48] = "NULL";
	char from[80] = "NULL";
	char how[48] = "";

	if (lease_ms > 0)
		snprintf(lease, sizeof(lease), "interval '%d ms'", lease_ms);
	if (queue != NULL)
		snprintf(from, sizeof(from), "'%.60s'", queue);
	if (strcmp(order, "queue") != 0)
		snprintf(how, sizeof(how), ", claim_order => '%s'", order);
	return run(res,
			   "SELECT " CLAIMED NOTED " FROM taskq_claim(%s, '%s', %d, %s,"
			   " interval '%d ms', tags => '{%s}'%s)",
			   from, name, want, lease, wait_ms, draining ? "a,b" : own_tags,
			   how);
}

/* CALL taskq_wait: is there a task? */
static bool
wait_ready(const char *queue, int wait_ms)
{
	const char *tags = draining ? "a,b" : own_tags;
	bool        ready = false;
	long        op;
	Outcome     outcome;
	PGresult   *res;

	op = begin_op("wait q=%s w=%s wait=%d tags=%s", queue, name,
				  wait_ms * 1000, tags[0] ? tags : "-");
	outcome = run(&res, "CALL taskq_wait('%s', '%d ms', NULL, '%s', '{%s}')",
				  queue, wait_ms, name, tags);
	if (outcome == OK)
	{
		ready = strcmp(PQgetvalue(res, 0, 0), "t") == 0;
		PQclear(res);
	}
	end_op(op, outcome, "ready=%d", ready);
	note_claim(outcome);
	return ready;
}
