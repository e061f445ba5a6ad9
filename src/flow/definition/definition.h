/*
 * definition.h
 *		Definitions of workflows, read and checked.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEFINITION_H
#define TQ_DEFINITION_H

#include "flow/definition/template.h"
#include "flow/definition/problem.h"

extern TqTemplate *tq_definition_read(Jsonb *definition, int max_nesting,
									  TqDefinitionProblems *problems);

extern const char *tq_step_type_name(TqStepType type);
extern int tq_template_step(const TqTemplate *template, const char *name,
							int length);

#endif /* TQ_DEFINITION_H */
