/*
 * liveness.c
 *		Heartbeats and progress: in shared memory, or else as rows.
 *
 * If the server preloads the library, they are stored in shared memory
 * (shared/heartbeat.c, shared/running.c).  Otherwise they are rows of
 * taskq.worker_sign and taskq.task_sign, which become effective at commit.
 *
 * No session waits for the row of another transaction, which may be open for a
 * long time: if the row can be locked immediately it is updated, otherwise a
 * new row is inserted.  So a worker or claim may have several rows, and the
 * newest one counts.  Above READ COMMITTED a row is always inserted, since an
 * update would fail if another session had changed the row.
 *
 * When a server begins to preload the library, the progress of running tasks
 * is copied to shared/running.c (tq_liveness_load); then the rows are removed.
 *
 * Heartbeats in memory do not survive a start.  Likewise, rows from before the
 * start, the crash or the promotion do not count against a worker: only its
 * silence since then counts.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "common/pg_prng.h"
#include "storage/proc.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/code.h"
#include "base/debug.h"
#include "base/guc.h"
#include "base/spi.h"
#include "engine/liveness.h"
#include "shared/heartbeat.h"
#include "shared/running.h"
#include "shared/shmem.h"

static TqStmt stmt_beat = {
	"UPDATE taskq.worker_sign SET seen_at = $2"
	" WHERE sign_id = (SELECT s.sign_id FROM taskq.worker_sign s"
	"                   WHERE s.worker_id = $1"
	"                   LIMIT 1 FOR UPDATE SKIP LOCKED)",
	{INT4OID, TIMESTAMPTZOID}};

/* Only for registered workers: labels have no heartbeats. */
static TqStmt stmt_beat_anew = {
	"INSERT INTO taskq.worker_sign (worker_id, seen_at)"
	" SELECT w.worker_id, $2 FROM taskq.worker w"
	"  WHERE w.worker_id = $1 AND w.state = " TQ_SQL_WORKER_ACTIVE,
	{INT4OID, TIMESTAMPTZOID}};

static TqStmt stmt_turn = {
	"UPDATE taskq.worker_sign SET turn = (turn + 1) % 1000000000"
	" WHERE sign_id = (SELECT s.sign_id FROM taskq.worker_sign s"
	"                   WHERE s.worker_id = $1 ORDER BY s.sign_id"
	"                   LIMIT 1 FOR UPDATE SKIP LOCKED)"
	" RETURNING turn - 1",
	{INT4OID}};

static TqStmt stmt_registered = {
	"SELECT FROM taskq.worker"
	" WHERE worker_id = $1 AND state = " TQ_SQL_WORKER_ACTIVE,
	{INT4OID}};

static TqStmt stmt_seen = {
	"SELECT max(seen_at) FROM taskq.worker_sign WHERE worker_id = $1",
	{INT4OID}};

/*
 * Workers whose last known heartbeat is before $1, and workers without any
 * known heartbeat.
 */
static TqStmt stmt_silent = {
	"SELECT w.worker_id, s.seen_at IS NULL"
	"  FROM taskq.worker w"
	" CROSS JOIN LATERAL (SELECT max(g.seen_at) AS seen_at"
	"                       FROM taskq.worker_sign g"
	"                      WHERE g.worker_id = w.worker_id) s"
	" WHERE w.state = " TQ_SQL_WORKER_ACTIVE
	"   AND (s.seen_at IS NULL OR s.seen_at <= $1)"
	" ORDER BY w.worker_id",
	{TIMESTAMPTZOID}};

/* The newest row of the claim, if no other session has locked it. */
static TqStmt stmt_tell = {
	"UPDATE taskq.task_sign SET told_at = $3,"
	"       progress = coalesce($4, progress),"
	"       message = coalesce($5, message)"
	" WHERE sign_id = (SELECT s.sign_id FROM taskq.task_sign s"
	"  WHERE s.sign_id = (SELECT n.sign_id FROM taskq.task_sign n"
	"                      WHERE n.task_id = $1 AND n.token = $2"
	"                      ORDER BY n.told_at DESC, n.sign_id DESC LIMIT 1)"
	"    FOR UPDATE SKIP LOCKED)",
	{INT8OID, INT8OID, TIMESTAMPTZOID, FLOAT4OID, TEXTOID}};

static TqStmt stmt_tell_anew = {
	"INSERT INTO taskq.task_sign (task_id, token, told_at, progress, message)"
	" VALUES ($1, $2, $3, $4, $5)",
	{INT8OID, INT8OID, TIMESTAMPTZOID, FLOAT4OID, TEXTOID}};

