/*
 * flow.h
 *		Instances of workflows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FLOW_H
#define TQ_FLOW_H

#include "nodes/bitmapset.h"

#include "engine/state.h"
#include "engine/step.h"
#include "flow/definition/template.h"
#include "flow/definition/value.h"
#include "flow/instance/edge.h"
#include "store/row.h"

/* Largest document that paths look at, or that an instance ends with. */
#define TQ_MAX_DOCUMENT ((Size) 64 * 1024 * 1024)

/* What an instance is, as its row says; 0 is for its steps to say. */
typedef enum TqFlowState
{
	TQ_FLOW_LIVE = 0,
	TQ_FLOW_DONE = 1,
	TQ_FLOW_RESOLVED = 2,
	TQ_FLOW_ERROR = 3,
	TQ_FLOW_CANCELLED = 4,
	TQ_FLOW_COMPENSATING = 5 /* has failed, and has not ended */
} TqFlowState;

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
typedef struct TqMade
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
} TqMade;

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
typedef struct TqKnown
{
	bool *exists; /* it is there, or will be */
	bool *ended;  /* of decisions and batches: the choice is made */
	bool *stands; /* it is not, and nobody else is about to make it */
} TqKnown;

/* Choices that are taken back, and what is there meanwhile. */
typedef struct TqUnmaking
{
	int        count;
	TqMade    *made;  /* as it was; NULL: not read yet */
	bool      *again; /* by places: steps that wait again, or are about to */
	bool      *gone;  /* by places: what was taken back */
	TqNewEdges kept;  /* to what stays, from what has ended and is gone */
} TqUnmaking;

/* What a decision has chosen, or a batch wants to be done. */
typedef struct TqChoice
{
	TqStepList steps;
	int        member_count;
	Jsonb    **members; /* their payloads */
} TqChoice;

/* template.c */
extern void tq_template_init(void);

/* flow.c */
extern const TqStep *tq_flow_step_of(const TqTask *task, TqFlow *flow);
extern bool          tq_flow_read(int64 workflow_id, TqFlow *flow);
extern bool          tq_flow_see(int64 workflow_id, TqFlow *flow);
extern void          tq_flow_push_moment(void);
extern bool tq_flow_end(TqFlow *flow, TqFlowState state, Jsonb *result);
extern bool tq_flow_keep(int64 workflow_id);
extern bool tq_flow_revive(TqFlow *flow);
extern int  tq_flow_steps(const TqFlow *flow, TqMade **made);
extern int  tq_flow_compensations(const TqFlow *flow, TqMade **made);
extern void tq_flow_no_template(const char *space, const char *name,
								const char *version) pg_attribute_noreturn();
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

/* start_workflow.c */
extern int   tq_start_largest_input(const TqTemplate *template);
extern char *tq_start_wrong_input(const TqFlow *flow);
extern void  tq_start_exists(const char *name, int64 holder, const char *hint)
	pg_attribute_noreturn();
extern int64 tq_start_row(TqFlow *flow, const TqBeginning *beginning,
						  Jsonb *identity);
extern void  tq_start_queues(const TqTemplate *template, bool by_extension);
extern const char *tq_start_missing_queue(const TqTemplate *template);
extern void        tq_start_steps(TqCall *call, TqFlow *flow);

/* identity.c */
extern Jsonb *tq_identity(const TqFlow *flow, const char *key);
extern Jsonb *tq_identity_of(const TqFlow *flow);
extern int64  tq_identity_holder(Jsonb *identity, int64 but);
extern bool   tq_identity_is_busy(Jsonb *identity);

/* cancel_workflow.c */
extern bool tq_cancel(TqCall *call, TqFlow *flow, char *message);

/* child.c */
extern void tq_child_begin(TqCall *call, TqFlow *flow, int64 task_id);
extern void tq_child_ended(TqCall *call, const TqFlow *flow);
extern void tq_child_revived(TqCall *call, const TqFlow *flow);
extern bool tq_child_find(int64 task_id, TqFlow *child);
extern bool tq_child_cancel(TqCall *call, int64 task_id);

