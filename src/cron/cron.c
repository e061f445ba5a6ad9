/*
 * cron.c
 *		Jobs of pg_cron.
 *
 * Each enabled schedule with a cron expression has a job named
 * "taskq:<schedule>", which calls taskq.fire_cron().  It belongs to the owner
 * of the extension, who alone may call that function; the task is submitted
 * with the rights of the schedule's owner.
 *
 * The jobs are read in the table cron.job and changed by pg_cron's functions
 * only.  A job belongs to taskq if it has such a name and either the id that
 * taskq.schedule contains, or the owner and the command that it would have.
 * Other jobs are never changed, whatever their names.  An id alone does not
 * suffice: a pg_cron that was created again gives the same ids to other jobs.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/guc.h"

#include "base/catalog.h"
#include "base/spi.h"
#include "cron/cron.h"

/* Versions before 1.5 have no setting for it. */
#define DEFAULT_ZONE "GMT"

#define USE_EVERY "or use the form \"every <interval> at <time>\"."

/* The row is locked, so that nothing else removes the job in the meantime. */
static TqStmt stmt_find = {
	"SELECT jobid, schedule = $4 AND command = $3 AND active"
	"       AND database = current_database()"
	"       AND username = current_user::text"
	"  FROM cron.job"
	" WHERE jobname::text = $1"
	"   AND (jobid = $2 OR (username = current_user::text AND command = $3))"
	" ORDER BY jobid <> $2 FOR UPDATE",
	{TEXTOID, INT8OID, TEXTOID, TEXTOID}};

static TqStmt stmt_taken = {
	"SELECT jobid FROM cron.job"
	" WHERE jobname::text = $1 AND username = current_user::text",
	{TEXTOID}};

static TqStmt stmt_schedule = {"SELECT cron.schedule($1, $2, $3)",
							   {TEXTOID, TEXTOID, TEXTOID}};

static TqStmt stmt_unschedule = {"SELECT cron.unschedule($1)", {INT8OID}};

static TqStmt stmt_list = {
	"SELECT j.jobid FROM cron.job j"
	" WHERE starts_with(j.jobname::text, 'taskq:')"
	"   AND (j.jobid IN (SELECT job_id FROM taskq.schedule"
	"                     WHERE 'taskq:' || name = j.jobname::text)"
	"        OR (j.username = current_user::text"
	"            AND j.command = " TQ_SQL_CRON_COMMAND "))"
	" FOR UPDATE"};

static const char *cron_setting(const char *name);
static bool        can_be_called(void);
static const char *reason_of(TqCronState state);
static const char *remedy(TqCronState state);
static bool        same_zone(const char *a, const char *b);
static int64 find_job(const char *name, const char *schedule, int64 job_id,
					  bool *same);
static char *command_of(const char *name);
static void  unschedule(int64 job_id);

TqCronState
tq_cron_state(void)
{
	const char *database = tq_cron_database();
	const char *superusers = cron_setting("cron.enable_superuser_jobs");

	if (database == NULL)
		return TQ_CRON_ABSENT;
	if (strcmp(database, get_database_name(MyDatabaseId)) != 0)
		return TQ_CRON_ELSEWHERE;
	if (!OidIsValid(get_extension_oid("pg_cron", true)))
		return TQ_CRON_MISSING;
	if (superusers != NULL && strcmp(superusers, "off") == 0 &&
		superuser_arg(tq_catalog()->owner))
		return TQ_CRON_REFUSING;
	return TQ_CRON_READY;
}

/* The database in which pg_cron runs, or NULL if it is not loaded. */
const char *
tq_cron_database(void)
{
	return cron_setting("cron.database_name");
}

/* A setting of pg_cron, or NULL if the loaded library does not define it. */
static const char *
cron_setting(const char *name)
{
	const char *value = GetConfigOption(name, true, false);

	if (value != NULL &&
		(GetConfigOptionFlags(name, true) & GUC_CUSTOM_PLACEHOLDER) != 0)
		return NULL;
	return value;
}

/* Can the functions of pg_cron be called in this database? */
static bool
can_be_called(void)
{
	return tq_cron_database() != NULL &&
		   OidIsValid(get_extension_oid("pg_cron", true));
}

/* Raise an error unless pg_cron can run jobs by the clock of the time zone. */
void
tq_cron_require(const char *zone)
{
	TqCronState state = tq_cron_state();
	const char *own = cron_setting("cron.timezone");

	if (state != TQ_CRON_READY)
		ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						errmsg("cannot use a cron expression because %s",
							   reason_of(state)),
						errhint("%s, " USE_EVERY, remedy(state))));
	if (own == NULL)
		own = DEFAULT_ZONE;
	if (!same_zone(zone, own))
		ereport(
			ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg(
				 "cannot use a cron expression in time zone \"%s\" because pg_cron uses \"%s\"",
				 zone, own),
			 errhint("Use the time zone of pg_cron, " USE_EVERY)));
}

