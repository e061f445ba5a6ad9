/*
 * worker.c
 *		Worker names: each stands for a registration or a label.
 *
 * A session resolves a name once and keeps the result until a registration or
 * a death is announced (base/catalog.c).
 *
 * A label is the name of a worker that claims without having registered.  It
 * is also a row of taskq.worker, so that tasks can refer to it by number.  It
 * records nothing about the worker except when it last claimed, to the hour
 * (forget_worker.c).
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "nodes/bitmapset.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/spi.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "engine/liveness.h"
#include "engine/own_worker.h"
#include "engine/worker.h"
#include "store/snapshot.h"
#include "xact/metric_note.h"
#include "xact/xact.h"

/* What a session knows about a name. */
typedef struct KnownWorker
{
	char          name[TQ_MAX_NAME + 1];
	int32         worker_id; /* 0: neither registered nor a label */
	TqWorkerState state;
	Oid           role;
	TqTags        tags;
	bool          draining;
	int           max_running;
	char        **queues; /* NULL: all queues */
	int           queue_count;
	TimestampTz   used_at;     /* of a label, from its row */
	int64         incarnation; /* of a registration: its process */
} KnownWorker;

/* And about a role. */
typedef struct KnownRole
{
	int32 role_id;
	Oid   role;
} KnownRole;

static MemoryContext known_context = NULL;
static HTAB         *known = NULL;
static HTAB         *known_roles = NULL;
static uint64        known_generation = 0;

#define SELECT_WORKER                                                         \
	"SELECT w.worker_id, w.state::integer, w.role_id, w.tags, w.draining,"    \
	"       w.max_running, w.queues, w.registered_at, w.incarnation"          \
	"  FROM taskq.worker w"

/* Each uses an index of its own. */
static TqStmt stmt_find_living = {
	SELECT_WORKER " WHERE w.name = $1 AND w.state = " TQ_SQL_WORKER_ACTIVE,
	{TEXTOID}};

static TqStmt stmt_find_past = {
	SELECT_WORKER " WHERE w.name = $1 AND w.state <> " TQ_SQL_WORKER_LABEL
				  " ORDER BY w.registered_at DESC LIMIT 1",
	{TEXTOID}};

static TqStmt stmt_find_label = {
	SELECT_WORKER " WHERE w.name = $1 AND w.state = " TQ_SQL_WORKER_LABEL
				  " ORDER BY w.registered_at DESC, w.worker_id LIMIT 1",
	{TEXTOID}};

/* Does not wait for another session that uses the label. */
static TqStmt stmt_use_label = {
	"UPDATE taskq.worker SET registered_at = $2"
	" WHERE worker_id = (SELECT w.worker_id FROM taskq.worker w"
	"                     WHERE w.worker_id = $1"
	"                       AND w.state = " TQ_SQL_WORKER_LABEL
	"                       FOR UPDATE SKIP LOCKED)",
	{INT4OID, TIMESTAMPTZOID}};

/* The label has no owner, and a claim does not wait for other transactions. */
static TqStmt stmt_add_label = {
	"INSERT INTO taskq.worker"
	" (worker_id, name, state, role_id, tags, registered_at)"
	" VALUES ($3, $1, " TQ_SQL_WORKER_LABEL ", 0, '{}', $2)"
	" ON CONFLICT DO NOTHING",
	{TEXTOID, TIMESTAMPTZOID, INT4OID}};

/* After its last number the sequence starts again from its first. */
static TqStmt stmt_number = {
	"SELECT n.id::integer,"
	"       EXISTS (SELECT FROM taskq.worker w WHERE w.worker_id = n.id)"
	"  FROM (SELECT nextval('taskq.worker_id_seq') AS id) n"};

static TqStmt stmt_name = {
	"SELECT name FROM taskq.worker WHERE worker_id = $1", {INT4OID}};

