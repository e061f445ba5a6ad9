/*
 * queue.c
 *		Queues, as cached by a session.
 *
 * A queue is read from its tables at first use, with its lanes, and kept in
 * the session until a change is announced (base/catalog.c).  Only
 * tq_queue_refresh discards cached queues.  Every SQL function calls it before
 * it looks up a queue, and again after waiting for a lock.  A pointer to a
 * queue is valid until the next refresh.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/guc.h"
#include "base/spi.h"
#include "cache/lane_row.h"
#include "cache/number.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "xact/xact.h"

typedef struct NameEntry
{
	char     name[TQ_MAX_NAME + 1];
	TqQueue *queue;
} NameEntry;

typedef struct IdEntry
{
	int32    queue_id;
	TqQueue *queue;
} IdEntry;

static MemoryContext cache_context = NULL;
static HTAB         *by_name = NULL;
static HTAB         *by_id = NULL;
static TqQueue      *last_found = NULL; /* often looked up again */
static uint64        cache_generation = 0;
static TqQueue      *all_queues = NULL; /* the row '*', or the defaults */
static char        **all_names = NULL;  /* names of all queues */
static int           all_names_count = 0;
static int           bucket = -1; /* current leaf of the archive */
static int           any_ordered = -1;
static int           any_redacted = -1;

#define QUEUE_COLUMNS                                                         \
	"SELECT q.queue_id, q.name, r.oid, q.options,"                            \
	"       q.paused_at IS NOT NULL, q.paused_until"                          \
	"  FROM taskq.queue q"                                                    \
	"  LEFT JOIN taskq.known_role r ON r.role_id = q.owner_role"

static TqStmt stmt_by_name = {QUEUE_COLUMNS " WHERE q.name = $1", {TEXTOID}};

static TqStmt stmt_by_id = {QUEUE_COLUMNS " WHERE q.queue_id = $1", {INT4OID}};

static TqStmt stmt_every = {QUEUE_COLUMNS
							" WHERE q.queue_id <> 0 ORDER BY q.queue_id"};

static TqStmt stmt_every_lane = {
	"SELECT DISTINCT lane_id, tags, queue_id FROM taskq.lane"
	" ORDER BY queue_id, lane_id"};

static TqStmt stmt_lanes = {
	"SELECT DISTINCT lane_id, tags FROM taskq.lane WHERE queue_id = $1"
	" ORDER BY lane_id",
	{INT4OID}};

static TqStmt stmt_add_queue = {
	"INSERT INTO taskq.queue (queue_id, name, owner_role, options, created_at)"
	" VALUES ($4, $1, $2, '{}', $3) ON CONFLICT (name) DO NOTHING",
	{TEXTOID, INT4OID, TIMESTAMPTZOID, INT4OID}};

static TqStmt stmt_options = {"SELECT q.options, a.options FROM taskq.queue q"
							  "  LEFT JOIN taskq.queue a ON a.queue_id = 0"
							  " WHERE q.queue_id = $1",
							  {INT4OID}};

static TqStmt stmt_ordered = {
	"SELECT FROM taskq.queue"
	" WHERE options ?| ARRAY['key_policy', 'max_running_per_key']"};

static TqStmt stmt_redacted = {
	"SELECT FROM taskq.queue WHERE options ? 'redact'"};

static TqStmt stmt_names = {
	"SELECT name FROM taskq.queue WHERE queue_id <> 0 ORDER BY name"};

static TqStmt stmt_rotation = {
	"SELECT bucket::integer FROM taskq.archive_rotation"};

static TqQueue *make(const char *name);
static void     tell_missing(const char *name);
static void     tell_made(const char *name);
static TqQueue *load(TqStmt *stmt, Datum arg);
static TqQueue *read_queue(TqSpi *spi, uint64 row);
static void     read_lanes(TqQueue *queue);
static void     remember(TqQueue *queue);
static void     load_all_queues(void);

/*
 * Discard what this or another session has changed.  Called at the beginning
 * of each SQL function, and by submit after it has taken its lock.
 */
