/*
 * metric_set.c
 *		All metrics that a role may read, at one moment.
 *
 * taskq.metrics (metric_view.c) and taskq_openmetrics() (openmetrics.c) show
 * the same samples.  To add a metric, read its value in tq_metric_set_read,
 * and add a line to families.
 *
 * Nothing here reads or counts the rows of tasks if the library is preloaded:
 * numbers of live tasks, running tasks and waiting claims are in shared
 * memory, finished tasks are counted by a duty (finished_count.c), and tasks
 * that are not due are counted in an index.
 *
 * If nothing is counted because the library is not preloaded, counters and
 * histograms are missing: a zero would say that nothing has happened.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "base/catalog.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/guc.h"
#include "base/spi.h"
#include "cache/activation.h"
#include "cache/queue.h"
#include "cache/role.h"
#include "query/finished_count.h"
#include "query/metric_set.h"
#include "shared/worker_directory.h"

/* Gauges of a queue, for number_of_queue. */
typedef enum QueueGauge
{
	GAUGE_READY,
	GAUGE_RETRIES,
	GAUGE_OLDEST_READY,
	GAUGE_LONGEST_RUNNING,
	GAUGE_DEAD,
	GAUGE_OLDEST_DEAD,
	GAUGE_WORKERS,
	GAUGE_WAITERS
} QueueGauge;

/* Numbers of the database, for number_of_database. */
typedef enum DatabaseNumber
{
	NUMBER_NOT_COUNTED,
	NUMBER_SINCE,
	NUMBER_SNAPSHOT_AGE,
	NUMBER_DEAD_SHARE,
	NUMBER_IDS_USED,
	NUMBER_WORKER_UP,
	NUMBER_TURN_AGE,
	NUMBER_OPERATIONS_STUCK
} DatabaseNumber;

/*
 * The age of the oldest snapshot or transaction id; vacuum cannot remove rows
 * that have become dead since.  A label that names its session would make a
 * new time series for each session; taskq_health() names it.
 */
static TqStmt stmt_oldest_snapshot = {
	"SELECT extract(epoch FROM clock_timestamp() - a.xact_start)::float8"
	"  FROM pg_stat_activity a"
	" WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)"
	"   AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()"
	"   AND a.datid = $1"
	"   AND a.backend_type IS DISTINCT FROM 'autovacuum worker'"
	"   AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v"
	"                    WHERE v.pid = a.pid)"
	" ORDER BY a.xact_start LIMIT 1",
	{OIDOID}};

/* The share is from the server's statistics, which lag by up to a minute. */
static TqStmt stmt_database = {
	"SELECT coalesce(d.dead::float8 / nullif(d.dead + d.live, 0), 0),"
	"       CASE WHEN s.is_called THEN s.last_value ELSE 0 END::float8"
	"         / 8796093022207"
	"  FROM (SELECT pg_stat_get_dead_tuples($1) AS dead,"
	"               pg_stat_get_live_tuples($1) AS live) d,"
	"       taskq.task_id_seq s",
	{OIDOID}};

/* By state, as in taskq.workers. */
static TqStmt stmt_workers = {
	"SELECT count(*) FILTER (WHERE w.state = " TQ_SQL_WORKER_ACTIVE
	"                          AND (w.seen >= $1) IS NOT FALSE),"
	"       count(*) FILTER (WHERE w.state = " TQ_SQL_WORKER_ACTIVE
	"                          AND w.seen < $1),"
	"       count(*) FILTER (WHERE w.state = " TQ_SQL_WORKER_DEAD ")"
	"  FROM (SELECT state, CASE WHEN state = " TQ_SQL_WORKER_ACTIVE
	"                           THEN taskq.worker_seen(worker_id) END AS seen"
	"          FROM taskq.worker"
	"         WHERE state IN (" TQ_SQL_WORKER_ACTIVE ", " TQ_SQL_WORKER_DEAD
	"                         ) OFFSET 0) w",
	{TIMESTAMPTZOID}};

