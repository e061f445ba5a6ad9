/*
 * claim.h
 *		Claiming tasks.
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
#include "store/task.h"

/* The arguments of a claim. */
typedef struct TqClaim
{
	char        *queue_name;  /* NULL: all of the worker's queues */
	char        *worker_name; /* or NULL */
	int          max_tasks;
	int64        lease;       /* 0: not given */
	const int64 *incarnation; /* of the worker, or NULL */
	TqTags       tags;
	bool         tags_given;
	bool         order_given;
	TqOrder      order;
	int          reach;  /* random: number of candidates; else 0 */
	int64       *taken;  /* NULL: rows; else only the id */
	TqTask      *task;   /* NULL: rows; else the task itself */
	int32        sql_of; /* if the first task is SQL of that role; 0: any */
	TqWait      *wait;   /* NULL: the claim does not wait */
	bool         has_turn;
	uint32       turn;       /* of all attempts of a claim that waits */
	bool         deferrable; /* out: the commit need not wait for the disk */
} TqClaim;

extern int  tq_claim_max_tasks(FunctionCallInfo fcinfo, int n);
extern int  tq_claim_run(TqCall *call, TqClaim *claim, ReturnSetInfo *result);
extern bool tq_claim_is_ready(TqCall *call, const TqClaim *claim,
							  const TqQueue *queue);
extern const TqTags *tq_claim_tags(const TqClaim  *claim,
								   const TqWorker *worker);

#endif /* TQ_CLAIM_H */
