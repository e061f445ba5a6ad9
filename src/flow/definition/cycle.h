/*
 * cycle.h
 *		Finds cycles in the graph of a definition.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CYCLE_H
#define TQ_CYCLE_H

#include "flow/definition/problem.h"
#include "flow/definition/template_types.h"

extern void tq_cycle_tell(const TqTemplate *template, const int *left,
						  TqDefinitionProblems *problems);

#endif /* TQ_CYCLE_H */
