/*
 * explain_step.h
 *		taskq_explain for steps of workflows.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_EXPLAIN_STEP_H
#define TQ_EXPLAIN_STEP_H

extern void tq_explain_step_init(void);

#endif /* TQ_EXPLAIN_STEP_H */
