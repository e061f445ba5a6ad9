/*
 * graph.h
 *		Checks the graph of a definition's steps.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_GRAPH_H
#define TQ_GRAPH_H

#include "flow/definition/problem.h"
#include "flow/definition/template_types.h"

extern void tq_graph_check(TqTemplate *template, int max_nesting,
						   TqDefinitionProblems *problems);

#endif /* TQ_GRAPH_H */
