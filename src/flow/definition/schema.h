/*
 * schema.h
 *		Checks a workflow's input against a subset of JSON Schema.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SCHEMA_H
#define TQ_SCHEMA_H

#include "flow/definition/problem.h"

extern void tq_schema_check(Jsonb *schema, TqDefinitionProblems *problems);
extern void tq_schema_apply(Jsonb *schema, Jsonb *document,
							TqDefinitionProblems *problems);

#endif /* TQ_SCHEMA_H */
