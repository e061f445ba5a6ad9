/*
 * claim_columns.h
 *		Data that workers get with a step: the columns of taskq_claim,
 *		taskq_dependency_results, taskq_ancestor_results.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_COLUMNS_H
#define TQ_CLAIM_COLUMNS_H

extern void tq_claim_columns_init(void);

#endif /* TQ_CLAIM_COLUMNS_H */
