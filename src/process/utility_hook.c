/*
 * utility_hook.c
 *		Utility commands that affect the background workers.
 *
 * DROP DATABASE, ALTER DATABASE ... RENAME and SET TABLESPACE, and CREATE
 * DATABASE for its template, require that no other session is connected to the
 * database; they would wait five seconds for the background worker and then
 * fail.  So before they start, the worker is asked to exit, and this session
 * waits until it has.  The same applies to commands that drop or update the
 * extension: they lock its tables one after the other, and could deadlock with
 * a working worker.
 *
 * The worker is kept out until the transaction that requested it has ended,
 * since its locks and its effects would stop a worker before that.  If a
 * command on a database fails, the worker may return immediately.  SET
 * TABLESPACE commits halfway; that commit is ignored.
 *
 * The worker is asked to exit only for commands of roles that have the
 * required privileges, so other roles cannot disturb it.  If a condition of
 * the command is not met, the command itself reports that.
 *
 * Other commands request a visit of a worker after they have committed: CREATE
 * EXTENSION, CREATE DATABASE, ALTER DATABASE, commands that may drop the
 * extension, and a COPY that restores its tables.
 *
 * If a transaction replaces or drops the extension, the shared memory of the
 * database is cleared.
 *
 * All of this happens after the transaction has released its locks, not
 * earlier during its commit: only then have other processes received the
 * invalidations of their catalog caches.  No error may occur at that point, so
 * all memory is allocated before.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/debug.h"
#include "command/activate.h"
#include "cron/cron.h"
#include "process/prepared.h"
#include "process/utility_hook.h"
#include "shared/counter.h"
#include "shared/executor_slot.h"
#include "shared/shmem.h"
#include "shared/worker_directory.h"

#define LEAVE_CEILING 5000 /* ms for which to wait for a worker's exit */
#define LEAVE_LOOK 10      /* ms between two checks */
#define LEAVE_PATIENCE 100 /* ms until its turn is cancelled, repeatedly */

/* OIDs of databases, in TopMemoryContext. */
typedef struct Databases
{
	Oid *oids;
	int  count;
	int  room;
} Databases;

/* The extension in this database. */
typedef struct Extension
{
	Oid owner;
	Oid schema;
	Oid schema_owner;
} Extension;

static ProcessUtility_hook_type previous_hook = NULL;
static object_access_hook_type  previous_access_hook = NULL;

/* Databases kept clear by this transaction, one entry per request. */
static Databases held;

/* Databases to visit when this transaction has committed. */
static Databases visits;

/* The extension dropped by this transaction, by whatever command. */
static Oid dropped = InvalidOid;

/*
 * The transaction that is about to commit has replaced or dropped the
 * extension.
 */
static bool replaced_here = false;
static bool dropped_here = false;

/* Running commands on databases; a commit during one is not the final one. */
static int commands = 0;

static void process_utility(PlannedStmt *pstmt, const char *query_string,
							bool read_only_tree, ProcessUtilityContext context,
							ParamListInfo params, QueryEnvironment *query_env,
							DestReceiver *dest, QueryCompletion *qc);
static void run(PlannedStmt *pstmt, const char *query_string,
				bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *query_env,
				DestReceiver *dest, QueryCompletion *qc);
static void run_prepared(PlannedStmt *pstmt, const char *query_string,
						 bool read_only_tree, ProcessUtilityContext context,
						 ParamListInfo params, QueryEnvironment *query_env,
						 DestReceiver *dest, QueryCompletion *qc);
static void object_accessed(ObjectAccessType access, Oid class_oid, Oid object,
							int sub, void *arg);
