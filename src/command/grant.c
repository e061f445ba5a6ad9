/*
 * grant.c
 *		Rights on queues: grant, revoke.
 *
 * Rights are only granted by taskq_grant.  It writes taskq.queue_grant and
 * grants EXECUTE on the functions that the right requires.  Every change is
 * announced to all sessions (base/catalog.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/error.h"
#include "base/place.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "command/grant.h"
#include "command/queue_admin.h"
#include "engine/call.h"
#include "engine/change_log.h"
#include "xact/xact.h"

PG_FUNCTION_INFO_V1(taskq_grant);
PG_FUNCTION_INFO_V1(taskq_revoke);

static TqStmt stmt_grant = {
	"INSERT INTO taskq.queue_grant AS g (queue_id, role_id, rights)"
	" VALUES ($1, $2, $3)"
	" ON CONFLICT (queue_id, role_id)"
	" DO UPDATE SET rights = g.rights | excluded.rights",
	{INT4OID, INT4OID, INT4OID}};

static TqStmt stmt_revoke = {
	"UPDATE taskq.queue_grant SET rights = rights & ~$3"
	" WHERE queue_id = $1 AND role_id = $2",
	{INT4OID, INT4OID, INT4OID}};

static TqStmt stmt_revoked = {
	"DELETE FROM taskq.queue_grant WHERE rights = 0"};

static TqStmt stmt_rights_left = {
	"SELECT coalesce(bit_or(rights), 0) FROM taskq.queue_grant"
	" WHERE role_id = $1",
	{INT4OID}};

/* Rights of PUBLIC (0) and of existing roles. */
static TqStmt stmt_all_rights = {
	"SELECT coalesce(k.oid, 0), bit_or(g.rights)"
	"  FROM taskq.queue_grant g LEFT JOIN taskq.known_role k USING (role_id)"
	" WHERE g.role_id = 0"
	"    OR EXISTS (SELECT FROM pg_roles a WHERE a.oid = k.oid)"
	" GROUP BY 1 ORDER BY 1"};

/*
 * Also returns whether CREATE EXTENSION granted EXECUTE to the role: that
 * privilege is never revoked.
 */
static TqStmt stmt_functions = {
	"SELECT p.oid, f.rights,"
	"       EXISTS (SELECT FROM pg_init_privs i, aclexplode(i.initprivs) a"
	"                WHERE i.classoid = 'pg_proc'::regclass"
	"                  AND i.objoid = p.oid AND a.grantee = $2)"
	"  FROM taskq.function_right f"
	"  JOIN pg_proc p ON p.proname = f.function"
	"  JOIN pg_depend d ON d.classid = 'pg_proc'::regclass"
	"                  AND d.objid = p.oid AND d.deptype = 'e'"
	"                  AND d.refclassid = 'pg_extension'::regclass"
	"                  AND d.refobjid = $1",
	{OIDOID, OIDOID}};

#define WORDS "Allowed: submit, work, observe, read, manage."

static const struct
{
	const char *word;
	TqRight     right;
} right_words[] = {{"submit", TQ_RIGHT_SUBMIT},
				   {"work", TQ_RIGHT_WORK},
				   {"observe", TQ_RIGHT_OBSERVE},
				   {"read", TQ_RIGHT_READ},
				   {"manage", TQ_RIGHT_MANAGE}};

static int   parse_rights(FunctionCallInfo fcinfo, int n);
static char *rights_detail(FunctionCallInfo fcinfo, int rights);
static int32 role_argument(FunctionCallInfo fcinfo, int n, Oid *role);
static void  change_execute(Oid role, int rights, int left, bool grant);
static void  grant_or_revoke(FunctionCallInfo fcinfo, bool grant);

Datum
taskq_grant(PG_FUNCTION_ARGS)
{
	grant_or_revoke(fcinfo, true);
	PG_RETURN_VOID();
}

