/*
 * catalog.c
 *		Where the extension's own objects are in this database.
 *
 * OIDs are looked up once and forgotten by invalidation callbacks.  REINDEX
 * CONCURRENTLY puts another index in the place of one and tells so in the
 * name of the table, so each table whose indexes are here makes it forget.
 * It waits for whoever has locked the table: an index that is asked for with
 * that lock in hand is there until the transaction ends.  Two
 * empty tables carry the news between sessions: whoever changes a queue, a
 * lane or a grant invalidates the relcache entry of taskq.queue_change, and
 * for workers that of taskq.worker_change.  The server delivers that when
 * the change commits (at COMMIT PREPARED too), and to the changing session
 * itself at once and again when it rolls back; here each delivery raises a
 * generation number, against which caches compare themselves.
 *
 * DROP EXTENSION and CREATE EXTENSION, by this session or another one, put
 * another extension in the place of the one that a session knows, and give
 * the same numbers to other roles, queues and templates.  So each session
 * numbers the extensions that it has met (tq_catalog_identity).  It tells them
 * apart by the OID in pg_extension and the rows of taskq.instance, where
 * CREATE EXTENSION and taskq_activate() draw a random number.  Rows that a
 * restore loads are announced as another extension, too.  What a session keeps
 * is compared with that number, or with a generation, which rises with it.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "commands/extension.h"
#include "common/hashfn.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/uuid.h"

#include "base/catalog.h"
#include "base/debug.h"

#define TASK_COLUMNS 40 /* of the SQL that this library goes with */

/* The first columns of taskq.instance. */
#define INSTANCE_COLUMN 1
#define DATABASE_COLUMN 2

static TqCatalog catalog;
static bool      catalog_valid = false;
static uint64    changes = 0;  /* of any relation, that were told */
static uint64    identity = 0; /* number of the extension; 0: none met yet */
static uint64    identity_instances = 0;
static bool      identity_told = false; /* that it is another one */
static uint64    queue_generation = 1;
static uint64    worker_generation = 1;

static void   dropped_meanwhile(void) pg_attribute_noreturn();
static Oid    relation_oid(Oid schema, const char *name);
static void   catalog_load(void);
static uint64 hash_instances(Oid relid);
static void   meet(const TqCatalog *found, uint64 instances);
static bool   is_loaded_from(Oid relid);
static void   relation_changed(Datum arg, Oid relid);
static void   schema_changed(Datum arg, int cacheid, uint32 hashvalue);

void
tq_catalog_init(void)
{
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
}

/* The OIDs; an error when the extension is not in this database. */
const TqCatalog *
tq_catalog(void)
{
	if (!catalog_valid)
		catalog_load();
	return &catalog;
}

/* Is the extension in this database? */
bool
tq_catalog_present(void)
{
	return OidIsValid(get_extension_oid("taskq", true));
}

/*
 * Which extension this is, of those that the session has met; never 0.  What
 * was remembered under another number is of another extension.
 */
uint64
tq_catalog_identity(void)
{
	(void) tq_catalog();
	return identity;
}

/*
 * Open a table of this extension.  Whoever had to wait for its lock may find
 * that the extension was dropped meanwhile.
 */
Relation
tq_catalog_open_table(Oid relid, LOCKMODE mode)
{
	Relation rel = try_table_open(relid, mode);

	if (rel == NULL)
		dropped_meanwhile();
	return rel;
}

/* The same for an index. */
Relation
tq_catalog_open_index(Oid relid, LOCKMODE mode)
{
	Relation rel = try_index_open(relid, mode);

	if (rel == NULL)
		dropped_meanwhile();
	return rel;
}

uint64
tq_catalog_queue_generation(void)
{
	return queue_generation;
}

uint64
tq_catalog_worker_generation(void)
{
	return worker_generation;
}

/* Tell every session, when this transaction commits, to read queues again. */
void
tq_catalog_announce_queue(void)
{
	CacheInvalidateRelcacheByRelid(tq_catalog()->queue_change);
	queue_generation++;
}

void
tq_catalog_announce_worker(void)
{
	CacheInvalidateRelcacheByRelid(tq_catalog()->worker_change);
	worker_generation++;
}

/* Rows are others than before: every session shall forget what it keeps. */
void
tq_catalog_announce_identity(void)
{
	CacheInvalidateRelcacheByRelid(tq_catalog()->instance);
	tq_catalog_announce_queue();
	tq_catalog_announce_worker();
}

/* Drop what this session has learned about queues, workers, roles. */
void
tq_catalog_forget(void)
{
	queue_generation++;
	worker_generation++;
}

static void
dropped_meanwhile(void)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("extension taskq was dropped meanwhile"),
					errhint("If it was made anew, try again.")));
}

static Oid
relation_oid(Oid schema, const char *name)
{
	Oid relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("relation taskq.%s does not exist", name),
			 errhint(
				 "The extension is being changed, or was made by another version of it: try again, or run ALTER EXTENSION taskq UPDATE.")));
	return relid;
}

