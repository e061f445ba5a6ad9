/*
 * group.c
 *		Groups of two parts, whose tasks wait for each other.
 *
 * Two processes make the groups 1, 2, 3 ..., each its own part of every group,
 * suspended, with a key of its own; and each then calls taskq_junction for the
 * group, which succeeds for the later one. At the end both have made as many.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static const char *other(void);
static long        last_group(const char *who);
static void        make_part(long n);
static void        go_on(long n);

void
group_parts(void)
{
	long n = last_group(name);

	if (n > 0)
		go_on(n);
	while (!told_to("stop"))
	{
		check_parent();
		if (told_to("drain") && last_group(other()) <= n)
			break;
		make_part(++n);
		go_on(n);
		if (!told_to("drain"))
			rest_ms(draw(120));
	}
}

static const char *
other(void)
{
	return strcmp(name, "g1") == 0 ? "g2" : "g1";
}

/* The last group of which one process has made its part */
static long
last_group(const char *who)
{
	for (;;)
	{
		PGresult *res;
		long      n;

		ensure_connection();
		if (run(&res,
				"SELECT coalesce(max(split_part(key, '/', 1)::int), 0)"
				" FROM taskq.tasks WHERE queue = 'group' AND key LIKE '%%/%s'",
				who) != OK)
			continue;
		n = atol(PQgetvalue(res, 0, 0));
		PQclear(res);
		return n;
	}
}

/* Repeat until it is known to exist: its reference prevents a second task. */
static void
make_part(long n)
{
	Outcome outcome;

	do
	{
		char      id[24] = "-";
		long      op;
		PGresult *res;

		ensure_connection();
		op = begin_op("submit q=group keys=%s-%ld void=- end=auto prio=0 "
					  "delay=0 deadline=0 max=0 tags=- ref=%ld/%s "
					  "conflict=return many=0 box=0 line=%ld/%s how=append",
					  name, n, n, name, n, name);
		outcome = run(&res,
					  "SELECT taskq_submit('group', '{\"key\": \"%s-%ld\"}',"
					  " key => '%ld/%s', reference => '%ld/%s',"
					  " on_conflict => 'return', suspended => true)",
					  name, n, n, name, n, name);
		if (outcome == OK)
		{
			snprintf(id, sizeof(id), "%s", PQgetvalue(res, 0, 0));
			PQclear(res);
		}
		end_op(op, outcome, "ids=%s", id);
	} while (outcome != OK && !told_to("stop"));
}

/* Until the outcome is known */
static void
go_on(long n)
{
	Outcome outcome;

	do
	{
		char      ids[TEXT] = "-";
		long      op;
		PGresult *res;

		ensure_connection();
		op = begin_op("junction q=group g=%ld", n);
		outcome = run(&res,
					  "SELECT coalesce(string_agg(j::text, ','), '-')"
					  " FROM taskq_junction('group', '{%ld/g1,%ld/g2}') j",
					  n, n);
		if (outcome == OK)
		{
			snprintf(ids, sizeof(ids), "%s", PQgetvalue(res, 0, 0));
			PQclear(res);
		}
		end_op(op, outcome, "released=%s", ids);
	} while (outcome != OK && !told_to("stop"));
}
