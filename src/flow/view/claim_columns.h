/*
 * claim_columns.h
 *		What a worker is told of a step: taskq_claim's columns,
 *		taskq_dependency_results, taskq_ancestor_results.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CLAIM_COLUMNS_H
#define TQ_CLAIM_COLUMNS_H

extern void tq_claim_columns_init(void);

#endif /* TQ_CLAIM_COLUMNS_H */
