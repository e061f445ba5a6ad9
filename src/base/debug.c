/*
 * debug.c
 *		Points where the test build can be stopped or made to fail.
 *
 * taskq.debug_point = 'a, b': a session that reaches TQ_DEBUG_POINT("a") waits
 * there for the advisory lock (TQ_DEBUG_LOCK_CLASS, TQ_DEBUG_LOCK_OBJECT) of
 * its database, and releases it immediately.  A test that holds
 * pg_advisory_lock(74111, 1) stops other sessions at a named line.  It is a
 * heavyweight lock, so isolationtester sees that they wait.  Sessions request
 * it in share mode, so they all continue at the same time.
 *
 * taskq.fault_point = 'a:error, b:oom': TQ_FAULT_POINT("a") raises an error.
 * The table fault_kinds lists the kinds of failure.
 *
 * Both settings are lists of names separated by commas, for superusers only.
 * They are searched at each point, which a test build can afford; nothing is
 * cached, so SET LOCAL and rollback need no care.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/debug.h"

#ifdef TASKQ_DEBUG

#include "storage/lock.h"

typedef enum TqFaultKind
{
	TQ_FAULT_NONE,
	TQ_FAULT_ERROR,
	TQ_FAULT_FATAL,
	TQ_FAULT_OOM,
	TQ_FAULT_CRASH
} TqFaultKind;

static const struct
{
	const char *word;
	TqFaultKind fault;
} fault_kinds[] = {
	{"error", TQ_FAULT_ERROR},
	{"fatal", TQ_FAULT_FATAL},
	{"oom", TQ_FAULT_OOM},
	{"crash", TQ_FAULT_CRASH},
};

static char *debug_points = NULL;
static char *fault_points = NULL;

static bool is_on(const char *name);
static void wait_for_lock(void);
static bool check_fault_points(char **newval, void **extra, GucSource source);
static bool next_entry(const char **list, const char **entry, size_t *length);
static TqFaultKind entry_fault(const char *entry, size_t length,
							   size_t *name_length);

void
tq_debug_init(void)
{
	DefineCustomStringVariable(
		"taskq.debug_point", "Names of the points at which to wait.", NULL,
		&debug_points, "", PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable(
		"taskq.fault_point", "Names of the points at which to fail, and how.",
		"name:error, name:fatal, name:oom or name:crash.", &fault_points, "",
		PGC_SUSET, 0, check_fault_points, NULL, NULL);
}

/*
 * Wait at a debug point if it is enabled.  Never while a lightweight lock or a
 * spinlock is held, since the wait could not be interrupted.
 */
void
tq_debug_wait(const char *name)
{
	if (!is_on(name))
		return;
	if (InterruptHoldoffCount != 0 || CritSectionCount != 0)
		elog(ERROR, "debug point \"%s\" holds off interrupts", name);
	wait_for_lock();
}

/*
 * Wait at a debug point where a transaction has committed and released its
 * locks but has not ended.  This wait cannot be interrupted.
 */
void
tq_debug_wait_committed(const char *name)
{
	if (is_on(name))
		wait_for_lock();
}

/* Fail at a fault point if it is enabled. */
void
tq_debug_fail(const char *name)
{
	const char *list = fault_points;
	const char *entry;
	size_t      length;
	size_t      name_length;
	TqFaultKind fault = TQ_FAULT_NONE;

	while (fault == TQ_FAULT_NONE && next_entry(&list, &entry, &length))
	{
		TqFaultKind found = entry_fault(entry, length, &name_length);

		if (name_length == strlen(name) &&
			strncmp(entry, name, name_length) == 0)
			fault = found;
	}

	switch (fault)
	{
		case TQ_FAULT_NONE:
			break;
		case TQ_FAULT_ERROR:
			ereport(ERROR, (errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
							errmsg("fault at \"%s\"", name)));
			break;
		case TQ_FAULT_FATAL:
			ereport(FATAL, (errcode(ERRCODE_ADMIN_SHUTDOWN),
							errmsg("fault at \"%s\"", name)));
			break;
		case TQ_FAULT_OOM:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory"),
					 errdetail("Fault at \"%s\".", name)));
			break;
		case TQ_FAULT_CRASH:
			abort();
	}
}

/* Is the debug point enabled? */
static bool
is_on(const char *name)
{
	const char *list = debug_points;
	const char *entry;
	size_t      length;

	while (next_entry(&list, &entry, &length))
	{
		if (length == strlen(name) && strncmp(entry, name, length) == 0)
			return true;
	}
	return false;
}

static void
wait_for_lock(void)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, TQ_DEBUG_LOCK_CLASS,
						 TQ_DEBUG_LOCK_OBJECT, 2);
	(void) LockAcquire(&tag, ShareLock, true, false);
	LockRelease(&tag, ShareLock, true);
}

/* Check that every entry names a point and a known kind of failure. */
static bool
check_fault_points(char **newval, void **extra, GucSource source)
{
	const char *list = *newval;
	const char *entry;
	size_t      length;
	size_t      name_length;

	while (next_entry(&list, &entry, &length))
	{
		if (entry_fault(entry, length, &name_length) == TQ_FAULT_NONE)
		{
			GUC_check_errdetail("\"%.*s\" is not a name, a colon and one of "
								"error, fatal, oom, crash.",
								(int) length, entry);
			return false;
		}
	}
	return true;
}

/*
 * Get the next entry of a list separated by commas and blanks, and advance
 * *list past it.  Returns false at the end.
 */
static bool
next_entry(const char **list, const char **entry, size_t *length)
{
	if (*list == NULL)
		return false;
	*entry = *list + strspn(*list, ", ");
	*length = strcspn(*entry, ", ");
	*list = *entry + *length;
	return *length > 0;
}

/* The kind of failure of an entry "name:kind", and the length of the name. */
static TqFaultKind
entry_fault(const char *entry, size_t length, size_t *name_length)
{
	const char *colon = memchr(entry, ':', length);

	*name_length = colon == NULL ? length : (size_t) (colon - entry);
	if (colon == NULL || *name_length == 0)
		return TQ_FAULT_NONE;
	for (int i = 0; i < lengthof(fault_kinds); i++)
	{
		size_t kind_length = length - *name_length - 1;

		if (kind_length == strlen(fault_kinds[i].word) &&
			strncmp(colon + 1, fault_kinds[i].word, kind_length) == 0)
			return fault_kinds[i].fault;
	}
	return TQ_FAULT_NONE;
}

#endif /* TASKQ_DEBUG */