static void note_drop(Oid extension);
static bool is_database_command(Node *command);
static bool sets_tablespace(AlterDatabaseStmt *alter);
static void before_command(Node *command);
static void before_drop(DropStmt *drop);
static void before_drop_owned(DropOwnedStmt *drop);
static void before_create(CreatedbStmt *create);
static void after_command(Node *command);
static bool may_drop_extension(Node *command);
static bool loads_rows(CopyStmt *copy);
static void before_extension(bool removal);
static void before_removal(void);
static bool is_database_owner(Oid dboid, bool *is_template);
static bool may_create_databases(void);
static bool read_extension(Extension *extension);
static void keep_out(Oid dboid);
static void wait_until_gone(Oid dboid);
static void visit(Oid dboid);
static void release(int keep);
static void command_failed(int code, Datum arg);
static void forget_dropped(void);
static void at_end(XactEvent event, void *arg);
static void resources_released(ResourceReleasePhase phase, bool is_commit,
							   bool is_top_level, void *arg);

/* Called while the library is preloaded. */
void
tq_utility_hook_init(void)
{
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	previous_access_hook = object_access_hook;
	object_access_hook = object_accessed;
	RegisterXactCallback(at_end, NULL);
	RegisterResourceReleaseCallback(resources_released, NULL);
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string,
				bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *query_env,
				DestReceiver *dest, QueryCompletion *qc)
{
	Node *command = pstmt->utilityStmt;
	int   held_before = held.count;

	/* the command may be freed when a transaction has ended */
	if (IsA(command, TransactionStmt))
	{
		TransactionStmtKind kind = ((TransactionStmt *) command)->kind;

		if (kind == TRANS_STMT_COMMIT_PREPARED ||
			kind == TRANS_STMT_ROLLBACK_PREPARED)
		{
			tq_prepared_begin(kind == TRANS_STMT_COMMIT_PREPARED);
			run_prepared(pstmt, query_string, read_only_tree, context, params,
						 query_env, dest, qc);
			tq_prepared_end();
		}
		else
			run(pstmt, query_string, read_only_tree, context, params,
				query_env, dest, qc);
		return;
	}

	if (!tq_shmem_ready() || RecoveryInProgress())
	{
		run(pstmt, query_string, read_only_tree, context, params, query_env,
			dest, qc);
		return;
	}

	if (is_database_command(command))
	{
		commands++;
		PG_ENSURE_ERROR_CLEANUP(command_failed, Int32GetDatum(held_before));
		{
			before_command(command);
			run(pstmt, query_string, read_only_tree, context, params,
				query_env, dest, qc);
		}
		PG_END_ENSURE_ERROR_CLEANUP(command_failed,
									Int32GetDatum(held_before));
		commands--;
	}
	else
	{
		before_command(command);
		run(pstmt, query_string, read_only_tree, context, params, query_env,
			dest, qc);
	}
	after_command(command);
}

static void
run(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
	ProcessUtilityContext context, ParamListInfo params,
	QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	if (previous_hook)
		previous_hook(pstmt, query_string, read_only_tree, context, params,
					  query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context,
								params, query_env, dest, qc);
}

/* The same for a command that ends a prepared transaction. */
static void
run_prepared(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
			 ProcessUtilityContext context, ParamListInfo params,
			 QueryEnvironment *query_env, DestReceiver *dest,
			 QueryCompletion *qc)
{
	PG_TRY();
	{
		run(pstmt, query_string, read_only_tree, context, params, query_env,
			dest, qc);
		TQ_FAULT_POINT("prepared_ended");
	}
	PG_CATCH();
	{
		tq_prepared_error(geterrcode());
		PG_RE_THROW();
	}
	PG_END_TRY();
}

/*
 * Is the extension being dropped?  Many commands can do that, with CASCADE;
 * and the transaction may create it again, or roll back to a savepoint.
 */
static void
object_accessed(ObjectAccessType access, Oid class_oid, Oid object, int sub,
				void *arg)
{
	if (previous_access_hook)
		previous_access_hook(access, class_oid, object, sub, arg);
	if (access == OAT_DROP && class_oid == ExtensionRelationId)
		note_drop(object);
}

