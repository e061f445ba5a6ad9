/*
 * catalog.c
 *		The functions, and the arguments with which they are called.
 *
 * Functions and their arguments come from the catalog, so one that is added
 * later is called, too.  What stands in place of the arguments that are not
 * hostile follows from their names and types.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

Function *functions;
int       function_count;
Context  *contexts;
int       context_count;
Item     *items;
int       item_count;
bool      only_required;

/*
 * Input arguments of the extension's functions that anybody may be given.
 * Aggregates are called otherwise.
 */
static const char query[] =
	"SELECT format('%I.%I', n.nspname, p.proname), p.proname,"
	"  p.prokind = 'p', p.proname LIKE 'taskq\\_%', a.name,"
	"  format_type(a.type, NULL), a.number > p.pronargs - p.pronargdefaults,"
	"  a.mode = 'b', p.oid"
	" FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
	" JOIN pg_depend d ON d.classid = 'pg_proc'::regclass"
	"  AND d.objid = p.oid AND d.deptype = 'e'"
	" JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass"
	"  AND d.refobjid = e.oid AND e.extname = 'taskq'"
	" LEFT JOIN LATERAL ("
	"  SELECT p.proargnames[i] AS name, t.type,"
	"   coalesce(p.proargmodes[i], 'i') AS mode,"
	"   row_number() OVER (ORDER BY i) AS number"
	"  FROM unnest(coalesce(p.proallargtypes, p.proargtypes::oid[]))"
	"   WITH ORDINALITY t (type, i)"
	"  WHERE coalesce(p.proargmodes[i], 'i') IN ('i', 'b', 'v')) a ON true"
	" WHERE p.prokind <> 'a' AND (p.proname LIKE 'taskq\\_%'"
	"  OR has_function_privilege('public', p.oid, 'EXECUTE'))"
	" ORDER BY p.proname, p.oid, a.number";

/* Good values of arguments, for one function or all; %-words are filled. */
static const struct
{
	const char *function;
	const char *argument;
	const char *value;
} good_values[] = {
	{"taskq_create_queue", "queue", "'h new'"},
	{"taskq_purge", "reason", "'exhausted'"},
	{"state_name", "state", "1"},
	{"taskq_retry_all", "reason", "'exhausted'"},
	{NULL, "task_id", "%i"},
	{NULL, "token", "%t"},
	{NULL, "task_ids", "ARRAY[%i]::pg_catalog.int8[]"},
	{NULL, "tokens", "ARRAY[%t]::pg_catalog.int8[]"},
	{NULL, "results", "ARRAY['{}'::pg_catalog.jsonb]"},
	{NULL, "queue", "%q"},
	{NULL, "queues", "'{h plain}'"},
	{NULL, "worker", "'h worker'"},
	{NULL, "role", "'hostile_all'"},
	{NULL, "rights", "'{read}'"},
	{NULL, "tasks", "'[{\"queue\": \"h plain\"}]'"},
	{NULL, "decisions",
	 "'[{\"task_id\": %i, \"token\": %t, \"outcome\": \"complete\"}]'"},
	{NULL, "states", "'{done}'"},
	{NULL, "state", "'dead'"},
	{NULL, "older_than", "'1 h'"},
	{NULL, "wait", "'0'"},
	{NULL, "timeout", "'0'"},
	{NULL, "action", "'cancel'"},
	{NULL, "changes", "'{\"priority\": 1}'"},
	{NULL, "on_conflict", "'error'"},
	{NULL, "insertion", "'append'"},
	{NULL, "claim_order", "'fifo'"},
	{NULL, "bound", "false"},
};

/* Optional arguments that are given now and then. */
static const char *const spice[] = {"worker", "max_tasks", "strict", "keep",
									"force", "max_rows", "reason"};

static const Type *
find_type(const char *name)
{
	for (int i = 0; i < type_count; i++)
	{
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	}
	return NULL;
}

