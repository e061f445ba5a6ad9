/*
 * flow.c
 *		Workflows: starters, attendants, and what steps return.
 *
 * A starter starts instances of the templates in its arguments, each with a row
 * in the outbox, and gives some of them their signal immediately. An attendant
 * sends signals to steps that wait for one, cancels instances, and retries or
 * resolves dead steps. One process does all repairs, and never in a transaction
 * that is prepared: so it never meets its own.
 *
 * The input of an instance has its name ("key"), that of its inner instance,
 * and a number for conditions.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define OLD_KEYS 8 /* keys that a live instance may have */
#define MAX_RUN_DELAY_MS 700

typedef struct Start
{
	const char *template;
	const char *conflict;
	char        own[64];    /* "key" of the input */
	char        undone[64]; /* that of one in a savepoint; "-": none */
	char        key[80];    /* "-": none */
	int         number;
	int         delay_ms;
	End         end;
	char        id[24];
} Start;

typedef struct Work
{
	int64_t task_id;
	int64_t workflow_id;
	char    key[64];
} Work;

static char old_key[OLD_KEYS][80];
static char old_template[OLD_KEYS][64];
static int  key_count = 0;
static long start_count = 0;

static void    draw_start(Start *start);
static void    draw_key(Start *start);
static Outcome carry_out(Start *start);
static Outcome start_one(const Start *start, const char *own, char *id,
						 size_t size);
static void    signal_one(int64_t workflow_id);
static void    signal_waiting(void);
static void    cancel_one(void);
static void    repair_some(void);
static void    retry(const Work *work);
static void    resolve(const Work *work);
static bool    does(const char *job);
static Outcome by_hand(long op, End end, char *answer, size_t size,
					   const char *sql);
static int     find_work(Work *work, const char *sql);

/* A task of a workflow? */
bool
is_step(const Task *task)
{
	return task->key[0] == 'w' && strchr(task->key, '/') != NULL;
}

/* A result for the step of that key that is valid for its name */
void
draw_result(const char *key, char *json, size_t size)
{
	static const char *const choices[] = {"",
										  "\"x\"",
										  "\"y\"",
										  "\"z\"",
										  "\"x\",\"y\"",
										  "\"x\",\"z\"",
										  "\"y\",\"z\"",
										  "\"x\",\"y\",\"z\""};
	const char              *step = strchr(key, '/') + 1;
	int                      n = 0;
	int                      count;

	if (strcmp(step, "choose") == 0)
		snprintf(json, size, "{\"create\":[%s]}", choices[draw(8)]);
	else if (strcmp(step, "split") != 0)
		snprintf(json, size, "{\"n\":%d}", draw(1000000000));
	else if (percent(50))
		snprintf(json, size, "{\"total\":%d,\"size\":%d,\"max_workers\":%d}",
				 draw(14), 1 + draw(4), 1 + draw(5));
	else
	{
		count = draw(6);
		n = snprintf(json, size, "{\"batches\":[");
		for (int i = 0; i < count; i++)
			n += snprintf(json + n, size - n, "%s{\"at\":%d}",
						  i > 0 ? "," : "", draw(1000));
		snprintf(json + n, size - n, "]}");
	}
}

/* ---- the starter ---- */

void
start_workflows(void)
{
	while (!told_to("drain") && !told_to("stop"))
	{
		Start start;

		check_parent();
		ensure_connection();
		if (!told_to("full_flow"))
		{
			draw_start(&start);
			if (carry_out(&start) == OK && percent(20) &&
				strstr(start.template, "ask") != NULL)
				signal_one(atoll(start.id));
		}
		rest_ms(500 / rate + draw(1000 / rate + 1));
	}
}

static void
draw_start(Start *start)
{
	memset(start, 0, sizeof(*start));
	start->template = own_queues.word[draw(own_queues.count)];
	start->conflict = "error";
	snprintf(start->own, sizeof(start->own), "%s-%ld", name, ++start_count);
	strcpy(start->undone, "-");
	if (percent(8))
		snprintf(start->undone, sizeof(start->undone), "%s-%ld", name,
				 ++start_count);
	strcpy(start->key, "-");
	strcpy(start->id, "-");
	if (percent(40))
		draw_key(start);
	start->number = draw(100);
	start->delay_ms = percent(15) ? 20 + draw(MAX_RUN_DELAY_MS) : 0;
	start->end = draw_end();
}

