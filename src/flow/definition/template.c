/*
 * template.c
 *		Templates of workflows: taskq_define_workflow, taskq_undefine_workflow,
 *		taskq_validate_workflow, and each session's cache of templates.
 *
 * A definition is stored as given and never changes.  Each session that needs
 * it parses it once and caches it under its number; one extension never uses a
 * number twice, even after a rollback.  The cache is emptied when the session
 * sees another extension (base/catalog.c), and at the end of a transaction
 * when it has become too large.
 *
 * A call that starts an instance locks the template until its transaction
 * ends, so that taskq_undefine_workflow() sees all instances.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/role.h"
#include "engine/call.h"
#include "engine/change_log.h"
#include "flow/definition/definition.h"
#include "flow/definition/problem.h"
#include "flow/definition/template.h"
#include "store/snapshot.h"

#define CACHE_SIZE (32 * 1024 * 1024) /* bytes, at the end of a transaction */
#define MAX_DEFINITION (64 * 1024 * 1024)

PG_FUNCTION_INFO_V1(taskq_define_workflow);
PG_FUNCTION_INFO_V1(taskq_undefine_workflow);
PG_FUNCTION_INFO_V1(taskq_validate_workflow);

/* A template that this session has parsed. */
typedef struct Cached
{
	int32 template_id;
	TqTemplate *template;
	MemoryContext context;
} Cached;

static TqStmt stmt_add = {
	"INSERT INTO taskq.template (namespace, name, version, definition,"
	" defined_by, defined_at, template_id) VALUES ($1, $2, $3, $4, $5, $6, $7)"
	" ON CONFLICT (namespace, name, version) WHERE undefined_at IS NULL"
	" DO NOTHING",
	{TEXTOID, TEXTOID, TEXTOID, JSONBOID, INT4OID, TIMESTAMPTZOID, INT4OID}};

static TqStmt stmt_number = {"SELECT nextval('taskq.template_id_seq')"};

static TqStmt stmt_same = {
	"SELECT definition = $4 FROM taskq.template"
	" WHERE namespace = $1 AND name = $2 AND version = $3"
	"   AND undefined_at IS NULL",
	{TEXTOID, TEXTOID, TEXTOID, JSONBOID}};

static TqStmt stmt_versions = {
	"SELECT template_id FROM taskq.template"
	" WHERE namespace = $1 AND name = $2 AND ($3 IS NULL OR version = $3)"
	"   AND undefined_at IS NULL"
	" ORDER BY template_id",
	{TEXTOID, TEXTOID, TEXTOID}};

static TqStmt stmt_latest = {
	"SELECT template_id FROM taskq.template"
	" WHERE namespace = $1 AND name = $2 AND undefined_at IS NULL"
	" ORDER BY template_id DESC LIMIT 1",
	{TEXTOID, TEXTOID}};

static TqStmt stmt_version = {
	"SELECT template_id FROM taskq.template"
	" WHERE namespace = $1 AND name = $2 AND version = $3"
	"   AND undefined_at IS NULL",
	{TEXTOID, TEXTOID, TEXTOID}};

static TqStmt stmt_live = {"SELECT workflow_id FROM taskq.workflow"
						   " WHERE template_id = $1"
						   "   AND state IN " TQ_SQL_FLOW_NOT_ENDED " LIMIT 1",
						   {INT4OID}};

static TqStmt stmt_drop = {"DELETE FROM taskq.template WHERE template_id = $1"
						   "   AND NOT EXISTS (SELECT FROM taskq.workflow w"
						   "                    WHERE w.template_id = $1)",
						   {INT4OID}};