Datum
taskq_revoke(PG_FUNCTION_ARGS)
{
	grant_or_revoke(fcinfo, false);
	PG_RETURN_VOID();
}

static void
grant_or_revoke(FunctionCallInfo fcinfo, bool grant)
{
	char  *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	char  *reason = tq_arg_message(fcinfo, 3);
	int    rights;
	int    left = 0;
	char  *detail;
	TqCall call;
	TqSpi  spi;
	Datum  args[3];
	Oid    role;

	if (PG_ARGISNULL(1))
		tq_error_required("role");
	rights = parse_rights(fcinfo, 2);
	detail = rights_detail(fcinfo, rights);
	tq_call_begin(&call, grant ? "taskq_grant()" : "taskq_revoke()");

	/* Two concurrent GRANTs on one function fail with an internal error. */
	LockRelationOid(get_relname_relid("queue_grant", tq_catalog()->schema),
					ShareRowExclusiveLock);
	tq_queue_refresh();
	args[0] = Int32GetDatum(tq_queue_admin_to_change(name, TQ_RIGHT_MANAGE));
	args[1] = Int32GetDatum(role_argument(fcinfo, 1, &role));
	args[2] = Int32GetDatum(rights);
	tq_spi_enter(&spi);
	if (grant)
		tq_spi_run(&stmt_grant, args, NULL, SPI_OK_INSERT, 0);
	else
	{
		tq_spi_run(&stmt_revoke, args, NULL, SPI_OK_UPDATE, 0);
		tq_spi_run(&stmt_revoked, NULL, NULL, SPI_OK_DELETE, 0);
		tq_spi_run(&stmt_rights_left, &args[1], NULL, SPI_OK_SELECT, 0);
		left = tq_spi_int4(0, 1, 0);
		rights &= ~left;
	}
	if (rights != 0)
		change_execute(role, rights, left, grant);
	tq_spi_leave(&spi);
	tq_catalog_announce_queue();
	tq_xact_note(TQ_NOTE_WAKE_MADE, 0);
	tq_change_log_add(grant ? "grant" : "revoke", name, name, detail, reason);
	tq_call_end(&call);
}

static int
parse_rights(FunctionCallInfo fcinfo, int n)
{
	int     rights = 0;
	int     count;
	TqPlace place;
	Datum  *words;

	if (PG_ARGISNULL(n))
		tq_error_required("rights");
	words = tq_arg_array(fcinfo, n, "rights", TEXTOID, &count);
	if (count == 0)
		tq_error_invalid("rights", "must not be empty", WORDS);
	tq_place_begin(&place, "rights");
	for (int i = 0; i < count; i++)
	{
		char *word = TextDatumGetCString(words[i]);
		int   right = 0;

		place.index = i;
		for (int w = 0; w < lengthof(right_words); w++)
		{
			if (strcmp(word, right_words[w].word) == 0)
				right = right_words[w].right;
		}
		rights |= right;
		if (right == 0)
			tq_error_invalid("rights", "has an unknown value", WORDS);
	}
	tq_place_end(&place);
	return rights;
}

/* The role and the rights, as JSON. */
static char *
rights_detail(FunctionCallInfo fcinfo, int rights)
{
	StringInfoData detail;
	const char    *comma = "";

	initStringInfo(&detail);
	appendStringInfo(
		&detail, "{\"role\": %s, \"rights\": [",
		tq_change_log_word(text_to_cstring(PG_GETARG_TEXT_PP(1))));
	for (int i = 0; i < lengthof(right_words); i++)
	{
		if ((rights & right_words[i].right) == 0)
			continue;
		appendStringInfo(&detail, "%s\"%s\"", comma, right_words[i].word);
		comma = ", ";
	}
	appendStringInfoString(&detail, "]}");
	return detail.data;
}

