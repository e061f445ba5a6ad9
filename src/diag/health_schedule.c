/*
 * health_schedule.c
 *		taskq_health(): schedules, and their jobs of pg_cron.
 *
 * taskq does not interpret cron expressions, so it cannot see that a job is
 * late.  The check finds what keeps a job from running: it is missing or was
 * changed, pg_cron does not run, or its last run failed.  The texts of errors
 * are not shown, since members of pg_monitor do not see what only readers of
 * the queue may see.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"

#include "base/spi.h"
#include "cron/cron.h"
#include "diag/health_report.h"
#include "diag/health_schedule.h"

#define MAX_NAMED 20 /* jobs in one detail */

static TqStmt stmt_schedules = {
	"SELECT count(*), count(problem),"
	"       (SELECT format('\"%s\"', p.name)"
	"          FROM taskq.schedule p WHERE p.enabled AND p.problem IS NOT NULL"
	"         ORDER BY p.name LIMIT 1)"
	"  FROM taskq.schedule WHERE enabled"};

static TqStmt stmt_crons = {
	"SELECT count(*) FROM taskq.schedule WHERE cron AND enabled"};

/*
 * Jobs that are not as cron/cron.c would write them, and jobs of taskq that no
 * schedule needs.
 */
static TqStmt stmt_jobs = {
	"SELECT format('\"taskq:%s\" %s', s.name,"
	"              CASE WHEN j.jobid IS NULL THEN 'does not exist'"
	"                   WHEN NOT j.active THEN 'is not active'"
	"                   WHEN j.username <> current_user::text"
	"                   THEN 'belongs to another role'"
	"                   ELSE 'was changed' END)"
	"  FROM taskq.schedule s"
	"  LEFT JOIN cron.job j ON j.jobname::text = 'taskq:' || s.name"
	"   AND (j.jobid = s.job_id OR j.username = current_user::text"
	"        AND j.command = " TQ_SQL_CRON_COMMAND ")"
	" WHERE s.cron AND s.enabled"
	"   AND (j.jobid IS NULL OR NOT j.active OR j.schedule <> s.plan"
	"        OR j.database <> current_database()"
	"        OR j.username <> current_user::text"
	"        OR j.command <> " TQ_SQL_CRON_COMMAND ")"
	" UNION ALL "
	"SELECT format('\"%s\" has no schedule', j.jobname) FROM cron.job j"
	" WHERE j.username = current_user::text"
	"   AND j.command = " TQ_SQL_CRON_COMMAND
	"   AND NOT EXISTS (SELECT FROM taskq.schedule s"
	"                    WHERE j.jobname::text = 'taskq:' || s.name"
	"                      AND s.cron AND s.enabled)"
	" ORDER BY 1 LIMIT $1",
	{INT4OID}};

/*
 * The last runs of the jobs, if they failed.  Only recent runs are read, since
 * pg_cron never removes any.  A run that a restart ended is no problem.
 */
static TqStmt stmt_runs = {
	"SELECT format('\"taskq:%s\"', s.name)"
	"  FROM taskq.schedule s"
	"  JOIN (SELECT DISTINCT ON (d.jobid) d.jobid, d.status, d.return_message"
	"          FROM (SELECT jobid, runid, status, return_message"
	"                  FROM cron.job_run_details"
	"                 ORDER BY runid DESC LIMIT 1000) d"
	"         WHERE d.status IN ('succeeded', 'failed')"
	"         ORDER BY d.jobid, d.runid DESC) r ON r.jobid = s.job_id"
	" WHERE s.cron AND s.enabled AND r.status = 'failed'"
	"   AND r.return_message <> 'server restarted'"
	" ORDER BY s.name LIMIT $1",
	{INT4OID}};

static TqStmt stmt_launcher = {"SELECT FROM pg_stat_activity"
							   " WHERE backend_type LIKE 'pg_cron%'"};

static TqStmt stmt_login = {
	"SELECT FROM pg_roles WHERE rolname = current_user AND rolcanlogin"};

static void  check_state(TqHealth *health);
static void  check_jobs(TqHealth *health);
static char *list(TqSpi *spi, TqStmt *stmt);