/* A new key, or one that a live instance may have */
static void
draw_key(Start *start)
{
	int old = draw(OLD_KEYS);

	snprintf(start->key, sizeof(start->key), "k-%s", start->own);
	if (percent(50) || old_key[old][0] == '\0')
		return;
	snprintf(start->key, sizeof(start->key), "%s", old_key[old]);
	for (int i = 0; i < own_queues.count; i++)
	{
		if (strcmp(own_queues.word[i], old_template[old]) == 0)
			start->template = own_queues.word[i];
	}
	start->conflict = percent(70) ? "return" : "error";
}

/* Start an instance, and write that to the log. */
static Outcome
carry_out(Start *start)
{
	bool    keyed = strcmp(start->key, "-") != 0;
	long    op;
	Outcome outcome;
	int     place;

	op = begin_op("start name=%s in=%s void=%s key=%s end=%s conflict=%s "
				  "delay=%d v=%d",
				  start->template, start->own, start->undone, start->key,
				  end_word[start->end], start->conflict,
				  start->delay_ms * 1000, start->number);
	outcome = tx_begin(start->end);
	if (outcome == OK && strcmp(start->undone, "-") != 0)
	{
		char undone_id[24];

		outcome = run(NULL, "SAVEPOINT s");
		if (outcome == OK)
			outcome =
				start_one(start, start->undone, undone_id, sizeof(undone_id));
		if (outcome == OK)
			outcome = run(NULL, "ROLLBACK TO s");
	}
	if (outcome == OK)
		outcome = start_one(start, start->own, start->id, sizeof(start->id));
	outcome = tx_end(start->end, outcome);
	end_op(op, outcome, "id=%s", start->id);
	if (outcome == OK && keyed)
	{
		place = key_count++ % OLD_KEYS;
		snprintf(old_key[place], sizeof(old_key[0]), "%s", start->key);
		snprintf(old_template[place], sizeof(old_template[0]), "%s",
				 start->template);
	}
	return outcome;
}

/* Start one instance, with its row in the outbox if it is new. */
static Outcome
start_one(const Start *start, const char *own, char *id, size_t size)
{
	char      delay[96] = "NULL";
	PGresult *res;
	Outcome   outcome;

	if (start->delay_ms > 0)
		snprintf(delay, sizeof(delay), "clock_timestamp() + interval '%d ms'",
				 start->delay_ms);
	outcome = run(&res,
				  "SELECT taskq_start_workflow('%s', '{\"key\": \"%s\","
				  " \"inner\": \"%s.in\", \"n\": %d}', key => nullif('%s',"
				  " '-'), run_at => %s, on_conflict => '%s')",
				  start->template, own, own, start->number, start->key, delay,
				  start->conflict);
	if (outcome != OK)
		return outcome;
	snprintf(id, size, "%s", PQgetvalue(res, 0, 0));
	PQclear(res);
	return run(NULL,
			   "INSERT INTO outbox (key) SELECT input->>'key' FROM"
			   " taskq.workflow WHERE workflow_id = %s"
			   " AND input->>'key' = '%s'",
			   id, own);
}

/* ---- the attendant ---- */

void
attend_workflows(void)
{
	while (!told_to("stop"))
	{
		bool draining_now = told_to("drain");

		check_parent();
		ensure_connection();
		if (does("signal"))
			signal_waiting();
		if (does("cancel") && !draining_now && percent(10))
			cancel_one();
		if (does("repair") && !draining_now)
			repair_some();
		rest_ms(50 + draw(200));
	}
}

static bool
does(const char *job)
{
	for (int i = 0; i < own_queues.count; i++)
	{
		if (strcmp(own_queues.word[i], job) == 0)
			return true;
	}
	return false;
}

static void
signal_one(int64_t workflow_id)
{
	char answer[24];
	char sql[160];
	int  number = draw(1000000);
	End  end = told_to("drain") ? END_COMMIT : draw_end();
	long op = begin_op("signal flow=%" PRId64 " v=%d end=%s", workflow_id,
					   number, end_word[end]);

	snprintf(sql, sizeof(sql),
			 "SELECT taskq_signal(%" PRId64 ", 'go', '{\"n\": %d}')",
			 workflow_id, number);
	(void) by_hand(op, end, answer, sizeof(answer), sql);
}

