/*
 * call.c
 *		One call: in a transaction of some kind, its outcome, and whether that
 *		is allowed.
 *
 * Every transaction is rolled back, or commits after nothing but an error
 * that was rolled back to a savepoint.  So whatever the calls say, nothing may
 * have changed; watch.c looks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

const char *const mode_names[] = {
	"savepoint", "block", "by itself", "repeatable read", "serializable",
	"nested savepoints", "cursor", "exception block", "prepared transaction",
	"read only", "read only, deferrable", "aborted transaction"};

int64_t first_new_id;

/*
 * Errors that may come, and when: the function has this argument, the hostile
 * value is of that type, or the function's name is so.
 */
static const struct
{
	const char *argument;
	const char *type;
	const char *function;
	const char *codes;
} documented[] = {
	{NULL, NULL, "taskq_*", "22004 22023 2202E TQ009"},
	/* PostgreSQL's errors for text that is not a valid value */
	{NULL, "text*", NULL, "22021 22P02 2202E 54000"},
	{NULL, "bigint*", NULL, "22P02 22003 2202E 54000"},
	{NULL, "integer", NULL, "22P02 22003"},
	{NULL, "smallint", NULL, "22P02 22003"},
	{NULL, "real", NULL, "22P02 22003"},
	{NULL, "double precision", NULL, "22P02 22003"},
	{NULL, "boolean", NULL, "22P02 22021"},
	{NULL, "interval", NULL, "22007 22008 22015"},
	{NULL, "timestamp*", NULL, "22007 22008 22009 22023"},
	{NULL, "jsonb*", NULL, "22P02 22P05 22021 22003 2202E 54000 54001"},
	{NULL, "bytea", NULL, "22P02 22023 22021"},
	/* errors of the functions */
	{"token", NULL, NULL, "TQ001"},
	{"tokens", NULL, NULL, "TQ001"},
	{"decisions", NULL, NULL, "TQ010 22003 22007 22008 22015"},
	{"strict", NULL, NULL, "TQ010"},
	{"changes", NULL, NULL, "TQ005 TQ006 TQ010 22003 22007 22008 22015 0A000"},
	{"task_id", NULL, NULL, "TQ002"},
	{"queue", NULL, NULL, "TQ003"},
	{"options", NULL, NULL, "TQ004 0A000 22023"},
	{"wait", NULL, NULL, "0A000 25001"},
	{"worker", NULL, NULL, "TQ007"},
	{"reference", NULL, "taskq_submit*", "TQ006"},
	{"role", NULL, NULL, "42704"},
	{NULL, NULL, "taskq_submit*", "TQ003 TQ008"},
	{NULL, NULL, "taskq_submit_tasks",
	 "TQ004 TQ006 0A000 22003 22007 22008 22009 22015 22P02"},
	{NULL, NULL, "taskq_create_queue", "TQ006"},
	{NULL, NULL, "taskq_drop_queue", "55006"},
	{NULL, NULL, "taskq_cancel", "TQ005"},
	{NULL, NULL, "taskq_retry", "TQ005 TQ006"},
	{NULL, NULL, "taskq_recreate", "TQ005 TQ006"},
	{NULL, NULL, "taskq_resolve", "TQ005"},
	{NULL, NULL, "taskq_hold", "TQ005"},
	{NULL, NULL, "taskq_poison", "TQ005"},
	{NULL, NULL, "taskq_unpoison", "TQ005"},
	{NULL, NULL, "taskq_update_task", "TQ004"},
	{NULL, NULL, "taskq_junction", "TQ004"},
	{NULL, NULL, "taskq_reassign", "TQ005"},
	{NULL, NULL, "taskq_change",
	 "TQ003 TQ004 TQ006 TQ008 TQ010 0A000 22003 22007 22008 22009 22015 "
	 "22P02"},
	{NULL, NULL, "taskq_claim_one", "TQ003 TQ010 22003"},
	{NULL, NULL, "taskq_claim_docs", "TQ010"},
	{NULL, NULL, "taskq_define_workflow", "TQ006 TQ011 0A000"},
	{NULL, NULL, "taskq_undefine_workflow", "TQ005 TQ011"},
	{NULL, NULL, "taskq_schedule", "TQ003 0A000"},
	{NULL, NULL, "taskq_run_schedule", "42704"},
	{NULL, NULL, "taskq_preview_schedule", "0A000 22008"},
	{NULL, NULL, "taskq_start_workflow", "TQ003 TQ006 TQ011"},
	{"workflow_id", NULL, NULL, "TQ002 TQ005"},
	{"operation_id", NULL, NULL, "42704"},
	{"template_id", NULL, NULL, "TQ011"},
};

