/*
 * settings.c
 *		Settings of sessions that must not change an answer, and rows of
 *		them in which each pair of two values occurs.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hostile.h"

#define AS_IS {NULL, true}
#define ONE(set) 2, {AS_IS, {set, true}}
#define TWO(a, b) 3, {AS_IS, {a, true}, {b, true}}
#define THREE(a, b, c) 4, {AS_IS, {a, true}, {b, true}, {c, true}}
#define FOUR(a, b, c, d) \
	5, {AS_IS, {a, true}, {b, true}, {c, true}, {d, true}}

/* Settings that must come before another setting, such as role, are last. */
Factor factors[] = {
	{"DateStyle", FOUR("SET datestyle TO 'German, DMY'",
					   "SET datestyle TO 'SQL, MDY'",
					   "SET datestyle TO 'Postgres, DMY'",
					   "SET datestyle TO 'ISO, YMD'")},
	{"IntervalStyle", THREE("SET intervalstyle TO sql_standard",
							"SET intervalstyle TO iso_8601",
							"SET intervalstyle TO postgres_verbose")},
	{"TimeZone", FOUR("SET timezone TO 'America/St_Johns'",
					  "SET timezone TO 'Pacific/Kiritimati'",
					  "SET timezone TO 'Europe/Dublin'",
					  "SET timezone TO '<x>-15:59'")},
	{"extra_float_digits", TWO("SET extra_float_digits TO -15",
							   "SET extra_float_digits TO 3")},
	{"bytea_output", ONE("SET bytea_output TO escape")},
	{"standard_conforming_strings",
	 ONE("SET standard_conforming_strings TO off")},
	{"escape_string_warning", ONE("SET escape_string_warning TO off")},
	{"backslash_quote", TWO("SET backslash_quote TO on",
							"SET backslash_quote TO off")},
	{"array_nulls", ONE("SET array_nulls TO off")},
	{"transform_null_equals", ONE("SET transform_null_equals TO on")},
	{"xmlbinary", ONE("SET xmlbinary TO hex")},
	{"xmloption", ONE("SET xmloption TO document")},
	{"quote_all_identifiers", ONE("SET quote_all_identifiers TO on")},
	{"default_transaction_isolation",
	 THREE("SET default_transaction_isolation TO serializable",
		   "SET default_transaction_isolation TO 'repeatable read'",
		   "SET default_transaction_isolation TO 'read uncommitted'")},
	{"default_transaction_read_only",
	 ONE("SET default_transaction_read_only TO on")},
	{"default_transaction_deferrable",
	 ONE("SET default_transaction_deferrable TO on")},
	{"statement_timeout", TWO("SET statement_timeout TO '1h'",
							  "SET statement_timeout TO 2147483647")},
	{"lock_timeout", TWO("SET lock_timeout TO '2s'",
						 "SET lock_timeout TO 2147483647")},
	{"idle_in_transaction_session_timeout",
	 ONE("SET idle_in_transaction_session_timeout TO '1h'")},
	{"idle_session_timeout", ONE("SET idle_session_timeout TO '1h'")},
	{"client_connection_check_interval",
	 ONE("SET client_connection_check_interval TO 1")},
	{"deadlock_timeout", ONE("SET deadlock_timeout TO 1")},
	{"work_mem", ONE("SET work_mem TO '64kB'")},
	{"maintenance_work_mem", ONE("SET maintenance_work_mem TO '1MB'")},
	{"logical_decoding_work_mem",
	 ONE("SET logical_decoding_work_mem TO '64kB'")},
	{"temp_buffers", ONE("SET temp_buffers TO 100")},
	{"max_stack_depth", ONE("SET max_stack_depth TO '500kB'")},
	{"enable_indexscan", ONE("SET enable_indexscan TO off")},
	{"enable_seqscan", ONE("SET enable_seqscan TO off")},
	{"enable_bitmapscan", ONE("SET enable_bitmapscan TO off")},
	{"enable_sort", ONE("SET enable_sort TO off")},
	{"enable_hashagg", ONE("SET enable_hashagg TO off")},
	{"enable_nestloop", ONE("SET enable_nestloop TO off")},
	{"enable_hashjoin", ONE("SET enable_hashjoin TO off")},
	{"enable_mergejoin", ONE("SET enable_mergejoin TO off")},
	{"enable_partition_pruning", ONE("SET enable_partition_pruning TO off")},
	{"enable_partitionwise",
	 ONE("SET enable_partitionwise_aggregate TO on")},
	{"constraint_exclusion", TWO("SET constraint_exclusion TO on",
								 "SET constraint_exclusion TO off")},
	{"plan_cache_mode", TWO("SET plan_cache_mode TO force_generic_plan",
							"SET plan_cache_mode TO force_custom_plan")},
	{"parallel", TWO("SET force_parallel_mode TO on",
					 "SET force_parallel_mode TO regress")},
	{"debug_parallel_query", ONE("SET debug_parallel_query TO on")},
	{"max_parallel_workers", TWO("SET max_parallel_workers TO 0",
								 "SET max_parallel_workers_per_gather TO 8;"
								 " SET parallel_setup_cost TO 0;"
								 " SET parallel_tuple_cost TO 0;"
								 " SET min_parallel_table_scan_size TO 0;"
								 " SET min_parallel_index_scan_size TO 0")},
	{"row_security", ONE("SET row_security TO off")},
	{"check_function_bodies", ONE("SET check_function_bodies TO off")},
	{"client_min_messages", TWO("SET client_min_messages TO error",
								"SET client_min_messages TO debug2")},
	{"synchronous_commit", TWO("SET synchronous_commit TO off",
							   "SET synchronous_commit TO remote_apply")},
	{"commit_delay", ONE("SET commit_delay TO 10;"
						 " SET commit_siblings TO 0")},
	{"session_replication_role",
	 TWO("SET session_replication_role TO replica",
		 "SET session_replication_role TO local")},
	{"default_tablespace", ONE("SET default_tablespace TO 'pg_default'")},
	{"default_toast_compression",
	 ONE("SET default_toast_compression TO lz4")},
	{"default_text_search_config",
	 ONE("SET default_text_search_config TO 'pg_catalog.german'")},
	{"lc_messages", TWO("SET lc_messages TO 'C'",
						"SET lc_messages TO 'C.UTF-8'")},
	{"lc_numeric", ONE("SET lc_numeric TO 'C.UTF-8'")},
	{"lc_time", ONE("SET lc_time TO 'C.UTF-8'")},
	{"lc_monetary", ONE("SET lc_monetary TO 'C.UTF-8'")},
	{"log", ONE("SET log_duration TO on")},
	{"track", ONE("SET track_activities TO off; SET track_counts TO off;"
				  " SET track_functions TO 'all'")},
	{"ignore_checksum_failure", ONE("SET ignore_checksum_failure TO on")},
	{"allow_system_table_mods", ONE("SET allow_system_table_mods TO on")},
	{"lo_compat_privileges", ONE("SET lo_compat_privileges TO on")},
	{"application_name",
	 ONE("SET application_name TO '''; DROP TABLE hostile.canary; --'")},
	{"client_encoding", TWO("SET client_encoding TO 'LATIN1'",
							"SET client_encoding TO 'EUC_JP'")},
	{"search_path",
	 THREE("SET search_path TO hostile_trap, pg_temp, pg_catalog, public",
		   "SET search_path TO ''",
		   "SET search_path TO pg_temp, hostile_trap")},
	{"role", ONE("SET role TO hostile_all")},
};
const int factor_count = sizeof(factors) / sizeof(Factor);

