/*
 * sql_args.c
 *		The arguments of a SQL task, as parameters of its statement.
 *
 * The parser infers the types of the parameters, as it does for a client that
 * gives none.  An argument becomes text and goes through the input function of
 * its type: a string as it is, a number and a boolean as JSON writes them, a
 * list as an array if the parameter is one, and any other document as JSON.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"

#include "base/error.h"
#include "base/json.h"
#include "sql_task/sql_args.h"

static Datum read_arg(JsonbValue *value, Oid type, bool *isnull);
static char *scalar_text(const JsonbValue *value);
static void  add_array(StringInfo text, JsonbContainer *list);
static void  add_element(StringInfo text, const JsonbValue *value);

/*
 * Infer the types of the parameters, and read the arguments.  Returns NULL if
 * there are none.
 */
ParamListInfo
tq_sql_args_read(const char *statement, const TqSqlTask *sql, Oid **types)
{
	List         *raw;
	int           count = 0;
	ParamListInfo params;

	*types = NULL;
	if (sql->arg_count == 0)
		return NULL;
	raw = pg_parse_query(statement);
	(void) parse_analyze_varparams(linitial_node(RawStmt, raw), statement,
								   types, &count, NULL);
	if (count != sql->arg_count)
		tq_error_invalid("args",
						 psprintf("do not match the parameters of the "
								  "statement: %d given, %d required",
								  sql->arg_count, count),
						 NULL);
	params = makeParamList(count);
	for (int i = 0; i < count; i++)
	{
		ParamExternData *param = &params->params[i];

		param->pflags = PARAM_FLAG_CONST;
		param->ptype = (*types)[i];
		param->value = read_arg(&sql->args[i], param->ptype, &param->isnull);
	}
	return params;
}

static Datum
read_arg(JsonbValue *value, Oid type, bool *isnull)
{
	char *text = NULL;
	Oid   input;
	Oid   of;

	*isnull = value->type == jbvNull;
	if (!*isnull && tq_json_is_list(value) &&
		OidIsValid(get_element_type(type)))
	{
		StringInfoData array;

		initStringInfo(&array);
		add_array(&array, value->val.binary.data);
		text = array.data;
	}
	else if (!*isnull)
		text = scalar_text(value);
	getTypeInputInfo(type, &input, &of);
	return OidInputFunctionCall(input, text, of, -1);
}

static char *
scalar_text(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(
				numeric_out, NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			return JsonbToCString(NULL, value->val.binary.data,
								  value->val.binary.len);
	}
}

/* The text of an array, as array_in reads it. */
static void
add_array(StringInfo text, JsonbContainer *list)
{
	JsonbIterator *it = JsonbIteratorInit(list);
	JsonbValue     entry;
	bool           first = true;

	check_stack_depth();
	(void) JsonbIteratorNext(&it, &entry, false);
	appendStringInfoChar(text, '{');
	while (JsonbIteratorNext(&it, &entry, true) == WJB_ELEM)
	{
		if (!first)
			appendStringInfoChar(text, ',');
		first = false;
		if (tq_json_is_list(&entry))
			add_array(text, entry.val.binary.data);
		else if (entry.type == jbvNull)
			appendStringInfoString(text, "NULL");
		else
			add_element(text, &entry);
	}
	appendStringInfoChar(text, '}');
}

static void
add_element(StringInfo text, const JsonbValue *value)
{
	appendStringInfoChar(text, '"');
	for (const char *at = scalar_text(value); *at != '\0'; at++)
	{
		if (*at == '"' || *at == '\\')
			appendStringInfoChar(text, '\\');
		appendStringInfoChar(text, *at);
	}
	appendStringInfoChar(text, '"');
}