static KnownWorker *look_up(const char *name);
static KnownWorker *look_up_caller(const char *name, const int64 *incarnation);
static bool         is_label(const KnownWorker *worker, const char *name);
static void         forget_known(void);
static void   read_known(KnownWorker *worker, TqStmt *stmt, const char *name);
static Oid    role_of(int32 role_id);
static bool   label_is_fresh(const KnownWorker *worker);
static void   use_label(KnownWorker *worker, const char *name);
static bool   write_label(TqStmt *stmt, Datum which, TimestampTz now,
						  int32 number, int expected);
static void   tell(const KnownWorker *worker, TqWorker *result);
static char **strings_of(Datum array, int *count);
static void   require_name(const KnownWorker *worker, const char *name);
static KnownWorker *require_active(KnownWorker *worker, const char *name);

/*
 * Find the worker that a claim names.  A registered worker must be alive, and
 * current_user must be allowed to use its name; any other name is a label.
 * Raises TQ007 if another process has replaced the caller.
 */
void
tq_worker_for_claim(const char *name, const int64 *incarnation,
					TqWorker *result)
{
	KnownWorker *worker = look_up_caller(name, incarnation);

	if (worker->worker_id != 0 && worker->state == TQ_WORKER_DEAD)
		tq_error_no_such_worker(name, true);
	if (worker->worker_id != 0 && worker->state == TQ_WORKER_ACTIVE)
		tell(worker, result);
	else if (incarnation != NULL ||
			 tq_own_worker_is_replaced(name, worker->incarnation))
		tq_error_no_such_worker(name, false);
	else if (!label_is_fresh(worker))
		use_label(worker, name);
	result->worker_id = worker->worker_id;
}

/*
 * Find the worker for a call that claims no task: a label has no effect on
 * such a call, and is not written.
 */
void
tq_worker_if_registered(const char *name, TqWorker *result)
{
	if (!is_label(look_up(name), name))
		tq_worker_for_claim(name, NULL, result);
}

/*
 * Would a claim by that name have to write a row first?  If so, it is a label
 * that was not used recently.
 */
bool
tq_worker_is_new(const char *name)
{
	KnownWorker *worker = look_up(name);

	if (!is_label(worker, name))
		return false;
	if (!label_is_fresh(worker))
		read_known(worker, &stmt_find_label, name);
	return !label_is_fresh(worker);
}

/*
 * Return the names of all queues of a registered worker, in turn.  They are
 * copies, since the session's cache may be refreshed between two queues.
 */
char **
tq_worker_queues(const TqWorker *worker, uint32 turn, int *count)
{
	char **names = worker->queues;
	char **copies;

	*count = worker->queue_count;
	if (names == NULL)
		names = tq_queue_names(count);
	copies = palloc(sizeof(char *) * (*count + 1));
	for (int i = 0; i < *count; i++)
		copies[i] = pstrdup(names[(turn + (uint32) i) % (uint32) *count]);
	return copies;
}

/*
 * Return the number of a worker.  Raises TQ007 unless it is registered and
 * alive, and its name belongs to the caller.
 */
int32
tq_worker_active(const char *name, const int64 *incarnation)
{
	KnownWorker *worker = require_active(look_up(name), name);

	tq_worker_require_process(name, worker->incarnation, incarnation);
	return worker->worker_id;
}

/* Like the function above, and record a heartbeat. */
void
tq_worker_registered(const char *name, const int64 *incarnation,
					 TqWorker *result)
{
	KnownWorker *worker =
		require_active(look_up_caller(name, incarnation), name);

	tell(worker, result);
	result->worker_id = worker->worker_id;
}

/*
 * Look up a name, without a heartbeat; TQ_WORKER_NONE if it was never used.  A
 * registration by another role is only visible if may_read is true.
 */
TqWorkerState
tq_worker_look(const char *name, bool may_read, TqWorker *result)
{
	KnownWorker *worker = look_up(name);

	memset(result, 0, sizeof(*result));
	if (worker->worker_id == 0)
		return TQ_WORKER_NONE;
	if (!may_read &&
		(worker->state == TQ_WORKER_ACTIVE || worker->state == TQ_WORKER_DEAD))
		require_name(worker, name);
	if (worker->state == TQ_WORKER_ACTIVE)
		tell(worker, result);
	result->worker_id = worker->worker_id;
	result->incarnation = worker->incarnation;
	return worker->state;
}

