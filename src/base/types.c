/*
 * types.c
 *		The names of the numbers of types.h.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "base/types.h"

static const char *const state_names[] = {
	[TQ_STATE_PENDING] = "pending",     [TQ_STATE_BLOCKED] = "blocked",
	[TQ_STATE_RUNNING] = "running",     [TQ_STATE_SUSPENDED] = "suspended",
	[TQ_STATE_DONE] = "done",           [TQ_STATE_DEAD] = "dead",
	[TQ_STATE_CANCELLED] = "cancelled", [TQ_STATE_FILTERED] = "filtered",
	[TQ_STATE_REDUNDANT] = "redundant", [TQ_STATE_RECREATED] = "recreated"};

StaticAssertDecl(lengthof(state_names) == TQ_STATE_LAST + 1,
				 "every state has a name");

static const char *const reason_names[] = {
	[TQ_REASON_NONE] = NULL,
	[TQ_REASON_EXHAUSTED] = "exhausted",
	[TQ_REASON_REJECTED] = "rejected",
	[TQ_REASON_DEADLINE] = "deadline",
	[TQ_REASON_WORKER_DEAD] = "worker_dead",
	[TQ_REASON_LEASE_EXPIRED] = "lease_expired",
	[TQ_REASON_TIMEOUT] = "timeout",
	[TQ_REASON_POISON] = "poison",
	[TQ_REASON_STALE] = "stale",
	[TQ_REASON_DEPENDENCY_FAILED] = "dependency_failed",
	[TQ_REASON_DELETED] = "deleted",
	[TQ_REASON_MANUAL] = "manual",
	[TQ_REASON_HELD] = "held",
	[TQ_REASON_COMPENSATED] = "compensated",
	[TQ_REASON_COMPENSATION_FAILED] = "compensation_failed"};

PG_FUNCTION_INFO_V1(taskq_state_name);
PG_FUNCTION_INFO_V1(taskq_reason_name);

/*
 * Returns the name of a state, or NULL for an unknown number, which a row that
 * was written by hand may contain.
 */
Datum
taskq_state_name(PG_FUNCTION_ARGS)
{
	const char *name =
		PG_ARGISNULL(0) ? NULL : tq_state_name((TqState) PG_GETARG_INT16(0));

	if (name == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(name));
}

/*
 * Returns the name of a reason, or NULL for no reason and for unknown numbers.
 */
Datum
taskq_reason_name(PG_FUNCTION_ARGS)
{
	const char *name =
		PG_ARGISNULL(0) ? NULL : tq_reason_name((TqReason) PG_GETARG_INT16(0));

	if (name == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(name));
}

const char *
tq_state_name(TqState state)
{
	if (!TQ_STATE_IS_VALID(state))
		return NULL;
	return state_names[state];
}

bool
tq_state_parse(const char *word, TqState *state)
{
	for (int i = TQ_STATE_FIRST; i <= TQ_STATE_LAST; i++)
	{
		if (strcmp(word, state_names[i]) == 0)
		{
			*state = (TqState) i;
			return true;
		}
	}
	return false;
}

/* All states as a list, for hints. */
const char *
tq_state_words(void)
{
	return "pending, blocked, running, suspended, done, dead, cancelled, "
		   "filtered, redundant, recreated";
}

bool
tq_insertion_parse(const char *word, TqInsertion *insertion)
{
	static const char *const words[] = {[TQ_INSERTION_APPEND] = "append",
										[TQ_INSERTION_SUPERSEDE] = "supersede",
										[TQ_INSERTION_REPLACE] = "replace",
										[TQ_INSERTION_DELETE] = "delete"};

	for (int i = 0; i < lengthof(words); i++)
	{
		if (strcmp(word, words[i]) == 0)
		{
			*insertion = (TqInsertion) i;
			return true;
		}
	}
	return false;
}

const char *
tq_reason_name(TqReason reason)
{
	if (reason < TQ_REASON_NONE || reason >= lengthof(reason_names))
		return NULL;
	return reason_names[reason];
}

bool
tq_reason_parse(const char *word, TqReason *reason)
{
	for (int i = TQ_REASON_NONE + 1; i <= TQ_REASON_LAST; i++)
	{
		if (strcmp(word, reason_names[i]) == 0)
		{
			*reason = (TqReason) i;
			return true;
		}
	}
	return false;
}

const char *
tq_reason_words(void)
{
	return "exhausted, rejected, deadline, worker_dead, lease_expired, "
		   "timeout, poison, stale, dependency_failed, deleted, manual, held";
}