static TqStmt stmt_told = {
	"SELECT (SELECT s.progress FROM taskq.task_sign s"
	"         WHERE s.task_id = $1 AND s.token = $2"
	"           AND s.progress IS NOT NULL"
	"         ORDER BY s.told_at DESC, s.sign_id DESC LIMIT 1),"
	"       (SELECT s.message FROM taskq.task_sign s"
	"         WHERE s.task_id = $1 AND s.token = $2"
	"           AND s.message IS NOT NULL"
	"         ORDER BY s.told_at DESC, s.sign_id DESC LIMIT 1)",
	{INT8OID, INT8OID}};

static TqStmt stmt_told_of_running = {
	"SELECT DISTINCT s.task_id, s.token"
	"  FROM taskq.task_sign s JOIN taskq.task t USING (task_id, token)"
	" WHERE t.state = " TQ_SQL_STATE_RUNNING};

static TqStmt stmt_drop_workers = {
	"DELETE FROM taskq.worker_sign WHERE sign_id IN"
	" (SELECT s.sign_id FROM taskq.worker_sign s LIMIT $1"
	"     FOR UPDATE SKIP LOCKED)",
	{INT4OID}};

static TqStmt stmt_drop_tasks = {
	"DELETE FROM taskq.task_sign WHERE sign_id IN"
	" (SELECT s.sign_id FROM taskq.task_sign s LIMIT $1"
	"     FOR UPDATE SKIP LOCKED)",
	{INT4OID}};

/*
 * Rows of workers that have ended, and all rows of other workers except the
 * newest.
 */
static TqStmt stmt_clean_workers = {
	"DELETE FROM taskq.worker_sign WHERE sign_id IN"
	" (SELECT s.sign_id FROM taskq.worker_sign s"
	"   WHERE NOT EXISTS (SELECT FROM taskq.worker w"
	"                      WHERE w.worker_id = s.worker_id"
	"                        AND w.state = " TQ_SQL_WORKER_ACTIVE ")"
	"      OR EXISTS (SELECT FROM taskq.worker_sign n"
	"                  WHERE n.worker_id = s.worker_id"
	"                    AND (n.seen_at, n.sign_id)"
	"                        > (s.seen_at, s.sign_id))"
	"   LIMIT $1 FOR UPDATE SKIP LOCKED)",
	{INT4OID}};

/* Rows of claims that have ended. */
static TqStmt stmt_clean_tasks = {
	"DELETE FROM taskq.task_sign WHERE sign_id IN"
	" (SELECT s.sign_id FROM taskq.task_sign s"
	"   WHERE NOT EXISTS (SELECT FROM taskq.task t"
	"                      WHERE t.task_id = s.task_id"
	"                        AND t.token = s.token"
	"                        AND t.state = " TQ_SQL_STATE_RUNNING ")"
	"   LIMIT $1 FOR UPDATE SKIP LOCKED)",
	{INT4OID}};

static void        write_beat(int32 worker_id);
static bool        has_beaten(int32 worker_id);
static bool        read_seen(int32 worker_id, TimestampTz *seen);
static bool        read_told(int64 task_id, int64 token, float4 *progress,
							 char *message);
static TimestampTz serving_since(void);

/*
 * A worker is registered, or registered again: it is alive from now on.
 * Returns false if shared memory has no room.
 */
bool
tq_liveness_alive(int32 worker_id)
{
	if (tq_heartbeat_beat(worker_id))
		return true;
	if (tq_shmem_ready())
		return tq_heartbeat_put(worker_id);
	write_beat(worker_id);
	return true;
}

/*
 * A worker that this session knows as registered makes a call: it is alive
 * from now on.  Returns false if its registration has ended, of which the
 * session is about to be notified.
 *
 * The entry of an ended registration must not be created again: it would show
 * the worker as alive, and a task that it has just claimed would never be
 * reclaimed.  A session that ends a registration commits, and then removes the
 * entry.  Since the entry is created here before the row is checked, either
 * the check sees that the registration has ended, or the entry is removed
 * later.  The check is only needed if there is no entry, as after a start.
 */
bool
tq_liveness_touch(int32 worker_id)
{
	TQ_DEBUG_POINT("sign_call");
	if (tq_heartbeat_beat(worker_id))
		return true;
	if (!tq_shmem_ready())
	{
		write_beat(worker_id);
		return true;
	}
	(void) tq_heartbeat_put(worker_id);
	if (tq_liveness_is_registered(worker_id))
		return true;
	tq_heartbeat_remove(worker_id);
	return false;
}

/* Is it a registration that has not ended by now? */
bool
tq_liveness_is_registered(int32 worker_id)
{
	Datum arg = Int32GetDatum(worker_id);

	return tq_spi_exists(&stmt_registered, &arg);
}

/* Record a heartbeat of a worker that holds a task, if it is registered. */
void
tq_liveness_heartbeat(int32 worker_id)
{
	if (!tq_heartbeat_beat(worker_id) && worker_id != 0 && !tq_shmem_ready())
		write_beat(worker_id);
}

