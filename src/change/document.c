/*
 * document.c
 *		Documents that tasks share.
 *
 * A document is named by its id, or by its namespace, key and secondary key,
 * which are unique.  It is changed together with tasks by taskq_change, or
 * claimed together with all documents of its key.  While a worker holds it,
 * other workers cannot change it; each change increments its version.
 *
 * A namespace with the name of a queue is accessible to roles that may work
 * there, any other namespace to roles that may work on all queues.
 *
 * The names of several documents are locked before any of their rows
 * (name_lock.c), rows in the order of their ids after those of tasks, and new
 * documents are created in the order of their names.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/span.h"
#include "base/spi.h"
#include "base/srf.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "change/change_problem.h"
#include "change/change_set.h"
#include "change/document.h"
#include "engine/call.h"
#include "engine/id.h"
#include "engine/name_lock.h"
#include "store/snapshot.h"

#define DOC_COLUMNS 8

PG_FUNCTION_INFO_V1(taskq_claim_docs);

static TqStmt stmt_by_names = {
	"SELECT d.doc_id, d.namespace, d.key FROM taskq.doc d"
	" WHERE d.namespace = $1 AND d.key = $2 AND d.secondary_key = $3",
	{TEXTOID, TEXTOID, TEXTOID}};

static TqStmt stmt_by_id = {
	"SELECT d.doc_id, d.namespace, d.key FROM taskq.doc d WHERE d.doc_id = $1",
	{INT8OID}};

#define READ_AND_LOCK                                                         \
	"SELECT d.version, d.worker, d.lease_until FROM taskq.doc d"              \
	" WHERE d.doc_id = $1 FOR "

static TqStmt stmt_lock = {READ_AND_LOCK "UPDATE", {INT8OID}};

static TqStmt stmt_share = {READ_AND_LOCK "SHARE", {INT8OID}};

static TqStmt stmt_add = {
	"INSERT INTO taskq.doc (namespace, key, secondary_key, doc_id, content,"
	" worker, lease_until) VALUES ($1, $2, $3, $4, $5, $6, $7)"
	" ON CONFLICT (namespace, key, secondary_key) DO NOTHING",
	{TEXTOID, TEXTOID, TEXTOID, INT8OID, JSONBOID, TEXTOID, TIMESTAMPTZOID}};

static TqStmt stmt_update = {
	"UPDATE taskq.doc SET version = version + 1, worker = $4,"
	" lease_until = $5, content = CASE WHEN $2 THEN $3 ELSE content END"
	" WHERE doc_id = $1",
	{INT8OID, BOOLOID, JSONBOID, TEXTOID, TIMESTAMPTZOID}};

static TqStmt stmt_delete = {"DELETE FROM taskq.doc WHERE doc_id = $1",
							 {INT8OID}};

static TqStmt stmt_lock_key = {
	"SELECT d.doc_id FROM taskq.doc d WHERE d.namespace = $1 AND d.key = $2"
	" ORDER BY d.doc_id FOR UPDATE",
	{TEXTOID, TEXTOID}};

static TqStmt stmt_more = {
	"SELECT FROM taskq.doc d WHERE d.namespace = $1 AND d.key = $2"
	" AND d.doc_id <> ALL ($3) LIMIT 1",
	{TEXTOID, TEXTOID, INT8ARRAYOID}};

static TqStmt stmt_held = {
	"SELECT jsonb_build_object('owned', jsonb_agg(jsonb_build_object("
	"'doc_id', d.doc_id, 'secondary_key', d.secondary_key,"
	" 'worker', d.worker, 'lease_until', d.lease_until)"
	" ORDER BY d.doc_id))::text FROM taskq.doc d"
	" WHERE d.doc_id = ANY ($1) AND d.worker <> $2 AND d.lease_until > $3"
	" HAVING count(*) > 0",
	{INT8ARRAYOID, TEXTOID, TIMESTAMPTZOID}};

static TqStmt stmt_take = {
	"UPDATE taskq.doc SET version = version + 1, worker = $2, lease_until = $3"
	" WHERE doc_id = ANY ($1)",
	{INT8ARRAYOID, TEXTOID, TIMESTAMPTZOID}};

static TqStmt stmt_give_back = {
	"UPDATE taskq.doc SET version = version + 1, worker = NULL,"
	" lease_until = NULL WHERE doc_id = ANY ($1) AND worker = $2",
	{INT8ARRAYOID, TEXTOID}};

static TqStmt stmt_read = {
	"SELECT d.namespace, d.key, d.secondary_key, d.doc_id, d.version,"
	" d.content, d.worker, d.lease_until FROM taskq.doc d"
	" WHERE d.doc_id = ANY ($1) ORDER BY d.secondary_key",
	{INT8ARRAYOID}};

static void       lock_names(TqChange *change);
static Bitmapset *add_name(Bitmapset *names, const char *space,
						   const char *key);
static void       sort_docs(TqChange *change);
static char      *find(TqEntry *entry);
static void       find_and_lock(TqEntry *entry);
static void       lock(TqEntry *entry);
static bool       is_deleted_here(const TqChange *change, int64 doc_id);
static int        rights_in(const char *space);
static void       require_work(const char *space, int rights);
static void       check(TqChange *change, TqEntry *entry);
static void       missing(TqChange *change, const TqEntry *entry);
static void check_add(TqChange *change, TqEntry *entry, const TqEntry *before);
static void check_size(const TqDocument *doc);
static char *name_of(const TqDocument *doc);
static void  run(TqStmt *stmt, const Datum *args, const bool *nulls,
				 int expected, uint64 rows);
static void  update(const TqChange *change, const TqEntry *entry);
static bool  add(const TqChange *change, TqEntry *entry);
static void  hold(const TqChange *change, const TqEntry *entry, Datum *args,
				  bool *nulls);
static Datum lock_docs_of_key(Datum space, Datum key);
static bool  are_more(Datum space, Datum key, Datum ids);
static void  require_free(Datum ids, Datum worker);
static void  take(Datum ids, Datum worker, int64 lease);
static void  tell(Datum ids, ReturnSetInfo *result);
static int   compare_names(const void *a, const void *b);

/*
 * Find the documents of a change, and lock them in id order; documents on
 * which the change only depends are locked in share mode.
 */
