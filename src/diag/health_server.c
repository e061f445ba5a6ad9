/*
 * health_server.c
 *		taskq_health(): effects of the server on the task queue.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "utils/timestamp.h"

#include "base/guc.h"
#include "base/spi.h"
#include "diag/health_report.h"
#include "diag/health_server.h"

/* An older snapshot or prepared transaction is a problem. */
#define OLD (INT64CONST(10) * USECS_PER_MINUTE)

/* A replication slot or a standby may lag by this many transactions. */
#define LAG 1000000

/*
 * Dead rows are a problem above this multiple of autovacuum's threshold, and
 * above this number.
 */
#define DEAD_FACTOR 10
#define DEAD_LEAST 10000

/*
 * An upper limit whatever the settings are: the server stops at about
 * 2,000,000,000.
 */
#define AGE_MOST INT64CONST(1200000000)

/*
 * The session with the oldest snapshot or an open transaction.  Sessions of
 * this database and standbys prevent the removal of its dead rows.
 */
static TqStmt stmt_snapshots = {
	"SELECT a.pid, coalesce(a.usename::text, '?'),"
	"       coalesce(a.application_name, ''), coalesce(a.state, '?'),"
	"       a.xact_start, age(a.backend_xmin)"
	"  FROM pg_stat_activity a"
	" WHERE (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)"
	"   AND a.pid <> pg_backend_pid()"
	"   AND (a.datid IS NULL OR a.datid IN (0, $1)"
	"        OR a.backend_type = 'walsender')"
	"   AND a.backend_type IS DISTINCT FROM 'autovacuum worker'"
	"   AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v"
	"                    WHERE v.pid = a.pid)"
	" ORDER BY (a.xact_start IS NULL AND age(a.backend_xmin) > $2) DESC,"
	"          a.xact_start NULLS LAST LIMIT 1",
	{OIDOID, INT4OID}};

static TqStmt stmt_prepared = {
	"SELECT count(*) OVER (), p.gid, coalesce(p.owner::text, '?'), p.prepared"
	"  FROM pg_prepared_xacts p WHERE p.database = current_database()"
	" ORDER BY p.prepared LIMIT 1"};

static TqStmt stmt_replication = {
	"SELECT s.slot_name::text, s.active,"
	"       greatest(age(s.xmin), age(s.catalog_xmin)),"
	"       NOT s.active AND s.wal_status = 'extended'"
	"  FROM pg_replication_slots s"
	" WHERE greatest(age(s.xmin), age(s.catalog_xmin)) > $1"
	"    OR (NOT s.active AND s.wal_status = 'extended')"
	" ORDER BY s.slot_name LIMIT 20",
	{INT4OID}};

/* Tables of the extension: dead rows, and the threshold of autovacuum. */
static TqStmt stmt_vacuum = {
	"SELECT c.relname::text, pg_stat_get_live_tuples(c.oid),"
	"       pg_stat_get_dead_tuples(c.oid),"
	"       greatest(pg_stat_get_last_autovacuum_time(c.oid),"
	"                pg_stat_get_last_vacuum_time(c.oid)),"
	"       coalesce(o.threshold,"
	"                current_setting('autovacuum_vacuum_threshold'))::float8"
	"       + coalesce(o.scale,"
	"                current_setting('autovacuum_vacuum_scale_factor'))::float8"
	"         * greatest(c.reltuples, 0),"
	"       coalesce(o.enabled, 'on')::bool"
	"  FROM pg_class c"
	" CROSS JOIN LATERAL (SELECT"
	"    max(r.option_value) FILTER (WHERE"
	"        r.option_name = 'autovacuum_vacuum_threshold') AS threshold,"
	"    max(r.option_value) FILTER (WHERE"
	"        r.option_name = 'autovacuum_vacuum_scale_factor') AS scale,"
	"    max(r.option_value) FILTER (WHERE"
	"        r.option_name = 'autovacuum_enabled') AS enabled"
	"   FROM pg_options_to_table(c.reloptions) r) o"
	" WHERE c.relnamespace = 'taskq'::regnamespace AND c.relkind = 'r'"
	" ORDER BY c.relname <> 'task', c.relname"};

static TqStmt stmt_ages = {
	"SELECT max(age(c.relfrozenxid)), max(mxid_age(c.relminmxid)),"
	"       current_setting('autovacuum_freeze_max_age')::bigint,"
	"       current_setting('autovacuum_multixact_freeze_max_age')::bigint"
	"  FROM pg_class c"
	" WHERE c.relkind IN ('r', 't') AND c.relfrozenxid <> '0'"
	"   AND (c.relnamespace = 'taskq'::regnamespace"
	"        OR c.oid IN (SELECT m.reltoastrelid FROM pg_class m"
	"                      WHERE m.relnamespace = 'taskq'::regnamespace))"};

