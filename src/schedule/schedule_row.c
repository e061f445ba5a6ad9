/*
 * schedule_row.c
 *		Reads and writes rows of taskq.schedule.
 *
 * A row that was read is locked until the transaction ends, so only one
 * session at a time fires or changes a schedule.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "base/clock.h"
#include "base/spi.h"
#include "schedule/schedule_row.h"
#include "store/snapshot.h"
#include "xact/xact.h"

#define COLUMNS                                                               \
	"name, plan, queue, payload, timezone, overlap, catch_up, options,"       \
	" enabled, role_id, anchor, position, last_run, last_task_id, misses,"    \
	" problem, cron, job_id, last_workflow_id"

static TqStmt stmt_find = {"SELECT " COLUMNS " FROM taskq.schedule"
						   " WHERE name = $1 FOR UPDATE",
						   {TEXTOID}};

static TqStmt stmt_due = {"SELECT " COLUMNS " FROM taskq.schedule"
						  " WHERE due_at <= $1 ORDER BY due_at, name LIMIT 1"
						  " FOR UPDATE SKIP LOCKED",
						  {TIMESTAMPTZOID}};

static TqStmt stmt_next = {"SELECT min(due_at) FROM taskq.schedule"};

static TqStmt stmt_add = {
	"INSERT INTO taskq.schedule (name, plan, queue, timezone, overlap,"
	" catch_up, enabled, role_id, anchor, position)"
	" VALUES ($1, '', '', '', '', '', false, $2, '-infinity', 0)"
	" ON CONFLICT (name) DO NOTHING",
	{TEXTOID, INT4OID}};

/* What a user saves. */
static TqStmt stmt_define = {
	"UPDATE taskq.schedule SET plan = $2, queue = $3, payload = $4,"
	" timezone = $5, overlap = $6, catch_up = $7, options = $8, enabled = $9,"
	" role_id = $10, anchor = $11, cron = $12, job_id = $13 WHERE name = $1",
	{TEXTOID, TEXTOID, TEXTOID, JSONBOID, TEXTOID, TEXTOID, TEXTOID, JSONBOID,
	 BOOLOID, INT4OID, TIMESTAMPTZOID, BOOLOID, INT8OID}};

/* What a firing changes. */
static TqStmt stmt_place = {
	"UPDATE taskq.schedule SET position = $2, last_run = $3,"
	" last_task_id = $4, misses = $5, problem = $6, next_run = $7,"
	" due_at = $7, last_workflow_id = $8 WHERE name = $1",
	{TEXTOID, INT8OID, TIMESTAMPTZOID, INT8OID, INT8OID, TEXTOID,
	 TIMESTAMPTZOID, INT8OID}};

static TqStmt stmt_postpone = {
	"UPDATE taskq.schedule SET problem = $2, due_at = $3, position = $4"
	" WHERE name = $1",
	{TEXTOID, TEXTOID, TIMESTAMPTZOID, INT8OID}};

static TqStmt stmt_set_job = {
	"UPDATE taskq.schedule SET job_id = $2, problem = $3 WHERE name = $1",
	{TEXTOID, INT8OID, TEXTOID}};

static TqStmt stmt_cron_names = {
	"SELECT name FROM taskq.schedule WHERE cron AND enabled ORDER BY name"};

static TqStmt stmt_delete = {"DELETE FROM taskq.schedule WHERE name = $1",
							 {TEXTOID}};

static bool read_row(TqStmt *stmt, Datum arg, TqSchedule *row);
static void give(Datum *args, bool *nulls, int n, bool given, Datum value);

/* Lock and read a schedule.  Returns false if it does not exist. */
bool
tq_schedule_row_find(const char *name, TqSchedule *row)
{
	return read_row(&stmt_find, CStringGetTextDatum(name), row);
}

/* Lock and read the schedule that has been due for longest. */
bool
tq_schedule_row_due(TimestampTz now, TqSchedule *row)
{
	return read_row(&stmt_due, TimestampTzGetDatum(now), row);
}

static bool
read_row(TqStmt *stmt, Datum arg, TqSchedule *row)
{
	TqSpi spi;
	bool  found;

	tq_snapshot_renew();
	tq_spi_enter(&spi);
	found = tq_spi_run(stmt, &arg, NULL, SPI_OK_SELECT, 1) > 0;
	if (found)
	{
		row->name = tq_spi_text(&spi, 0, 1);
		row->text = tq_spi_text(&spi, 0, 2);
		row->queue = tq_spi_text(&spi, 0, 3);
		row->payload = tq_spi_jsonb(&spi, 0, 4);
		row->zone = tq_spi_text(&spi, 0, 5);
		row->overlap = tq_spi_text(&spi, 0, 6);
		row->catch_up = tq_spi_text(&spi, 0, 7);
		row->options = tq_spi_jsonb(&spi, 0, 8);
		row->enabled = tq_spi_bool(0, 9);
		row->role_id = tq_spi_int4(0, 10, 0);
		row->anchor = tq_spi_time(0, 11, 0);
		row->position = tq_spi_int8(0, 12, 0);
		row->last_run = tq_spi_time(0, 13, DT_NOEND);
		row->last_task_id = tq_spi_int8(0, 14, 0);
		row->misses = tq_spi_int8(0, 15, 0);
		row->problem = tq_spi_text(&spi, 0, 16);
		row->cron = tq_spi_bool(0, 17);
		row->job_id = tq_spi_int8(0, 18, 0);
		row->last_workflow_id = tq_spi_int8(0, 19, 0);
	}
	tq_spi_leave(&spi);
	return found;
}