/* Did the last firing of each schedule submit its task? */
void
tq_health_schedules(TqHealth *health)
{
	int64 count;
	int64 failed;
	char *first;
	TqSpi spi;

	tq_spi_enter(&spi);
	(void) tq_spi_look(&stmt_schedules, NULL, NULL, 1);
	count = tq_spi_int8(0, 1, 0);
	failed = tq_spi_int8(0, 2, 0);
	first = tq_spi_text(&spi, 0, 3);
	tq_spi_leave(&spi);
	if (failed > 0)
		tq_health_fail(
			health,
			INT64_FORMAT
			" of " INT64_FORMAT
			" enabled schedules have a problem, the first of them is %s. The column \"problem\" of the view taskq.schedules says why.",
			failed, count, first);
	else
		tq_health_say(health,
					  "None of " INT64_FORMAT
					  " enabled schedules has a problem.",
					  count);
}

/* Can pg_cron fire the schedules that have cron expressions? */
void
tq_health_cron_jobs(TqHealth *health)
{
	int64 count = tq_spi_find_id(&stmt_crons, NULL);

	if (count == 0)
		tq_health_say(health, "No enabled schedule has a cron expression.");
	else if (health->copy)
		tq_health_say(
			health,
			"The jobs of schedules are written when this database is activated.");
	else
		check_state(health);
	if (count > 0 && health->ok && !health->copy)
		tq_health_say(health,
					  "pg_cron has the jobs of " INT64_FORMAT " schedules.",
					  count);
}

static void
check_state(TqHealth *health)
{
	switch (tq_cron_state())
	{
		case TQ_CRON_ABSENT:
			tq_health_fail(
				health,
				"pg_cron is not loaded, so schedules with cron expressions do not fire. Add pg_cron to \"shared_preload_libraries\" and restart the server.");
			break;
		case TQ_CRON_ELSEWHERE:
			tq_health_fail(
				health,
				"pg_cron runs in database \"%s\", so schedules with cron expressions do not fire. Change \"cron.database_name\" and restart the server.",
				tq_cron_database());
			break;
		case TQ_CRON_MISSING:
			tq_health_fail(
				health,
				"Extension pg_cron does not exist in this database, so schedules with cron expressions do not fire. Run CREATE EXTENSION pg_cron, then save them again with taskq_schedule().");
			break;
		case TQ_CRON_REFUSING:
			tq_health_fail(
				health,
				"pg_cron runs no jobs of superusers, so schedules with cron expressions do not fire. Set \"cron.enable_superuser_jobs\" to on and restart the server.");
			break;
		case TQ_CRON_READY:
			check_jobs(health);
			break;
	}
}

static void
check_jobs(TqHealth *health)
{
	bool  runs;
	bool  can_log_in;
	char *jobs;
	char *failed;
	TqSpi spi;

	tq_spi_enter(&spi);
	runs = health->standby || tq_spi_look(&stmt_launcher, NULL, NULL, 1) > 0;
	can_log_in = tq_spi_look(&stmt_login, NULL, NULL, 1) > 0;
	jobs = list(&spi, &stmt_jobs);
	failed = list(&spi, &stmt_runs);
	tq_spi_leave(&spi);
	if (!runs)
		tq_health_fail(
			health,
			"pg_cron is loaded, but its process is not running, so schedules with cron expressions do not fire. See the server log.");
	if (!can_log_in)
		tq_health_fail(
			health,
			"The owner of the extension taskq cannot log in, so pg_cron cannot run its jobs. Use ALTER ROLE ... LOGIN.");
	if (jobs != NULL)
		tq_health_fail(
			health,
			"Jobs of pg_cron are not as they should be: job %s. Save the schedules again with taskq_schedule(), and remove jobs without a schedule with cron.unschedule().",
			jobs);
	if (failed != NULL)
		tq_health_fail(
			health,
			"The last run of these jobs of pg_cron failed: %s. The column \"return_message\" of cron.job_run_details says why. If pg_cron cannot connect, set \"cron.use_background_workers\" to on and restart the server, or allow the connection in pg_hba.conf.",
			failed);
}

/* The texts that a statement returns, or NULL if there are none. */
static char *
list(TqSpi *spi, TqStmt *stmt)
{
	Datum          most = Int32GetDatum(MAX_NAMED);
	uint64         count = tq_spi_look(stmt, &most, NULL, 0);
	StringInfoData text;
	MemoryContext  mine;

	if (count == 0)
		return NULL;
	mine = MemoryContextSwitchTo(spi->caller);
	initStringInfo(&text);
	for (uint64 i = 0; i < count; i++)
		appendStringInfo(&text, "%s%s", i == 0 ? "" : ", ",
						 tq_spi_text(spi, i, 1));
	MemoryContextSwitchTo(mine);
	return text.data;
}
