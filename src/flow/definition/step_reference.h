/*
 * step_reference.h
 *		Resolves references between the steps of a definition.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STEP_REFERENCE_H
#define TQ_STEP_REFERENCE_H

#include "utils/hsearch.h"

#include "flow/definition/problem.h"
#include "flow/definition/template_types.h"

extern HTAB *tq_step_reference_begin(void);
extern void tq_step_reference_note(HTAB *names, TqDefinitionProblems *problems,
								   const char *step_name, int place);
extern void tq_step_reference_list(HTAB *names, TqDefinitionProblems *problems,
								   const char *path, const JsonbValue *value,
								   TqStepList *list);
extern void tq_step_reference_branches(HTAB                 *names,
									   TqDefinitionProblems *problems,
									   TqStep *step, int place,
									   const JsonbValue *branches,
									   List            **wanted);
extern void tq_step_reference_wants(HTAB *names, TqStep *step, int place,
									const List *wanted);

#endif /* TQ_STEP_REFERENCE_H */