void
tq_document_lock(TqChange *change)
{
	lock_names(change);
	for (int i = 0; i < change->count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (change->entries[i].doc != NULL &&
			change->entries[i].part != TQ_PART_DOC_ADDS)
			(void) find(&change->entries[i]);
	}
	sort_docs(change);
	for (int i = 0; i < change->doc_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		find_and_lock(change->docs[i]);
	}
}

/*
 * Lock the names of several documents, existing or new: a new document waits
 * for transactions that change another document of the same name.
 */
static void
lock_names(TqChange *change)
{
	Bitmapset *names = NULL;
	Bitmapset *shared = NULL;
	int        count = 0;

	for (int i = 0; i < change->count; i++)
	{
		TqEntry    *entry = &change->entries[i];
		TqDocument *doc = entry->doc;
		char       *key;

		CHECK_FOR_INTERRUPTS();
		if (doc == NULL)
			continue;
		count++;
		key = doc->key != NULL ? doc->key : find(entry);
		if (key == NULL || rights_in(doc->space) == 0)
			continue;
		if (entry->part == TQ_PART_DOC_DEPENDS)
			shared = add_name(shared, doc->space, key);
		else
			names = add_name(names, doc->space, key);
	}
	if (count > 1)
		tq_name_lock(TQ_NAME_DOCUMENT, names, shared);
	tq_snapshot_renew();
}

static Bitmapset *
add_name(Bitmapset *names, const char *space, const char *key)
{
	return tq_name_lock_add(names, psprintf("%s %s", space, key));
}

/* Record the problems with the documents. */
void
tq_document_check(TqChange *change)
{
	for (int i = 0; i < change->doc_count; i++)
	{
		TqEntry *entry = change->docs[i];

		if (i > 0 && entry->id != 0 && entry->id == change->docs[i - 1]->id)
			tq_change_twice(change, "document", change->docs[i - 1], entry);
		check(change, entry);
	}
	for (int i = 0; i < change->doc_add_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		check_add(change, change->doc_adds[i],
				  i > 0 ? change->doc_adds[i - 1] : NULL);
	}
}

void
tq_document_apply(TqChange *change)
{
	for (int i = 0; i < change->doc_count; i++)
	{
		TqEntry *entry = change->docs[i];
		Datum    id = Int64GetDatum(entry->id);

		CHECK_FOR_INTERRUPTS();
		if (entry->part == TQ_PART_DOC_DELETES)
			run(&stmt_delete, &id, NULL, SPI_OK_DELETE, 1);
		else if (entry->part == TQ_PART_DOC_UPDATES)
			update(change, entry);
	}
	for (int i = 0; i < change->doc_add_count; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!add(change, change->doc_adds[i]) &&
			!change->doc_adds[i]->skip_existing)
			tq_change_problem(change, TQ_PROBLEM_DOC_COLLISIONS, "%s",
							  name_of(change->doc_adds[i]->doc));
	}
}