void
tq_queue_refresh(void)
{
	uint64  generation = tq_catalog_queue_generation();
	HASHCTL ctl = {0};

	if (generation == cache_generation)
		return;
	cache_generation = 0;
	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(TopMemoryContext, "taskq queues",
											  ALLOCSET_DEFAULT_SIZES);
	by_name = by_id = NULL;
	last_found = NULL;
	all_queues = NULL;
	all_names = NULL;
	bucket = any_ordered = any_redacted = -1;
	MemoryContextReset(cache_context);
	ctl.hcxt = cache_context;
	ctl.keysize = TQ_MAX_NAME + 1;
	ctl.entrysize = sizeof(NameEntry);
	by_name = hash_create("taskq queues by name", 32, &ctl,
						  HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	ctl.keysize = sizeof(int32);
	ctl.entrysize = sizeof(IdEntry);
	by_id = hash_create("taskq queues by id", 32, &ctl,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	load_all_queues();
	cache_generation = generation;
}

/* Returns a queue by name, or NULL if it does not exist. */
TqQueue *
tq_queue_find(const char *name)
{
	NameEntry *entry;

	if (last_found != NULL && strcmp(name, last_found->name) == 0)
		return last_found;
	if (strlen(name) > TQ_MAX_NAME)
		return NULL;
	entry = hash_search(by_name, name, HASH_FIND, NULL);
	if (entry != NULL)
		return last_found = entry->queue;
	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		return NULL;
	return load(&stmt_by_name, CStringGetTextDatum(name));
}

TqQueue *
tq_queue_by_id(int32 queue_id)
{
	IdEntry *entry = hash_search(by_id, &queue_id, HASH_FIND, NULL);

	if (entry != NULL)
		return entry->queue;
	if (queue_id == 0)
		return NULL;
	return load(&stmt_by_id, Int32GetDatum(queue_id));
}

/* Read all queues with two statements, instead of two for each, if needed. */
void
tq_queue_load_all(void)
{
	TqQueue **loaded;
	int       names;
	int       count = 0;
	uint64    rows;
	uint64    row = 0;
	TqSpi     spi;

	(void) tq_queue_names(&names);
	if (hash_get_num_entries(by_id) >= names)
		return;
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_every, NULL, NULL, 0);
	loaded = palloc(sizeof(TqQueue *) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		int32 queue_id = tq_spi_int4(i, 1, 0);

		if (hash_search(by_id, &queue_id, HASH_FIND, NULL) == NULL)
			loaded[count++] = read_queue(&spi, i);
	}
	rows = tq_spi_look(&stmt_every_lane, NULL, NULL, 0);
	for (int i = 0; i < count; i++)
	{
		uint64 first;

		while (row < rows && tq_spi_int4(row, 3, 0) < loaded[i]->queue_id)
			row++;
		first = row;
		while (row < rows && tq_spi_int4(row, 3, 0) == loaded[i]->queue_id)
			row++;
		tq_lane_row_read(loaded[i], first, row - first);
		remember(loaded[i]);
	}
	tq_spi_leave(&spi);
}

/*
 * Returns the queue named by a claim, on which current_user must have the
 * right to work.  If the queue does not exist but may be created later,
 * returns NULL; otherwise raises TQ003.
 */
TqQueue *
tq_queue_for_claim(const char *name)
{
	TqQueue *queue;

	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	queue = tq_queue_find(name);
	if (queue != NULL)
	{
		tq_role_require(queue, TQ_RIGHT_WORK);
		return queue;
	}
	if (!tq_guc_auto_create_queues)
		tq_error_no_such_queue(name);
	tq_role_require_all(TQ_RIGHT_WORK);
	tell_missing(name);
	return NULL;
}

/*
 * A worker that claims from a mistyped name would wait for ever.  Raise a
 * NOTICE once per session, since the worker may repeat the call every second.
 */
static void
tell_missing(const char *name)
{
	static bool told = false;

	if (told)
		return;
	told = true;
	ereport(
		NOTICE,
		(errmsg("queue \"%s\" does not exist", name),
		 errhint(
			 "It is created with its first task. Check the name if tasks have been submitted.")));
}

/*
 * Until the end of the transaction taskq_drop_queue() waits for it, and the
 * cached queues are current.
 */
void
tq_queue_lock_insertions(void)
{
	/* acquiring the lock processes invalidations, so the cache may be stale */
	LockRelationOid(tq_catalog()->queue_change, RowExclusiveLock);
	tq_queue_refresh();
}

/*
 * The queue to which a task is submitted.  current_user must have the right to
 * submit, except when the extension itself submits.  A missing queue is
 * created if the settings allow it; the extension's owner owns it.
 */
TqQueue *
tq_queue_for_submit(const char *name, bool by_extension)
{
	TqQueue *queue;

	tq_queue_lock_insertions();
	queue = tq_queue_find(name);
	if (queue != NULL)
	{
		if (!by_extension)
			tq_role_require(queue, TQ_RIGHT_SUBMIT);
		return queue;
	}
	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	if (!tq_guc_auto_create_queues)
		tq_error_no_such_queue(name);
	if (!by_extension)
		tq_role_require_all(TQ_RIGHT_SUBMIT);
	queue = make(name);
	if (!by_extension)
		tell_made(name);
	return queue;
}

/* A mistyped name creates a queue that no worker serves. */
static void
tell_made(const char *name)
{
	const char *hint = tq_error_payload_hint(name);

	ereport(NOTICE, (errmsg("queue \"%s\" was created", name),
					 hint ? errhint("%s", hint) : 0));
}

/*
 * The queue of a step of a live instance.  If it has been dropped since, it is
 * created again, whatever the setting: the instance was started with it and
 * could not continue otherwise.
 */
TqQueue *
tq_queue_for_step(const char *name)
{
	TqQueue *queue;

	tq_queue_lock_insertions();
	queue = tq_queue_find(name);
	return queue != NULL ? queue : make(name);
}

static TqQueue *
make(const char *name)
{
	TqQueue *queue;
	Datum    args[4];
	bool     made;

	args[0] = CStringGetTextDatum(name);
	args[1] = Int32GetDatum(tq_role_intern(tq_catalog()->owner));
	args[2] = TimestampTzGetDatum(tq_clock_wall());
	args[3] = Int32GetDatum(tq_number_of_queue());
	made = tq_spi_execute(&stmt_add_queue, args, NULL, SPI_OK_INSERT) > 0;
	queue = tq_queue_made(name, made);
	if (queue == NULL)
		tq_error_serialization();
	return queue;
}

/*
 * A queue was created, by this or a concurrent transaction.  Returns NULL if
 * it is queue '*' or does not exist.
 */
TqQueue *
tq_queue_made(const char *name, bool by_this)
{
	TqQueue *queue;

	tq_catalog_announce_queue();
	tq_xact_note(TQ_NOTE_WAKE_MADE, 0);
	tq_queue_refresh();
	queue = tq_queue_find(name);
	if (queue != NULL && by_this)
		tq_xact_note(TQ_NOTE_QUEUE_MADE, queue->queue_id);
	return queue;
}

/* The names of all queues, sorted; cached until a change. */
char **
tq_queue_names(int *count)
{
	TqSpi  spi;
	uint64 rows;

	if (all_names == NULL)
	{
		MemoryContext mine;

		tq_spi_enter(&spi);
		rows = tq_spi_look(&stmt_names, NULL, NULL, 0);
		mine = MemoryContextSwitchTo(cache_context);
		all_names = palloc(sizeof(char *) * (rows + 1));
		for (uint64 i = 0; i < rows; i++)
		{
			bool isnull;

			all_names[i] = TextDatumGetCString(tq_spi_get(i, 1, &isnull));
		}
		all_names_count = (int) rows;
		MemoryContextSwitchTo(mine);
		tq_spi_leave(&spi);
	}
	*count = all_names_count;
	return all_names;
}

/* The options that queue '*' sets for all queues. */
const TqOptions *
tq_queue_defaults(void)
{
	return &all_queues->options;
}

/*
 * The current options of a queue, for a caller that has processed
 * invalidations since the call began; the cached queue itself is unchanged.
 */
const TqOptions *
tq_queue_options_now(const TqQueue *queue)
{
	Datum      arg = Int32GetDatum(queue->queue_id);
	TqOptions *options;
	TqSpi      spi;

	if (tq_catalog_queue_generation() == cache_generation)
		return &queue->options;
	options = palloc(sizeof(TqOptions));
	tq_options_default(options);
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_options, &arg, NULL, 1) > 0)
	{
		MemoryContext mine = MemoryContextSwitchTo(spi.caller);

		for (int column = 2; column >= 1; column--)
		{
			Jsonb *named = tq_spi_jsonb(&spi, 0, column);

			if (named != NULL)
				tq_options_read(options, named);
		}
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	return options;
}