static TqStmt stmt_operations = {"SELECT count(*) FROM taskq.operation"
								 " WHERE " TQ_SQL_OPERATION_STUCK,
								 {TIMESTAMPTZOID}};

static const char *const ends[] = {[TQ_END_FAILURE] = "failure",
								   [TQ_END_WORKER_DEAD] = "worker_dead",
								   [TQ_END_LEASE_EXPIRED] = "lease_expired",
								   [TQ_END_RELEASED] = "released",
								   [TQ_END_TIMEOUT] = "timeout"};

StaticAssertDecl(lengthof(ends) == TQ_END_LAST + 1, "every end has a name");

static const char *const worker_states[] = {
	[TQ_METRIC_WORKER_ACTIVE] = "active",
	[TQ_METRIC_WORKER_STALE] = "stale",
	[TQ_METRIC_WORKER_DEAD] = "dead"};

static void read_queues(TqMetricSet *set);
static void read_dead(TqMetricQueue *queue, int32 queue_id,
					  const TqFinished *finished, int count);
static void read_database(TqMetricSet *set);
static void read_server(TqMetricSet *set);
static void read_duties(TqMetricSet *set);
static void read_operations(TqMetricSet *set);
static void visit_slots(const TqMetricSet *set, const TqMetricFamily *family,
						TqMetricVisit visit, void *arg);
static void visit_slots_of_all(const TqMetricSet    *set,
							   const TqMetricFamily *family,
							   TqMetricVisit visit, void *arg);
static void visit_ends(const TqMetricSet *set, const TqMetricFamily *family,
					   TqMetricVisit visit, void *arg);
static void visit_reasons(const TqMetricSet *set, const TqMetricFamily *family,
						  TqMetricVisit visit, void *arg);
static void visit_histograms(const TqMetricSet    *set,
							 const TqMetricFamily *family, TqMetricVisit visit,
							 void *arg);
static void visit_depth(const TqMetricSet *set, const TqMetricFamily *family,
						TqMetricVisit visit, void *arg);
static void visit_queues(const TqMetricSet *set, const TqMetricFamily *family,
						 TqMetricVisit visit, void *arg);
static double number_of_queue(const TqMetricQueue *queue, QueueGauge gauge);
static void visit_workers(const TqMetricSet *set, const TqMetricFamily *family,
						  TqMetricVisit visit, void *arg);
static void visit_database(const TqMetricSet    *set,
						   const TqMetricFamily *family, TqMetricVisit visit,
						   void *arg);