/* Errors of the way in which the function is called */
static const char *
codes_of_mode(Mode mode, const Session *session, const Item *item)
{
	static char codes[100];

	snprintf(codes, sizeof(codes), "%s%s%s%s%s",
			 mode == MODE_READ_ONLY || mode == MODE_DEFERRABLE ||
			 session->allow.read_only ? "25006 " : "",
			 session->allow.role ? "42501 " : "",
			 session->allow.encoding ? "22P05 22021 54000 22023 0A000 " : "",
			 session->allow.stack ? "54001 " : "",
			 item->function->procedure ? "25001 2D000 0A000 42601 " : "");
	return codes;
}

static bool
is_documented(const Session *session, const Item *item, Mode mode,
			  const char *code)
{
	const Function *f = item->function;

	if (strstr(codes_of_mode(mode, session, item), code) != NULL)
		return true;
	for (size_t i = 0; i < sizeof(documented) / sizeof(documented[0]); i++)
	{
		if (documented[i].argument != NULL &&
			argument_named(f, documented[i].argument) < 0)
			continue;
		if (documented[i].type != NULL &&
			(item->arg < 0 ||
			 fnmatch(documented[i].type, f->args[item->arg].type->name, 0)))
			continue;
		if (documented[i].function != NULL &&
			fnmatch(documented[i].function, f->bare, 0) != 0)
			continue;
		if (strstr(documented[i].codes, code) != NULL)
			return true;
	}
	return false;
}

/* ---- answers, in a form that can be compared ---- */

static void
append(char **text, size_t *length, const char *more, size_t count)
{
	*text = realloc(*text, *length + count + 1);
	memcpy(*text + *length, more, count);
	*length += count;
	(*text)[*length] = '\0';
}

static bool
is_digits(const char *p, const char *form)
{
	for (; *form; form++, p++)
	{
		if (*form == '9' ? *p < '0' || *p > '9' : *p != *form)
			return false;
	}
	return true;
}

/* Without moments in ISO form, which differ from run to run. */
static void
append_text(char **text, size_t *length, const char *value, size_t count)
{
	for (size_t i = 0; i < count; i++)
	{
		if (count - i >= 19 && is_digits(value + i, "9999-99-99T99:99:99"))
		{
			append(text, length, "<time>", 6);
			for (i += 19; i < count && value[i] != '"';)
				i++;
			i--;
		}
		else
			append(text, length, value + i, 1);
	}
}

/* A column in binary form: no setting of the session shows in it. */
static void
append_column(char **text, size_t *length, PGresult *res, int row, int column)
{
	const char *value = PQgetvalue(res, row, column);
	size_t      count = PQgetlength(res, row, column);
	Oid         type = PQftype(res, column);

	if (PQgetisnull(res, row, column))
		append(text, length, "~", 1);
	else if (type == 1184)
		append(text, length, "<time>", 6);
	else if (type == 20 && count == 8)
	{
		int64_t number = 0;
		char    word[40];

		for (int i = 0; i < 8; i++)
			number = (int64_t) ((uint64_t) number << 8) |
				(unsigned char) value[i];
		if (first_new_id > 0 && number >= first_new_id &&
			number < first_new_id + 10000)
			snprintf(word, sizeof(word), "<new %lld>",
					 (long long) (number - first_new_id));
		else
			snprintf(word, sizeof(word), "%lld", (long long) number);
		append(text, length, word, strlen(word));
	}
	else
		append_text(text, length, value, count);
	append(text, length, "|", 1);
}