/*
 * Find what users have added to tables that taskq writes below the executor
 * (store/row.c; rows of taskq.edge are only deleted that way).  Objects that
 * partitions inherit from their table are reported once.
 */
static TqStmt stmt_additions = {
	"WITH written AS (SELECT c.oid, c.relname::text, c.relrowsecurity,"
	"                        i.inhparent AS parent"
	"   FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
	"  WHERE c.relnamespace = 'taskq'::regnamespace"
	"    AND (c.relname IN ('task', 'archive', 'transition', 'edge')"
	"         AND c.relkind IN ('r', 'p')"
	"         OR i.inhparent IN ('taskq.archive'::regclass,"
	"                            'taskq.transition'::regclass))),"
	" found AS ("
	"SELECT format('trigger \"%s\" of taskq.%s', g.tgname, w.relname) AS what"
	"  FROM pg_trigger g JOIN written w ON w.oid = g.tgrelid"
	" WHERE NOT g.tgisinternal AND g.tgparentid = 0"
	" UNION ALL "
	"SELECT format('rule \"%s\" of taskq.%s', r.rulename, w.relname)"
	"  FROM pg_rewrite r JOIN written w ON w.oid = r.ev_class"
	" UNION ALL "
	"SELECT format('%s \"%s\" of taskq.%s',"
	"              CASE k.contype WHEN 'f' THEN 'foreign key'"
	"                             WHEN 'c' THEN 'check constraint'"
	"                             ELSE 'deferrable constraint' END,"
	"              k.conname, w.relname)"
	"  FROM pg_constraint k JOIN written w ON w.oid = k.conrelid"
	" WHERE k.conparentid = 0 AND k.coninhcount = 0 AND w.relname <> 'edge'"
	"   AND (k.contype IN ('c', 'f')"
	"        OR k.contype IN ('p', 'u', 'x') AND k.condeferrable)"
	" UNION ALL "
	"SELECT format('foreign key \"%s\" of %s, which refers to taskq.%s',"
	"              k.conname, k.conrelid::regclass, w.relname)"
	"  FROM pg_constraint k JOIN written w ON w.oid = k.confrelid"
	" WHERE k.contype = 'f' AND k.conparentid = 0"
	" UNION ALL "
	"SELECT format('row security of taskq.%s', w.relname)"
	"  FROM written w WHERE w.relrowsecurity"
	" UNION ALL "
	"SELECT format('NOT NULL of column \"%s\" of taskq.%s', a.attname, w.relname)"
	"  FROM pg_attribute a JOIN written w ON w.oid = a.attrelid"
	" WHERE a.attnotnull AND a.attname = ANY ('{deadline, wake_at,"
	"       cancel_requested_at, suspended_at, workflow_id, step_id, reference,"
	"       key, correlation_id, tags, options, payload, data, headers, result,"
	"       checkpoint, errors, message, expires_at, recreated_as}')"
	"   AND w.relname <> 'edge'"
	"   AND NOT EXISTS (SELECT FROM pg_attribute p"
	"                    WHERE p.attrelid = w.parent"
	"                      AND p.attname = a.attname AND p.attnotnull))"
	"SELECT string_agg(what, ', ' ORDER BY what)"
	"  FROM (SELECT what FROM found ORDER BY what LIMIT 20) f"};

static void tell_dead_rows(TqHealth *health, TqSpi *spi, uint64 row);
static void tell_age(TqHealth *health, const char *what, int64 age,
					 int64 freeze);

