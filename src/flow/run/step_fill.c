/*
 * step_fill.c
 *		Evaluates the patterns of a step, and rejects the step if that fails.
 *
 * A pattern of a definition (payload, input, key, time) may select from the
 * instance's input and from results of earlier steps.  A path that finds no
 * item is an error in the data, not an error of the caller: the step becomes
 * dead with reason rejected, and the transaction that made it ready continues.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "engine/failure.h"
#include "flow/definition/value.h"
#include "flow/instance/flow_types.h"
#include "flow/instance/results.h"
#include "flow/run/step_fill.h"

/*
 * Fill a pattern of a step.  Returns false and sets *wrong if that is not
 * possible.
 */
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

/* Make the step dead because of its definition or its result. */
void
tq_step_fill_reject(TqTask *task, TqMove *move, const char *words)
{
	tq_failure_add_error(task, words, NULL, NULL);
	move->to = TQ_STATE_DEAD;
	move->reason = TQ_REASON_REJECTED;
	move->due_at = 0;
}
