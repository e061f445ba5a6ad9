/*
 * utility.c
 *		Commands that concern background workers: a ProcessUtility hook.
 *
 * CREATE EXTENSION taskq brings a worker.  Dropping or updating it asks the
 * worker to leave before, since the two would wait for each other's locks.
 * DROP DATABASE, ALTER DATABASE ... RENAME and SET TABLESPACE, and CREATE
 * DATABASE ... TEMPLATE need the database without connections: its worker
 * is asked to leave before, and may come back when the transaction has
 * ended, however it ended.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"

#include "base/clock.h"
#include "core/xact.h"
#include "process/process.h"
#include "shared/shmem.h"
#include "shared/station.h"

#define LEAVE_LIMIT (5 * USECS_PER_SEC)

static ProcessUtility_hook_type previous_utility = NULL;

/* The database that this session's command wants for itself. */
static Oid  kept_out = InvalidOid;
static bool exit_registered = false;

static void utility(PlannedStmt *pstmt, const char *query, bool read_only,
					ProcessUtilityContext context, ParamListInfo params,
					QueryEnvironment *environment, DestReceiver *dest,
					QueryCompletion *completion);
static void before_command(Node *stmt);
static void after_command(Node *stmt);
static Oid  database_wanted_alone(Node *stmt);
static bool extension_is_ours(Node *stmt);
static const char *template_of(CreatedbStmt *stmt);
static bool        may_create_databases(void);
static void        keep_out(Oid database);
static void        let_in(void);
static void        at_end(XactEvent event, void *arg);
static void        at_exit(int code, Datum arg);

void
tq_utility_init(void)
{
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = utility;
	RegisterXactCallback(at_end, NULL);
}

static void
utility(PlannedStmt *pstmt, const char *query, bool read_only,
		ProcessUtilityContext context, ParamListInfo params,
		QueryEnvironment *environment, DestReceiver *dest,
		QueryCompletion *completion)
{
	Node *stmt = pstmt->utilityStmt;
	bool  ours = tq_shmem_ready();

	if (ours)
		before_command(stmt);
	if (previous_utility)
		previous_utility(pstmt, query, read_only, context, params, environment,
						 dest, completion);
	else
		standard_ProcessUtility(pstmt, query, read_only, context, params,
								environment, dest, completion);
	if (ours)
		after_command(stmt);
}

static void
before_command(Node *stmt)
{
	Oid database = database_wanted_alone(stmt);

	if (OidIsValid(database))
		keep_out(database);
}

static void
after_command(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_CreateExtensionStmt:
			if (strcmp(((CreateExtensionStmt *) stmt)->extname, "taskq") == 0)
				tq_xact_visit(MyDatabaseId);
			break;
		case T_DropStmt:
		case T_DropOwnedStmt:
			tq_xact_wake_worker();
			break;
		case T_CreatedbStmt:
		{
			Oid database =
				get_database_oid(((CreatedbStmt *) stmt)->dbname, true);

			if (OidIsValid(database))
				tq_xact_visit(database);
			break;
		}
		case T_TransactionStmt:
			if (((TransactionStmt *) stmt)->kind ==
					TRANS_STMT_COMMIT_PREPARED ||
				((TransactionStmt *) stmt)->kind ==
					TRANS_STMT_ROLLBACK_PREPARED)
				tq_xact_prepared_ended();
			break;
		default:
			break;
	}
}

/*
 * The database that must have no connections for the command to succeed,
 * if this role may give the command: nobody else makes a worker leave.
 */
static Oid
database_wanted_alone(Node *stmt)
{
	const char *name = NULL;
	bool        owned = true;
	Oid         database;

	switch (nodeTag(stmt))
	{
		case T_DropdbStmt:
			name = ((DropdbStmt *) stmt)->dbname;
			break;
		case T_RenameStmt:
			if (((RenameStmt *) stmt)->renameType == OBJECT_DATABASE)
				name = ((RenameStmt *) stmt)->subname;
			break;
		case T_AlterDatabaseStmt:
		{
			ListCell *lc;

			foreach (lc, ((AlterDatabaseStmt *) stmt)->options)
			{
				if (strcmp(((DefElem *) lfirst(lc))->defname, "tablespace") ==
					0)
					name = ((AlterDatabaseStmt *) stmt)->dbname;
			}
			break;
		}
		case T_DropStmt:
			return extension_is_ours(stmt) ? MyDatabaseId : InvalidOid;
		case T_AlterExtensionStmt:
			return superuser() &&
						   strcmp(((AlterExtensionStmt *) stmt)->extname,
								  "taskq") == 0
					   ? MyDatabaseId
					   : InvalidOid;
		case T_CreatedbStmt:
			name = template_of((CreatedbStmt *) stmt);
			owned = false;
			break;
		default:
			break;
	}
	if (name == NULL)
		return InvalidOid;
	database = get_database_oid(name, true);
	if (!OidIsValid(database) || database == MyDatabaseId)
		return InvalidOid;
	if (owned ? !tq_compat_owns_database(database, GetUserId())
			  : !may_create_databases())
		return InvalidOid;
	return database;
}

/* DROP EXTENSION taskq, by somebody who may */
static bool
extension_is_ours(Node *stmt)
{
	ListCell *lc;

	if (((DropStmt *) stmt)->removeType != OBJECT_EXTENSION || !superuser())
		return false;
	foreach (lc, ((DropStmt *) stmt)->objects)
	{
		if (strcmp(strVal(lfirst(lc)), "taskq") == 0)
			return true;
	}
	return false;
}

static const char *
template_of(CreatedbStmt *stmt)
{
	ListCell *lc;

	foreach (lc, stmt->options)
	{
		DefElem *option = (DefElem *) lfirst(lc);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			return defGetString(option);
	}
	return "template1";
}

static bool
may_create_databases(void)
{
	HeapTuple tuple;
	bool      may = false;

	if (superuser())
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (HeapTupleIsValid(tuple))
	{
		may = ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return may;
}

/* Ask the worker to leave and wait until its process is gone. */
static void
keep_out(Oid database)
{
	int64 give_up = tq_clock_monotonic() + LEAVE_LIMIT;

	if (!exit_registered)
	{
		before_shmem_exit(at_exit, (Datum) 0);
		exit_registered = true;
	}
	let_in();
	tq_station_keep_out(database);
	kept_out = database;
	for (;;)
	{
		int pid;

		if (tq_station_is_left(database, &pid) &&
			(pid == 0 || BackendPidGetProc(pid) == NULL))
			return;
		if (tq_clock_monotonic() >= give_up)
			return; /* the command itself will say so */
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 5L,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
let_in(void)
{
	if (OidIsValid(kept_out))
		tq_station_let_in(kept_out);
	kept_out = InvalidOid;
}

static void
at_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		let_in();
}

static void
at_exit(int code, Datum arg)
{
	let_in();
}
