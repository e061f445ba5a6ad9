/*
 * queue_admin.c
 *		Queues: create, alter, drop, pause, resume.
 *
 * Every change is announced to all sessions (base/catalog.c). drop_queue waits
 * for submits in progress: it locks taskq.queue_change, which each insertion
 * of a task locks too. alter_queue does the same if it changes how tasks of a
 * key wait for each other, and then also waits for transactions that move
 * tasks with keys.  Both try to get the lock for 50 ms at a time, so that
 * submits queued behind them never wait for long, and give up after 5 s, or
 * after lock_timeout if that is shorter.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "base/arg.h"
#include "base/catalog.h"
#include "base/clock.h"
#include "base/debug.h"
#include "base/error.h"
#include "base/spi.h"
#include "base/subxact.h"
#include "cache/number.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "command/drop_steps.h"
#include "command/queue_admin.h"
#include "engine/call.h"
#include "engine/change_log.h"
#include "engine/state.h"
#include "shared/counter.h"
#include "shared/leaf_change.h"
#include "shared/reservation.h"
#include "store/snapshot.h"
#include "xact/count_note.h"
#include "xact/position_note.h"
#include "xact/xact.h"

#define DROP_TRY_MS 50     /* one attempt to get the lock */
#define DROP_PAUSE_MS 50   /* between two attempts */
#define DROP_LIMIT_MS 5000 /* all attempts */

PG_FUNCTION_INFO_V1(taskq_create_queue);
PG_FUNCTION_INFO_V1(taskq_alter_queue);
PG_FUNCTION_INFO_V1(taskq_drop_queue);
PG_FUNCTION_INFO_V1(taskq_pause);
PG_FUNCTION_INFO_V1(taskq_resume);

static TqStmt stmt_create = {
	"INSERT INTO taskq.queue (queue_id, name, owner_role, options, created_at)"
	" VALUES ($5, $1, $2, $3, $4) ON CONFLICT (name) DO NOTHING",
	{TEXTOID, INT4OID, JSONBOID, TIMESTAMPTZOID, INT4OID}};

