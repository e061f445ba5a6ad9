/*
 * problem.h
 *		What is wrong with a definition.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PROBLEM_H
#define TQ_PROBLEM_H

#include "base/compat.h"

/* What is wrong with a definition, or a document. */
typedef struct TqDefinitionProblem
{
	char *path;
	char *words;
} TqDefinitionProblem;

typedef struct TqDefinitionProblems
{
	int                  count;
	int                  room;
	TqDefinitionProblem *all;
	int                  unbuilt; /* of them: members that are not built yet */
	bool no_graph; /* names of steps are missing, or lead nowhere */
} TqDefinitionProblems;

#define TQ_MAX_PROBLEMS 1000 /* that are told */

extern void  tq_problem(TqDefinitionProblems *problems, const char *path,
						const char *format, ...) pg_attribute_printf(3, 4);
extern void  tq_problem_raise(const TqDefinitionProblems *problems,
							  const char *message) pg_attribute_noreturn();
extern char *tq_problem_detail(const TqDefinitionProblems *problems);

#endif /* TQ_PROBLEM_H */