static const TqMetricFamily families[] = {
	{"tasks.submitted", TQ_METRIC_COUNTER, NULL, true,
	 "Tasks that were created.", visit_slots, TQ_METRIC_SUBMITTED},
	{"tasks.claimed", TQ_METRIC_COUNTER, NULL, true, "Claims.", visit_slots,
	 TQ_METRIC_CLAIMED},
	{"tasks.completed", TQ_METRIC_COUNTER, NULL, true,
	 "Attempts that a worker completed.", visit_slots, TQ_METRIC_COMPLETED},
	{"tasks.failed", TQ_METRIC_COUNTER, NULL, true,
	 "Attempts that failed, whatever the reason.", visit_slots,
	 TQ_METRIC_FAILED},
	{"tasks.requeued", TQ_METRIC_COUNTER, NULL, true,
	 "Attempts after which the task waits again, by reason.", visit_ends, 0},
	{"tasks.dead_lettered", TQ_METRIC_COUNTER, NULL, true,
	 "Tasks that became dead, by reason.", visit_reasons, 0},
	{"tasks.cleaned", TQ_METRIC_COUNTER, NULL, true,
	 "Finished tasks that retention removed.", visit_slots, TQ_METRIC_CLEANED},
	{"workers.registered", TQ_METRIC_COUNTER, NULL, true,
	 "Registrations of workers, for each queue that they name.",
	 visit_slots_of_all, TQ_METRIC_WORKERS_REGISTERED},
	{"workers.died", TQ_METRIC_COUNTER, NULL, true,
	 "Workers that were declared dead, for each queue that they name.",
	 visit_slots_of_all, TQ_METRIC_WORKERS_DIED},
	{"workers.cleaned", TQ_METRIC_COUNTER, NULL, true,
	 "Registrations and labels that retention removed.", visit_slots_of_all,
	 TQ_METRIC_WORKERS_CLEANED},
	{"metrics.not_counted", TQ_METRIC_COUNTER, NULL, false,
	 "Commits that were not counted for lack of room.", visit_database,
	 NUMBER_NOT_COUNTED},
	{"tasks.queue.wait", TQ_METRIC_HISTOGRAM, "seconds", true,
	 "Time from when a task was due to its claim.", visit_histograms,
	 TQ_HISTOGRAM_WAIT},
	{"tasks.execution.duration", TQ_METRIC_HISTOGRAM, "seconds", true,
	 "Time from a claim to the end of the attempt.", visit_histograms,
	 TQ_HISTOGRAM_EXECUTION},
	{"tasks.end_to_end.duration", TQ_METRIC_HISTOGRAM, "seconds", true,
	 "Time from when a task was submitted to its end.", visit_histograms,
	 TQ_HISTOGRAM_END_TO_END},
	{"tasks.depth", TQ_METRIC_GAUGE, NULL, true, "Live tasks, by state.",
	 visit_depth, 0},
	{"tasks.ready", TQ_METRIC_GAUGE, NULL, true, "Pending tasks that are due.",
	 visit_queues, GAUGE_READY},
	{"tasks.retries_waiting", TQ_METRIC_GAUGE, NULL, true,
	 "Pending tasks that have been attempted before.", visit_queues,
	 GAUGE_RETRIES},
	{"tasks.oldest_ready_age", TQ_METRIC_GAUGE, "seconds", true,
	 "Time since the oldest ready task was due.", visit_queues,
	 GAUGE_OLDEST_READY},
	{"tasks.longest_running", TQ_METRIC_GAUGE, "seconds", true,
	 "Time since the oldest claim of a running task.", visit_queues,
	 GAUGE_LONGEST_RUNNING},
	{"tasks.dead", TQ_METRIC_GAUGE, NULL, true,
	 "Dead tasks that are kept, as last counted.", visit_queues, GAUGE_DEAD},
	{"tasks.oldest_dead_age", TQ_METRIC_GAUGE, "seconds", true,
	 "Time since the first of the dead tasks became dead, as last counted.",
	 visit_queues, GAUGE_OLDEST_DEAD},
	{"workers.active", TQ_METRIC_GAUGE, NULL, true,
	 "Workers and labels that hold tasks.", visit_queues, GAUGE_WORKERS},
	{"workers.waiting", TQ_METRIC_GAUGE, NULL, true,
	 "Claims that wait for a task.", visit_queues, GAUGE_WAITERS},
	{"workers", TQ_METRIC_GAUGE, NULL, false, "Registered workers, by state.",
	 visit_workers, 0},
	{"snapshot.oldest_age", TQ_METRIC_GAUGE, "seconds", false,
	 "Age of the oldest transaction that keeps vacuum from removing rows.",
	 visit_database, NUMBER_SNAPSHOT_AGE},
	{"dispatch.dead_share", TQ_METRIC_GAUGE, "ratio", false,
	 "Share of dead rows in the table of live tasks.", visit_database,
	 NUMBER_DEAD_SHARE},
	{"ids.used", TQ_METRIC_GAUGE, "ratio", false,
	 "Share of all task ids that has been used.", visit_database,
	 NUMBER_IDS_USED},
	{"background_worker.up", TQ_METRIC_GAUGE, NULL, false,
	 "Whether the background worker of the database runs: 1 or 0.",
	 visit_database, NUMBER_WORKER_UP},
	{"duties.last_turn_age", TQ_METRIC_GAUGE, "seconds", false,
	 "Time since the background worker last began to process its duties.",
	 visit_database, NUMBER_TURN_AGE},
	{"operations.stuck", TQ_METRIC_GAUGE, NULL, false,
	 "Operations that are due, and have not continued for 5 minutes.",
	 visit_database, NUMBER_OPERATIONS_STUCK},
	{"metrics.start_time", TQ_METRIC_GAUGE, "seconds", false,
	 "Unix time when all counters were zero.", visit_database, NUMBER_SINCE}};

