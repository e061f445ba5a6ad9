/*
 * discard.c
 *		DISCARD ALL.
 *
 * A connection pool sends it before it gives the session to another client.
 * It clears what the session keeps for the previous client: the workers that
 * it has registered.
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

/* Also in a session that loads the library without preloading. */
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
