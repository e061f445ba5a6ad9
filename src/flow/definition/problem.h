/*
 * problem.h
 *		Problems of a definition.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PROBLEM_H
#define TQ_PROBLEM_H

#include "base/compat.h"

/* A problem of a definition or a document. */
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
	int                  unbuilt;  /* number of unsupported members */
	bool                 no_graph; /* step names are missing or unresolved */
} TqDefinitionProblems;

#define TQ_MAX_PROBLEMS 1000 /* kept and reported */

extern void  tq_problem(TqDefinitionProblems *problems, const char *path,
						const char *format, ...) pg_attribute_printf(3, 4);
extern void  tq_problem_raise(const TqDefinitionProblems *problems,
							  const char *message) pg_attribute_noreturn();
extern char *tq_problem_detail(const TqDefinitionProblems *problems);

#endif /* TQ_PROBLEM_H */