static void
tell(const KnownWorker *worker, TqWorker *result)
{
	result->registered = true;
	result->role = worker->role;
	result->tags = worker->tags;
	result->draining = worker->draining;
	result->max_running = worker->max_running;
	result->queues = worker->queues;
	result->queue_count = worker->queue_count;
	result->incarnation = worker->incarnation;
	result->generation = known_generation;
}

/* Has nothing been announced since a registered worker was looked up? */
bool
tq_worker_is_current(const TqWorker *worker)
{
	return !worker->registered ||
		   worker->generation == tq_catalog_worker_generation();
}

/*
 * Return the name of the worker with this number, or NULL if it does not
 * exist.
 */
char *
tq_worker_name(int32 worker_id)
{
	TqSpi spi;
	Datum arg = Int32GetDatum(worker_id);
	char *name = NULL;

	if (worker_id == 0)
		return NULL;
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_name, &arg, NULL, 1) > 0)
		name = tq_spi_text(&spi, 0, 1);
	tq_spi_leave(&spi);
	return name;
}

/*
 * Look up a name: the active worker, else the newest former one, else the
 * label; worker_id is 0 if it was never used.
 */
static KnownWorker *
look_up(const char *name)
{
	KnownWorker *worker;
	bool         found;

	if (known == NULL || known_generation != tq_catalog_worker_generation())
		forget_known();
	worker = hash_search(known, name, HASH_FIND, NULL);
	if (worker != NULL)
		return worker;

	/* not cached if reading it fails */
	worker = palloc0(sizeof(KnownWorker));
	read_known(worker, &stmt_find_living, name);
	if (worker->worker_id == 0)
		read_known(worker, &stmt_find_past, name);
	if (worker->worker_id == 0)
		read_known(worker, &stmt_find_label, name);
	if (worker->worker_id != 0)
	{
		KnownWorker *kept = hash_search(known, name, HASH_ENTER, &found);

		memcpy((char *) kept + sizeof(kept->name),
			   (char *) worker + sizeof(worker->name),
			   sizeof(KnownWorker) - sizeof(worker->name));
		return kept;
	}
	return worker;
}