static TqStmt stmt_create_all = {
	"INSERT INTO taskq.queue (queue_id, name, owner_role, options, created_at)"
	" VALUES (0, '*', $1, '{}', $2) ON CONFLICT DO NOTHING",
	{INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_options = {
	"SELECT options FROM taskq.queue WHERE queue_id = $1 FOR UPDATE",
	{INT4OID}};

static TqStmt stmt_alter = {
	"UPDATE taskq.queue SET options = $2 WHERE queue_id = $1",
	{INT4OID, JSONBOID}};

static TqStmt stmt_pause = {
	"UPDATE taskq.queue SET paused_at = $2, pause_reason = $3,"
	"       paused_until = $4 WHERE queue_id = $1",
	{INT4OID, TIMESTAMPTZOID, TEXTOID, TIMESTAMPTZOID}};

static TqStmt stmt_any_live = {
	"SELECT EXISTS (SELECT FROM taskq.task WHERE queue_id = $1)", {INT4OID}};

static TqStmt stmt_lock_live = {
	"SELECT (SELECT count(*) FROM taskq.task WHERE queue_id = $1)"
	"     = (SELECT count(*) FROM (SELECT FROM taskq.task"
	"         WHERE queue_id = $1 ORDER BY task_id"
	"           FOR UPDATE SKIP LOCKED) s)",
	{INT4OID}};

static TqStmt stmt_drop_live = {
	"WITH ordered AS MATERIALIZED (SELECT task_id FROM taskq.task"
	"   WHERE queue_id = $1 ORDER BY task_id FOR UPDATE),"
	" gone AS (DELETE FROM taskq.task t USING ordered o"
	"   WHERE t.task_id = o.task_id"
	"   RETURNING t.task_id, t.state, t.worker_id),"
	" parts AS (DELETE FROM taskq.large l USING gone g"
	"   WHERE l.task_id = g.task_id)"
	"SELECT task_id, state::integer, worker_id FROM gone",
	{INT4OID}};

/* Steps remain as long as their instances. */
static TqStmt stmt_drop_finished = {
	"WITH gone AS (DELETE FROM taskq.archive"
	"               WHERE queue_id = $1 AND workflow_id IS NULL"
	"              RETURNING task_id, bucket),"
	" parts AS (DELETE FROM taskq.large l USING gone g"
	"           WHERE l.task_id = g.task_id)"
	"SELECT count(*), bit_or(1 << bucket) FROM gone",
	{INT4OID}};

static TqStmt stmt_drop_rest = {
	"WITH lanes AS (DELETE FROM taskq.lane WHERE queue_id = $1),"
	" keys AS (DELETE FROM taskq.key WHERE queue_id = $1),"
	" grants AS (DELETE FROM taskq.queue_grant WHERE queue_id = $1),"
	" minutes AS (DELETE FROM taskq.metric_minute WHERE queue_id = $1"
	"   AND slot = ANY"
	"       (ARRAY(SELECT generate_series(0, 1439)::smallint)))"
	"DELETE FROM taskq.queue WHERE queue_id = $1",
	{INT4OID}};

static char *until_detail(TimestampTz until);
static char *json_of(Jsonb *options);
static bool  concerns_keys(Jsonb *changes);
static void  rearrange(TqCall *call, int32 queue_id);
static int32 row_of_all_queues(void);
static void  check_dead_letter_queue(Jsonb *options);
static void  lock_out_submits(Datum queue_id, bool force);
static int   no_longer_than_lock_timeout(int ms);
static bool  try_lock(int64 longest_ms);
static void  lock_briefly(void *arg);
static bool  lock_tasks(Datum queue_id);

Datum
taskq_create_queue(PG_FUNCTION_ARGS)
{
	char  *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	Jsonb *options = tq_arg_jsonb(fcinfo, 1);
	bool   if_not_exists = tq_arg_bool(fcinfo, 2, false);
	char  *reason = tq_arg_message(fcinfo, 3);
	Jsonb *empty =
		DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum("{}")));
	TqCall call;
	Datum  args[5];
	bool   created;

	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	tq_call_begin(&call, "taskq_create_queue()");
	tq_role_require_all(TQ_RIGHT_MANAGE);
	if (options != NULL)
		check_dead_letter_queue(options);
	options = tq_options_merge(empty, options != NULL ? options : empty,
							   tq_queue_defaults());

	args[0] = CStringGetTextDatum(name);
	args[1] = Int32GetDatum(tq_role_intern(GetUserId()));
	args[2] = JsonbPGetDatum(options);
	args[3] = TimestampTzGetDatum(tq_clock_wall());
	args[4] = Int32GetDatum(tq_number_of_queue());
	created = tq_spi_execute(&stmt_create, args, NULL, SPI_OK_INSERT) > 0;
	if (!created && !if_not_exists)
		tq_error_queue_exists(name);
	if (created)
	{
		(void) tq_queue_made(name, true);
		tq_change_log_add("create_queue", name, name, json_of(options),
						  reason);
	}
	tq_call_end(&call);
	PG_RETURN_BOOL(created);
}

Datum
taskq_alter_queue(PG_FUNCTION_ARGS)
{
	char         *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	Jsonb        *changes = tq_arg_jsonb(fcinfo, 1);
	char         *reason = tq_arg_message(fcinfo, 2);
	TqCall        call;
	TqSpi         spi;
	Datum         args[2];
	Jsonb        *before;
	TqOptions     plain;
	MemoryContext mine;
	bool          all = strcmp(name, TQ_QUEUE_ALL) == 0;
	bool          moves_lines;

	if (changes == NULL)
		tq_error_required("options");
	tq_call_begin(&call, "taskq_alter_queue()");
	args[0] = Int32GetDatum(tq_queue_admin_to_change(name, TQ_RIGHT_MANAGE));
	check_dead_letter_queue(changes);
	moves_lines = concerns_keys(changes);
	if (moves_lines)
		lock_out_submits(args[0], false);
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_options, args, NULL, SPI_OK_SELECT, 0) == 0)
		tq_error_no_such_queue(name);
	mine = MemoryContextSwitchTo(spi.caller);
	tq_options_default(&plain);
	before = tq_spi_jsonb(&spi, 0, 1);
	args[1] = JsonbPGetDatum(
		tq_options_merge(before, changes, all ? &plain : tq_queue_defaults()));
	MemoryContextSwitchTo(mine);
	tq_spi_run(&stmt_alter, args, NULL, SPI_OK_UPDATE, 0);
	tq_spi_leave(&spi);
	/*
	 * before other sessions see the change: max_running may be set or unset
	 */
	if (all)
		tq_counter_flag();
	else
		tq_reservation_invalidate(TQ_OWNER_QUEUE, DatumGetInt32(args[0]));
	tq_catalog_announce_queue();
	tq_xact_note(TQ_NOTE_WAKE_QUEUE, DatumGetInt32(args[0]));
	tq_xact_note(TQ_NOTE_RESCAN, 0);
	if (moves_lines)
		rearrange(&call, DatumGetInt32(args[0]));
	tq_change_log_add("alter_queue", name, name, json_of(changes), reason);
	tq_call_end(&call);
	PG_RETURN_VOID();
}