/* Apart from its caller, which every call of a function in the server runs. */
static pg_noinline void
note_drop(Oid extension)
{
	if (!OidIsValid(dropped) && extension == get_extension_oid("taskq", true))
		dropped = extension;
}

/*
 * Commands that require that no other session is connected to a database.  A
 * callback at exit guards them too, which cannot be used for commands that run
 * other commands: callbacks registered inside must be removed at its end.
 */
static bool
is_database_command(Node *command)
{
	switch (nodeTag(command))
	{
		case T_CreatedbStmt:
		case T_DropdbStmt:
			return true;
		case T_RenameStmt:
			return ((RenameStmt *) command)->renameType == OBJECT_DATABASE;
		case T_AlterDatabaseStmt:
			return sets_tablespace((AlterDatabaseStmt *) command);
		default:
			return false;
	}
}

static bool
sets_tablespace(AlterDatabaseStmt *alter)
{
	ListCell *cell;

	foreach (cell, alter->options)
	{
		if (strcmp(((DefElem *) lfirst(cell))->defname, "tablespace") == 0)
			return true;
	}
	return false;
}

/* Ask the worker that would block the command to exit. */
static void
before_command(Node *command)
{
	const char *name = NULL;
	Oid         dboid;
	bool        is_template;

	switch (nodeTag(command))
	{
		case T_CreatedbStmt:
			before_create((CreatedbStmt *) command);
			break;
		case T_DropdbStmt:
			name = ((DropdbStmt *) command)->dbname;
			break;
		case T_RenameStmt:
			if (((RenameStmt *) command)->renameType == OBJECT_DATABASE &&
				may_create_databases())
				name = ((RenameStmt *) command)->subname;
			break;
		case T_AlterDatabaseStmt:
			if (sets_tablespace((AlterDatabaseStmt *) command))
				name = ((AlterDatabaseStmt *) command)->dbname;
			break;
		case T_DropStmt:
			before_drop((DropStmt *) command);
			break;
		case T_DropOwnedStmt:
			before_drop_owned((DropOwnedStmt *) command);
			break;
		case T_AlterExtensionStmt:
			if (strcmp(((AlterExtensionStmt *) command)->extname, "taskq") ==
				0)
				before_extension(false);
			break;
		default:
			break;
	}
	if (name == NULL)
		return;
	dboid = get_database_oid(name, true);
	if (OidIsValid(dboid) && is_database_owner(dboid, &is_template))
		keep_out(dboid);
}

/* CREATE DATABASE: the worker of the template. */
static void
before_create(CreatedbStmt *create)
{
	const char *name = "template1";
	Oid         dboid;
	bool        is_template = false;
	ListCell   *cell;

	foreach (cell, create->options)
	{
		DefElem *option = lfirst(cell);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			name = defGetString(option);
	}
	dboid = get_database_oid(name, true);
	if (OidIsValid(dboid) && may_create_databases() &&
		(is_database_owner(dboid, &is_template) || is_template))
		keep_out(dboid);
}

/* DROP EXTENSION taskq, and DROP SCHEMA ... CASCADE of its schema. */
static void
before_drop(DropStmt *drop)
{
	Extension extension;
	ListCell *cell;

	if (drop->removeType == OBJECT_EXTENSION)
	{
		foreach (cell, drop->objects)
		{
			if (strcmp(strVal(lfirst(cell)), "taskq") == 0)
			{
				before_extension(true);
				return;
			}
		}
	}
	else if (drop->removeType == OBJECT_SCHEMA &&
			 drop->behavior == DROP_CASCADE && read_extension(&extension) &&
			 has_privs_of_role(GetUserId(), extension.schema_owner))
	{
		foreach (cell, drop->objects)
		{
			if (get_namespace_oid(strVal(lfirst(cell)), true) ==
				extension.schema)
			{
				before_removal();
				return;
			}
		}
	}
}