/* Does any queue have a key policy? */
bool
tq_queue_any_ordered(void)
{
	if (any_ordered < 0)
		any_ordered = tq_spi_exists(&stmt_ordered, NULL);
	return any_ordered > 0;
}

/* Has any queue, or queue '*', the option redact? */
bool
tq_queue_any_redacted(void)
{
	if (any_redacted < 0)
		any_redacted = tq_spi_exists(&stmt_redacted, NULL);
	return any_redacted > 0;
}

/* Is the queue, or queue '*', paused? */
bool
tq_queue_is_paused(const TqQueue *queue)
{
	TimestampTz until;

	return tq_queue_paused_until(queue, &until);
}

/* Is the queue paused, and until when, according to the cache? */
bool
tq_queue_paused_until(const TqQueue *queue, TimestampTz *until)
{
	TimestampTz now = tq_clock_dispatch();

	*until = now;
	if (queue->paused)
		*until = Max(*until, queue->paused_until);
	if (all_queues->paused)
		*until = Max(*until, all_queues->paused_until);
	return *until > now;
}

/* The leaf of the archive that is currently filled. */
int
tq_queue_bucket(void)
{
	if (bucket < 0)
	{
		TqSpi spi;
		int   found = 0;

		tq_spi_enter(&spi);
		if (tq_spi_look(&stmt_rotation, NULL, NULL, 1) > 0)
			found = tq_spi_int4(0, 1, 0);
		tq_spi_leave(&spi);
		bucket = (found >= 0 && found < TQ_LEAVES) ? found : 0;
	}
	return bucket;
}

