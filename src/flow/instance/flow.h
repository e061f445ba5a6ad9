/*
 * flow.h
 *		Instances of workflows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_FLOW_H
#define TQ_FLOW_H

#include "base/types.h"
#include "flow/instance/flow_types.h"
#include "store/task.h"

/* Size limit of documents for paths, and of the result of an instance. */
#define TQ_MAX_DOCUMENT ((Size) 64 * 1024 * 1024)

/* flow.c */
extern const TqStep *tq_flow_step_of(const TqTask *task, TqFlow *flow);
extern bool          tq_flow_read(int64 workflow_id, TqFlow *flow);
extern bool          tq_flow_see(int64 workflow_id, TqFlow *flow);
extern void          tq_flow_push_moment(void);
extern bool tq_flow_end(TqFlow *flow, TqFlowState state, Jsonb *result);
extern bool tq_flow_keep(int64 workflow_id);
extern bool tq_flow_revive(TqFlow *flow);
extern void tq_flow_check_identity(const TqFlow *flow);
extern int  tq_flow_steps(const TqFlow *flow, TqStepRow **made);
extern int  tq_flow_compensations(const TqFlow *flow, TqStepRow **made);
extern void tq_flow_missing(int64 workflow_id) pg_attribute_noreturn();
extern void tq_flow_require(const TqFlow *flow, TqRight right, bool on_all);
extern int  tq_flow_sight(const TqTemplate *template);
extern int  tq_flow_rights(const TqStep *step);
extern bool tq_flow_sees(const TqStep *step);
extern bool tq_flow_has_started(const TqFlow *flow);
extern int  tq_flow_look(int64 workflow_id, TqFlow *flow);
extern int  tq_flow_require_sight(const TqFlow *flow);

static inline bool
tq_flow_has_ended(const TqFlow *flow)
{
	return flow->state != TQ_FLOW_LIVE && flow->state != TQ_FLOW_COMPENSATING;
}

extern bool tq_flow_find_child(int64 task_id, TqFlow *child);

#endif /* TQ_FLOW_H */