/*
 * Read the metrics of the queues that current_user may read and, for roles
 * that may read all queues, those that belong to no queue.
 */
void
tq_metric_set_read(TqMetricSet *set)
{
	memset(set, 0, sizeof(*set));
	tq_queue_refresh();
	set->all = tq_role_sees_all_numbers();
	set->counted = tq_metric_ready();
	set->since = tq_metric_since();
	read_queues(set);
	if (set->all)
	{
		read_database(set);
		read_server(set);
		read_duties(set);
		read_operations(set);
	}
}

const TqMetricFamily *
tq_metric_set_families(int *count)
{
	*count = lengthof(families);
	return families;
}

/* Call visit for each sample of a family, those of one queue in succession. */
void
tq_metric_set_visit(const TqMetricSet *set, const TqMetricFamily *family,
					TqMetricVisit visit, void *arg)
{
	if (set->counted || family->kind == TQ_METRIC_GAUGE)
		family->visit(set, family, visit, arg);
}

static void
read_queues(TqMetricSet *set)
{
	int            count;
	char         **names = tq_queue_names(&count);
	TqQueueGauges *gauges;
	TqFinished    *finished;
	int            finished_count;
	TimestampTz    finished_as_of;

	set->queues =
		palloc_extended(sizeof(TqMetricQueue) * (count + 1), MCXT_ALLOC_HUGE);
	/* the session's cache may be refreshed before the last of them is read */
	for (int i = 0; i < count; i++)
		set->queues[i].name = pstrdup(names[i]);
	tq_queue_load_all();
	gauges = tq_queue_gauge_begin();
	finished = tq_finished_count_read(&finished_count, &finished_as_of);
	set->knows_dead = finished_as_of != 0;
	for (int i = 0; i < count; i++)
	{
		TqMetricQueue *queue = &set->queues[set->queue_count];
		TqQueue       *found;

		CHECK_FOR_INTERRUPTS();
		queue->name = set->queues[i].name;
		found = tq_queue_find(queue->name);
		if (found == NULL || (!set->all && !tq_role_sees_numbers(found)))
			continue;
		tq_metric_read(found->queue_id, &queue->counted);
		read_dead(queue, found->queue_id, finished, finished_count);
		tq_queue_gauge_read(gauges, found, &queue->gauge);
		set->queue_count++;
	}
}

static void
read_dead(TqMetricQueue *queue, int32 queue_id, const TqFinished *finished,
		  int count)
{
	const TqFinished *found = count == 0 ? NULL
										 : bsearch(&queue_id, finished, count,
												   sizeof(TqFinished),
												   tq_order_int32);

	queue->dead = found == NULL ? 0 : found->dead;
	queue->oldest_dead = 0;
	if (queue->dead > 0 && found->oldest_dead != DT_NOEND)
		queue->oldest_dead = tq_clock_wall() - found->oldest_dead;
}

static void
read_database(TqMetricSet *set)
{
	Datum arg = TimestampTzGetDatum(tq_clock_wall() -
									tq_guc_usecs(tq_guc_stale_threshold));
	TqSpi spi;

	tq_metric_read(0, &set->database);
	set->not_counted = tq_metric_not_counted();
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_workers, &arg, NULL, 1) > 0)
	{
		for (int i = 0; i < TQ_METRIC_WORKER_STATES; i++)
			set->workers[i] = tq_spi_int8(0, i + 1, 0);
	}
	tq_spi_leave(&spi);
}

