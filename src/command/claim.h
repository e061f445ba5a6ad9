/*
 * claim.h
 *		Tasks are handed out.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_H
#define TQ_CLAIM_H

#include "nodes/execnodes.h"

#include "base/arg.h"
#include "cache/options.h"
#include "engine/wait.h"
#include "store/table.h"

/* The arguments of a claim. */
typedef struct TqClaim
{
	char        *queue_name;  /* NULL: all of the worker's */
	char        *worker_name; /* NULL: none */
	int          max_tasks;
	int64        lease;       /* 0: not given */
	const int64 *incarnation; /* of the worker; NULL: not given */
	TqTags       tags;
	bool         tags_given;
	bool         order_given;
	TqOrder      order;
	int          reach; /* of order random: among so many; 0: as queues do */
	int64       *taken; /* the task's id comes here, and no rows; NULL: rows */
	TqWait      *wait;  /* NULL: it does not wait */
	bool         has_turn;
	uint32       turn; /* of all looks of one that waits */
} TqClaim;

extern int  tq_claim_max_tasks(FunctionCallInfo fcinfo, int n);
extern int  tq_claim_run(TqCall *call, TqClaim *claim, ReturnSetInfo *result);
extern bool tq_claim_is_ready(TqCall *call, const TqClaim *claim,
							  const TqQueue *queue);
extern const TqTags *tq_claim_tags(const TqClaim  *claim,
								   const TqWorker *worker);

#endif /* TQ_CLAIM_H */