/* The oldest snapshot keeps dead rows, which claims must walk over. */
void
tq_health_snapshots(TqHealth *health)
{
	TimestampTz start;
	Datum       args[2];
	bool        has_start;
	int32       lag;
	char       *who;
	TqSpi       spi;

	args[0] = ObjectIdGetDatum(MyDatabaseId);
	args[1] = Int32GetDatum(LAG);
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_snapshots, args, NULL, 1) == 0)
	{
		tq_spi_leave(&spi);
		tq_health_say(health, "No other session holds a snapshot.");
		return;
	}
	start = tq_spi_time(0, 5, DT_NOBEGIN);
	has_start = start != DT_NOBEGIN;
	lag = tq_spi_int4(0, 6, 0);
	who = MemoryContextStrdup(
		spi.caller,
		psprintf("process %d, user %s, application \"%s\", %s",
				 tq_spi_int4(0, 1, 0), tq_spi_text(&spi, 0, 2),
				 tq_spi_text(&spi, 0, 3), tq_spi_text(&spi, 0, 4)));
	tq_spi_leave(&spi);
	if (has_start && health->wall - start > OLD)
		tq_health_fail(
			health,
			"The oldest snapshot has been held for %s, since %s: %s. Vacuum cannot remove rows that have become dead since then, so claims get slower. End that transaction, if necessary with pg_terminate_backend().",
			tq_health_span(health->wall - start), timestamptz_to_str(start),
			who);
	else if (!has_start && lag > LAG)
		tq_health_fail(
			health,
			"A snapshot from %d transactions ago is held: %s. Vacuum cannot remove rows that have become dead since then, so claims get slower. A standby with hot_standby_feedback holds it: check which query runs there for so long.",
			lag, who);
	else if (has_start)
		tq_health_say(health, "The oldest snapshot has been held for %s: %s.",
					  tq_health_span(health->wall - start), who);
	else
		tq_health_say(health, "The oldest snapshot is held by %s.", who);
}

/* Prepared transactions keep claims, locks and snapshots across restarts. */
void
tq_health_prepared(TqHealth *health)
{
	TimestampTz at;
	int64       count;
	char       *which;
	TqSpi       spi;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_prepared, NULL, NULL, 1) == 0)
	{
		tq_spi_leave(&spi);
		tq_health_say(health,
					  "No prepared transaction is open in this database.");
		return;
	}
	count = tq_spi_int8(0, 1, 0);
	which = MemoryContextStrdup(spi.caller, psprintf("\"%s\" of user %s",
													 tq_spi_text(&spi, 0, 2),
													 tq_spi_text(&spi, 0, 3)));
	at = tq_spi_time(0, 4, health->wall);
	tq_spi_leave(&spi);
	if (health->wall - at > OLD)
		tq_health_fail(
			health,
			INT64_FORMAT
			" prepared transactions are open, the oldest for %s, since %s: %s. The tasks that it claimed or finished stay undecided, and vacuum cannot remove rows that have become dead since then. End it with COMMIT PREPARED or ROLLBACK PREPARED.",
			count, tq_health_span(health->wall - at), timestamptz_to_str(at),
			which);
	else
		tq_health_say(
			health,
			INT64_FORMAT
			" prepared transactions are open, the oldest for %s: %s.",
			count, tq_health_span(health->wall - at), which);
}

/*
 * Replication slots keep dead rows and WAL for a consumer that may never come
 * back.
 */
void
tq_health_replication(TqHealth *health)
{
	Datum  arg = Int32GetDatum(LAG);
	uint64 rows;
	TqSpi  spi;

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_replication, &arg, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
	{
		char         *name = tq_spi_text(&spi, i, 1);
		bool          active = tq_spi_bool(i, 2);
		int32         lag = tq_spi_int4(i, 3, 0);
		bool          wal = tq_spi_bool(i, 4);
		MemoryContext mine = MemoryContextSwitchTo(spi.caller);

		if (lag > LAG)
			tq_health_fail(
				health,
				"Slot \"%s\"%s keeps the dead rows of %d transactions, so claims get slower.",
				name, active ? "" : ", which is not in use,", lag);
		if (wal)
			tq_health_fail(
				health,
				"Slot \"%s\", which is not in use, keeps more WAL than max_wal_size, so the disk may become full.",
				name);
		MemoryContextSwitchTo(mine);
	}
	tq_spi_leave(&spi);
	if (rows > 0)
		tq_health_say(
			health,
			"Let its consumer catch up, or drop the slot with pg_drop_replication_slot().");
	else
		tq_health_say(health, "No slot keeps dead rows or WAL for long.");
}

/* Does autovacuum keep up with dead rows? */
void
tq_health_vacuum(TqHealth *health)
{
	uint64 rows;
	TqSpi  spi;

	if (health->standby)
	{
		tq_health_say(health,
					  "This server is a standby; the primary handles this.");
		return;
	}
	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_vacuum, NULL, NULL, 0);
	for (uint64 i = 0; i < rows; i++)
		tell_dead_rows(health, &spi, i);
	tq_spi_leave(&spi);
}

/*
 * Report one table.  The first one, taskq.task, is reported even if it has no
 * problem.
 */
