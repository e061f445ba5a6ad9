/*
 * statement.c
 *		Runs the statement of a SQL task.
 *
 * It runs with SPI in the task's transaction, as a function's statement does:
 * so it cannot end the transaction, and commands that need one of their own
 * refuse to run.  Names are looked up as the role does, with its search_path.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_proc.h"
#include "executor/spi.h"
#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "engine/sql_task.h"
#include "sql_task/sql_args.h"
#include "sql_task/sql_result.h"
#include "sql_task/statement.h"

static char      *call_text(const TqSqlTask *sql);
static bool       is_procedure(List *name, int arg_count);
static CommandTag tag_of(const char *statement);

/*
 * Run it, and return the result in the current context.  *begun says whether
 * an error came from the statement, and not from the payload.
 */
Jsonb *
tq_statement_run(Jsonb *payload, int64 limit, bool *begun)
{
	MemoryContext     caller = CurrentMemoryContext;
	TqSqlTask         sql;
	char             *statement;
	Oid              *types;
	SPIExecuteOptions options = {0};
	SPIPlanPtr        plan;
	CommandTag        tag;
	Jsonb            *result;
	int               code;

	*begun = false;
	tq_sql_task_read(payload, &sql);
	statement = sql.sql != NULL ? sql.sql : call_text(&sql);
	tag = tag_of(statement);
	pgstat_report_activity(STATE_RUNNING, statement);
	options.dest = tq_sql_result_receiver(limit);
	PushActiveSnapshot(GetTransactionSnapshot());
	*begun = sql.arg_count == 0;
	options.params = tq_sql_args_read(statement, &sql, &types);
	*begun = true;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	plan = SPI_prepare(statement, sql.arg_count, types);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s",
			 SPI_result_code_string(SPI_result));
	code = SPI_execute_plan_extended(plan, &options);
	if (code < 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a SQL task cannot run %s", GetCommandTagName(tag))));
	MemoryContextSwitchTo(caller);
	result = tq_sql_result_finish(options.dest, tag, SPI_processed);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	PopActiveSnapshot();
	MemoryContextSwitchTo(caller);
	return result;
}

/* SELECT * FROM function($1, $2), or CALL procedure($1, $2). */
static char *
call_text(const TqSqlTask *sql)
{
	List          *name = tq_compat_qualified_name(sql->call);
	StringInfoData text;
	ListCell      *cell;

	initStringInfo(&text);
	appendStringInfoString(&text, is_procedure(name, sql->arg_count)
									  ? "CALL "
									  : "SELECT * FROM ");
	foreach (cell, name)
	{
		if (foreach_current_index(cell) > 0)
			appendStringInfoChar(&text, '.');
		appendStringInfoString(&text, quote_identifier(strVal(lfirst(cell))));
	}
	appendStringInfoChar(&text, '(');
	for (int i = 0; i < sql->arg_count; i++)
		appendStringInfo(&text, "%s$%d", i > 0 ? ", " : "", i + 1);
	appendStringInfoChar(&text, ')');
	return text.data;
}

static bool
is_procedure(List *name, int arg_count)
{
	FuncCandidateList candidate =
		FuncnameGetCandidates(name, arg_count, NIL, true, true, true, true);
	HeapTuple tuple;
	bool      found = false;

	for (; candidate != NULL && !found; candidate = candidate->next)
	{
		tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(candidate->oid));
		if (!HeapTupleIsValid(tuple))
			continue;
		found = ((Form_pg_proc) GETSTRUCT(tuple))->prokind ==
				PROKIND_PROCEDURE;
		ReleaseSysCache(tuple);
	}
	return found;
}

static CommandTag
tag_of(const char *statement)
{
	List *raw = pg_parse_query(statement);

	return CreateCommandTag(linitial_node(RawStmt, raw)->stmt);
}
