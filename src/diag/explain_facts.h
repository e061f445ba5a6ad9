/*
 * explain_facts.h
 *		Facts for explanations: pauses, limits, holders of tasks.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXPLAIN_FACTS_H
#define TQ_EXPLAIN_FACTS_H

#include "lib/stringinfo.h"

#include "cache/queue.h"
#include "diag/explain_text.h"
#include "store/task.h"

/* The live tasks of a queue, as far as they were read. */
#define TQ_HOLDERS 64

typedef struct TqHolder
{
	int32 worker_id;
	int   tasks;
} TqHolder;

typedef struct TqSurvey
{
	int64    live[TQ_STATE_SUSPENDED + 1]; /* by state */
	bool     complete;
	int      holder_count;
	TqHolder holders[TQ_HOLDERS];
} TqSurvey;

extern bool tq_explain_paused(TqExplain *e, const TqQueue *queue);
extern bool tq_explain_refused(TqExplain *e, const TqQueue *queue);
extern bool tq_explain_limited(TqExplain *e, const TqQueue *queue);
extern bool tq_explain_worker_used(int32 worker_id, int max, bool walk,
								   int64 *used);
extern void tq_explain_survey(TqExplain *e, const TqQueue *queue,
							  TqSurvey *survey);
extern void tq_explain_holders(TqExplain *e, const TqSurvey *survey);
extern void tq_explain_task_tags(const TqTask *task, TqTags *tags);
extern bool tq_explain_waiters(TqExplain *e, int count, const char *what);
extern void tq_explain_which(TqExplain *e, const TqTask *task);
extern bool tq_explain_step(TqExplain *e, const TqTask *task);

#endif /* TQ_EXPLAIN_FACTS_H */