static TqStmt stmt_undefine = {
	"UPDATE taskq.template SET undefined_at = $2 WHERE template_id = $1",
	{INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_read = {"SELECT definition, defined_by FROM taskq.template"
						   " WHERE template_id = $1",
						   {INT4OID}};

static HTAB  *cache = NULL;
static Size   cache_size = 0;
static uint64 cache_identity = 0; /* of the cache's extension */

static char  *version_detail(const char *space, const char *version);
static bool   is_defined(const Datum *args, bool *same);
static int32  draw_number(void);
static Jsonb *definition_arg(FunctionCallInfo fcinfo);
static void   raise_unbuilt(const TqDefinitionProblems *problems)
	pg_attribute_noreturn();
static void   warn_of_nesting(const TqTemplate *template);
static void   add_identity(StringInfo detail, const TqTemplate *template);
static void   lock_alone(const int32 *versions, int count);
static void   undefine(int32 template_id, const char *name);
static int32 *read_versions(char *space, char *name, char *version,
							int *count);
static int32 find_id(const char *space, const char *name, const char *version);
static TqTemplate *read_template(int32 template_id);
static void        trim_cache(XactEvent event, void *arg);
static void        empty_cache(bool at_once);

void
tq_template_init(void)
{
	RegisterXactCallback(trim_cache, NULL);
}

Datum
taskq_define_workflow(PG_FUNCTION_ARGS)
{
	Jsonb               *definition = definition_arg(fcinfo);
	TqDefinitionProblems problems = {0};
	TqTemplate *template;
	Datum  args[7];
	char  *reason = tq_arg_message(fcinfo, 1);
	bool   added = false;
	bool   same;
	TqCall call;

	tq_call_begin(&call, "taskq_define_workflow()");
	tq_role_require_all(TQ_RIGHT_MANAGE);
	template =
		tq_definition_read(definition, tq_guc_max_decision_nesting, &problems);
	if (problems.count > problems.unbuilt)
		tq_problem_raise(&problems, "the definition of the workflow is "
									"not valid");
	if (problems.unbuilt > 0)
		raise_unbuilt(&problems);
	args[0] = CStringGetTextDatum(template->space);
	args[1] = CStringGetTextDatum(template->name);
	args[2] = CStringGetTextDatum(template->version);
	args[3] = JsonbPGetDatum(definition);
	args[4] = Int32GetDatum(tq_role_intern(GetUserId()));
	args[5] = TimestampTzGetDatum(tq_clock_wall());
	/* an existing version does not take a new number */
	if (!is_defined(args, &same))
	{
		args[6] = Int32GetDatum(draw_number());
		same = added = tq_spi_execute(&stmt_add, args, NULL, SPI_OK_INSERT) ==
					   1;
		tq_snapshot_renew();
		if (!same && !is_defined(args, &same))
			tq_error_serialization();
	}
	if (!same)
	{
		StringInfoData detail;

		initStringInfo(&detail);
		appendStringInfoChar(&detail, '{');
		add_identity(&detail, template);
		appendStringInfoChar(&detail, '}');
		ereport(ERROR, (errcode(ERRCODE_TQ_ALREADY_EXISTS),
						errmsg("workflow \"%s\" version \"%s\" already "
							   "exists with a different definition",
							   template->name, template->version),
						errdetail_internal("%s", detail.data),
						errhint("Use a new version.")));
	}
	if (added)
		tq_change_log_add("define_workflow", NULL, template->name,
						  version_detail(template->space, template->version),
						  reason);
	tq_call_end(&call);
	warn_of_nesting(template);
	PG_RETURN_VOID();
}

/* The namespace, and the version unless all are meant, as JSON. */
static char *
version_detail(const char *space, const char *version)
{
	return psprintf("{\"namespace\": %s%s%s}", tq_change_log_word(space),
					version == NULL ? "" : ", \"version\": ",
					version == NULL ? "" : tq_change_log_word(version));
}

/* Is the version defined? *same: with the same definition? */
static bool
is_defined(const Datum *args, bool *same)
{
	bool  found;
	TqSpi spi;

	tq_spi_enter(&spi);
	found = tq_spi_look(&stmt_same, args, NULL, 1) == 1;
	*same = found && tq_spi_bool(0, 1);
	tq_spi_leave(&spi);
	return found;
}

/*
 * Draw a number.  A number is never used twice, because sessions cache
 * definitions under it.
 */
static int32
draw_number(void)
{
	int64 number = tq_spi_find_id(&stmt_number, NULL);

	if (number > PG_INT32_MAX)
		ereport(
			ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("too many workflows have been defined"),
			 errdetail("At most %d versions can be defined in a database, "
					   "including those that were undefined or rolled back.",
					   PG_INT32_MAX)));
	return (int32) number;
}

Datum
taskq_validate_workflow(PG_FUNCTION_ARGS)
{
	ReturnSetInfo       *result = (ReturnSetInfo *) fcinfo->resultinfo;
	TqDefinitionProblems problems = {0};

	tq_srf_begin(fcinfo);
	(void) tq_definition_read(definition_arg(fcinfo),
							  tq_guc_max_decision_nesting, &problems);
	for (int i = 0; i < Min(problems.count, TQ_MAX_PROBLEMS); i++)
	{
		Datum values[2] = {CStringGetTextDatum(problems.all[i].path),
						   CStringGetTextDatum(problems.all[i].words)};
		bool  nulls[2] = {false, false};

		tq_srf_add(result, values, nulls);
	}
	return (Datum) 0;
}

/*
 * The row of a template remains while it has instances, since views still show
 * them.
 */
Datum
taskq_undefine_workflow(PG_FUNCTION_ARGS)
{
	char  *name = tq_arg_name(fcinfo, 0, "name", NULL);
	char  *space = tq_arg_name(fcinfo, 1, "namespace", "default");
	char  *version = PG_ARGISNULL(2) ? NULL
									 : tq_arg_name(fcinfo, 2, "version", NULL);
	int32 *versions;
	int    count;
	TqCall call;

	tq_call_begin(&call, "taskq_undefine_workflow()");
	tq_role_require_all(TQ_RIGHT_MANAGE);
	versions = read_versions(space, name, version, &count);
	if (count == 0)
		tq_template_missing(space, name, version);
	lock_alone(versions, count);
	for (int i = 0; i < count; i++)
		undefine(versions[i], name);
	tq_change_log_add("undefine_workflow", NULL, name,
					  version_detail(space, version),
					  tq_arg_message(fcinfo, 3));
	tq_call_end(&call);
	PG_RETURN_INT64(count);
}

/*
 * Lock several templates.  A call waits for the lock of a template only while
 * it holds no lock of another template, since calls that start nested
 * instances lock templates in any order.
 */
static void
lock_alone(const int32 *versions, int count)
{
	Oid class = tq_catalog()->template;
	int held = 0;  /* number of locks held, from the first one */
	int wait = -1; /* index of the lock to wait for */

	while (held < count)
	{
		CHECK_FOR_INTERRUPTS();
		if (held == wait ||
			ConditionalLockDatabaseObject(class, (Oid) versions[held], 0,
										  AccessExclusiveLock))
		{
			held++;
			continue;
		}
		for (int i = 0; i < held; i++)
			UnlockDatabaseObject(class, (Oid) versions[i], 0,
								 AccessExclusiveLock);
		if (wait >= held)
			UnlockDatabaseObject(class, (Oid) versions[wait], 0,
								 AccessExclusiveLock);
		wait = held;
		held = 0;
		LockDatabaseObject(class, (Oid) versions[wait], 0,
						   AccessExclusiveLock);
	}
}

static void
undefine(int32 template_id, const char *name)
{
	Datum args[2] = {Int32GetDatum(template_id),
					 TimestampTzGetDatum(tq_clock_wall())};
	int64 live = 0;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_live, args, NULL, 1) > 0)
		live = tq_spi_int8(0, 1, 0);
	if (live == 0 && tq_spi_run(&stmt_drop, args, NULL, SPI_OK_DELETE, 0) == 0)
		(void) tq_spi_run(&stmt_undefine, args, NULL, SPI_OK_UPDATE, 0);
	tq_spi_leave(&spi);
	if (live != 0)
		ereport(ERROR, (errcode(ERRCODE_TQ_INVALID_TRANSITION),
						errmsg("cannot undefine workflow \"%s\" because it "
							   "has unfinished instances",
							   name),
						errdetail("{\"workflow_id\": " INT64_FORMAT "}", live),
						errhint("Wait for them to finish, or cancel them with "
								"taskq_cancel_workflow().")));
}

