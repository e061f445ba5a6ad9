/*
 * compensation_definition.h
 *		Reads the compensation of a step from a definition.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COMPENSATION_DEFINITION_H
#define TQ_COMPENSATION_DEFINITION_H

#include "flow/definition/problem.h"
#include "flow/definition/template_types.h"

extern TqStep *tq_compensation_definition_read(TqDefinitionProblems *problems,
											   const char           *path,
											   const JsonbValue     *value);
extern void tq_compensation_definition_finish(TqTemplate *template, int place,
											  TqDefinitionProblems *problems);

#endif /* TQ_COMPENSATION_DEFINITION_H */
