/*
 * produce.c
 *		What a producer submits, and what a caller waits for.
 *
 * A producer writes a row into the outbox for each task, in the same
 * transaction.  A caller submits one task at a time, by taskq_call, which
 * leaves no such row (box=0), or before taskq_await, and waits for its end.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define OLD_REFERENCES 32 /* references that may still be taken */
#define MAX_DELAY_MS 1220

typedef enum
{
	BY_ONE,  /* taskq_submit for each */
	BY_MANY, /* taskq_submit_many */
	BY_LIST  /* taskq_submit_tasks */
} Form;

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
	Form        form;
	End         end;
	int         line; /* of queue "serial": the key of the tasks; 0: none */
	bool        supersedes;
	int         kept; /* keys that are to stay */
	int  dropped;     /* keys submitted in a savepoint that is rolled back */
	char key[MAX_TASKS][64];
	char id[MAX_TASKS][24]; /* or "-": nothing was submitted */
} Submission;

static char    old_reference[OLD_REFERENCES][64];
static int64_t old_reference_id[OLD_REFERENCES];
static char    old_reference_queue[OLD_REFERENCES][64];
static int     reference_count = 0;
static long    key_count = 0;

static void    submit(void);
static void    submit_last(void);
static Outcome carry_out(Submission *sub);
static void    single_submission(Submission *sub, const char *queue,
								 const char *tags);
static void    draw_submission(Submission *sub);
static void    draw_reference(Submission *sub);
static bool    is_awaited(const char *queue);
static void join_keys(const Submission *sub, int first, int count, char *text,
					  size_t size);
static Outcome submit_dropped(Submission *sub);
static Outcome submit_keys(Submission *sub, int first, int count);
static Outcome submit_one(Submission *sub, int i, const char *settings);
static Outcome submit_many(Submission *sub, int first, int count,
						   const char *settings);
static Outcome submit_list(Submission *sub, int first, int count);
static Outcome take_ids(PGresult *res, Submission *sub, int first, int count);
static Outcome write_outbox(const Submission *sub, int first, int count);
static void    settings_of(const Submission *sub, char *text, size_t size);
static int64_t known_id(const char *reference);
static void    note_reference(const Submission *sub, Outcome outcome);
static void    call(const char *queue);
static void    submit_and_await(const char *queue);

void
produce(void)
{
	bool silent = false;

	while (!told_to("drain") && !told_to("stop"))
	{
		bool hush = told_to("hush");

		check_parent();
		ensure_connection();
		if (hush && !silent)
			submit_last();
		silent = hush;
		submit();
		rest_ms(500 / rate + draw(1000 / rate + 1));
	}
	submit_last();
}

/* Submit a task and wait for its end, again and again. */
void
call_and_wait(void)
{
	while (!told_to("drain") && !told_to("stop"))
	{
		const char *queue = own_queues.word[draw(own_queues.count)];

		check_parent();
		ensure_connection();
		if (percent(50))
			call(queue);
		else
			submit_and_await(queue);
		rest_ms(draw(60));
	}
}

static void
submit(void)
{
	Submission sub;
	char       full[96];

	draw_submission(&sub);
	snprintf(full, sizeof(full), "full_%.80s", sub.queue);
	if (told_to(full) || (is_awaited(sub.queue) && told_to("hush")))
		return;
	carry_out(&sub);
}

/*
 * Before a silence: when delayed tasks have come, one task for each tag, by
 * itself. Nothing else wakes the sleepers.
 */
static void
submit_last(void)
{
	static const char *const tag_sets[] = {"", "a", "b"};

	for (int i = 0; i < 3 * own_queues.count; i++)
	{
		const char *queue = own_queues.word[i / 3];
		Submission  sub;

		if (!is_awaited(queue) || (strcmp(queue, "stack") == 0 && i % 3 == 2))
			continue;
		if (i == 0)
			rest_ms(MAX_DELAY_MS + 100);
		single_submission(&sub, queue, tag_sets[i % 3]);
		ensure_connection();
		carry_out(&sub);
		rest_ms(30);
	}
}

