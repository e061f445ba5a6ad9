/*
 * explain_text.h
 *		Common parts of all explanations: text for times, tags and reasons, and
 *		why background processing is off.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXPLAIN_TEXT_H
#define TQ_EXPLAIN_TEXT_H

#include "lib/stringinfo.h"

#include "base/arg.h"
#include "store/table.h"

/* All reasons; names[] in explain_text.c has the same ones. */
typedef enum TqWhy
{
	/* of finished tasks */
	TQ_WHY_DONE,
	TQ_WHY_DEAD_EXHAUSTED,
	TQ_WHY_DEAD_REJECTED,
	TQ_WHY_DEAD_DEADLINE,
	TQ_WHY_DEAD_WORKER,
	TQ_WHY_DEAD_LEASE,
	TQ_WHY_DEAD_TIMEOUT,
	TQ_WHY_DEAD_OTHERWISE,
	TQ_WHY_CANCELLED,
	TQ_WHY_FILTERED,
	TQ_WHY_REDUNDANT,
	TQ_WHY_RECREATED,
	/* of running tasks */
	TQ_WHY_LOST_LEASE,
	TQ_WHY_LOST_TIME,
	TQ_WHY_LOST_WORKER,
	TQ_WHY_CANCEL_REQUESTED,
	TQ_WHY_WORKER_STALE,
	TQ_WHY_RUNS_BY_WORKER,
	TQ_WHY_RUNS_BY_LABEL,
	TQ_WHY_RUNS_BY_NOBODY,
	/* of waiting tasks */
	TQ_WHY_SUSPENDED,
	TQ_WHY_BLOCKED,
	TQ_WHY_BUSY,
	TQ_WHY_DEADLINE_PAST,
	TQ_WHY_RETRY_LATER,
	TQ_WHY_NOT_DUE,
	TQ_WHY_NO_WORKER,
	TQ_WHY_OTHER_TAGS,
	TQ_WHY_WORKERS_DEAD,
	TQ_WHY_WORKERS_STALE,
	TQ_WHY_WORKERS_DRAINING,
	TQ_WHY_WORKERS_FULL,
	TQ_WHY_READY_BEHIND,
	TQ_WHY_READY_NEXT,
	/* of steps of workflows */
	TQ_WHY_STEP_PARENTS,
	TQ_WHY_STEP_FAILED,
	TQ_WHY_STEP_CHOICE,
	TQ_WHY_STEP_SIGNAL,
	TQ_WHY_STEP_APPROVAL,
	TQ_WHY_STEP_TIMER,
	TQ_WHY_STEP_WORKFLOW,
	TQ_WHY_STEP_STOPPED,
	TQ_WHY_STEP_OVER,
	/* of tasks and claims */
	TQ_WHY_PAUSED_ALL,
	TQ_WHY_PAUSED,
	TQ_WHY_LIMIT_NOT_PRELOADED,
	TQ_WHY_QUEUE_LIMIT,
	TQ_WHY_RATE_LIMIT,
	/* of claims */
	TQ_WHY_CLAIM_STANDBY,
	TQ_WHY_CLAIM_NO_QUEUE,
	TQ_WHY_CLAIM_QUEUE_REFUSED,
	TQ_WHY_CLAIM_NO_QUEUES,
	TQ_WHY_CLAIM_NO_RIGHT,
	TQ_WHY_CLAIM_WORKER_UNKNOWN,
	TQ_WHY_CLAIM_WORKER_DEAD,
	TQ_WHY_CLAIM_WORKER_DRAINING,
	TQ_WHY_CLAIM_WORKER_LIMIT,
	TQ_WHY_CLAIM_GETS,
	TQ_WHY_CLAIM_TOO_MANY,
	TQ_WHY_CLAIM_BUSY,
	TQ_WHY_CLAIM_DEADLINE,
	TQ_WHY_CLAIM_OTHER_TAGS,
	TQ_WHY_CLAIM_LATER,
	TQ_WHY_CLAIM_LATER_OTHER_TAGS,
	TQ_WHY_CLAIM_ALL_RUNNING,
	TQ_WHY_CLAIM_NONE_PENDING,
	TQ_WHY_CLAIM_EMPTY,
	/* why background processing is off, added to other reasons */
	TQ_WHY_NOT_PRELOADED,
	TQ_WHY_NOT_ACTIVATED,
	TQ_WHY_NO_BACKGROUND_WORKER,
	/* added to other reasons */
	TQ_WHY_DEADLINE_AHEAD,
	TQ_WHY_WAITERS,
	TQ_WHY_CLAIM_WAITERS
} TqWhy;

#define TQ_WHY_LAST TQ_WHY_CLAIM_WAITERS

/* An explanation while it is written. */
typedef struct TqExplain
{
	StringInfoData text;
	TqCall         call;
	bool           words; /* messages and errors may be shown */
	bool           names; /* and holders of tasks */
} TqExplain;

extern void  tq_explain_because(TqWhy why);
extern char *tq_explain_time(TimestampTz at);
extern char *tq_explain_span(int64 span);
extern char *tq_explain_tags(const TqTags *tags);
extern void  tq_explain_words(TqExplain *e, const char *before,
							  const char *words);
extern bool  tq_explain_upkeep(TqExplain *e, const char *before);
extern void  tq_explain_deadline_duty(TqExplain *e);

#endif /* TQ_EXPLAIN_TEXT_H */