static void
tell_dead_rows(TqHealth *health, TqSpi *spi, uint64 row)
{
	char         *name = tq_spi_text(spi, row, 1);
	int64         live = tq_spi_int8(row, 2, 0);
	int64         dead = tq_spi_int8(row, 3, 0);
	bool          isnull;
	double        due = DatumGetFloat8(tq_spi_get(row, 5, &isnull));
	bool          enabled = tq_spi_bool(row, 6);
	TimestampTz   last = tq_spi_time(row, 4, DT_NOBEGIN);
	bool          ever = last != DT_NOBEGIN;
	MemoryContext mine = MemoryContextSwitchTo(spi->caller);
	char         *figures =
		psprintf("taskq.%s has " INT64_FORMAT " dead rows and " INT64_FORMAT
				 " live rows (%d %% dead), and %s",
				 name, dead, live, (int) (dead * 100.0 / Max(dead + live, 1)),
				 ever ? psprintf("was last vacuumed %s ago",
								 tq_health_span(health->wall - last))
					  : "has no recorded vacuum");

	if (!enabled)
		tq_health_fail(
			health,
			"Autovacuum is disabled for taskq.%s, so claims get slower and slower. Run ALTER TABLE taskq.%s RESET (autovacuum_enabled).",
			name, name);
	if (dead > DEAD_LEAST && dead > DEAD_FACTOR * due)
		tq_health_fail(
			health,
			"%s: autovacuum does not keep up. See the checks snapshots, prepared_transactions and replication_slots; if they report no problem, raise autovacuum_vacuum_cost_limit or lower autovacuum_naptime.",
			figures);
	else if (row == 0)
		tq_health_say(health, "%s.", figures);
	MemoryContextSwitchTo(mine);
}

/* Is the server about to refuse all writes? */
void
tq_health_transaction_ids(TqHealth *health)
{
	int64 age;
	int64 multi_age;
	int64 freeze;
	int64 multi_freeze;
	TqSpi spi;

	tq_spi_enter(&spi);
	tq_spi_look(&stmt_ages, NULL, NULL, 1);
	age = tq_spi_int4(0, 1, 0);
	multi_age = tq_spi_int4(0, 2, 0);
	freeze = tq_spi_int8(0, 3, 0);
	multi_freeze = tq_spi_int8(0, 4, 0);
	tq_spi_leave(&spi);
	tell_age(health, "transaction", age, freeze);
	tell_age(health, "multixact", multi_age, multi_freeze);
}

static void
tell_age(TqHealth *health, const char *what, int64 age, int64 freeze)
{
	if (age > AGE_MOST || age > freeze + freeze / 2)
		tq_health_fail(
			health,
			"The oldest %s id in the extension's tables is " INT64_FORMAT
			" old, and autovacuum should have frozen it at " INT64_FORMAT
			". At an age of 2,000,000,000 the server refuses to write. Find out what holds vacuum back (see the checks snapshots, prepared_transactions and replication_slots), then run VACUUM.",
			what, age, freeze);
	else
		tq_health_say(health,
					  "The oldest %s id is " INT64_FORMAT
					  " old; autovacuum freezes it at " INT64_FORMAT ".",
					  what, age, freeze);
}

/* Report additions that have no effect. */
void
tq_health_additions(TqHealth *health)
{
	char *found = tq_spi_read_text(&stmt_additions, NULL);

	if (found == NULL)
		tq_health_say(health,
					  "Nothing has been added to the tables of tasks.");
	else
		tq_health_fail(
			health,
			"taskq ignores these additions when it writes tasks: %s. Drop them from the extension's tables.",
			found);
}

/* Report settings that disable something that the extension relies on. */
void
tq_health_settings(TqHealth *health)
{
	static const struct
	{
		const char *name;
		const char *bad;
		const char *consequence;
	} settings[] = {
		{"fsync", "off", "a crash of the machine can corrupt all data"},
		{"full_page_writes", "off",
		 "a crash of the machine can corrupt all data"},
		{"synchronous_commit", "off",
		 "tasks and completions that were acknowledged can be lost in a crash"},
		{"autovacuum", "off",
		 "dead rows are never removed, and claims get slower and slower"},
		{"track_counts", "off",
		 "autovacuum does not work without it, and claims get slower and slower"},
	};
	const char *problem = tq_guc_threshold_problem();

	for (int i = 0; i < lengthof(settings); i++)
	{
		const char *value = GetConfigOption(settings[i].name, true, false);

		if (value != NULL && strcmp(value, settings[i].bad) == 0)
			tq_health_fail(health, "%s is %s: %s.", settings[i].name, value,
						   settings[i].consequence);
	}
	if (problem != NULL)
		tq_health_fail(health, "%s.", problem);
	if (health->ok)
		tq_health_say(health, "No setting endangers tasks.");
}
