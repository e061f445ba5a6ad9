/*
 * check_memory.c
 *		taskq_check(): does shared memory agree with the tables?
 *
 * Memory changes a moment after a transaction has ended.  Therefore a
 * difference is checked again after all ended transactions have published
 * their changes (tq_counter_wait_for_ended):
 *
 * - If shared/running.c is complete, each running task has an entry there.
 *   The
 *   entry has the task's newest claim, and does not expire later than the row.
 * - Numbers of live tasks, if known, agree with the tables.  They are read
 *   before and after the rows, with a number that tells whether they were
 *   written in the meantime.
 * - Reserved claims are compared while none can be made (engine/limit.c).
 * - A registered worker has a heartbeat entry, once the background worker has
 *   had time to create it.
 * - The connection of a bound worker exists, or the background worker has not
 *   yet had time to notice that it is gone.
 * - Queues and workers with counters or metrics exist, or the background
 *   worker has not yet had time to notice that they are gone.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_type.h"

#include "base/clock.h"
#include "base/compare.h"
#include "base/guc.h"
#include "base/spi.h"
#include "base/types.h"
#include "diag/check_memory.h"
#include "diag/check_report.h"
#include "engine/leaked_entry.h"
#include "engine/limit.h"
#include "shared/counter.h"
#include "shared/heartbeat.h"
#include "shared/running.h"
#include "shared/session_end.h"
#include "shared/worker_directory.h"
#include "xact/count_note.h"

#define TRIES 5
#define PAUSE 50 /* ms */
#define WORKER_TRIES 60

static TqStmt stmt_running = {"SELECT task_id, token FROM taskq.task"
							  " WHERE state = " TQ_SQL_STATE_RUNNING
							  " ORDER BY task_id"};

static TqStmt stmt_running_one = {
	"SELECT xmin::text::bigint, token, worker_id, lease_until"
	"  FROM taskq.task WHERE task_id = $1 AND state = " TQ_SQL_STATE_RUNNING,
	{INT8OID}};

static TqStmt stmt_queues = {
	"SELECT queue_id FROM taskq.queue WHERE queue_id <> 0 ORDER BY queue_id"};

static TqStmt stmt_limited_workers = {"SELECT worker_id FROM taskq.worker"
									  " WHERE state = " TQ_SQL_WORKER_ACTIVE
									  "   AND max_running IS NOT NULL"
									  " ORDER BY worker_id"};

static TqStmt stmt_workers = {"SELECT worker_id FROM taskq.worker"
							  " WHERE state = " TQ_SQL_WORKER_ACTIVE
							  " ORDER BY worker_id"};

/* Skip rows that another transaction is changing. */
static TqStmt stmt_bound = {
	"SELECT worker_id, bound_instance, bound_session FROM taskq.worker"
	" WHERE state = " TQ_SQL_WORKER_ACTIVE
	"   AND bound_session IS NOT NULL AND xmax::text = '0'"
	" ORDER BY worker_id"};

static TqStmt stmt_is_active = {
	"SELECT xmin::text::bigint FROM taskq.worker"
	" WHERE worker_id = $1 AND state = " TQ_SQL_WORKER_ACTIVE,
	{INT4OID}};

static TqStmt stmt_live = {
	"SELECT queue_id,"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_PENDING "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_BLOCKED "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_RUNNING "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_SUSPENDED "),"
	"       count(*) FILTER (WHERE state = " TQ_SQL_STATE_PENDING
	"                          AND attempt > 0)"
	"  FROM taskq.task WHERE queue_id = ANY ($1) GROUP BY queue_id",
	{INT4ARRAYOID}};

/* Numbers of live tasks of a queue, in memory and in rows. */
typedef struct Numbers
{
	int32  queue_id;
	uint64 changes; /* of memory, before reading the rows */
	int64  known[TQ_LIVE_NUMBERS];
	int64  counted[TQ_LIVE_NUMBERS];
	bool   differed; /* in the previous comparison */
} Numbers;

