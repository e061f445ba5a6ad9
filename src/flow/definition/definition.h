/*
 * definition.h
 *		Reads and checks definitions of workflows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEFINITION_H
#define TQ_DEFINITION_H

#include "flow/definition/problem.h"
#include "flow/definition/template_types.h"

extern TqTemplate *tq_definition_read(Jsonb *definition, int max_nesting,
									  TqDefinitionProblems *problems);

extern const char *tq_definition_step_type(TqStepType type);

#endif /* TQ_DEFINITION_H */
