/*
 * sql_task.c
 *		SQL tasks: what a task must be for an executor to run it.
 *
 * An executor runs only tasks that have TQ_FLAG_SQL.  The flag says that the
 * role run_as decided the SQL of the task, in a queue that had an executor
 * then.  So neither an option that the owner of a queue sets later, nor a
 * merge in a queue without an executor, turns text that is no more than data
 * into SQL that runs as the role that submitted it.
 *
 * What can be known of the SQL is checked when it is decided: it is parsed,
 * but not analysed, since the objects that it names may be created later.  A
 * task that runs is read again in the same way, because the rules for string
 * literals are a setting.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_authid.h"
#include "nodes/parsenodes.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "base/error.h"
#include "base/json.h"
#include "cache/role.h"
#include "engine/sql_task.h"

static const char form_hint[] =
	"Use {\"sql\": \"...\", \"args\": [...]} or "
	"{\"call\": \"schema.function\", \"args\": [...]}.";

static char       *read_text(const char *name, JsonbValue *value);
static void        read_args(TqSqlTask *sql, JsonbValue *value);
static void        check_statement(const char *text);
static void        point_at_sql(void *arg);
static const char *refused_statement(Node *statement);
static void        check_role(int32 role_id);

/*
 * Read the payload of a SQL task.  Raises 22023 if it is something else, and
 * the parser's error if its SQL is not one statement that a task can run.
 */
void
tq_sql_task_read(Jsonb *payload, TqSqlTask *sql)
{
	JsonbIterator     *it;
	JsonbValue         key;
	JsonbValue         value;
	JsonbIteratorToken token;

	memset(sql, 0, sizeof(*sql));
	if (payload == NULL || !JB_ROOT_IS_OBJECT(payload))
		tq_error_invalid("payload", "is not a SQL task", form_hint);
	it = JsonbIteratorInit(&payload->root);
	token = JsonbIteratorNext(&it, &key, false);
	while ((token = JsonbIteratorNext(&it, &key, true)) == WJB_KEY)
	{
		char *name = pnstrdup(key.val.string.val, key.val.string.len);

		token = JsonbIteratorNext(&it, &value, true);
		if (strcmp(name, "sql") == 0)
			sql->sql = read_text(name, &value);
		else if (strcmp(name, "call") == 0)
			sql->call = read_text(name, &value);
		else if (strcmp(name, "args") == 0)
			read_args(sql, &value);
		else
			tq_error_invalid("payload",
							 psprintf("of a SQL task has an unknown member "
									  "\"%s\"",
									  name),
							 form_hint);
	}
	if ((sql->sql == NULL) == (sql->call == NULL))
		tq_error_invalid("payload",
						 "of a SQL task must have one of \"sql\" and "
						 "\"call\"",
						 form_hint);
	if (sql->sql != NULL)
		check_statement(sql->sql);
	else
		(void) tq_compat_qualified_name(sql->call);
}

static char *
read_text(const char *name, JsonbValue *value)
{
	if (value->type != jbvString)
		tq_error_invalid("payload",
						 psprintf("of a SQL task has a \"%s\" that is not a "
								  "string",
								  name),
						 form_hint);
	return pnstrdup(value->val.string.val, value->val.string.len);
}

static void
read_args(TqSqlTask *sql, JsonbValue *value)
{
	JsonbIterator *it;
	JsonbValue     entry;

	if (value->type == jbvNull)
		return;
	if (!tq_json_is_list(value))
		tq_error_invalid("payload",
						 "of a SQL task has \"args\" that are not a list",
						 form_hint);
	it = JsonbIteratorInit(value->val.binary.data);
	sql->args = palloc(sizeof(JsonbValue) *
					   (JsonContainerSize(value->val.binary.data) + 1));
	(void) JsonbIteratorNext(&it, &entry, false);
	while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
		sql->args[sql->arg_count++] = entry;
}

/* Raise the parser's error, or refuse what no task can run. */
static void
check_statement(const char *text)
{
	ErrorContextCallback context = {error_context_stack, point_at_sql,
									(void *) text};
	List                *statements;
	const char          *refused;

	error_context_stack = &context;
	statements = pg_parse_query(text);
	error_context_stack = context.previous;
	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("the SQL of a task must be one statement, not %d",
						list_length(statements)),
				 errhint("Write a function that runs several statements, "
						 "and call it.")));
	refused = refused_statement(linitial_node(RawStmt, statements)->stmt);
	if (refused != NULL)
		ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						errmsg("a SQL task cannot run %s", refused),
						errhint("A SQL task is one transaction without a "
								"client.")));
}

