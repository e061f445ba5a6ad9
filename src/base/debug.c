/*
 * debug.c
 *		Places where the test build can be stopped or made to fail.
 *
 * taskq.debug_point = 'a,b': a session that comes to TQ_DEBUG_POINT("a")
 * waits there until it gets, for a moment, the advisory lock (74111, 1): a
 * test that holds pg_advisory_lock(74111, 1) stops others there, and lets
 * them go on with pg_advisory_unlock(74111, 1).
 *
 * taskq.fault_point = 'a:error' (an error is raised at TQ_FAULT_POINT("a")),
 * 'a:fatal', 'a:oom' (53200), 'a:crash' (the process dies by SIGABRT).
 * Several are separated by commas.  Only superusers set either.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "storage/lock.h"
#include "utils/builtins.h"

#include "base/debug.h"

#ifdef TASKQ_DEBUG

#define DEBUG_LOCK_1 74111
#define DEBUG_LOCK_2 1

static char *debug_points = NULL;
static char *fault_points = NULL;

static bool find_word(const char *list, const char *name, const char **rest);

void
tq_debug_init(void)
{
	DefineCustomStringVariable(
		"taskq.debug_point", "Names of the places at which to wait.", NULL,
		&debug_points, "", PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"taskq.fault_point", "Names of the places at which to fail, and how.",
		NULL, &fault_points, "", PGC_SUSET, 0, NULL, NULL, NULL);
}

void
tq_debug_point(const char *name)
{
	LOCKTAG     tag;
	const char *rest;

	if (debug_points == NULL || debug_points[0] == '\0' ||
		!find_word(debug_points, name, &rest))
		return;
	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, DEBUG_LOCK_1, DEBUG_LOCK_2, 2);
	(void) LockAcquire(&tag, ExclusiveLock, true, false);
	LockRelease(&tag, ExclusiveLock, true);
}

void
tq_debug_fault(const char *name)
{
	const char *rest;

	if (fault_points == NULL || fault_points[0] == '\0' ||
		!find_word(fault_points, name, &rest))
		return;
	if (strncmp(rest, ":fatal", 6) == 0)
		ereport(FATAL, (errcode(ERRCODE_ADMIN_SHUTDOWN),
						errmsg("fault at \"%s\"", name)));
	if (strncmp(rest, ":oom", 4) == 0)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY),
						errmsg("fault at \"%s\"", name)));
	if (strncmp(rest, ":crash", 6) == 0)
		abort();
	ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
					errmsg("fault at \"%s\"", name)));
}

/* Find a name in a list; *rest is what follows it there. */
static bool
find_word(const char *list, const char *name, const char **rest)
{
	size_t      length = strlen(name);
	const char *at = list;

	while ((at = strstr(at, name)) != NULL)
	{
		bool begins = at == list || at[-1] == ',' || at[-1] == ' ';
		char end = at[length];

		if (begins && (end == '\0' || end == ',' || end == ':' || end == ' '))
		{
			*rest = at + length;
			return true;
		}
		at += length;
	}
	return false;
}

#endif /* TASKQ_DEBUG */
