/*
 * results.h
 *		Results of steps, for the steps that come after them.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_RESULTS_H
#define TQ_RESULTS_H

#include "flow/instance/flow_types.h"

extern Jsonb *tq_results_shown(int64 workflow_id, const TqTemplate *template,
							   const TqStepList *steps, Size max);
extern Jsonb *tq_results_of(int64 workflow_id, const TqTemplate *template,
							const TqStepList *steps, Size max);
extern Jsonb *tq_results_told(int64 workflow_id, const TqTemplate *template,
							  const TqStep *step, Size max);
extern Jsonb *tq_results_of_step(int64 task_id);
extern Jsonb *tq_results_seen(int64 task_id);
extern Jsonb *tq_results_error(const char *error);
extern Jsonb *tq_results_document(const TqFlow *flow, const TqStep *step);
extern char  *tq_results_name(const TqTemplate *template, int32 step_id);

#endif /* TQ_RESULTS_H */