static int32 *
read_versions(char *space, char *name, char *version, int *count)
{
	Datum  args[3];
	bool   nulls[3] = {false, false, version == NULL};
	int32 *versions;
	uint64 rows;
	TqSpi  spi;

	args[0] = CStringGetTextDatum(space);
	args[1] = CStringGetTextDatum(name);
	args[2] = version == NULL ? (Datum) 0 : CStringGetTextDatum(version);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_versions, args, nulls, 0);
	versions = MemoryContextAlloc(spi.caller, sizeof(int32) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
		versions[i] = tq_spi_int4(i, 1, 0);
	tq_spi_leave(&spi);
	*count = (int) rows;
	return versions;
}

/*
 * Find a version, or the latest version if version is NULL, and lock it so
 * that it cannot be undefined.  Returns NULL if it does not exist.
 */
TqTemplate *
tq_template_find(const char *space, const char *name, const char *version)
{
	int32 locked = 0;
	int32 template_id;

	while ((template_id = find_id(space, name, version)) != locked)
	{
		if (template_id == 0)
			return NULL;
		LockDatabaseObject(tq_catalog()->template, (Oid) template_id, 0,
						   RowExclusiveLock);
		locked = template_id;
	}
	return locked == 0 ? NULL : tq_template_get(locked);
}

