/*
 * guc.c
 *		The settings of the extension.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "utils/guc.h"

#include "base/guc.h"

/*
 * The largest threshold: ten days.  SHOW prints only six digits of a number.
 */
#define MOST_SECONDS (10 * 24 * 3600.0)

int    tq_guc_node_id = 0;
bool   tq_guc_auto_create_queues = true;
double tq_guc_stale_threshold = 30;
double tq_guc_dead_threshold = 120;
double tq_guc_reaper_interval = 15;
double tq_guc_deadline_interval = 30;
int    tq_guc_retention_interval = 10 * 60;
int    tq_guc_retention = 7 * 24 * 60 * 60;
int    tq_guc_retention_batch = 500;
int    tq_guc_max_lanes = 1000;
int    tq_guc_max_workers = 2000;
int    tq_guc_max_running_tracked = 65536;
int    tq_guc_max_databases = 64;
int    tq_guc_max_counters = 1000;
int    tq_guc_max_metrics = 1000;
int    tq_guc_max_wait = 5 * 60;
int    tq_guc_max_decision_steps = 100;
int    tq_guc_warn_decision_steps = 50;
int    tq_guc_max_decision_nesting = 20;
int    tq_guc_warn_decision_nesting = 10;
int    tq_guc_max_batch_members = 10000;
int    tq_guc_max_dependency_results = 16 * 1024;
int    tq_guc_max_catch_up = 100;
int    tq_guc_max_executors = 4;
double tq_guc_executor_idle_time = 30;
int    tq_guc_max_examined = 10000;

static void
define_int(const char *name, const char *short_desc, int *variable, int min,
		   int max, GucContext context, int flags)
{
	DefineCustomIntVariable(name, short_desc, NULL, variable, *variable, min,
							max, context, flags, NULL, NULL, NULL);
}

/*
 * Define a time in seconds, which may have a fraction: '60' is 60 s, and
 * '200ms' is 0.2 s.  The unit of all times is the second, so a number without
 * a unit has the same meaning in each setting.
 */
