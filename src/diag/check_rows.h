/*
 * check_rows.h
 *		taskq_check(): comparisons that SQL cannot make.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHECK_ROWS_H
#define TQ_CHECK_ROWS_H

extern void tq_check_options(ReturnSetInfo *result);
extern void tq_check_lanes(ReturnSetInfo *result);
extern void tq_check_history(ReturnSetInfo *result);
extern void tq_check_indexes(ReturnSetInfo *result);

#endif /* TQ_CHECK_ROWS_H */