/* Return the number of the role and its OID; for public, 0 and InvalidOid. */
static int32
role_argument(FunctionCallInfo fcinfo, int n, Oid *role)
{
	char *name = text_to_cstring(PG_GETARG_TEXT_PP(n));

	*role = InvalidOid;
	if (strcmp(name, "public") == 0)
		return 0;
	*role = get_role_oid(name, false);
	return tq_role_intern(*role);
}

/*
 * Grant EXECUTE to all roles in taskq.queue_grant, as the owner.  This is
 * needed in a copy: a dump contains these privileges, but if a role is
 * missing, the GRANT of the dump fails for all roles that it names.
 */
void
tq_grant_execute_again(void)
{
	MemoryContext mine;
	uint64        rows;
	Oid          *roles;
	int          *rights;
	TqSpi         spi;

	LockRelationOid(get_relname_relid("queue_grant", tq_catalog()->schema),
					ShareRowExclusiveLock);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_all_rights, NULL, NULL, 0);
	mine = MemoryContextSwitchTo(spi.caller);
	roles = palloc(sizeof(Oid) * (rows + 1));
	rights = palloc(sizeof(int) * (rows + 1));
	MemoryContextSwitchTo(mine);
	for (uint64 i = 0; i < rows; i++)
	{
		bool isnull;

		roles[i] = DatumGetObjectId(tq_spi_get(i, 1, &isnull));
		rights[i] = tq_spi_int4(i, 2, 0);
	}
	for (uint64 i = 0; i < rows; i++)
	{
		/*
		 * the GRANT for one role may change the row that the next one changes
		 */
		CommandCounterIncrement();
		change_execute(roles[i], rights[i], 0, true);
	}
	tq_spi_leave(&spi);
}

/*
 * Grant or revoke EXECUTE on every function that requires one of the rights
 * (but do not revoke it if the function requires one that the role keeps).
 * Runs as the owner.
 */
static void
change_execute(Oid role, int rights, int left, bool grant)
{
	Datum  args[2] = {ObjectIdGetDatum(get_extension_oid("taskq", false)),
					  ObjectIdGetDatum(role)};
	uint64 rows = tq_spi_run(&stmt_functions, args, NULL, SPI_OK_SELECT, 0);
	GrantStmt  *stmt = makeNode(GrantStmt);
	RoleSpec   *grantee = makeNode(RoleSpec);
	AccessPriv *privilege = makeNode(AccessPriv);

	for (uint64 i = 0; i < rows; i++)
	{
		int             needed = tq_spi_int4(i, 2, 0);
		bool            isnull;
		Oid             function = DatumGetObjectId(tq_spi_get(i, 1, &isnull));
		ObjectWithArgs *object;
		Oid            *types;
		int             count;

		if ((needed & rights) == 0)
			continue;
		if (!grant && ((needed & left) != 0 || tq_spi_bool(i, 3)))
			continue;
		object = makeNode(ObjectWithArgs);
		object->objname = list_make2(
			makeString(get_namespace_name(get_func_namespace(function))),
			makeString(get_func_name(function)));
		(void) get_func_signature(function, &types, &count);
		for (int a = 0; a < count; a++)
			object->objargs =
				lappend(object->objargs, makeTypeNameFromOid(types[a], -1));
		stmt->objects = lappend(stmt->objects, object);
	}
	if (stmt->objects == NIL)
		return;
	grantee->roletype = OidIsValid(role) ? ROLESPEC_CSTRING : ROLESPEC_PUBLIC;
	if (OidIsValid(role))
		grantee->rolename = GetUserNameFromId(role, false);
	privilege->priv_name = "execute";
	stmt->is_grant = grant;
	stmt->targtype = ACL_TARGET_OBJECT;
	stmt->objtype = OBJECT_ROUTINE;
	stmt->privileges = list_make1(privilege);
	stmt->grantees = list_make1(grantee);
	stmt->behavior = DROP_RESTRICT;
	ExecuteGrantStmt(stmt);
}