Datum
taskq_drop_queue(PG_FUNCTION_ARGS)
{
	char  *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	bool   force = tq_arg_bool(fcinfo, 1, false);
	char  *reason = tq_arg_message(fcinfo, 2);
	TqCall call;
	TqSpi  spi;
	Datum  arg;
	int64  removed = 0;
	bool   live;

	if (strcmp(name, TQ_QUEUE_ALL) == 0)
		tq_error_invalid("queue", "must be the name of one queue", NULL);
	tq_call_begin(&call, "taskq_drop_queue()");
	arg = Int32GetDatum(tq_queue_admin_to_change(name, TQ_RIGHT_MANAGE));
	/*
	 * Before other sessions have to wait, and again below for steps added
	 * since.
	 */
	if (force)
		tq_drop_steps(&call, DatumGetInt32(arg), DROP_LIMIT_MS);
	lock_out_submits(arg, force);
	if (force)
		tq_drop_steps(&call, DatumGetInt32(arg), DROP_TRY_MS);
	tq_snapshot_renew();
	TQ_DEBUG_POINT("drop_queue_locked");

	tq_spi_enter(&spi);
	tq_spi_run(&stmt_any_live, &arg, NULL, SPI_OK_SELECT, 0);
	live = tq_spi_bool(0, 1);
	if (live && !force)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot drop queue \"%s\" because it still has live tasks",
					name),
			 errhint("Finish or cancel the tasks, or use force => true.")));
	if (live)
	{
		uint64 rows;

		tq_xact_begin();
		tq_position_note_all_taken();
		rows = tq_spi_run(&stmt_drop_live, &arg, NULL, SPI_OK_SELECT, 0);
		for (uint64 i = 0; i < rows; i++)
		{
			int32 queue_id = DatumGetInt32(arg);
			int   state = tq_spi_int4(i, 2, 0);

			tq_count_note_move(queue_id, state, TQ_STATE_NONE);
			if (state == TQ_STATE_RUNNING)
				tq_xact_stopped(tq_spi_int8(i, 1, 0), PG_INT64_MAX, queue_id,
								tq_spi_int4(i, 3, 0));
		}
		removed += (int64) rows;
	}
	tq_spi_run(&stmt_drop_finished, &arg, NULL, SPI_OK_SELECT, 0);
	removed += tq_spi_int8(0, 1, 0);
	tq_leaf_change_note_all(tq_spi_int4(0, 2, 0));
	tq_spi_run(&stmt_drop_rest, &arg, NULL, SPI_OK_DELETE, 0);
	tq_spi_leave(&spi);
	/*
	 * counts of other transactions must not be reported after the queue is
	 * gone
	 */
	tq_counter_wait_for_ended();
	tq_xact_note(TQ_NOTE_QUEUE_GONE, DatumGetInt32(arg));
	tq_catalog_announce_queue();
	tq_change_log_add("drop_queue", name, name,
					  psprintf("{\"tasks\": " INT64_FORMAT "}", removed),
					  reason);
	tq_call_end(&call);
	PG_RETURN_INT64(removed);
}