/* DROP OWNED BY the role that owns the extension or its schema. */
static void
before_drop_owned(DropOwnedStmt *drop)
{
	Extension extension;
	ListCell *cell;

	if (!read_extension(&extension))
		return;
	foreach (cell, drop->roles)
	{
		Oid role = get_rolespec_oid(lfirst(cell), true);

		if (OidIsValid(role) &&
			(role == extension.owner || role == extension.schema_owner) &&
			has_privs_of_role(GetUserId(), role))
		{
			before_removal();
			return;
		}
	}
}

/* The extension is about to be dropped or changed. */
static void
before_extension(bool removal)
{
	Extension extension;

	if (!read_extension(&extension) ||
		!has_privs_of_role(GetUserId(), extension.owner))
		return;
	if (removal)
		before_removal();
	else
		keep_out(MyDatabaseId);
}

/*
 * The extension is about to be dropped.  Nothing would tell pg_cron; if the
 * command fails, the jobs are there again.
 */
static void
before_removal(void)
{
	keep_out(MyDatabaseId);
	tq_cron_remove_all();
}

/* Note which databases to visit after this transaction has committed. */
static void
after_command(Node *command)
{
	Extension extension;

	switch (nodeTag(command))
	{
		case T_CreateExtensionStmt:
			/* another extension may have created it as a dependency */
			if (read_extension(&extension))
				visit(MyDatabaseId);
			break;
		case T_CreatedbStmt:
			visit(get_database_oid(((CreatedbStmt *) command)->dbname, true));
			break;
		case T_AlterDatabaseStmt:
			visit(get_database_oid(((AlterDatabaseStmt *) command)->dbname,
								   true));
			break;
		case T_DropStmt:
		case T_DropOwnedStmt:
			if (may_drop_extension(command) &&
				tq_worker_directory_has_worker(MyDatabaseId))
				visit(MyDatabaseId);
			break;
		case T_CopyStmt:
			if (loads_rows((CopyStmt *) command) &&
				read_extension(&extension) && tq_activate_rows_loaded())
				visit(MyDatabaseId);
			break;
		default:
			break;
	}
}

static bool
may_drop_extension(Node *command)
{
	DropStmt *drop = (DropStmt *) command;

	return IsA(command, DropOwnedStmt) || drop->behavior == DROP_CASCADE ||
		   drop->removeType == OBJECT_EXTENSION;
}

/* pg_restore: from now on this database is a copy without duties. */
static bool
loads_rows(CopyStmt *copy)
{
	Oid table;

	if (!copy->is_from || copy->relation == NULL)
		return false;
	table = RangeVarGetRelid(copy->relation, NoLock, true);
	return OidIsValid(table) &&
		   get_rel_namespace(table) == get_namespace_oid("taskq", true);
}

/* Does the database belong to the current user? */
static bool
is_database_owner(Oid dboid, bool *is_template)
{
	HeapTuple tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dboid));
	Form_pg_database form;
	bool             is_owner;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_database) GETSTRUCT(tuple);
	is_owner = has_privs_of_role(GetUserId(), form->datdba);
	*is_template = form->datistemplate;
	ReleaseSysCache(tuple);
	return is_owner;
}

static bool
may_create_databases(void)
{
	HeapTuple tuple;
	bool      may = superuser();

	if (may)
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (HeapTupleIsValid(tuple))
	{
		may = ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return may;
}

/* OIDs of the extension, its owner and schema; false if it does not exist. */
static bool
read_extension(Extension *extension)
{
	Relation    rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple   tuple;
	bool        found;

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber,
				F_NAMEEQ, CStringGetDatum("taskq"));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
	{
		Form_pg_extension form = (Form_pg_extension) GETSTRUCT(tuple);

		extension->owner = form->extowner;
		extension->schema = form->extnamespace;
		extension->schema_owner = InvalidOid;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (!found)
		return false;

	tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(extension->schema));
	if (HeapTupleIsValid(tuple))
	{
		extension->schema_owner =
			((Form_pg_namespace) GETSTRUCT(tuple))->nspowner;
		ReleaseSysCache(tuple);
	}
	return true;
}