/*
 * Find a version like tq_template_find, but without a lock, so that the call
 * never waits.
 */
TqTemplate *
tq_template_look(const char *space, const char *name, const char *version)
{
	int32 template_id = find_id(space, name, version);

	return template_id == 0 ? NULL : tq_template_get(template_id);
}

/* Returns 0 if the version does not exist. */
static int32
find_id(const char *space, const char *name, const char *version)
{
	Datum args[3];
	int32 template_id = 0;
	TqSpi spi;

	args[0] = CStringGetTextDatum(space);
	args[1] = CStringGetTextDatum(name);
	if (version != NULL)
		args[2] = CStringGetTextDatum(version);
	tq_spi_enter(&spi);
	if (tq_spi_look(version == NULL ? &stmt_latest : &stmt_version, args, NULL,
					1) > 0)
		template_id = tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);
	return template_id;
}

/* Get a template by its number; valid until the transaction ends. */
TqTemplate *
tq_template_get(int32 template_id)
{
	Cached *cached;
	bool    found;

	if (cache_identity != tq_catalog_identity())
		empty_cache(false);
	cache_identity = tq_catalog_identity();
	if (cache == NULL)
	{
		HASHCTL ctl = {0};

		ctl.keysize = sizeof(int32);
		ctl.entrysize = sizeof(Cached);
		ctl.hcxt = CacheMemoryContext;
		cache = hash_create("taskq templates", 16, &ctl,
							HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	cached = hash_search(cache, &template_id, HASH_FIND, &found);
	if (!found)
	{
		TqTemplate *template = read_template(template_id);
		MemoryContext context = GetMemoryChunkContext(template);

		MemoryContextSetParent(context, CacheMemoryContext);
		cached = hash_search(cache, &template_id, HASH_ENTER, NULL);
		cached->template = template;
		cached->context = context;
		cache_size += MemoryContextMemAllocated(context, true);
	}
	return cached->template;
}

/* Parse a template in a memory context of its own. */
static TqTemplate *
read_template(int32 template_id)
{
	Datum                arg = Int32GetDatum(template_id);
	TqDefinitionProblems problems = {0};
	TqTemplate *template;
	MemoryContext context;
	MemoryContext mine;
	Jsonb        *definition = NULL;
	int32         defined_by = 0;
	TqSpi         spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_read, &arg, NULL, 1) > 0)
	{
		definition = tq_spi_jsonb(&spi, 0, 1);
		defined_by = tq_spi_int4(0, 2, 0);
	}
	tq_spi_leave(&spi);
	if (definition == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_TQ_INVALID_WORKFLOW),
				 errmsg("workflow template %d does not exist", template_id),
				 errdetail("{\"template_id\": %d}", template_id)));
	context = AllocSetContextCreate(CurrentMemoryContext, "taskq template",
									ALLOCSET_DEFAULT_SIZES);
	mine = MemoryContextSwitchTo(context);
	/* use the highest limit, not the current one */
	template = tq_definition_read(definition, TQ_GUC_MOST_NESTING, &problems);
	MemoryContextSwitchTo(mine);
	if (problems.count > problems.unbuilt)
		tq_problem_raise(&problems, "the stored definition of a workflow is "
									"not valid");
	template->template_id = template_id;
	template->defined_by = defined_by;
	return template;
}