static const char *
reason_of(TqCronState state)
{
	switch (state)
	{
		case TQ_CRON_ABSENT:
			return "pg_cron is not loaded";
		case TQ_CRON_ELSEWHERE:
			return psprintf("pg_cron runs in database \"%s\"",
							tq_cron_database());
		case TQ_CRON_MISSING:
			return "extension pg_cron does not exist in this database";
		case TQ_CRON_REFUSING:
			return "pg_cron runs no jobs of superusers";
		case TQ_CRON_READY:
			break;
	}
	pg_unreachable();
}

static const char *
remedy(TqCronState state)
{
	switch (state)
	{
		case TQ_CRON_ABSENT:
			return "Install pg_cron (Debian package postgresql-" PG_MAJORVERSION
				   "-cron), add it to shared_preload_libraries, set cron.database_name to the name of this database, restart the server and run CREATE EXTENSION pg_cron";
		case TQ_CRON_ELSEWHERE:
			return psprintf(
				"Set cron.database_name to \"%s\", restart the server and run CREATE EXTENSION pg_cron",
				get_database_name(MyDatabaseId));
		case TQ_CRON_MISSING:
			return "Run CREATE EXTENSION pg_cron";
		case TQ_CRON_REFUSING:
			return "Set cron.enable_superuser_jobs to on and restart the server";
		case TQ_CRON_READY:
			break;
	}
	pg_unreachable();
}

/* Do two names stand for the same time zone? */
static bool
same_zone(const char *a, const char *b)
{
	pg_tz *zone_a = pg_tzset(a);
	pg_tz *zone_b = pg_tzset(b);
	long   offset_a;
	long   offset_b;

	if (zone_a == NULL || zone_b == NULL)
		return false;
	if (strcmp(pg_get_timezone_name(zone_a), pg_get_timezone_name(zone_b)) ==
		0)
		return true;
	/* UTC and GMT, for example */
	return pg_get_timezone_offset(zone_a, &offset_a) &&
		   pg_get_timezone_offset(zone_b, &offset_b) && offset_a == offset_b;
}

/*
 * Write the job of a schedule, whose row is locked.  job_id is that of its
 * last job, or 0.  Returns the id of the job.
 */
int64
tq_cron_write(const char *name, const char *schedule, int64 job_id)
{
	char *job = psprintf("taskq:%s", name);
	Datum args[3];
	bool  same;
	TqSpi spi;

	tq_spi_enter(&spi);
	while ((job_id = find_job(name, schedule, job_id, &same)) != 0 && !same)
		unschedule(job_id);
	if (job_id == 0)
	{
		args[0] = CStringGetTextDatum(job);
		args[1] = CStringGetTextDatum(schedule);
		args[2] = CStringGetTextDatum(command_of(name));
		if (tq_spi_run(&stmt_taken, args, NULL, SPI_OK_SELECT, 1) > 0)
			ereport(
				ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg(
					 "job \"%s\" of pg_cron already exists and does not belong to a schedule",
					 job),
				 errhint(
					 "Use another name for the schedule, or remove the job with cron.unschedule().")));
		(void) tq_spi_run(&stmt_schedule, args, NULL, SPI_OK_SELECT, 1);
		job_id = tq_spi_int8(0, 1, 0);
	}
	tq_spi_leave(&spi);
	return job_id;
}

/*
 * Find and lock the job of a schedule.  Returns its id, or 0.  *same is
 * whether it is as it would be written.
 */
static int64
find_job(const char *name, const char *schedule, int64 job_id, bool *same)
{
	Datum args[4];

	args[0] = CStringGetTextDatum(psprintf("taskq:%s", name));
	args[1] = Int64GetDatum(job_id);
	args[2] = CStringGetTextDatum(command_of(name));
	args[3] = CStringGetTextDatum(schedule);
	if (tq_spi_run(&stmt_find, args, NULL, SPI_OK_SELECT, 1) == 0)
		return 0;
	*same = tq_spi_bool(0, 2);
	return tq_spi_int8(0, 1, 0);
}

/* As TQ_SQL_CRON_COMMAND. */
static char *
command_of(const char *name)
{
	return psprintf("SELECT taskq.fire_cron(%s)", quote_literal_cstr(name));
}

static void
unschedule(int64 job_id)
{
	Datum arg = Int64GetDatum(job_id);

	(void) tq_spi_run(&stmt_unschedule, &arg, NULL, SPI_OK_SELECT, 1);
}

/* Remove the job of a schedule, if there is one. */
void
tq_cron_remove(const char *name, int64 job_id)
{
	bool  same;
	TqSpi spi;

	if (!can_be_called())
		return;
	tq_spi_enter(&spi);
	while ((job_id = find_job(name, "", job_id, &same)) != 0)
		unschedule(job_id);
	tq_spi_leave(&spi);
}

/* Remove the jobs of all schedules: the extension is about to be dropped. */
void
tq_cron_remove_all(void)
{
	uint64 count;
	int64 *ids;
	TqSpi  spi;

	if (!can_be_called())
		return;
	tq_spi_enter(&spi);
	count = tq_spi_run(&stmt_list, NULL, NULL, SPI_OK_SELECT, 0);
	ids = tq_spi_ids(&spi, count, 1);
	for (uint64 i = 0; i < count; i++)
		unschedule(ids[i]);
	tq_spi_leave(&spi);
}