/* The position of a syntax error is one in the SQL of the task. */
static void
point_at_sql(void *arg)
{
	int position = geterrposition();

	if (position <= 0)
		return;
	errposition(0);
	internalerrposition(position);
	internalerrquery(arg);
}

/* What a task cannot run, since it needs a client or a session. */
static const char *
refused_statement(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_TransactionStmt:
			return "a transaction control statement";
		case T_CopyStmt:
		{
			CopyStmt *copy = (CopyStmt *) statement;

			if (copy->filename != NULL)
				return NULL;
			return copy->is_from ? "COPY FROM STDIN" : "COPY TO STDOUT";
		}
		case T_ListenStmt:
			return "LISTEN";
		case T_UnlistenStmt:
			return "UNLISTEN";
		case T_DeclareCursorStmt:
			return "DECLARE CURSOR";
		case T_FetchStmt:
			return "FETCH";
		case T_ClosePortalStmt:
			return "CLOSE";
		case T_PrepareStmt:
			return "PREPARE";
		case T_ExecuteStmt:
			return "EXECUTE";
		case T_DeallocateStmt:
			return "DEALLOCATE";
		case T_DiscardStmt:
			return "DISCARD";
		default:
			return NULL;
	}
}

/*
 * The role run_as has decided the payload of the task, in that queue.  If the
 * queue has an executor, check both, and note that it may be run.
 */
void
tq_sql_task_decide(const TqQueue *queue, TqTask *task, Jsonb *payload)
{
	TqSqlTask sql;

	task->f.flags &= ~(TQ_FLAG_SQL | TQ_FLAG_CRASHES);
	if (queue->options.executors == 0 ||
		(task->f.flags & TQ_FLAG_DEAD_LETTER) != 0)
		return;
	tq_sql_task_read(payload, &sql);
	check_role(task->i.run_as);
	task->f.flags |= TQ_FLAG_SQL;
}

/*
 * A step is made from a template, whose payload is a pattern.  It is SQL only
 * if the pattern has the SQL as a literal: what results, signals and members
 * of batches contain can be an argument, but not SQL.
 */
void
tq_sql_task_of_step(const TqQueue *queue, TqTask *task, Jsonb *pattern)
{
	JsonbValue *sql;

	if (queue->options.executors == 0 || pattern == NULL ||
		!JB_ROOT_IS_OBJECT(pattern))
		return;
	sql = getKeyJsonValueFromContainer(&pattern->root, "sql", 3, NULL);
	if (sql == NULL)
		sql = getKeyJsonValueFromContainer(&pattern->root, "call", 4, NULL);
	if (sql != NULL && sql->type == jbvString)
		task->f.flags |= TQ_FLAG_SQL;
}

/* A merge would let SQL of another role run as this one. */
void
tq_sql_task_refuse_merge(const TqQueue *queue, const TqTask *task,
						 int32 role_id)
{
	if (queue->options.executors == 0 || task->i.run_as == role_id)
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
		 errmsg("cannot merge into SQL task " INT64_FORMAT " of another role",
				task->f.task_id),
		 errhint("Use on_conflict => 'update', which replaces its SQL.")));
}

/* The role whose executor runs the task; 0 if no executor may run it. */
int32
tq_sql_task_run_as(const TqTask *task)
{
	if ((task->f.flags & (TQ_FLAG_SQL | TQ_FLAG_DEAD_LETTER)) != TQ_FLAG_SQL)
		return 0;
	return task->i.run_as;
}

/* Why an executor cannot connect as the role; NULL if it can. */
const char *
tq_sql_task_bar(Oid role)
{
	HeapTuple tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	bool      logs_in;

	if (!HeapTupleIsValid(tuple))
		return "it does not exist";
	logs_in = ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	if (!logs_in)
		return "it does not have LOGIN";
	if (!tq_compat_may_connect(role))
		return "it may not connect to this database";
	return NULL;
}

static void
check_role(int32 role_id)
{
	Oid         role = tq_role_oid(role_id);
	const char *bar = tq_sql_task_bar(role);

	if (bar != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" cannot run SQL tasks, because %s",
						OidIsValid(role) ? GetUserNameFromId(role, true)
										 : "unknown",
						bar),
				 errhint("The executor connects as the role that decides "
						 "the SQL of a task. Submit it as a role with LOGIN "
						 "and the right to connect.")));
}