Datum
taskq_claim_docs(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	char          *worker = tq_arg_name(fcinfo, 0, "worker", NULL);
	char          *space = tq_arg_word(fcinfo, 1, "namespace", TQ_MAX_NAME);
	char          *key = tq_arg_word(fcinfo, 2, "key", TQ_MAX_KEY);
	int64          lease;
	Datum          ids;
	TqWorker       who;
	TqCall         call;

	tq_srf_begin(fcinfo);
	if (space == NULL)
		tq_error_required("namespace");
	if (key == NULL)
		tq_error_required("key");
	if (PG_ARGISNULL(3))
		tq_error_required("lease");
	lease = tq_arg_span(fcinfo, 3, "lease", 0, 0);
	tq_call_begin(&call, "taskq_claim_docs()");
	require_work(space, rights_in(space));
	tq_worker_if_registered(worker, &who);
	tq_name_lock(TQ_NAME_DOCUMENT, add_name(NULL, space, key), NULL);
	ids =
		lock_docs_of_key(CStringGetTextDatum(space), CStringGetTextDatum(key));
	require_free(ids, CStringGetTextDatum(worker));
	take(ids, CStringGetTextDatum(worker), lease);
	tell(ids, result);
	tq_call_end(&call);
	return (Datum) 0;
}

/* Sort existing documents by id, new ones by name. */
static void
sort_docs(TqChange *change)
{
	Size size = sizeof(TqEntry *) * (change->count + 1);

	change->docs = palloc_extended(size, MCXT_ALLOC_HUGE);
	change->doc_adds = palloc_extended(size, MCXT_ALLOC_HUGE);
	for (int i = 0; i < change->count; i++)
	{
		TqEntry *entry = &change->entries[i];

		if (entry->part == TQ_PART_DOC_ADDS)
			change->doc_adds[change->doc_add_count++] = entry;
		else if (entry->doc != NULL)
			change->docs[change->doc_count++] = entry;
	}
	qsort(change->docs, change->doc_count, sizeof(TqEntry *),
		  tq_change_compare_ids);
	qsort(change->doc_adds, change->doc_add_count, sizeof(TqEntry *),
		  compare_names);
}

/*
 * Find the document's id, and what current_user may do with it; does not lock
 * it.  A document on which that role has no right is treated like one that
 * does not exist.  Returns its key, or NULL.
 */
static char *
find(TqEntry *entry)
{
	TqDocument *doc = entry->doc;
	Datum       args[3] = {Int64GetDatum(entry->id)};
	TqStmt     *stmt = &stmt_by_id;
	char       *space = NULL;
	char       *key = NULL;
	int64       doc_id = 0;
	TqSpi       spi;

	if (doc->key != NULL)
	{
		args[0] = CStringGetTextDatum(doc->space);
		args[1] = CStringGetTextDatum(doc->key);
		args[2] = CStringGetTextDatum(doc->secondary_key);
		stmt = &stmt_by_names;
	}
	tq_spi_enter(&spi);
	if ((IsolationUsesXactSnapshot() ? tq_spi_read(stmt, args, NULL, 1)
									 : tq_spi_look(stmt, args, NULL, 1)) > 0)
	{
		doc_id = tq_spi_int8(0, 1, 0);
		space = tq_spi_text(&spi, 0, 2);
		key = tq_spi_text(&spi, 0, 3);
	}
	tq_spi_leave(&spi);
	doc->rights = space == NULL ? 0 : rights_in(space);
	if (doc->rights == 0)
		return NULL;
	entry->id = doc_id;
	doc->space = space;
	return key;
}

/*
 * If the document is deleted during the wait, another document with its names
 * may have been created.  A role must not block documents of other roles.
 */
static void
find_and_lock(TqEntry *entry)
{
	while (entry->doc->rights != 0)
	{
		lock(entry);
		if (entry->doc->there || entry->doc->key == NULL)
			break;
		entry->id = 0;
		(void) find(entry);
	}
}

static void
lock(TqEntry *entry)
{
	TqDocument *doc = entry->doc;
	Datum       id = Int64GetDatum(entry->id);
	TqSpi       spi;

	tq_spi_enter(&spi);
	doc->there = tq_spi_run(entry->part == TQ_PART_DOC_DEPENDS ? &stmt_share
															   : &stmt_lock,
							&id, NULL, SPI_OK_SELECT, 1) > 0;
	if (doc->there)
	{
		doc->version = tq_spi_int8(0, 1, 0);
		doc->worker = tq_spi_text(&spi, 0, 2);
		doc->lease_until = tq_spi_time(0, 3, 0);
	}
	tq_spi_leave(&spi);
}

