/*
 * flow_types.h
 *		An instance and its steps, as their rows say.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FLOW_TYPES_H
#define TQ_FLOW_TYPES_H

#include "base/code.h"
#include "flow/definition/template_types.h"

/* What an instance begins with. */
typedef struct TqFlowStart
{
	TimestampTz created_at;
	TimestampTz run_at; /* 0: at once */
	int32       started_by;
	bool        has_priority;
	int         priority;
	char       *correlation_id; /* NULL: none */
	Jsonb      *input;
	Jsonb      *headers; /* NULL: none */
} TqFlowStart;

/* What an instance ends with. */
typedef struct TqFlowEnd
{
	TimestampTz finished_at; /* 0: it has not ended */
	TqReason    reason;      /* beside what its steps say */
	bool        ended;       /* by this call */
	Jsonb      *result;      /* as this call has written it; NULL: none */
} TqFlowEnd;

/* An instance that a call works with. */
typedef struct TqFlow
{
	int64 workflow_id;
	TqTemplate *template;
	TqFlowState state;          /* as it was read */
	int64       parent_task_id; /* step that waits for it; 0: none */
	int         depth;          /* instances around it */
	bool        of_moment; /* what the active snapshot sees, not what is */
	TqFlowStart start;
	TqFlowEnd   end;
} TqFlow;

/* More about a step than its state says. */
typedef struct TqStepFlags
{
	bool backoff; /* pending, and has been tried */
	bool ready;   /* pending, and due */
	bool in_line; /* blocked, by others of its key alone */
	bool claimed; /* at least once */
	bool waited;  /* for what no worker does */
} TqStepFlags;

/* A step that has been made. */
typedef struct TqStepRow
{
	int32       step_id;
	int64       task_id;
	TqState     state;
	TqReason    reason;
	TqStepFlags is;
	int32       queue_id;
	int32       attempt;
	TimestampTz created_at;
	TimestampTz claimed_at;  /* DT_NOBEGIN: not yet */
	TimestampTz finished_at; /* 0: not yet */
} TqStepRow;

#endif /* TQ_FLOW_TYPES_H */
