/*
 * explain_past.h
 *		The past of a task: who held it, who changed its state, and with what
 *		message.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXPLAIN_PAST_H
#define TQ_EXPLAIN_PAST_H

#include "base/code.h"
#include "diag/explain_text.h"
#include "store/task.h"

/* The holder of a running task, or the former holder of a finished one. */
typedef struct TqExplainHolder
{
	char         *name; /* NULL: a claim without a worker name */
	TqWorkerState state;
	TimestampTz   ended_at;
	bool          bound; /* to a connection */
	bool          seen;  /* is it known when? */
	int64         silent;
} TqExplainHolder;

/* The change to the task's current state, if the queue writes history. */
typedef struct TqExplainChange
{
	bool        known;
	TimestampTz at;
	char       *role;
	char       *message;
} TqExplainChange;

extern void  tq_explain_read_holder(const TqTask    *task,
									TqExplainHolder *holder);
extern void  tq_explain_read_change(const TqTask    *task,
									TqExplainChange *change);
extern char *tq_explain_message(TqTask *task);
extern char *tq_explain_error(TqTask *task);
extern void  tq_explain_whom(TqExplain *e, const TqExplainHolder *holder);
extern void  tq_explain_role(TqExplain *e, const TqExplainChange *change);
extern void  tq_explain_last_error(TqExplain *e, TqTask *task);

#endif /* TQ_EXPLAIN_PAST_H */