/*
 * Get how long a registered worker has been silent, in microseconds; return
 * false if that is unknown, as after a start.
 */
bool
tq_liveness_silence(int32 worker_id, int64 *silence)
{
	TimestampTz seen;

	if (tq_heartbeat_find(worker_id, &seen))
	{
		*silence = Max(tq_clock_monotonic() - seen, 0);
		return true;
	}
	if ((tq_shmem_ready() && !RecoveryInProgress()) ||
		!read_seen(worker_id, &seen) ||
		(!RecoveryInProgress() && seen < serving_since()))
		return false;
	*silence = Max(tq_clock_wall() - seen, 0);
	return true;
}

/*
 * Return how often the worker has claimed from all of its queues; an arbitrary
 * number if another transaction is counting.
 */
uint32
tq_liveness_turn(int32 worker_id)
{
	Datum  arg = Int32GetDatum(worker_id);
	uint32 turn;
	TqSpi  spi;

	if (tq_shmem_ready())
		return tq_heartbeat_turn(worker_id);
	turn = pg_prng_uint32(&pg_global_prng_state);
	if (IsolationUsesXactSnapshot())
		return turn;
	tq_spi_enter(&spi);
	if (tq_spi_run(&stmt_turn, &arg, NULL, SPI_OK_UPDATE_RETURNING, 0) > 0)
		turn = (uint32) tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);
	return turn;
}

/*
 * Without shared memory: find up to max registered workers that have been
 * silent for this long, in ascending order.  Workers without any known
 * heartbeat, as after a restore or after a start has lost shared memory, are
 * alive from now on.
 */
int
tq_liveness_silent(int64 threshold, int32 *found, int max)
{
	TimestampTz now = tq_clock_wall();
	Datum       arg = TimestampTzGetDatum(now - threshold);
	bool        judged = serving_since() <= now - threshold;
	int32      *unknown;
	int         unknown_count = 0;
	int         count = 0;
	uint64      rows;
	TqSpi       spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_silent, &arg, NULL, 0);
	unknown = MemoryContextAlloc(spi.caller, sizeof(int32) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		if (tq_spi_bool(i, 2))
			unknown[unknown_count++] = tq_spi_int4(i, 1, 0);
		else if (judged && count < max)
			found[count++] = tq_spi_int4(i, 1, 0);
	}
	tq_spi_leave(&spi);
	for (int i = 0; i < unknown_count; i++)
		write_beat(unknown[i]);
	pfree(unknown);
	return count;
}

/*
 * Record the progress of a running task; progress below 0 and message NULL
 * leave the existing values.
 */
void
tq_liveness_progress(int64 task_id, int64 token, float4 progress,
					 const char *message)
{
	Datum args[5];
	bool  nulls[5] = {false};
	bool  told = false;
	TqSpi spi;

	if (tq_shmem_ready())
	{
		tq_running_progress(task_id, token, progress, message);
		return;
	}
	if (progress < 0 && message == NULL)
		return;
	args[0] = Int64GetDatum(task_id);
	args[1] = Int64GetDatum(token);
	args[2] = TimestampTzGetDatum(tq_clock_wall());
	args[3] = Float4GetDatum(progress);
	nulls[3] = progress < 0;
	args[4] = message == NULL ? (Datum) 0 : CStringGetTextDatum(message);
	nulls[4] = message == NULL;
	tq_spi_enter(&spi);
	if (!IsolationUsesXactSnapshot())
		told = tq_spi_run(&stmt_tell, args, nulls, SPI_OK_UPDATE, 0) > 0;
	if (!told)
		tq_spi_run(&stmt_tell_anew, args, nulls, SPI_OK_INSERT, 0);
	tq_spi_leave(&spi);
}

/* message must have room for TQ_PROGRESS_MESSAGE + 1 bytes. */
bool
tq_liveness_read_progress(int64 task_id, int64 token, float4 *progress,
						  char *message)
{
	if (tq_running_read_progress(task_id, token, progress, message))
		return true;
	if (tq_shmem_ready() && !RecoveryInProgress())
		return false;
	return read_told(task_id, token, progress, message);
}

/*
 * With shared memory, once all running tasks have an entry: copy the progress
 * recorded as rows into the entries, unless an entry has something newer.
 */