/* Empty the cache: something was announced, or nothing is cached yet. */
static void
forget_known(void)
{
	HASHCTL ctl = {0};

	if (known_context == NULL)
		known_context = AllocSetContextCreate(
			TopMemoryContext, "taskq workers", ALLOCSET_SMALL_SIZES);
	known = NULL;
	MemoryContextReset(known_context);
	ctl.hcxt = known_context;
	ctl.keysize = sizeof(int32);
	ctl.entrysize = sizeof(KnownRole);
	known_roles = hash_create("taskq workers' roles", 16, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	ctl.keysize = TQ_MAX_NAME + 1;
	ctl.entrysize = sizeof(KnownWorker);
	known = hash_create("taskq workers", 16, &ctl,
						HASH_ELEM | HASH_STRINGS | HASH_CONTEXT);
	known_generation = tq_catalog_worker_generation();
}

/*
 * Look up a name.  If it is a registered worker, current_user and the calling
 * process must be allowed to act for it, and the call counts as a heartbeat.
 */
static KnownWorker *
look_up_caller(const char *name, const int64 *incarnation)
{
	for (;;)
	{
		KnownWorker *worker = look_up(name);

		if (worker->worker_id == 0 || worker->state != TQ_WORKER_ACTIVE)
			return worker;
		require_name(worker, name);
		tq_worker_require_process(name, worker->incarnation, incarnation);
		if (tq_liveness_touch(worker->worker_id))
			return worker;
		/* it has ended, which this session did not know */
		tq_catalog_forget();
	}
}

/*
 * Raise TQ007 unless the caller is the process that made the registration.
 * This is decided by the caller's incarnation, if it gives one.  Otherwise the
 * session must not have registered the name itself before that registration.
 * A session that has not registered the name at all may act for the worker.
 */
void
tq_worker_require_process(const char *name, int64 registered,
						  const int64 *incarnation)
{
	if (incarnation != NULL ? *incarnation != registered
							: tq_own_worker_is_replaced(name, registered))
		tq_error_worker_again(name);
}

/* Is the name only a label to the caller, under which it may claim? */
static bool
is_label(const KnownWorker *worker, const char *name)
{
	if (worker->worker_id != 0 &&
		(worker->state == TQ_WORKER_ACTIVE || worker->state == TQ_WORKER_DEAD))
		return false;
	return !tq_own_worker_is_replaced(name, worker->incarnation);
}

static void
read_known(KnownWorker *worker, TqStmt *stmt, const char *name)
{
	TqSpi spi;
	Datum arg = CStringGetTextDatum(name);
	int32 role_id = 0;

	worker->worker_id = 0;
	tq_spi_enter(&spi);
	if (tq_spi_look(stmt, &arg, NULL, 1) > 0)
	{
		MemoryContext mine = MemoryContextSwitchTo(known_context);
		bool          isnull;
		Datum         value;

		worker->worker_id = tq_spi_int4(0, 1, 0);
		worker->state = (TqWorkerState) tq_spi_int4(0, 2, 0);
		role_id = tq_spi_int4(0, 3, 0);
		worker->tags.tags =
			strings_of(tq_spi_get(0, 4, &isnull), &worker->tags.count);
		tq_arg_tags_sort(&worker->tags);
		worker->draining = tq_spi_bool(0, 5);
		worker->max_running = tq_spi_int4(0, 6, 0);
		value = tq_spi_get(0, 7, &isnull);
		worker->queues = isnull ? NULL
								: strings_of(value, &worker->queue_count);
		worker->used_at = tq_spi_time(0, 8, 0);
		worker->incarnation = tq_spi_int8(0, 9, 0);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	worker->role = role_of(role_id);
}

/* Return the OID of a role's number: few roles have many workers. */
static Oid
role_of(int32 role_id)
{
	KnownRole *entry;
	Oid        role;

	if (role_id == 0) /* a label's */
		return InvalidOid;
	entry = hash_search(known_roles, &role_id, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->role;
	role = tq_role_oid(role_id);
	entry = hash_search(known_roles, &role_id, HASH_ENTER, NULL);
	entry->role = role;
	return role;
}

/*
 * May a claim use the label as it is cached?  Its row records to the hour when
 * it was last used, and is only removed two hours after that, when no older
 * transaction is still open (forget_worker.c): so the row exists until the
 * claim is visible.
 */
static bool
label_is_fresh(const KnownWorker *worker)
{
	return worker->worker_id != 0 && worker->state == TQ_WORKER_LABEL &&
		   tq_clock_wall() - worker->used_at < USECS_PER_HOUR;
}

/*
 * Mark a label as used now.  Create a new one if there is none, or if another
 * session has locked it, which may be removing it.
 */
static void
use_label(KnownWorker *worker, const char *name)
{
	TimestampTz now = tq_clock_wall();

	read_known(worker, &stmt_find_label, name);
	if (label_is_fresh(worker))
		return;
	tq_xact_session_cache_changed();
	if (worker->worker_id != 0)
	{
		bool used = write_label(&stmt_use_label,
								Int32GetDatum(worker->worker_id), now, 0,
								SPI_OK_UPDATE);

		if (used)
			worker->used_at = now;

		/*
		 * the session that has locked it uses it, too: there is time to retry
		 */
		if (used || now - worker->used_at < TQ_LABEL_KEPT)
			return;
	}
	if (!write_label(&stmt_add_label, CStringGetTextDatum(name), now,
					 tq_worker_draw_number(), SPI_OK_INSERT))
		tq_snapshot_renew();
	read_known(worker, &stmt_find_label, name);
	if (worker->worker_id == 0)
		tq_error_serialization();
}

/*
 * Return a number that no row has.  A row is only removed when nothing refers
 * to it (forget_worker.c), so its number may be given to another worker.
 */
int32
tq_worker_draw_number(void)
{
	TqSpi spi;
	int32 number;
	bool  taken;

	do
	{
		CHECK_FOR_INTERRUPTS();
		tq_spi_enter(&spi);
		tq_spi_run(&stmt_number, NULL, NULL, SPI_OK_SELECT, 0);
		number = tq_spi_int4(0, 1, 0);
		taken = tq_spi_bool(0, 2);
		tq_spi_leave(&spi);
	} while (taken);
	return number;
}

/*
 * Write the row of a label: its name, when it was used, and its number if it
 * is new.  Returns false if no row was written.
 */
static bool
write_label(TqStmt *stmt, Datum which, TimestampTz now, int32 number,
			int expected)
{
	Datum args[3];

	args[0] = which;
	args[1] = TimestampTzGetDatum(now);
	args[2] = Int32GetDatum(number);
	return tq_spi_execute(stmt, args, NULL, expected) > 0;
}

/* Return the strings of a text[]. */
static char **
strings_of(Datum array, int *count)
{
	Datum *values;
	bool  *nulls;
	char **strings;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false,
					  TYPALIGN_INT, &values, &nulls, count);
	strings = palloc(sizeof(char *) * (*count + 1));
	for (int i = 0; i < *count; i++)
		strings[i] = nulls[i] ? pstrdup("") : TextDatumGetCString(values[i]);
	return strings;
}

/* A worker may be used by the role that registered it, and by managers. */
bool
tq_worker_may_be(Oid role)
{
	if (OidIsValid(role) && has_privs_of_role(GetUserId(), role))
		return true;
	return (tq_role_rights_all() & TQ_RIGHT_MANAGE) != 0;
}

static void
require_name(const KnownWorker *worker, const char *name)
{
	if (tq_worker_may_be(worker->role))
		return;
	ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					errmsg("permission denied for worker \"%s\"", name),
					errdetail("The worker was registered by another role.")));
}