/* Effects of the server on the queues. */
static void
read_server(TqMetricSet *set)
{
	Datum arg = ObjectIdGetDatum(MyDatabaseId);
	bool  isnull;
	TqSpi spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_oldest_snapshot, &arg, NULL, 1) > 0)
		set->snapshot_age = Max(DatumGetFloat8(tq_spi_get(0, 1, &isnull)), 0);
	arg = ObjectIdGetDatum(tq_catalog()->task);
	if (tq_spi_look(&stmt_database, &arg, NULL, 1) > 0)
	{
		set->dead_share = DatumGetFloat8(tq_spi_get(0, 1, &isnull));
		set->ids_used = DatumGetFloat8(tq_spi_get(0, 2, &isnull));
	}
	tq_spi_leave(&spi);
}

/* Does the background worker process its duties? */
static void
read_duties(TqMetricSet *set)
{
	TqWorkerView view;

	set->turn_age = -1;
	if (!tq_worker_directory_look(MyDatabaseId, &view))
		return;
	set->worker_up = view.pid != 0;
	if (view.turn_at != 0)
		set->turn_age = Max(tq_clock_dispatch() - view.turn_at, 0) /
						(double) USECS_PER_SEC;
}

/* In a copy they do not continue before it is activated. */
static void
read_operations(TqMetricSet *set)
{
	Datum now = TimestampTzGetDatum(tq_clock_dispatch());
	TqSpi spi;

	if (!tq_activation_allows_duties())
		return;
	tq_spi_enter(&spi);
	(void) tq_spi_look(&stmt_operations, &now, NULL, 1);
	set->operations_stuck = tq_spi_int8(0, 1, 0);
	tq_spi_leave(&spi);
}

/* A counter of queues. */
static void
visit_slots(const TqMetricSet *set, const TqMetricFamily *family,
			TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {0};

	for (int i = 0; i < set->queue_count; i++)
	{
		sample.queue = i;
		sample.value = (double) set->queues[i].counted.slot[family->which];
		visit(set, family, &sample, arg);
	}
}

/* A counter of queues, and of what belongs to no queue. */
static void
visit_slots_of_all(const TqMetricSet *set, const TqMetricFamily *family,
				   TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {.queue = -1};

	visit_slots(set, family, visit, arg);
	sample.value = (double) set->database.slot[family->which];
	if (set->all)
		visit(set, family, &sample, arg);
}

static void
visit_ends(const TqMetricSet *set, const TqMetricFamily *family,
		   TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {.label = "reason"};

	for (int i = 0; i < set->queue_count; i++)
	{
		const int64 *slot = set->queues[i].counted.slot;

		sample.queue = i;
		for (int end = TQ_END_FAILURE; end <= TQ_END_LAST; end++)
		{
			sample.label_value = ends[end];
			sample.value = (double) slot[TQ_METRIC_REQUEUED + end];
			visit(set, family, &sample, arg);
		}
	}
}

/*
 * All reasons for which attempts and waiting tasks end, also if they have not
 * occurred, so that the first one is an increase; others if they have.
 */
static void
visit_reasons(const TqMetricSet *set, const TqMetricFamily *family,
			  TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {.label = "reason"};

	for (int i = 0; i < set->queue_count; i++)
	{
		const int64 *slot = set->queues[i].counted.slot;

		sample.queue = i;
		for (int reason = TQ_REASON_NONE + 1; reason <= TQ_REASON_LAST;
			 reason++)
		{
			if (reason > TQ_REASON_POISON &&
				slot[TQ_METRIC_DEAD + reason] == 0)
				continue;
			sample.label_value = tq_reason_name((TqReason) reason);
			sample.value = (double) slot[TQ_METRIC_DEAD + reason];
			visit(set, family, &sample, arg);
		}
	}
}