static const char *suspicion(int64 task_id);
static void        count_rows(Numbers *numbers, int count);
static bool        compare_numbers(ReturnSetInfo *result, Numbers *numbers);
static void check_reserved_of(ReturnSetInfo *result, TqOwner owner, int32 id);
static bool lacks_slot(int32 worker_id);
static bool let_worker_look(int duty);
static int  keep_leaked(TqLeakedEntry *leaked, int count);
static int  compare_leaked(const void *a, const void *b);
static int  read_gone(int32 **ids);
static int  keep_common(int32 *ids, int count, const int32 *others,
						int other_count);

/* Every running task has an entry with its newest claim. */
void
tq_check_registry(ReturnSetInfo *result)
{
	int64 *ids;
	uint64 rows;

	if (!tq_running_complete())
		return;
	rows = tq_spi_list(&stmt_running, NULL, &ids);

	for (uint64 i = 0; i < rows; i++)
	{
		const char *problem = NULL;

		CHECK_FOR_INTERRUPTS();
		for (int attempt = 0; attempt < TRIES; attempt++)
		{
			problem = suspicion(ids[i]);
			if (problem == NULL)
				break;
			tq_counter_wait_for_ended();
			if (attempt > 0)
				tq_clock_pause(PAUSE);
		}
		if (problem != NULL)
			tq_check_report(result, problem, "task " INT64_FORMAT, ids[i]);
	}
}

/*
 * Return what is wrong with the entry of a running task.  NULL if nothing is
 * wrong, if the task is no longer running, or if this transaction has claimed
 * it.
 */
static const char *
suspicion(int64 task_id)
{
	Datum       arg = Int64GetDatum(task_id);
	TqRunning   running;
	bool        has_entry = tq_running_find(task_id, &running);
	const char *problem = NULL;
	TqSpi       spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_running_one, &arg, NULL, 1) > 0 &&
		!TransactionIdIsCurrentTransactionId(
			(TransactionId) tq_spi_int8(0, 1, 0)))
	{
		TimestampTz lease_until = tq_spi_time(0, 4, 0);

		if (!has_entry)
			problem = "running task has no entry in shared memory";
		else if (running.token != tq_spi_int8(0, 2, 0) ||
				 running.worker_id != tq_spi_int4(0, 3, 0))
			problem = "shared memory has another claim of a running task";
		else if (running.due_at > lease_until)
			problem = "shared memory has a later lease end of a running task";
	}
	tq_spi_leave(&spi);
	return tq_running_complete() ? problem : NULL;
}

/*
 * Compare numbers of live tasks, unless they change all the time.  The rows of
 * all queues are read at once, and read again for queues whose numbers have
 * changed in the meantime or differ: a session that has just finished a
 * prepared transaction may not have published its changes yet.
 */
void
tq_check_numbers(ReturnSetInfo *result)
{
	int32   *ids;
	int      count = (int) tq_spi_list_int4(&stmt_queues, NULL, &ids);
	Numbers *numbers = palloc(sizeof(Numbers) * (count + 1));
	bool    *differed = palloc0(sizeof(bool) * (count + 1));

	for (int attempt = 0; attempt < TRIES && count > 0; attempt++)
	{
		int  known = 0;
		int  left = 0;
		bool differs = false;

		tq_counter_wait_for_ended();
		for (int i = 0; i < count; i++)
		{
			Numbers *of_queue = &numbers[known];

			memset(of_queue, 0, sizeof(Numbers));
			of_queue->queue_id = ids[i];
			of_queue->differed = differed[i];
			if (tq_counter_read_changes(ids[i], of_queue->known,
										&of_queue->changes))
				known++;
		}
		if (known == 0)
			return;
		count_rows(numbers, known);
		tq_counter_wait_for_ended();
		for (int i = 0; i < known; i++)
		{
			if (compare_numbers(result, &numbers[i]))
				continue;
			ids[left] = numbers[i].queue_id;
			differed[left++] = numbers[i].differed;
			differs = differs || numbers[i].differed;
		}
		count = left;
		if (differs)
			tq_clock_pause(PAUSE);
	}
}