static void
trim_cache(XactEvent event, void *arg)
{
	if ((event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT &&
		 event != XACT_EVENT_PREPARE) ||
		cache_size <= CACHE_SIZE)
		return;
	empty_cache(true);
}

/* A template may be in use until the transaction ends. */
static void
empty_cache(bool at_once)
{
	HASH_SEQ_STATUS scan;
	Cached         *cached;

	if (cache == NULL)
		return;
	hash_seq_init(&scan, cache);
	while ((cached = hash_seq_search(&scan)) != NULL)
	{
		if (at_once)
			MemoryContextDelete(cached->context);
		else
			MemoryContextSetParent(cached->context, TopTransactionContext);
		(void) hash_search(cache, &cached->template_id, HASH_REMOVE, NULL);
	}
	cache_size = 0;
}

static Jsonb *
definition_arg(FunctionCallInfo fcinfo)
{
	Jsonb *definition = tq_arg_jsonb(fcinfo, 0);

	if (definition == NULL)
		tq_error_required("definition");
	if (VARSIZE(definition) > MAX_DEFINITION)
		tq_error_too_large("definition", VARSIZE(definition), MAX_DEFINITION);
	return definition;
}

/* Raise 0A000 if there are no other problems. */
static void
raise_unbuilt(const TqDefinitionProblems *problems)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("%s %s", problems->all[0].path, problems->all[0].words),
			 errdetail_internal("%s", tq_problem_detail(problems))));
	pg_unreachable();
}

static void
warn_of_nesting(const TqTemplate *template)
{
	StringInfoData detail;

	if (tq_guc_warn_decision_nesting == 0 ||
		template->nesting <= tq_guc_warn_decision_nesting)
		return;
	initStringInfo(&detail);
	appendStringInfoChar(&detail, '{');
	add_identity(&detail, template);
	appendStringInfo(&detail, ", \"nesting\": %d}", template->nesting);
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("decisions and batches of workflow \"%s\" are nested %d "
					"deep, which exceeds \"taskq.warn_decision_nesting\" (%d)",
					template->name, template->nesting,
					tq_guc_warn_decision_nesting),
			 errdetail_internal("%s", detail.data)));
}

/* Append namespace, name and version as members of an object. */
static void
add_identity(StringInfo detail, const TqTemplate *template)
{
	appendStringInfoString(detail, "\"namespace\": ");
	escape_json(detail, template->space);
	appendStringInfoString(detail, ", \"name\": ");
	escape_json(detail, template->name);
	appendStringInfoString(detail, ", \"version\": ");
	escape_json(detail, template->version);
}

/* Raise TQ011: the template does not exist. */
void
tq_template_missing(const char *space, const char *name, const char *version)
{
	StringInfoData detail;

	initStringInfo(&detail);
	appendStringInfoString(&detail, "{\"namespace\": ");
	escape_json(&detail, space);
	appendStringInfoString(&detail, ", \"name\": ");
	escape_json(&detail, name);
	if (version != NULL)
	{
		appendStringInfoString(&detail, ", \"version\": ");
		escape_json(&detail, version);
	}
	appendStringInfoChar(&detail, '}');
	ereport(ERROR,
			(errcode(ERRCODE_TQ_INVALID_WORKFLOW),
			 version == NULL
				 ? errmsg("workflow \"%s\" is not defined", name)
				 : errmsg("version \"%s\" of workflow \"%s\" is not defined",
						  version, name),
			 errdetail_internal("%s", detail.data),
			 errhint("Define it with taskq_define_workflow().")));
}