static char *
answer_of(PGresult *res)
{
	char  *text = strdup("");
	size_t length = 0;

	for (int row = 0; row < PQntuples(res) && length < 100000; row++)
	{
		for (int column = 0; column < PQnfields(res); column++)
			append_column(&text, &length, res, row, column);
		append(&text, &length, "\n", 1);
	}
	return text;
}

static void
read_result(Session *session, PGresult *res, Outcome *outcome)
{
	ExecStatusType status = PQresultStatus(res);
	const char    *code = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char    *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	outcome->ok = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
	outcome->lost = PQstatus(session->conn) != CONNECTION_OK;
	snprintf(outcome->code, sizeof(outcome->code), "%s",
			 outcome->ok ? "00000" : code ? code : "?????");
	snprintf(outcome->message, sizeof(outcome->message), "%s",
			 message ? message : outcome->ok ? "" :
			 PQerrorMessage(session->conn));
	if (outcome->ok)
		outcome->answer = answer_of(res);
}

void
run_sql(Session *session, const char *sql, const char *param, Outcome *outcome)
{
	double    begin = now_ms();
	PGresult *res = PQexecParams(session->conn, sql, param ? 1 : 0, NULL,
								 &param, NULL, NULL, 1);

	memset(outcome, 0, sizeof(*outcome));
	read_result(session, res, outcome);
	PQclear(res);
	outcome->ms = now_ms() - begin;
}

void
clear_outcome(Outcome *outcome)
{
	free(outcome->answer);
	outcome->answer = NULL;
}

/* ---- one call in a transaction ---- */

typedef struct Attempt
{
	Session    *session;
	Item       *item;
	Mode        mode;
	const char *sql;
	const char *param;
	Outcome     outcome;
	const char *problem;
	char        note[400];
} Attempt;

/* A statement around the call; one that fails is a problem, too. */
static bool
around(Attempt *attempt, const char *sql)
{
	PGresult *res = PQexec(attempt->session->conn, sql);
	bool      good = PQresultStatus(res) == PGRES_COMMAND_OK ||
		PQresultStatus(res) == PGRES_TUPLES_OK;

	if (!good && attempt->problem == NULL)
	{
		attempt->problem = "a statement around the call failed";
		snprintf(attempt->note, sizeof(attempt->note), "%s: %s", sql,
				 PQerrorMessage(attempt->session->conn));
	}
	if (good && strcmp(sql, "COMMIT") == 0 &&
		strcmp(PQcmdStatus(res), "COMMIT") != 0)
		attempt->problem = "the transaction did not commit";
	PQclear(res);
	return good;
}

static void
call(Attempt *attempt)
{
	clear_outcome(&attempt->outcome);
	total_calls++;
	run_sql(attempt->session, attempt->sql, attempt->param, &attempt->outcome);
}

/* What was written must be readable: valid text, whole documents. */
static void
read_back(Attempt *attempt)
{
	if (draw(8) != 0 || attempt->session->allow.role)
		return;
	around(attempt,
		   "SELECT pg_catalog.count(pg_catalog.convert_to("
		   "t::pg_catalog.text, pg_catalog.getdatabaseencoding()))"
		   " FROM taskq.tasks t");
}

static void
in_savepoint(Attempt *attempt, const char *begin)
{
	around(attempt, begin);
	around(attempt, "SAVEPOINT a");
	call(attempt);
	if (attempt->outcome.lost)
		return;
	if (attempt->outcome.ok)
	{
		read_back(attempt);
		around(attempt, "ROLLBACK");
		return;
	}
	around(attempt, "ROLLBACK TO a");
	around(attempt, "COMMIT");
}