static void
define_seconds(const char *name, const char *short_desc, double *variable,
			   double max)
{
	DefineCustomRealVariable(name, short_desc, NULL, variable, *variable, 0.01,
							 max, PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

/*
 * Define a size of shared memory, which can be set only at server start.  If
 * the library is not preloaded, the setting has no effect, and is defined only
 * so that a configuration file that contains it raises no warning.
 */
static void
define_at_start(const char *name, const char *short_desc, int *variable,
				int min, int max)
{
	define_int(name, short_desc, variable, min, max,
			   process_shared_preload_libraries_in_progress ? PGC_POSTMASTER
															: PGC_SIGHUP,
			   0);
}

/* Settings of functions that only read, which every role may change. */
static void
define_for_readers(void)
{
	define_int("taskq.max_examined",
			   "Rows that taskq_list and taskq_failures examine at most.",
			   &tq_guc_max_examined, 1, PG_INT32_MAX, PGC_USERSET, 0);
}

void
tq_guc_init(void)
{
	define_int(
		"taskq.node_id",
		"Number of this server, which is the upper ten bits of task ids.",
		&tq_guc_node_id, 0, 1023, PGC_SIGHUP, 0);
	DefineCustomBoolVariable(
		"taskq.auto_create_queues",
		"Creates a missing queue when its first task is submitted.", NULL,
		&tq_guc_auto_create_queues, true, PGC_SUSET, 0, NULL, NULL, NULL);
	define_seconds(
		"taskq.stale_threshold",
		"Time without a heartbeat after which a worker is shown as stale.",
		&tq_guc_stale_threshold, MOST_SECONDS);
	define_seconds(
		"taskq.dead_threshold",
		"Time without a heartbeat after which a worker is declared dead.",
		&tq_guc_dead_threshold, MOST_SECONDS);
	define_seconds("taskq.reaper_interval",
				   "Time between checks for silent workers.",
				   &tq_guc_reaper_interval, 3600);
	define_seconds(
		"taskq.deadline_interval",
		"Time between checks for waiting tasks past their deadline.",
		&tq_guc_deadline_interval, 3600);
	define_int(
		"taskq.retention_interval", "Time between removals of finished tasks.",
		&tq_guc_retention_interval, 1, 24 * 3600, PGC_SIGHUP, GUC_UNIT_S);
	define_int("taskq.retention",
			   "Time for which finished tasks are kept; 0 disables retention.",
			   &tq_guc_retention, 0, INT_MAX, PGC_SIGHUP, GUC_UNIT_S);
	define_int(
		"taskq.retention_batch",
		"Maximum number of rows that retention removes in one transaction.",
		&tq_guc_retention_batch, 1, 100000, PGC_SIGHUP, 0);
	define_int("taskq.max_lanes",
			   "Maximum number of different sets of tags in a queue.",
			   &tq_guc_max_lanes, 1, 100000, PGC_SUSET, 0);
	define_int("taskq.max_wait",
			   "Maximum time for which a call waits for tasks.",
			   &tq_guc_max_wait, 1, 24 * 3600, PGC_SUSET, GUC_UNIT_S);
	define_int("taskq.max_decision_steps",
			   "Maximum number of steps that one decision chooses.",
			   &tq_guc_max_decision_steps, 1, 10000, PGC_SUSET, 0);
	define_int(
		"taskq.warn_decision_steps",
		"Number of steps above which a decision raises a warning; 0 disables the warning.",
		&tq_guc_warn_decision_steps, 0, 10000, PGC_SUSET, 0);
	define_int(
		"taskq.max_decision_nesting",
		"Maximum nesting depth of decisions and batches in a definition.",
		&tq_guc_max_decision_nesting, 1, TQ_GUC_MOST_NESTING, PGC_SUSET, 0);
	define_int(
		"taskq.warn_decision_nesting",
		"Nesting depth of decisions and batches above which a definition raises a warning; 0 disables the warning.",
		&tq_guc_warn_decision_nesting, 0, TQ_GUC_MOST_NESTING, PGC_SUSET, 0);
	define_int(
		"taskq.max_batch_members", "Maximum number of members in a batch.",
		&tq_guc_max_batch_members, 1, TQ_GUC_MOST_MEMBERS, PGC_SUSET, 0);
	define_int(
		"taskq.max_dependency_results",
		"Maximum size of dependency results that a claim returns inline.",
		&tq_guc_max_dependency_results, 0, 128 * 1024, PGC_SUSET, GUC_UNIT_KB);
	define_int(
		"taskq.max_catch_up",
		"Maximum number of missed planned times of a schedule that fire late.",
		&tq_guc_max_catch_up, 1, 10000, PGC_SUSET, 0);
	define_seconds("taskq.executor_idle_time",
				   "Time without work after which an executor of SQL tasks "
				   "exits.",
				   &tq_guc_executor_idle_time, 24 * 3600);
	define_for_readers();
	define_at_start(
		"taskq.max_executors",
		"Maximum number of executors of SQL tasks in all databases.",
		&tq_guc_max_executors, 0, 1000);
	define_at_start("taskq.max_workers",
					"Maximum number of registered workers in all databases.",
					&tq_guc_max_workers, 1, 1000000);
	define_at_start(
		"taskq.max_running_tracked",
		"Maximum number of running tasks that are tracked in shared memory.",
		&tq_guc_max_running_tracked, 128, 100000000);
	define_at_start("taskq.max_databases",
					"Maximum number of databases with a background worker.",
					&tq_guc_max_databases, 1, 10000);
	define_at_start(
		"taskq.max_counters",
		"Maximum number of queues, and workers with a limit, whose tasks are counted in shared memory.",
		&tq_guc_max_counters, 16, 1000000);
	define_at_start(
		"taskq.max_metrics",
		"Maximum number of queues and databases for which metrics are counted.",
		&tq_guc_max_metrics, 16, 1000000);
}

/* The time from one heartbeat of a worker to the next. */
int64
tq_guc_heartbeat_interval(void)
{
	return tq_guc_usecs(tq_guc_stale_threshold) / 3;
}

/*
 * Returns a description of what is wrong with the two thresholds, or NULL.  A
 * check hook cannot compare them, since the server assigns the settings of a
 * file one by one.
 */
const char *
tq_guc_threshold_problem(void)
{
	char *stale;
	char *dead;

	if (tq_guc_dead_threshold > tq_guc_stale_threshold)
		return NULL;
	stale = GetConfigOptionByName("taskq.stale_threshold", NULL, false);
	dead = GetConfigOptionByName("taskq.dead_threshold", NULL, false);
	if (tq_guc_usecs(tq_guc_dead_threshold) <= tq_guc_heartbeat_interval())
		return psprintf(
			"\"taskq.dead_threshold\" (%s) is not longer than the heartbeat interval, a third of \"taskq.stale_threshold\" (%s): workers that send heartbeats on time are declared dead",
			dead, stale);
	return psprintf(
		"\"taskq.dead_threshold\" (%s) is not longer than \"taskq.stale_threshold\" (%s): workers are declared dead without having been stale",
		dead, stale);
}