/* One plain task, committed immediately. */
static void
single_submission(Submission *sub, const char *queue, const char *tags)
{
	memset(sub, 0, sizeof(*sub));
	sub->queue = queue;
	sub->tags = tags;
	sub->conflict = "error";
	sub->end = END_COMMIT;
	sub->kept = 1;
	snprintf(sub->key[0], sizeof(sub->key[0]), "%s-%ld", name, ++key_count);
}

/* Submit tasks, and write that to the log. */
static Outcome
carry_out(Submission *sub)
{
	char    keys[TEXT];
	char    dropped[TEXT];
	char    ids[TEXT];
	int     n = 0;
	long    op;
	Outcome outcome;

	join_keys(sub, 0, sub->kept, keys, sizeof(keys));
	join_keys(sub, sub->kept, sub->dropped, dropped, sizeof(dropped));
	op = begin_op("submit q=%s keys=%s void=%s end=%s prio=%d delay=%d "
				  "deadline=%d max=%d tags=%s ref=%s conflict=%s many=%d "
				  "line=k%d how=%s",
				  sub->queue, keys, dropped, end_word[sub->end], sub->priority,
				  sub->delay_ms * 1000, sub->deadline_ms * 1000,
				  sub->max_attempts, sub->tags[0] ? sub->tags : "-",
				  sub->reference[0] ? sub->reference : "-", sub->conflict,
				  sub->form != BY_ONE, sub->line,
				  sub->supersedes ? "supersede" : "append");
	outcome = tx_begin(sub->end);
	if (outcome == OK && sub->dropped > 0)
		outcome = submit_dropped(sub);
	if (outcome == OK)
		outcome = submit_keys(sub, 0, sub->kept);
	outcome = tx_end(sub->end, outcome);
	strcpy(ids, "-");
	for (int i = 0; i < sub->kept; i++)
		n += snprintf(ids + n, sizeof(ids) - n, "%s%s", n > 0 ? "," : "",
					  sub->id[i]);
	end_op(op, outcome, "ids=%s", ids);
	note_reference(sub, outcome);
	return outcome;
}

static void
draw_submission(Submission *sub)
{
	static const char *const tag_sets[] = {"a", "b", "a,b"};

	memset(sub, 0, sizeof(*sub));
	sub->queue = own_queues.word[draw(own_queues.count)];
	sub->tags = "";
	sub->conflict = "error";
	sub->end = draw_end();
	if (percent(40))
		sub->priority = draw(4) - 1;
	if (percent(15))
		sub->delay_ms = 20 + draw(MAX_DELAY_MS - 20);
	else if (percent(6))
		sub->deadline_ms = 200 + draw(1000);
	if (percent(15))
		sub->max_attempts = 1 + draw(4);
	/* sleepers have one tag each, and the same for all in "stack" */
	if (is_awaited(sub->queue))
		sub->tags = percent(60)                        ? ""
					: strcmp(sub->queue, "stack") == 0 ? "a"
													   : tag_sets[draw(2)];
	else if (percent(15))
		sub->tags = tag_sets[draw(3)];
	sub->form = percent(70) ? BY_ONE : percent(50) ? BY_MANY : BY_LIST;
	sub->kept = sub->form != BY_ONE ? 2 + draw(12) : 1 + draw(2) * draw(3);
	sub->dropped = percent(8) ? 1 + draw(3) : 0;
	for (int i = 0; i < sub->kept + sub->dropped; i++)
		snprintf(sub->key[i], sizeof(sub->key[0]), "%s-%ld", name,
				 ++key_count);
	if (strcmp(sub->queue, "serial") == 0)
	{
		sub->line = 1 + draw(8);
		sub->supersedes = sub->form == BY_ONE && sub->kept == 1 && percent(15);
	}
	else if (sub->form == BY_ONE && sub->kept == 1 && sub->dropped == 0)
		draw_reference(sub);
}

static void
draw_reference(Submission *sub)
{
	int old;

	if (percent(60))
		snprintf(sub->reference, sizeof(sub->reference), "%s", sub->key[0]);
	else if (percent(60) && reference_count > 0)
	{
		/* one that may still be taken */
		old = (reference_count - 1 - draw(4) + OLD_REFERENCES) %
			  OLD_REFERENCES;
		if (old_reference[old][0] == '\0')
			return;
		snprintf(sub->reference, sizeof(sub->reference), "%s",
				 old_reference[old]);
		/* sleepers there may not have these tags */
		if (strcmp(sub->queue, old_reference_queue[old]) != 0)
			sub->tags = "";
		sub->queue = old_reference_queue[old];
		sub->conflict = percent(40)   ? "return"
						: percent(60) ? "skip"
									  : "error";
	}
}