/* Return what current_user may do with the documents of a namespace. */
static int
rights_in(const char *space)
{
	TqQueue *queue = tq_queue_find(space);

	return queue != NULL ? tq_role_rights(queue) : tq_role_rights_all();
}

static void
require_work(const char *space, int rights)
{
	if ((rights & TQ_RIGHT_WORK) == 0)
		tq_error_no_right(tq_queue_find(space) != NULL ? space : TQ_QUEUE_ALL,
						  TQ_RIGHT_WORK);
}

/* Does it exist in that version, and may it be changed? */
static void
check(TqChange *change, TqEntry *entry)
{
	const TqDocument *doc = entry->doc;

	if (!doc->there || (entry->has_version && entry->version != doc->version))
	{
		missing(change, entry);
		return;
	}
	require_work(doc->space, doc->rights);
	if (entry->part == TQ_PART_DOC_UPDATES)
		check_size(doc);
	if (entry->part != TQ_PART_DOC_DEPENDS && doc->worker != NULL &&
		doc->lease_until > tq_clock_dispatch() &&
		strcmp(doc->worker, change->worker) != 0)
		tq_change_problem(change, TQ_PROBLEM_DOC_OWNED, INT64_FORMAT,
						  entry->id);
}

/*
 * Report a missing document by its id, or by its names if only these are
 * known.
 */
static void
missing(TqChange *change, const TqEntry *entry)
{
	static const TqChangeProblem which[] = {
		[TQ_PART_DOC_UPDATES] = TQ_PROBLEM_DOC_CHANGES,
		[TQ_PART_DOC_DELETES] = TQ_PROBLEM_DOC_DELETES,
		[TQ_PART_DOC_DEPENDS] = TQ_PROBLEM_DOC_DEPENDS};

	if (entry->doc->key == NULL)
		tq_change_problem(change, which[entry->part], INT64_FORMAT, entry->id);
	else
		tq_change_problem(change, which[entry->part], "%s",
						  name_of(entry->doc));
}

/* Is there another document with its names, existing or new? */
static void
check_add(TqChange *change, TqEntry *entry, const TqEntry *before)
{
	TqEntry    other = {.part = TQ_PART_DOC_DEPENDS};
	TqDocument doc = *entry->doc;

	require_work(doc.space, rights_in(doc.space));
	check_size(&doc);
	if (entry->skip_existing)
		return;
	other.doc = &doc;
	(void) find(&other);
	if ((other.id != 0 && !is_deleted_here(change, other.id)) ||
		(before != NULL && compare_names(&before, &entry) == 0))
		tq_change_problem(change, TQ_PROBLEM_DOC_COLLISIONS, "%s",
						  name_of(entry->doc));
}

/* The limit is that of a payload in the queue with that name. */
static void
check_size(const TqDocument *doc)
{
	TqQueue         *queue = tq_queue_find(doc->space);
	const TqOptions *options = queue != NULL ? &queue->options
											 : tq_queue_defaults();

	if (doc->content != NULL && VARSIZE(doc->content) > options->max_payload)
		tq_error_max_payload("content", VARSIZE(doc->content),
							 options->max_payload);
}

static bool
is_deleted_here(const TqChange *change, int64 doc_id)
{
	const TqEntry *entry =
		tq_change_find(change->docs, change->doc_count, doc_id);

	return entry != NULL && entry->part == TQ_PART_DOC_DELETES;
}

/* As JSON. */
static char *
name_of(const TqDocument *doc)
{
	StringInfoData text;

	initStringInfo(&text);
	appendStringInfoString(&text, "{\"namespace\": ");
	escape_json(&text, doc->space);
	appendStringInfoString(&text, ", \"key\": ");
	escape_json(&text, doc->key);
	appendStringInfoString(&text, ", \"secondary_key\": ");
	escape_json(&text, doc->secondary_key);
	appendStringInfoChar(&text, '}');
	return text.data;
}

static void
run(TqStmt *stmt, const Datum *args, const bool *nulls, int expected,
	uint64 rows)
{
	if (tq_spi_execute(stmt, args, nulls, expected) != rows)
		tq_error_serialization();
}

static void
update(const TqChange *change, const TqEntry *entry)
{
	Datum args[5];
	bool  nulls[5] = {false};

	args[0] = Int64GetDatum(entry->id);
	args[1] = BoolGetDatum(entry->doc->content_named);
	args[2] = PointerGetDatum(entry->doc->content);
	nulls[2] = entry->doc->content == NULL;
	hold(change, entry, &args[3], &nulls[3]);
	run(&stmt_update, args, nulls, SPI_OK_UPDATE, 1);
}