/* results.c */
extern Jsonb *tq_results_of(int64 workflow_id, const TqTemplate *template,
							const TqStepList *steps, Size max);
extern Jsonb *tq_results_told(int64 workflow_id, const TqTemplate *template,
							  const TqStep *step, Size max);
extern Jsonb *tq_results_of_step(int64 task_id);
extern Jsonb *tq_results_seen(int64 task_id);
extern Jsonb *tq_results_error(const char *error);
extern Jsonb *tq_results_document(const TqFlow *flow, const TqStep *step);
extern char  *tq_results_name(const TqTemplate *template, int32 step_id);

/* step_make.c */
extern void tq_make_steps(TqCall *call, TqFlow *flow, TqNewStep *new,
						  int count, const TqNewEdges *edges);
extern bool tq_make_fill(const TqFlow *flow, const TqStep *step,
						 Jsonb *pattern, Jsonb **result, char **wrong);
extern void tq_make_reject(TqTask *task, TqMove *move, const char *words);
extern void tq_make_begin(TqFlow *flow, const TqStep *step, TqQueue *queue,
						  TqTask *task, TqMove *move);

/* step_plan.c */
extern void     tq_plan_start(TqFlow *flow, TqPlan *plan);
extern TqKnown *tq_plan_nothing(const TqTemplate *template);
extern TqKnown *tq_plan_known(const TqFlow *flow, const Bitmapset *to_come);
extern bool     tq_plan_after(TqFlow *flow, TqKnown *known, TqEdges *edges,
							  int place, const TqChoice *choice,
							  const Bitmapset *to_come, TqPlan *plan,
							  TransactionId *other);
extern void     tq_plan_note(TqKnown *known, const TqMade *made);
extern void  tq_plan_without(TqFlow *flow, TqKnown *known, const bool *below);
extern void  tq_plan_add_below(const TqTemplate *template, int place,
							   bool *below);
extern bool *tq_plan_below(const TqTemplate *template, int place);
extern bool *tq_plan_above(const TqTemplate *template, int place);

/* choice.c */
extern char  *tq_decide_read(const TqTemplate *template, int place,
							 Jsonb *result, TqChoice *choice);
extern void   tq_decide_refuse(const TqStep *step, int64 task_id,
							   const char *wrong) pg_attribute_noreturn();
extern void   tq_decide_note_large(List **all, const TqTemplate *template,
								   int place, int64 task_id);
extern void   tq_decide_warn(const TqFlow *flow, const List *all);
extern Jsonb *tq_decide_branches(const TqStep *step,
								 const TqTemplate *template, Jsonb *document,
								 char **wrong);

/* explain_step.c */
extern void tq_flow_explain_init(void);

/* instance_lock.c */
extern bool tq_gate_pass(TqCall *call, const TqFlow *flow, const TqStep *step,
						 TqGateKind kind);
extern void tq_gate_pass_all(TqCall *call, const int64 *ids,
							 const int64 *tokens, const TqGateKind *kinds,
							 int count, int right);
extern void tq_gate_alone(int64 workflow_id);

/* state_hook.c */
extern void tq_door_init(void);

/* undo_choice.c */
extern bool tq_unmake(TqCall *call, TqFlow *flow, TqUnmaking *all,
					  const bool *below);

/* repair.c */
extern bool tq_repair_has_begun(const TqStep *step, TqState state,
								TqReason reason, bool claimed, bool waited);
extern void tq_repair(TqCall *call, TqTask *task, TqMove *move);
extern void tq_repair_waiting(const TqTask *task, TqMove *move);

/* wait_step.c */
extern void tq_passive_init(void);

/* advance.c */
extern void tq_advance_begin(TqCall *call, TqFlow *flow, const TqPlan *plan);

/* claim_columns.c */
extern void tq_carry_init(void);

/* expire.c */
extern void tq_expire_init(void);

#endif /* TQ_FLOW_H */
