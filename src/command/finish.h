/*
 * finish.h
 *		The end of an attempt.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FINISH_H
#define TQ_FINISH_H

#include "base/code.h"
#include "cache/keep.h"
#include "store/table.h"
#include "store/task.h"

typedef enum TqFinishKind
{
	TQ_FINISH_COMPLETE,
	TQ_FINISH_FAIL,
	TQ_FINISH_RELEASE,
	TQ_FINISH_SUSPEND,
	TQ_FINISH_FILTER
} TqFinishKind;

/* What a worker decides about an attempt. */
typedef struct TqDecision
{
	TqFinishKind outcome;
	Jsonb       *result;
	TqTrace      trace;
	char        *error; /* of FAIL */
	Jsonb       *detail;
	bool         retryable;
	int64        retry_in; /* below 0: use the backoff */
	int64        delay;    /* of RELEASE */
	char        *message;
} TqDecision;

extern int  tq_finish_decide(TqCall *call, int64 task_id, int64 token,
							 const TqDecision *decision, bool raise,
							 TqState *state);
extern int  tq_finish_extend(TqCall *call, int64 task_id, int64 token,
							 int64 lease, bool raise, TqTask *task);
extern void tq_finish_check_detail(Jsonb *detail);

#endif /* TQ_FINISH_H */
