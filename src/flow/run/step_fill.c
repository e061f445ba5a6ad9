/*
 * step_fill.c
 *		Patterns of a step, filled; and what it dies of when that fails.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "engine/failure.h"
#include "flow/definition/value.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/run/step_fill.h"

/* A pattern of a step, filled; false, and words, when that cannot be done. */
bool
tq_step_fill(const TqFlow *flow, const TqStep *step, Jsonb *pattern,
			 Jsonb **result, char **wrong)
{
	Jsonb *document = tq_results_document(flow, step);

	*result = NULL;
	if (document == NULL)
		*wrong = TQ_STEP_FILL_TOO_LARGE;
	else
		*result = tq_value_fill(pattern, document, wrong);
	return *result != NULL;
}

/* It dies of what was written into its definition, or its result. */
void
tq_step_fill_reject(TqTask *task, TqMove *move, const char *words)
{
	tq_failure_add_error(task, words, NULL, NULL);
	move->to = TQ_STATE_DEAD;
	move->reason = TQ_REASON_REJECTED;
	move->due_at = 0;
}
