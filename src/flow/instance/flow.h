/*
 * flow.h
 *		Instances of workflows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FLOW_H
#define TQ_FLOW_H

#include "nodes/bitmapset.h"

#include "base/types.h"
#include "flow/definition/template.h"
#include "flow/instance/edge.h"
#include "store/task.h"

/* Largest document that paths look at, or that an instance ends with. */
#define TQ_MAX_DOCUMENT ((Size) 64 * 1024 * 1024)

/* An instance that a call works with. */
typedef struct TqFlow
{
	int64 workflow_id;
	TqTemplate *template;
	TqFlowState state; /* as it was read */
	TimestampTz created_at;
	TimestampTz finished_at; /* 0: it has not ended */
	TimestampTz run_at;      /* 0: at once */
	int32       started_by;
	bool        has_priority;
	int         priority;
	char       *correlation_id; /* NULL: none */
	Jsonb      *input;
	Jsonb      *headers;        /* NULL: none */
	int64       parent_task_id; /* step that waits for it; 0: none */
	int         depth;          /* instances around it */
	TqReason    reason;         /* of its end, beside what its steps say */
	bool        of_moment; /* what the active snapshot sees, not what is */

	/* what the call has done with it */
	bool   ended;
	Jsonb *result; /* of the end; NULL: none */
} TqFlow;

/* What is said of an instance when it begins, beside what it is. */
typedef struct TqBeginning
{
	char *key;                   /* NULL: none */
	char *parent_correlation_id; /* NULL: none */
	int64 parent_id;             /* instance of parent_task_id */
} TqBeginning;

/* A step that has been made. */
typedef struct TqStepRow
{
	int32       step_id;
	int64       task_id;
	TqState     state;
	TqReason    reason;
	bool        backoff; /* pending, and has been tried */
	bool        ready;   /* pending, and due */
	bool        in_line; /* blocked, by others of its key alone */
	bool        claimed; /* at least once */
	bool        waited;  /* for what no worker does */
	int32       queue_id;
	int32       attempt;
	TimestampTz created_at;
	TimestampTz claimed_at;  /* DT_NOBEGIN: not yet */
	TimestampTz finished_at; /* 0: not yet */
} TqStepRow;

/* A step that is to be made. */
typedef struct TqNewStep
{
	int32  step_id;
	Jsonb *payload; /* of a member of a batch; NULL: as the step says */
	bool   free;    /* it waits for nothing */
	bool   judged;  /* and has to be let go all the same */
} TqNewStep;

/* What is to be made at once. */
typedef struct TqPlan
{
	int        count;
	int        room;
	TqNewStep *steps;
	TqNewEdges edges;
} TqPlan;

/* What is known of an instance while choices are made in it, by places. */
typedef struct TqPlanView
{
	bool *exists; /* it is there, or will be */
	bool *ended;  /* of decisions and batches: the choice is made */
	bool *stands; /* it is not, and nobody else is about to make it */
} TqPlanView;

/* Choices that are taken back, and what is there meanwhile. */
typedef struct TqUndo
{
	int        count;
	TqStepRow *made;  /* as it was; NULL: not read yet */
	bool      *again; /* by places: steps that wait again, or are about to */
	bool      *gone;  /* by places: what was taken back */
	TqNewEdges kept;  /* to what stays, from what has ended and is gone */
} TqUndo;

/* What a decision has chosen, or a batch wants to be done. */
typedef struct TqChoice
{
	TqStepList steps;
	int        member_count;
	Jsonb    **members; /* their payloads */
} TqChoice;

/* flow.c */
extern const TqStep *tq_flow_step_of(const TqTask *task, TqFlow *flow);
extern bool          tq_flow_read(int64 workflow_id, TqFlow *flow);
extern bool          tq_flow_see(int64 workflow_id, TqFlow *flow);
extern void          tq_flow_push_moment(void);
extern bool tq_flow_end(TqFlow *flow, TqFlowState state, Jsonb *result);
extern bool tq_flow_keep(int64 workflow_id);
extern bool tq_flow_revive(TqFlow *flow);
extern int  tq_flow_steps(const TqFlow *flow, TqStepRow **made);
extern int  tq_flow_compensations(const TqFlow *flow, TqStepRow **made);
extern void tq_flow_missing(int64 workflow_id) pg_attribute_noreturn();
extern void tq_flow_require(const TqFlow *flow, TqRight right, bool on_all);
extern int  tq_flow_sight(const TqTemplate *template);
extern int  tq_flow_rights(const TqStep *step);
extern bool tq_flow_sees(const TqStep *step);
extern bool tq_flow_has_started(const TqFlow *flow);
extern int  tq_flow_look(int64 workflow_id, TqFlow *flow);

static inline bool
tq_flow_has_ended(const TqFlow *flow)
{
	return flow->state != TQ_FLOW_LIVE && flow->state != TQ_FLOW_COMPENSATING;
}

/* child.c */
extern bool tq_flow_find_child(int64 task_id, TqFlow *child);

#endif /* TQ_FLOW_H */
