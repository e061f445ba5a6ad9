/*
 * discard.c
 *		DISCARD ALL.
 *
 * A pool of connections sends it before another client gets the session.
 * What the session remembers of the client that had it before, the workers
 * that it has registered, ends there.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "nodes/parsenodes.h"
#include "tcop/utility.h"

#include "engine/own_worker.h"
#include "process/discard.h"

static ProcessUtility_hook_type previous_hook = NULL;

static void process_utility(PlannedStmt *pstmt, const char *query_string,
							bool read_only_tree, ProcessUtilityContext context,
							ParamListInfo params, QueryEnvironment *query_env,
							DestReceiver *dest, QueryCompletion *qc);

/* Also in a session that loads the library by itself. */
void
tq_discard_init(void)
{
	previous_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string,
				bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *query_env,
				DestReceiver *dest, QueryCompletion *qc)
{
	const DiscardStmt *discard = (DiscardStmt *) pstmt->utilityStmt;

	/* the command itself may be a prepared statement, which it drops */
	bool discards_all = IsA(discard, DiscardStmt) &&
						discard->target == DISCARD_ALL;

	if (previous_hook)
		previous_hook(pstmt, query_string, read_only_tree, context, params,
					  query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context,
								params, query_env, dest, qc);
	if (discards_all)
		tq_own_worker_forget();
}
