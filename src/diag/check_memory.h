/*
 * check_memory.h
 *		taskq_check(): does shared memory agree with the tables?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHECK_MEMORY_H
#define TQ_CHECK_MEMORY_H

extern void tq_check_registry(ReturnSetInfo *result);
extern void tq_check_numbers(ReturnSetInfo *result);
extern void tq_check_reserved(ReturnSetInfo *result);
extern void tq_check_slots(ReturnSetInfo *result);
extern void tq_check_leaked(ReturnSetInfo *result);
extern void tq_check_bound(ReturnSetInfo *result);

#endif /* TQ_CHECK_MEMORY_H */