/* How a transaction with a submit ends */
End
draw_end(void)
{
	int n = draw(100);

	return n < 82   ? END_COMMIT
		   : n < 90 ? END_ROLLBACK
		   : n < 96 ? END_PREPARED_COMMIT
					: END_PREPARED_ROLLBACK;
}

/* Do the workers of that queue sleep until a task can be claimed? */
static bool
is_awaited(const char *queue)
{
	return strcmp(queue, "idle") == 0 || strcmp(queue, "pile") == 0 ||
		   strcmp(queue, "stack") == 0;
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

/* In a savepoint that is rolled back. */
static Outcome
submit_dropped(Submission *sub)
{
	Outcome outcome = run(NULL, "SAVEPOINT s");

	if (outcome == OK)
		outcome = submit_keys(sub, sub->kept, sub->dropped);
	if (outcome == OK)
		outcome = run(NULL, "ROLLBACK TO s");
	return outcome;
}

/*
 * Submit the keys from first on, each with its row in the outbox. A task that
 * existed already (on_conflict) gets none.
 */
static Outcome
submit_keys(Submission *sub, int first, int count)
{
	char    settings[512];
	Outcome outcome = OK;

	settings_of(sub, settings, sizeof(settings));
	if (sub->form == BY_MANY)
		outcome = submit_many(sub, first, count, settings);
	else if (sub->form == BY_LIST)
		outcome = submit_list(sub, first, count);
	else
	{
		for (int i = first; i < first + count && outcome == OK; i++)
			outcome = submit_one(sub, i, settings);
	}
	return outcome == OK ? write_outbox(sub, first, count) : outcome;
}

static Outcome
submit_one(Submission *sub, int i, const char *settings)
{
	PGresult *res;
	Outcome   outcome = run(&res,
							"SELECT taskq_submit('%s', '{\"key\": \"%s\"}'%s)",
							sub->queue, sub->key[i], settings);

	if (outcome != OK)
		return outcome;
	if (PQgetisnull(res, 0, 0) ||
		(strcmp(sub->reference, sub->key[i]) != 0 &&
		 known_id(sub->reference) == atoll(PQgetvalue(res, 0, 0))))
		strcpy(sub->id[i], "-");
	else
		snprintf(sub->id[i], sizeof(sub->id[0]), "%s", PQgetvalue(res, 0, 0));
	PQclear(res);
	return OK;
}

static Outcome
submit_many(Submission *sub, int first, int count, const char *settings)
{
	char      payloads[TEXT];
	int       n = 0;
	Outcome   outcome;
	PGresult *res;

	for (int i = first; i < first + count; i++)
		n += snprintf(payloads + n, sizeof(payloads) - n,
					  "%s'{\"key\": \"%s\"}'", i > first ? ", " : "",
					  sub->key[i]);
	outcome = run(&res,
				  "SELECT id FROM taskq_submit_many('%s', ARRAY[%s]"
				  "::jsonb[]%s) AS id",
				  sub->queue, payloads, settings);
	return outcome == OK ? take_ids(res, sub, first, count) : outcome;
}

/* The settings stand in each object of the list. */
static Outcome
submit_list(Submission *sub, int first, int count)
{
	char      settings[512];
	char      keys[TEXT];
	int       n = 0;
	Outcome   outcome;
	PGresult *res;

	n = snprintf(settings, sizeof(settings), "'priority', %d", sub->priority);
	if (sub->delay_ms != 0)
		n += snprintf(settings + n, sizeof(settings) - n, ", 'delay', '%d ms'",
					  sub->delay_ms);
	if (sub->deadline_ms != 0)
		n += snprintf(settings + n, sizeof(settings) - n,
					  ", 'deadline', clock_timestamp()"
					  " + interval '%d ms'",
					  sub->deadline_ms);
	if (sub->max_attempts != 0)
		n += snprintf(settings + n, sizeof(settings) - n,
					  ", 'max_attempts', %d", sub->max_attempts);
	if (sub->tags[0] != '\0')
		n += snprintf(settings + n, sizeof(settings) - n,
					  ", 'tags', string_to_array('%s', ',')", sub->tags);
	if (sub->line > 0)
		snprintf(settings + n, sizeof(settings) - n, ", 'key', 'k%d'",
				 sub->line);
	join_keys(sub, first, count, keys, sizeof(keys));
	outcome =
		run(&res,
			"SELECT id FROM taskq_submit_tasks((SELECT jsonb_agg("
			"jsonb_build_object('queue', '%s', 'payload',"
			" jsonb_build_object('key', k), %s) ORDER BY n)"
			" FROM unnest('{%s}'::text[]) WITH ORDINALITY AS u (k, n))) AS id",
			sub->queue, settings, keys);
	return outcome == OK ? take_ids(res, sub, first, count) : outcome;
}

static Outcome
take_ids(PGresult *res, Submission *sub, int first, int count)
{
	for (int i = 0; i < count; i++)
		snprintf(sub->id[first + i], sizeof(sub->id[0]), "%s",
				 i < PQntuples(res) ? PQgetvalue(res, i, 0) : "none");
	PQclear(res);
	return OK;
}

static Outcome
write_outbox(const Submission *sub, int first, int count)
{
	char rows[TEXT];
	int  n = 0;

	for (int i = first; i < first + count; i++)
	{
		if (strcmp(sub->id[i], "-") != 0)
			n += snprintf(rows + n, sizeof(rows) - n, "%s('%s')",
						  n > 0 ? ", " : "", sub->key[i]);
	}
	return n == 0 ? OK : run(NULL, "INSERT INTO outbox (key) VALUES %s", rows);
}

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
	if (sub->line > 0)
		n += snprintf(text + n, size - n, ", key => 'k%d'%s", sub->line,
					  sub->supersedes ? ", insertion => 'supersede'" : "");
	if (sub->reference[0] != '\0')
		snprintf(text + n, size - n,
				 ", reference => '%s', on_conflict => '%s'", sub->reference,
				 sub->conflict);
}

