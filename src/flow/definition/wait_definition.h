/*
 * wait_definition.h
 *		Reads what a step without a worker waits for, from the members
 *		workflow, signal and timer.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WAIT_DEFINITION_H
#define TQ_WAIT_DEFINITION_H

#include "flow/definition/problem.h"
#include "flow/definition/template_types.h"

extern TqWaitDefinition *tq_wait_definition_read(
	TqStepType type, TqDefinitionProblems *problems, const char *path,
	const JsonbValue *value, List **wanted);

#endif /* TQ_WAIT_DEFINITION_H */
