/*
 * catalog.c
 *		The OIDs of the extension's own objects in this database.
 *
 * OIDs are looked up once and forgotten by invalidation callbacks.  REINDEX
 * CONCURRENTLY replaces an index by another one and invalidates its table, so
 * the invalidation of a table whose index OIDs are kept here discards them.
 * REINDEX CONCURRENTLY waits for transactions that have locked the table: an
 * index OID that was looked up under such a lock stays valid until the
 * transaction ends.
 *
 * Two empty tables carry changes between sessions: a transaction that changes
 * a queue, a lane or a grant invalidates the relcache entry of
 * taskq.queue_change, and one that changes a worker that of
 * taskq.worker_change.  The server delivers the invalidation when the change
 * commits (at COMMIT PREPARED too), to the changing session itself
 * immediately, and to that session again if it rolls back.  Each delivery
 * increments a generation number, against which caches compare themselves.
 *
 * DROP EXTENSION and CREATE EXTENSION, in this session or another one, replace
 * the extension that a session knows by another one, which gives the same
 * numbers to other roles, queues and templates.  So each session numbers the
 * extensions that it has met (tq_catalog_identity).  It distinguishes them by
 * the OID in pg_extension and the rows of taskq.instance, where CREATE
 * EXTENSION and taskq_activate() store a random number.  Rows that a restore
 * loads are announced as another extension too.  A session compares what it
 * keeps with that number, or with a generation, which also changes.
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

#define TASK_COLUMNS 40 /* of the install script that this library matches */

/* The first columns of taskq.instance. */
#define INSTANCE_COLUMN 1
#define DATABASE_COLUMN 2

static TqCatalog catalog;
static bool      catalog_valid = false;
static uint64    changes = 0;  /* invalidations received, of any relation */
static uint64    identity = 0; /* number of the extension; 0: none met yet */
static uint64    identity_instances = 0;
static bool      identity_told = false; /* taskq.instance was invalidated */
static uint64    queue_generation = 1;
static uint64    worker_generation = 1;

static void   fail_dropped(void) pg_attribute_noreturn();
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

/*
 * Returns the OIDs.  Raises an error if the extension is not in this database.
 */
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
 * The number of the extension in this session; never 0.  Anything remembered
 * under another number belongs to another extension.
 */
uint64
tq_catalog_identity(void)
{
	(void) tq_catalog();
	return identity;
}

/*
 * Open a table of this extension.  Raises an error if the extension was
 * dropped while this transaction waited for the lock.
 */
Relation
tq_catalog_open_table(Oid relid, LOCKMODE mode)
{
	Relation rel = try_table_open(relid, mode);

	if (rel == NULL)
		fail_dropped();
	return rel;
}

/* Open an index of this extension, with the same check. */
Relation
tq_catalog_open_index(Oid relid, LOCKMODE mode)
{
	Relation rel = try_index_open(relid, mode);

	if (rel == NULL)
		fail_dropped();
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

/* Make every session read queues again when this transaction commits. */
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

/* The rows have been replaced: make every session discard what it keeps. */
void
tq_catalog_announce_identity(void)
{
	CacheInvalidateRelcacheByRelid(tq_catalog()->instance);
	tq_catalog_announce_queue();
	tq_catalog_announce_worker();
}

/* Discard what this session keeps about queues, workers and roles. */
void
tq_catalog_forget(void)
{
	queue_generation++;
	worker_generation++;
}

static void
fail_dropped(void)
{
	ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					errmsg("extension \"taskq\" was concurrently dropped"),
					errhint("If it has been re-created, retry the command.")));
}

static Oid
relation_oid(Oid schema, const char *name)
{
	Oid relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("relation \"taskq.%s\" does not exist", name),
			 errhint(
				 "The extension is being changed, or was created by another version. Retry the command, or run ALTER EXTENSION taskq UPDATE.")));
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
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("extension \"taskq\" is not installed in this database"),
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

	/* an OID read before a concurrent change may be obsolete */
	catalog = found;
	catalog_valid = before == changes;
}

/*
 * Raise an error unless the table has the number of columns that this library
 * writes.  The caller holds a lock on the table, or repeats the check under
 * one.
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
			 "version of extension \"taskq\" in this database does not match the loaded library"),
		 errdetail("Table \"%s\" has %d columns instead of %d.",
				   RelationGetRelationName(rel),
				   RelationGetNumberOfAttributes(rel), columns),
		 errhint(
			 "Run ALTER EXTENSION taskq UPDATE, and restart the server if the library was replaced.")));
}

/*
 * A hash of the rows of taskq.instance.  They are read with a fresh snapshot,
 * whatever the isolation level.
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

		/* independent of the order of rows */
		hash += hash_bytes_extended((unsigned char *) DatumGetUUIDP(instance),
									UUID_LEN,
									(uint64) DatumGetObjectId(database));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return hash;
}

/* Is it the extension that this session knows, or another extension? */
static void
meet(const TqCatalog *found, uint64 instances)
{
	if (identity != 0 && !identity_told &&
		found->extension == catalog.extension &&
		instances == identity_instances)
		return;
	identity_told = false;
	identity_instances = instances;
	/* before the first extension there is nothing to discard */
	if (identity++ != 0)
		tq_catalog_forget();
}

/* Is it a table whose index OIDs are kept here, or taskq.instance? */
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

/* Syscache callback: a schema was created, renamed or dropped. */
static void
schema_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	changes++;
	catalog_valid = false;
	queue_generation++;
	worker_generation++;
}
