/*
 * definition.h
 *		Definitions of workflows, read and checked.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_DEFINITION_H
#define TQ_DEFINITION_H

#include "flow/definition/template.h"

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

extern TqTemplate *tq_definition_read(Jsonb *definition, int max_nesting,
									  TqProblems *problems);

/* graph.c */
extern void tq_graph_check(TqTemplate *template, int max_nesting,
						   TqProblems *problems);

/* cycle.c */
extern void tq_cycle_tell(const TqTemplate *template, const int *left,
						  TqProblems *problems);

/* wait_definition.c */
extern TqPassive *tq_passive_read(TqStepType type, TqProblems *problems,
								  const char *path, const JsonbValue *value,
								  List **wanted);

/* compensation_definition.c */
extern TqStep *tq_compensate_read(TqProblems *problems, const char *path,
								  const JsonbValue *value);
extern void    tq_compensate_finish(TqTemplate *template, int place,
									TqProblems *problems);

/* schema.c */
extern void tq_schema_check(Jsonb *schema, TqProblems *problems);
extern void tq_schema_apply(Jsonb *schema, Jsonb *document,
							TqProblems *problems);

#endif /* TQ_DEFINITION_H */
