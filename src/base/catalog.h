/*
 * catalog.h
 *		The OIDs of the extension's own objects in this database.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CATALOG_H
#define TQ_CATALOG_H

#include "base/compat.h"

#include "storage/lockdefs.h"
#include "utils/relcache.h"

#define TQ_LEAVES 16    /* rotating leaves of the archive */
#define TQ_LEAF_KEEP 16 /* the leaf that is kept */

/* OIDs in one database; valid until the next change of its catalog. */
typedef struct TqCatalog
{
	Oid extension;
	Oid schema;
	Oid owner; /* of taskq.task, hence of the extension */
	Oid task;
	Oid task_pkey;
	Oid task_dispatch;
	Oid task_reference;
	Oid task_key;
	Oid task_suspended;
	Oid task_wake;
	Oid archive;
	Oid leaf[TQ_LEAVES + 1];
	Oid keep_dead; /* indexes of archive_keep */
	Oid keep_workflow;
	Oid transition[TQ_LEAVES];
	Oid key;
	Oid key_pkey;
	Oid workflow;
	Oid workflow_identity;
	Oid template;
	Oid edge;
	Oid edge_pkey;
	Oid task_workflow;
	Oid queue;
	Oid queue_pkey;
	Oid worker;
	Oid worker_pkey;
	Oid queue_change;  /* empty; invalidated if queues, lanes, grants change */
	Oid worker_change; /* empty; invalidated if workers change */
	Oid task_id_seq;
	Oid transition_id_seq;
	Oid timeline_seq;
	Oid instance; /* its rows are part of the extension's identity */
} TqCatalog;

extern const TqCatalog *tq_catalog(void);
extern bool             tq_catalog_present(void);
extern uint64           tq_catalog_identity(void);
extern Relation         tq_catalog_open_table(Oid relid, LOCKMODE mode);
extern Relation         tq_catalog_open_index(Oid relid, LOCKMODE mode);
extern void             tq_catalog_require_columns(Relation rel, int columns);
extern uint64           tq_catalog_queue_generation(void);
extern uint64           tq_catalog_worker_generation(void);
extern void             tq_catalog_announce_queue(void);
extern void             tq_catalog_announce_worker(void);
extern void             tq_catalog_announce_identity(void);
extern void             tq_catalog_forget(void);
extern void             tq_catalog_init(void);

#endif /* TQ_CATALOG_H */
