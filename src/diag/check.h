/*
 * check.h
 *		taskq_check(): what its parts share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHECK_H
#define TQ_CHECK_H

#include "base/compat.h"

#include "nodes/execnodes.h"

extern void tq_check_report(ReturnSetInfo *result, const char *problem,
							const char *format, ...) pg_attribute_printf(3, 4);
extern void tq_check_pause(int ms);

/* check_rows.c: what SQL cannot compare */
extern void tq_check_options(ReturnSetInfo *result);
extern void tq_check_lanes(ReturnSetInfo *result);
extern void tq_check_history(ReturnSetInfo *result);
extern void tq_check_indexes(ReturnSetInfo *result);

/* check_memory.c: shared memory against tables */
extern void tq_check_registry(ReturnSetInfo *result);
extern void tq_check_numbers(ReturnSetInfo *result);
extern void tq_check_reserved(ReturnSetInfo *result);
extern void tq_check_slots(ReturnSetInfo *result);
extern void tq_check_bound(ReturnSetInfo *result);

#endif /* TQ_CHECK_H */