/* Settings that this server does not have, or refuses, are left out. */
void
probe_settings(void)
{
	Session session;
	int     left_out = 0;

	open_session(&session, "hostile");
	for (int f = 0; f < factor_count; f++)
	{
		for (int l = 1; l < factors[f].count; l++)
		{
			PGresult *res = PQexec(session.conn, factors[f].level[l].set);

			if (PQresultStatus(res) != PGRES_COMMAND_OK)
			{
				printf("left out: %s: %s", factors[f].level[l].set,
					   PQerrorMessage(session.conn));
				factors[f].level[l].there = false;
				left_out++;
			}
			PQclear(res);
			PQclear(PQexec(session.conn, "RESET ROLE; RESET ALL"));
		}
	}
	report(factor_count - left_out >= 30, "there are 30 settings");
	close_session(&session);
}

static bool
level_there(int factor, int level)
{
	return factors[factor].level[level].there;
}

#define MAX_LEVELS 8

/* covered[f][l][g][m]: does a row have level l of f and m of g? */
static bool *covered;

static bool *
pair(int f, int l, int g, int m)
{
	return &covered[((f * MAX_LEVELS + l) * factor_count + g) * MAX_LEVELS +
					m];
}

static int
gain(const int *row, int factor, int level)
{
	int sum = 0;

	for (int g = 0; g < factor_count; g++)
	{
		if (g != factor && row[g] >= 0 && !*pair(factor, level, g, row[g]))
			sum++;
	}
	return sum;
}