void
tq_liveness_load(void)
{
	int64 *ids;
	int64 *tokens;
	uint64 rows;
	TqSpi  spi;

	if (!tq_shmem_ready())
		return;
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_told_of_running, NULL, NULL, 0);
	ids = tq_spi_ids(&spi, rows, 1);
	tokens = tq_spi_ids(&spi, rows, 2);
	tq_spi_leave(&spi);
	for (uint64 i = 0; i < rows; i++)
	{
		float4 progress;
		char   message[TQ_PROGRESS_MESSAGE + 1];

		if (tq_running_read_progress(ids[i], tokens[i], &progress, message) &&
			(progress >= 0 || message[0] != '\0'))
			continue;
		if (read_told(ids[i], tokens[i], &progress, message))
			tq_running_progress(ids[i], tokens[i], progress,
								message[0] == '\0' ? NULL : message);
	}
	pfree(ids);
	pfree(tokens);
}

/*
 * Remove rows that are no longer needed, at most limit of each table.  With
 * shared memory these are all rows, once they have been copied to the entries
 * of running tasks.
 */
int64
tq_liveness_clean(int limit)
{
	Datum arg = Int32GetDatum(limit);
	bool  all = tq_shmem_ready();
	int64 removed;
	TqSpi spi;

	if (all && !tq_running_complete())
		return 0;
	PushActiveSnapshot(GetTransactionSnapshot());
	tq_spi_enter(&spi);
	removed =
		(int64) tq_spi_run(all ? &stmt_drop_workers : &stmt_clean_workers,
						   &arg, NULL, SPI_OK_DELETE, 0);
	removed += (int64) tq_spi_run(all ? &stmt_drop_tasks : &stmt_clean_tasks,
								  &arg, NULL, SPI_OK_DELETE, 0);
	tq_spi_leave(&spi);
	PopActiveSnapshot();
	return removed;
}

/* Write a heartbeat as a row, unless the name is not registered. */
static void
write_beat(int32 worker_id)
{
	Datum args[2];
	bool  written = false;
	TqSpi spi;

	if (has_beaten(worker_id))
		return;
	args[0] = Int32GetDatum(worker_id);
	args[1] = TimestampTzGetDatum(tq_clock_wall());
	tq_spi_enter(&spi);
	if (!IsolationUsesXactSnapshot())
		written = tq_spi_run(&stmt_beat, args, NULL, SPI_OK_UPDATE, 0) > 0;
	if (!written)
		tq_spi_run(&stmt_beat_anew, args, NULL, SPI_OK_INSERT, 0);
	tq_spi_leave(&spi);
}

/*
 * Has this savepoint just written a heartbeat of the worker?  Another one
 * would add no information, and a list of a thousand tasks writes only one
 * row.
 */
static bool
has_beaten(int32 worker_id)
{
	static int32              last_worker = 0;
	static LocalTransactionId last_xact = InvalidLocalTransactionId;
	static SubTransactionId   last_subid = InvalidSubTransactionId;
	static int64              last_at = 0;
	static uint64             last_identity = 0;
	int64                     now = tq_clock_monotonic();

	if (worker_id == last_worker && last_xact == TQ_MY_LXID &&
		last_subid == GetCurrentSubTransactionId() &&
		last_identity == tq_catalog_identity() &&
		now - last_at < tq_guc_usecs(tq_guc_stale_threshold) / 10)
		return true;
	last_worker = worker_id;
	last_xact = TQ_MY_LXID;
	last_subid = GetCurrentSubTransactionId();
	last_identity = tq_catalog_identity();
	last_at = now;
	return false;
}

/* Read the newest heartbeat from the rows. */
static bool
read_seen(int32 worker_id, TimestampTz *seen)
{
	Datum arg = Int32GetDatum(worker_id);
	bool  isnull;
	TqSpi spi;

	tq_spi_enter(&spi);
	tq_spi_look(&stmt_seen, &arg, NULL, 1);
	*seen = DatumGetTimestampTz(tq_spi_get(0, 1, &isnull));
	tq_spi_leave(&spi);
	return !isnull;
}

static bool
read_told(int64 task_id, int64 token, float4 *progress, char *message)
{
	Datum args[2];
	Datum value;
	bool  isnull;
	char *words;
	TqSpi spi;

	args[0] = Int64GetDatum(task_id);
	args[1] = Int64GetDatum(token);
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_told, args, NULL, 1);
	value = tq_spi_get(0, 1, &isnull);
	*progress = isnull ? -1 : DatumGetFloat4(value);
	words = tq_spi_text(&spi, 0, 2);
	strlcpy(message, words == NULL ? "" : words, TQ_PROGRESS_MESSAGE + 1);
	tq_spi_leave(&spi);
	return *progress >= 0 || message[0] != '\0';
}

/*
 * Return since when this server has accepted writes: the start of its WAL
 * writer, which runs from then on, and does not survive a crash.  Return now
 * if it is not running yet.
 */
static TimestampTz
serving_since(void)
{
	static TimestampTz since = 0;

	/* no session survives its exit */
	if (since == 0)
		since = tq_compat_backend_start(B_WAL_WRITER);
	return since == 0 ? tq_clock_wall() : since;
}