static void
visit_histograms(const TqMetricSet *set, const TqMetricFamily *family,
				 TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {.histogram = (TqHistogram) family->which};

	for (int i = 0; i < set->queue_count; i++)
	{
		sample.queue = i;
		sample.counted = &set->queues[i].counted;
		visit(set, family, &sample, arg);
	}
}

static void
visit_depth(const TqMetricSet *set, const TqMetricFamily *family,
			TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {.label = "state"};

	for (int i = 0; i < set->queue_count; i++)
	{
		sample.queue = i;
		for (int s = 0; s < TQ_LIVE_STATES; s++)
		{
			sample.label_value = tq_state_name((TqState) (TQ_STATE_FIRST + s));
			sample.value = (double) set->queues[i].gauge.live[s];
			visit(set, family, &sample, arg);
		}
	}
}

/* A gauge of queues. */
static void
visit_queues(const TqMetricSet *set, const TqMetricFamily *family,
			 TqMetricVisit visit, void *arg)
{
	QueueGauge     which = (QueueGauge) family->which;
	TqMetricSample sample = {0};

	if ((which == GAUGE_DEAD || which == GAUGE_OLDEST_DEAD) &&
		!set->knows_dead)
		return;
	for (int i = 0; i < set->queue_count; i++)
	{
		sample.queue = i;
		sample.value = number_of_queue(&set->queues[i], which);
		visit(set, family, &sample, arg);
	}
}

static double
number_of_queue(const TqMetricQueue *queue, QueueGauge gauge)
{
	const TqQueueGauge *live = &queue->gauge;
	const double        second = USECS_PER_SEC;

	switch (gauge)
	{
		case GAUGE_READY:
			return (double) live->ready;
		case GAUGE_RETRIES:
			return (double) live->live[TQ_LIVE_RETRIES];
		case GAUGE_OLDEST_READY:
			return (double) Max(live->oldest_ready, 0) / second;
		case GAUGE_LONGEST_RUNNING:
			return (double) live->longest_running / second;
		case GAUGE_DEAD:
			return (double) queue->dead;
		case GAUGE_OLDEST_DEAD:
			return (double) Max(queue->oldest_dead, 0) / second;
		case GAUGE_WORKERS:
			return (double) live->workers;
		case GAUGE_WAITERS:
			return live->waiters;
	}
	return 0;
}

static void
visit_workers(const TqMetricSet *set, const TqMetricFamily *family,
			  TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {.queue = -1, .label = "state"};

	for (int i = 0; i < TQ_METRIC_WORKER_STATES && set->all; i++)
	{
		sample.label_value = worker_states[i];
		sample.value = (double) set->workers[i];
		visit(set, family, &sample, arg);
	}
}

/* A number of the database. */
static void
visit_database(const TqMetricSet *set, const TqMetricFamily *family,
			   TqMetricVisit visit, void *arg)
{
	TqMetricSample sample = {.queue = -1};

	if (!set->all)
		return;
	switch ((DatabaseNumber) family->which)
	{
		case NUMBER_NOT_COUNTED:
			sample.value = (double) set->not_counted;
			break;
		case NUMBER_SINCE:
			if (!set->counted)
				return;
			sample.value =
				(double) (set->since / USECS_PER_SEC +
						  (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
							  (int64) SECS_PER_DAY);
			break;
		case NUMBER_SNAPSHOT_AGE:
			sample.value = set->snapshot_age;
			break;
		case NUMBER_DEAD_SHARE:
			sample.value = set->dead_share;
			break;
		case NUMBER_IDS_USED:
			sample.value = set->ids_used;
			break;
		case NUMBER_WORKER_UP:
			sample.value = set->worker_up;
			break;
		case NUMBER_TURN_AGE:
			if (set->turn_age < 0)
				return;
			sample.value = set->turn_age;
			break;
		case NUMBER_OPERATIONS_STUCK:
			sample.value = (double) set->operations_stuck;
			break;
	}
	visit(set, family, &sample, arg);
}