/* The id under which that reference is known, or 0. */
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
 * Remember under which id a reference is known. After an unknown outcome an
 * unknown task may have it: then it is no longer used.
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
	/* it may be the same name */
	if (sub->queue != old_reference_queue[i])
		snprintf(old_reference_queue[i], sizeof(old_reference_queue[0]), "%s",
				 sub->queue);
	old_reference_id[i] = atoll(sub->id[0]);
}

/* ---- the caller ---- */

/* Submit, commit and wait in one call. */
static void
call(const char *queue)
{
	char      key[64];
	long      op;
	Outcome   outcome;
	PGresult *res;

	snprintf(key, sizeof(key), "%s-%ld", name, ++key_count);
	op = begin_op("call q=%s keys=%s void=- end=auto prio=0 delay=0 "
				  "deadline=0 max=0 tags=- ref=- conflict=error box=0",
				  queue, key);
	outcome = run(&res, "CALL taskq_call('%s', '{\"key\": \"%s\"}', '%d ms')",
				  queue, key, percent(30) ? draw(300) : 15000);
	if (outcome != OK)
	{
		end_op(op, outcome, "-");
		return;
	}
	end_op(op, outcome, "ids=%s state=%s", PQgetvalue(res, 0, 0),
		   PQgetisnull(res, 0, 1) ? "null" : PQgetvalue(res, 0, 1));
	PQclear(res);
}

static void
submit_and_await(const char *queue)
{
	Submission sub;
	long       op;
	Outcome    outcome;
	PGresult  *res;

	single_submission(&sub, queue, "");
	if (carry_out(&sub) != OK)
		return;
	op = begin_op("await q=%s id=%s", queue, sub.id[0]);
	outcome = run(&res, "CALL taskq_await(%s, '%d ms')", sub.id[0],
				  percent(30) ? draw(300) : 15000);
	if (outcome != OK)
	{
		end_op(op, outcome, "-");
		return;
	}
	end_op(op, outcome, "state=%s",
		   PQgetisnull(res, 0, 0) ? "null" : PQgetvalue(res, 0, 0));
	PQclear(res);
}