static TqQueue *
load(TqStmt *stmt, Datum arg)
{
	TqQueue *queue = NULL;
	TqSpi    spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(stmt, &arg, NULL, 1) > 0)
	{
		queue = read_queue(&spi, 0);
		read_lanes(queue);
	}
	tq_spi_leave(&spi);
	if (queue != NULL)
		remember(queue);
	return queue;
}

/* Build a TqQueue from a row that SPI has just read. */
static TqQueue *
read_queue(TqSpi *spi, uint64 row)
{
	TqQueue      *queue;
	bool          isnull;
	Datum         value;
	Jsonb        *options;
	char         *name = tq_spi_text(spi, row, 2);
	MemoryContext mine;

	value = tq_spi_get(row, 4, &isnull);
	options = DatumGetJsonbP(value);
	mine = MemoryContextSwitchTo(cache_context);
	queue = palloc0(sizeof(TqQueue));
	queue->queue_id = tq_spi_int4(row, 1, 0);
	queue->name = pstrdup(name);
	value = tq_spi_get(row, 3, &isnull);
	queue->owner = isnull ? InvalidOid : DatumGetObjectId(value);
	if (all_queues != NULL)
		queue->options = all_queues->options;
	else
		tq_options_default(&queue->options);
	tq_options_read(&queue->options, options);
	queue->paused = tq_spi_bool(row, 5);
	queue->paused_until = tq_spi_time(row, 6, DT_NOEND);
	MemoryContextSwitchTo(mine);
	return queue;
}

static void
read_lanes(TqQueue *queue)
{
	Datum  arg = Int32GetDatum(queue->queue_id);
	uint64 rows = tq_spi_look(&stmt_lanes, &arg, NULL, 0);

	tq_lane_row_read(queue, 0, rows);
}

static void
remember(TqQueue *queue)
{
	NameEntry *name_entry;
	IdEntry   *id_entry;

	name_entry = hash_search(by_name, queue->name, HASH_ENTER, NULL);
	name_entry->queue = queue;
	id_entry = hash_search(by_id, &queue->queue_id, HASH_ENTER, NULL);
	id_entry->queue = queue;
}

static void
load_all_queues(void)
{
	Datum    arg = Int32GetDatum(0);
	TqQueue *queue = NULL;
	TqSpi    spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_by_id, &arg, NULL, 1) > 0)
		queue = read_queue(&spi, 0);
	tq_spi_leave(&spi);
	if (queue == NULL)
	{
		queue = MemoryContextAllocZero(cache_context, sizeof(TqQueue));
		queue->name = MemoryContextStrdup(cache_context, TQ_QUEUE_ALL);
		tq_options_default(&queue->options);
	}
	all_queues = queue;
}
