/*
 * step_rule.h
 *		Rules for one step that follow from its template and its state.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_RULE_H
#define TQ_STEP_RULE_H

#include "flow/instance/flow_types.h"

extern bool tq_step_rule_has_begun(const TqStep *step, TqState state,
								   TqReason reason, bool claimed, bool waited);
extern bool tq_step_rule_stops(const TqFlow *flow);
extern bool tq_step_rule_ends_batch(const TqTemplate *template,
									const TqStep *step);
extern bool tq_step_rule_is_excused(const TqTemplate *template, int32 step_id);
extern bool tq_step_rule_passes_on(const TqTemplate *template, int32 step_id);
extern bool tq_step_rule_is_passed(const TqTemplate *template, int32 step_id,
								   TqState state);

#endif /* TQ_STEP_RULE_H */