/* Returns false if another document has its names. */
static bool
add(const TqChange *change, TqEntry *entry)
{
	Datum args[7];
	bool  nulls[7] = {false};

	args[0] = CStringGetTextDatum(entry->doc->space);
	args[1] = CStringGetTextDatum(entry->doc->key);
	args[2] = CStringGetTextDatum(entry->doc->secondary_key);
	args[3] = Int64GetDatum(tq_id_next());
	args[4] = PointerGetDatum(entry->doc->content);
	nulls[4] = entry->doc->content == NULL;
	hold(change, entry, &args[5], &nulls[5]);
	return tq_spi_execute(&stmt_add, args, nulls, SPI_OK_INSERT) > 0;
}

/*
 * With a lease it belongs to the caller, without one to no worker: worker,
 * lease_until.
 */
static void
hold(const TqChange *change, const TqEntry *entry, Datum *args, bool *nulls)
{
	args[0] = CStringGetTextDatum(change->worker);
	args[1] =
		TimestampTzGetDatum(tq_span_after(tq_clock_dispatch(), entry->lease));
	nulls[0] = nulls[1] = entry->lease == 0;
}

/* Lock the documents of the key; return their ids. */
static Datum
lock_docs_of_key(Datum space, Datum key)
{
	Datum      args[2] = {space, key};
	ArrayType *ids;
	Datum     *values;
	uint64     count;
	TqSpi      spi;

	do
	{
		tq_snapshot_renew();
		tq_spi_enter(&spi);
		count = tq_spi_run(&stmt_lock_key, args, NULL, SPI_OK_SELECT, 0);
		values =
			MemoryContextAllocHuge(spi.caller, sizeof(Datum) * (count + 1));
		for (uint64 i = 0; i < count; i++)
			values[i] = Int64GetDatum(tq_spi_int8(i, 1, 0));
		tq_spi_leave(&spi);
		TQ_DEBUG_POINT("docs_locked");
		ids = construct_array(values, (int) count, INT8OID, sizeof(int64),
							  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE);
	} while (are_more(space, key, PointerGetDatum(ids)));
	return PointerGetDatum(ids);
}

/*
 * Have documents been added to the key while the call waited for its other
 * documents?
 */
static bool
are_more(Datum space, Datum key, Datum ids)
{
	Datum args[3] = {space, key, ids};
	bool  more;

	more = tq_spi_exists(&stmt_more, args);
	if (more && IsolationUsesXactSnapshot())
		tq_error_serialization();
	return more;
}

/* Raise TQ010 with the holders if other workers hold some of them. */
static void
require_free(Datum ids, Datum worker)
{
	Datum args[3] = {ids, worker, TimestampTzGetDatum(tq_clock_dispatch())};
	char *detail = NULL;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_held, args, NULL, SPI_OK_SELECT, 0) > 0)
		detail = tq_spi_text(&spi, 0, 1);
	tq_spi_leave(&spi);
	if (detail != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_TQ_CONFLICT),
				 errmsg("documents of the key are leased by another worker"),
				 errdetail_internal("%s", detail),
				 errhint("Nothing was claimed. Claim again when they have "
						 "been released, or their leases have expired.")));
}

/*
 * Claim all of the documents, or release the documents that the worker holds.
 */
static void
take(Datum ids, Datum worker, int64 lease)
{
	Datum args[3] = {
		ids, worker,
		TimestampTzGetDatum(tq_span_after(tq_clock_dispatch(), lease))};

	tq_spi_execute(lease > 0 ? &stmt_take : &stmt_give_back, args, NULL,
				   SPI_OK_UPDATE);
}

static void
tell(Datum ids, ReturnSetInfo *result)
{
	uint64 count;
	TqSpi  spi;

	tq_spi_enter(&spi);
	count = tq_spi_run(&stmt_read, &ids, NULL, SPI_OK_SELECT, 0);
	for (uint64 i = 0; i < count; i++)
	{
		Datum values[DOC_COLUMNS];
		bool  nulls[DOC_COLUMNS];

		for (int column = 0; column < DOC_COLUMNS; column++)
			values[column] = tq_spi_get(i, column + 1, &nulls[column]);
		tq_srf_add(result, values, nulls);
	}
	tq_spi_leave(&spi);
}

static int
compare_names(const void *a, const void *b)
{
	const TqDocument *x = (*(TqEntry *const *) a)->doc;
	const TqDocument *y = (*(TqEntry *const *) b)->doc;
	int               order = strcmp(x->space, y->space);

	if (order == 0)
		order = strcmp(x->key, y->key);
	return order != 0 ? order : strcmp(x->secondary_key, y->secondary_key);
}