static void
signal_waiting(void)
{
	Work work[8];
	int  count = find_work(work,
						   "SELECT task_id, workflow_id, step FROM taskq.tasks"
							" WHERE task_id IN (SELECT task_id FROM taskq.task"
							" WHERE state = 4 AND workflow_id IS NOT NULL)"
							" AND step = 'signal' ORDER BY random() LIMIT 8");

	for (int i = 0; i < count; i++)
	{
		ensure_connection();
		/* the time of some runs out */
		if (percent(50) || told_to("drain"))
			signal_one(work[i].workflow_id);
	}
}

static void
cancel_one(void)
{
	Work work[8];
	char answer[24];
	char sql[96];
	End  end = draw_end();
	long op;

	if (find_work(work, "SELECT 0, workflow_id, '-' FROM taskq.workflow"
						" WHERE finished_at IS NULL"
						" ORDER BY random() LIMIT 1") == 0)
		return;
	op = begin_op("cancel flow=%" PRId64 " end=%s", work[0].workflow_id,
				  end_word[end]);
	snprintf(sql, sizeof(sql), "SELECT taskq_cancel_workflow(%" PRId64 ")",
			 work[0].workflow_id);
	(void) by_hand(op, end, answer, sizeof(answer), sql);
}

/* Repair dead steps, except one in four. */
static void
repair_some(void)
{
	Work work[8];
	int  count = find_work(
		 work, "SELECT task_id, workflow_id, step FROM taskq.tasks"
				" WHERE task_id IN (SELECT task_id FROM taskq.archive_keep"
				" WHERE state = 6 AND workflow_id IS NOT NULL"
				" AND task_id % 4 <> 0 ORDER BY random() LIMIT 4)");

	for (int i = 0; i < count; i++)
	{
		ensure_connection();
		if (percent(60))
			retry(&work[i]);
		else
			resolve(&work[i]);
	}
}

static void
retry(const Work *work)
{
	char answer[24];
	char sql[96];
	End  end = percent(90) ? END_COMMIT : END_ROLLBACK;
	long op = begin_op("retry id=%" PRId64 " flow=%" PRId64 " end=%s",
					   work->task_id, work->workflow_id, end_word[end]);

	snprintf(sql, sizeof(sql), "SELECT taskq_retry(%" PRId64 ")",
			 work->task_id);
	(void) by_hand(op, end, answer, sizeof(answer), sql);
}

static void
resolve(const Work *work)
{
	char result[160];
	char answer[24];
	char sql[320];
	End  end = percent(90) ? END_COMMIT : END_ROLLBACK;
	long op;

	draw_result(work->key, result, sizeof(result));
	op = begin_op("resolve id=%" PRId64 " flow=%" PRId64 " end=%s result=%s",
				  work->task_id, work->workflow_id, end_word[end], result);
	snprintf(sql, sizeof(sql), "SELECT taskq_resolve(%" PRId64 ", '%s')",
			 work->task_id, result);
	(void) by_hand(op, end, answer, sizeof(answer), sql);
}

/* One call in a transaction, and the log */
static Outcome
by_hand(long op, End end, char *answer, size_t size, const char *sql)
{
	Outcome   outcome = tx_begin(end);
	PGresult *res;

	strcpy(answer, "-");
	if (outcome == OK)
		outcome = run(&res, "%s", sql);
	if (outcome == OK)
	{
		snprintf(answer, size, "%s", PQgetvalue(res, 0, 0));
		PQclear(res);
	}
	outcome = tx_end(end, outcome);
	return end_op(op, outcome, "said=%s", answer);
}

/* Find at most 8 things to do; returns their number. */
static int
find_work(Work *work, const char *sql)
{
	PGresult *res;
	int       count;

	if (run(&res, "%s", sql) != OK)
		return 0;
	count = PQntuples(res);
	for (int i = 0; i < count; i++)
	{
		work[i].task_id = atoll(PQgetvalue(res, i, 0));
		work[i].workflow_id = atoll(PQgetvalue(res, i, 1));
		snprintf(work[i].key, sizeof(work[0].key), "w/%s",
				 PQgetvalue(res, i, 2));
	}
	PQclear(res);
	return count;
}