Datum
taskq_pause(PG_FUNCTION_ARGS)
{
	char       *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	char       *reason = tq_arg_message(fcinfo, 1);
	TimestampTz until = 0;
	bool        has_until = tq_arg_time(fcinfo, 2, "until", &until);
	TqCall      call;
	Datum       args[4];
	bool        nulls[4] = {false};

	if (has_until && until <= tq_clock_wall())
		tq_error_invalid("until", "is in the past", NULL);
	tq_call_begin(&call, "taskq_pause()");
	args[0] = Int32GetDatum(tq_queue_admin_to_change(name, TQ_RIGHT_MANAGE));
	args[1] = TimestampTzGetDatum(tq_clock_wall());
	nulls[2] = reason == NULL;
	args[2] = nulls[2] ? (Datum) 0 : CStringGetTextDatum(reason);
	args[3] = TimestampTzGetDatum(until);
	nulls[3] = !has_until;
	tq_spi_execute(&stmt_pause, args, nulls, SPI_OK_UPDATE);
	tq_catalog_announce_queue();
	tq_xact_note(TQ_NOTE_WAKE_QUEUE, DatumGetInt32(args[0]));
	if (has_until)
		tq_xact_due(until);
	tq_change_log_add("pause", name, name,
					  has_until ? until_detail(until) : NULL, reason);
	tq_call_end(&call);
	PG_RETURN_VOID();
}

Datum
taskq_resume(PG_FUNCTION_ARGS)
{
	char  *name = tq_arg_name(fcinfo, 0, "queue", NULL);
	char  *reason = tq_arg_message(fcinfo, 1);
	TqCall call;
	Datum  args[4];
	bool   nulls[4] = {false, true, true, true};

	tq_call_begin(&call, "taskq_resume()");
	args[0] = Int32GetDatum(tq_queue_admin_to_change(name, TQ_RIGHT_MANAGE));
	args[1] = args[2] = args[3] = (Datum) 0;
	tq_spi_execute(&stmt_pause, args, nulls, SPI_OK_UPDATE);
	tq_catalog_announce_queue();
	tq_xact_note(TQ_NOTE_WAKE_QUEUE, DatumGetInt32(args[0]));
	tq_change_log_add("resume", name, name, NULL, reason);
	tq_call_end(&call);
	PG_RETURN_VOID();
}

static char *
until_detail(TimestampTz until)
{
	int  utc = 0;
	char text[MAXDATELEN + 1];

	JsonEncodeDateTime(text, TimestampTzGetDatum(until), TIMESTAMPTZOID, &utc);
	return psprintf("{\"until\": \"%s\"}", text);
}

static char *
json_of(Jsonb *options)
{
	return JsonbToCString(NULL, &options->root, VARSIZE(options));
}

/*
 * Return the number of a queue that current_user may change.  For '*' that is
 * 0, and its row is created if it is missing.
 */
int32
tq_queue_admin_to_change(const char *name, TqRight right)
{
	TqQueue *queue;

	if (strcmp(name, TQ_QUEUE_ALL) == 0)
	{
		tq_role_require_all(right);
		return row_of_all_queues();
	}
	queue = tq_queue_find(name);
	if (queue == NULL)
		tq_error_no_such_queue(name);
	tq_role_require(queue, right);
	return queue->queue_id;
}

/*
 * The extension submits to the queue named in the options.  Only a role that
 * can submit there may name it.
 */
static void
check_dead_letter_queue(Jsonb *options)
{
	TqOptions wanted;
	TqQueue  *queue;

	tq_options_default(&wanted);
	tq_options_check_size(options);
	tq_options_read(&wanted, options);
	if (wanted.dead_letter_queue == NULL)
		return;
	queue = tq_queue_find(wanted.dead_letter_queue);
	if (queue != NULL)
		tq_role_require(queue, TQ_RIGHT_SUBMIT);
	else
		tq_role_require_all(TQ_RIGHT_SUBMIT);
}