/*
 * Keep the database clear until this transaction ends, and wait until its
 * worker has exited.  After five seconds let the command proceed anyway.
 */
static void
keep_out(Oid dboid)
{
	TQ_ARRAY_RESERVE(held.oids, held.count, held.room, TopMemoryContext);
	if (!tq_worker_directory_keep_out_begin(dboid))
		return;
	held.oids[held.count++] = dboid;
	tq_executor_slot_stop_database(dboid);
	wait_until_gone(dboid);
}

/*
 * There is no event for a process leaving the list that the command checks,
 * which happens shortly after it has left the worker directory.  Hence the
 * short polling interval.
 */
static void
wait_until_gone(Oid dboid)
{
	int64 start = tq_clock_monotonic();
	int64 patience = LEAVE_PATIENCE;

	for (;;)
	{
		int64        waited = (tq_clock_monotonic() - start) / 1000;
		TqWorkerView view;

		(void) tq_worker_directory_look(dboid, &view);
		if (view.pid == 0)
		{
			PGPROC *proc = BackendPidGetProc(view.last_pid);

			if (proc == NULL || proc->databaseId != dboid)
				return;
		}
		else if (waited >= patience)
		{
			tq_worker_directory_interrupt(dboid);
			patience += LEAVE_PATIENCE;
		}
		if (waited >= LEAVE_CEILING)
			return;
		tq_clock_pause(LEAVE_LOOK);
	}
}

/* Visit the database when this transaction has committed. */
static void
visit(Oid dboid)
{
	for (int i = 0; i < visits.count; i++)
		if (visits.oids[i] == dboid)
			return;
	TQ_ARRAY_RESERVE(visits.oids, visits.count, visits.room, TopMemoryContext);
	visits.oids[visits.count++] = dboid;
}

/* Let workers return, except in the first "keep" databases. */
static void
release(int keep)
{
	while (held.count > keep)
		tq_worker_directory_keep_out_end(held.oids[--held.count]);
}

/* A command on a database has failed, or the session ends during it. */
static void
command_failed(int code, Datum arg)
{
	commands--;
	release(DatumGetInt32(arg));
}

static void
forget_dropped(void)
{
	dropped = InvalidOid;
	replaced_here = dropped_here = false;
}

/*
 * The transaction is about to end, or has ended.  Changes that other processes
 * must see wait for resources_released.
 */
static void
at_end(XactEvent event, void *arg)
{
	if (commands > 0)
		return;
	if (event == XACT_EVENT_PRE_COMMIT && OidIsValid(dropped))
	{
		Oid extension = get_extension_oid("taskq", true);

		replaced_here = extension != dropped;
		dropped_here = !OidIsValid(extension);
		/* changes of others are not to be counted after its end */
		if (replaced_here)
			tq_counter_wait_for_ended();
	}
	else if (event == XACT_EVENT_PREPARE || event == XACT_EVENT_ABORT)
	{
		forget_dropped();
		visits.count = 0;
	}
}

/*
 * The transaction has ended, other processes have received its invalidations,
 * and its locks are free: now a worker sees its effects.  Nothing here may
 * fail.
 */
static void
resources_released(ResourceReleasePhase phase, bool is_commit,
				   bool is_top_level, void *arg)
{
	if (phase != RESOURCE_RELEASE_AFTER_LOCKS || !is_top_level ||
		(is_commit && commands > 0))
		return;
	if (is_commit && replaced_here)
		tq_shmem_forget_database(MyDatabaseId);
	if (is_commit && dropped_here)
		tq_worker_directory_dropped(MyDatabaseId);
	forget_dropped();
	release(0);
	for (int i = 0; is_commit && i < visits.count; i++)
		tq_worker_directory_visit(visits.oids[i]);
	visits.count = 0;
}
