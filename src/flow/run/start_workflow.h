/*
 * start_workflow.h
 *		taskq_start_workflow: starts an instance.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_START_WORKFLOW_H
#define TQ_START_WORKFLOW_H

#include "base/compat.h"

#include "fmgr.h"

#include "flow/instance/flow_types.h"
#include "store/table.h"

/* Positions of arguments of taskq_start_workflow. */
typedef enum TqStartArg
{
	TQ_START_NAME,
	TQ_START_INPUT,
	TQ_START_NAMESPACE,
	TQ_START_VERSION,
	TQ_START_KEY,
	TQ_START_PRIORITY,
	TQ_START_RUN_AT,
	TQ_START_CORRELATION_ID,
	TQ_START_PARENT_CORRELATION_ID,
	TQ_START_HEADERS,
	TQ_START_ON_CONFLICT,
	TQ_START_COUNT
} TqStartArg;

/* Properties of a new instance that TqFlow does not have. */
typedef struct TqBeginning
{
	char *key;                   /* NULL: no key */
	char *parent_correlation_id; /* NULL: not given */
	int64 parent_id;             /* instance of parent_task_id */
} TqBeginning;

extern int64 tq_start_workflow_run(FunctionCallInfo fcinfo);
extern void  tq_start_workflow_check(FunctionCallInfo fcinfo);
extern int   tq_start_workflow_largest_input(const TqTemplate *template);
extern char *tq_start_workflow_wrong_input(const TqFlow *flow);
extern int64 tq_start_workflow_row(TqFlow *flow, const TqBeginning *beginning,
								   Jsonb *identity);
extern void  tq_start_workflow_queues(const TqTemplate *template,
									  bool by_extension);
extern const char *tq_start_workflow_missing_queue(const TqTemplate *template);
extern void        tq_start_workflow_steps(TqCall *call, TqFlow *flow);

#endif /* TQ_START_WORKFLOW_H */
