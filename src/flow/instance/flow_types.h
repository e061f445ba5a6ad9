/*
 * flow_types.h
 *		An instance and its steps, as read from their rows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FLOW_TYPES_H
#define TQ_FLOW_TYPES_H

#include "base/code.h"
#include "flow/definition/template_types.h"

/* Values given at the start of an instance. */
typedef struct TqFlowStart
{
	TimestampTz created_at;
	TimestampTz run_at; /* 0: immediately */
	int32       started_by;
	bool        has_priority;
	int         priority;
	char       *correlation_id; /* NULL: not given */
	Jsonb      *input;
	Jsonb      *headers; /* NULL: not given */
} TqFlowStart;

/* How an instance ended. */
typedef struct TqFlowEnd
{
	TimestampTz finished_at; /* 0: not yet */
	TqReason    reason;      /* in addition to the reasons of its steps */
	bool        ended;       /* by this call */
	Jsonb      *result;      /* as written by this call; NULL: no result */
} TqFlowEnd;

/* An instance that a call works with. */
typedef struct TqFlow
{
	int64 workflow_id;
	TqTemplate *template;
	TqFlowState state;          /* when it was read */
	int64       parent_task_id; /* step that waits for it; 0: no parent */
	int         depth;          /* nesting depth below other instances */
	bool        of_moment;      /* read as the active snapshot sees it */
	TqFlowStart start;
	TqFlowEnd   end;
} TqFlow;

/* Properties of a step beyond its state. */
typedef struct TqStepFlags
{
	bool backoff; /* pending, after an attempt */
	bool ready;   /* pending, and due */
	bool in_line; /* blocked only by other tasks of its key */
	bool claimed; /* at least once */
	bool waited;  /* for something other than a worker */
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
	TimestampTz claimed_at;  /* DT_NOBEGIN: not yet claimed */
	TimestampTz finished_at; /* 0: not yet finished */
} TqStepRow;

#endif /* TQ_FLOW_TYPES_H */