/* When the next schedule is due, by the wall clock. */
TimestampTz
tq_schedule_row_next_due(void)
{
	return tq_spi_find_time(&stmt_next, NULL, DT_NOEND);
}

/* Write the definition of a schedule whose row is locked. */
void
tq_schedule_row_define(const TqSchedule *row)
{
	Datum args[13];
	bool  nulls[13] = {false};

	args[0] = CStringGetTextDatum(row->name);
	args[1] = CStringGetTextDatum(row->text);
	args[2] = CStringGetTextDatum(row->queue);
	give(args, nulls, 3, row->payload != NULL, JsonbPGetDatum(row->payload));
	args[4] = CStringGetTextDatum(row->zone);
	args[5] = CStringGetTextDatum(row->overlap);
	args[6] = CStringGetTextDatum(row->catch_up);
	give(args, nulls, 7, row->options != NULL, JsonbPGetDatum(row->options));
	args[8] = BoolGetDatum(row->enabled);
	args[9] = Int32GetDatum(row->role_id);
	args[10] = TimestampTzGetDatum(row->anchor);
	args[11] = BoolGetDatum(row->cron);
	give(args, nulls, 12, row->job_id != 0, Int64GetDatum(row->job_id));
	tq_spi_execute(&stmt_define, args, nulls, SPI_OK_UPDATE);
}

/*
 * Write what a firing changes in a schedule whose row is locked.  It is due at
 * its next planned time, and not at all if it is disabled.
 */
void
tq_schedule_row_place(const TqSchedule *row, const TqPlan *plan)
{
	TimestampTz next = row->enabled ? tq_plan_time(plan, row->position)
									: DT_NOEND;
	Datum       args[8];
	bool        nulls[8] = {false};

	args[0] = CStringGetTextDatum(row->name);
	args[1] = Int64GetDatum(row->position);
	give(args, nulls, 2, row->last_run != DT_NOEND,
		 TimestampTzGetDatum(row->last_run));
	give(args, nulls, 3, row->last_task_id != 0,
		 Int64GetDatum(row->last_task_id));
	args[4] = Int64GetDatum(row->misses);
	nulls[5] = row->problem == NULL;
	args[5] = nulls[5] ? (Datum) 0 : CStringGetTextDatum(row->problem);
	give(args, nulls, 6, next != DT_NOEND, TimestampTzGetDatum(next));
	give(args, nulls, 7, row->last_workflow_id != 0,
		 Int64GetDatum(row->last_workflow_id));
	tq_spi_execute(&stmt_place, args, nulls, SPI_OK_UPDATE);
	/* the background worker sleeps on the dispatch clock */
	if (next != DT_NOEND)
		tq_xact_due(next + (tq_clock_dispatch() - tq_clock_wall()));
}

/* Set an argument, or null if it is not given. */
static void
give(Datum *args, bool *nulls, int n, bool given, Datum value)
{
	args[n] = given ? value : (Datum) 0;
	nulls[n] = !given;
}

/* Note an error, and try the same planned time again later. */
void
tq_schedule_row_postpone(const TqSchedule *row, const char *problem,
						 TimestampTz due)
{
	Datum args[4];

	args[0] = CStringGetTextDatum(row->name);
	args[1] = CStringGetTextDatum(problem);
	args[2] = TimestampTzGetDatum(due);
	args[3] = Int64GetDatum(row->position);
	tq_spi_execute(&stmt_postpone, args, NULL, SPI_OK_UPDATE);
	tq_xact_due(due + (tq_clock_dispatch() - tq_clock_wall()));
}

/* Write which job of pg_cron fires a schedule, or why there is none. */
void
tq_schedule_row_set_job(const char *name, int64 job_id, const char *problem)
{
	Datum args[3];
	bool  nulls[3] = {false};

	args[0] = CStringGetTextDatum(name);
	give(args, nulls, 1, job_id != 0, Int64GetDatum(job_id));
	nulls[2] = problem == NULL;
	args[2] = nulls[2] ? (Datum) 0 : CStringGetTextDatum(problem);
	tq_spi_execute(&stmt_set_job, args, nulls, SPI_OK_UPDATE);
}

/* The names of the enabled schedules with cron expressions. */
List *
tq_schedule_row_cron_names(void)
{
	MemoryContext caller = CurrentMemoryContext;
	List         *names = NIL;
	uint64        count;
	TqSpi         spi;

	tq_spi_enter(&spi);
	count = tq_spi_look(&stmt_cron_names, NULL, NULL, 0);
	for (uint64 i = 0; i < count; i++)
	{
		char         *name = tq_spi_text(&spi, i, 1);
		MemoryContext mine = MemoryContextSwitchTo(caller);

		names = lappend(names, name);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	return names;
}

/* Add a row that the caller fills in.  Returns false if the name is taken. */
bool
tq_schedule_row_add(const TqSchedule *row)
{
	Datum args[2] = {CStringGetTextDatum(row->name),
					 Int32GetDatum(row->role_id)};

	return tq_spi_execute(&stmt_add, args, NULL, SPI_OK_INSERT) == 1;
}

bool
tq_schedule_row_delete(const char *name)
{
	Datum arg = CStringGetTextDatum(name);

	return tq_spi_execute(&stmt_delete, &arg, NULL, SPI_OK_DELETE) == 1;
}