static void
catalog_load(void)
{
	uint64    before = changes;
	TqCatalog found;
	Relation  task;
	uint64    instances;

	found.schema = get_namespace_oid("taskq", true);
	if (!OidIsValid(found.schema))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension taskq is not installed in this database"),
				 errhint("Run CREATE EXTENSION taskq.")));
	found.extension = get_extension_oid("taskq", true);
	found.task = relation_oid(found.schema, "task");
	found.task_pkey = relation_oid(found.schema, "task_pkey");
	found.task_wake = relation_oid(found.schema, "task_wake_idx");
	found.task_dispatch = relation_oid(found.schema, "task_dispatch_idx");
	found.task_reference = relation_oid(found.schema, "task_reference_idx");
	found.task_key = relation_oid(found.schema, "task_key_idx");
	found.task_suspended = relation_oid(found.schema, "task_suspended_idx");
	found.keep_dead = relation_oid(found.schema, "archive_keep_dead_idx");
	found.keep_workflow =
		relation_oid(found.schema, "archive_keep_workflow_id_step_id_idx");
	found.key = relation_oid(found.schema, "key");
	found.key_pkey = relation_oid(found.schema, "key_pkey");
	found.workflow = relation_oid(found.schema, "workflow");
	found.template = relation_oid(found.schema, "template");
	found.edge = relation_oid(found.schema, "edge");
	found.edge_pkey = relation_oid(found.schema, "edge_pkey");
	found.workflow_identity =
		relation_oid(found.schema, "workflow_identity_idx");
	found.task_workflow = relation_oid(found.schema, "task_workflow_idx");
	found.archive = relation_oid(found.schema, "archive");
	for (int i = 0; i < TQ_LEAVES; i++)
	{
		char name[NAMEDATALEN];

		snprintf(name, sizeof(name), "archive_%02d", i);
		found.leaf[i] = relation_oid(found.schema, name);
		snprintf(name, sizeof(name), "transition_%02d", i);
		found.transition[i] = relation_oid(found.schema, name);
	}
	found.leaf[TQ_LEAF_KEEP] = relation_oid(found.schema, "archive_keep");
	found.queue = relation_oid(found.schema, "queue");
	found.queue_pkey = relation_oid(found.schema, "queue_pkey");
	found.worker = relation_oid(found.schema, "worker");
	found.worker_pkey = relation_oid(found.schema, "worker_pkey");
	found.queue_change = relation_oid(found.schema, "queue_change");
	found.worker_change = relation_oid(found.schema, "worker_change");
	found.task_id_seq = relation_oid(found.schema, "task_id_seq");
	found.transition_id_seq = relation_oid(found.schema, "transition_id_seq");
	found.timeline_seq = relation_oid(found.schema, "timeline_seq");
	found.instance = relation_oid(found.schema, "instance");
	TQ_DEBUG_POINT("catalog_loading");

	task = tq_catalog_open_table(found.task, AccessShareLock);
	tq_catalog_require_columns(task, TASK_COLUMNS);
	found.owner = task->rd_rel->relowner;
	table_close(task, AccessShareLock);
	instances = hash_instances(found.instance);

	meet(&found, instances);

	/* what has changed meanwhile may have been looked up before */
	catalog = found;
	catalog_valid = before == changes;
}

/*
 * A table of rows that are formed here: those of another number of columns
 * are not known.  The table is locked, or it is looked at again when it is.
 */
void
tq_catalog_require_columns(Relation rel, int columns)
{
	if (RelationGetNumberOfAttributes(rel) == columns)
		return;
	ereport(
		ERROR,
		(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
		 errmsg(
			 "the objects of extension taskq in this database are of another version than its library"),
		 errdetail("Table \"%s\" has %d columns instead of %d.",
				   RelationGetRelationName(rel),
				   RelationGetNumberOfAttributes(rel), columns),
		 errhint(
			 "Run ALTER EXTENSION taskq UPDATE, and restart the server if the library was replaced.")));
}

/*
 * A number that is another one when other rows are in taskq.instance.  They
 * are read as of now, whatever the level of isolation.
 */
static uint64
hash_instances(Oid relid)
{
	Relation    rel = tq_catalog_open_table(relid, AccessShareLock);
	SysScanDesc scan =
		systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	uint64    hash = 0;
	HeapTuple tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		bool  isnull;
		Datum instance = heap_getattr(tuple, INSTANCE_COLUMN,
									  RelationGetDescr(rel), &isnull);
		Datum database = heap_getattr(tuple, DATABASE_COLUMN,
									  RelationGetDescr(rel), &isnull);

		/* their order says nothing */
		hash += hash_bytes_extended((unsigned char *) DatumGetUUIDP(instance),
									UUID_LEN,
									(uint64) DatumGetObjectId(database));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return hash;
}

/* Is it the extension that this session knows, or another one? */
static void
meet(const TqCatalog *found, uint64 instances)
{
	if (identity != 0 && !identity_told &&
		found->extension == catalog.extension &&
		instances == identity_instances)
		return;
	identity_told = false;
	identity_instances = instances;
	/* before the first one nothing was learned */
	if (identity++ != 0)
		tq_catalog_forget();
}

/* Is it a table of whose indexes the OIDs are kept, or the identity? */
static bool
is_loaded_from(Oid relid)
{
	return relid == catalog.task || relid == catalog.key ||
		   relid == catalog.edge || relid == catalog.leaf[TQ_LEAF_KEEP] ||
		   relid == catalog.instance;
}

/* Relcache callback; InvalidOid means all. */
static void
relation_changed(Datum arg, Oid relid)
{
	changes++;
	if (!OidIsValid(relid) || relid == catalog.queue_change)
		queue_generation++;
	if (!OidIsValid(relid) || relid == catalog.worker_change)
		worker_generation++;
	if (!OidIsValid(relid) || is_loaded_from(relid))
		catalog_valid = false;
	if (OidIsValid(relid) && relid == catalog.instance)
		identity_told = true;
}

/* Syscache callback: some schema was made, renamed or dropped. */
static void
schema_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	changes++;
	catalog_valid = false;
	queue_generation++;
	worker_generation++;
}