void
read_catalog(PGconn *conn)
{
	PGresult   *res = must(conn, query);
	int         rows = PQntuples(res);
	const char *last = "";

	functions = calloc(rows + 1, sizeof(Function));
	for (int i = 0; i < rows; i++)
	{
		Function *f;
		Arg      *arg;

		if (strcmp(PQgetvalue(res, i, 8), last) != 0)
		{
			f = &functions[function_count++];
			f->name = strdup(PQgetvalue(res, i, 0));
			f->bare = strdup(PQgetvalue(res, i, 1));
			f->procedure = *PQgetvalue(res, i, 2) == 't';
			f->contract = *PQgetvalue(res, i, 3) == 't';
			f->args = calloc(rows, sizeof(Arg));
			last = PQgetvalue(res, i, 8);
		}
		f = &functions[function_count - 1];
		if (PQgetisnull(res, i, 5))
			continue; /* it has no arguments */
		arg = &f->args[f->count++];
		arg->name = strdup(PQgetvalue(res, i, 4));
		arg->type = find_type(PQgetvalue(res, i, 5));
		arg->optional = *PQgetvalue(res, i, 6) == 't';
		arg->inout = *PQgetvalue(res, i, 7) == 't';
		report(arg->type != NULL && arg->type->count >= 40,
			   "there are 40 hostile values for argument %s of %s, of type %s",
			   arg->name, f->name, PQgetvalue(res, i, 5));
		if (arg->type == NULL)
			f->count--;
	}
	/* strings of "last" were those of the result */
	PQclear(res);
}

void
read_contexts(PGconn *conn)
{
	PGresult *res = must(conn, "SELECT name, task_id, token,"
							   " quote_literal(queue), held"
							   " FROM hostile.context ORDER BY name");

	free(contexts);
	context_count = PQntuples(res);
	contexts = calloc(context_count, sizeof(Context));
	for (int i = 0; i < context_count; i++)
	{
		contexts[i].name = strdup(PQgetvalue(res, i, 0));
		contexts[i].task_id = strdup(PQgetvalue(res, i, 1));
		contexts[i].token = strdup(PQgetvalue(res, i, 2));
		contexts[i].queue = strdup(PQgetvalue(res, i, 3));
		contexts[i].held = *PQgetvalue(res, i, 4) == 't';
	}
	PQclear(res);
}

const Context *
context_named(const char *name)
{
	for (int i = 0; i < context_count; i++)
	{
		if (strcmp(contexts[i].name, name) == 0)
			return &contexts[i];
	}
	die("there is no context %s", name);
}

int
argument_named(const Function *function, const char *name)
{
	for (int i = 0; i < function->count; i++)
	{
		if (strcmp(function->args[i].name, name) == 0)
			return i;
	}
	return -1;
}

/* Any of the tasks; most calls with a token get one that holds its task. */
const Context *
pick_context(const Function *function)
{
	const Context *context = &contexts[draw(context_count)];

	while ((argument_named(function, "token") >= 0 ||
			argument_named(function, "tokens") >= 0 ||
			argument_named(function, "decisions") >= 0) &&
		   !context->held && draw(4) != 0)
		context = &contexts[draw(context_count)];
	return context;
}

static void
add_item(Function *function, int arg, const char *name, const char *text,
		 bool literal)
{
	if (item_count % 1024 == 0)
		items = realloc(items, (item_count + 1024) * sizeof(Item));
	items[item_count++] = (Item){function, arg, name, text, literal};
}

/* Documents whose members have hostile values. */
static void
add_members(Function *function, int arg)
{
	for (int m = 0; m < members_count; m++)
	{
		if (strcmp(members[m].function, function->bare) != 0 ||
			strcmp(members[m].argument, function->args[arg].name) != 0)
			continue;
		for (const char *const *name = members[m].names; *name; name++)
		{
			for (int v = 0; v < member_value_count; v++)
			{
				char *text = malloc(1000);

				/* the form is one of ours */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
				snprintf(text, 1000, members[m].form, *name,
						 member_values[v].text);
#pragma GCC diagnostic pop
				add_item(function, arg, text, text, true);
			}
		}
	}
}