static void
in_block(Attempt *attempt, const char *begin)
{
	around(attempt, begin);
	call(attempt);
	if (!attempt->outcome.lost)
		around(attempt, "ROLLBACK");
}

static void
same_again(Attempt *attempt, const char *what)
{
	char first[6];

	memcpy(first, attempt->outcome.code, 6);
	call(attempt);
	if (strcmp(first, attempt->outcome.code) == 0)
		return;
	attempt->problem = what;
	snprintf(attempt->note, sizeof(attempt->note), "%s, then %s: %s", first,
			 attempt->outcome.code, attempt->outcome.message);
}

/* Outside of a block only calls that surely fail, so that nothing is kept. */
static void
by_itself(Attempt *attempt)
{
	in_block(attempt, "BEGIN");
	if (attempt->outcome.ok || attempt->outcome.lost ||
		attempt->item->function->procedure)
		return;
	same_again(attempt, "another answer outside of a transaction");
	if (attempt->outcome.ok)
		watch_rebase();
}

static void
in_nested(Attempt *attempt)
{
	bool first_ok;

	around(attempt, "BEGIN READ WRITE");
	around(attempt, "SAVEPOINT a");
	around(attempt, "SAVEPOINT b");
	call(attempt);
	if (attempt->outcome.lost)
		return;
	around(attempt, "ROLLBACK TO b");
	around(attempt, "SAVEPOINT c");
	first_ok = attempt->outcome.ok;
	same_again(attempt, "another answer after a rolled back savepoint");
	/* who has claimed has written, also when that is rolled back */
	if (first_ok && strcmp(attempt->outcome.code, "25001") == 0 &&
		strstr(attempt->outcome.message, "has written") != NULL)
		attempt->problem = NULL;
	if (attempt->outcome.lost)
		return;
	if (attempt->outcome.ok)
		around(attempt, "ROLLBACK");
	else
	{
		around(attempt, "ROLLBACK TO a");
		around(attempt, "COMMIT");
	}
}

static void
in_cursor(Attempt *attempt)
{
	char *declare = text_of("DECLARE c CURSOR WITH HOLD FOR %s", attempt->sql);

	if (attempt->item->function->procedure)
		in_block(attempt, "BEGIN READ WRITE");
	else
	{
		attempt->sql = declare;
		around(attempt, "BEGIN READ WRITE");
		call(attempt);
		if (attempt->outcome.ok)
		{
			attempt->sql = "FETCH 2 FROM c";
			call(attempt);
			total_calls--;
		}
		if (!attempt->outcome.lost)
			around(attempt, "ROLLBACK");
	}
	free(declare);
}

static void
in_exception_block(Attempt *attempt)
{
	const char *statement = attempt->sql;

	attempt->sql = "SELECT hostile.caught($1)";
	attempt->param = statement;
	in_block(attempt, "BEGIN READ WRITE");
	if (attempt->outcome.ok && attempt->outcome.answer != NULL)
	{
		memcpy(attempt->outcome.code, attempt->outcome.answer, 5);
		attempt->outcome.ok = strcmp(attempt->outcome.code, "00000") == 0;
	}
	attempt->sql = statement;
}

/* What has bound a worker to the connection is refused, cleanly. */
static bool
prepare(Attempt *attempt)
{
	PGresult   *res = PQexec(attempt->session->conn,
							 "PREPARE TRANSACTION 'hostile'");
	const char *code = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	bool        good = PQresultStatus(res) == PGRES_COMMAND_OK;

	if (!good && (code == NULL || strcmp(code, "0A000") != 0 ||
				  strstr(attempt->sql, "taskq_register") == NULL))
	{
		attempt->problem = "the transaction could not be prepared";
		snprintf(attempt->note, sizeof(attempt->note), "%s",
				 PQerrorMessage(attempt->session->conn));
	}
	PQclear(res);
	return good;
}

static void
prepared(Attempt *attempt)
{
	around(attempt, "BEGIN READ WRITE");
	call(attempt);
	if (attempt->outcome.lost)
		return;
	if (!attempt->outcome.ok)
		around(attempt, "ROLLBACK");
	else if (prepare(attempt))
		around(attempt, "ROLLBACK PREPARED 'hostile'");
}

