/*
 * change_problem.h
 *		All problems of a change, in one error.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHANGE_PROBLEM_H
#define TQ_CHANGE_PROBLEM_H

#include "change/change_set.h"

extern void tq_change_problem(TqChange *change, TqChangeProblem which,
							  const char *format, ...)
	pg_attribute_printf(3, 4);
extern void tq_change_bug(TqChange *change, const TqEntry *entry,
						  const char *words);
extern void tq_change_twice(TqChange *change, const char *what,
							const TqEntry *a, const TqEntry *b);
extern void tq_change_collision(TqChange *change, TqChangeProblem which,
								const char *name);
extern void tq_change_end_if_any(const TqChange *change);

#endif /* TQ_CHANGE_PROBLEM_H */