/* Settings under which everything is slow: in no more rows than needed. */
static bool
is_slow(int factor)
{
	const char *name = factors[factor].name;

	return strcmp(name, "parallel") == 0 ||
		strcmp(name, "max_parallel_workers") == 0 ||
		strcmp(name, "client_min_messages") == 0;
}

/* The level that covers most with what the row has so far. */
static int
best_level(const int *row, int factor)
{
	int best = -1;
	int best_gain = -1;
	int begin = draw(factors[factor].count);

	for (int i = 0; i < factors[factor].count; i++)
	{
		int level = (begin + i) % factors[factor].count;
		int sum;

		if (!level_there(factor, level))
			continue;
		sum = gain(row, factor, level);
		if (level > 0 && is_slow(factor))
			sum /= 3;
		if (sum > best_gain)
		{
			best = level;
			best_gain = sum;
		}
	}
	return best;
}

static int
mark(const int *row)
{
	int fresh = 0;

	for (int f = 0; f < factor_count; f++)
	{
		for (int g = 0; g < factor_count; g++)
		{
			if (f != g && !*pair(f, row[f], g, row[g]))
			{
				*pair(f, row[f], g, row[g]) = true;
				fresh++;
			}
		}
	}
	return fresh;
}

/*
 * Put an uncovered pair into the row, so that each row covers one; false if no
 * pair is left.
 */
static bool
begin_row(int *row)
{
	int start = draw(factor_count);

	for (int i = 0; i < factor_count; i++)
	{
		int f = (start + i) % factor_count;

		for (int l = 0; l < factors[f].count; l++)
		{
			for (int g = 0; level_there(f, l) && g < factor_count; g++)
			{
				for (int m = 0; g != f && m < factors[g].count; m++)
				{
					if (level_there(g, m) && !*pair(f, l, g, m))
					{
						row[f] = l;
						row[g] = m;
						return true;
					}
				}
			}
		}
	}
	return false;
}

/*
 * Rows of levels in which every pair of levels of two factors occurs at least
 * once: greedily, one row after the other, the factors in a random order.
 */
int
cover(int ***rows)
{
	int count = 0;

	covered = calloc((size_t) factor_count * MAX_LEVELS * factor_count *
					 MAX_LEVELS, sizeof(bool));
	*rows = NULL;
	for (;;)
	{
		int *row = malloc(factor_count * sizeof(int));
		int  start = draw(factor_count);

		for (int f = 0; f < factor_count; f++)
			row[f] = -1;
		if (!begin_row(row))
		{
			free(row);
			break;
		}
		for (int i = 0; i < factor_count; i++)
		{
			int f = (start + i * 7) % factor_count;

			if (row[f] < 0)
				row[f] = best_level(row, f);
		}
		for (int f = 0; f < factor_count; f++)
		{
			if (row[f] < 0)
				row[f] = best_level(row, f);
		}
		if (mark(row) == 0)
			die("a row of settings covers nothing new");
		*rows = realloc(*rows, (count + 1) * sizeof(int *));
		(*rows)[count++] = row;
	}
	free(covered);
	return count;
}

void
apply_levels(Session *session, const int *row)
{
	for (int f = 0; f < factor_count; f++)
	{
		const char *set = factors[f].level[row[f]].set;

		if (set == NULL)
			continue;
		PQclear(must(session->conn, set));
		if (strcmp(factors[f].name, "default_transaction_read_only") == 0)
			session->allow.read_only = true;
		if (strcmp(factors[f].name, "role") == 0)
			session->allow.role = true;
		if (strcmp(factors[f].name, "client_encoding") == 0)
			session->allow.encoding = true;
		if (strcmp(factors[f].name, "max_stack_depth") == 0)
			session->allow.stack = true;
	}
}

char *
levels_text(const int *row)
{
	char *text = strdup("");

	for (int f = 0; f < factor_count; f++)
	{
		char *longer;

		if (factors[f].level[row[f]].set == NULL)
			continue;
		longer = text_of("%s%s; ", text, factors[f].level[row[f]].set);
		free(text);
		text = longer;
	}
	return text;
}