/* Looking up one id takes 0.1 ms: there 10,000 of them are enough. */
static bool
takes_long(const Function *function, const Value *value)
{
	return strcmp(function->bare, "taskq_get_many") == 0 &&
		strstr(value->text, "100000") != NULL;
}

void
make_items(void)
{
	for (int i = 0; i < function_count; i++)
	{
		Function *f = &functions[i];

		add_item(f, -1, "good values", "", false);
		for (int a = 0; a < f->count; a++)
		{
			const Type *type = f->args[a].type;

			add_item(f, a, "NULL", "NULL", false);
			for (int v = 0; v < type->count; v++)
			{
				if (!takes_long(f, &type->values[v]))
					add_item(f, a, type->values[v].name, type->values[v].text,
							 type->values[v].literal);
			}
			add_members(f, a);
		}
	}
}

void
shuffle_items(void)
{
	for (int i = item_count - 1; i > 0; i--)
	{
		int  j = draw(i + 1);
		Item kept = items[i];

		items[i] = items[j];
		items[j] = kept;
	}
}

/* The value with %i, %t, %q replaced. */
char *
fill(const char *value, const Context *context)
{
	char  *text = malloc(strlen(value) + 1000);
	size_t length = 0;

	for (const char *p = value; *p; p++)
	{
		const char *put = NULL;

		if (*p == '%' && p[1] == 'i')
			put = context->task_id;
		else if (*p == '%' && p[1] == 't')
			put = context->token;
		else if (*p == '%' && p[1] == 'q')
			put = context->queue;
		if (put == NULL)
		{
			text[length++] = *p;
			continue;
		}
		strcpy(text + length, put);
		length += strlen(put);
		p++;
	}
	text[length] = '\0';
	return text;
}

static char *
good_value(const Function *function, const Arg *arg, const Context *context)
{
	for (size_t i = 0; i < sizeof(good_values) / sizeof(good_values[0]); i++)
	{
		if (strcmp(good_values[i].argument, arg->name) == 0 &&
			(good_values[i].function == NULL ||
			 strcmp(good_values[i].function, function->bare) == 0))
			return fill(good_values[i].value, context);
	}
	return strdup(arg->type->good);
}

static bool
is_given(const Arg *arg)
{
	if (!arg->optional)
		return true;
	if (only_required)
		return false;
	for (size_t i = 0; i < sizeof(spice) / sizeof(spice[0]); i++)
	{
		if (strcmp(spice[i], arg->name) == 0)
			return draw(5) == 0;
	}
	return false;
}

static char *
hostile_value(PGconn *conn, const Item *item, bool inlined)
{
	char *quoted;
	char *text;

	if (!item->literal)
		return text_of("(%s)", item->text);
	if (!inlined)
		return strdup("$1");
	quoted = PQescapeLiteral(conn, item->text, strlen(item->text));
	if (quoted == NULL) /* no string in this encoding */
		return strdup("'?'");
	text = strdup(quoted);
	PQfreemem(quoted);
	return text;
}

/* The call; inlined: the hostile value stands in it, else it is $1. */
char *
call_text(PGconn *conn, const Item *item, const Context *context, bool inlined)
{
	const Function *f = item->function;
	char *text = text_of("%s %s(", f->procedure ? "CALL" : "SELECT * FROM",
						 f->name);
	const char *comma = "";
	char       *whole;

	for (int i = 0; i < f->count; i++)
	{
		char *value;
		char *longer;

		if (i == item->arg)
			value = hostile_value(conn, item, inlined);
		else if (f->args[i].inout)
			value = strdup("NULL");
		else if (is_given(&f->args[i]))
			value = good_value(f, &f->args[i], context);
		else
			continue;
		longer = text_of("%s%s%s => %s::%s", text, comma, f->args[i].name,
						 value, f->args[i].type->sql);
		free(text);
		free(value);
		text = longer;
		comma = ", ";
	}
	whole = text_of("%s)", text);
	free(text);
	return whole;
}