/* Count rows; numbers are in queue_id order. */
static void
count_rows(Numbers *numbers, int count)
{
	int32 *queues = palloc(sizeof(int32) * count);
	Datum  arg;
	uint64 rows;
	TqSpi  spi;

	for (int i = 0; i < count; i++)
		queues[i] = numbers[i].queue_id;
	arg = tq_spi_int4_array(queues, count);
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_live, &arg, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		int32    queue_id = tq_spi_int4(i, 1, 0);
		Numbers *of_queue = bsearch(&queue_id, numbers, count, sizeof(Numbers),
									tq_order_int32);

		for (int s = 0; s < TQ_LIVE_NUMBERS; s++)
			of_queue->counted[s] = tq_spi_int8(i, s + 2, 0);
	}
	tq_spi_leave(&spi);
}

/*
 * Returns false if they must be compared again: memory has changed since it
 * was read, or they differ for the first time.
 */
static bool
compare_numbers(ReturnSetInfo *result, Numbers *numbers)
{
	bool   known_to_differ = numbers->differed;
	int64  after[TQ_LIVE_NUMBERS];
	uint64 changes;

	if (!tq_counter_read_changes(numbers->queue_id, after, &changes))
		return true;
	if (changes != numbers->changes)
		return false;
	for (int s = 0; s < TQ_LIVE_NUMBERS; s++)
	{
		int64 counted = numbers->counted[s] -
						tq_count_note_sum(numbers->queue_id, s);

		if (numbers->known[s] == counted)
			continue;
		numbers->differed = true;
		if (known_to_differ)
			tq_check_report(
				result, "number of live tasks is wrong",
				"queue %d, %s: " INT64_FORMAT " in memory, " INT64_FORMAT
				" rows",
				numbers->queue_id,
				s == TQ_LIVE_RETRIES
					? "retries"
					: tq_state_name((TqState) (TQ_STATE_FIRST + s)),
				numbers->known[s], counted);
	}
	return known_to_differ || !numbers->differed;
}

/* Compare reserved claims of queues and workers with a limit. */
void
tq_check_reserved(ReturnSetInfo *result)
{
	int32 *ids;
	uint64 rows = tq_spi_list_int4(&stmt_queues, NULL, &ids);

	for (uint64 i = 0; i < rows; i++)
		check_reserved_of(result, TQ_OWNER_QUEUE, ids[i]);
	rows = tq_spi_list_int4(&stmt_limited_workers, NULL, &ids);
	for (uint64 i = 0; i < rows; i++)
		check_reserved_of(result, TQ_OWNER_WORKER, ids[i]);
}

static void
check_reserved_of(ReturnSetInfo *result, TqOwner owner, int32 id)
{
	int64 used;
	int64 held;

	for (int attempt = 0; attempt < TRIES; attempt++)
	{
		if (attempt > 0)
			tq_clock_pause(PAUSE);
		if (tq_limit_agrees(owner, id, &used, &held))
			return;
	}
	tq_check_report(
		result, "number of reserved claims is wrong",
		"%s %d: " INT64_FORMAT " in memory, " INT64_FORMAT " running tasks",
		owner == TQ_OWNER_QUEUE ? "queue" : "worker", id, used, held);
}

/*
 * A registered worker has a heartbeat entry once the background worker has
 * checked. (taskq_health reports a missing background worker.)
 */
void
tq_check_slots(ReturnSetInfo *result)
{
	int32 *ids;
	uint64 rows = tq_spi_list_int4(&stmt_workers, NULL, &ids);
	uint64 lacking = 0;

	for (int attempt = 0; attempt < WORKER_TRIES; attempt++)
	{
		uint64 kept = 0;

		for (uint64 i = 0; i < rows; i++)
		{
			if (lacks_slot(ids[i]))
				ids[kept++] = ids[i];
		}
		rows = lacking = kept;
		if (lacking == 0 || tq_heartbeat_count() >= tq_guc_max_workers ||
			!let_worker_look(TQ_ASK_WORKERS))
			return;
	}
	for (uint64 i = 0; i < lacking; i++)
		tq_check_report(result, "active worker has no heartbeat entry",
						"worker %d", ids[i]);
}

/*
 * Request a duty from the background worker, and give it a moment to run;
 * return false if there is no background worker.
 */