/* Raise TQ007 unless the worker is registered and not dead. */
static KnownWorker *
require_active(KnownWorker *worker, const char *name)
{
	if (worker->worker_id == 0 || worker->state == TQ_WORKER_LABEL ||
		worker->state == TQ_WORKER_GONE)
		tq_error_no_such_worker(name, false);
	require_name(worker, name);
	if (worker->state == TQ_WORKER_DEAD)
		tq_error_no_such_worker(name, true);
	return worker;
}

/*
 * Run a statement that ends a registration and returns its queues, which are
 * allocated in the caller's memory; return false if there was none to end.
 */
bool
tq_worker_end_row(TqStmt *stmt, const Datum *args, Datum *queues)
{
	TqSpi spi;
	bool  ended;

	tq_spi_enter(&spi);
	ended = tq_spi_run(stmt, args, NULL, SPI_OK_UPDATE_RETURNING, 0) > 0;
	if (ended)
		*queues = tq_spi_array(&spi, 0, 1);
	tq_spi_leave(&spi);
	return ended;
}

/*
 * Count an event of a registration that names these queues (text[]; 0 is
 * NULL): once for each queue that exists, or without a queue if none exists.
 *
 * The lock prevents a queue from being dropped before this transaction has
 * published its counts, which would otherwise reappear after the queue's
 * metrics were removed.  Nothing waits here for a queue that is being dropped
 * or altered: a registration holds the lock already, and what duties count in
 * the meantime is counted without a queue.
 */
void
tq_worker_count(Datum queues, TqMetric metric)
{
	Bitmapset *counted = NULL;
	char     **names = NULL;
	int        count = 0;

	if (!tq_metric_ready())
		return;
	if (queues != (Datum) 0 &&
		ConditionalLockRelationOid(tq_catalog()->queue_change,
								   RowExclusiveLock))
	{
		tq_queue_refresh();
		names = strings_of(queues, &count);
	}
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = tq_queue_find(names[i]);

		if (queue != NULL && !bms_is_member(queue->queue_id, counted))
		{
			tq_metric_note_count(queue->queue_id, metric, 1);
			counted = bms_add_member(counted, queue->queue_id);
		}
	}
	if (counted == NULL)
		tq_metric_note_count(0, metric, 1);
	bms_free(counted);
}