/* Do the changes affect how tasks of the same key wait for each other? */
static bool
concerns_keys(Jsonb *changes)
{
	static const char *const names[] = {"key_policy", "max_running_per_key",
										"order"};

	for (int i = 0; i < lengthof(names); i++)
	{
		if (getKeyJsonValueFromContainer(&changes->root, names[i],
										 strlen(names[i]), NULL) != NULL)
			return true;
	}
	return false;
}

/*
 * Rearrange the tasks of a queue, or with 0 of all queues, in the new order.
 */
static void
rearrange(TqCall *call, int32 queue_id)
{
	int    count = 1;
	char **names = NULL;

	tq_queue_refresh();
	if (queue_id == 0)
		names = tq_queue_names(&count);
	for (int i = 0; i < count; i++)
	{
		TqQueue *queue = queue_id == 0 ? tq_queue_find(names[i])
									   : tq_queue_by_id(queue_id);

		CHECK_FOR_INTERRUPTS();
		if (queue != NULL)
			tq_state_hooks.rearrange(call, queue);
	}
}

static int32
row_of_all_queues(void)
{
	Datum args[2];

	args[0] = Int32GetDatum(tq_role_intern(tq_catalog()->owner));
	args[1] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_execute(&stmt_create_all, args, NULL, SPI_OK_INSERT);
	return 0;
}

/*
 * Wait for submits in progress, and block later ones until the transaction
 * ends.  With force, also lock the rows of the queue's tasks, and only succeed
 * if no other transaction holds one.  Never wait for long at a time: a session
 * that waits for this lock, or holds it while waiting, blocks every producer.
 */
static void
lock_out_submits(Datum queue_id, bool force)
{
	int64 left_ms = no_longer_than_lock_timeout(DROP_LIMIT_MS);
	int64 end = tq_clock_monotonic() + left_ms * 1000;

	for (;;)
	{
		if (try_lock(left_ms))
		{
			tq_snapshot_renew();
			if (!force || lock_tasks(queue_id))
				return;
			UnlockRelationOid(tq_catalog()->queue_change,
							  ShareRowExclusiveLock);
		}
		left_ms = (end - tq_clock_monotonic()) / 1000;
		if (left_ms <= 0)
			ereport(
				ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg(
					 "timed out waiting for transactions that submit or hold tasks"),
				 errhint(
					 "Find long transactions in pg_stat_activity, and retry the command when they have ended.")));
		tq_clock_pause((int) Min(left_ms, DROP_PAUSE_MS));
		left_ms = (end - tq_clock_monotonic()) / 1000;
	}
}

static int
no_longer_than_lock_timeout(int ms)
{
	return LockTimeout > 0 ? Min(LockTimeout, ms) : ms;
}

/*
 * Block submits until the transaction ends, if those in progress end within
 * DROP_TRY_MS.
 */
bool
tq_queue_admin_lock_out_briefly(void)
{
	return try_lock(DROP_TRY_MS);
}

/*
 * Get the lock within DROP_TRY_MS, or longest_ms if that is shorter; return
 * false if that was not possible.
 */
static bool
try_lock(int64 longest_ms)
{
	int        ms = (int) Max(Min(longest_ms, DROP_TRY_MS), 1);
	ErrorData *error = tq_subxact_run(lock_briefly, &ms);

	if (error == NULL)
		return true;
	if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
		ReThrowError(error);
	FreeErrorData(error);
	return false;
}

static void
lock_briefly(void *arg)
{
	int  level = NewGUCNestLevel();
	char limit[16];

	snprintf(limit, sizeof(limit), "%d",
			 no_longer_than_lock_timeout(*(int *) arg));
	(void) set_config_option("lock_timeout", limit, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	LockRelationOid(tq_catalog()->queue_change, ShareRowExclusiveLock);
	AtEOXact_GUC(true, level);
}

/*
 * Lock every live task of the queue; return false if another session holds
 * one.
 */
static bool
lock_tasks(Datum queue_id)
{
	TqSpi spi;
	bool  all;

	tq_spi_enter(&spi);
	tq_spi_run(&stmt_lock_live, &queue_id, NULL, SPI_OK_SELECT, 0);
	all = tq_spi_bool(0, 1);
	tq_spi_leave(&spi);
	return all;
}