static bool
let_worker_look(int duty)
{
	if (!tq_worker_directory_has_worker(MyDatabaseId))
		return false;
	tq_running_ask_duty(duty);
	tq_worker_directory_wake();
	tq_clock_pause(PAUSE);
	return true;
}

/*
 * Was the worker registered by another transaction, and has it no heartbeat
 * entry?
 */
static bool
lacks_slot(int32 worker_id)
{
	Datum arg = Int32GetDatum(worker_id);
	int64 last_seen;

	if (tq_heartbeat_find(worker_id, &last_seen))
		return false;
	return tq_spi_exists(&stmt_is_active, &arg);
}

/*
 * A worker bound to a connection that is gone is dead once the background
 * worker has checked.
 */
void
tq_check_bound(ReturnSetInfo *result)
{
	int32 *ids;
	int    count = read_gone(&ids);

	for (int attempt = 0; attempt < WORKER_TRIES && count > 0; attempt++)
	{
		int32 *now;
		int    now_count;

		if (!let_worker_look(TQ_ASK_WORKERS))
			return;
		now_count = read_gone(&now);
		count = keep_common(ids, count, now, now_count);
		pfree(now);
	}
	for (int i = 0; i < count; i++)
		tq_check_report(result, "bound worker outlives its connection",
						"worker %d", ids[i]);
}

/*
 * Report entries of queues and workers that no longer exist, once the
 * background worker has checked.  Rows that this transaction has deleted look
 * the same.
 */
void
tq_check_leaked(ReturnSetInfo *result)
{
	static const char *const whose[] = {
		[TQ_LEAKED_QUEUE_COUNTER] = "counter of queue",
		[TQ_LEAKED_WORKER_COUNTER] = "counter of worker",
		[TQ_LEAKED_QUEUE_METRICS] = "metrics of queue",
	};
	TqLeakedEntry *leaked;
	int            count;

	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return;
	count = tq_leaked_entry_find(&leaked);
	for (int attempt = 0; attempt < WORKER_TRIES && count > 0; attempt++)
	{
		if (!let_worker_look(TQ_ASK_LEAKED))
			tq_clock_pause(PAUSE);
		/* the session that dropped the queue removes some of them */
		tq_counter_wait_for_ended();
		count = keep_leaked(leaked, count);
	}
	for (int i = 0; i < count; i++)
		tq_check_report(result,
						"shared memory has an entry of a removed object",
						"%s %d", whose[leaked[i].kind], leaked[i].id);
}

/* Keep the entries that still exist. */
static int
keep_leaked(TqLeakedEntry *leaked, int count)
{
	TqLeakedEntry *now;
	int            now_count = tq_leaked_entry_find(&now);
	int            kept = 0;

	qsort(now, now_count, sizeof(TqLeakedEntry), compare_leaked);
	for (int i = 0; i < count; i++)
	{
		if (bsearch(&leaked[i], now, now_count, sizeof(TqLeakedEntry),
					compare_leaked) != NULL)
			leaked[kept++] = leaked[i];
	}
	pfree(now);
	return kept;
}

static int
compare_leaked(const void *a, const void *b)
{
	const TqLeakedEntry *x = a;
	const TqLeakedEntry *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return tq_order_int32(&x->id, &y->id);
}

/* Read the active workers whose connection is gone, in ascending order. */
static int
read_gone(int32 **ids)
{
	uint64 rows;
	int    count = 0;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_bound, NULL, NULL, 0);
	*ids = MemoryContextAllocHuge(spi.caller, sizeof(int32) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		if (tq_session_end_has_ended(tq_spi_int8(i, 2, 0),
									 tq_spi_int8(i, 3, 0)))
			(*ids)[count++] = tq_spi_int4(i, 1, 0);
	}
	tq_spi_leave(&spi);
	return count;
}

/* Keep the ids that are in both lists. */
static int
keep_common(int32 *ids, int count, const int32 *others, int other_count)
{
	int kept = 0;

	for (int i = 0; i < count; i++)
	{
		if (bsearch(&ids[i], others, other_count, sizeof(int32),
					tq_order_int32) != NULL)
			ids[kept++] = ids[i];
	}
	return kept;
}
