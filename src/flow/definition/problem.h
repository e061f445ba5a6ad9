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
typedef struct TqFault
{
	char *path;
	char *words;
} TqFault;

typedef struct TqProblems
{
	int      count;
	int      room;
	TqFault *all;
	int      unbuilt;  /* of them: members that are not built yet */
	bool     no_graph; /* names of steps are missing, or lead nowhere */
} TqProblems;

#define TQ_MAX_PROBLEMS 1000 /* that are told */

extern void tq_problem(TqProblems *problems, const char *path,
					   const char *format, ...) pg_attribute_printf(3, 4);
extern void tq_problems_raise(const TqProblems *problems, const char *message)
	pg_attribute_noreturn();
extern char * tq_problem_detail(const TqProblems *problems);

#endif /* TQ_PROBLEM_H */