static void
in_aborted(Attempt *attempt)
{
	around(attempt, "BEGIN READ WRITE");
	PQclear(PQexec(attempt->session->conn, "SELECT 1 OPERATOR(pg_catalog./) 0"));
	call(attempt);
	if (attempt->outcome.lost)
		return;
	if (strcmp(attempt->outcome.code, "25P02") != 0)
		attempt->problem = "not 25P02 in an aborted transaction";
	around(attempt, "ROLLBACK");
}

static void
judge(Attempt *attempt)
{
	Outcome *o = &attempt->outcome;

	if (o->lost)
		attempt->problem = "the connection was lost";
	else if (strncmp(o->code, "XX", 2) == 0)
		attempt->problem = "an internal error";
	else if (attempt->problem == NULL && !o->ok &&
			 attempt->mode != MODE_ABORTED &&
			 !is_documented(attempt->session, attempt->item, attempt->mode,
							o->code))
		attempt->problem = "an error that is not documented";
}

static void
perform(Attempt *attempt)
{
	switch (attempt->mode)
	{
		case MODE_SAVEPOINT:
			in_savepoint(attempt, "BEGIN READ WRITE");
			break;
		case MODE_BLOCK:
			in_block(attempt, "BEGIN");
			break;
		case MODE_AUTO:
			by_itself(attempt);
			break;
		case MODE_REPEATABLE:
			in_savepoint(attempt, "BEGIN ISOLATION LEVEL REPEATABLE READ"
						 " READ WRITE");
			break;
		case MODE_SERIALIZABLE:
			in_savepoint(attempt, "BEGIN ISOLATION LEVEL SERIALIZABLE"
						 " READ WRITE");
			break;
		case MODE_NESTED:
			in_nested(attempt);
			break;
		case MODE_CURSOR:
			in_cursor(attempt);
			break;
		case MODE_EXCEPTION:
			in_exception_block(attempt);
			break;
		case MODE_PREPARED:
			prepared(attempt);
			break;
		case MODE_READ_ONLY:
			in_savepoint(attempt, "BEGIN READ ONLY");
			break;
		case MODE_DEFERRABLE:
			in_savepoint(attempt, "BEGIN ISOLATION LEVEL SERIALIZABLE"
						 " READ ONLY DEFERRABLE");
			break;
		default:
			in_aborted(attempt);
			break;
	}
}

/* Call it with some context that is drawn. */
void
run_item(Session *session, Item *item, Mode mode)
{
	bool           inlined = !item->literal || mode == MODE_CURSOR ||
		mode == MODE_EXCEPTION || draw(2) == 0;
	const Context *context = pick_context(item->function);
	char          *sql = call_text(session->conn, item, context, inlined);
	Attempt        attempt = {.session = session, .item = item, .mode = mode,
							  .sql = sql};

	if (!inlined)
		attempt.param = item->text;
	watch_remember(item, mode, sql);
	perform(&attempt);
	judge(&attempt);
	item->function->calls++;
	if (attempt.problem != NULL)
	{
		item->function->failures++;
		report(false, "%s: %s\n  %s, argument %s: %.80s\n  %.600s\n"
			   "  context %s, %s, %s %s\n  after %s",
			   item->function->name, attempt.problem, mode_names[mode],
			   item->arg < 0 ? "none" : item->function->args[item->arg].name,
			   item->name, sql, context->name, attempt.outcome.code,
			   attempt.outcome.message, attempt.note,
			   session->setup ? session->setup : "no setting");
	}
	if (attempt.outcome.lost)
	{
		close_session(session);
		open_session(session, session->database);
	}
	else if (attempt.outcome.ok &&
			 argument_named(item->function, "progress") >= 0)
		watch_restore_progress();
	clear_outcome(&attempt.outcome);
	free(sql);
}
